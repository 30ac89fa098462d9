//! Runs probes in sandboxes. Every run uses a new sandbox.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use assize_config::{Isolation, SandboxLimits};
use assize_sandbox::{
    FinishedProgram, Language, ProgramCommand, Sandbox, SandboxError, SandboxManager, SandboxSpec,
    WORKSPACE,
};
use async_trait::async_trait;

use crate::catalog::{GuaranteedLimit, HostAction, ProbeLimits};
use crate::marked_processes;
use crate::target::{AttackTarget, ProbeEnd, ProbeResult, ProbeRun, ProbeRunError};

/// Output limit of a sandbox with tight limits, in bytes.
pub(crate) const TIGHT_OUTPUT: u64 = 64 << 10;

/// Timeout of a sandbox with tight limits.
pub(crate) const TIGHT_WALL: Duration = Duration::from_secs(2);

/// Maximum duration of a run in a sandbox. A run that takes longer counts as a failure of the sandbox.
const DEADLINE: Duration = Duration::from_secs(90);

/// Maximum number of bytes that the host reads each time it collects the files of a sandbox.
const MAX_COLLECTED: u64 = 1 << 20;

/// Factor by which timeouts in a microVM are longer than in other sandboxes. Programs in an emulated microVM are slow,
/// and must be able to reach their other limits, such as memory, before they time out.
const MICROVM_SLOWDOWN: u32 = 4;

/// Attack target that runs each probe in a new sandbox of this manager.
#[derive(Debug)]
pub(crate) struct SandboxTarget<'a>(pub(crate) &'a SandboxManager);

impl SandboxTarget<'_> {
    async fn run_in_sandbox(&self, run: &ProbeRun<'_>) -> Result<ProbeResult, ProbeRunError> {
        let mut limits = limits(run.probe.limits);
        limits.wall *= self.timeout_factor();
        let wall = limits.wall;
        let spec = SandboxSpec { limits, ..SandboxSpec::default() };
        let made = self.0.create(spec).await;
        let sandbox = made.map_err(|error| ProbeRunError::Start(error.to_string()))?;
        let began = Instant::now();
        let (ran, collected) = run_with_host(&sandbox, run).await;
        let took = began.elapsed();
        sandbox.end().await;
        let FinishedProgram { stdout, stderr, outcome, .. } =
            ran.map_err(|error| ProbeRunError::SandboxFailed(error.to_string()))?;
        let (end, reported_exit_code) = match (outcome.exit_code, outcome.signal) {
            _ if outcome.timed_out => (ProbeEnd::TimedOut, None),
            _ if outcome.out_of_memory => (ProbeEnd::OutOfMemory, None),
            (Some(code), _) => (ProbeEnd::Exit(code), Some(code)),
            (None, signal) => (ProbeEnd::Signal(signal.unwrap_or(0)), None),
        };
        let survived = !marked_processes::find(&run.mark).is_empty();
        Ok(ProbeResult {
            stdout,
            stderr,
            end,
            reported_exit_code,
            took,
            timeout: wall,
            survived,
            collected,
        })
    }
}

/// Runs a probe in a sandbox. If the probe has a host action, also performs the action on the files of the sandbox.
/// Returns the result of the run and the contents of the collected files.
async fn run_with_host(
    sandbox: &Sandbox,
    run: &ProbeRun<'_>,
) -> (Result<FinishedProgram, SandboxError>, Vec<u8>) {
    let (ended, mut collected) = (AtomicBool::new(false), Vec::new());
    let program = async {
        let command = ProgramCommand::default().args([run.probe.name.as_str(), &run.input]);
        let ran = match sandbox.run(Language::Python, run.code.as_bytes(), command).await {
            Ok(running) => running.finish().await,
            Err(error) => Err(error),
        };
        ended.store(true, Ordering::Relaxed);
        ran
    };
    let collecting = async {
        while run.probe.host == Some(HostAction::Collect) {
            let is_last = ended.load(Ordering::Relaxed);
            let harvest =
                sandbox.collect_files_up_to(WORKSPACE, &BTreeSet::new(), MAX_COLLECTED).await;
            collected.extend(harvest.files.into_iter().flat_map(|(_, bytes)| bytes));
            if is_last {
                break;
            }
        }
    };
    let (ran, ()) = tokio::join!(program, collecting);
    if run.probe.host == Some(HostAction::Give) {
        let path = format!("{WORKSPACE}/given-{}", run.tag);
        // If the write fails, the sandbox has stopped the probe.
        let _ = sandbox.write(&path, run.mark.as_bytes()).await;
    }
    (ran, collected)
}

fn limits(room: ProbeLimits) -> SandboxLimits {
    let tight = SandboxLimits {
        memory: 64 << 20,
        cpu_millis: 1000,
        wall: TIGHT_WALL,
        processes: 24,
        output: TIGHT_OUTPUT,
        disk: 8 << 20,
    };
    match room {
        ProbeLimits::Tight => tight,
        ProbeLimits::Share => {
            SandboxLimits { cpu_millis: 250, wall: Duration::from_secs(5), ..tight }
        }
        ProbeLimits::Usual => SandboxLimits {
            cpu_millis: 1000,
            wall: Duration::from_secs(10),
            ..SandboxLimits::default()
        },
    }
}

#[async_trait]
impl AttackTarget for SandboxTarget<'_> {
    fn name(&self) -> String {
        self.0.isolation().to_string()
    }

    fn is_microvm(&self) -> bool {
        self.0.isolation() == Isolation::Microvm
    }

    fn timeout_factor(&self) -> u32 {
        if self.is_microvm() { MICROVM_SLOWDOWN } else { 1 }
    }

    fn guest_pid(&self) -> Option<i32> {
        Some(1)
    }

    fn best_effort(&self, promise: GuaranteedLimit) -> Option<String> {
        let enforcement = self.0.backend().enforcement();
        let by = match promise {
            GuaranteedLimit::Memory => enforcement.memory,
            GuaranteedLimit::Processes => enforcement.processes,
            GuaranteedLimit::Cpu => enforcement.cpu,
        };
        by.starts_with("best effort").then_some(by)
    }

    async fn run(&self, run: &ProbeRun<'_>) -> Result<ProbeResult, ProbeRunError> {
        match tokio::time::timeout(DEADLINE, self.run_in_sandbox(run)).await {
            Ok(ran) => ran,
            Err(_) => {
                let why = format!("the sandbox returned no result within {} s", DEADLINE.as_secs());
                Err(ProbeRunError::SandboxFailed(why))
            }
        }
    }
}
