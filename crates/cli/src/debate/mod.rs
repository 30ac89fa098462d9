//! `assize debate`: one move on trial.

mod progress;
pub(crate) mod show;

use std::io::IsTerminal;
use std::sync::Arc;

use assize_clerk::Broke;
use assize_clerk::debate::{Ask, DebateReport, Plan, Trial, estimate};
use assize_clerk::ended::Held;
use assize_config::{Environment, Settings};
use assize_consult::short;
use assize_debate::{Options, Personas, graph};
use assize_gateway::{Gateway, Rehearsal};
use assize_graph::Signal;
use assize_run::RunKind;
use assize_types::{Cancel, Failure, FailureKind, Money};
use serde_json::json;

use crate::account::{account, show_estimate};
use crate::args::DebateArgs;
use crate::choose::{self, Already};
use crate::progress::Progress;
use crate::reading::dollars;
use crate::terminal::{self, DIM, WARN, grouped, note, out, out_json, paint};
use crate::voice::{clerk, tell_broke};
use crate::{hints, input, kept};
use progress::Debate;

/// The longest document, in MiB: more would fit no model.
const LONGEST_MOVE: u64 = 1;

pub(crate) async fn run(
    args: DebateArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<(), Failure> {
    refuse_idle_flags(&args)?;
    let fork = args.fork.fork_of()?;
    if args.graph {
        return show_graph();
    }
    let mut clerk = clerk(config, around, args.quiet);
    clerk.estimate_only = args.estimate;
    let tape = args.model.tape();
    let ask = Ask {
        document: document(&args, &cancel).await?,
        ticker: args.ticker.clone(),
        rounds: args.rounds,
        image: args.sandbox.image.clone(),
    };
    let again = args.go_on();
    // What cannot be debated leaves no store behind.
    let fresh = match (&again, &fork) {
        (None, None) => Some(Plan::fresh(&ask)?),
        _ => None,
    };
    if let (true, Some(plan)) = (args.estimate, &fresh) {
        let gateway = choose::gateway(&clerk, &tape, Already::default()).await?;
        let nothing = || Failure::new(FailureKind::Usage, "there is nothing to estimate");
        let (estimate, in_a_row) =
            estimate(&gateway, &plan.content, args.rounds).ok_or_else(nothing)?;
        return show_estimate(&estimate, in_a_row, &gateway, args.json);
    }
    let store = kept::open_for(&mut clerk, false).await?;
    let plan = match (fresh, again, fork) {
        (Some(plan), ..) => plan,
        (None, _, Some(fork)) => Plan::forked(&fork, &ask, &*store).await?,
        (None, again, None) => Plan::resumed(&again.unwrap_or_default(), &*store).await?,
    };
    let mut trial = Trial::open(plan, &clerk, store, &tape, args.allow_in_process).await?;
    let held = follow(&mut trial, args.quiet, cancel).await;
    let sitting = Sitting { args: &args, trial };
    match held {
        Ok(held) => sitting.finish(held),
        Err(broke) => Err(sitting.fail(broke)),
    }
}

/// Flags that mean nothing here are refused, not forgotten.
fn refuse_idle_flags(args: &DebateArgs) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    if args.take_over && args.resume.is_none() {
        return Err(usage("`--take-over` goes with `--resume RUN`".to_owned()));
    }
    if args.document.is_none() && args.resume.is_none() && args.fork.fork.is_none() && !args.graph {
        return Err(usage("there is no move to debate".to_owned())
            .hint("name a file, such as `assize debate MOVE.md`; `-` reads standard input"));
    }
    let fixed = [
        ("--temperature", args.model.temperature.is_some()),
        ("--max-output-tokens", args.model.max_output_tokens.is_some()),
    ];
    if let Some((flag, _)) = fixed.into_iter().find(|(_, given)| args.resume.is_some() && *given) {
        return Err(usage(format!("`{flag}` cannot change in a run that goes on"))
            .hint("start a new one from it with `--fork RUN`"));
    }
    Ok(())
}

