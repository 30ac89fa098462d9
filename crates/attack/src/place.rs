//! Where a probe runs (the host or a sandbox), and what can be observed of the run from outside.

use std::time::Duration;

use async_trait::async_trait;

use crate::catalog::{GuaranteedLimit, Probe};

/// One run of a probe.
#[derive(Debug)]
pub(crate) struct ProbeRun<'a> {
    pub(crate) probe: &'a Probe,
    pub(crate) code: String,
    /// Input of the probe, as JSON.
    pub(crate) given: String,
    /// Nonce in the command line of all its processes.
    pub(crate) mark: String,
    /// Text that is the same in all steps of a probe.
    pub(crate) tag: String,
}

/// Observed result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeResult {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: ProbeEnd,
    /// Exit code that the guest agent or the host reports for the program; `None` if the report is invalid.
    pub(crate) told: Option<i32>,
    pub(crate) took: Duration,
    /// Its timeout.
    pub(crate) wall: Duration,
    /// Whether processes of the run outlived it.
    pub(crate) survived: bool,
    /// Contents of the files that the host collected.
    pub(crate) collected: Vec<u8>,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeEnd {
    Exit(i32),
    Signal(i32),
    TimedOut,
    OutOfMemory,
}

/// Error of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeRunError {
    /// The sandbox or the program could not be started.
    Start(String),
    /// The sandbox broke during the run.
    Gone(String),
}

/// Place to run probes: the host, or the sandboxes of a backend.
#[async_trait]
pub(crate) trait AttackTarget: Send + Sync {
    fn name(&self) -> String;

    /// Whether programs run in a microVM.
    fn is_machine(&self) -> bool {
        false
    }

    /// Factor by which timeouts are longer than usual.
    fn slower(&self) -> u32 {
        1
    }

    /// Process id of the guest agent, as programs see it; `None` on the host.
    fn guest(&self) -> Option<i32>;

    /// How the backend describes a limit that it enforces as best effort; `None` if it guarantees the limit.
    fn best_effort(&self, promise: GuaranteedLimit) -> Option<String>;

    async fn run(&self, run: &ProbeRun<'_>) -> Result<ProbeResult, ProbeRunError>;
}
