//! Where debates can be held here, and how many at once.

use std::sync::Arc;

use assize_config::{Environment, Limits, Settings, Wanted};
use assize_gateway::Gateway;
use assize_negotiation::{Debates, InProcess, InSandboxes, install};
use assize_run::Run;
use assize_sandbox::{Layer, Manager, Spec};
use assize_types::{Failure, FailureKind};

use crate::cluster::Member;
use crate::cluster::debates::{InCluster, Walls};
use crate::walls::{self, Chosen};
use crate::{Clerk, Listener};

/// Calls of one debate that are under way at once.
const AT_ONCE: usize = 3;

/// The most debates of one consultation that are held at once, unless the user says.
const MOST: usize = 15;

/// How many debates are held at once, unless the user says: no more than the provider answers side by side,
/// and than there is memory for.
pub(super) fn at_once(asked: Option<u32>, clerk: &Clerk, gateway: &Gateway) -> usize {
    if let Some(asked) = asked {
        return asked as usize;
    }
    // In a cluster they are held wherever there is memory.
    let most = if clerk.member.is_some() { MOST } else { sandboxes().clamp(1, MOST) };
    if gateway.is_rehearsal() {
        return most;
    }
    (gateway.concurrency() / AT_ONCE).clamp(1, most)
}

/// How many sandboxes that debate there is memory for: what they use, and not what they may.
fn sandboxes() -> usize {
    /// In kibibytes: a machine that is emulated, which takes more than all others.
    const ONE: u64 = 96 << 10;
    let fit = walls::memory("MemAvailable").and_then(|free| usize::try_from(free / ONE).ok());
    fit.unwrap_or(usize::MAX)
}

/// Where debates can be held here.
pub(crate) enum Ground {
    Sandboxes {
        prepared: Prepared,
        may_do_without: bool,
    },
    /// In this process, because no sandbox can be made.
    Here {
        why: String,
    },
    /// Wherever in the cluster there is a sandbox for one.
    Cluster(Arc<Member>),
}

impl Ground {
    pub(crate) async fn find(
        clerk: &Clerk,
        spec: &Spec,
        allow_in_process: bool,
    ) -> Result<Ground, Failure> {
        let Clerk { config, around, listener, .. } = clerk;
        if let Some(member) = &clerk.member {
            return Ok(Ground::Cluster(member.clone()));
        }
        // What is asked for and cannot be had is an error, never something weaker.
        let named = spec.image.is_some() || *config.sandbox.isolation != Wanted::Auto;
        let may_do_without = !named || allow_in_process;
        let chosen = match walls::choose_for_debates(config, around, spec).await {
            Ok(chosen) => chosen,
            Err(failure) if may_do_without => return Ok(Ground::without(&failure, &**listener)),
            Err(failure) => {
                return Err(failure.hint("`--allow-in-process` debates without a sandbox"));
            }
        };
        match Prepared::make(config, around, chosen).await {
            Ok(prepared) => Ok(Ground::Sandboxes { prepared, may_do_without }),
            Err(failure) if may_do_without => Ok(Ground::without(&failure, &**listener)),
            Err(failure) => Err(failure),
        }
    }

    fn without(failure: &Failure, listener: &dyn Listener) -> Ground {
        let why = format!(
            "no sandbox can be made here, so debates are held without one: {}",
            failure.message()
        );
        listener.warn(&why);
        Ground::Here { why }
    }

    /// Where the debates of a run are held, and why there.
    pub(crate) fn of_run(self, spec: Spec, run: &Run, life: u64) -> Held {
        match self {
            Ground::Cluster(member) => {
                let debates = InCluster::new(member, run, spec);
                let walls = Some(debates.walls.clone());
                let why = "sandboxes of the cluster".to_owned();
                Held { debates: Arc::new(debates), why, manager: None, walls }
            }
            Ground::Here { why } => Held {
                debates: Arc::new(InProcess { why: Some(why) }),
                why: "no sandbox".to_owned(),
                manager: None,
                walls: None,
            },
            Ground::Sandboxes { prepared, may_do_without } => {
                let Prepared { manager, layer, why, weaker } = prepared;
                let run = match life {
                    0 | 1 => run.id.to_string(),
                    life => format!("{}-{life}", run.id),
                };
                let own = Some(manager.clone());
                let debates = InSandboxes { manager, spec, layer, run, may_do_without, weaker };
                Held { debates: Arc::new(debates), why, manager: own, walls: None }
            }
        }
    }
}

/// All that it takes to hold debates in sandboxes.
pub(crate) struct Prepared {
    pub(crate) manager: Arc<Manager>,
    pub(crate) layer: Layer,
    /// Which walls, and why those.
    pub(crate) why: String,
    /// That it is a weaker boundary than was meant, in a sentence.
    pub(crate) weaker: Option<String>,
}

impl Prepared {
    pub(crate) async fn make(
        config: &Settings,
        around: &Environment,
        chosen: Chosen,
    ) -> Result<Prepared, Failure> {
        let why = format!("{} ({})", chosen.backend.isolation(), chosen.why);
        let manager = Arc::new(walls::manager(config, around, chosen.backend).await?);
        let folder = around.cache_folder.join("programs");
        let layer = install(&folder).map_err(|error| {
            let message = format!("cannot use `{}`: {error}", folder.display());
            Failure::new(FailureKind::Environment, message)
        })?;
        Ok(Prepared { manager, layer, why, weaker: chosen.weaker })
    }
}

/// Limits of the sandboxes of debates, by the settings.
pub(crate) fn limits(config: &Settings) -> Result<Limits, Failure> {
    walls::spec(None, config)?;
    let mut limits = walls::limits_of_debates(config);
    // Most of a debate is waiting for a model, which has limits of its own.
    if config.sandbox.timeout_seconds.requested().is_none() {
        limits.wall = assize_negotiation::LONGEST;
    }
    Ok(limits)
}

/// Where the debates of one run are held.
pub(crate) struct Held {
    pub(crate) debates: Arc<dyn Debates>,
    /// Why there.
    pub(crate) why: String,
    /// Who makes their sandboxes, to be closed in the end.
    pub(crate) manager: Option<Arc<Manager>>,
    /// Behind which walls they were held, where that is known afterwards.
    pub(crate) walls: Option<Arc<Walls>>,
}
