//! `assize work`: has a model edit files through drafts and the gate.

mod progress;
pub(crate) mod show;
pub(crate) mod stored;

use std::sync::Arc;

use assize_config::REHEARSAL_LABEL;
use assize_draft::work::{WorkJob, WorkMode, WorkOptions, WorkOutcome, WorkPlan, WorkReport};
use assize_run::{CompletedRun, RunKind, RunOrigin, Signal, Trial};
use assize_service::Services;
use assize_types::text::counted;
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::{Value, json};

use crate::args::WorkArgs;
use crate::cost_format::format_spending;
use crate::exit::{ExitStatus, exit_code};
use crate::progress::{Activity, Progress};
use crate::run_messages::{heading, report_failure};
use crate::terminal::{DIM, note, out_json, out_line, paint};
use crate::{drafts, input};

/// Maximum size of the task, in MiB.
const MAX_TASK_MIB: u64 = 1;

/// Runs `assize work`. Returns the exit code: 0 if the submission was accepted, 6 if it waits for a decision, and 1 if
/// it was rejected or the model submitted no draft.
pub(crate) async fn run(
    args: WorkArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let fresh = match args.resume_flags.resume {
        None => Some(WorkPlan::fresh(work_options(&args, &services, &cancel).await?)?),
        Some(_) => None,
    };
    services.cassette = args.model.cassette();
    let store = services.open_store(true).await?;
    let runner = services.runner(&store)?;
    let (plan, origin) = match fresh {
        Some(plan) => (plan, RunOrigin::New),
        None => {
            let (run, origin) =
                runner.resumable(&args.resume_flags.request(), RunKind::Work).await?;
            (WorkPlan::restored(&run)?, origin)
        }
    };
    let mut trial = runner.start::<WorkJob>(services.work(plan, &store), origin).await?;
    let heading = heading(&trial, &trial.job.gateway.display_name());
    let shown = Progress::begin(heading, trial.ledger.clone(), args.quiet, Activity::default());
    let seen = shown.clone();
    let see = move |signal: &Signal<'_>| progress::show_signal(&seen, signal);
    let finished = shown.until(trial.execute(Some(Arc::new(see)), cancel)).await;
    let output = RunOutput { args: &args, trial };
    match finished {
        Ok(finished) => output.finish(finished),
        Err(failed) => Err(report_failure(failed, &output.trial, args.quiet)),
    }
}

/// Creates the request for a new run from the arguments.
async fn work_options(
    args: &WorkArgs,
    services: &Services,
    cancel: &Cancel,
) -> Result<WorkOptions, Failure> {
    let task = match args.task.as_deref() {
        Some("-") => Some(input::from_standard_input("the task", MAX_TASK_MIB, cancel).await?),
        task => task.map(str::to_owned),
    };
    let mode = args.mode.parse::<WorkMode>();
    Ok(WorkOptions {
        workspace: drafts::workspace(&args.workspace, &services.environment),
        task,
        task_id: args.task_id.clone(),
        mode: mode.map_err(|error| Failure::from_error(FailureKind::Usage, &error))?,
        files: args.files.clone(),
        max_steps: args.max_steps,
        max_rejections: args.max_rejections,
    })
}

/// Prints the result of a run as text or JSON, depending on the flags.
struct RunOutput<'a> {
    args: &'a WorkArgs,
    trial: Trial<WorkJob>,
}

impl RunOutput<'_> {
    fn finish(&self, finished: CompletedRun<WorkReport>) -> Result<u8, Failure> {
        let worked = finished.report;
        self.show(&worked)?;
        finished.stored?;
        Ok(match worked.outcome {
            WorkOutcome::Accepted => 0,
            WorkOutcome::Escalated | WorkOutcome::Pending => ExitStatus::Undecided.code(),
            WorkOutcome::Rejected | WorkOutcome::Nothing => exit_code(FailureKind::Verdict),
        })
    }

    fn show(&self, worked: &WorkReport) -> Result<(), Failure> {
        if self.args.json {
            return out_json(&self.as_json(worked));
        }
        if worked.spent.rehearsal {
            note(&paint(DIM, format!("[{REHEARSAL_LABEL}]")));
        }
        show::report_lines(worked).iter().try_for_each(|line| out_line(line))?;
        let patch = self.trial.job.proposed_patch.as_deref().unwrap_or_default();
        drafts::show::diff(patch).iter().try_for_each(|line| out_line(line))?;
        if !self.args.quiet {
            show::next_steps(worked, &self.trial.job.input.work).iter().for_each(|line| note(line));
            let totals = self.trial.totals();
            let steps = counted(worked.steps, "step", "steps");
            note(&paint(
                DIM,
                format!("{} · {steps} · {}", self.trial.run.id, format_spending(&totals)),
            ));
        }
        Ok(())
    }

    fn as_json(&self, worked: &WorkReport) -> Value {
        let mut shown = json!(worked);
        shown["run"] = json!(self.trial.run.id);
        shown["workspace"] = json!(self.trial.job.input.workspace);
        shown["provider"] = json!(self.trial.job.input.provider);
        shown["model"] = json!(self.trial.job.input.model);
        shown["cost_usd"] = json!(worked.spent.cost.dollars());
        if let Some(patch) = &self.trial.job.proposed_patch {
            shown["proposed_patch"] = json!(patch);
        }
        if worked.spent.rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        shown
    }
}
