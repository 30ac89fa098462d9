//! `assize debate`: one move on trial.

mod estimate;
mod plan;
mod progress;
pub(crate) mod show;

use std::io::IsTerminal;
use std::sync::Arc;

use assize_debate::{
    Company, DebateState, MoveDocument, Options, Personas, Verdict, graph, step_limit,
};
use assize_gateway::{Gateway, Rehearsal};
use assize_graph::{Graph, Record, RunError, RunOptions};
use assize_store::{Ending, Run, RunJournal};
use assize_types::{Cancel, Money, trail};
use serde_json::json;

use crate::account::{account, dollars};
use crate::args::DebateArgs;
use crate::choose::{self, Already};
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::fork;
use crate::kept;
use crate::sitting;
use crate::terminal::{self, DIM, Manner, WARN, grouped, note, out, out_json, paint};
use plan::{Input, Plan};
use progress::Progress;

pub(crate) async fn run(
    args: DebateArgs,
    config: &Config,
    around: &Surroundings,
    cancel: Cancel,
) -> Result<(), Failure> {
    plan::refuse_idle_flags(&args)?;
    if args.graph {
        let nobody =
            Gateway::to_rehearsal(Rehearsal::default(), assize_gateway::Options::default());
        return out(&built(Arc::new(nobody), Options::default())?.mermaid());
    }
    let earlier = args.resume.as_deref().or(args.fork.fork.as_deref());
    // What cannot be debated leaves no store behind.
    let fresh = match earlier {
        None => Some(Plan::fresh(&args, plan::document(&args, &cancel).await?)),
        Some(_) => None,
    };
    if let (true, Some(plan)) = (args.estimate, &fresh) {
        let gateway = choose::gateway(config, &args.model, args.quiet, Already::default()).await?;
        return estimate::show(&gateway, &plan.content, args.rounds, args.json);
    }
    let store = kept::open(config, around)?;
    let plan = match (fresh, earlier) {
        (Some(plan), _) => plan,
        (None, name) => {
            Plan::from_earlier(name.unwrap_or_default(), &args, &*store, &cancel).await?
        }
    };
    let inherited = plan.inherited(&*store).await?;
    let already = match &plan.resumed {
        Some(run) => kept::spent(run, &store.records(&run.id).await?, &inherited),
        None => Already::default(),
    };
    let gateway = choose::gateway(config, &args.model, args.quiet, already).await?;
    let input = plan.input(&args, config, &gateway)?;
    let new_run = || plan.new_run(&input);
    let (run, journal) =
        kept::begin(store.clone(), plan.resumed.clone(), args.take_over, config, new_run).await?;
    let sitting = Sitting {
        args: &args,
        run,
        input,
        gateway: Arc::new(gateway),
        journal: Arc::new(journal),
        already,
    };
    trail::workflow_started(&sitting.run.title, sitting.gateway.name().0);
    let outcome = sitting.debate(&plan.content, inherited, cancel).await;
    let finished = sitting.finish(outcome).await;
    trail::workflow_completed(finished.is_ok(), 1);
    finished
}

fn built(model: Arc<Gateway>, options: Options) -> Result<Graph<DebateState>, Failure> {
    graph(model, options).map_err(|error| Failure::from_error(FailureKind::Internal, &error))
}

/// One debate, in one of its lives.
struct Sitting<'a> {
    args: &'a DebateArgs,
    run: Run,
    input: Input,
    gateway: Arc<Gateway>,
    journal: Arc<RunJournal>,
    already: Already,
}

