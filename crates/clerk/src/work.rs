//! A model that changes files, through drafts and the gate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assize_config::Settings;
use assize_draft::work::{self, Mode, Work, WorkOutcome, WorkState, Worked, Worker, graph};
use assize_draft::{DraftError, DraftService, Options};
use assize_gate::{Policy, TaskId};
use assize_gateway::Gateway;
use assize_graph::{Observer, RunOptions};
use assize_run::{NewRun, Run, RunJournal, RunKind, Store, StoreError};
use assize_types::text::{one_line, shorten};
use assize_types::{Cancel, Failure, FailureKind, trail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::choose::{self, Tape};
use crate::ended::{self, Broke, Held};
use crate::kept::{self, Begin};
use crate::{Clerk, GoOn, drafts};

/// The artifact that holds what text mode proposed.
pub const PATCH: &str = "proposed.patch";

/// How long the worker waits for a verdict.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// What can be asked for.
#[derive(Debug, Clone)]
pub struct Ask {
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
#[schemars(rename = "WorkInput")]
pub struct Input {
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

/// A worker that is about to begin, or to go on.
#[derive(Debug)]
pub struct Plan(Way);

#[derive(Debug)]
enum Way {
    Fresh(Ask),
    Resumed { run: Box<Run>, before: Box<Input>, take_over: bool },
}

impl Plan {
    /// A new task.
    pub fn fresh(ask: Ask) -> Result<Plan, Failure> {
        if ask.task.as_deref().is_some_and(|task| task.trim().is_empty()) {
            return Err(usage("the task is empty"));
        }
        Ok(Plan(Way::Fresh(ask)))
    }

    /// A run that goes on.
    pub async fn resumed(again: &GoOn, store: &dyn Store) -> Result<Plan, Failure> {
        let run = kept::to_go_on(store, again, RunKind::Work).await?;
        let before = serde_json::from_value(run.input.clone()).map_err(|error| {
            let message = format!("`{}` was written by another version of assize: {error}", run.id);
            Failure::new(FailureKind::Environment, message)
        })?;
        Ok(Plan(Way::Resumed { run: Box::new(run), before, take_over: again.take_over }))
    }
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// One worker, in one of its lives.
#[derive(Debug)]
pub struct Trial {
    pub run: Run,
    pub input: Input,
    pub gateway: Arc<Gateway>,
    desk: Arc<DraftService>,
    store: Arc<dyn Store>,
    journal: Arc<RunJournal>,
    /// What text mode proposed and a reviewer decides on, as a unified diff.
    pub proposed_patch: Option<String>,
}

impl Trial {
    /// Opens the desk, chooses who is asked, and claims the run.
    pub async fn open(
        Plan(way): Plan,
        clerk: &Clerk,
        store: Arc<dyn Store>,
        tape: &Tape,
    ) -> Result<Trial, Failure> {
        let Clerk { config, around, .. } = clerk;
        let (workspace, policy, earlier) = match &way {
            Way::Fresh(ask) => (ask.workspace.clone(), drafts::policy(config)?, None),
            Way::Resumed { run, before, .. } => {
                (before.workspace.clone(), before.policy.clone(), Some(&**run))
            }
        };
        let already = kept::spent(&store, earlier, &[]).await?;
        let account = already.account.clone();
        // Nobody else waits: a verification may take as long as it may.
        let verifier = Some(drafts::verifier(config, around)?);
        let how =
            Options { policy: policy.clone(), verifier, patience: PATIENCE, ..Options::default() };
        let desk = drafts::desk(&workspace, around, store.clone(), how)?;
        let mut way = way;
        check_against_desk(&desk, &mut way).await?;
        desk.begin_to_decide_what_is_left().await?;
        let gateway = choose::gateway(clerk, tape, already).await?;
        let (input, resumed, take_over) = match way {
            Way::Fresh(ask) => (fresh(ask, policy, config, &desk, &gateway).await?, None, false),
            Way::Resumed { run, before, take_over } => {
                let named = (before.provider.as_str(), before.model.as_str());
                kept::refuse_another_model(&run.id.to_string(), named, &gateway, tape)?;
                (*before, Some(*run), take_over)
            }
        };
        if gateway.name().0 == "rehearsal" && !work::rehearsal::knows(&input.work.task) {
            let mut unknown = Failure::from(work::rehearsal::unknown());
            unknown.kind = FailureKind::Settings;
            return Err(unknown);
        }
        let new = || NewRun {
            kind: RunKind::Work,
            title: shorten(&one_line(&input.work.task), 80),
            parent: None,
            input: json!(input),
            artifacts: Vec::new(),
            once: None,
        };
        // The files are here, so it is held here, also in a cluster.
        let begin = Begin { store: store.clone(), resumed, take_over, account, new };
        let (run, journal) = kept::begin(clerk, begin).await?;
        let gateway = Arc::new(gateway);
        Ok(Trial { run, input, gateway, desk, store, journal, proposed_patch: None })
    }

    /// Keeps what text mode proposed and a reviewer decides on with the run, as a patch.
    async fn keep_patch(&mut self, worked: &Worked) -> Result<(), StoreError> {
        if worked.mode != Mode::Text {
            return Ok(());
        }
        let mut patch = String::new();
        for handed in worked.submissions.iter().filter(|handed| handed.verdict == "escalated") {
            match self.desk.patch(handed.submission).await {
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
            self.store.put_artifact(&self.run.id, PATCH, bytes).await?;
        }
        Ok(())
    }

    /// Runs it to its end, and writes that down.
    pub async fn hold(
        &mut self,
        observer: Option<Observer>,
        cancel: Cancel,
    ) -> Result<Held<Worked>, Broke> {
        trail::workflow_started(&self.input.work.task, self.gateway.name().0);
        let name = self.gateway.called();
        let run = self.run.id.as_str();
        let graph = graph(Worker::new(self.desk.clone(), self.gateway.clone(), &name, run))?;
        let options = RunOptions {
            journal: Some(self.journal.clone()),
            observer,
            cancel: cancel.clone(),
            step_limit: self.input.work.max_steps * 3 + 10,
        };
        let outcome = graph.run(WorkState::new(self.input.work.clone()), options).await;
        // What others left may still be looked at.
        tokio::select! {
            () = self.desk.finish_deciding() => {}
            _ = cancel.cancelled() => {}
        }
        match outcome {
            Ok(state) => {
                let worked = Worked::from(&state);
                let patch_kept = self.keep_patch(&worked).await;
                trail::workflow_completed(worked.outcome == WorkOutcome::Accepted, worked.steps);
                let kept = ended::done(&self.journal, json!(worked)).await.and(patch_kept);
                Ok(Held { came_to: worked, kept })
            }
            Err(error) => {
                trail::workflow_completed(false, 0);
                Err(ended::broke(&self.journal, error, (RunKind::Work, &self.run.id), Vec::new())
                    .await)
            }
        }
    }
}

/// Refuses what the contract or the switch does not allow. While the draft tools are off, only text mode works, and
/// automatic mode begins with it.
async fn check_against_desk(desk: &DraftService, way: &mut Way) -> Result<(), Failure> {
    let contract = desk.contract()?;
    let off = desk.state().await?.off;
    let mode = match way {
        Way::Fresh(ask) if off && ask.mode == Mode::Auto => {
            ask.mode = Mode::Text;
            ask.mode
        }
        Way::Fresh(ask) => ask.mode,
        Way::Resumed { before, .. } => before.work.mode,
    };
    if off && mode != Mode::Text {
        return Err(usage("the draft tools are off in this workspace").hint(
            "`--mode text` keeps the change as a proposed patch; `assize drafts on` switches the tools on",
        ));
    }
    let Way::Fresh(ask) = way else { return Ok(()) };
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
    ask: Ask,
    policy: Policy,
    config: &Settings,
    desk: &Arc<DraftService>,
    gateway: &Gateway,
) -> Result<Input, Failure> {
    let contract = desk.contract()?.unwrap_or_default();
    let Ask { task, task_id, mode, mut files, max_steps, max_rejections, .. } = ask;
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
    Ok(Input {
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
