//! `assize debate`: one move on trial.

mod progress;
pub(crate) mod show;

use std::io::IsTerminal;
use std::sync::Arc;

use assize_debate::{DebateState, MoveDocument, Options, Place, Verdict, calls, graph};
use assize_gateway::{Estimate, Gateway, Rehearsal};
use assize_graph::{Fork, Journal, Record, RunError, RunOptions};
use assize_llm::{AnswerError, ModelError, Request, Response};
use assize_store::{Ending, NewRun, Run, RunJournal, Store};
use assize_types::text::shorten;
use assize_types::{Cancel, trail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::account::{account, dollars};
use crate::args::DebateArgs;
use crate::choose::{self, Already};
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::input;
use crate::kept::{self, Holder};
use crate::terminal::{self, DIM, WARN, grouped, note, out, out_json, out_line, paint};
use progress::{Manner, Progress};

/// The longest document: more would fit no model.
const LONGEST_MOVE: u64 = 1;

/// The name of the document among a run's artifacts.
const DOCUMENT: &str = "move.md";

/// What a run of a debate needs to be run again; the document is kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Input {
    move_id: String,
    ticker: Option<String>,
    rounds: u32,
    temperature: f64,
    max_tokens: u32,
    context_window: Option<u64>,
    provider: String,
    model: String,
    /// The round from which a fork asks anew.
    at: Option<u32>,
}

/// A debate that is about to begin, or to go on.
struct Plan {
    content: String,
    ticker: Option<String>,
    rounds: u32,
    /// What was asked for before, where this is not the first time.
    before: Option<Input>,
    /// The run to go on with.
    resumed: Option<Run>,
    /// The run to start from.
    parent: Option<Run>,
    at: Option<u32>,
}

pub(crate) async fn run(
    args: DebateArgs,
    config: &Config,
    around: &Surroundings,
    cancel: Cancel,
) -> Result<(), Failure> {
    if args.graph {
        let nobody =
            Gateway::to_rehearsal(Rehearsal::default(), assize_gateway::Options::default());
        return out(&built(Arc::new(nobody), Options::default())?.mermaid());
    }
    if args.estimate && args.resume.is_none() && args.fork.is_none() {
        let content = document(&args, &cancel).await?;
        let gateway = choose::gateway(config, &args.model, args.quiet, Already::default()).await?;
        return show_estimate(&gateway, &content, args.rounds, args.json);
    }
    let store = kept::open(config, around)?;
    let plan = plan(&args, &*store, &cancel).await?;
    let earlier = match &plan.resumed {
        Some(run) => store.records(&run.id).await?,
        None => Vec::new(),
    };
    let gateway = choose::gateway(config, &args.model, args.quiet, spent(&earlier)).await?;
    let input = plan.input(&args, config, &gateway)?;
    let holder = Holder::this_process().to_text();
    let (run, journal) = match &plan.resumed {
        Some(run) => {
            let claim = store.claim(&run.id, &holder).await?;
            (run.clone(), RunJournal::open(store.clone(), claim).await?)
        }
        None => {
            let (run, claim) = store.create_run(plan.new_run(&input), &holder).await?;
            (run, RunJournal::fresh(store.clone(), claim))
        }
    };
    let inherited = inherited(&*store, &run, &input).await?;

    trail::workflow_started(&run.title, gateway.name().0);
    let ran =
        debate(&args, &run, &plan, &input, gateway, Arc::new(journal), inherited, cancel).await;
    trail::workflow_completed(ran.is_ok(), 1);
    ran
}

/// What was already spent on a run, which counts against what may be.
fn spent(records: &[Record]) -> Already {
    let mut already = Already::default();
    for record in records {
        if let assize_graph::Outcome::Done(text) = &record.outcome
            && let Ok(response) = serde_json::from_str::<Response>(text)
        {
            already.cost += response.cost.known().unwrap_or_default();
            already.tokens += response.usage.unwrap_or_default().total();
        }
    }
    already
}

fn built(
    model: Arc<Gateway>,
    options: Options,
) -> Result<assize_graph::Graph<DebateState>, Failure> {
    graph(model, options).map_err(|error| Failure::from_error(FailureKind::Internal, &error))
}

async fn document(args: &DebateArgs, cancel: &Cancel) -> Result<String, Failure> {
    const WHAT: &str = "the move";
    match &args.document {
        Some(path) if path.as_os_str() == "-" => {
            input::from_standard_input(WHAT, LONGEST_MOVE, cancel).await
        }
        Some(path) => input::from_file(WHAT, LONGEST_MOVE, path),
        None => Err(Failure::new(FailureKind::Usage, "there is no move to debate")
            .hint("name a file, such as `assize debate MOVE.md`; `-` reads standard input")),
    }
}

