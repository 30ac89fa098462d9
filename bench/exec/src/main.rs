//! `print(1)` in a fresh sandbox: ours warm and cold, in a jail and in a container, beside
//! `docker run --rm`, `docker exec` and bubblewrap, all in one run.
//!
//! One after the other, started at even intervals, and all at once; and what it takes to have five
//! sandboxes waiting. Times on a shared machine are noise: look at the ratios.

#![expect(clippy::print_stdout, reason = "this program is there to print")]

mod contestants;
mod figures;
mod machines;
mod served;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use assize_config::Isolation;
use assize_sandbox::{PoolOptions, Spec};
use clap::Parser;

use contestants::{Contestant, Peers, backend};
use figures::{Figures, row};

#[derive(Debug, Parser)]
struct Args {
    /// How often each is run in each way
    #[arg(long, default_value_t = 100)]
    iterations: usize,
    /// Milliseconds between two starts of the staggered runs
    #[arg(long, default_value_t = 100)]
    interval: u64,
    /// Sandboxes that wait
    #[arg(long, default_value_t = 5)]
    pool: usize,
    /// The `assize` program, to measure whole processes of it, too
    #[arg(long)]
    assize: Option<PathBuf>,
    /// The Python that all but the containers use
    #[arg(long, default_value = "/usr/bin/python3")]
    python: PathBuf,
    /// Only these sandboxes: `microvm` has figures of its own
    #[arg(long, value_parser = ["microvm"])]
    isolation: Option<String>,
    /// Measure `POST /api/exec` of a server with and without a warm pool, on each backend
    #[arg(long)]
    served: bool,
    /// Where `assize` keeps its images, if elsewhere than usual
    #[arg(long)]
    cache: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Sequential,
    Staggered,
    Burst,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let folder = tempfile::tempdir().context("making a folder")?;
    let mut peers = Peers::new(&args.python, args.assize.clone(), folder.path()).await?;
    if args.served {
        let measured = served::run(&args, folder.path(), &peers).await;
        peers.end().await;
        return measured;
    }
    if args.isolation.is_some() {
        let measured = machines::run(&args, folder.path(), &peers).await;
        peers.end().await;
        return measured;
    }
    let options = PoolOptions { size: args.pool, ..PoolOptions::default() };
    let mut contestants: Vec<(String, Result<Contestant, String>)> = Vec::new();
    for isolation in [Isolation::Jail, Isolation::Docker] {
        let made = backend(isolation, &args.python).await;
        let name = isolation.name();
        match made {
            Ok(backend) => {
                let manager =
                    assize_sandbox::Manager::open(folder.path().join(name), backend, &[]).await?;
                let manager = Arc::new(manager);
                let pool = Arc::new(manager.pool(Spec::default(), options.clone()));
                waiting(name, &pool, &args).await?;
                contestants.push((format!("{name}, warm"), Ok(Contestant::Warm(pool))));
                contestants.push((format!("{name}, cold"), Ok(Contestant::Cold(manager))));
            }
            Err(why) => contestants.push((name.to_owned(), Err(why))),
        }
    }
    contestants.extend(peers.contestants());
    let mut medians = Vec::new();
    for way in [Way::Sequential, Way::Staggered, Way::Burst] {
        println!("\n{}", heading(way, &args));
        println!("{}", row(["", "p50 ms", "p95 ms", "p99 ms", "done"].map(str::to_owned)));
        for ((name, contestant), figures) in
            contestants.iter().zip(measure(&contestants, way, &args).await)
        {
            match contestant {
                Ok(_) => println!("{}", figures.row(name)),
                Err(why) => println!("{name:<24} skipped: {why}"),
            }
            medians.push((way, name.clone(), figures));
        }
    }
    for (_, contestant) in &contestants {
        if let Ok(Contestant::Warm(pool)) = contestant {
            pool.close().await;
        }
    }
    peers.end().await;
    compare(&medians);
    Ok(())
}

fn heading(way: Way, args: &Args) -> String {
    let count = args.iterations;
    match way {
        Way::Sequential => {
            format!("One after the other in turns, {count} each, nothing else under way")
        }
        Way::Staggered => format!("One every {} ms, {count} each", args.interval),
        Way::Burst => format!("All {count} at once"),
    }
}

/// What it takes to have sandboxes waiting, and what each of them holds.
async fn waiting(name: &str, pool: &assize_sandbox::Pool, args: &Args) -> anyhow::Result<()> {
    let begun = Instant::now();
    pool.ready().await?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let memory = figures::private_memory(name)?;
    let each = memory.map(|bytes| bytes / args.pool.max(1) as f64 / (1 << 20) as f64);
    let each = each.map_or("unknown".to_owned(), |each| format!("{each:.1} MiB"));
    println!("{name}: {} wait after {took:.0} ms, {each} of private memory each", args.pool);
    Ok(())
}

type Contestants = [(String, Result<Contestant, String>)];

/// The figures of each contestant, in their order.
async fn measure(contestants: &Contestants, way: Way, args: &Args) -> Vec<Figures> {
    let mut all: Vec<Figures> = contestants.iter().map(|_| Figures::default()).collect();
    let there = || {
        contestants
            .iter()
            .enumerate()
            .filter_map(|(index, (_, one))| Some((index, one.as_ref().ok()?)))
    };
    if way == Way::Sequential {
        // In turns, so that what else the machine does falls on all of them.
        for _ in 0..args.iterations {
            for (index, contestant) in there() {
                // Nobody's sandboxes are being made while another is measured.
                for (_, other) in there() {
                    other.rest().await;
                }
                all[index].add(contestant.run().await);
            }
        }
        return all;
    }
    for (index, contestant) in there() {
        contestant.rest().await;
        let interval = if way == Way::Staggered { args.interval } else { 0 };
        let runs = (0..args.iterations).map(|number| async move {
            let pause = Duration::from_millis(interval) * u32::try_from(number).unwrap_or(0);
            tokio::time::sleep(pause).await;
            contestant.run().await
        });
        let done = futures_util::future::join_all(runs).await;
        done.into_iter().for_each(|done| all[index].add(done));
    }
    all
}

/// What we set out to reach, and what it came to.
fn compare(medians: &[(Way, String, Figures)]) {
    let median = |name: &str| {
        let found = medians.iter().find(|(way, each, _)| *way == Way::Sequential && each == name);
        found.and_then(|(_, _, figures)| figures.percentile(50.0))
    };
    println!("\nBeside each other, medians of one after the other");
    let pairs = [
        ("docker exec", "jail, warm", "at least 15"),
        ("docker exec", "docker, warm", "more than 1"),
        ("docker run --rm", "jail, cold", ""),
        ("bwrap", "jail, cold", "at least 0.91, which is 1.1 the other way round"),
    ];
    for (peer, ours, goal) in pairs {
        if let (Some(theirs), Some(our)) = (median(peer), median(ours)) {
            let goal = if goal.is_empty() { String::new() } else { format!(" (to reach: {goal})") };
            println!("  {ours} is {:.2}× as fast as {peer}{goal}", theirs / our);
        }
    }
    for (way, name, figures) in medians {
        if *way == Way::Burst && name.contains(',') {
            println!("  burst, {name}: {:.0} % done", figures.success() * 100.0);
        }
    }
}