impl Sitting<'_> {
    async fn debate(
        &self,
        content: &str,
        inherited: Vec<Record>,
        cancel: Cancel,
    ) -> Result<Result<DebateState, RunError>, Failure> {
        let input = &self.input;
        let options = Options {
            temperature: input.temperature as f32,
            max_tokens: input.max_output_tokens,
            context_window: input.context_window,
            blind_scores: false,
        };
        let graph = built(self.gateway.clone(), options)?;
        let document = MoveDocument { move_id: input.move_id.clone(), content: content.to_owned() };
        let company = Company { ticker: input.ticker.clone(), ..Company::default() };
        let personas = Arc::new(Personas::default());
        let state = DebateState::new(document, company, personas, input.rounds)
            .changed(input.changes.clone());
        let journal = fork::journal(&self.run, &self.journal, inherited);
        let progress = Arc::new(self.progress());
        let seen = progress.clone();
        let run_options = RunOptions {
            journal: Some(journal),
            observer: Some(Arc::new(move |signal| seen.see(signal))),
            cancel,
            step_limit: step_limit(input.rounds),
            ..RunOptions::default()
        };
        let outcome = tokio::select! {
            outcome = graph.run(state, run_options) => outcome,
            () = progress.tick() => unreachable!("it ticks as long as it is awaited"),
        };
        terminal::draw(&[]);
        Ok(outcome)
    }

    fn progress(&self) -> Progress {
        let who = match self.gateway.name() {
            (provider, model) if provider == model => provider.to_owned(),
            (provider, model) => format!("{provider} {model}"),
        };
        let heading = format!("{} · {} · {who}", self.run.id, self.run.title);
        let heading = terminal::harmless(heading.trim_end());
        let manner = Manner::begin(self.args.quiet, &heading);
        let (personas, ledger) = (Arc::new(Personas::default()), self.gateway.ledger().clone());
        Progress::new(heading, self.input.rounds, personas, ledger, manner)
    }

    /// Writes down how it ended, and shows it.
    async fn finish(
        &self,
        outcome: Result<Result<DebateState, RunError>, Failure>,
    ) -> Result<(), Failure> {
        let verdict = match outcome? {
            Ok(state) => Verdict::from(state),
            Err(error) => return self.fail(error).await,
        };
        let mut result = json!(verdict);
        if let Some(result) = result.as_object_mut() {
            // What was said is in the journal.
            result.remove("conversation_logs");
        }
        let kept = self.journal.finish(Ending::Done { result }, Vec::new()).await;
        // It is paid for: it is shown even if it cannot be kept.
        self.show(&verdict)?;
        kept.map(drop).map_err(|error| {
            note(&kept::how_to_resume("debate", &self.run.id));
            error.into()
        })
    }

    async fn fail(&self, error: RunError) -> Result<(), Failure> {
        sitting::note_end(&self.journal, &error, Vec::new()).await;
        let totals = self.gateway.ledger().totals();
        if !self.args.quiet {
            note(&paint(DIM, format!("spent: {}", account(&totals))));
        }
        if self.already.cost > Money::ZERO || self.already.tokens > 0 {
            let (cost, tokens) = (self.already.cost, grouped(self.already.tokens));
            note(&paint(DIM, format!("spent on it before: {tokens} tokens, {cost}")));
        }
        let (failure, how) = sitting::explain(error, "debate", &self.run.id);
        if let Some(how) = how {
            note(&how);
        }
        Err(failure)
    }

    fn show(&self, verdict: &Verdict) -> Result<(), Failure> {
        let totals = self.gateway.ledger().totals();
        let (run, args) = (&self.run, self.args);
        if args.json {
            let mut shown = json!(verdict);
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
        if args.quiet {
            return Ok(());
        }
        if std::io::stdout().is_terminal() {
            note("");
        }
        if let Some(who) = &self.input.answered_before_by {
            let at = self.input.at.unwrap_or(1);
            note(&paint(WARN, format!("the rounds before round {at} were answered by {who}")));
        }
        let saved = match verdict.spent.calls.saturating_sub(totals.calls) {
            0 => String::new(),
            count => format!("; {count} calls were paid for before"),
        };
        note(&paint(DIM, format!("{} calls · {}{saved}", totals.calls, account(&totals))));
        if !args.transcripts {
            let id = &run.id;
            note(&paint(DIM, format!("what was said: `assize runs show {id} --transcripts`")));
        }
        if !verdict.partial.is_empty() {
            let again = format!("try again what failed with `assize debate --fork {}`", run.id);
            note(&paint(WARN, format!("a conversation ended early; {again}")));
        }
        Ok(())
    }
}
