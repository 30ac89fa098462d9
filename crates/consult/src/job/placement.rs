//! Placement of debates (in sandboxes, in this process or in the cluster), and the number of concurrent debates.

use std::sync::Arc;

use super::JobRequest;
use crate::negotiation::{
    DEBATE_TIME_LIMIT, DebateRunner, InProcessDebates, SandboxedDebates, install,
};
use assize_config::{RequestedIsolation, SandboxLimits};
use assize_gateway::Gateway;
use assize_run::{Run, StoreError};
use assize_sandbox::choice::SelectedBackend;
use assize_sandbox::memory::meminfo;
use assize_sandbox::{SandboxFactory, SandboxLayer, SandboxManager, SandboxSpec};
use assize_types::{Failure, FailureKind, Reporter};

/// Number of concurrent model calls of a debate with three decision makers.
const CALLS_PER_DEBATE: usize = 3;

/// Default maximum number of concurrent debates per consultation.
const MAX_DEBATES: usize = 15;

/// Runs debates in the sandboxes of a cluster.
pub trait RemoteDebates: std::fmt::Debug + Send + Sync {
    /// Returns a runner for the debates of one run, which creates their sandboxes according to `spec`.
    fn of_run(&self, run: &Run, spec: SandboxSpec) -> Arc<dyn DebateRunner>;
}

