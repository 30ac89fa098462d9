//! `assize work`: a model that changes files, through drafts and the gate.

mod progress;
pub(crate) mod show;

use std::sync::Arc;

use assize_clerk::Broke;
use assize_clerk::ended::Held;
use assize_clerk::work::{Ask, Plan, Trial};
use assize_config::{Environment, Settings};
use assize_draft::work::{WorkOutcome, Worked};
use assize_gateway::REHEARSAL_LABEL;
use assize_graph::Signal;
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::{Value, json};

use crate::account::account;
use crate::args::WorkArgs;
use crate::exit::{Exit, exit_code};
use crate::progress::{Activity, Progress};
use crate::reading::dollars;
use crate::terminal::{self, DIM, note, out_json, out_line, paint};
use crate::voice::{clerk, tell_broke};
use crate::{drafts, input, kept};

/// The longest task, in MiB: more would fit no model.
const LONGEST: u64 = 1;

/// Gives 0 where all was accepted, 6 where a person must decide, and 1 where nothing came of it.
pub(crate) async fn run(
    args: WorkArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let fresh = match args.again.resume {
        None => Some(Plan::fresh(ask(&args, around, &cancel).await?)?),
        Some(_) => None,
    };
    let mut clerk = clerk(config, around, args.quiet);
    let store = kept::open_for(&mut clerk, true).await?;
    let plan = match (fresh, args.again.go_on()) {
        (Some(plan), _) => plan,
        (None, again) => Plan::resumed(&again.unwrap_or_default(), &*store).await?,
    };
    let mut trial = Trial::open(plan, &clerk, store, &args.model.tape()).await?;
    let held = follow(&mut trial, args.quiet, cancel).await;
    let sitting = Sitting { args: &args, trial };
    match held {
        Ok(held) => sitting.finish(held),
        Err(broke) => Err(tell_broke(broke, &sitting.trial.gateway, args.quiet)),
    }
}

/// What was asked for.
async fn ask(args: &WorkArgs, around: &Environment, cancel: &Cancel) -> Result<Ask, Failure> {
    let task = match args.task.as_deref() {
        Some("-") => Some(input::from_standard_input("the task", LONGEST, cancel).await?),
        task => task.map(str::to_owned),
    };
    let mode = args.mode.parse();
    Ok(Ask {
        workspace: drafts::workspace(&args.workspace, around),
        task,
        task_id: args.task_id.clone(),
        mode: mode.map_err(|error: String| Failure::new(FailureKind::Usage, error))?,
        files: args.files.clone(),
        max_steps: args.max_steps,
        max_rejections: args.max_rejections,
    })
}

/// Runs it to its end, and shows how far it is.
async fn follow(trial: &mut Trial, quiet: bool, cancel: Cancel) -> Result<Held<Worked>, Broke> {
    let (run, gateway) = (&trial.run, &trial.gateway);
    let heading = terminal::harmless(&format!("{} · {} · {}", run.id, run.title, gateway.called()));
    let shown = Progress::begin(heading, gateway.ledger().clone(), quiet, Activity::default());
    let seen = shown.clone();
    let see = move |signal: &Signal<'_>| progress::see(&seen, signal);
    shown.until(trial.hold(Some(Arc::new(see)), cancel)).await
}

/// One worker that came to its end.
struct Sitting<'a> {
    args: &'a WorkArgs,
    trial: Trial,
}

impl Sitting<'_> {
    fn finish(&self, held: Held<Worked>) -> Result<u8, Failure> {
        let worked = held.came_to;
        self.show(&worked)?;
        held.kept?;
        Ok(match worked.outcome {
            WorkOutcome::Accepted => 0,
            WorkOutcome::Escalated | WorkOutcome::Pending => Exit::Undecided.code(),
            WorkOutcome::Rejected | WorkOutcome::Nothing => exit_code(FailureKind::Verdict),
        })
    }

    fn show(&self, worked: &Worked) -> Result<(), Failure> {
        if self.args.json {
            return out_json(&self.as_json(worked));
        }
        if worked.spent.rehearsal {
            note(&paint(DIM, format!("[{REHEARSAL_LABEL}]")));
        }
        show::worked(worked).iter().try_for_each(|line| out_line(line))?;
        let patch = self.trial.proposed_patch.as_deref().unwrap_or_default();
        drafts::show::diff(patch).iter().try_for_each(|line| out_line(line))?;
        if !self.args.quiet {
            show::how_to_go_on(worked, &self.trial.input.work).iter().for_each(|line| note(line));
            let totals = self.trial.gateway.ledger().totals();
            let steps = if worked.steps == 1 { "step" } else { "steps" };
            note(&paint(
                DIM,
                format!("{} · {} {steps} · {}", self.trial.run.id, worked.steps, account(&totals)),
            ));
        }
        Ok(())
    }

    fn as_json(&self, worked: &Worked) -> Value {
        let mut shown = json!(worked);
        shown["run"] = json!(self.trial.run.id);
        shown["workspace"] = json!(self.trial.input.workspace);
        shown["provider"] = json!(self.trial.input.provider);
        shown["model"] = json!(self.trial.input.model);
        shown["cost_usd"] = dollars(worked.spent.cost);
        if let Some(patch) = &self.trial.proposed_patch {
            shown["proposed_patch"] = json!(patch);
        }
        if worked.spent.rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        shown
    }
}
