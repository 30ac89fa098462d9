//! Evaluation of a model on many programming problems: pass rates without and with retries.

use std::sync::Arc;

use assize_graph::{Branch, Context, END, FanOut, Graph, InvalidGraph, NodeError, State};
use assize_llm::CallTotals;
use assize_run::ProgramId;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::execution::CodeFailure;
use crate::runner::{CodeProgram, CodeRunner, CodeRunnerError};
use crate::state::CodeState;
use crate::task::CodeTask;

/// Programming problem in the format of the HumanEval benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalProblem {
    pub task_id: String,
    /// Start of the function that the model must complete: imports, signature and docstring.
    pub prompt: String,
    /// Name of the function that the model must complete.
    pub entry_point: String,
    /// Code that defines the test function `check(candidate)`.
    pub test: String,
    /// Correct body of the function; needed only to run reference solutions.
    #[serde(default)]
    pub canonical_solution: String,
}

/// Error for an invalid line of a problem file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: invalid problem: {reason}")]
pub struct InvalidProblem {
    pub line: usize,
    pub reason: String,
}

/// Parses a problem file in the format JSON Lines.
///
/// # Errors
/// If a line is invalid, or the file contains no problems. Only the first invalid line is reported.
pub fn read(text: &str) -> Result<Vec<EvalProblem>, InvalidProblem> {
    if text.trim_start().starts_with('[') {
        let reason =
            "the problem file is a JSON array; write one JSON object per line instead".to_owned();
        return Err(InvalidProblem { line: 1, reason });
    }
    let mut problems: Vec<EvalProblem> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let invalid = |reason: String| InvalidProblem { line: index + 1, reason };
        let problem: EvalProblem =
            serde_json::from_str(line).map_err(|error| invalid(error.to_string()))?;
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        if problem.entry_point.is_empty() || !problem.entry_point.chars().all(is_name) {
            let reason = format!("entry_point `{}` is not a function name", problem.entry_point);
            return Err(invalid(reason));
        }
        if problems.iter().any(|other| other.task_id == problem.task_id) {
            return Err(invalid(format!("duplicate task_id `{}`", problem.task_id)));
        }
        problems.push(problem);
    }
    if problems.is_empty() {
        return Err(InvalidProblem { line: 1, reason: "the problem file is empty".to_owned() });
    }
    Ok(problems)
}

impl EvalProblem {
    fn task(&self, max_attempts: u32, sample: u32) -> CodeTask {
        let words = format!(
            "Complete this function. The program has the whole of it, under the name `{}`, with all that it \
             needs; it prints nothing and reads nothing.\n\n{}",
            self.entry_point, self.prompt
        );
        CodeTask {
            tests: Some(self.tests()),
            shows_tests: false,
            only_tests: true,
            max_attempts,
            sample,
            ..CodeTask::new(words)
        }
    }

    fn tests(&self) -> String {
        format!("{}\n\ncheck({})\n", self.test, self.entry_point)
    }

    fn reference(&self) -> String {
        format!("{}{}", self.prompt, self.canonical_solution)
    }
}

/// Result of one sample: one try to solve a problem, with further attempts if programs fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalSample {
    /// Whether the first attempt passed.
    pub first_attempt_passed: bool,
    /// Whether one of the attempts passed.
    pub success: bool,
    /// Number of attempts.
    pub attempts: u32,
    /// Why the last attempt failed; null if it passed.
    pub error: Option<CodeFailure>,
}

/// State of the graph that executes an evaluation.
#[derive(Debug, Clone)]
pub struct EvalState {
    pub problems: Arc<Vec<EvalProblem>>,
    /// Number of samples per problem.
    pub samples: u32,
    /// Maximum number of attempts per sample.
    pub max_attempts: u32,
    /// Results of all finished samples, ordered by problem and then by sample.
    pub solved: Vec<EvalSample>,
    /// Tokens and cost of all model calls so far.
    pub spent: CallTotals,
}