/// Finds out what is to be debated.
async fn plan(args: &DebateArgs, store: &dyn Store, cancel: &Cancel) -> Result<Plan, Failure> {
    let named = args.resume.as_deref().or(args.fork.as_deref());
    let Some(name) = named else {
        let content = document(args, cancel).await?;
        return Ok(Plan {
            content,
            ticker: args.ticker.clone(),
            rounds: args.rounds.unwrap_or(assize_debate::ROUNDS),
            before: None,
            resumed: None,
            parent: None,
            at: None,
        });
    };
    let old = kept::find(store, name).await?;
    if old.kind != "debate" {
        let message = format!("`{}` is no debate but a {}", old.id, old.kind);
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let before: Input = serde_json::from_value(old.input.clone()).map_err(|error| {
        Failure::new(FailureKind::Usage, format!("the run `{}` cannot be read: {error}", old.id))
    })?;
    let kept_document = |bytes| {
        String::from_utf8(bytes)
            .map_err(|_| Failure::new(FailureKind::Environment, "the kept move is not UTF-8 text"))
    };
    let content = match &args.document {
        Some(_) => document(args, cancel).await?,
        None => {
            let kept = store.artifacts(&old.id).await?;
            let Some(kept) = kept.iter().find(|artifact| artifact.name == DOCUMENT) else {
                let message = format!("the move of `{}` was not kept", old.id);
                return Err(Failure::new(FailureKind::Environment, message)
                    .hint("debate the file again: `assize debate MOVE.md`"));
            };
            kept_document(store.artifact(kept.id).await?)?
        }
    };
    if args.resume.is_some() {
        if !args.take_over {
            kept::refuse_if_held(
                &old,
                "taken up again",
                "wait for it, stop it, or take the run over with `--take-over`",
            )?;
        }
        let (ticker, rounds, at) = (before.ticker.clone(), before.rounds, before.at);
        let parent = None;
        return Ok(Plan {
            content,
            ticker,
            rounds,
            before: Some(before),
            resumed: Some(old),
            parent,
            at,
        });
    }
    Ok(Plan {
        content,
        ticker: args.ticker.clone().or(before.ticker.clone()),
        rounds: args.rounds.unwrap_or(before.rounds),
        before: Some(before),
        resumed: None,
        parent: Some(old),
        at: args.at.map(|round| round.0),
    })
}

impl Plan {
    fn new_run(&self, input: &Input) -> NewRun {
        NewRun {
            kind: "debate".to_owned(),
            title: title(&self.content),
            parent: self.parent.as_ref().map(|run| run.id.clone()),
            input: json!(input),
            artifacts: vec![(DOCUMENT.to_owned(), self.content.clone().into_bytes())],
        }
    }

    /// What the run is to be run with: as before, where there was a before, unless flags say
    /// otherwise.
    fn input(
        &self,
        args: &DebateArgs,
        config: &Config,
        gateway: &Gateway,
    ) -> Result<Input, Failure> {
        let (provider, model) = gateway.name();
        if let (Some(run), Some(before)) = (&self.resumed, &self.before) {
            // A cassette answers in whoever's name it was recorded.
            let same = (before.provider.as_str(), before.model.as_str()) == (provider, model);
            if !same && args.model.replay.is_none() {
                let message = format!(
                    "`{}` was begun with {} {}, and {provider} {model} would answer now",
                    run.id, before.provider, before.model
                );
                return Err(Failure::new(FailureKind::Settings, message).hint(format!(
                    "go on with `--provider {} --model {}`, or start from it with another: `assize \
                     debate --fork {}`",
                    before.provider, before.model, run.id
                )));
            }
            return Ok(before.clone());
        }
        let set = config.decimal("temperature").unwrap_or_else(|| Request::TEMPERATURE.into());
        let longest = config.whole("max_output_tokens").map_or(Request::MAX_TOKENS, |n| n as u32);
        let before = self.before.as_ref();
        Ok(Input {
            move_id: before.map_or_else(|| "m1".to_owned(), |before| before.move_id.clone()),
            ticker: self.ticker.clone(),
            rounds: self.rounds,
            temperature: match (before, &args.model.temperature) {
                (Some(before), None) => before.temperature,
                _ => set,
            },
            max_tokens: match (before, &args.model.max_output_tokens) {
                (Some(before), None) => before.max_tokens,
                _ => longest,
            },
            context_window: gateway.facts().map(|facts| facts.context_window),
            provider: provider.to_owned(),
            model: model.to_owned(),
            at: self.at,
        })
    }
}

/// The first line of a document that says something.
fn title(content: &str) -> String {
    let mut lines = content.lines().map(|line| line.trim_start_matches('#').trim());
    let line = lines.find(|line| !line.is_empty()).unwrap_or("a move");
    shorten(&terminal::harmless(&line.replace('\t', " ")), 80)
}

/// What a run may take over from the one it was forked from.
async fn inherited(
    store: &dyn Store,
    run: &Run,
    input: &Input,
) -> Result<Option<Vec<Record>>, Failure> {
    let Some(parent) = &run.parent else { return Ok(None) };
    let records = match store.records(parent).await {
        Ok(records) => records,
        Err(assize_store::StoreError::NoSuchRun(_)) => {
            terminal::warn(&format!("`{parent}`, which this was forked from, is gone"));
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let early = |record: &Record| {
        let before = |at| Place::of(&record.key).is_some_and(|place| place.is_before(at));
        input.at.is_none_or(before)
    };
    Ok(Some(records.into_iter().filter(early).collect()))
}

#[expect(clippy::too_many_arguments, reason = "all that a debate is made of")]
async fn debate(
    args: &DebateArgs,
    run: &Run,
    plan: &Plan,
    input: &Input,
    gateway: Gateway,
    journal: Arc<RunJournal>,
    inherited: Option<Vec<Record>>,
    cancel: Cancel,
) -> Result<(), Failure> {
    let gateway = Arc::new(gateway);
    let options = Options {
        temperature: input.temperature as f32,
        max_tokens: input.max_tokens,
        context_window: input.context_window,
    };
    let graph = built(gateway.clone(), options)?;
    let document = MoveDocument { move_id: input.move_id.clone(), content: plan.content.clone() };
    let state = DebateState::new(document, input.ticker.clone(), input.rounds);
    let kept: Arc<dyn Journal> = match inherited {
        Some(records) => Arc::new(Fork::new(journal.clone(), records)),
        None => journal.clone(),
    };
    let who = match gateway.name() {
        (provider, model) if provider == model => provider.to_owned(),
        (provider, model) => format!("{provider} {model}"),
    };
    let heading = format!("{} · {} · {who}", run.id, run.title);
    let manner = match (args.quiet, terminal::can_draw()) {
        (true, _) => Manner::Silent,
        (false, true) => Manner::Live,
        (false, false) => Manner::Lines,
    };
    if manner == Manner::Lines {
        note(&terminal::harmless(heading.trim_end()));
    }
    let progress = Arc::new(Progress::new(
        terminal::harmless(heading.trim_end()),
        input.rounds,
        gateway.ledger().clone(),
        manner,
    ));
    let seen = progress.clone();
    let run_options = RunOptions {
        journal: Some(kept),
        observer: Some(Arc::new(move |signal| seen.see(signal))),
        cancel,
        // Two steps a round, the opening and the scores, and some to spare.
        step_limit: 2 * input.rounds + 10,
        ..RunOptions::default()
    };
    let outcome = tokio::select! {
        outcome = graph.run(state, run_options) => outcome,
        () = progress.tick() => unreachable!("it ticks as long as it is awaited"),
    };
    terminal::draw(&[]);
    finish(args, run, &gateway, &journal, outcome).await
}

/// Writes down how it ended, and shows it.
async fn finish(
    args: &DebateArgs,
    run: &Run,
    gateway: &Gateway,
    journal: &RunJournal,
    outcome: Result<DebateState, RunError>,
) -> Result<(), Failure> {
    let state = match outcome {
        Ok(state) => state,
        Err(error) => {
            let ending = match &error {
                RunError::Cancelled { reason } => Ending::Cancelled { reason: reason.clone() },
                error => Ending::Failed { error: error.to_string() },
            };
            let taken = matches!(&error, RunError::Journal(assize_graph::JournalError::Fenced));
            if !taken {
                // The journal holds all that matters; without its last word the run counts as
                // stopped.
                let _ = journal.finish(ending, Vec::new()).await;
                if !args.quiet {
                    let totals = gateway.ledger().totals();
                    note(&paint(DIM, format!("spent: {}", account(&totals))));
                    note(&kept::how_to_resume("debate", &run.id));
                }
            }
            return Err(failure(error, run));
        }
    };
    let verdict = Verdict::from(state);
    let mut result = json!(verdict);
    if let Some(result) = result.as_object_mut() {
        // What was said is in the journal.
        result.remove("conversation_logs");
    }
    journal.finish(Ending::Done { result }, Vec::new()).await?;
    show_verdict(args, run, gateway, &verdict)
}

fn show_verdict(
    args: &DebateArgs,
    run: &Run,
    gateway: &Gateway,
    verdict: &Verdict,
) -> Result<(), Failure> {
    let totals = gateway.ledger().totals();
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
        terminal::out_untrusted(&show::transcripts(&verdict.conversation_logs))?;
    }
    if args.quiet {
        return Ok(());
    }
    if std::io::stdout().is_terminal() {
        note("");
    }
    let replayed = verdict.spent.calls.saturating_sub(totals.calls);
    let saved = match replayed {
        0 => String::new(),
        count => format!("; {count} calls were paid for before"),
    };
    note(&paint(DIM, format!("{} calls · {}{saved}", totals.calls, account(&totals))));
    if !args.transcripts {
        let id = &run.id;
        note(&paint(DIM, format!("what was said: `assize runs show {id} --transcripts`")));
    }
    if !verdict.partial.is_empty() {
        let first = verdict.partial.values().map(|partial| partial.completed_rounds + 1).min();
        note(&paint(
            WARN,
            format!(
                "a conversation ended early; try again from there with `assize debate --fork {} \
                 --at round-{}`",
                run.id,
                first.unwrap_or(1)
            ),
        ));
    }
    Ok(())
}

/// What a failed run means to the user.
fn failure(error: RunError, run: &Run) -> Failure {
    let fork = format!("start a new run from it: `assize debate --fork {}`", run.id);
    match error {
        RunError::Cancelled { reason } => Failure::new(FailureKind::Interrupted, reason),
        RunError::Node { node, source, .. } => match source.downcast::<ModelError>() {
            Ok(error) => Failure::from(*error),
            Err(source) => match source.downcast::<AnswerError>() {
                Ok(error) => Failure::from(*error),
                Err(source) => {
                    Failure::new(FailureKind::Internal, format!("`{node}` failed: {source}"))
                }
            },
        },
        RunError::Changed { .. } | RunError::GraphChanged { .. } => Failure::new(
            FailureKind::Usage,
            format!("{error}; this version of assize asks otherwise"),
        )
        .hint(fork),
        RunError::Journal(assize_graph::JournalError::Failed(source)) => {
            match source.downcast::<assize_store::StoreError>() {
                Ok(error) => Failure::from(*error),
                Err(source) => Failure::new(FailureKind::Environment, source.to_string()),
            }
        }
        RunError::Journal(assize_graph::JournalError::Fenced) => {
            let message = format!("another process has taken `{}` over", run.id);
            Failure::new(FailureKind::Environment, message).hint("it goes on there")
        }
        error => Failure::from_error(FailureKind::Internal, &error),
    }
}

/// What a debate is likely to take: answers of 350 tokens, each read again by all that follow.
fn show_estimate(
    gateway: &Gateway,
    content: &str,
    rounds: Option<u32>,
    json: bool,
) -> Result<(), Failure> {
    const ANSWER: u64 = 350;
    const RULES: u64 = 900;
    let rounds = u64::from(rounds.unwrap_or(assize_debate::ROUNDS));
    let Some(facts) = gateway.facts() else {
        return Err(Failure::new(FailureKind::Usage, "there is nothing to estimate"));
    };
    let calls = calls(rounds as u32);
    // In each conversation the turns before a call are 0, 1, 2 … and all of them for the scores.
    let turns = 2 * rounds;
    let read_again = 3 * turns * (turns + 1) / 2;
    let prefix = RULES + content.len() as u64 / 4;
    let estimate =
        Estimate::of_calls(facts, calls, calls * prefix + read_again * ANSWER, calls * ANSWER);
    let (input, output, cost) = (estimate.input_tokens, estimate.output_tokens, estimate.cost);
    if json {
        let value: Value = json!({
            "calls": calls,
            "input_tokens": input,
            "output_tokens": output,
            "cost_usd": dollars(cost),
        });
        return out_json(&value);
    }
    out_line(&format!(
        "{calls} calls, about {} tokens in and {} out: about {cost}, less what the provider's cache \
         saves",
        grouped(input),
        grouped(output),
    ))
}
