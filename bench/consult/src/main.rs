//! A whole consultation with a model that takes its time for each call: how long it takes, against its
//! longest chain of calls, which nothing can beat, and what we ourselves use of the processor for it. Then
//! once more with a provider that caches prompts: what it charges for the input, against the same words in
//! another order.
//!
//! Everything is the real thing: the gateway, the graph, the journal in SQLite, and a jail for each debate.
//! Times on a shared machine are noise: look at the ratios.

#![expect(clippy::print_stdout, reason = "this program is there to print")]

mod billing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use assize_consult::{Chamber, Company, ConsultState, graph};
use assize_consult::{InSandboxes, Models, install};
use assize_gateway::{Gateway, Limits, Pacer, Rehearsal};
use assize_graph::RunOptions;
use assize_llm::Model;
use assize_run::{Ending, NewRun, RunJournal, RunKind, Store};
use assize_sandbox::jail::Jail;
use assize_sandbox::{Manager, Spec};
use assize_store::{Access, Durability, SqliteStore};
use clap::Parser;

#[derive(Debug, Parser)]
struct Args {
    /// How long the model takes for each call, in milliseconds
    #[arg(long, default_value_t = 250)]
    latency: u64,
    /// Rounds of each debate
    #[arg(long, default_value_t = assize_debate::ROUNDS)]
    rounds: u32,
    /// How often it is run
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Debates that are held at once
    #[arg(long, default_value_t = 15)]
    at_once: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut took = Vec::new();
    let mut calls = 0;
    for _ in 0..args.repeats.max(1) {
        let before = processor();
        let (wall, made) = consult(&args, rehearsal(&args)).await?;
        took.push((wall, processor().saturating_sub(before)));
        calls = made;
    }
    took.sort();
    let (wall, processor) = took[took.len() / 2];
    let latency = args.latency();
    let chain = args.longest_chain();
    let shortest = latency * chain;
    // One move after the other, as the first plan of this pipeline had it.
    let one_by_one = latency * (3 + 15 * (chain - 3));
    println!(
        "{calls} calls of {} ms, {} debates at once, median of {}",
        args.latency,
        args.at_once,
        took.len()
    );
    println!("  wall time                    {:>8.2} s", wall.as_secs_f64());
    println!("  longest chain, {chain:>2} calls       {:>8.2} s", shortest.as_secs_f64());
    println!("  one move after the other     {:>8.2} s", one_by_one.as_secs_f64());
    println!(
        "  our own processor time       {:>8.2} s, sandboxes included",
        processor.as_secs_f64()
    );
    println!();
    if !shortest.is_zero() {
        let ratio = wall.as_secs_f64() / shortest.as_secs_f64();
        println!("{ratio:.2}× its longest chain (to reach: at most 1.15)");
        let faster = one_by_one.as_secs_f64() / wall.as_secs_f64();
        println!("{faster:.1}× as fast as one move after the other");
    }
    println!();
    billing::measure(&args).await
}

impl Args {
    fn latency(&self) -> Duration {
        Duration::from_millis(self.latency)
    }

    /// Making up, inferring, proposing; then the opening, an answer, two a round after the first, the scores.
    fn longest_chain(&self) -> u32 {
        3 + 2 + 2 * (self.rounds - 1) + 1
    }
}

/// A model that makes everything up, after a while.
fn rehearsal(args: &Args) -> Arc<dyn Model> {
    let options = assize_gateway::Options {
        script: Some(Arc::new(|request| {
            assize_consult::rehearsal::answer(request).map(|known| known.map(Into::into))
        })),
        ..unpaced()
    };
    let rehearsal = Rehearsal { latency: args.latency(), ..Rehearsal::default() };
    Arc::new(Gateway::to_rehearsal(rehearsal, options))
}

/// As many calls at once as there are.
fn unpaced() -> assize_gateway::Options {
    let pacer = Pacer::new(Limits { concurrency: 1000, ..Limits::default() });
    assize_gateway::Options { pacer, ..assize_gateway::Options::default() }
}

/// One consultation, from the ticker to what is kept of it.
async fn consult(args: &Args, model: Arc<dyn Model>) -> anyhow::Result<(Duration, u64)> {
    let folder = tempfile::tempdir().context("making a folder")?;
    let manager =
        Manager::open(folder.path().join("sandboxes"), Arc::new(Jail::new(Vec::new())), &[]);
    let manager = Arc::new(manager.await?);
    let layer = install(&folder.path().join("programs"))?;
    let access = Access::Write(Durability::ProcessCrash);
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&folder.path().join("store.db"), access)?);
    let begun = Instant::now();
    let new = NewRun {
        kind: RunKind::Consult,
        title: "CRST".to_owned(),
        parent: None,
        input: serde_json::Value::Null,
        artifacts: Vec::new(),
        once: None,
    };
    let (run, claim) = store.create_run(new, "bench").await?;
    let journal = Arc::new(RunJournal::fresh(store, claim));
    let debates = InSandboxes {
        manager,
        spec: Spec::default(),
        layer,
        run: run.id.to_string(),
        may_do_without: false,
        weaker: None,
        isolation: String::new(),
    };
    let chamber = Chamber {
        rounds: args.rounds,
        at_once: args.at_once,
        debates: Arc::new(debates),
        ..Chamber::new(Models::new(model))
    };
    let calls = chamber.calls();
    let company = Company { ticker: Some("CRST".parse()?), name: None };
    let options = RunOptions::with_journal(journal.clone());
    let state = graph(Arc::new(chamber))?.run(ConsultState::new(company), options).await?;
    journal.finish(Ending::Done { result: serde_json::Value::Null }, Vec::new()).await?;
    let wall = begun.elapsed();
    ensure!(state.spent.calls == calls, "{} calls, not {calls}", state.spent.calls);
    ensure!(state.policy_scores.len() == 15, "not all moves were scored");
    Ok((wall, calls))
}

/// What this process and those that it has waited for have used of the processor.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may hold anything; the figures follow its last bracket.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    // Own and children's, as user and as system, in hundredths of a second.
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}
