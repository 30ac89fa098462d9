//! Probes in sandboxes: each in one of its own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use assize_config::{Isolation, Limits};
use assize_sandbox::{
    Command, Finished, Language, Manager, Sandbox, SandboxError, Spec, WORKSPACE,
};
use async_trait::async_trait;

use crate::catalog::{HostAction, Promise, Room};
use crate::marked;
use crate::place::{End, Failed, Place, Ran, Run};

/// The most output of a program in a tight sandbox.
pub(crate) const TIGHT_OUTPUT: u64 = 64 << 10;

/// The most time of a program in a tight sandbox.
pub(crate) const TIGHT_WALL: Duration = Duration::from_secs(2);

/// When we give up on a sandbox altogether.
const DEADLINE: Duration = Duration::from_secs(90);

/// The most that is collected at once.
const MOST: u64 = 1 << 20;

/// How much longer everything takes in a machine, which may be emulated: what should end because it used
/// too much must not end before, because it was slow.
const SLOWER: u32 = 4;

/// Sandboxes that a manager makes.
#[derive(Debug)]
pub(crate) struct Inside<'a>(pub(crate) &'a Manager);

impl Inside<'_> {
    async fn run_in_one(&self, run: &Run<'_>) -> Result<Ran, Failed> {
        let mut limits = limits(run.probe.room);
        limits.wall *= self.slower();
        let wall = limits.wall;
        let spec = Spec { limits, ..Spec::default() };
        let made = self.0.make(spec).await;
        let sandbox = made.map_err(|error| Failed::Start(error.to_string()))?;
        let began = Instant::now();
        let (ran, collected) = run_with_host(&sandbox, run).await;
        let took = began.elapsed();
        sandbox.end().await;
        let Finished { stdout, stderr, outcome, .. } =
            ran.map_err(|error| Failed::Gone(error.to_string()))?;
        let (end, told) = match (outcome.exit_code, outcome.signal) {
            _ if outcome.timed_out => (End::TimedOut, None),
            _ if outcome.out_of_memory => (End::OutOfMemory, None),
            (Some(code), _) => (End::Exit(code), Some(code)),
            (None, signal) => (End::Signal(signal.unwrap_or(0)), None),
        };
        let survived = !marked::find(&run.mark).is_empty();
        Ok(Ran { stdout, stderr, end, told, took, wall, survived, collected })
    }
}

/// Runs the program of a probe, and does what the host has to do with its files; gives also what was collected of them.
async fn run_with_host(
    sandbox: &Sandbox,
    run: &Run<'_>,
) -> (Result<Finished, SandboxError>, Vec<u8>) {
    let (ended, mut collected) = (AtomicBool::new(false), Vec::new());
    let program = async {
        let command = Command::default().args([run.probe.name.as_str(), &run.given]);
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
            let harvest = sandbox.harvest_at_most(WORKSPACE, &BTreeSet::new(), MOST).await;
            collected.extend(harvest.files.into_iter().flat_map(|(_, bytes)| bytes));
            if is_last {
                break;
            }
        }
    };
    let (ran, ()) = tokio::join!(program, collecting);
    if run.probe.host == Some(HostAction::Give) {
        let path = format!("{WORKSPACE}/given-{}", run.tag);
        // That it cannot be written is an answer of the sandbox.
        let _ = sandbox.write(&path, run.mark.as_bytes()).await;
    }
    (ran, collected)
}

fn limits(room: Room) -> Limits {
    let tight = Limits {
        memory: 64 << 20,
        cpu_millis: 1000,
        wall: TIGHT_WALL,
        processes: 24,
        output: TIGHT_OUTPUT,
        disk: 8 << 20,
    };
    match room {
        Room::Tight => tight,
        Room::Share => Limits { cpu_millis: 250, wall: Duration::from_secs(5), ..tight },
        Room::Usual => {
            Limits { cpu_millis: 1000, wall: Duration::from_secs(10), ..Limits::default() }
        }
    }
}

#[async_trait]
impl Place for Inside<'_> {
    fn name(&self) -> String {
        self.0.isolation().to_string()
    }

    fn is_machine(&self) -> bool {
        self.0.isolation() == Isolation::Microvm
    }

    fn slower(&self) -> u32 {
        if self.is_machine() { SLOWER } else { 1 }
    }

    fn guest(&self) -> Option<i32> {
        Some(1)
    }

    fn best_effort(&self, promise: Promise) -> Option<String> {
        let enforcement = self.0.backend().enforcement();
        let by = match promise {
            Promise::Memory => enforcement.memory,
            Promise::Processes => enforcement.processes,
            Promise::Cpu => enforcement.cpu,
        };
        by.starts_with("best effort").then_some(by)
    }

    async fn run(&self, run: &Run<'_>) -> Result<Ran, Failed> {
        match tokio::time::timeout(DEADLINE, self.run_in_one(run)).await {
            Ok(ran) => ran,
            Err(_) => Err(Failed::Gone("nothing was heard of it any more".to_owned())),
        }
    }
}
