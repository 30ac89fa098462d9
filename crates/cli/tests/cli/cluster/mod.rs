//! Cluster tests with the built binary: real NATS servers, and assize servers and workers as separate processes.

mod crash_recovery;
mod faults;
mod limits;
mod remote_runs;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use assize_testkit::NatsServers as Servers;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::exec::wait_for;
use crate::{CommandOutput, Home};

/// Lease period of all nodes in the tests, equal to the default. A shorter lease would expire when many processes share
/// few CPUs.
const LEASE: Duration = Duration::from_secs(6);

/// A running `assize worker` process. Dropping this value kills the process.
struct Worker {
    child: Child,
    id: String,
    log: PathBuf,
}

impl Worker {
    /// Starts a worker and waits until the worker is ready. A worker prints its JSON report when it is ready.
    fn start(home: &Home, more: &[&str]) -> Worker {
        let args = [&["worker", "--json"], more].concat();
        let log = home.folder.path().join(format!("worker-{}.log", fastrand::u32(..)));
        let file = std::fs::File::create(&log).unwrap();
        let mut command = home.command(&args);
        crate::serve::shrink_pool(home, &mut command);
        let mut child = command.stderr(file).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut report = String::new();
        while !report.ends_with("}\n") || serde_json::from_str::<Value>(&report).is_err() {
            assert!(
                output.read_line(&mut report).unwrap() > 0,
                "the worker exited before it was ready: {report}"
            );
        }
        let report: Value = serde_json::from_str(&report).unwrap();
        Worker { child, id: report["id"].as_str().unwrap().to_owned(), log }
    }

    /// Content of the worker's log file.
    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Configures `home` to use the cluster on the given NATS servers.
fn with_cluster(home: Home, servers: &Servers) -> Home {
    home.set("ASSIZE_CLUSTER_SERVERS", servers.address())
        .set("ASSIZE_CLUSTER_LEASE_SECONDS", LEASE.as_secs().to_string())
}

/// Output of `assize cluster status --json`.
fn cluster_status(home: &Home) -> Value {
    let CommandOutput { code, out, err } = home.run(&["cluster", "status", "--json"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}
