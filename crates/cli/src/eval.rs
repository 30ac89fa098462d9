//! `assize eval`: how good a model is at problems whose answers are known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use assize_code::eval::{self, EvalState, Problem, Report, Shares};
use assize_code::{Court, Options};
use assize_gateway::{Gateway, REHEARSAL_LABEL};
use assize_graph::{RunOptions, Signal, TaskStage};
use assize_llm::{Call, Model, ModelError, Request, Response};
use assize_sandbox::{Language, Limits, Spec};
use assize_store::{Ending, NewRun, Run, Store};
use assize_types::Cancel;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::account::{account, dollars};
use crate::args::{Again, EvalArgs};
use crate::choose::{self, Already};
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::terminal::{self, BAD, DIM, GOOD, note, out_json, out_line, paint};
use crate::{input, kept, sitting, walls};

/// The longest file of problems, in MiB.
const LONGEST: u64 = 64;

/// The name of the problems among a run's artifacts.
const PROBLEMS: &str = "problems.jsonl";

/// What a run needs to be run again; the problems are kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Input {
    samples: u32,
    max_attempts: u32,
    limits: Limits,
    image: Option<String>,
    temperature: f64,
    max_output_tokens: u32,
    provider: String,
    model: String,
}

pub(crate) async fn run(
    args: EvalArgs,
    config: &Config,
    around: &Surroundings,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let mut problems = match &args.file {
        Some(path) => read(&input::from_file("the file of problems", LONGEST, path)?)?,
        None => Vec::new(),
    };
    problems.truncate(args.limit.map_or(usize::MAX, |limit| limit as usize));
    if args.reference {
        if let Some(problem) = problems.iter().find(|one| one.canonical_solution.is_empty()) {
            let message = format!("`{}` has no canonical_solution to be run", problem.task_id);
            return Err(Failure::new(FailureKind::Usage, message));
        }
        return reference(&args, &problems, config, around, cancel).await;
    }
    let store = kept::open(config, around)?;
    let (before, resumed) = match &args.again.resume {
        Some(_) => {
            let (run, input, kept) = find(&*store, &args.again).await?;
            problems = kept;
            (Some(input), Some(run))
        }
        None => (None, None),
    };
    let already = match &resumed {
        Some(run) => kept::spent(run, &store.records(&run.id).await?, &[]),
        None => Already::default(),
    };
    let gateway = choose::gateway(config, &args.model, args.quiet, already).await?;
    if gateway.name().0 == "rehearsal" {
        return Err(Failure::new(FailureKind::Settings, "no model is configured to be evaluated")
            .hint("set a provider's key or start Ollama; `--reference` needs no model"));
    }
    let input = settings(&args, config, &gateway, before)?;
    let spec = Spec { image: input.image.clone(), limits: input.limits.clone(), ..Spec::default() };
    let (pool, why) =
        walls::pool(config, around, Language::Python, spec.clone(), args.parallel).await?;
    let new_run = || {
        let lines: Vec<String> =
            problems.iter().map(|problem| json!(problem).to_string()).collect();
        let name = args.file.as_ref().and_then(|path| path.file_name());
        let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        NewRun {
            kind: "eval".to_owned(),
            title: terminal::harmless(&format!("{name}, {} problems", problems.len())),
            parent: None,
            input: json!(input),
            artifacts: vec![(PROBLEMS.to_owned(), lines.join("\n").into_bytes())],
        }
    };
    let (run, journal) = kept::begin(store, resumed, args.again.take_over, config, new_run).await?;
    let journal = Arc::new(journal);
    let gateway = Arc::new(gateway);
    let options = Options {
        temperature: input.temperature as f32,
        max_tokens: input.max_output_tokens,
        spec,
    };
    let court = Court::new(gateway.clone(), gateway.name().0, pool.clone(), options);
    let graph = eval::graph(Arc::new(court), args.parallel as usize)
        .map_err(|error| Failure::from_error(FailureKind::Internal, &error))?;
    let count = problems.len() * input.samples as usize;
    let progress = Progress { all: count, done: AtomicUsize::new(0), quiet: args.quiet };
    if !args.quiet {
        note(&terminal::harmless(&format!("{} · {} · {why}", run.id, run.title)));
    }
    let begun = Instant::now();
    let options = RunOptions {
        journal: Some(journal.clone()),
        observer: Some(Arc::new(move |signal| progress.see(signal))),
        cancel,
        ..RunOptions::default()
    };
    let state = EvalState::new(problems, input.samples, input.max_attempts);
    let outcome = graph.run(state, options).await;
    pool.close().await;
    terminal::draw(&[]);
    let report = match outcome {
        Ok(state) => Report::new(&format!("{} {}", input.provider, input.model), &state),
        Err(error) => {
            sitting::note_end(&journal, &error, Vec::new()).await;
            let (failure, how) = sitting::explain(error, "eval", &run.id);
            how.iter().for_each(|how| note(how));
            return Err(failure);
        }
    };
    let kept = journal.finish(Ending::Done { result: json!(report) }, Vec::new()).await;
    show(&args, &run, &report, &gateway, begun.elapsed().as_secs_f64())?;
    kept?;
    Ok(0)
}

