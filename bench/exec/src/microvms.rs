//! Benchmark of microVMs: cold boot, restore from a snapshot, and the warm pool, compared with Docker containers.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use assize_config::SandboxLimits;
use assize_sandbox::microvm::{Microvm, MicrovmOptions};
use assize_sandbox::{Backend, PoolOptions, SandboxManager, SandboxSpec};

use crate::contestants::{Contestant, Peers, run_code};
use crate::figures::{Figures, row};
use crate::{Args, figures};

/// Maximum number of cold boots to measure. The maximum is small, because each cold boot takes seconds.
const STARTS: usize = 5;

/// Operation whose duration is measured.
enum Measured {
    /// Creation of a sandbox, until the sandbox is ready.
    Creation(Arc<SandboxManager>),
    /// Execution of the code, until its result is available.
    Run(Contestant),
}

pub(crate) async fn run(args: &Args, folder: &Path, peers: &Peers) -> anyhow::Result<()> {
    let cache = args.cache.clone().unwrap_or_else(assize_testkit::cache_folder);
    let microvms = Arc::new(microvm(&cache));
    microvms.is_ready()?;
    let backend: Arc<dyn Backend> = microvms.clone();
    let how = backend.test_host().await?.unwrap_or_default();
    println!("MicroVMs run {how}\n");
    let accelerator =
        microvms.accelerator().map(|decided| decided.accelerator.name()).unwrap_or("");
    let manager = Arc::new(SandboxManager::open(folder.join("machines"), backend, &[]).await?);
    // Create the snapshot now, so that its creation is not measured as a restore.
    manager.create(spec()).await?.end().await;
    let options = PoolOptions { size: args.pool, ..PoolOptions::default() };
    let pool = Arc::new(manager.pool(spec(), options));
    let started = Instant::now();
    pool.ready().await?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    let memory = figures::microvm_memory()?;
    let (least, most) = memory.first().zip(memory.last()).context("no microVM is idle")?;
    let each = memory.iter().sum::<f64>() / memory.len() as f64;
    println!(
        "filling the warm pool with {} microVMs took {took:.0} ms; private memory of a microVM: {each:.1} MiB on \
         average, from {least:.1} to {most:.1} MiB (target: at most 40 MiB); accelerator: {accelerator}",
        memory.len()
    );
    let mut measured = vec![
        ("restore to ready".to_owned(), Measured::Creation(Arc::clone(&manager))),
        (
            "restore to result".to_owned(),
            Measured::Run(Contestant::ColdAs(Arc::clone(&manager), spec())),
        ),
        ("pool to result".to_owned(), Measured::Run(Contestant::WarmAs(Arc::clone(&pool), spec()))),
    ];
    for (name, peer) in peers.contestants() {
        match peer {
            Ok(peer) if name.starts_with("docker") => measured.push((name, Measured::Run(peer))),
            Err(why) if name.starts_with("docker") => println!("{name} skipped: {why}"),
            _ => {}
        }
    }
    let mut all: Vec<Figures> = measured.iter().map(|_| Figures::default()).collect();
    for _ in 0..args.iterations {
        for (figures, (_, one)) in all.iter_mut().zip(&measured) {
            pool.ready().await?;
            figures.add(match one {
                Measured::Run(contestant) => contestant.run().await,
                Measured::Creation(manager) => measure_creation(manager).await,
            });
        }
    }
    pool.close().await;
    let mut starts = Figures::default();
    for _ in 0..STARTS.min(args.iterations) {
        starts.add(cold_boot(&cache).await);
    }
    measured.insert(0, ("boot to ready".to_owned(), Measured::Creation(manager)));
    all.insert(0, starts);
    println!(
        "\n{} runs of each row ({} of `boot to ready`), one at a time; the rows take turns; accelerator: {accelerator}",
        args.iterations,
        STARTS.min(args.iterations)
    );
    println!("{}", row(["", "p50 ms", "p95 ms", "p99 ms", "done"].map(str::to_owned)));
    for ((name, _), figures) in measured.iter().zip(&all) {
        println!("{}", figures.row(name));
    }
    let median = |name: &str| {
        let index = measured.iter().position(|(each, _)| each == name)?;
        all[index].percentile(50.0)
    };
    println!("\nRatios of the median times; accelerator: {accelerator}");
    for (ours, peer, goal) in [
        ("restore to ready", "docker run --rm", " (target: more than 1)"),
        ("restore to result", "docker run --rm", ""),
        ("pool to result", "docker exec", " (target: more than 1)"),
    ] {
        if let (Some(our), Some(theirs)) = (median(ours), median(peer)) {
            println!("  {ours} is {:.2}× as fast as {peer}{goal}", theirs / our);
        }
    }
    Ok(())
}

fn microvm(cache: &Path) -> Microvm {
    let search = std::env::var_os("PATH");
    Microvm::new(MicrovmOptions { cache: cache.to_owned(), search, ..MicrovmOptions::default() })
}

/// Specification of a sandbox that can use one whole CPU, as the Docker containers of the comparison can.
fn spec() -> SandboxSpec {
    SandboxSpec {
        limits: SandboxLimits { cpu_millis: 1000, ..SandboxLimits::default() },
        ..SandboxSpec::default()
    }
}

async fn measure_creation(manager: &SandboxManager) -> (Duration, Result<(), String>) {
    let started = Instant::now();
    let made = manager.create(spec()).await;
    let took = started.elapsed();
    match made {
        Ok(sandbox) => {
            let done = run_code(&sandbox).await;
            sandbox.end().await;
            (took, done)
        }
        Err(error) => (took, Err(error.to_string())),
    }
}

/// Boots a microVM without a snapshot, and measures the time until the sandbox is ready.
async fn cold_boot(cache: &Path) -> (Duration, Result<(), String>) {
    let start = async {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let own = folder.path().join("microvm");
        std::fs::create_dir(&own).map_err(|error| error.to_string())?;
        std::os::unix::fs::symlink(cache.join("microvm/image"), own.join("image"))
            .map_err(|error| error.to_string())?;
        let sandboxes = folder.path().join("makers");
        let manager = SandboxManager::open(sandboxes, Arc::new(microvm(folder.path())), &[]).await;
        let manager = manager.map_err(|error| error.to_string())?;
        let started = Instant::now();
        let sandbox = manager.create(spec()).await.map_err(|error| error.to_string())?;
        let took = started.elapsed();
        sandbox.end().await;
        Ok::<_, String>(took)
    };
    match start.await {
        Ok(took) => (took, Ok(())),
        Err(why) => (Duration::ZERO, Err(why)),
    }
}