/// Error of a debate that was sent to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum RemoteDebateError {
    #[error("{0}")]
    Failed(String),
    #[error("no worker can run the debate: {0}")]
    NoWorker(String),
    #[error(
        "the debate was started {tries} times in the cluster, but no worker finished it or reported an error"
    )]
    NotFinished { tries: u64 },
    #[error(
        "no worker could start the debate: its job was removed from the queue {tries} times; \
         `assize cluster status` lists the dead letters and their reasons"
    )]
    NotStarted { tries: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Number of concurrent debates. If the user does not set it, it depends on the concurrency limit of the provider and
/// on the available memory. In a cluster, the memory of this machine does not matter, because debates run on any worker
/// with enough memory.
pub(super) fn concurrent_debates(asked: Option<u32>, is_remote: bool, gateway: &Gateway) -> usize {
    if let Some(asked) = asked {
        return asked as usize;
    }
    let most = if is_remote { MAX_DEBATES } else { sandboxes_that_fit().clamp(1, MAX_DEBATES) };
    if gateway.is_rehearsal() {
        return most;
    }
    (gateway.concurrency() / CALLS_PER_DEBATE).clamp(1, most)
}

/// Number of debate sandboxes that fit into the available memory, computed from the memory that a sandbox typically
/// uses and not from its memory limit.
fn sandboxes_that_fit() -> usize {
    /// Memory that an emulated microVM typically uses, in bytes. Other kinds of sandboxes use less.
    const MICROVM_MEMORY: u64 = 96 << 20;
    let fit = meminfo("MemAvailable").and_then(|free| usize::try_from(free / MICROVM_MEMORY).ok());
    fit.unwrap_or(usize::MAX)
}

/// Where the debates of a run are executed.
#[derive(Debug)]
pub enum DebatePlacement {
    Sandboxes {
        prepared: DebateSandboxes,
        allow_in_process: bool,
    },
    /// The debates run in this process, because no sandbox can be created.
    InProcess {
        why: String,
    },
    /// The debates run on any cluster node with a free sandbox.
    Cluster(Arc<dyn RemoteDebates>),
}

impl<P: Sync> JobRequest<P> {
    /// Chooses where the debates of a run are executed.
    pub(crate) async fn choose_placement(
        &self,
        spec: &SandboxSpec,
        allow_in_process: bool,
    ) -> Result<DebatePlacement, Failure> {
        let JobRequest { providers, sandboxes, remote, .. } = self;
        if let Some(remote) = remote {
            return Ok(DebatePlacement::Cluster(remote.clone()));
        }
        let reporter = &*providers.reporter;
        // If the requested isolation is unavailable, this is an error: it is never replaced by a weaker isolation.
        let named = spec.image.is_some()
            || *sandboxes.settings.sandbox.isolation != RequestedIsolation::Auto;
        let may_do_without = !named || allow_in_process;
        let chosen = match sandboxes.choose_for_debates(spec).await {
            Ok(chosen) => chosen,
            Err(failure) if may_do_without => {
                return Ok(DebatePlacement::in_process(&failure, reporter));
            }
            Err(failure) => {
                return Err(failure.hint("use `--allow-in-process` to debate without a sandbox"));
            }
        };
        match DebateSandboxes::make(sandboxes, chosen).await {
            Ok(prepared) => {
                Ok(DebatePlacement::Sandboxes { prepared, allow_in_process: may_do_without })
            }
            Err(failure) if may_do_without => Ok(DebatePlacement::in_process(&failure, reporter)),
            Err(failure) => Err(failure),
        }
    }
}

impl DebatePlacement {
    fn in_process(failure: &Failure, reporter: &dyn Reporter) -> DebatePlacement {
        let why = format!(
            "no sandbox can be created on this machine, so debates run without a sandbox: {}",
            failure.message()
        );
        reporter.warn(&why);
        DebatePlacement::InProcess { why }
    }

    /// Returns a runner that executes the debates of `run` according to this placement.
    pub(crate) fn of_run(self, spec: SandboxSpec, run: &Run) -> Arc<dyn DebateRunner> {
        match self {
            DebatePlacement::Cluster(remote) => remote.of_run(run, spec),
            DebatePlacement::InProcess { why } => Arc::new(InProcessDebates { why: Some(why) }),
            DebatePlacement::Sandboxes { prepared, allow_in_process: may_do_without } => {
                let DebateSandboxes { manager, layer, isolation, weaker } = prepared;
                let run = match run.epoch {
                    0 | 1 => run.id.to_string(),
                    epoch => format!("{}-{epoch}", run.id),
                };
                Arc::new(SandboxedDebates {
                    manager,
                    spec,
                    layer,
                    run,
                    allow_in_process: may_do_without,
                    weaker,
                    isolation,
                })
            }
        }
    }
}

/// Sandbox manager and negotiator layer, prepared for debates in sandboxes.
#[derive(Debug)]
pub struct DebateSandboxes {
    pub manager: Arc<SandboxManager>,
    pub layer: SandboxLayer,
    /// Isolation of the sandboxes, and why it was chosen.
    pub isolation: String,
    /// Warning for the report if no microVM is available and debates run with weaker isolation than a microVM.
    pub weaker: Option<String>,
}

impl DebateSandboxes {
    /// Creates the sandbox manager of the chosen backend and installs the negotiator.
    pub async fn make(
        sandboxes: &SandboxFactory,
        chosen: SelectedBackend,
    ) -> Result<DebateSandboxes, Failure> {
        let why = format!("{} ({})", chosen.backend.isolation(), chosen.why);
        let manager = Arc::new(sandboxes.manager(chosen.backend).await?);
        let folder = sandboxes.environment.cache_folder.join("programs");
        let layer = install(&folder).map_err(|error| {
            let message =
                format!("cannot install the negotiator into `{}`: {error}", folder.display());
            Failure::new(FailureKind::Environment, message)
        })?;
        Ok(DebateSandboxes {
            manager,
            layer,
            isolation: why,
            weaker: chosen.weaker_isolation_warning,
        })
    }
}

/// Resource limits of debate sandboxes, from the settings.
pub(crate) fn limits(sandboxes: &SandboxFactory) -> Result<SandboxLimits, Failure> {
    sandboxes.spec(None)?;
    let mut limits = sandboxes.limits_of_debates();
    // A debate mostly waits for model calls, which have their own time limits. So its default time limit is long.
    if sandboxes.settings.sandbox.timeout_seconds.requested().is_none() {
        limits.wall = DEBATE_TIME_LIMIT;
    }
    Ok(limits)
}
