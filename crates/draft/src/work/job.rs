//! Job of file edits that a model drafts: planned, executed behind the gate, and reported.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assize_config::Settings;
use assize_gate::{Policy, TaskId};
use assize_gateway::{Gateway, Providers};
use assize_graph::Record;
use assize_run::{ExecuteError, Execution, Job, NewRun, Run, RunId, RunKind, Store, StoreError};
use assize_sandbox::Sandboxes;
use assize_types::text::{one_line, shorten};
use assize_types::{Failure, FailureKind, trail};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Mode, Work, WorkOutcome, WorkState, Worked, Worker, graph, rehearsal};
use crate::settings::{desk, policy, verifier};
use crate::{DraftError, DraftService, Options};

/// The artifact that holds what text mode proposed.
pub const PATCH: &str = "proposed.patch";

/// How long the worker waits for a verdict.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// What can be asked for.
#[derive(Debug, Clone)]
pub struct WorkAsk {
    pub workspace: PathBuf,
    /// What is to be done; what the contract says, if nothing.
    pub task: Option<String>,
    pub task_id: Option<String>,
    pub mode: Mode,
    /// Files that are shown to it where it has no tools.
    pub files: Vec<String>,
    pub max_steps: u32,
    pub max_rejections: u32,
}

/// What a run needs to be run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkInput {
    /// The API answers its name instead, or null where it has none.
    #[schemars(with = "Option<String>")]
    pub workspace: PathBuf,
    pub work: Work,
    /// What the gate goes by, as it was when the run began.
    policy: Policy,
    /// The walls that were asked for: they count when it goes on, too, unless others are asked for then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    pub provider: String,
    pub model: String,
}

/// File edits that are to be drafted: a new task, or a stored run.
#[derive(Debug)]
pub enum WorkPlan {
    Asked(WorkAsk),
    Stored(Box<WorkInput>),
}

impl WorkPlan {
    /// A new task.
    pub fn fresh(ask: WorkAsk) -> Result<WorkPlan, Failure> {
        if ask.task.as_deref().is_some_and(|task| task.trim().is_empty()) {
            return Err(usage("the task is empty"));
        }
        Ok(WorkPlan::Asked(ask))
    }