fn read(text: &str) -> Result<Vec<Problem>, Failure> {
    eval::read(text).map_err(|error| {
        Failure::from_error(FailureKind::Usage, &error).hint(
            "each line is an object with task_id, prompt, entry_point, test and canonical_solution",
        )
    })
}

/// The run to go on with, and what it was begun with.
async fn find(store: &dyn Store, again: &Again) -> Result<(Run, Input, Vec<Problem>), Failure> {
    let run = kept::to_go_on(store, again, "eval").await?;
    let lost = |what: &str| {
        let message = format!("{what} of `{}` cannot be read", run.id);
        Failure::new(FailureKind::Environment, message).hint("start it again: `assize eval FILE`")
    };
    let input = serde_json::from_value(run.input.clone()).map_err(|_| lost("the settings"))?;
    let artifacts = store.artifacts(&run.id).await?;
    let artifact = artifacts.iter().find(|artifact| artifact.name == PROBLEMS);
    let bytes = store.artifact(artifact.ok_or_else(|| lost("the problems"))?.id).await?;
    let text = String::from_utf8(bytes).map_err(|_| lost("the problems"))?;
    Ok((run, input, read(&text)?))
}

/// What the run is to be run with: as before, where there was a before.
fn settings(
    args: &EvalArgs,
    config: &Config,
    gateway: &Gateway,
    before: Option<Input>,
) -> Result<Input, Failure> {
    let (provider, model) = gateway.name();
    if let Some(before) = before {
        let answered = (before.provider.as_str(), before.model.as_str());
        kept::refuse_another_model("the run", answered, gateway, &args.model)?;
        return Ok(before);
    }
    let limits = walls::spec(&args.sandbox, config)?.limits;
    let longest = config.whole("max_output_tokens");
    Ok(Input {
        samples: args.samples,
        max_attempts: args.max_attempts,
        limits,
        image: args.sandbox.image.clone(),
        temperature: config.decimal("temperature").unwrap_or_else(|| Request::TEMPERATURE.into()),
        max_output_tokens: longest.map_or(Request::MAX_TOKENS, |n| n as u32),
        provider: provider.to_owned(),
        model: model.to_owned(),
    })
}

/// Runs the file's own solutions.
async fn reference(
    args: &EvalArgs,
    problems: &[Problem],
    config: &Config,
    around: &Surroundings,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let spec = walls::spec(&args.sandbox, config)?;
    let (pool, _) =
        walls::pool(config, around, Language::Python, spec.clone(), args.parallel).await?;
    let options = Options { spec, ..Options::default() };
    let court = Court::new(Arc::new(Nobody), "nobody", pool.clone(), options);
    let failures = tokio::select! {
        failures = eval::reference(&court, problems, args.parallel as usize) => {
            failures.map_err(sitting::of_trouble)
        }
        reason = cancel.cancelled() => Err(Failure::new(FailureKind::Interrupted, reason)),
    };
    pool.close().await;
    let failures = failures?;
    let failed: Vec<(&str, String)> = problems
        .iter()
        .zip(&failures)
        .filter_map(|(problem, why)| Some((problem.task_id.as_str(), why.as_ref()?.to_string())))
        .collect();
    let passed = problems.len() - failed.len();
    if args.json {
        let failed: Vec<_> =
            failed.iter().map(|(id, why)| json!({"task_id": id, "error": why})).collect();
        out_json(&json!({"problems": problems.len(), "passed": passed, "failed": failed}))?;
    } else {
        for (id, why) in &failed {
            out_line(&terminal::harmless(&format!("{id}: {why}")))?;
        }
        let style = if failed.is_empty() { GOOD } else { BAD };
        let line = format!("{passed} of {} solutions pass", problems.len());
        out_line(&paint(style, line))?;
    }
    Ok(if failed.is_empty() { 0 } else { FailureKind::Verdict.exit_code() })
}

