//! Clusters of the built binary: real servers of NATS, servers and workers as processes of their own.

mod faults;
mod limits;
mod proof;
mod work;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use assize_testkit::NatsServers as Servers;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::exec::until;
use crate::{Home, Ran};

/// The lease of all nodes, the default one: many processes share few processors, and none may lose it for being slow.
const LEASE: Duration = Duration::from_secs(6);

/// A worker that lives as long as this.
struct Worker {
    child: Child,
    id: String,
    log: PathBuf,
}

impl Worker {
    fn start(home: &Home, more: &[&str]) -> Worker {
        let args = [&["worker", "--json"], more].concat();
        let log = home.folder.path().join(format!("worker-{}.log", fastrand::u32(..)));
        let file = std::fs::File::create(&log).unwrap();
        let mut command = home.command(&args);
        crate::serve::shrink_pool(home, &mut command);
        let mut child = command.stderr(file).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.ends_with("}\n") || serde_json::from_str::<Value>(&said).is_err() {
            assert!(output.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        let said: Value = serde_json::from_str(&said).unwrap();
        Worker { child, id: said["id"].as_str().unwrap().to_owned(), log }
    }

    /// What it said so far.
    fn said(&self) -> String {
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

/// The same home, as a part of the cluster on these servers.
fn joined(home: Home, servers: &Servers) -> Home {
    home.set("ASSIZE_CLUSTER_SERVERS", servers.address())
        .set("ASSIZE_CLUSTER_LEASE_SECONDS", LEASE.as_secs().to_string())
}

/// How the cluster is.
fn status(home: &Home) -> Value {
    let Ran { code, out, err } = home.run(&["cluster", "status", "--json"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}
