//! Benchmark of a whole `assize run`, with a model that answers immediately and a program that succeeds at the first
//! attempt. The benchmark measures the time of the whole run, and the overhead of assize: the time of the whole run
//! minus the time of the run's program. For comparison, `docker exec` runs the same program in a running container.
//!
//! Gateway, graph, SQLite journal and warm pool of jails are real. On a shared machine, the times are noisy; the ratio
//! between `docker exec` and a whole run is more reliable.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use assize_code::{CodeOptions, CodeRunner, CodeState, CodeTask, CodeVerdict, graph};
use assize_gateway::{Gateway, Rehearsal};
use assize_graph::{Graph, RunOptions};
use assize_run::{Ending, NewRun, RunJournal, RunKind, Store};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Interpreter, Language, PoolOptions, SandboxManager, SandboxPool, SandboxSpec,
};
use assize_store::{Access, Durability, SqliteStore};
use clap::Parser;

const TASK: &str = "Calculate fibonacci(10)";

#[derive(Debug, Parser)]
struct Args {
    /// Number of sequential runs of `assize run` and of `docker exec`
    #[arg(long, default_value_t = 100)]
    iterations: usize,
    /// Number of concurrent runs
    #[arg(long, default_value_t = 50)]
    at_once: usize,
    /// Size of the warm pool
    #[arg(long, default_value_t = 5)]
    pool: usize,
    /// Python interpreter for the jails
    #[arg(long, default_value = "/usr/bin/python3")]
    python: PathBuf,
}

/// Measurements of one run: total time, time of the program, and source code of the program.
struct Took {
    all: Duration,
    program: Duration,
    code: String,
}

struct Bench {
    graph: Graph<CodeState>,
    store: Arc<dyn Store>,
    pool: Arc<SandboxPool>,
}

impl Bench {
    /// Executes one run, from the task to the stored verdict.
    async fn run(&self) -> anyhow::Result<Took> {
        let started = Instant::now();
        let new = NewRun {
            kind: RunKind::Code,
            title: TASK.to_owned(),
            parent: None,
            input: serde_json::Value::Null,
            artifacts: Vec::new(),
            idempotency_key: None,
        };
        let (_, claim) = self.store.create_run(new, "bench").await?;
        let journal = Arc::new(RunJournal::new(self.store.clone(), claim));
        let options = RunOptions::with_journal(journal.clone());
        let state = self.graph.run(CodeState::new(CodeTask::new(TASK)), options).await?;
        let verdict = CodeVerdict::from(&state);
        let result = serde_json::to_value(&verdict)?;
        journal.finish(Ending::Done { result }, Vec::new()).await?;
        let all = started.elapsed();
        let execution = verdict.history.last().and_then(|last| last.execution.clone());
        let Some(execution) = execution.filter(|_| verdict.answer.as_deref() == Some("55\n"))
        else {
            bail!("the program of the run did not print 55; error of the run: {:?}", verdict.error);
        };
        let code = verdict.code.unwrap_or_default();
        Ok(Took { all, program: execution.outcome.duration, code })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let found = Interpreter::find(Language::Python, Some(&args.python), None);
    let jail = Arc::new(Jail::new(vec![found.map_err(anyhow::Error::msg)?]));
    let manager = SandboxManager::open(folder.path().join("sandboxes"), jail, &[]).await?;
    let pool_options = PoolOptions { size: args.pool, ..PoolOptions::default() };
    let pool = Arc::new(manager.pool(SandboxSpec::default(), pool_options));
    let options = assize_gateway::GatewayOptions {
        prepared_answers: Some(Arc::new(|request| {
            assize_code::rehearsal::answer(request).map(|known| known.map(Into::into))
        })),
        ..assize_gateway::GatewayOptions::default()
    };
    let model = Arc::new(Gateway::to_rehearsal(Rehearsal::default(), options));
    let runner = CodeRunner::new(model, "rehearsal", pool.clone(), CodeOptions::default());
    let access = Access::Write(Durability::ProcessCrash);
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&folder.path().join("store.db"), access)?);
    let bench = Bench { graph: graph(Arc::new(runner))?, store, pool };
    // Warm up: the sandbox is probed once per process.
    bench.pool.ready().await?;
    let code = bench.run().await?.code;

    let peer = Peer::start(&code).await;
    let (mut all, mut rest, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.iterations {
        bench.pool.ready().await?;
        let took = bench.run().await?;
        all.push(took.all);
        rest.push(took.all.saturating_sub(took.program));
        if let Ok(peer) = &peer {
            bench.pool.ready().await?;
            beside.push(peer.run().await?);
        }
    }
    println!("{} sequential runs, each in an idle sandbox of the warm pool", args.iterations);
    println!("{:<34} {:>8} {:>8}", "", "p50 ms", "p95 ms");
    row("whole run", &mut all);
    row("overhead (whole run - its program)", &mut rest);
    match &peer {
        Ok(_) => row("docker exec of the same program", &mut beside),
        Err(why) => println!("docker exec of the same program was skipped: {why}"),
    }

    bench.pool.ready().await?;
    let started = Instant::now();
    let runs = futures_util::future::join_all((0..args.at_once).map(|_| bench.run())).await;
    let seconds = started.elapsed().as_secs_f64();
    let mut done: Vec<Duration> = Vec::new();
    for run in runs {
        done.push(run?.all);
    }
    println!(
        "\n{} concurrent runs; the warm pool has {} idle sandboxes at the start",
        args.at_once, args.pool
    );
    row("whole run", &mut done);
    println!("all {} runs were finished after {seconds:.2} s", done.len());

    println!();
    let overhead = percentile(&mut rest, 50);
    println!("median overhead of assize: {overhead:.1} ms per run (target: less than 10 ms)");
    if peer.is_ok() {
        let ratio = percentile(&mut beside, 50) / percentile(&mut all, 50);
        println!("median of the whole run: {ratio:.1}× as fast as docker exec of the same program");
    }
    bench.pool.close().await;
    if let Ok(peer) = peer {
        peer.end().await;
    }
    Ok(())
}

fn row(name: &str, times: &mut [Duration]) {
    let (p50, p95) = (percentile(times, 50), percentile(times, 95));
    println!("{name:<34} {p50:>8.1} {p95:>8.1}");
}

/// Percentile of measured times, in milliseconds.
fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    let at = (times.len().saturating_sub(1) * percent).div_ceil(100);
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// A Docker container that is kept running, and the program that `docker exec` runs in it.
struct Peer {
    container: String,
    code: String,
}

impl Peer {
    async fn start(code: &str) -> Result<Peer, String> {
        let sleep = "import time; time.sleep(3600)";
        let words = ["run", "--detach", "--rm", "--network=none", "--entrypoint=python3"];
        let image = ["assize/rootfs:latest", "-c", sleep];
        let container = docker(&[&words[..], &image].concat()).await?;
        Ok(Peer { container: container.trim().to_owned(), code: code.to_owned() })
    }

    async fn run(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let printed = docker(&["exec", &self.container, "python3", "-c", &self.code]).await;
        match printed.map_err(anyhow::Error::msg)?.as_str() {
            "55\n" => Ok(started.elapsed()),
            other => bail!("docker exec printed {other:?}"),
        }
    }

    async fn end(self) {
        let _ = docker(&["rm", "--force", &self.container]).await;
    }
}

async fn docker(words: &[&str]) -> Result<String, String> {
    let output = tokio::process::Command::new("docker").args(words).output().await;
    let output = output.map_err(|error| format!("docker: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(message.lines().next().unwrap_or("docker failed").to_owned())
}
