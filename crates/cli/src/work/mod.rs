//! `assize work`: a model that changes files, through drafts and the gate.

mod progress;
pub(crate) mod show;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assize_draft::work::{self, Mode, Work, WorkOutcome, WorkState, Worked, Worker, graph};
use assize_draft::{Desk, Options, Policy, TaskId};
use assize_gateway::{Gateway, REHEARSAL_LABEL};
use assize_graph::{RunError, RunOptions};
use assize_llm::Request;
use assize_store::{Ending, NewRun, Run, RunJournal};
use assize_types::text::shorten;
use assize_types::{Cancel, trail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::account::{account, dollars};
use crate::args::{WorkArgs, WorkspaceArgs};
use crate::choose::{self, Already};
use crate::config::{Config, Surroundings};
use crate::doing::Doing;
use crate::drafts;
use crate::failure::{Failure, FailureKind};
use crate::terminal::{self, DIM, note, out_json, out_line, paint};
use crate::{input, kept, sitting};

/// The kind of such a run.
const KIND: &str = "work";

/// The longest task, in MiB: more would fit no model.
const LONGEST: u64 = 1;

/// How long the worker waits for a verdict.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// The exit code where a person must decide.
const WAITS: u8 = 6;

/// What a run needs to be run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Input {
    workspace: PathBuf,
    work: Work,
    /// What the gate goes by, as it was when the run began.
    policy: Policy,
    provider: String,
    model: String,
}

/// Gives 0 where all was accepted, 6 where a person must decide, and 1 where nothing came of it.
pub(crate) async fn run(
    args: WorkArgs,
    config: &Config,
    around: &Surroundings,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let task = match args.task.as_deref() {
        Some("-") => Some(input::from_standard_input("the task", LONGEST, &cancel).await?),
        task => task.map(str::to_owned),
    };
    if task.as_deref().is_some_and(|task| task.trim().is_empty()) {
        return Err(Failure::new(FailureKind::Usage, "the task is empty"));
    }
    let store = kept::open_safe(config, around)?;
    let resumed = match args.again.resume {
        Some(_) => Some(kept::to_go_on(&*store, &args.again, KIND).await?),
        None => None,
    };
    let before: Option<Input> = resumed.as_ref().map(read_input).transpose()?;
    let already = match &resumed {
        Some(run) => kept::spent(run, &store.records(&run.id).await?, &[]),
        None => Already::default(),
    };
    let at = match &before {
        Some(before) => WorkspaceArgs { workspace: Some(before.workspace.clone()) },
        None => WorkspaceArgs { workspace: args.workspace.workspace.clone() },
    };
    let policy = match &before {
        Some(before) => before.policy.clone(),
        None => drafts::policy(config)?,
    };
    // Nobody else waits: a verification may take as long as it may.
    let verifier = Some(drafts::verifier(config, around)?);
    let how = Options { policy: policy.clone(), verifier, patience: PATIENCE };
    let desk = drafts::desk(&at, around, store.clone(), how)?;
    let contract = desk.contract()?;
    if desk.book().await?.off {
        let message = "the draft tools are switched off here";
        return Err(
            Failure::new(FailureKind::Usage, message).hint("`assize drafts on` switches them on")
        );
    }
    let only = contract.as_ref().and_then(|contract| contract.task_id.as_deref());
    if let (Some(only), Some(typed)) = (only, args.task_id.as_deref())
        && only != typed
    {
        let message = format!("the contract is about the task `{only}`, not `{typed}`");
        return Err(Failure::new(FailureKind::Usage, message).hint("leave `--task-id` out"));
    }
    desk.begin_to_decide_what_is_left().await?;
    let gateway = choose::gateway(config, &args.model, args.quiet, already).await?;
    let task = match (task, &before) {
        (Some(task), _) => task,
        (None, Some(before)) => before.work.task.clone(),
        (None, None) => contract.and_then(|contract| contract.goal).ok_or_else(|| {
            Failure::new(
                FailureKind::Usage,
                "there is no task: say it, or have a contract with a goal",
            )
        })?,
    };
    if gateway.name().0 == "rehearsal" && !work::rehearsal::knows(&task) {
        let mut unknown = Failure::from(work::rehearsal::unknown());
        unknown.kind = FailureKind::Settings;
        return Err(unknown);
    }
    let input = match before {
        Some(before) => {
            let run = resumed.as_ref().map(|run| run.id.to_string()).unwrap_or_default();
            let named = (before.provider.as_str(), before.model.as_str());
            kept::refuse_another_model(&run, named, &gateway, &args.model)?;
            before
        }
        None => fresh(&args, (task, policy), config, &desk, &gateway).await?,
    };
    let new = || NewRun {
        kind: KIND.to_owned(),
        title: shorten(&assize_types::text::one_line(&input.work.task), 80),
        parent: None,
        input: json!(input),
        artifacts: Vec::new(),
    };
    let (run, journal) =
        kept::begin(store.clone(), resumed.clone(), args.again.take_over, config, new).await?;
    let sitting = Sitting {
        args: &args,
        run,
        desk,
        input,
        gateway: Arc::new(gateway),
        journal: Arc::new(journal),
    };
    trail::workflow_started(&sitting.input.work.task, sitting.gateway.name().0);
    let outcome = sitting.work(cancel.clone()).await?;
    // What others left may still be looked at.
    tokio::select! {
        () = sitting.desk.finish_deciding() => {}
        _ = cancel.cancelled() => {}
    }
    sitting.finish(outcome).await
}

