//! Runs real NATS servers on this machine.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Running NATS servers. Dropping this value kills the servers.
#[derive(Debug)]
pub struct NatsServers {
    /// Folder with the data and logs of the servers.
    pub folder: TempDir,
    /// Additional command-line arguments of each server.
    arguments: Vec<String>,
    servers: Vec<Option<Child>>,
    /// TCP ports of each server: one for clients, and one for the other servers of the cluster.
    ports: Vec<(u16, u16)>,
}

impl NatsServers {
    pub fn start(count: usize) -> NatsServers {
        let mut servers = NatsServers::unstarted(count);
        (0..count).for_each(|index| servers.restart(index));
        servers
    }

    /// Chooses free ports for `count` servers, but does not start the servers.
    pub fn unstarted(count: usize) -> NatsServers {
        let folder = TempDir::new().unwrap();
        let ports = (0..count).map(|_| (free_port(), free_port())).collect();
        let servers = (0..count).map(|_| None).collect();
        NatsServers { folder, arguments: Vec::new(), servers, ports }
    }

    /// Starts one server with additional command-line arguments.
    pub fn start_with(folder: TempDir, arguments: Vec<String>) -> NatsServers {
        let mut servers = NatsServers::unstarted(1);
        (servers.folder, servers.arguments) = (folder, arguments);
        servers.restart(0);
        servers
    }

    fn spawn(&self, index: usize) -> Child {
        let folder = self.folder.path().join(index.to_string());
        fs::create_dir_all(&folder).unwrap();
        let (port, route_port) = self.ports[index];
        let mut command = Command::new("nats-server");
        command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(&folder);
        command.args(["-n", &format!("server-{index}")]).args(&self.arguments);
        if self.ports.len() > 1 {
            let all = self.ports.iter().map(|(_, port)| format!("nats://127.0.0.1:{port}"));
            let all = all.collect::<Vec<_>>().join(",");
            command.args(["--cluster_name", "test", "--routes", &all]);
            command.args(["--cluster", &format!("nats://127.0.0.1:{route_port}")]);
        }
        let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command.spawn().unwrap()
    }

    /// Value for the flag `--cluster`: the client addresses of all servers.
    pub fn address(&self) -> String {
        let all = self.ports.iter().map(|(port, _)| format!("127.0.0.1:{port}"));
        format!("nats://{}", all.collect::<Vec<_>>().join(","))
    }

    /// Process ids of the running servers.
    pub fn processes(&self) -> Vec<u32> {
        self.servers.iter().flatten().map(Child::id).collect()
    }

    pub fn count(&self) -> usize {
        self.ports.len()
    }

    /// Kills a server with SIGKILL, to simulate a crash.
    pub fn kill(&mut self, index: usize) {
        let mut server = self.servers[index].take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// Starts a server that is not running.
    pub fn restart(&mut self, index: usize) {
        assert!(self.servers[index].is_none());
        self.servers[index] = Some(self.spawn(index));
    }
}

impl Drop for NatsServers {
    fn drop(&mut self) {
        for server in self.servers.iter_mut().flatten() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Finds a free TCP port on this machine.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
