//! `assize eval`: measures a model on problems with known solutions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use assize_code::eval::{EvalProblem, EvalReport, PassRates};
use assize_code::{EvalJob, EvalPlan, EvalRequest, read_problems, run_reference};
use assize_config::REHEARSAL_LABEL;
use assize_run::{BudgetTotals, EffectStage, Run, RunKind, RunOrigin, Signal, read_result};
use assize_service::Services;
use assize_types::text::counted;
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::{Value, json};

use crate::args::EvalArgs;
use crate::cost_format::format_spending;
use crate::exit::exit_code;
use crate::kind::StoredRun;
use crate::run::progress::activity_of_effect;
use crate::run_messages::report_failure;
use crate::terminal::{self, BAD, DIM, GOOD, note, out_json, out_line, paint};
use crate::{hints, input};

/// Maximum size of the problems file, in MiB.
const MAX_PROBLEMS_MIB: u64 = 64;

pub(crate) async fn run(
    args: EvalArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let mut problems = match &args.file {
        Some(path) => {
            read_problems(&input::from_file("the problems file", MAX_PROBLEMS_MIB, path)?)?
        }
        None => Vec::new(),
    };
    problems.truncate(args.limit.map_or(usize::MAX, |limit| limit as usize));
    if args.reference {
        if let Some(problem) = problems.iter().find(|one| one.canonical_solution.is_empty()) {
            let message = format!("problem `{}` has no canonical_solution", problem.task_id);
            return Err(Failure::new(FailureKind::Usage, message));
        }
        return reference(&args, &problems, &services, cancel).await;
    }
    services.cassette = args.model.cassette();
    let store = services.open_store(false).await?;
    let runner = services.runner(&store)?;
    let (plan, origin) = match args.resume_flags.resume {
        Some(_) => {
            let (run, origin) =
                runner.resumable(&args.resume_flags.request(), RunKind::Eval).await?;
            (EvalPlan::restored(&run, &*store, args.parallel).await?, origin)
        }
        None => {
            let name = args.file.as_ref().and_then(|path| path.file_name());
            let ask = EvalRequest {
                name: name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
                problems,
                samples: args.samples,
                max_attempts: args.max_attempts,
                image: args.sandbox.image.clone(),
            };
            (EvalPlan::fresh(ask, args.parallel), RunOrigin::New)
        }
    };
    let mut trial = runner.start::<EvalJob>(services.code(plan), origin).await?;
    let progress = Progress {
        problems: trial.job.problems(),
        samples: trial.job.input.samples,
        max_attempts: trial.job.input.max_attempts,
        done: AtomicUsize::new(0),
        quiet: args.quiet,
    };
    if !args.quiet {
        let (run, why) = (&trial.run, &trial.job.why);
        note(&terminal::replace_control_chars(&format!("{} · {} · {why}", run.id, run.title)));
    }
    let started = Instant::now();
    let see = move |signal: &Signal<'_>| progress.on_signal(signal);
    let finished = trial.execute(Some(Arc::new(see)), cancel).await;
    terminal::draw(&[]);
    let finished = finished.map_err(|failed| report_failure(failed, &trial, args.quiet))?;
    show(&args, &trial.run, &finished.report, &trial.totals(), started.elapsed().as_secs_f64())?;
    finished.stored?;
    Ok(0)
}

/// Runs the canonical solutions of the problems, without a model, and prints how many of them pass.
async fn reference(
    args: &EvalArgs,
    problems: &[EvalProblem],
    services: &Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let image = args.sandbox.image.clone();
    let failures =
        run_reference(problems, &services.sandboxes(), image, args.parallel, cancel).await?;
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
            out_line(&terminal::replace_control_chars(&format!("{id}: {why}")))?;
        }
        let style = if failed.is_empty() { GOOD } else { BAD };
        let line =
            format!("{passed} of {} passed", counted(problems.len(), "solution", "solutions"));
        out_line(&paint(style, line))?;
    }
    Ok(if failed.is_empty() { 0 } else { exit_code(FailureKind::Verdict) })
}

/// Prints the progress of an evaluation: the last model call that started, and the number of finished samples.
struct Progress {
    problems: usize,
    /// Number of samples per problem.
    samples: u32,
    /// Maximum number of attempts per sample.
    max_attempts: u32,
    done: AtomicUsize,
    quiet: bool,
}

