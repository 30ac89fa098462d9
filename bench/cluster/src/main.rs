//! What a cluster brings, and what it costs, on one machine.
//!
//! Servers of NATS, `assize serve` and `assize worker` are processes of their own; the model answers after a while, so
//! that the machine is not the limit. Consultations are begun at the server's door, enough to keep all workers busy,
//! with one, two and four workers. Then without any wait, for what a debate costs at saturation. Then the same records
//! are written to a store in a file and to one on the servers. Then workers are killed, and it is looked when what they
//! had begun goes on.
//!
//! All share the processors. Times on a shared machine are noise: look at the ratios.

#![expect(clippy::print_stdout, reason = "this program is there to print")]

mod crew;
mod death;
mod stores;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use serde_json::json;

use crew::{Crew, Plan};

#[derive(Debug, Parser)]
struct Args {
    /// The built `assize`
    #[arg(long)]
    assize: PathBuf,
    /// Servers of NATS
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// How many workers there are, one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    workers: Vec<usize>,
    /// Sandboxes of each worker
    #[arg(long, default_value_t = 3)]
    slots: u32,
    /// Consultations for each worker
    #[arg(long, default_value_t = 4)]
    consults: usize,
    /// Rounds of each of their 15 debates
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Milliseconds that the model takes for an answer
    #[arg(long, default_value_t = 400)]
    latency: u64,
    /// Records that are written to each store
    #[arg(long, default_value_t = 2000)]
    records: usize,
    /// How often a worker is killed
    #[arg(long, default_value_t = 5)]
    deaths: usize,
}

/// Debates of one consultation.
const DEBATES: usize = 15;

/// What so many workers came to.
struct Figures {
    workers: usize,
    consults_an_hour: f64,
    writes_a_second: f64,
    /// Of all processes, for each debate.
    processor_seconds: f64,
    /// How many processors were busy.
    busy: f64,
}

fn measure(args: &Args, workers: usize, latency: u64) -> anyhow::Result<Figures> {
    let plan = Plan { servers: args.servers, workers, slots: args.slots, latency };
    let crew = Crew::start(&args.assize, &plan)?;
    let count = args.consults * workers;
    // Nobody is measured who still wakes up.
    crew.finish(&[crew.begin("NVDA", 1)?])?;
    let (begun, used) = (Instant::now(), crew.processor_seconds());
    let runs =
        (0..count).map(|_| crew.begin("NVDA", args.rounds)).collect::<Result<Vec<_>, _>>()?;
    crew.finish(&runs)?;
    let seconds = begun.elapsed().as_secs_f64();
    let used = crew.processor_seconds() - used;
    let mut calls = 0;
    for run in &runs {
        calls += crew.get(&format!("/api/runs/{run}"))?["spent"]["calls"].as_u64().unwrap_or(0);
    }
    Ok(Figures {
        workers,
        consults_an_hour: count as f64 / seconds * 3600.0,
        writes_a_second: calls as f64 / seconds,
        processor_seconds: used / (count * DEBATES) as f64,
        busy: used / seconds,
    })
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let Args { servers, slots, consults, rounds, latency, .. } = &args;
    println!(
        "{servers} server(s) of NATS; workers with {slots} sandboxes each; {consults} consultations of 15 debates for \
         each worker, {rounds} rounds; the model takes {latency} ms"
    );
    println!("workers  consults/h  times  writes/s  processors busy");
    let mut first = None;
    let mut last = 0.0;
    for workers in &args.workers {
        let figures = measure(&args, *workers, *latency)?;
        let one = *first.get_or_insert(figures.consults_an_hour);
        last = figures.consults_an_hour / one;
        println!(
            "{:7}  {:10.0}  {:5.2}  {:8.0}  {:15.2}",
            figures.workers, figures.consults_an_hour, last, figures.writes_a_second, figures.busy
        );
    }
    let most = args.workers.iter().max().copied().unwrap_or(1);
    let full = measure(&args, most, 0)?;
    println!(
        "at saturation, {} workers and no wait: {:.0} consultations an hour, {:.0} writes a second, {:.3} processor \
         seconds for each debate",
        full.workers, full.consults_an_hour, full.writes_a_second, full.processor_seconds
    );
    stores::compare(args.records)?;
    let deaths = death::measure(&args.assize, args.servers, args.deaths)?;
    let show = |deaths: &[Duration]| {
        let mut seconds: Vec<f64> = deaths.iter().map(Duration::as_secs_f64).collect();
        seconds.sort_by(f64::total_cmp);
        let at = |part: f64| seconds[((seconds.len() - 1) as f64 * part).round() as usize];
        format!("{:.1} s in the middle, {:.1} s at most", at(0.5), at(1.0))
    };
    println!("from a worker's death until a debate of its goes on: {}", show(&deaths.debates));
    println!("until a run that it held goes on: {}", show(&deaths.runs));
    println!("{}", json!({"times": last, "most_workers": most}));
    ensure!(
        deaths.debates.iter().chain(&deaths.runs).all(|one| one.as_secs() < 60),
        "it took too long"
    );
    Ok(())
}
