//! Resumes runs of any kind with the provider, model and isolation that they were started with.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_code::{CodeJob, CodePlan, EvalJob, EvalPlan};
use assize_config::{ProviderName, REHEARSAL, SettingKey, Settings};
use assize_consult::{ConsultJob, ConsultPlan, DebateJob, DebatePlan};
use assize_draft::work::{WorkJob, WorkPlan};
use assize_run::{AnyTrial, ResumeRequest, Run, RunInput, RunKind, Store, find};
use assize_types::Failure;
use assize_worker::ResumeRuns;
use async_trait::async_trait;

use crate::Services;

impl Services {
    /// Resumes a run of any kind. `parallel` is the maximum number of samples that an evaluation processes at once.
    pub async fn resume(
        &self,
        request: &ResumeRequest,
        store: &Arc<dyn Store>,
        parallel: u32,
    ) -> Result<Box<dyn AnyTrial>, Failure> {
        let run = find(&**store, &request.run).await?;
        let services = self.with_settings(settings_of_run(&self.settings, &run)?);
        let runner = services.runner(store)?;
        let (run, origin) = runner.resumable(request, run.kind).await?;
        Ok(match run.kind {
            RunKind::Code => {
                let plan = CodePlan::restored(&run, &**store).await?;
                Box::new(runner.start::<CodeJob>(services.code(plan), origin).await?)
            }
            RunKind::Consult => {
                let plan = ConsultPlan::restored(&run, BTreeMap::new(), &**store).await?;
                Box::new(runner.start::<ConsultJob>(services.consult(plan), origin).await?)
            }
            RunKind::Debate => {
                let plan = DebatePlan::restored(&run, &**store).await?;
                Box::new(runner.start::<DebateJob>(services.consult(plan), origin).await?)
            }
            RunKind::Eval => {
                let plan = EvalPlan::restored(&run, &**store, parallel).await?;
                Box::new(runner.start::<EvalJob>(services.code(plan), origin).await?)
            }
            RunKind::Work => {
                let plan = WorkPlan::restored(&run)?;
                Box::new(runner.start::<WorkJob>(services.work(plan, store), origin).await?)
            }
        })
    }
}

#[async_trait]
impl ResumeRuns for Services {
    async fn resume(
        &self,
        request: &ResumeRequest,
        settings: Settings,
        parallel: u32,
    ) -> Result<Box<dyn AnyTrial>, Failure> {
        let services = self.with_settings(settings);
        let store: Option<Arc<dyn Store>> = match &self.cluster_client {
            Some(member) => Some(member.store.clone()),
            None => None,
        };
        let store = store.ok_or_else(|| {
            let message = "cannot resume the run: this process has not joined a cluster";
            Failure::new(assize_types::FailureKind::Internal, message)
        })?;
        Services::resume(&services, request, &store, parallel).await
    }
}

/// Returns the settings for resuming a run: `settings` with the provider, model and isolation that the run was started
/// with. A provider, model or isolation that a flag or an API request sets takes precedence.
pub fn settings_of_run(settings: &Settings, run: &Run) -> Result<Settings, Failure> {
    let RunInput { provider, model, isolation, .. } = RunInput::of(run)?;
    let mut earlier = Vec::new();
    if settings.sandbox.isolation.requested().is_none() {
        earlier.extend(isolation.map(|isolation| (SettingKey::SandboxIsolation, isolation)));
    }
    let is_known = provider.parse::<ProviderName>().is_ok();
    if is_known && settings.general.provider.requested().is_none() {
        let is_free = provider != REHEARSAL && settings.general.model.requested().is_none();
        earlier.extend(is_free.then_some((SettingKey::Model, model)));
        earlier.push((SettingKey::Provider, provider));
    }
    settings.with_request(&earlier)
}
