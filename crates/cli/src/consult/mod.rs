//! `assize consult`: a company's options on trial.

mod progress;
pub(crate) mod show;

use std::io::{BufRead, IsTerminal};
use std::sync::Arc;

use assize_clerk::consult::{Ask, Plan, Ready, SourceName, Trial};
use assize_clerk::ended::Held;
use assize_clerk::{Broke, Clerk};
use assize_config::{Environment, Settings};
use assize_consult::sources::files;
use assize_consult::{Chamber, Manner, Personas, Report, graph};
use assize_gateway::{Estimate, Gateway, Rehearsal};
use assize_graph::Signal;
use assize_negotiation::{InProcess, Models};
use assize_run::RunKind;
use assize_types::{Cancel, Failure, FailureKind, Money};
use serde_json::Value;

use crate::account::{account, how_long, less, show_estimate};
use crate::args::{self, ConsultArgs};
use crate::progress::Progress;
use crate::terminal::{self, DIM, note, out, out_json, out_line, paint};
use crate::voice::{clerk, tell_broke};
use crate::{choose, hints, input, kept, reading};
use progress::Consultation;

/// The longest file of personas, in MiB.
const LONGEST: u64 = 1;

pub(crate) async fn run(
    args: ConsultArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<(), Failure> {
    config.refuse_withheld()?;
    let fork = args.fork.fork_of()?;
    if args.export_personas {
        return out(&Personas::default().to_file());
    }
    if args.graph {
        return show_graph();
    }
    if let Some(folder) = &args.out {
        show::check_empty(folder)?;
    }
    let mut clerk = clerk(config, around, args.quiet);
    clerk.estimate_only = args.estimate;
    let models = args.model.by_role();
    let again = args.again.go_on();
    // What cannot be consulted on leaves no store behind.
    let fresh = match (&again, &fork) {
        (None, None) => Some(Plan::fresh(ask(&args)?, &clerk).await?),
        _ => None,
    };
    let store = kept::open_for(&mut clerk, false).await?;
    let plan = match (fresh, again, fork) {
        (Some(plan), ..) => plan,
        (None, _, Some(fork)) => Plan::forked(&fork, models, &*store).await?,
        (None, again, None) => Plan::resumed(&again.unwrap_or_default(), models, &*store).await?,
    };
    let tape = args.model.tape();
    let ready = Ready::make(plan, &clerk, store, &tape, args.parallel_moves).await?;
    if args.estimate {
        let nothing = || Failure::new(FailureKind::Usage, "there is nothing to estimate");
        let estimate = ready.estimate.as_ref().ok_or_else(nothing)?;
        return show_estimate(estimate, ready.in_a_row, &ready.gateway, args.json);
    }
    ask_before(&args, &clerk, &ready)?;
    let mut trial = ready.open(&clerk, args.allow_in_process).await?;
    let held = follow(&mut trial, args.quiet, cancel).await;
    let sitting = Sitting { args: &args, trial };
    match held {
        Ok(held) => sitting.finish(held).await,
        Err(broke) => Err(tell_broke(broke, &sitting.trial.gateway, args.quiet)),
    }
}

/// What was asked for.
fn ask(args: &ConsultArgs) -> Result<Ask, Failure> {
    if args.sources.contains(&args::SourceName::Files) && args.data.is_none() {
        let message = "`--source files` needs a folder: `--data FOLDER`";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let personas = args.personas.as_deref();
    let read = |path| input::from_file("the file of personas", LONGEST, path);
    let source = |name: &args::SourceName| match name {
        args::SourceName::Edgar => SourceName::Edgar,
        args::SourceName::Files => SourceName::Files,
        args::SourceName::Synthetic => SourceName::Synthetic,
    };
    Ok(Ask {
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

fn show_graph() -> Result<(), Failure> {
    let nobody = Gateway::to_rehearsal(Rehearsal::default(), assize_gateway::Options::default());
    let chamber = Chamber {
        models: Models::new(Arc::new(nobody)),
        manner: Manner { temperature: 0.0, max_tokens: 1 },
        personas: Personas::default(),
        moves: assize_consult::MOVES,
        rounds: assize_debate::ROUNDS,
        at_once: 1,
        debate_options: assize_debate::Options::default(),
        gathered: Arc::default(),
        synthetic: false,
        debates: Arc::new(InProcess::default()),
        turnings: Vec::new(),
        shelf: None,
    };
    let graph = graph(Arc::new(chamber));
    out(&graph.map_err(|error| Failure::from_error(FailureKind::Internal, &error))?.mermaid())
}

/// Asks before more is spent than may be spent unasked.
fn ask_before(args: &ConsultArgs, clerk: &Clerk, ready: &Ready) -> Result<(), Failure> {
    let Some(estimate) = ready.estimate.as_ref().filter(|_| ready.is_new()) else {
        return Ok(());
    };
    let Estimate { calls, cost, .. } = estimate;
    let time = how_long(ready.in_a_row, false);
    let what = format!("{calls} calls and {time}, {}{}", estimate.cost_phrase(), less(estimate));
    if let (Some(cap), Some(least)) = (choose::caps(&clerk.config).cost, estimate.cached.known())
        && cap < least
    {
        terminal::warn(&format!("`--max-cost` of {cap} is less than it is likely to take: {what}"));
    }
    if args.yes || ready.to_be_asked_about(clerk).is_none() {
        if !args.quiet && cost.known() != Some(Money::ZERO) {
            note(&paint(DIM, what));
        }
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let message = format!("this would take {what}, which is more than may be spent unasked");
        let hint = "say so with `--yes`, or set `consult.ask_above`; `--max-cost` is a hard limit";
        return Err(Failure::new(FailureKind::Budget, message).hint(hint));
    }
    note(&format!("This takes {what}. Go on? [y/N]"));
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => {
            Err(Failure::new(FailureKind::Interrupted, "you did not say yes, so nothing was spent"))
        }
    }
}

/// Runs it to its end, and shows how far it is.
async fn follow(trial: &mut Trial, quiet: bool, cancel: Cancel) -> Result<Held<Report>, Broke> {
    let (run, gateway) = (&trial.run, &trial.gateway);
    let heading = terminal::harmless(&format!("{} · {} · {}", run.id, run.title, gateway.called()));
    let view = Consultation::new(trial.calls, trial.rounds);
    let progress = Progress::begin(heading, gateway.ledger().clone(), quiet, view);
    let seen = progress.clone();
    let see = move |signal: &Signal<'_>| seen.update(|view, so_far| view.see(signal, so_far));
    progress.until(trial.hold(Some(Arc::new(see)), cancel)).await
}

/// One consultation that came to its end.
struct Sitting<'a> {
    args: &'a ConsultArgs,
    trial: Trial,
}

impl Sitting<'_> {
    async fn finish(&self, held: Held<Report>) -> Result<(), Failure> {
        let Trial { store, run, .. } = &self.trial;
        // It is paid for: it is shown even if it could not be kept.
        let told = match self.args.json || self.args.out.is_some() {
            true => reading::status_updates(&**store, run).await.unwrap_or_default(),
            false => Value::Null,
        };
        self.show(&held.came_to, &told)?;
        held.kept.map_err(|error| {
            note(&hints::resume(RunKind::Consult, &run.id));
            error.into()
        })
    }

    fn show(&self, report: &Report, told: &Value) -> Result<(), Failure> {
        if self.args.json {
            out_json(&reading::consultation(report, told))?;
        } else {
            show::lines(report).iter().try_for_each(|line| out_line(line))?;
        }
        if let Some(folder) = &self.args.out {
            let count = show::write(folder, report, told)?;
            note(&format!("{count} files are in `{}`; begin with report.html", folder.display()));
        }
        if !self.args.quiet && !self.args.json {
            let totals = self.trial.gateway.ledger().totals();
            note(&paint(
                DIM,
                format!(
                    "{} · debates in: {} · {}",
                    self.trial.run.id,
                    self.trial.why,
                    account(&totals)
                ),
            ));
            if self.args.out.is_none() {
                let how = hints::runs(&format!("files {} --out FOLDER", self.trial.run.id));
                note(&paint(DIM, format!("all documents and the report: {how}")));
            }
        }
        Ok(())
    }
}
