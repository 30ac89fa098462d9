//! Processes of a cluster on this machine (NATS servers, assize server, workers), and an HTTP client for the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use assize_testkit::NatsServers;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Size of a cluster, and latency of its model.
pub(crate) struct ClusterSize {
    /// Number of NATS servers.
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    /// Number of sandboxes per worker.
    pub(crate) slots: u32,
    /// Time that the simulated model waits before each answer, in milliseconds.
    pub(crate) latency: u64,
}

/// Child process with its log file. Dropping this value kills the process.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Running cluster of separate processes.
pub(crate) struct BenchCluster {
    servers: NatsServers,
    folder: TempDir,
    assize: PathBuf,
    latency: u64,
    slots: u32,
    serving: Process,
    address: String,
    pub(crate) workers: Vec<Process>,
}

impl BenchCluster {
    pub(crate) fn start(assize: &Path, plan: &ClusterSize) -> anyhow::Result<BenchCluster> {
        let servers = NatsServers::start(plan.servers);
        let folder = TempDir::new()?;
        let assize = assize.canonicalize()?;
        let mut serve = command(&assize, folder.path(), &servers, plan.latency);
        serve.args(["serve", "--json", "--no-auth", "--listen", "127.0.0.1:0"]);
        serve.env("ASSIZE_SERVE_MAX_RUNNING", "10000");
        serve.env("ASSIZE_SERVE_STARTS_PER_MINUTE", "100000");
        let (serving, printed) = start(serve, folder.path())?;
        let address =
            printed["listen"].as_str().context("the assize server printed no address")?.to_owned();
        let (latency, slots) = (plan.latency, plan.slots);
        let workers = Vec::new();
        let mut crew =
            BenchCluster { servers, folder, assize, latency, slots, serving, address, workers };
        for _ in 0..plan.workers {
            crew.start_worker()?;
        }
        Ok(crew)
    }

    /// Starts one more worker.
    pub(crate) fn start_worker(&mut self) -> anyhow::Result<()> {
        let mut worker = command(&self.assize, self.folder.path(), &self.servers, self.latency);
        worker.args(["worker", "--json", "--log-level", "info", "--isolation", "jail"]);
        worker.args(["--slots", &self.slots.to_string()]);
        let (worker, _) = start(worker, self.folder.path())?;
        self.workers.push(worker);
        Ok(())
    }

    /// Starts a consultation and returns the id of the run.
    pub(crate) fn start_consultation(&self, ticker: &str, rounds: u32) -> anyhow::Result<String> {
        let body = json!({"kind": "consult", "ticker": ticker, "rounds": rounds, "moves": 3});
        let answer = self.request("POST", "/api/runs", Some(&body))?;
        Ok(answer["id"]
            .as_str()
            .context("the response of `POST /api/runs` has no run id")?
            .to_owned())
    }

    /// Waits until all runs are done.
    pub(crate) fn wait_until_done(&self, runs: &[String]) -> anyhow::Result<()> {
        for run in runs {
            loop {
                let shown = self.get("/api/runs?limit=200&title=NVDA")?;
                let all = shown["runs"].as_array().context("the response has no list of runs")?;
                let one = all
                    .iter()
                    .find(|one| one["id"] == run.as_str())
                    .context("the started run is not in the list of runs")?;
                match one["status"].as_str() {
                    Some("done") => break,
                    Some("running" | "waiting") => std::thread::sleep(Duration::from_millis(100)),
                    other => bail!(
                        "the run {run} has the unexpected status {other:?}; description of the run: {one}"
                    ),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.request("GET", path, None)
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let mut stream = TcpStream::connect(&self.address)?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let (host, length) = (&self.address, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("invalid HTTP response")?;
        ensure!(head.starts_with("HTTP/1.1 20"), "{path}: {answer}");
        let body = match head.to_lowercase().contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        Ok(serde_json::from_str(&body)?)
    }

    /// CPU seconds used by all processes of the cluster so far, including their children that have ended.
    pub(crate) fn total_cpu_seconds(&self) -> f64 {
        let own = self.workers.iter().chain([&self.serving]).map(|process| process.child.id());
        own.chain(self.servers.processes()).filter_map(total_cpu_seconds).sum()
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}

fn total_cpu_seconds(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // These fields are the user and system time of the process, and of the children it has waited for.
    let ticks: u64 = fields[11..15].iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn command(assize: &Path, folder: &Path, servers: &NatsServers, latency: u64) -> Command {
    let mut command = Command::new(assize);
    command.env_clear().env("HOME", folder).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("ASSIZE_CLUSTER_SERVERS", servers.address()).env("OLLAMA_HOST", "127.0.0.1:9");
    command.env("ASSIZE_REHEARSAL_LATENCY_MS", latency.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).current_dir(folder);
    command
}

/// Starts a process, and waits until the process prints a JSON object to report that it is ready. Returns the process
/// and the object.
fn start(mut command: Command, folder: &Path) -> anyhow::Result<(Process, Value)> {
    let log = tempfile::Builder::new().suffix(".log").tempfile_in(folder)?.keep()?;
    let mut child = command.stderr(log.0).spawn()?;
    let mut output = BufReader::new(
        child.stdout.take().context("the standard output of the process is not captured")?,
    );
    let mut printed = String::new();
    let process = Process { child, log: log.1 };
    loop {
        ensure!(
            output.read_line(&mut printed)? > 0,
            "the process exited before it was ready: {}",
            std::fs::read_to_string(&process.log)?
        );
        if let Ok(printed) = serde_json::from_str(&printed) {
            return Ok((process, printed));
        }
    }
}
