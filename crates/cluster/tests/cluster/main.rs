//! The store on the servers of a cluster: what every store must do, and what only servers can get wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "../../../store/tests/store/conformance.rs"]
#[macro_use]
mod conformance;
mod asking;
mod doors;
mod faults;
mod nodes;
mod queue;
mod servers;

use servers::Used;

every_behaviour!(one_server, crate::servers::fresh(1).await);

/// On the same servers, as they take seconds to agree on who leads.
macro_rules! one_after_the_other {
    ($name:ident, $servers:expr, [$($behaviour:ident),* $(,)?]) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let servers = $servers;
            // Those in which many want the same; all of them take a while on three.
            const SOME: &str = "key_is_written_once asked_for_twice audit_log fences";
            $(
                let name = stringify!($behaviour);
                if servers::count(0, 1) == 1 || SOME.split(' ').any(|some| name.contains(some)) {
                    conformance::$behaviour(servers.store(name).await).await;
                }
            )*
        }
    };
}

with_all!(one_after_the_other, three_servers_do_the_same, servers::Servers::start(3));
