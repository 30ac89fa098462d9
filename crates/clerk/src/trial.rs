//! Any trial, whatever it is about: for doors that hold many at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_code::Live;
use assize_config::{ProviderName, REHEARSAL, SettingKey, Settings};
use assize_gateway::Gateway;
use assize_run::{Run, RunKind, Store};
use assize_types::{Cancel, Failure};
use async_trait::async_trait;

use crate::choose::Tape;
use crate::{Broke, Clerk, GoOn, code, consult, debate, eval, kept, work};

/// A trial that was opened: its run is claimed and kept.
#[async_trait]
pub trait Trial: Send {
    fn run(&self) -> &Run;

    /// Who is asked, with what was spent.
    fn gateway(&self) -> &Arc<Gateway>;

    /// What its programs write while they run, if it is told.
    fn live(&self) -> Option<&Arc<Live>>;

    /// Runs it to its end, which is written down.
    async fn hold(&mut self, cancel: Cancel) -> Result<(), Broke>;
}

macro_rules! any_trial {
    ($($room:ident: $live:expr;)*) => {$(
        #[async_trait]
        impl Trial for $room::Trial {
            fn run(&self) -> &Run {
                &self.run
            }

            fn gateway(&self) -> &Arc<Gateway> {
                &self.gateway
            }

            fn live(&self) -> Option<&Arc<Live>> {
                let live: fn(&$room::Trial) -> Option<&Arc<Live>> = $live;
                live(self)
            }

            async fn hold(&mut self, cancel: Cancel) -> Result<(), Broke> {
                // What could not be written down is as if it had not come to its end: it can be taken up again.
                let held = $room::Trial::hold(self, None, cancel).await?;
                held.kept.map_err(|error| Failure::from(error).into())
            }
        }
    )*};
}

any_trial!(
    code: |trial| Some(&trial.live);
    eval: |_| None;
    consult: |_| None;
    debate: |_| None;
    work: |_| None;
);

/// How many problems of an evaluation are solved at once, unless somebody says.
pub const PARALLEL: u32 = 4;

/// Takes up an earlier run, of whatever kind, with whoever answered before; of an evaluation, so many problems are solved
/// at once.
pub async fn take_up(
    again: &GoOn,
    clerk: &Clerk,
    store: Arc<dyn Store>,
    parallel: u32,
) -> Result<Box<dyn Trial>, Failure> {
    let run = kept::find(&*store, &again.run).await?;
    let clerk = &Clerk { config: as_before(&clerk.config, &run)?, ..clerk.clone() };
    let tape = &Tape::None;
    Ok(match run.kind {
        RunKind::Code => {
            let plan = code::Plan::resumed(again, &*store).await?;
            Box::new(code::Trial::open(plan, clerk, store, tape).await?)
        }
        RunKind::Consult => {
            let plan = consult::Plan::resumed(again, BTreeMap::new(), &*store).await?;
            let ready = consult::Ready::make(plan, clerk, store, tape, None).await?;
            Box::new(ready.open(clerk, false).await?)
        }
        RunKind::Debate => {
            let plan = debate::Plan::resumed(again, &*store).await?;
            Box::new(debate::Trial::open(plan, clerk, store, tape, false).await?)
        }
        RunKind::Eval => {
            let plan = eval::Plan::resumed(again, &*store).await?;
            Box::new(eval::Trial::open(plan, clerk, store, tape, parallel).await?)
        }
        RunKind::Work => {
            let plan = work::Plan::resumed(again, &*store).await?;
            Box::new(work::Trial::open(plan, clerk, store, tape).await?)
        }
    })
}

/// The settings, with whoever answered in an earlier run and the walls that were asked for there, unless others are
/// asked for now.
pub fn as_before(config: &Settings, run: &Run) -> Result<Settings, Failure> {
    let named = |key: &str| run.input[key].as_str().map(str::to_owned);
    let mut before = Vec::new();
    if config.sandbox.isolation.requested().is_none() {
        before
            .extend(named("isolation").map(|isolation| (SettingKey::SandboxIsolation, isolation)));
    }
    let provider = named("provider").filter(|name| name.parse::<ProviderName>().is_ok());
    if let Some(provider) = provider.filter(|_| config.general.provider.requested().is_none()) {
        let model = named("model").filter(|_| provider != REHEARSAL);
        let model = model.filter(|_| config.general.model.requested().is_none());
        before.extend(model.map(|model| (SettingKey::Model, model)));
        before.push((SettingKey::Provider, provider));
    }
    config.with_request(&before)
}