impl EvalState {
    pub fn new(problems: Vec<EvalProblem>, samples: u32, max_attempts: u32) -> EvalState {
        let (problems, solved, spent) = (Arc::new(problems), Vec::new(), CallTotals::default());
        EvalState { problems, samples, max_attempts, solved, spent }
    }

    fn tasks(&self) -> Vec<Branch<(usize, u32)>> {
        let samples = self.samples;
        let of = |problem: usize| {
            (1..=samples).map(move |sample| {
                let label = format!("problem-{}/sample-{sample}", problem + 1);
                Branch::new("solve", label, (problem, sample))
            })
        };
        (0..self.problems.len()).flat_map(of).collect()
    }
}

impl State for EvalState {
    type Update = (EvalSample, CallTotals);
    type Item = (usize, u32);

    fn apply(&mut self, (solved, spent): (EvalSample, CallTotals)) {
        self.solved.push(solved);
        self.spent = self.spent.plus(spent);
    }
}

/// Builds the graph of an evaluation. For each sample of each problem, the model writes programs until a program passes
/// the tests or no attempt is left. At most `at_once` samples are processed in parallel.
pub fn graph(runner: Arc<CodeRunner>, at_once: usize) -> Result<Graph<EvalState>, InvalidGraph> {
    let code_loop = crate::graph(runner)?;
    let enter = |state: &EvalState, item: Option<&(usize, u32)>| {
        let (problem, sample) = item.copied().unwrap_or((0, 1));
        CodeState::new(state.problems[problem].task(state.max_attempts, sample))
    };
    let leave = |state: CodeState| {
        let solved = EvalSample {
            first_attempt_passed: state.history.first().is_some_and(|attempt| attempt.succeeded()),
            success: state.succeeded(),
            attempts: state.attempt(),
            error: state.history.last().and_then(|last| last.error.clone()),
        };
        vec![(solved, state.spent)]
    };
    let nothing = |_: Context<EvalState>| async { Ok::<_, NodeError>(Vec::new()) };
    Graph::builder("eval")
        .node("open", nothing)
        .subgraph("solve", code_loop, enter, leave)
        .node("count", nothing)
        .start("open")
        .fan_out("open", ["solve"], "count", move |state: &EvalState| {
            FanOut::from(state.tasks()).max_concurrency(at_once)
        })
        .edge("solve", "count")
        .edge("count", END)
        .compile()
}

/// Runs the reference solution of each problem, without a model; at most `at_once` solutions run in parallel. Returns
/// the failure of each solution (`None` if the tests passed), in the order of the problems.
pub async fn reference(
    runner: &CodeRunner,
    problems: &[EvalProblem],
    at_once: usize,
) -> Result<Vec<Option<CodeFailure>>, CodeRunnerError> {
    let facts = runner.facts(assize_sandbox::Language::Python).await?;
    let facts = &facts;
    let run = |problem: &EvalProblem| {
        let (task, code) = (problem.task(1, 1), problem.reference());
        async move {
            let program = CodeProgram { code: &code, dependencies: &[], facts };
            let place = ProgramId { attempt: 1, candidate: None };
            runner.run(&task, place, program).await.map(|execution| execution.failure)
        }
    };
    let mut running = futures_util::stream::iter(problems.iter().map(run)).buffered(at_once.max(1));
    let mut failures = Vec::with_capacity(problems.len());
    while let Some(failure) = running.next().await {
        failures.push(failure?);
    }
    Ok(failures)
}

/// Report of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalReport {
    /// Name of the provider and name of the model, separated by a space.
    #[serde(default)]
    pub model: String,
    /// Number of problems.
    pub problems: usize,
    /// Number of samples per problem.
    pub samples: u32,
    /// Maximum number of attempts per sample.
    pub max_attempts: u32,
    /// Estimated probabilities, from 0 to 1, that one sample of a problem passes: without and with retries.
    pub pass_at_1: PassRates,
    /// Estimated probabilities, from 0 to 1, that at least one of the samples of a problem passes: without and with
    /// retries; null if each problem has only one sample.
    pub pass_at_k: Option<PassRates>,
    /// Ids of the problems that no sample solved.
    pub unsolved: Vec<String>,
    /// Results of all samples, by problem.
    pub results: Vec<EvalOutcome>,
    /// Tokens and cost of all model calls.
    pub spent: CallTotals,
}