    /// The plan of a stored run.
    pub fn restored(run: &Run) -> Result<WorkPlan, Failure> {
        serde_json::from_value(run.input.clone()).map(WorkPlan::Stored).map_err(|error| {
            let message = format!("`{}` was written by another version of assize: {error}", run.id);
            Failure::new(FailureKind::Environment, message)
        })
    }
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// A plan, with the services that its job needs.
#[derive(Debug)]
pub struct WorkRequest {
    pub plan: WorkPlan,
    pub providers: Providers,
    pub sandboxes: Sandboxes,
    pub store: Arc<dyn Store>,
}

/// File edits that a model drafts, behind the gate.
#[derive(Debug)]
pub struct WorkJob {
    pub input: WorkInput,
    pub gateway: Arc<Gateway>,
    drafts: Arc<DraftService>,
    /// What text mode proposed and a reviewer decides on, as a unified diff.
    pub proposed_patch: Option<String>,
}

impl WorkJob {
    /// Stores what text mode proposed and a reviewer decides on with the run, as a patch.
    async fn keep_patch(
        &mut self,
        worked: &Worked,
        run: &RunId,
        store: &dyn Store,
    ) -> Result<(), StoreError> {
        if worked.mode != Mode::Text {
            return Ok(());
        }
        let mut patch = String::new();
        for handed in worked.submissions.iter().filter(|handed| handed.verdict == "escalated") {
            match self.drafts.patch(handed.submission).await {
                Ok(diff) => patch.push_str(&diff),
                Err(DraftError::Store(error)) => return Err(error),
                // It stays with the submission, which the gate shows.
                Err(error) => {
                    tracing::warn!(submission = handed.submission, %error, "no patch was kept");
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
    // The files are here, so it is executed here, also in a cluster.
    const LOCAL_ONLY: bool = true;
    type Request = WorkRequest;
    type Local = ();
    type Report = Worked;

    async fn plan(
        request: WorkRequest,
        with: &assize_run::Plan<'_>,
    ) -> Result<(WorkJob, NewRun), Failure> {
        let WorkRequest { plan: mut way, providers, sandboxes, store } = request;
        let Sandboxes { settings: config, environment: around, .. } = &sandboxes;
        let (workspace, policy) = match &way {
            WorkPlan::Asked(ask) => (ask.workspace.clone(), policy(config)?),
            WorkPlan::Stored(before) => (before.workspace.clone(), before.policy.clone()),
        };
        // Nobody else waits: a verification may take as long as it may.
        let verifier = Some(verifier(&sandboxes));
        let how =
            Options { policy: policy.clone(), verifier, patience: PATIENCE, ..Options::default() };
        let desk = desk(&workspace, around, store, how)?;
        check_against_desk(&desk, &mut way).await?;
        desk.begin_to_decide_what_is_left().await?;
        let gateway = providers.gateway(with.ledger.clone()).await?;
        let input = match way {
            WorkPlan::Asked(ask) => fresh(ask, policy, config, &desk, &gateway).await?,
            WorkPlan::Stored(before) => {
                let named = (before.provider.as_str(), before.model.as_str());
                let run = with.origin.resumed().map(|run| run.id.to_string()).unwrap_or_default();
                providers.refuse_another_model(&run, named, &gateway)?;
                *before
            }
        };
        if gateway.is_rehearsal() && !rehearsal::knows(&input.work.task) {
            let mut unknown = Failure::from(rehearsal::unknown());
            unknown.kind = FailureKind::Settings;
            return Err(unknown);
        }
        let new = NewRun {
            kind: RunKind::Work,
            title: shorten(&one_line(&input.work.task), 80),
            parent: None,
            input: json!(input),
            artifacts: Vec::new(),
            once: None,
        };
        let gateway = Arc::new(gateway);
        Ok((WorkJob { input, gateway, drafts: desk, proposed_patch: None }, new))
    }

    async fn prepare(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    async fn execute(&mut self, (): (), execution: Execution<'_>) -> Result<Worked, ExecuteError> {
        let Execution { run, store, mut options } = execution;
        trail::workflow_started(&self.input.work.task, self.gateway.name().0);
        let name = self.gateway.called();
        let worker = Worker::new(self.drafts.clone(), self.gateway.clone(), &name, run.id.as_str());
        let graph = graph(worker)?;
        let cancel = options.cancel.clone();
        options.step_limit = self.input.work.max_steps * 3 + 10;
        let outcome = graph.run(WorkState::new(self.input.work.clone()), options).await;
        // Submissions of others may still be checked.
        tokio::select! {
            () = self.drafts.finish_deciding() => {}
            _ = cancel.cancelled() => {}
        }
        let worked = outcome.map(|state| Worked::from(&state));
        let (accepted, steps) = worked
            .as_ref()
            .map_or((false, 0), |worked| (worked.outcome == WorkOutcome::Accepted, worked.steps));
        trail::workflow_completed(accepted, steps);
        let worked = worked?;
        self.keep_patch(&worked, &run.id, &**store).await.map_err(Failure::from)?;
        Ok(worked)
    }

    fn result(worked: &Worked) -> Value {
        json!(worked)
    }

    fn report(&mut self, run: &Run, _: &[Record]) -> Result<Worked, Failure> {
        run.read_result()
    }
}

/// Refuses what the contract or the switch does not allow. While the draft tools are off, only text mode works, and
/// automatic mode begins with it.
async fn check_against_desk(desk: &DraftService, way: &mut WorkPlan) -> Result<(), Failure> {
    let contract = desk.contract()?;
    let off = desk.state().await?.off;
    let mode = match way {
        WorkPlan::Asked(ask) if off && ask.mode == Mode::Auto => {
            ask.mode = Mode::Text;
            ask.mode
        }
        WorkPlan::Asked(ask) => ask.mode,
        WorkPlan::Stored(before) => before.work.mode,
    };
    if off && mode != Mode::Text {
        return Err(usage("the draft tools are off in this workspace").hint(
            "`--mode text` keeps the change as a proposed patch; `assize drafts on` switches the tools on",
        ));
    }
    let WorkPlan::Asked(ask) = way else { return Ok(()) };
    let only = contract.as_ref().and_then(|contract| contract.task_id.as_deref());
    if let (Some(only), Some(typed)) = (only, ask.task_id.as_deref())
        && only != typed
    {
        let message = format!("the contract is about the task `{only}`, not `{typed}`");
        return Err(usage(message).hint("leave the task's id out"));
    }
    if ask.task.is_none() && contract.and_then(|contract| contract.goal).is_none() {
        return Err(usage("there is no task: say it, or have a contract with a goal"));
    }
    Ok(())
}

/// What a new run is to do.
async fn fresh(
    ask: WorkAsk,
    policy: Policy,
    config: &Settings,
    desk: &Arc<DraftService>,
    gateway: &Gateway,
) -> Result<WorkInput, Failure> {
    let contract = desk.contract()?.unwrap_or_default();
    let WorkAsk { task, task_id, mode, mut files, max_steps, max_rejections, .. } = ask;
    let task = task.or(contract.goal).unwrap_or_default();
    let task_id = match task_id.or(contract.task_id) {
        Some(name) => name.parse::<TaskId>(),
        None => format!("work-{:06x}", fastrand::u32(..1 << 24)).parse(),
    };
    let task_id = task_id.map_err(|error| Failure::from_error(FailureKind::Usage, &error))?;
    if mode != Mode::Tools {
        for named in desk.files_named_in(&task).await? {
            if !files.contains(&named) {
                files.push(named);
            }
        }
        // What cannot be shown is told before anything is begun.
        for path in &files {
            desk.file("person", path).await?;
        }
        if files.is_empty() && mode == Mode::Text {
            let message = "the task names no file of the workspace, and without tools the model sees no other";
            return Err(usage(message).hint("show it one with `--file PATH`"));
        }
    }
    let (provider, model) = gateway.name();
    Ok(WorkInput {
        workspace: desk.workspace().to_owned(),
        policy,
        isolation: config.sandbox.isolation.requested().map(ToString::to_string),
        work: Work {
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
