//! Where debates run, and how many at once.

use std::sync::Arc;

use super::Request;
use crate::negotiation::{Debates, InProcess, InSandboxes, LONGEST, install};
use assize_config::{Limits, Wanted};
use assize_gateway::Gateway;
use assize_run::{Run, StoreError};
use assize_sandbox::choice::Chosen;
use assize_sandbox::memory::meminfo;
use assize_sandbox::{Layer, Manager, Sandboxes, Spec};
use assize_types::{Failure, FailureKind, Reporter};

/// Calls of one debate that are under way at once.
const AT_ONCE: usize = 3;

/// The most debates of one consultation that run at once, unless the user says.
const MOST: usize = 15;

/// Runs debates in the sandboxes of a cluster.
pub trait RemoteDebates: std::fmt::Debug + Send + Sync {
    /// The debates of one run, in such sandboxes.
    fn of_run(&self, run: &Run, spec: Spec) -> Arc<dyn Debates>;
}

/// Why a debate did not come to its end in the cluster.
#[derive(Debug, thiserror::Error)]
pub enum RemoteDebateError {
    #[error("{0}")]
    Failed(String),
    #[error("no worker can hold the debate: {0}")]
    Nowhere(String),
    #[error("{tries} workers have begun the debate, and none of them has ended it or said why")]
    GivenUp { tries: u64 },
    #[error(
        "no worker could begin the debate: its job was removed from the queue {tries} times; \
         `assize cluster status` lists the dead letters and why"
    )]
    NotBegun { tries: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many debates run at once, unless the user says: no more than the provider answers side by side, and than there
/// is memory for. In a cluster they run wherever there is memory.
pub(super) fn at_once(asked: Option<u32>, is_remote: bool, gateway: &Gateway) -> usize {
    if let Some(asked) = asked {
        return asked as usize;
    }
    let most = if is_remote { MOST } else { sandboxes().clamp(1, MOST) };
    if gateway.is_rehearsal() {
        return most;
    }
    (gateway.concurrency() / AT_ONCE).clamp(1, most)
}

/// How many sandboxes that debate there is memory for: what they use, and not what they may.
fn sandboxes() -> usize {
    /// An emulated machine, which takes more than all others.
    const ONE: u64 = 96 << 20;
    let fit = meminfo("MemAvailable").and_then(|free| usize::try_from(free / ONE).ok());
    fit.unwrap_or(usize::MAX)
}

/// Where the debates of a run can run.
#[derive(Debug)]
pub enum Ground {
    Sandboxes {
        prepared: Prepared,
        may_do_without: bool,
    },
    /// In this process, because no sandbox can be made.
    Here {
        why: String,
    },
    /// Wherever in the cluster there is a sandbox for one.
    Cluster(Arc<dyn RemoteDebates>),
}

impl<P: Sync> Request<P> {
    /// Finds where debates can run.
    pub(crate) async fn ground(
        &self,
        spec: &Spec,
        allow_in_process: bool,
    ) -> Result<Ground, Failure> {
        let Request { providers, sandboxes, remote, .. } = self;
        if let Some(remote) = remote {
            return Ok(Ground::Cluster(remote.clone()));
        }
        let reporter = &*providers.reporter;
        // What is asked for and cannot be had is an error, never something weaker.
        let named = spec.image.is_some() || *sandboxes.settings.sandbox.isolation != Wanted::Auto;
        let may_do_without = !named || allow_in_process;
        let chosen = match sandboxes.choose_for_debates(spec).await {
            Ok(chosen) => chosen,
            Err(failure) if may_do_without => return Ok(Ground::without(&failure, reporter)),
            Err(failure) => {
                return Err(failure.hint("`--allow-in-process` debates without a sandbox"));
            }
        };
        match Prepared::make(sandboxes, chosen).await {
            Ok(prepared) => Ok(Ground::Sandboxes { prepared, may_do_without }),
            Err(failure) if may_do_without => Ok(Ground::without(&failure, reporter)),
            Err(failure) => Err(failure),
        }
    }
}

impl Ground {
    fn without(failure: &Failure, reporter: &dyn Reporter) -> Ground {
        let why = format!(
            "no sandbox can be made here, so debates are held without one: {}",
            failure.message()
        );
        reporter.warn(&why);
        Ground::Here { why }
    }

    /// Where the debates of a run run.
    pub(crate) fn of_run(self, spec: Spec, run: &Run) -> Arc<dyn Debates> {
        match self {
            Ground::Cluster(remote) => remote.of_run(run, spec),
            Ground::Here { why } => Arc::new(InProcess { why: Some(why) }),
            Ground::Sandboxes { prepared, may_do_without } => {
                let Prepared { manager, layer, why: isolation, weaker } = prepared;
                let run = match run.epoch {
                    0 | 1 => run.id.to_string(),
                    epoch => format!("{}-{epoch}", run.id),
                };
                Arc::new(InSandboxes {
                    manager,
                    spec,
                    layer,
                    run,
                    may_do_without,
                    weaker,
                    isolation,
                })
            }
        }
    }
}

/// All that debates in sandboxes need.
#[derive(Debug)]
pub struct Prepared {
    pub manager: Arc<Manager>,
    pub layer: Layer,
    /// Which isolation, and why that one.
    pub why: String,
    /// That it is a weaker boundary than was meant, in a sentence.
    pub weaker: Option<String>,
}

impl Prepared {
    /// Installs the negotiator for a backend.
    pub async fn make(sandboxes: &Sandboxes, chosen: Chosen) -> Result<Prepared, Failure> {
        let why = format!("{} ({})", chosen.backend.isolation(), chosen.why);
        let manager = Arc::new(sandboxes.manager(chosen.backend).await?);
        let folder = sandboxes.environment.cache_folder.join("programs");
        let layer = install(&folder).map_err(|error| {
            let message = format!("cannot use `{}`: {error}", folder.display());
            Failure::new(FailureKind::Environment, message)
        })?;
        Ok(Prepared { manager, layer, why, weaker: chosen.weaker })
    }
}

/// Limits of the sandboxes of debates, by the settings.
pub(crate) fn limits(sandboxes: &Sandboxes) -> Result<Limits, Failure> {
    sandboxes.spec(None)?;
    let mut limits = sandboxes.limits_of_debates();
    // Most of a debate is waiting for a model, which has limits of its own.
    if sandboxes.settings.sandbox.timeout_seconds.requested().is_none() {
        limits.wall = LONGEST;
    }
    Ok(limits)
}
