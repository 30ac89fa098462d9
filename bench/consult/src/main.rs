//! Benchmark of a whole consultation. The first part uses a model with a fixed delay, compares the wall time with its
//! lower bound (the duration of the longest chain of sequential calls), and measures our own CPU time. The second part
//! uses a provider that caches prompts, and compares the charge for the input with the charge for the same words in an
//! order that prevents caching.
//!
//! Gateway, graph, SQLite journal and a jail for each debate are real. Times on a shared machine are noisy: compare the
//! ratios.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod billing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use assize_consult::{ConsultCompany, ConsultContext, ConsultState, graph};
use assize_consult::{RoleModels, SandboxedDebates, install};
use assize_gateway::{Gateway, RateLimiter, RateLimits, Rehearsal};
use assize_graph::RunOptions;
use assize_llm::Model;
use assize_run::{Ending, NewRun, RunJournal, RunKind, Store};
use assize_sandbox::jail::Jail;
use assize_sandbox::{SandboxManager, SandboxSpec};
use assize_store::{Access, Durability, SqliteStore};
use clap::Parser;

#[derive(Debug, Parser)]
struct Args {
    /// Milliseconds that the simulated model waits before each answer
    #[arg(long, default_value_t = 250)]
    latency: u64,
    /// Number of rounds in each debate
    #[arg(long, default_value_t = assize_debate::ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of consultations to measure; the results are medians
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Number of concurrent debates
    #[arg(long, default_value_t = 15)]
    at_once: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut took = Vec::new();
    let mut calls = 0;
    for _ in 0..args.repeats.max(1) {
        let before = cpu_time();
        let (wall, made) = consult(&args, rehearsal(&args)).await?;
        took.push((wall, cpu_time().saturating_sub(before)));
        calls = made;
    }
    took.sort();
    let (wall, cpu_time) = took[took.len() / 2];
    let latency = args.latency();
    let chain = args.longest_chain();
    let shortest = latency * chain;
    // Duration if the moves were debated one after the other, as in the first design of the pipeline.
    let one_by_one = latency * (3 + 15 * (chain - 3));
    println!(
        "{calls} calls of {} ms each, at most {} concurrent debates; medians of {} consultations:",
        args.latency,
        args.at_once,
        took.len()
    );
    println!("  measured wall time                                 {:>8.2} s", wall.as_secs_f64());
    println!(
        "  computed duration of the longest chain ({chain:>2} calls)  {:>8.2} s",
        shortest.as_secs_f64()
    );
    println!(
        "  computed duration with one debate after the other  {:>8.2} s",
        one_by_one.as_secs_f64()
    );
    println!(
        "  our own CPU time, sandboxes included               {:>8.2} s",
        cpu_time.as_secs_f64()
    );
    println!();
    if !shortest.is_zero() {
        let ratio = wall.as_secs_f64() / shortest.as_secs_f64();
        println!(
            "the wall time is {ratio:.2} times the duration of the longest chain of calls \
             (target: at most 1.15)"
        );
        let faster = one_by_one.as_secs_f64() / wall.as_secs_f64();
        println!(
            "the consultation is {faster:.1} times as fast as with one debate after the other"
        );
    }
    println!();
    billing::measure(&args).await
}

impl Args {
    fn latency(&self) -> Duration {
        Duration::from_millis(self.latency)
    }

    /// Number of calls in the longest chain of calls, in which each call waits for the one before it. Three calls
    /// precede the debates: data, inference, proposed moves. A debate adds two calls for each round, and one for the
    /// scores.
    fn longest_chain(&self) -> u32 {
        3 + 2 + 2 * (self.rounds - 1) + 1
    }
}

/// Rehearsal model with the configured delay.
fn rehearsal(args: &Args) -> Arc<dyn Model> {
    let options = assize_gateway::GatewayOptions {
        prepared_answers: Some(Arc::new(|request| {
            assize_consult::rehearsal::answer(request).map(|known| known.map(Into::into))
        })),
        ..unlimited_options()
    };
    let rehearsal = Rehearsal { latency: args.latency(), ..Rehearsal::default() };
    Arc::new(Gateway::to_rehearsal(rehearsal, options))
}

/// Gateway options that do not limit concurrency.
fn unlimited_options() -> assize_gateway::GatewayOptions {
    let rate_limiter = RateLimiter::new(RateLimits { concurrency: 1000, ..RateLimits::default() });
    assize_gateway::GatewayOptions { rate_limiter, ..assize_gateway::GatewayOptions::default() }
}

/// Runs one consultation, from the ticker to the stored result. Returns the wall time and the number of model calls.
async fn consult(args: &Args, model: Arc<dyn Model>) -> anyhow::Result<(Duration, u64)> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let manager =
        SandboxManager::open(folder.path().join("sandboxes"), Arc::new(Jail::new(Vec::new())), &[]);
    let manager = Arc::new(manager.await?);
    let layer = install(&folder.path().join("programs"))?;
    let access = Access::Write(Durability::ProcessCrash);
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&folder.path().join("store.db"), access)?);
    let started = Instant::now();
    let new = NewRun {
        kind: RunKind::Consult,
        title: "CRST".to_owned(),
        parent: None,
        input: serde_json::Value::Null,
        artifacts: Vec::new(),
        idempotency_key: None,
    };
    let (run, claim) = store.create_run(new, "bench").await?;
    let journal = Arc::new(RunJournal::new(store, claim));
    let debates = SandboxedDebates {
        manager,
        spec: SandboxSpec::default(),
        layer,
        run: run.id.to_string(),
        allow_in_process: false,
        weaker: None,
        isolation: String::new(),
    };
    let context = ConsultContext {
        rounds: args.rounds,
        max_concurrent_debates: args.at_once,
        debates: Arc::new(debates),
        ..ConsultContext::new(RoleModels::new(model))
    };
    let calls = context.calls();
    let company = ConsultCompany { ticker: Some("CRST".parse()?), name: None };
    let options = RunOptions::with_journal(journal.clone());
    let state = graph(Arc::new(context))?.run(ConsultState::new(company), options).await?;
    journal.finish(Ending::Done { result: serde_json::Value::Null }, Vec::new()).await?;
    let wall = started.elapsed();
    ensure!(state.spent.calls == calls, "expected {calls} calls, got {}", state.spent.calls);
    ensure!(state.policy_scores.len() == 15, "not all 15 proposed business moves were scored");
    Ok((wall, calls))
}

/// CPU time of this process and of the child processes that have ended.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program name may contain any character. The other fields follow the closing parenthesis after the name.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    // These fields are the user and system time of the process and of its children, in ticks of 10 ms.
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}
