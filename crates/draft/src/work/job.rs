//! Job in which a model edits files of a workspace, and the gate checks every change (`assize work`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assize_config::Settings;
use assize_gate::{Policy, TaskId};
use assize_gateway::{Gateway, Providers};
use assize_graph::EffectRecord;
use assize_run::{
    ExecuteError, ExecutionContext, Job, NewRun, Run, RunId, RunKind, Store, StoreError,
};
use assize_sandbox::SandboxFactory;
use assize_types::text::{one_line, shorten};
use assize_types::{Failure, FailureKind, workflow_log};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Agent, WorkMode, WorkOutcome, WorkReport, WorkState, WorkTask, graph, rehearsal};
use crate::settings::{open_service, policy, verifier};
use crate::{DraftError, DraftOptions, DraftService};

/// Name of the run artifact that contains the patch proposed in text mode.
pub const PATCH: &str = "proposed.patch";

/// Maximum time that the agent waits for a verdict on a submission.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Options of a new run in which a model edits files.
#[derive(Debug, Clone)]
pub struct WorkOptions {
    pub workspace: PathBuf,
    /// Task in natural language; if absent, the goal of the workspace's contract is the task.
    pub task: Option<String>,
    pub task_id: Option<String>,
    pub mode: WorkMode,
    /// Paths of files to show to a model without tools.
    pub files: Vec<String>,
    /// Maximum number of model calls.
    pub max_steps: u32,
    /// Number of rejected submissions after which the run ends.
    pub max_rejections: u32,
}

/// Stored input of a run in which a model edits files; the run can be resumed from this input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkInput {
    /// Path of the workspace. The API returns the name of the workspace instead, or null if it has no name.
    #[schemars(with = "Option<String>")]
    pub workspace: PathBuf,
    pub work: WorkTask,
    /// Policy of the gate when the run started.
    policy: Policy,
    /// Isolation that was requested for the run. When the run is resumed, it uses the same isolation, unless the user
    /// requests a different one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    pub provider: String,
    pub model: String,
}

/// Plan of a run in which a model edits files.
#[derive(Debug)]
pub enum WorkPlan {
    /// A new run with these options.
    New(WorkOptions),
    /// A stored run that is resumed.
    Stored(Box<WorkInput>),
}

impl WorkPlan {
    /// Plans a new run.
    pub fn fresh(ask: WorkOptions) -> Result<WorkPlan, Failure> {
        if ask.task.as_deref().is_some_and(|task| task.trim().is_empty()) {
            return Err(usage("the task is empty"));
        }
        Ok(WorkPlan::New(ask))
    }

