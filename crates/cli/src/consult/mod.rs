//! `assize consult`: puts strategic moves of a company on trial and recommends the best ones.

mod progress;
pub(crate) mod show;
pub(crate) mod stored;

use std::sync::Arc;

use assize_config::Settings;
use assize_consult::sources::files;
use assize_consult::{
    ConsultJob, ConsultPersonas, ConsultPlan, ConsultReport, ConsultRequest, DataSource, Estimate,
    mermaid,
};
use assize_run::{CompletedRun, PlannedRun, RunKind, RunOrigin, Signal, Trial};
use assize_service::Services;
use assize_service::run_json;
use assize_types::{Cancel, Failure, FailureKind, Money};
use serde_json::Value;

use crate::args::{self, ConsultArgs};
use crate::cost_format::{
    format_cached_cost, format_estimated_time, format_spending, show_estimate,
};
use crate::progress::Progress;
use crate::questions::{EmptyLine, can_ask, confirmed};
use crate::run_messages::{heading, report_failure};
use crate::terminal::{self, DIM, note, out, out_json, out_line, paint};
use crate::{hints, input};
use progress::Consultation;

/// Maximum size of the personas file, in MiB.
const MAX_PERSONAS_MIB: u64 = 1;

pub(crate) async fn run(
    args: ConsultArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    services.settings.reject_untrusted_values()?;
    let fork = args.fork.fork_request()?;
    if args.export_personas {
        return out(&ConsultPersonas::default().to_file());
    }
    if args.graph {
        return out(&mermaid()?);
    }
    if let Some(folder) = &args.out {
        show::check_empty(folder, &services.environment)?;
    }
    (services.estimate_only, services.cassette) = (args.estimate, args.model.cassette());
    let models = args.model.by_role();
    // The request is validated before the store is opened, so that an invalid request creates no store.
    let fresh = match (&args.resume_flags.resume, &fork) {
        (None, None) => Some(
            ConsultPlan::fresh(consult_request(&args)?, &services.settings, &services.environment)
                .await?,
        ),
        _ => None,
    };
    let store = services.open_store(false).await?;
    let runner = services.runner(&store)?;
    let (mut plan, origin) = match (fresh, fork) {
        (Some(plan), _) => (plan, RunOrigin::New),
        (None, Some((parent, request))) => {
            let (parent, origin) = runner.forkable(&parent, RunKind::Consult).await?;
            (ConsultPlan::forked(&parent, &request, models, &*store).await?, origin)
        }
        (None, None) => {
            let (run, origin) =
                runner.resumable(&args.resume_flags.request(), RunKind::Consult).await?;
            (ConsultPlan::restored(&run, models, &*store).await?, origin)
        }
    };
    (plan.parallel_moves, plan.allow_in_process) = (args.parallel_moves, args.allow_in_process);
    let planned = runner.plan::<ConsultJob>(services.consult(plan), origin).await?;
    if args.estimate {
        let message = "cannot estimate the cost: with `--replay`, no provider is called";
        let nothing = || Failure::new(FailureKind::Usage, message);
        let job = &planned.job;
        let estimate = job.estimate.as_ref().ok_or_else(nothing)?;
        show_estimate(estimate, job.longest_call_chain, job.gateway.is_rehearsal(), args.json)?;
        return job.check_prices();
    }
    confirm_cost(&args, &services.settings, &planned)?;
    let mut trial = planned.open().await?;
    let job = &trial.job;
    let (calls, rounds, ledger) = (job.calls(), job.input.rounds, trial.ledger.clone());
    let heading = heading(&trial, &job.gateway.display_name());
    let view = Consultation::new(calls, rounds);
    let progress = Progress::begin(heading, ledger, args.quiet, view);
    let seen = progress.clone();
    let see = move |signal: &Signal<'_>| seen.update(|view, so_far| view.on_signal(signal, so_far));
    let finished = progress.until(trial.execute(Some(Arc::new(see)), cancel)).await;
    let output = RunOutput { args: &args, trial, services: &services };
    match finished {
        Ok(finished) => output.finish(finished).await,
        Err(failed) => Err(report_failure(failed, &output.trial, args.quiet)),
    }
}

