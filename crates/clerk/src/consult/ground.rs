//! Where debates can be held here, and how many at once.

use std::sync::Arc;

use assize_consult::{Debates, InProcess, InSandboxes, install};
use assize_gateway::Gateway;
use assize_sandbox::{Layer, Manager, Spec};
use assize_store::Run;

use super::plan::Input;
use crate::Clerk;
use crate::config::Config;
use crate::failure::{Failure, FailureKind};
use crate::{Listener, walls};

/// Calls of one debate that are under way at once.
const AT_ONCE: usize = 3;

/// How many debates are held at once, unless the user says: no more than the provider answers side by side,
/// and than there is memory for.
pub(super) fn at_once(asked: Option<u32>, config: &Config, gateway: &Gateway) -> usize {
    if let Some(asked) = asked {
        return asked as usize;
    }
    let most = sandboxes().clamp(1, 15);
    if gateway.is_rehearsal() {
        return most;
    }
    let calls = config.whole(&format!("{}.concurrency", gateway.name().0));
    let calls = calls.map_or(assize_gateway::Limits::default().concurrency, |calls| calls as usize);
    (calls / AT_ONCE).clamp(1, most)
}

/// How many sandboxes that debate there is memory for: what they use, and not what they may.
fn sandboxes() -> usize {
    /// In kibibytes: a machine that is emulated, which takes more than all others.
    const ONE: usize = 96 << 10;
    let known = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = known.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = free.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    free.map_or(usize::MAX, |free| free / ONE)
}

/// Where debates can be held here.
pub(super) enum Ground {
    Sandboxes {
        manager: Arc<Manager>,
        layer: Layer,
        may_do_without: bool,
        why: String,
    },
    /// In this process, because no sandbox can be made.
    Here {
        why: String,
    },
}

impl Ground {
    pub(super) async fn find(
        clerk: &Clerk,
        input: &Input,
        allow_in_process: bool,
    ) -> Result<Ground, Failure> {
        let Clerk { config, around, listener, .. } = clerk;
        let named = config.text("sandbox.isolation").is_some_and(|name| name != "auto");
        let may_do_without = !named || allow_in_process;
        let chosen = match walls::choose_for_debates(config, around, &spec_of(input)).await {
            Ok(chosen) => chosen,
            Err(failure) if may_do_without => return Ok(Ground::without(&failure, &**listener)),
            Err(failure) => {
                return Err(failure.hint("`--allow-in-process` debates without a sandbox"));
            }
        };
        let why = format!("{} ({})", chosen.backend.isolation(), chosen.why);
        let prepared = async {
            let manager = Arc::new(walls::manager(config, around, chosen.backend).await?);
            let folder = around.cache_folder.join("programs");
            let layer = install(&folder).map_err(|error| {
                let message = format!("cannot use `{}`: {error}", folder.display());
                Failure::new(FailureKind::Environment, message)
            })?;
            Ok::<_, Failure>((manager, layer))
        };
        match prepared.await {
            Ok((manager, layer)) => Ok(Ground::Sandboxes { manager, layer, may_do_without, why }),
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
    pub(super) fn of_run(self, input: &Input, run: &Run, life: u64) -> Held {
        match self {
            Ground::Here { why } => Held {
                debates: Arc::new(InProcess { why: Some(why) }),
                why: "no sandbox".to_owned(),
                manager: None,
            },
            Ground::Sandboxes { manager, layer, may_do_without, why } => {
                let spec = spec_of(input);
                let run = match life {
                    0 | 1 => run.id.to_string(),
                    life => format!("{}-{life}", run.id),
                };
                let own = Some(manager.clone());
                let debates = InSandboxes { manager, spec, layer, run, may_do_without };
                Held { debates: Arc::new(debates), why, manager: own }
            }
        }
    }
}

/// The sandboxes that debates are held in.
fn spec_of(input: &Input) -> Spec {
    Spec {
        image: input.image.clone(),
        limits: input.limits.clone(),
        region: input.region.clone(),
        ..Spec::default()
    }
}

/// Where the debates of one run are held.
pub(super) struct Held {
    pub(super) debates: Arc<dyn Debates>,
    /// Why there.
    pub(super) why: String,
    /// Who makes their sandboxes, to be closed in the end.
    pub(super) manager: Option<Arc<Manager>>,
}
