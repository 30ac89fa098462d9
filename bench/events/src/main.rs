//! Benchmark of many event subscribers of one run: checks that each gets every event in order, and measures delay and
//! memory.
//!
//! The server is the `assize` binary, in a separate process; the run is a consultation whose model answers with a
//! delay. Every event contains the time when it was written to the store, and each client records when the event
//! arrives. With `--peer`, the benchmark then measures a Python server (`sse-starlette` on `uvicorn`) that sends the
//! same events at the same pace to the same number of clients.
//!
//! The clients share the CPUs with the server, so the times are noisy. The benchmark prints the ratios last: each
//! figure of the Python server divided by that of `assize`. Compare the ratios rather than the times.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

#[derive(Debug, Parser)]
struct Args {
    /// Path of the built `assize`
    #[arg(long)]
    assize: PathBuf,
    /// Number of subscribers
    #[arg(long, default_value_t = 1000)]
    clients: usize,
    /// Number of rounds in each of the 15 debates
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Milliseconds that the simulated model waits before each answer
    #[arg(long, default_value_t = 500)]
    latency: u64,
    /// Python interpreter with sse-starlette and uvicorn; if set, also measures a Python server for comparison
    #[arg(long)]
    peer: Option<PathBuf>,
}

/// Events that one client received.
struct Received {
    ids: Vec<u64>,
    /// Milliseconds from the write to the store until the arrival at the client, for each event.
    delays: Vec<f64>,
}

/// Measurements of one server.
struct Figures {
    name: &'static str,
    events: usize,
    seconds: f64,
    p50: f64,
    p99: f64,
    kibibytes_per_client: f64,
}

fn now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs_f64() * 1e3
}

/// Resident memory of a process, in KiB.
fn memory(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.context("no VmRSS in /proc/PID/status")?.trim().trim_end_matches(" kB").parse()?)
}

/// Reads an event stream until the run has ended.
async fn receive_events(
    address: String,
    path: String,
    token: String,
    ready: Arc<Barrier>,
) -> anyhow::Result<Received> {
    let mut line = TcpStream::connect(&address).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n"
    );
    line.write_all(request.as_bytes()).await?;
    let (mut read, mut received) = (Vec::new(), Received { ids: Vec::new(), delays: Vec::new() });
    let mut some = vec![0; 64 << 10];
    let mut is_first_read = true;
    loop {
        let count = line.read(&mut some).await?;
        ensure!(count > 0, "the server closed the connection after {} events", received.ids.len());
        let arrived = now();
        read.extend_from_slice(&some[..count]);
        let mut from = 0;
        while let Some(end) = read[from..].windows(2).position(|two| two == b"\n\n") {
            let block = String::from_utf8_lossy(&read[from..from + end]).into_owned();
            from += end + 2;
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            if let Some(id) = field("id: ") {
                received.ids.push(id.parse()?);
                let data: Value =
                    serde_json::from_str(field("data: ").context("an event has no data")?)?;
                received.delays.push(
                    arrived - data["at"].as_f64().context("an event has no write time (`at`)")?,
                );
            }
            if field("event: ") == Some("run_ended") {
                return Ok(received);
            }
        }
        read.drain(..from);
        if std::mem::take(&mut is_first_read) {
            ready.wait().await;
        }
    }
}

/// Connects all clients, then starts the run, and measures delays, total time and memory until every client has
/// received the last event of the run.
async fn measure(
    name: &'static str,
    clients: usize,
    pid: u32,
    (address, path, token): (&str, &str, &str),
    begin: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<(Figures, Vec<u64>)> {
    let before = memory(pid)?;
    let ready = Arc::new(Barrier::new(clients + 1));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        tasks.spawn(receive_events(
            address.to_owned(),
            path.to_owned(),
            token.to_owned(),
            ready.clone(),
        ));
    }
    ready.wait().await;
    let with_all = memory(pid)?;
    let started = Instant::now();
    begin.await?;
    let mut all: Vec<Received> = Vec::new();
    let mut peak = with_all;
    while let Some(received) = tasks.join_next().await {
        peak = peak.max(memory(pid)?);
        all.push(received??);
    }
    let seconds = started.elapsed().as_secs_f64();
    let ids = all[0].ids.clone();
    ensure!(ids.windows(2).all(|two| two[0] < two[1]), "events arrived out of order");
    for received in &all {
        ensure!(
            received.ids == ids,
            "two clients received different events: {} and {} events",
            received.ids.len(),
            ids.len()
        );
    }
    let mut delays: Vec<f64> =
        all.iter().flat_map(|received| received.delays.iter().copied()).collect();
    delays.sort_by(f64::total_cmp);
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    Ok((
        Figures {
            name,
            events: ids.len(),
            seconds,
            p50: at(0.5),
            p99: at(0.99),
            kibibytes_per_client: (peak - before) / clients as f64,
        },
        ids,
    ))
}