impl Progress {
    fn on_signal(&self, signal: &Signal<'_>) {
        match signal {
            _ if self.quiet => {}
            Signal::NodeFinished { node: "solve" } => {
                let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
                let line = self.finished(done);
                if terminal::can_draw() {
                    terminal::draw(&[line]);
                } else if done.is_multiple_of(10) || done == self.all() {
                    note(&line);
                }
            }
            Signal::Effect { key, stage: EffectStage::Started } => {
                let Some(activity) = self.model_call(key.as_str()) else { return };
                let line = paint(DIM, activity);
                if terminal::can_draw() {
                    terminal::draw(&[self.finished(self.done.load(Ordering::Relaxed)), line]);
                } else {
                    note(&line);
                }
            }
            _ => {}
        }
    }

    /// Total number of samples of all problems.
    fn all(&self) -> usize {
        self.problems * self.samples as usize
    }

    fn finished(&self, done: usize) -> String {
        let all = counted(self.all(), "sample", "samples");
        paint(DIM, format!("{done} of {all} finished"))
    }

    /// Describes the model call with this effect key, such as `problem-1/sample-1/attempt-1/generate`; `None` if the
    /// effect is not a model call.
    fn model_call(&self, key: &str) -> Option<String> {
        let (problem, rest) = key.strip_prefix("problem-")?.split_once('/')?;
        let (sample, rest) = rest.strip_prefix("sample-")?.split_once('/')?;
        let activity = activity_of_effect(rest, self.max_attempts)?;
        let sample = match self.samples {
            1 => String::new(),
            samples => format!(" · sample {sample} of {samples}"),
        };
        let is_model_call = !rest.ends_with("/execute");
        is_model_call
            .then(|| format!("problem {problem} of {}{sample} · {activity}", self.problems))
    }
}

fn show(
    args: &EvalArgs,
    run: &Run,
    report: &EvalReport,
    totals: &BudgetTotals,
    seconds: f64,
) -> Result<(), Failure> {
    if args.json {
        let mut shown = json!(report);
        shown["run"] = json!(run.id);
        shown["cost_usd"] = json!(report.spent.cost.dollars());
        shown["seconds"] = json!(seconds);
        if report.spent.rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        return out_json(&shown);
    }
    lines(report).iter().try_for_each(|line| out_line(line))?;
    if !args.quiet {
        note(&paint(DIM, format!("{} · {seconds:.1} s · {}", run.id, format_spending(totals))));
        let how = hints::runs(&format!("show {}", run.id));
        note(&paint(DIM, format!("results by problem: {how}")));
    }
    Ok(())
}

/// Formats the result of an evaluation.
fn lines(report: &EvalReport) -> Vec<String> {
    let EvalReport { model, problems, samples, max_attempts, pass_at_1, pass_at_k, .. } = report;
    let each = if *samples == 1 { String::new() } else { format!(", {samples} samples each") };
    let row = |name: &str, shares: &PassRates| {
        let PassRates { first_attempt, with_retries } = shares;
        let (first, retried) = (first_attempt * 100.0, with_retries * 100.0);
        let attempts = counted(*max_attempts, "attempt", "attempts");
        format!(
            "{name:<8} {first:5.1} % solved at the first attempt, {retried:5.1} % within {attempts}"
        )
    };
    let problems = counted(*problems, "problem", "problems");
    let mut lines = vec![format!("{model} · {problems}{each}"), row("pass@1", pass_at_1)];
    lines.extend(pass_at_k.as_ref().map(|shares| row(&format!("pass@{samples}"), shares)));
    if !report.unsolved.is_empty() {
        lines.push(format!("unsolved: {}", report.unsolved.join(", ")));
    }
    lines.iter().map(|line| terminal::replace_control_chars(line)).collect()
}

/// Formats a line for each sample of each problem.
fn by_problem(report: &EvalReport) -> Vec<String> {
    let mut lines = Vec::new();
    for problem in &report.results {
        for (index, sample) in problem.samples.iter().enumerate() {
            let which = match problem.samples.len() {
                1 => problem.task_id.clone(),
                _ => format!("{}, sample {}", problem.task_id, index + 1),
            };
            let attempts = match sample.attempts {
                1 => "at the first attempt".to_owned(),
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

/// Formats the result of an evaluation as a short text for the list of runs.
pub(crate) fn summary(result: &Value) -> Option<String> {
    let share = result["pass_at_1"]["with_retries"].as_f64()?;
    Some(format!("{:.1} % solved", share * 100.0))
}

/// Prints the stored result of an evaluation, with a line for each sample.
pub(crate) fn show_stored(stored: &StoredRun<'_>) -> Result<(), Failure> {
    let Some(value) = &stored.run.result else { return Ok(()) };
    let report: EvalReport = read_result(value.clone())?;
    out_line("")?;
    let lines = lines(&report).into_iter().chain(by_problem(&report));
    lines.into_iter().try_for_each(|line| out_line(&line))
}
