//! `assize consult`: a company's options on trial.

mod estimate;
mod ground;
mod plan;
mod progress;
pub(crate) mod show;

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal};
use std::sync::Arc;

use assize_consult::sources::edgar::day_of;
use assize_consult::{
    Chamber, ConsultState, InProcess, Made, Manner, Models, Personas, Report, graph,
};
use assize_gateway::{Estimate, Gateway, Rehearsal};
use assize_graph::{Event, Outcome, Record, RunError, RunOptions};
use assize_store::{Ending, Run, RunJournal, Store};
use assize_types::{Cancel, Cost, Fingerprint, Money, trail};
use serde_json::{Value, json};

use crate::account::{account, how_long, less, show_estimate};
use crate::args::ConsultArgs;
use crate::choose::{self, Already};
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::terminal::{self, DIM, grouped, note, out, out_json, out_line, paint};
use crate::{fork, kept, sitting};
use ground::Ground;
use plan::{Input, Plan};
use progress::Progress;

pub(crate) async fn run(
    args: ConsultArgs,
    config: &Config,
    around: &Surroundings,
    cancel: Cancel,
) -> Result<(), Failure> {
    config.refuse_withheld()?;
    fork::refuse_idle_flags(&args.fork)?;
    if args.export_personas {
        return out(&Personas::default().to_file());
    }
    if args.graph {
        return show_graph();
    }
    if let Some(folder) = &args.out {
        show::check_empty(folder)?;
    }
    // What cannot be consulted on leaves no store behind.
    let fresh = match args.again.resume.as_ref().or(args.fork.fork.as_ref()) {
        None => Some(Plan::fresh(&args, config, around).await?),
        Some(_) => None,
    };
    let store = kept::open(config, around)?;
    let plan = match fresh {
        Some(plan) => plan,
        None => Plan::from_earlier(&args, &*store).await?,
    };
    let inherited = plan.inherited(&*store).await?;
    let already = match &plan.resumed {
        Some(run) => kept::spent(run, &store.records(&run.id).await?, &inherited),
        None => Already::default(),
    };
    let roles = plan.roles(&args)?;
    let (gateway, others) =
        choose::gateways(config, &args.model, args.quiet, already, &roles).await?;
    let gateway = Arc::new(gateway);
    let others: BTreeMap<String, Arc<Gateway>> =
        others.into_iter().map(|(role, other)| (role, Arc::new(other))).collect();
    let mut models = Models::new(gateway.clone());
    for (role, other) in &others {
        models = models.with(role, other.clone());
    }
    let input = plan.input(&args, config, &gateway)?;
    refuse_too_much(&plan, &input)?;
    let at_once = ground::at_once(&args, config, &gateway);
    let mut chamber = chamber(&plan, &input, models, at_once);
    let answered = inherited.iter().filter(|record| is_answer(record)).count() as u64;
    let estimate = estimate::estimate(&chamber, &gateway, &others, answered);
    if args.estimate {
        let nothing = || Failure::new(FailureKind::Usage, "there is nothing to estimate");
        let estimate = estimate.as_ref().ok_or_else(nothing)?;
        let in_a_row = estimate::in_a_row(&chamber);
        return show_estimate(estimate, in_a_row, gateway.is_rehearsal(), args.json);
    }
    if plan.resumed.is_none() {
        ask_before(&args, config, &estimate, estimate::in_a_row(&chamber))?;
    }
    let ground = Ground::find(&args, config, around).await?;
    let new_run = || plan.new_run(&input);
    let (run, journal) =
        kept::begin(store.clone(), plan.resumed.clone(), args.again.take_over, config, new_run)
            .await?;
    let (debates, why) = ground.of_run(&input, &run, journal.life());
    chamber.debates = debates;
    let journal = Arc::new(journal);
    let sitting = Sitting { args: &args, run, input, gateway, store, journal, inherited, why };
    trail::workflow_started(&sitting.run.title, sitting.gateway.name().0);
    let outcome = sitting.consult(chamber, cancel).await;
    let finished = sitting.finish(outcome?).await;
    trail::workflow_completed(finished.is_ok(), 1);
    finished
}

/// Refuses what would not fit the model that has to read all of it.
fn refuse_too_much(plan: &Plan, input: &Input) -> Result<(), Failure> {
    let Some(window) = input.context_window else { return Ok(()) };
    let known = plan.gathered.likely_tokens();
    let most = window.saturating_sub(u64::from(input.max_output_tokens)) * 3 / 4;
    if known <= most {
        return Ok(());
    }
    let message = format!(
        "what is known of the company takes about {} tokens, too many for a model that holds {}",
        grouped(known),
        grouped(window)
    );
    let hint = "put less into `--data`, or name a model that holds more";
    Err(Failure::new(FailureKind::Usage, message).hint(hint))
}

/// Whether it is what a model said.
fn is_answer(record: &Record) -> bool {
    record.request != Fingerprint::NONE && matches!(record.outcome, Outcome::Done(_))
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
    };
    let graph = graph(Arc::new(chamber));
    out(&graph.map_err(|error| Failure::from_error(FailureKind::Internal, &error))?.mermaid())
}

/// Everything but where debates are held.
fn chamber(plan: &Plan, input: &Input, models: Models, at_once: usize) -> Chamber {
    let (temperature, max_tokens) = (input.temperature as f32, input.max_output_tokens);
    Chamber {
        models,
        manner: Manner { temperature, max_tokens },
        personas: plan.personas.clone(),
        moves: input.moves as usize,
        rounds: input.rounds,
        at_once,
        debate_options: assize_debate::Options {
            temperature,
            max_tokens,
            context_window: input.context_window,
            blind_scores: input.blind_scores,
        },
        gathered: plan.gathered.clone(),
        synthetic: input.synthetic,
        debates: Arc::new(InProcess::default()),
        turnings: input.turnings.clone(),
    }
}