/// Server process. Dropping this value kills the process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends one HTTP request and returns the JSON response.
async fn send_request(
    address: &str,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
) -> anyhow::Result<Value> {
    let mut line = TcpStream::connect(address).await?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    line.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    line.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").context("invalid HTTP response")?;
    ensure!(head.starts_with("HTTP/1.1 2"), "{answer}");
    Ok(serde_json::from_str(body)?)
}

async fn measure_assize(args: &Args, folder: &Path) -> anyhow::Result<(Figures, PathBuf)> {
    let mut child = Command::new(&args.assize)
        .args(["serve", "--json", "--listen", "127.0.0.1:0"])
        .env("HOME", folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("ASSIZE_PROVIDER", "rehearsal")
        .env("ASSIZE_REHEARSAL_LATENCY_MS", args.latency.to_string())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start `{}`", args.assize.display()))?;
    let mut printed = String::new();
    let mut output = BufReader::new(
        child.stdout.take().context("the standard output of the server is not captured")?,
    );
    let server = Server(child);
    while !printed.ends_with("}\n") {
        ensure!(
            output.read_line(&mut printed)? > 0,
            "the server exited before it was ready: {printed}"
        );
    }
    let printed: Value = serde_json::from_str(&printed)?;
    let address = printed["address"]
        .as_str()
        .and_then(|a| a.strip_prefix("http://"))
        .context("the server printed no address")?;
    let token = std::fs::read_to_string(
        printed["token_file"].as_str().context("the server printed no path of its token file")?,
    )?;
    let token = token.trim();
    // Warm up with a run without subscribers, so that the memory of a run is not attributed to the clients.
    let body = json!({"kind": "consult", "ticker": "NVDA", "rounds": 1}).to_string();
    send_request(address, token, "POST", "/api/runs", &body).await?;
    while send_request(address, token, "GET", "/api/runs", "").await?["runs"][0]["status"] != "done"
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let body = json!({"kind": "consult", "ticker": "NVDA", "rounds": args.rounds}).to_string();
    // The clients subscribe to the events of all runs, so that they can be connected before the run starts.
    let path = "/api/events";
    let at = (address, path, token);
    let begin = async { send_request(address, token, "POST", "/api/runs", &body).await.map(drop) };
    let (figures, _) = measure("assize", args.clients, server.0.id(), at, begin).await?;
    // Export the events of the run, because the peer sends the same events.
    let runs = send_request(address, token, "GET", "/api/runs", "").await?;
    let run = runs["runs"][0]["id"].as_str().context("the server lists no run")?.to_owned();
    let events_file = folder.join("events.json");
    let export =
        send_request(address, token, "GET", &format!("/api/runs/{run}/export"), "").await?;
    std::fs::write(&events_file, export["events"].to_string())?;
    Ok((figures, events_file))
}

async fn measure_peer(args: &Args, python: &Path, events_file: &Path) -> anyhow::Result<Figures> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer.py");
    let mut child = Command::new(python)
        .arg(program)
        .arg(events_file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", python.display()))?;
    let mut printed = String::new();
    BufReader::new(
        child.stdout.take().context("the standard output of the Python server is not captured")?,
    )
    .read_line(&mut printed)?;
    let server = Server(child);
    let address = printed.trim().to_owned();
    ensure!(!address.is_empty(), "the Python server exited before it printed its address");
    let begin = async { send_request(&address, "", "POST", "/begin", "{}").await.map(drop) };
    let at = (address.as_str(), "/events", "");
    Ok(measure("sse-starlette", args.clients, server.0.id(), at, begin).await?.0)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    // The server is started in another folder, so a relative path would not work.
    args.assize =
        args.assize.canonicalize().context("`--assize` does not name an existing file")?;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    if limit.maximum.is_some_and(|max| max < args.clients as u64 + 100) {
        bail!(
            "the limit of {} open files is too low for this number of clients",
            limit.maximum.unwrap_or(0)
        );
    }
    let folder = tempfile::tempdir()?;
    let (own, events_file) = measure_assize(&args, folder.path()).await?;
    let mut all = vec![own];
    if let Some(python) = &args.peer {
        all.push(measure_peer(&args, python, &events_file).await?);
    }
    println!(
        "{} clients; each client received all {} events in order\n",
        args.clients, all[0].events
    );
    println!(
        "{:<15} {:>12} {:>12} {:>12} {:>14}",
        "", "deliveries/s", "p50 delay ms", "p99 delay ms", "KiB per client"
    );
    for one in &all {
        let deliveries = (one.events * args.clients) as f64 / one.seconds;
        let (p50, p99, each) = (one.p50, one.p99, one.kibibytes_per_client);
        println!("{:<15} {deliveries:>12.0} {p50:>12.1} {p99:>12.1} {each:>14.1}", one.name);
    }
    if let [own, other] = all.as_slice() {
        println!(
            "{:<15} {:>12} {:>11.1}× {:>11.1}× {:>13.1}×",
            "ratio",
            "",
            other.p50 / own.p50.max(0.1),
            other.p99 / own.p99.max(0.1),
            other.kibibytes_per_client / own.kibibytes_per_client.max(0.1)
        );
    }
    Ok(())
}
