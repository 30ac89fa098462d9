//! `assize debate`: puts one business move on trial.

mod progress;
pub(crate) mod show;
pub(crate) mod stored;

use std::io::IsTerminal;
use std::sync::Arc;

use assize_consult::{
    DebateJob, DebatePersonas, DebatePlan, DebateReport, DebateRequest, debate_mermaid, estimate,
    flag_label,
};
use assize_run::{CompletedRun, RunFailure, RunKind, RunOrigin, Signal, Trial};
use assize_service::Services;
use assize_types::text::counted;
use assize_types::{Cancel, Failure, FailureKind, Money};
use serde_json::json;

use crate::args::DebateArgs;
use crate::cost_format::{format_spending, show_estimate};
use crate::progress::Progress;
use crate::run_messages::{heading, report_failure};
use crate::terminal::{self, DIM, WARN, grouped, note, out, out_json, paint};
use crate::{hints, input};
use progress::Debate;

/// Maximum size of the document that describes the business move, in MiB.
const MAX_MOVE_MIB: u64 = 1;

pub(crate) async fn run(
    args: DebateArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    reject_unused_flags(&args)?;
    let fork = args.fork.fork_request()?;
    fork.iter().try_for_each(|(_, request)| request.refuse_move())?;
    if args.graph {
        return out(&debate_mermaid()?);
    }
    (services.estimate_only, services.cassette) = (args.estimate, args.model.cassette());
    let ask = DebateRequest {
        document: document(&args, &cancel).await?,
        ticker: args.ticker.clone(),
        rounds: args.rounds,
        image: args.sandbox.image.clone(),
    };
    // The request is validated before the store is opened, so that an invalid request creates no store.
    let fresh = match (&args.resume, &fork) {
        (None, None) => Some(DebatePlan::fresh(&ask)?),
        _ => None,
    };
    if let (true, Some(plan)) = (args.estimate, &fresh) {
        let gateway = services.providers().gateway_outside_runs().await?;
        let message = "cannot estimate the cost: with `--replay`, no provider is called";
        let nothing = || Failure::new(FailureKind::Usage, message);
        let (estimate, in_a_row) =
            estimate(&gateway, &plan.content, args.rounds).ok_or_else(nothing)?;
        show_estimate(&estimate, in_a_row, gateway.is_rehearsal(), args.json)?;
        return gateway.check_price();
    }
    let store = services.open_store(false).await?;
    let runner = services.runner(&store)?;
    let (mut plan, origin) = match (fresh, fork) {
        (Some(plan), _) => (plan, RunOrigin::New),
        (None, Some((parent, request))) => {
            let (parent, origin) = runner.forkable(&parent, RunKind::Debate).await?;
            (DebatePlan::forked(&parent, &request, &ask, &*store).await?, origin)
        }
        (None, None) => {
            let (run, origin) = runner.resumable(&args.request(), RunKind::Debate).await?;
            (DebatePlan::restored(&run, &*store).await?, origin)
        }
    };
    plan.allow_in_process = args.allow_in_process;
    let mut trial = runner.start::<DebateJob>(services.consult(plan), origin).await?;
    let (heading, ledger) =
        (heading(&trial, &trial.job.gateway.display_name()), trial.ledger.clone());
    let view = Debate::new(trial.job.input.rounds, DebatePersonas::default());
    let progress = Progress::begin(heading, ledger, args.quiet, view);
    let seen = progress.clone();
    let see = move |signal: &Signal<'_>| seen.update(|view, so_far| view.on_signal(signal, so_far));
    let finished = progress.until(trial.execute(Some(Arc::new(see)), cancel)).await;
    let output = RunOutput { args: &args, trial };
    match finished {
        Ok(finished) => output.finish(finished),
        Err(failed) => Err(output.fail(failed)),
    }
}

/// Fails if the arguments contain a flag that would have no effect, or if they contain no business move to debate.
fn reject_unused_flags(args: &DebateArgs) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    if args.take_over && args.resume.is_none() {
        return Err(usage("`--take-over` requires `--resume RUN`".to_owned()));
    }
    if args.document.is_none() && args.resume.is_none() && args.fork.fork.is_none() && !args.graph {
        return Err(usage("there is no business move to debate".to_owned())
            .hint("pass a file, as in `assize debate MOVE.md`; `-` reads standard input"));
    }
    let fixed = [
        ("--temperature", args.model.temperature.is_some()),
        ("--max-output-tokens", args.model.max_output_tokens.is_some()),
    ];
    if let Some((flag, _)) = fixed.into_iter().find(|(_, given)| args.resume.is_some() && *given) {
        return Err(usage(format!("`{flag}` cannot be changed in a resumed run"))
            .hint("to change it, fork the run instead: `--fork RUN`"));
    }
    Ok(())
}

