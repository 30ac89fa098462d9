//! Tests of the cluster with real NATS servers: the conformance tests that every store must pass, and tests of faults,
//! authentication, nodes, the queue and the RPC.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

#[path = "../../../store/tests/store/conformance.rs"]
#[macro_use]
mod conformance;
mod authentication;
mod faults;
mod nodes;
mod queue;
mod rpc;
mod servers;

use servers::Used;

every_behaviour!(one_server, crate::servers::fresh(1).await);

/// Runs the conformance tests one after another on the same servers, because new servers need seconds to elect a
/// leader.
macro_rules! sequentially {
    ($name:ident, $servers:expr, [$($behaviour:ident),* $(,)?]) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let servers = $servers;
            // Unless the full test suite runs, run only the tests of concurrent writers: all tests take long on three
            // servers.
            const SOME: &str = "key_is_written_once idempotency_key audit_log fences_the";
            $(
                let name = stringify!($behaviour);
                if servers::count(0, 1) == 1 || SOME.split(' ').any(|some| name.contains(some)) {
                    conformance::$behaviour(servers.store(name).await).await;
                }
            )*
        }
    };
}

with_all!(sequentially, three_servers_pass_conformance, servers::Servers::start(3));