/// Results of all samples of one problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalOutcome {
    pub task_id: String,
    pub samples: Vec<EvalSample>,
}

/// Pass rates of an evaluation, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PassShares")]
pub struct PassRates {
    /// Pass rate if only the first attempt of each sample counts.
    pub first_attempt: f64,
    /// Pass rate if all attempts of each sample count.
    pub with_retries: f64,
}

impl EvalReport {
    /// Computes the report of a finished evaluation.
    pub fn new(model: &str, state: &EvalState) -> EvalReport {
        let by_problem: Vec<&[EvalSample]> =
            state.solved.chunks(state.samples.max(1) as usize).collect();
        let share = |k: u32, passed: fn(&EvalSample) -> bool| {
            let estimate = |solved: &&[EvalSample]| {
                let correct = solved.iter().filter(|one| passed(one)).count();
                pass_at(k, solved.len(), correct)
            };
            let sum: f64 = by_problem.iter().map(estimate).sum();
            #[expect(
                clippy::cast_precision_loss,
                reason = "the number of problems is far below 2^52"
            )]
            let share = sum / by_problem.len().max(1) as f64;
            share
        };
        let shares = |k: u32| PassRates {
            first_attempt: share(k, |one| one.first_attempt_passed),
            with_retries: share(k, |one| one.success),
        };
        let results = state.problems.iter().zip(&by_problem).map(|(problem, solved)| EvalOutcome {
            task_id: problem.task_id.clone(),
            samples: solved.to_vec(),
        });
        let results: Vec<EvalOutcome> = results.collect();
        let unsolved = results.iter().filter(|one| !one.samples.iter().any(|one| one.success));
        EvalReport {
            model: model.to_owned(),
            problems: state.problems.len(),
            samples: state.samples,
            max_attempts: state.max_attempts,
            pass_at_1: shares(1),
            pass_at_k: (state.samples > 1).then(|| shares(state.samples)),
            unsolved: unsolved.map(|one| one.task_id.clone()).collect(),
            results,
            spent: state.spent,
        }
    }
}

/// Estimates the probability that at least one of `k` samples is correct, if `correct` of `all` samples are correct:
/// the unbiased estimator of Chen et al. (2021), 1 - C(all - correct, k) / C(all, k).
fn pass_at(k: u32, all: usize, correct: usize) -> f64 {
    let k = k as usize;
    if all < k || correct + k > all {
        return if correct > 0 { 1.0 } else { 0.0 };
    }
    #[expect(clippy::cast_precision_loss, reason = "the number of samples is far below 2^52")]
    let wrong = ((all - correct + 1)..=all).map(|n| 1.0 - k as f64 / n as f64).product::<f64>();
    1.0 - wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_returns_the_unbiased_estimate() {
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}");
        close(pass_at(1, 1, 1), 1.0);
        close(pass_at(1, 1, 0), 0.0);
        close(pass_at(1, 4, 1), 0.25);
        close(pass_at(2, 4, 2), 1.0 - 1.0 / 6.0);
        close(pass_at(3, 3, 1), 1.0);
        close(pass_at(3, 3, 0), 0.0);
    }

    #[test]
    fn invalid_problem_error_contains_the_line_number() {
        let line = |id: &str, name: &str| {
            serde_json::json!({"task_id": id, "prompt": "", "entry_point": name, "test": "", "canonical_solution": ""})
                .to_string()
        };
        assert_eq!(read(&format!("{}\n\n{}\n", line("a", "f"), line("b", "g"))).unwrap().len(), 2);
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("{}").starts_with("line 1: invalid problem: missing field `task_id`"));
        let twice = format!("{}\n{}", line("a", "f"), line("a", "f"));
        assert_eq!(error(&twice), "line 2: invalid problem: duplicate task_id `a`");
        assert!(error(&line("a", "f(); import os")).contains("is not a function name"));
        assert!(error("\n").contains("empty"));
    }
}