/// The move that was named.
async fn document(args: &DebateArgs, cancel: &Cancel) -> Result<Option<String>, Failure> {
    const WHAT: &str = "the move";
    match &args.document {
        Some(path) if path.as_os_str() == "-" => {
            input::from_standard_input(WHAT, LONGEST_MOVE, cancel).await.map(Some)
        }
        Some(path) => input::from_file(WHAT, LONGEST_MOVE, path).map(Some),
        None => Ok(None),
    }
}

fn show_graph() -> Result<(), Failure> {
    let nobody = Gateway::to_rehearsal(Rehearsal::default(), assize_gateway::Options::default());
    let graph = graph(Arc::new(nobody), Options::default());
    out(&graph.map_err(|error| Failure::from_error(FailureKind::Internal, &error))?.mermaid())
}

/// Runs it to its end, and shows how far it is.
async fn follow(
    trial: &mut Trial,
    quiet: bool,
    cancel: Cancel,
) -> Result<Held<DebateReport>, Broke> {
    let (run, gateway) = (&trial.run, &trial.gateway);
    let heading = terminal::harmless(&format!("{} · {} · {}", run.id, run.title, gateway.called()));
    let view = Debate::new(trial.input.rounds, Personas::default());
    let progress = Progress::begin(heading, gateway.ledger().clone(), quiet, view);
    let seen = progress.clone();
    let see = move |signal: &Signal<'_>| seen.update(|view, so_far| view.see(signal, so_far));
    progress.until(trial.hold(Some(Arc::new(see)), cancel)).await
}

/// One debate that is over.
struct Sitting<'a> {
    args: &'a DebateArgs,
    trial: Trial,
}

impl Sitting<'_> {
    fn finish(&self, held: Held<DebateReport>) -> Result<(), Failure> {
        // It is paid for: it is shown even if it could not be kept.
        self.show(&held.came_to)?;
        held.kept.map_err(|error| {
            note(&hints::resume(RunKind::Debate, &self.trial.run.id));
            error.into()
        })
    }

    fn fail(&self, broke: Broke) -> Failure {
        let already = &self.trial.already;
        if already.cost > Money::ZERO || already.tokens > 0 {
            let (cost, tokens) = (already.cost, grouped(already.tokens));
            note(&paint(DIM, format!("spent on it before: {tokens} tokens, {cost}")));
        }
        tell_broke(broke, &self.trial.gateway, self.args.quiet)
    }

    fn show(&self, report: &DebateReport) -> Result<(), Failure> {
        let verdict = &report.verdict;
        let totals = self.trial.gateway.ledger().totals();
        let (run, args) = (&self.trial.run, self.args);
        if args.json {
            let mut shown = json!(report);
            shown["run"] = json!(run.id);
            shown["title"] = json!(run.title);
            shown["cost_usd"] = dollars(verdict.spent.cost);
            shown["spent_now_usd"] = dollars(totals.known_cost());
            if verdict.spent.rehearsal {
                shown["label"] = json!(assize_gateway::REHEARSAL_LABEL);
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
                terminal::harmless(&format!("{}: {}", short(flag.kind), flag.message)),
            ));
        }
        if args.quiet {
            return Ok(());
        }
        if std::io::stdout().is_terminal() {
            note("");
        }
        if let Some(who) = &self.trial.input.answered_before_by {
            let at = self.trial.input.at.unwrap_or(1);
            note(&paint(WARN, format!("the rounds before round {at} were answered by {who}")));
        }
        let saved = match verdict.spent.calls.saturating_sub(totals.calls) {
            0 => String::new(),
            count => format!("; {count} calls were paid for before"),
        };
        note(&paint(DIM, format!("debated in: {}", terminal::harmless(&report.isolation))));
        note(&paint(DIM, format!("{} calls · {}{saved}", totals.calls, account(&totals))));
        if !args.transcripts {
            let id = &run.id;
            let how = hints::runs(&format!("show {id} --transcripts"));
            note(&paint(DIM, format!("what was said: {how}")));
        }
        if !verdict.partial.is_empty() {
            let again = format!("try again what failed with `assize debate --fork {}`", run.id);
            note(&paint(WARN, format!("a conversation ended early; {again}")));
        }
        Ok(())
    }
}