/// Reads the description of the business move from the file given in the arguments, or from standard input.
async fn document(args: &DebateArgs, cancel: &Cancel) -> Result<Option<String>, Failure> {
    const WHAT: &str = "the move";
    match &args.document {
        Some(path) if path.as_os_str() == "-" => {
            input::from_standard_input(WHAT, MAX_MOVE_MIB, cancel).await.map(Some)
        }
        Some(path) => input::from_file(WHAT, MAX_MOVE_MIB, path).map(Some),
        None => Ok(None),
    }
}

/// Prints the result of a debate as text or JSON, depending on the flags.
struct RunOutput<'a> {
    args: &'a DebateArgs,
    trial: Trial<DebateJob>,
}

impl RunOutput<'_> {
    fn finish(&self, finished: CompletedRun<DebateReport>) -> Result<(), Failure> {
        // The user has paid for the result, so it is printed even if it could not be stored.
        self.show(&finished.report)?;
        finished.stored.map_err(|error| {
            note(&hints::resume(&self.trial.run.id));
            error.into()
        })
    }

    /// Prints the cost of a failed debate, including the cost of earlier commands on the same run. Returns the failure.
    fn fail(&self, failed: RunFailure) -> Failure {
        let already = self.trial.spent_before();
        if already.cost > Money::ZERO || already.tokens > 0 {
            let (cost, tokens) = (already.cost, grouped(already.tokens));
            note(&paint(DIM, format!("spent before this command: {tokens} tokens, {cost}")));
        }
        report_failure(failed, &self.trial, self.args.quiet)
    }

    fn show(&self, report: &DebateReport) -> Result<(), Failure> {
        let verdict = &report.verdict;
        let totals = self.trial.totals();
        let (run, args) = (&self.trial.run, self.args);
        if args.json {
            let mut shown = json!(report);
            shown["run"] = json!(run.id);
            shown["title"] = json!(run.title);
            shown["cost_usd"] = json!(verdict.spent.cost.dollars());
            shown["spent_now_usd"] = json!(totals.known_cost().dollars());
            if verdict.spent.rehearsal {
                shown["label"] = json!(assize_config::REHEARSAL_LABEL);
            }
            return out_json(&shown);
        }
        terminal::out_untrusted(&show::verdict(&run.title, verdict))?;
        if args.transcripts {
            terminal::out_untrusted(&show::transcripts(
                &verdict.conversation_logs,
                &verdict.agents,
            ))?;
        }
        for flag in &report.flags {
            note(&paint(
                WARN,
                terminal::replace_control_chars(&format!(
                    "{}: {}",
                    flag_label(flag.kind),
                    flag.message
                )),
            ));
        }
        if args.quiet {
            return Ok(());
        }
        if std::io::stdout().is_terminal() {
            note("");
        }
        if let Some(model) = &self.trial.job.input.reused_model {
            let at = self.trial.job.input.at.unwrap_or(1);
            note(&paint(
                WARN,
                format!(
                    "the rounds before round {at} contain the answers of a different model: {model}"
                ),
            ));
        }
        let saved = match verdict.spent.calls.saturating_sub(totals.calls) {
            0 => String::new(),
            count => {
                let calls = counted(count, "call was", "calls were");
                format!("; {calls} already paid for")
            }
        };
        note(&paint(
            DIM,
            format!(
                "isolation of the debate: {}",
                terminal::replace_control_chars(&report.isolation)
            ),
        ));
        let calls = counted(totals.calls, "call", "calls");
        note(&paint(DIM, format!("{calls} · {}{saved}", format_spending(&totals))));
        if !args.transcripts {
            note(&hints::transcripts("transcripts", &run.id));
        }
        if !verdict.partial.is_empty() {
            let again = format!("retry the failed calls with `assize debate --fork {}`", run.id);
            note(&paint(WARN, format!("a conversation ended early; {again}")));
        }
        Ok(())
    }
}