    /// Plans to resume a stored run.
    pub fn restored(run: &Run) -> Result<WorkPlan, Failure> {
        serde_json::from_value(run.input.clone()).map(WorkPlan::Stored).map_err(|error| {
            let message = format!(
                "cannot read the input of `{}`, written by a different assize version: {error}",
                run.id
            );
            Failure::new(FailureKind::Environment, message)
        })
    }
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// Request to run a file-editing job: the plan of the job, and the services that it uses.
#[derive(Debug)]
pub struct WorkRequest {
    pub plan: WorkPlan,
    pub providers: Providers,
    pub sandboxes: SandboxFactory,
    pub store: Arc<dyn Store>,
}

/// Job in which a model edits files, and the gate checks every change.
#[derive(Debug)]
pub struct WorkJob {
    pub input: WorkInput,
    pub gateway: Arc<Gateway>,
    drafts: Arc<DraftService>,
    /// Unified diff that the model proposed in text mode; a reviewer must decide on it.
    pub proposed_patch: Option<String>,
}

impl WorkJob {
    /// Stores a patch as an artifact of the run. The patch contains the escalated changes that the model proposed in
    /// text mode.
    async fn store_patch(
        &mut self,
        worked: &WorkReport,
        run: &RunId,
        store: &dyn Store,
    ) -> Result<(), StoreError> {
        if worked.mode != WorkMode::Text {
            return Ok(());
        }
        let mut patch = String::new();
        for handed in worked.submissions.iter().filter(|handed| handed.verdict == "escalated") {
            match self.drafts.patch(handed.submission).await {
                Ok(diff) => patch.push_str(&diff),
                Err(DraftError::Store(error)) => return Err(error),
                // Without the patch, the submission itself still shows the diff.
                Err(error) => {
                    let submission = handed.submission;
                    tracing::warn!(submission, %error, "cannot create the patch of a submission");
                }
            }
        }
        if !patch.is_empty() {
            let bytes = patch.clone().into_bytes();
            self.proposed_patch = Some(patch);
            store.put_artifact(run, PATCH, bytes).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Job for WorkJob {
    const KIND: RunKind = RunKind::Work;
    // The files of the workspace are on this machine, so this process executes the job, even in a cluster.
    const LOCAL_ONLY: bool = true;
    type Request = WorkRequest;
    type Local = ();
    type Report = WorkReport;

    async fn plan(
        request: WorkRequest,
        with: &assize_run::PlanContext<'_>,
    ) -> Result<(WorkJob, NewRun), Failure> {
        let WorkRequest { mut plan, providers, sandboxes, store } = request;
        let SandboxFactory { settings: config, environment, .. } = &sandboxes;
        let (workspace, policy) = match &plan {
            WorkPlan::New(ask) => (ask.workspace.clone(), policy(config)?),
            WorkPlan::Stored(before) => (before.workspace.clone(), before.policy.clone()),
        };
        // No client waits for a response, so a verification may take its full time limit.
        let verifier = Some(verifier(&sandboxes));
        let how = DraftOptions {
            policy: policy.clone(),
            verifier,
            verdict_timeout: PATIENCE,
            ..DraftOptions::default()
        };
        let service = open_service(&workspace, environment, store, how)?;
        check_workspace(&service, &mut plan).await?;
        service.decide_orphaned_in_background().await?;
        let gateway = providers.gateway(with.ledger.clone()).await?;
        let input = match plan {
            WorkPlan::New(ask) => fresh(ask, policy, config, &service, &gateway).await?,
            WorkPlan::Stored(before) => {
                let named = (before.provider.as_str(), before.model.as_str());
                let run = with.origin.resumed().map(|run| run.id.to_string()).unwrap_or_default();
                providers.check_same_model(&run, named, &gateway)?;
                *before
            }
        };
        if gateway.is_rehearsal() && !rehearsal::supports(&input.work.task) {
            let mut unknown = Failure::from(rehearsal::unsupported_task());
            unknown.kind = FailureKind::Settings;
            return Err(unknown);
        }
        let new = NewRun {
            kind: RunKind::Work,
            title: shorten(&one_line(&input.work.task), 80),
            parent: None,
            input: json!(input),
            artifacts: Vec::new(),
            idempotency_key: None,
        };
        let gateway = Arc::new(gateway);
        Ok((WorkJob { input, gateway, drafts: service, proposed_patch: None }, new))
    }

    async fn prepare(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    async fn execute(
        &mut self,
        (): (),
        execution: ExecutionContext<'_>,
    ) -> Result<WorkReport, ExecuteError> {
        let ExecutionContext { run, store, mut options } = execution;
        workflow_log::workflow_started(&self.input.work.task, self.gateway.name().0);
        let name = self.gateway.display_name();
        let worker = Agent::new(self.drafts.clone(), self.gateway.clone(), &name, run.id.as_str());
        let graph = graph(worker)?;
        let cancel = options.cancel.clone();
        options.step_limit = self.input.work.max_steps * 3 + 10;
        let outcome = graph.run(WorkState::new(self.input.work.clone()), options).await;
        // Wait for submissions of other agents that this process is still verifying.
        tokio::select! {
            () = self.drafts.wait_for_decisions() => {}
            _ = cancel.cancelled() => {}
        }
        let worked = outcome.map(|state| WorkReport::from(&state));
        let (accepted, steps) = worked
            .as_ref()
            .map_or((false, 0), |worked| (worked.outcome == WorkOutcome::Accepted, worked.steps));
        workflow_log::workflow_completed(accepted, steps);
        let worked = worked?;
        self.store_patch(&worked, &run.id, &**store).await.map_err(Failure::from)?;
        Ok(worked)
    }

    fn result(worked: &WorkReport) -> Value {
        json!(worked)
    }

    fn report(&mut self, run: &Run, _: &[EffectRecord]) -> Result<WorkReport, Failure> {
        run.read_result()
    }
}

/// Checks whether the contract of the workspace and the on/off switch of the draft tools allow a plan. While the draft
/// tools are off, only text mode is allowed, and automatic mode is replaced by text mode.
async fn check_workspace(service: &DraftService, plan: &mut WorkPlan) -> Result<(), Failure> {
    let contract = service.contract()?;
    let off = service.state().await?.tools_off;
    let mode = match plan {
        WorkPlan::New(ask) if off && ask.mode == WorkMode::Auto => {
            ask.mode = WorkMode::Text;
            ask.mode
        }
        WorkPlan::New(ask) => ask.mode,
        WorkPlan::Stored(before) => before.work.mode,
    };
    if off && mode != WorkMode::Text {
        return Err(usage("the draft tools are off in this workspace").hint(
            "`--mode text` keeps the change as a proposed patch; `assize drafts on` switches the tools on",
        ));
    }
    let WorkPlan::New(ask) = plan else { return Ok(()) };
    let only = contract.as_ref().and_then(|contract| contract.task_id.as_deref());
    if let (Some(only), Some(typed)) = (only, ask.task_id.as_deref())
        && only != typed
    {
        let message = format!("the contract is for the task `{only}`, not `{typed}`");
        return Err(usage(message).hint("omit the task id, or change the contract"));
    }
    if ask.task.is_none() && contract.and_then(|contract| contract.goal).is_none() {
        return Err(usage("no task given, and the workspace has no contract with a goal"));
    }
    Ok(())
}

/// Creates the input of a new run.
async fn fresh(
    ask: WorkOptions,
    policy: Policy,
    config: &Settings,
    service: &Arc<DraftService>,
    gateway: &Gateway,
) -> Result<WorkInput, Failure> {
    let contract = service.contract()?.unwrap_or_default();
    let WorkOptions { task, task_id, mode, mut files, max_steps, max_rejections, .. } = ask;
    let task = task.or(contract.goal).unwrap_or_default();
    let task_id = match task_id.or(contract.task_id) {
        Some(name) => name.parse::<TaskId>(),
        None => format!("work-{:06x}", fastrand::u32(..1 << 24)).parse(),
    };
    let task_id = task_id.map_err(|error| Failure::from_error(FailureKind::Usage, &error))?;
    if mode != WorkMode::Tools {
        for named in service.files_named_in(&task).await? {
            if !files.contains(&named) {
                files.push(named);
            }
        }
        // Fail before the run starts if a file cannot be shown to the model.
        for path in &files {
            service.read_visible_file("user", path).await?;
        }
        if files.is_empty() && mode == WorkMode::Text {
            let message =
                "the task mentions no file of the workspace, so a model without tools sees no file";
            return Err(usage(message).hint("name a file with `--file PATH`"));
        }
    }
    let (provider, model) = gateway.name();
    Ok(WorkInput {
        workspace: service.workspace().to_owned(),
        policy,
        isolation: config.sandbox.isolation.requested().map(ToString::to_string),
        work: WorkTask {
            task,
            task_id,
            mode,
            files,
            max_steps,
            max_rejections,
            temperature: *config.general.temperature,
            max_tokens: *config.general.max_output_tokens,
        },
        provider: provider.to_owned(),
        model: model.to_owned(),
    })
}
