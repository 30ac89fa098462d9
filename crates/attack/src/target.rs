//! Targets on which probes run (the host or sandboxes), and the results of runs as observed from outside.

use std::time::Duration;

use async_trait::async_trait;

use crate::catalog::{GuaranteedLimit, Probe};

/// One run of one step of a probe.
#[derive(Debug)]
pub(crate) struct ProbeRun<'a> {
    pub(crate) probe: &'a Probe,
    pub(crate) code: String,
    /// Input of the probe, as JSON.
    pub(crate) input: String,
    /// Random text in the command lines of all processes of this run, by which the processes are found.
    pub(crate) mark: String,
    /// Random text, the same for all steps of the probe. The names of the files and sockets that the probe creates
    /// contain this text.
    pub(crate) tag: String,
}

/// Result of a probe run, as observed from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeResult {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: ProbeEnd,
    /// Exit code that the guest agent or the host reports for the program. `None` if the program did not exit or the
    /// report is invalid.
    pub(crate) reported_exit_code: Option<i32>,
    /// Duration of the run.
    pub(crate) took: Duration,
    /// Timeout of the run.
    pub(crate) timeout: Duration,
    /// Whether any process of the run still existed on the host after the run.
    pub(crate) survived: bool,
    /// Contents of the files that the host collected.
    pub(crate) collected: Vec<u8>,
}

/// How the program of a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeEnd {
    Exit(i32),
    Signal(i32),
    TimedOut,
    OutOfMemory,
}

/// Error of running a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeRunError {
    /// The sandbox or the program could not be started.
    Start(String),
    /// The sandbox failed during the run, or returned no result in time.
    SandboxFailed(String),
}

/// Target on which probes run: the host, or the sandboxes of a backend.
#[async_trait]
pub(crate) trait AttackTarget: Send + Sync {
    fn name(&self) -> String;

    /// Whether this target runs probes in a microVM.
    fn is_microvm(&self) -> bool {
        false
    }

    /// Factor by which the timeouts of this target are longer than those of a jail.
    fn timeout_factor(&self) -> u32 {
        1
    }

    /// Process id of the guest agent inside the sandbox; `None` on the host.
    fn guest_pid(&self) -> Option<i32>;

    /// How the backend enforces a limit that it does not guarantee; `None` if the backend guarantees the limit.
    fn best_effort(&self, promise: GuaranteedLimit) -> Option<String>;

    async fn run(&self, run: &ProbeRun<'_>) -> Result<ProbeResult, ProbeRunError>;
}
