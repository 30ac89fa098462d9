//! Benchmark of a cluster on one machine: scaling, CPU cost, store latency and failover.
//!
//! NATS servers, `assize serve` and `assize worker` are separate processes. There are four measurements:
//!
//! 1. Scaling: with one, two and four workers, the server gets enough consultations to keep all workers busy. The model
//!    answers with a delay, so that the CPUs are not the limit.
//! 2. CPU cost: with the largest number of workers and without the delay, the CPUs are the limit. The result is the CPU
//!    time of one debate.
//! 3. Store latency: the same records are written to a store in a file and to a store on NATS.
//! 4. Failover: workers are killed, and the time until their work is resumed is measured.
//!
//! All processes share the CPUs. Times on a shared machine are noisy: compare the ratios.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod failover;
mod processes;
mod stores;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use serde_json::json;

use processes::{BenchCluster, ClusterSize};

#[derive(Debug, Parser)]
struct Args {
    /// Path of the built `assize`
    #[arg(long)]
    assize: PathBuf,
    /// Number of NATS servers
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Cluster sizes to measure, as numbers of workers
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    workers: Vec<usize>,
    /// Number of sandboxes per worker
    #[arg(long, default_value_t = 3)]
    slots: u32,
    /// Number of consultations per worker
    #[arg(long, default_value_t = 4)]
    consults: usize,
    /// Number of rounds in each of the 15 debates of a consultation
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Milliseconds that the simulated model waits before each answer
    #[arg(long, default_value_t = 400)]
    latency: u64,
    /// Number of records to write to each store
    #[arg(long, default_value_t = 2000)]
    records: usize,
    /// Number of workers to kill in each of two groups: lease holders, and other workers
    #[arg(long, default_value_t = 5)]
    deaths: usize,
}

/// Number of debates in one consultation.
const DEBATES: usize = 15;

/// Measurements of a cluster with `workers` workers.
struct Figures {
    workers: usize,
    consults_per_hour: f64,
    writes_per_second: f64,
    /// CPU seconds of all processes, per debate.
    cpu_seconds_per_debate: f64,
    /// Average number of busy CPUs.
    busy: f64,
}

fn measure(args: &Args, workers: usize, latency: u64) -> anyhow::Result<Figures> {
    let plan = ClusterSize { servers: args.servers, workers, slots: args.slots, latency };
    let crew = BenchCluster::start(&args.assize, &plan)?;
    let count = args.consults * workers;
    // Warm up before measuring.
    crew.wait_until_done(&[crew.start_consultation("NVDA", 1)?])?;
    let (started, used) = (Instant::now(), crew.total_cpu_seconds());
    let runs = (0..count)
        .map(|_| crew.start_consultation("NVDA", args.rounds))
        .collect::<Result<Vec<_>, _>>()?;
    crew.wait_until_done(&runs)?;
    let seconds = started.elapsed().as_secs_f64();
    let used = crew.total_cpu_seconds() - used;
    let mut calls = 0;
    for run in &runs {
        calls += crew.get(&format!("/api/runs/{run}"))?["spent"]["calls"].as_u64().unwrap_or(0);
    }
    Ok(Figures {
        workers,
        consults_per_hour: count as f64 / seconds * 3600.0,
        writes_per_second: calls as f64 / seconds,
        cpu_seconds_per_debate: used / (count * DEBATES) as f64,
        busy: used / seconds,
    })
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let Args { servers, slots, consults, rounds, latency, .. } = &args;
    println!(
        "{servers} NATS server(s); workers with {slots} sandboxes each; {consults} consultations of 15 debates for \
         each worker; {rounds} rounds per debate; the model waits {latency} ms before each answer"
    );
    println!("workers  consults/h  speedup  writes/s  CPUs busy");
    let mut first = None;
    let mut last = 0.0;
    for workers in &args.workers {
        let figures = measure(&args, *workers, *latency)?;
        let one = *first.get_or_insert(figures.consults_per_hour);
        last = figures.consults_per_hour / one;
        println!(
            "{:7}  {:10.0}  {:7.2}  {:8.0}  {:9.2}",
            figures.workers,
            figures.consults_per_hour,
            last,
            figures.writes_per_second,
            figures.busy
        );
    }
    let max_workers = args.workers.iter().max().copied().unwrap_or(1);
    let full = measure(&args, max_workers, 0)?;
    println!(
        "at saturation, with {} workers and without model delay: {:.0} consultations per hour, {:.0} writes per second, \
         {:.3} CPU seconds per debate",
        full.workers, full.consults_per_hour, full.writes_per_second, full.cpu_seconds_per_debate
    );
    stores::compare(args.records)?;
    let deaths = failover::measure(&args.assize, args.servers, args.deaths)?;
    let show = |deaths: &[Duration]| {
        let mut seconds: Vec<f64> = deaths.iter().map(Duration::as_secs_f64).collect();
        seconds.sort_by(f64::total_cmp);
        let at = |part: f64| seconds[((seconds.len() - 1) as f64 * part).round() as usize];
        format!("median {:.1} s, maximum {:.1} s", at(0.5), at(1.0))
    };
    println!(
        "time from the death of a worker until one of its debates is resumed: {}",
        show(&deaths.debates)
    );
    println!(
        "time from the death of a lease holder until its run is resumed: {}",
        show(&deaths.runs)
    );
    println!("{}", json!({"times": last, "most_workers": max_workers}));
    ensure!(
        deaths.debates.iter().chain(&deaths.runs).all(|one| one.as_secs() < 60),
        "a failover took 60 s or longer"
    );
    Ok(())
}