fn read_input(run: &Run) -> Result<Input, Failure> {
    serde_json::from_value(run.input.clone()).map_err(|error| {
        let message = format!("`{}` was written by another version of assize: {error}", run.id);
        Failure::new(FailureKind::Environment, message)
    })
}

/// What a new run is to do.
async fn fresh(
    args: &WorkArgs,
    (task, policy): (String, Policy),
    config: &Config,
    desk: &Arc<Desk>,
    gateway: &Gateway,
) -> Result<Input, Failure> {
    let mode: Mode =
        args.mode.parse().map_err(|error: String| Failure::new(FailureKind::Usage, error))?;
    let task_id = match &args.task_id {
        Some(name) => name.parse::<TaskId>(),
        None => match desk.contract()?.and_then(|contract| contract.task_id) {
            Some(name) => name.parse(),
            None => format!("work-{:06x}", fastrand::u32(..1 << 24)).parse(),
        },
    };
    let task_id = task_id.map_err(|error| Failure::from_error(FailureKind::Usage, &error))?;
    let mut files = args.files.clone();
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
            return Err(
                Failure::new(FailureKind::Usage, message).hint("show it one with `--file PATH`")
            );
        }
    }
    let max_tokens = config.whole("max_output_tokens").and_then(|most| u32::try_from(most).ok());
    let (provider, model) = gateway.name();
    Ok(Input {
        workspace: desk.workspace().to_owned(),
        policy,
        work: Work {
            task,
            task_id,
            mode,
            files,
            max_steps: args.max_steps,
            max_rejections: args.max_rejections,
            temperature: config.decimal("temperature").unwrap_or(Request::TEMPERATURE.into()),
            max_tokens: max_tokens.unwrap_or(Request::MAX_TOKENS),
        },
        provider: provider.to_owned(),
        model: model.to_owned(),
    })
}

/// One worker, in one of its lives.
struct Sitting<'a> {
    args: &'a WorkArgs,
    run: Run,
    desk: Arc<Desk>,
    input: Input,
    gateway: Arc<Gateway>,
    journal: Arc<RunJournal>,
}

impl Sitting<'_> {
    async fn work(&self, cancel: Cancel) -> Result<Result<WorkState, RunError>, Failure> {
        let (provider, model) = self.gateway.name();
        let name =
            if provider == model { provider.to_owned() } else { format!("{provider} {model}") };
        let worker = Worker::new(
            self.desk.clone(),
            self.gateway.clone(),
            &format!("{name} in {}", self.run.id),
        );
        let graph =
            graph(worker).map_err(|error| Failure::from_error(FailureKind::Internal, &error))?;
        let heading = terminal::harmless(&format!("{} · {} · {name}", self.run.id, self.run.title));
        let ledger = self.gateway.ledger().clone();
        let doing = Arc::new(Doing::begin(heading, ledger, self.args.quiet));
        let seen = doing.clone();
        let options = RunOptions {
            journal: Some(self.journal.clone()),
            observer: Some(Arc::new(move |signal| progress::see(&seen, signal))),
            cancel,
            step_limit: self.input.work.max_steps * 3 + 10,
            ..RunOptions::default()
        };
        let outcome = tokio::select! {
            outcome = graph.run(WorkState::new(self.input.work.clone()), options) => outcome,
            () = doing.tick() => unreachable!("it ticks as long as it is awaited"),
        };
        terminal::draw(&[]);
        Ok(outcome)
    }

    async fn finish(&self, outcome: Result<WorkState, RunError>) -> Result<u8, Failure> {
        let worked = match outcome {
            Ok(state) => Worked::from(&state),
            Err(error) => return Err(self.fail(error).await),
        };
        trail::workflow_completed(worked.outcome == WorkOutcome::Accepted, worked.steps);
        let kept = self.journal.finish(Ending::Done { result: json!(worked) }, Vec::new()).await;
        self.show(&worked)?;
        kept?;
        Ok(match worked.outcome {
            WorkOutcome::Accepted => 0,
            WorkOutcome::Escalated | WorkOutcome::Pending => WAITS,
            WorkOutcome::Rejected | WorkOutcome::Nothing => FailureKind::Verdict.exit_code(),
        })
    }

    async fn fail(&self, error: RunError) -> Failure {
        trail::workflow_completed(false, 0);
        sitting::fail(&self.journal, error, (KIND, &self.run.id), &self.gateway, self.args.quiet)
            .await
    }

    fn show(&self, worked: &Worked) -> Result<(), Failure> {
        if self.args.json {
            return out_json(&self.as_json(worked));
        }
        if worked.spent.rehearsal {
            note(&paint(DIM, format!("[{REHEARSAL_LABEL}]")));
        }
        show::worked(worked).iter().try_for_each(|line| out_line(line))?;
        if !self.args.quiet {
            show::how_to_go_on(worked, &self.input.work).iter().for_each(|line| note(line));
            let totals = self.gateway.ledger().totals();
            let steps = if worked.steps == 1 { "step" } else { "steps" };
            note(&paint(
                DIM,
                format!("{} · {} {steps} · {}", self.run.id, worked.steps, account(&totals)),
            ));
        }
        Ok(())
    }

    fn as_json(&self, worked: &Worked) -> Value {
        let mut shown = json!(worked);
        shown["run"] = json!(self.run.id);
        shown["workspace"] = json!(self.input.workspace);
        shown["provider"] = json!(self.input.provider);
        shown["model"] = json!(self.input.model);
        shown["cost_usd"] = dollars(worked.spent.cost);
        if worked.spent.rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        shown
    }
}