/// Creates the request for a new consultation from the arguments.
fn consult_request(args: &ConsultArgs) -> Result<ConsultRequest, Failure> {
    if args.sources.contains(&args::SourceArg::Files) && args.data.is_none() {
        let message = "`--source files` requires a folder with files: `--data FOLDER`";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let personas = args.personas.as_deref();
    let read = |path| input::from_file("the personas file", MAX_PERSONAS_MIB, path);
    let source = |name: &args::SourceArg| match name {
        args::SourceArg::Edgar => DataSource::Edgar,
        args::SourceArg::Files => DataSource::Files,
        args::SourceArg::Synthetic => DataSource::Synthetic,
    };
    Ok(ConsultRequest {
        ticker: args.ticker.clone(),
        name: args.name.clone(),
        sources: args.sources.iter().map(source).collect(),
        files: args.data.as_deref().map(files::gather).transpose()?,
        personas: personas.map(read).transpose()?,
        rounds: args.rounds,
        moves: args.moves,
        blind_scores: args.blind_scores,
        image: args.sandbox.image.clone(),
        models: args.model.by_role(),
    })
}

/// Prints the estimated cost, and asks the user for confirmation if it exceeds `consult.confirm_above`.
fn confirm_cost(
    args: &ConsultArgs,
    settings: &Settings,
    planned: &PlannedRun<ConsultJob>,
) -> Result<(), Failure> {
    let job = &planned.job;
    let Some(estimate) = job.estimate.as_ref().filter(|_| planned.is_new()) else {
        return Ok(());
    };
    let Estimate { calls, cost, .. } = estimate;
    let time = format_estimated_time(job.longest_call_chain, false);
    let what = format!(
        "{calls} calls and {time}, {}{}",
        estimate.cost_phrase(),
        format_cached_cost(estimate)
    );
    if let (Some(cap), Some(least)) = (*settings.budget.max_cost, estimate.cached.known())
        && cap < least
    {
        terminal::warn(&format!("the budget of {cap} is below the estimate: {what}"));
    }
    if args.yes || job.estimate_to_confirm().is_none() {
        if !args.quiet && cost.known() != Some(Money::ZERO) {
            note(&paint(DIM, what));
        }
        return Ok(());
    }
    if !can_ask() {
        let message = format!("confirmation required: the consultation would take {what}");
        let hint =
            "confirm with `--yes`, or raise `consult.confirm_above`; `--max-cost` is a hard limit";
        return Err(Failure::new(FailureKind::Budget, message).hint(hint));
    }
    if confirmed(&format!("The consultation takes {what}. Continue?"), EmptyLine::No) {
        return Ok(());
    }
    let message = "the consultation was not confirmed; no money was spent";
    Err(Failure::new(FailureKind::Interrupted, message))
}

/// Prints the result of a consultation as text or JSON, depending on the flags.
struct RunOutput<'a> {
    args: &'a ConsultArgs,
    trial: Trial<ConsultJob>,
    services: &'a Services,
}

impl RunOutput<'_> {
    async fn finish(&self, finished: CompletedRun<ConsultReport>) -> Result<(), Failure> {
        let Trial { store, run, .. } = &self.trial;
        // The user has paid for the result, so it is printed even if it could not be stored.
        let updates = match self.args.json || self.args.out.is_some() {
            true => run_json::status_updates(&**store, run).await.unwrap_or_default(),
            false => Value::Null,
        };
        self.show(&finished.report, &updates)?;
        finished.stored.map_err(|error| {
            note(&hints::resume(&run.id));
            error.into()
        })
    }

    fn show(&self, report: &ConsultReport, updates: &Value) -> Result<(), Failure> {
        if self.args.json {
            out_json(&assize_consult::consultation_json(report, updates))?;
        } else {
            show::lines(report).iter().try_for_each(|line| out_line(line))?;
        }
        if let Some(folder) = &self.args.out {
            let count = show::write(folder, report, updates, &self.services.environment)?;
            note(&format!(
                "{count} files written to `{}`; start with report.html",
                folder.display()
            ));
        }
        if !self.args.quiet && !self.args.json {
            let totals = self.trial.totals();
            note(&paint(
                DIM,
                format!(
                    "{} · isolation of the debates: {} · {}",
                    self.trial.run.id,
                    self.trial.job.isolation,
                    format_spending(&totals)
                ),
            ));
            if self.args.out.is_none() {
                let how = hints::runs(&format!("files {} --out FOLDER", self.trial.run.id));
                note(&paint(DIM, format!("copy the report and all documents with {how}")));
            }
        }
        Ok(())
    }
}