/// Asks before more is spent than may be spent unasked.
fn ask_before(
    args: &ConsultArgs,
    config: &Config,
    estimate: &Option<Estimate>,
    in_a_row: u64,
) -> Result<(), Failure> {
    let most =
        config.decimal("consult.ask_above").and_then(Money::from_dollars).unwrap_or_default();
    let Some(estimate) = estimate else { return Ok(()) };
    let Estimate { calls, cost, .. } = estimate;
    let within = matches!(cost, Cost::Known(cost) if *cost <= most);
    // What cannot be passed need not be asked about.
    let cap = choose::caps(config).cost;
    let capped = cap.is_some_and(|cap| cap <= most);
    let time = how_long(in_a_row, false);
    let what = format!("{calls} calls and {time}, at about {cost}{}", less(estimate));
    if let (Some(cap), Cost::Known(least)) = (cap, estimate.cached)
        && cap < least
    {
        terminal::warn(&format!("`--max-cost` of {cap} is less than it is likely to take: {what}"));
    }
    if args.yes || within || capped {
        if !args.quiet && *cost != Cost::Known(Money::ZERO) {
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

/// One consultation, in one of its lives.
struct Sitting<'a> {
    args: &'a ConsultArgs,
    run: Run,
    input: Input,
    gateway: Arc<Gateway>,
    store: Arc<dyn Store>,
    journal: Arc<RunJournal>,
    /// What may be taken over from the run that it was forked from.
    inherited: Vec<Record>,
    /// Where debates are held, and why there.
    why: String,
}

impl Sitting<'_> {
    async fn consult(
        &self,
        chamber: Chamber,
        cancel: Cancel,
    ) -> Result<Result<ConsultState, RunError>, Failure> {
        let who = match self.gateway.name() {
            (provider, model) if provider == model => provider.to_owned(),
            (provider, model) => format!("{provider} {model}"),
        };
        let heading = terminal::harmless(&format!("{} · {} · {who}", self.run.id, self.run.title));
        let ledger = self.gateway.ledger().clone();
        let progress = Arc::new(Progress::new(
            heading,
            chamber.calls(),
            chamber.rounds,
            ledger,
            self.args.quiet,
        ));
        let seen = progress.clone();
        let graph = graph(Arc::new(chamber))
            .map_err(|error| Failure::from_error(FailureKind::Internal, &error))?;
        let journal = fork::journal(&self.run, &self.journal, self.inherited.clone());
        let options = RunOptions {
            journal: Some(journal),
            observer: Some(Arc::new(move |signal| seen.see(signal))),
            cancel,
            ..RunOptions::default()
        };
        let state = ConsultState::new(self.input.company.clone());
        let outcome = tokio::select! {
            outcome = graph.run(state, options) => outcome,
            () = progress.tick() => unreachable!("it ticks as long as it is awaited"),
        };
        terminal::draw(&[]);
        Ok(outcome)
    }

    /// Writes down how it ended, and shows it.
    async fn finish(&self, outcome: Result<ConsultState, RunError>) -> Result<(), Failure> {
        let mut report = match outcome {
            Ok(state) => Report::from(&state),
            Err(error) => {
                let told = match &error {
                    RunError::Cancelled { reason } => {
                        Event::new("pipeline_cancelled", json!({"reason": reason}))
                    }
                    error => Event::new("pipeline_failed", json!({"error": error.to_string()})),
                };
                sitting::note_end(&self.journal, &error, vec![told]).await;
                let totals = self.gateway.ledger().totals();
                if !self.args.quiet && totals.calls > 0 {
                    note(&paint(DIM, format!("spent: {}", account(&totals))));
                }
                let (failure, how) = sitting::explain(error, "consult", &self.run.id);
                how.iter().for_each(|how| note(how));
                return Err(failure);
            }
        };
        report.made = Some(Made {
            run: self.run.id.to_string(),
            on: day_of(plan::now()).to_string(),
            provider: self.input.provider.clone(),
            model: self.input.model.clone(),
            models: self.input.models.clone(),
            isolation: self.why.clone(),
        });
        let mut result = json!(report);
        for verdict in result["policy_scores"].as_array_mut().into_iter().flatten() {
            if let Some(verdict) = verdict.as_object_mut() {
                // What was said is in the journal.
                verdict.remove("conversation_logs");
            }
        }
        let kept = self.journal.finish(Ending::Done { result }, Vec::new()).await;
        // It is paid for: it is shown even if it cannot be kept.
        let told = match self.args.json || self.args.out.is_some() {
            true => kept::status_updates(&*self.store, &self.run).await.unwrap_or_default(),
            false => Value::Null,
        };
        self.show(&report, &told)?;
        kept.map(drop).map_err(|error| {
            note(&kept::how_to_resume("consult", &self.run.id));
            error.into()
        })
    }

    fn show(&self, report: &Report, told: &Value) -> Result<(), Failure> {
        if self.args.json {
            out_json(&show::as_json(report, told))?;
        } else {
            show::lines(report).iter().try_for_each(|line| out_line(line))?;
        }
        if let Some(folder) = &self.args.out {
            let count = show::write(folder, report, told)?;
            note(&format!("{count} files are in `{}`; begin with report.html", folder.display()));
        }
        if !self.args.quiet && !self.args.json {
            let totals = self.gateway.ledger().totals();
            note(&paint(
                DIM,
                format!("{} · debates in: {} · {}", self.run.id, self.why, account(&totals)),
            ));
            if self.args.out.is_none() {
                let how = format!("`assize runs files {} --out FOLDER`", self.run.id);
                note(&paint(DIM, format!("all documents and the report: {how}")));
            }
        }
        Ok(())
    }
}