/// A model for where none is asked.
struct Nobody;

#[async_trait]
impl Model for Nobody {
    async fn generate(&self, _: &Request, _: Call<'_>) -> Result<Response, ModelError> {
        Err(ModelError::new(assize_llm::ErrorKind::Internal, "no model is asked here"))
    }
}

/// Counts what is solved.
struct Progress {
    all: usize,
    done: AtomicUsize,
    quiet: bool,
}

impl Progress {
    fn see(&self, signal: &Signal<'_>) {
        let Signal::Task { node: "solve", stage: TaskStage::Finished, .. } = signal else { return };
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let line = paint(DIM, format!("{done} of {} tried", self.all));
        if terminal::can_draw() && !self.quiet {
            terminal::draw(&[line]);
        } else if !self.quiet && (done.is_multiple_of(10) || done == self.all) {
            note(&line);
        }
    }
}

fn show(
    args: &EvalArgs,
    run: &Run,
    report: &Report,
    gateway: &Gateway,
    seconds: f64,
) -> Result<(), Failure> {
    let totals = gateway.ledger().totals();
    if args.json {
        let mut shown = json!(report);
        shown["run"] = json!(run.id);
        shown["cost_usd"] = dollars(report.spent.cost);
        shown["seconds"] = json!(seconds);
        if report.spent.rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        return out_json(&shown);
    }
    lines(report).iter().try_for_each(|line| out_line(line))?;
    if !args.quiet {
        note(&paint(DIM, format!("{} · {seconds:.1} s · {}", run.id, account(&totals))));
        note(&paint(DIM, format!("problem by problem: `assize runs show {}`", run.id)));
    }
    Ok(())
}

/// What an evaluation came to.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let Report { model, problems, samples, max_attempts, pass_at_1, pass_at_k, .. } = report;
    let each = if *samples == 1 { String::new() } else { format!(", {samples} samples each") };
    let row = |name: &str, shares: &Shares| {
        let Shares { first_attempt, with_retries } = shares;
        let (first, retried) = (first_attempt * 100.0, with_retries * 100.0);
        format!(
            "{name:<8} {first:5.1} % at the first attempt, {retried:5.1} % within {max_attempts}"
        )
    };
    let mut lines = vec![format!("{model} · {problems} problems{each}"), row("pass@1", pass_at_1)];
    lines.extend(pass_at_k.as_ref().map(|shares| row(&format!("pass@{samples}"), shares)));
    if !report.unsolved.is_empty() {
        lines.push(format!("unsolved: {}", report.unsolved.join(", ")));
    }
    lines.iter().map(|line| terminal::harmless(line)).collect()
}

/// How every sample of every problem went.
pub(crate) fn by_problem(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for problem in &report.results {
        for (index, sample) in problem.samples.iter().enumerate() {
            let which = match problem.samples.len() {
                1 => problem.task_id.clone(),
                _ => format!("{}, sample {}", problem.task_id, index + 1),
            };
            let attempts = match sample.attempts {
                1 => "at once".to_owned(),
                attempts => format!("after {attempts} attempts"),
            };
            let line = match &sample.error {
                None => format!("{} {which} solved {attempts}", paint(GOOD, "✓")),
                Some(error) => format!("{} {which} failed {attempts}: {error}", paint(BAD, "✗")),
            };
            lines.push(line);
        }
    }
    lines
}
