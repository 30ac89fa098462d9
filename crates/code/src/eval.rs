//! Many problems at once, to see how good a model is at them, with and without the loop.

use std::sync::Arc;

use assize_graph::{Branch, Context, END, FanOut, Graph, InvalidGraph, NodeError, State};
use assize_llm::Spent;
use assize_run::ProgramId;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::court::{Court, Program, Trouble};
use crate::execution::CodeFailure;
use crate::state::CodeState;
use crate::task::Task;

/// A problem, in the shape of HumanEval's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub task_id: String,
    /// The beginning of a function: its imports, its signature, what it is to do.
    pub prompt: String,
    pub entry_point: String,
    /// Defines `check(candidate)`.
    pub test: String,
    /// What would follow the prompt; only needed where it is to be run.
    #[serde(default)]
    pub canonical_solution: String,
}

/// A line that is no problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no problem: {reason}")]
pub struct NoProblem {
    pub line: usize,
    pub reason: String,
}

/// Reads problems, one in each line.
///
/// # Errors
/// At the first line that is none, and when there is none at all.
pub fn read(text: &str) -> Result<Vec<Problem>, NoProblem> {
    if text.trim_start().starts_with('[') {
        let reason = "the file is one array; write one object in each line".to_owned();
        return Err(NoProblem { line: 1, reason });
    }
    let mut problems: Vec<Problem> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |reason: String| NoProblem { line: index + 1, reason };
        let problem: Problem =
            serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        if problem.entry_point.is_empty() || !problem.entry_point.chars().all(is_name) {
            return Err(wrong(format!("`{}` is no name of a function", problem.entry_point)));
        }
        if problems.iter().any(|other| other.task_id == problem.task_id) {
            return Err(wrong(format!("`{}` was there before", problem.task_id)));
        }
        problems.push(problem);
    }
    if problems.is_empty() {
        return Err(NoProblem { line: 1, reason: "the file is empty".to_owned() });
    }
    Ok(problems)
}

impl Problem {
    fn task(&self, max_attempts: u32, sample: u32) -> Task {
        let words = format!(
            "Complete this function. The program has the whole of it, under the name `{}`, with all that it \
             needs; it prints nothing and reads nothing.\n\n{}",
            self.entry_point, self.prompt
        );
        Task {
            tests: Some(self.tests()),
            shows_tests: false,
            only_tests: true,
            max_attempts,
            sample,
            ..Task::new(words)
        }
    }

    fn tests(&self) -> String {
        format!("{}\n\ncheck({})\n", self.test, self.entry_point)
    }

    fn reference(&self) -> String {
        format!("{}{}", self.prompt, self.canonical_solution)
    }
}

/// How one sample of one problem went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EvalSample")]
pub struct Solved {
    /// The first attempt passed.
    pub first: bool,
    /// One of them did.
    pub success: bool,
    pub attempts: u32,
    pub error: Option<CodeFailure>,
}

/// What an evaluation has come to.
#[derive(Debug, Clone)]
pub struct EvalState {
    pub problems: Arc<Vec<Problem>>,
    pub samples: u32,
    pub max_attempts: u32,
    /// By problem, and for each by sample.
    pub solved: Vec<Solved>,
    pub spent: Spent,
}

impl EvalState {
    pub fn new(problems: Vec<Problem>, samples: u32, max_attempts: u32) -> EvalState {
        let (problems, solved, spent) = (Arc::new(problems), Vec::new(), Spent::default());
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
    type Update = (Solved, Spent);
    type Item = (usize, u32);

    fn apply(&mut self, (solved, spent): (Solved, Spent)) {
        self.solved.push(solved);
        self.spent = self.spent.plus(spent);
    }
}

/// The evaluation as a graph: every sample of every problem is a trial of its own, so many at a time.
pub fn graph(court: Arc<Court>, at_once: usize) -> Result<Graph<EvalState>, InvalidGraph> {
    let trial = crate::graph(court)?;
    let enter = |state: &EvalState, item: Option<&(usize, u32)>| {
        let (problem, sample) = item.copied().unwrap_or((0, 1));
        CodeState::new(state.problems[problem].task(state.max_attempts, sample))
    };
    let leave = |state: CodeState| {
        let solved = Solved {
            first: state.history.first().is_some_and(|attempt| attempt.succeeded()),
            success: state.succeeded(),
            attempts: state.attempt(),
            error: state.history.last().and_then(|last| last.error.clone()),
        };
        vec![(solved, state.spent)]
    };
    let nothing = |_: Context<EvalState>| async { Ok::<_, NodeError>(Vec::new()) };
    Graph::builder("eval")
        .node("open", nothing)
        .subgraph("solve", trial, enter, leave)
        .node("count", nothing)
        .start("open")
        .fan_out("open", ["solve"], "count", move |state: &EvalState| {
            FanOut::from(state.tasks()).at_once(at_once)
        })
        .edge("solve", "count")
        .edge("count", END)
        .compile()
}

/// Runs the file's own solutions, without a model. Gives why each failed, if it did, in the order of
/// the problems.
pub async fn reference(
    court: &Court,
    problems: &[Problem],
    at_once: usize,
) -> Result<Vec<Option<CodeFailure>>, Trouble> {
    let facts = court.facts(assize_sandbox::Language::Python).await?;
    let facts = &facts;
    let run = |problem: &Problem| {
        let (task, code) = (problem.task(1, 1), problem.reference());
        async move {
            let program = Program { code: &code, dependencies: &[], facts };
            let place = ProgramId { attempt: 1, candidate: None };
            court.run(&task, place, program).await.map(|execution| execution.failure)
        }
    };
    let mut running = futures_util::stream::iter(problems.iter().map(run)).buffered(at_once.max(1));
    let mut failures = Vec::with_capacity(problems.len());
    while let Some(failure) = running.next().await {
        failures.push(failure?);
    }
    Ok(failures)
}

/// What an evaluation shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EvalReport")]
pub struct Report {
    /// Who was asked.
    #[serde(default)]
    pub model: String,
    pub problems: usize,
    pub samples: u32,
    pub max_attempts: u32,
    /// Shares from 0 to 1: the first attempt alone, and the loop.
    pub pass_at_1: Shares,
    /// That one of all samples passes, where there are several.
    pub pass_at_k: Option<Shares>,
    /// Those that no sample solved.
    pub unsolved: Vec<String>,
    /// How every sample of every problem went.
    pub results: Vec<Outcome>,
    pub spent: Spent,
}

/// How one problem went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EvalOutcome")]
pub struct Outcome {
    pub task_id: String,
    pub samples: Vec<Solved>,
}

/// How many pass, without the loop and with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PassShares")]
pub struct Shares {
    pub first_attempt: f64,
    pub with_retries: f64,
}

impl Report {
    /// What a model's answers came to.
    pub fn new(model: &str, state: &EvalState) -> Report {
        let by_problem: Vec<&[Solved]> =
            state.solved.chunks(state.samples.max(1) as usize).collect();
        let share = |k: u32, passed: fn(&Solved) -> bool| {
            let estimate = |solved: &&[Solved]| {
                let right = solved.iter().filter(|one| passed(one)).count();
                pass_at(k, solved.len(), right)
            };
            let sum: f64 = by_problem.iter().map(estimate).sum();
            #[expect(clippy::cast_precision_loss, reason = "there are no so many problems")]
            let share = sum / by_problem.len().max(1) as f64;
            share
        };
        let shares = |k: u32| Shares {
            first_attempt: share(k, |one| one.first),
            with_retries: share(k, |one| one.success),
        };
        let results = state.problems.iter().zip(&by_problem).map(|(problem, solved)| Outcome {
            task_id: problem.task_id.clone(),
            samples: solved.to_vec(),
        });
        let results: Vec<Outcome> = results.collect();
        let unsolved = results.iter().filter(|one| !one.samples.iter().any(|one| one.success));
        Report {
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

/// How likely it is that one of `k` samples is right, if `right` of `all` are: the estimate without
/// bias of Chen et al. (2021), 1 - C(all - right, k) / C(all, k).
fn pass_at(k: u32, all: usize, right: usize) -> f64 {
    let k = k as usize;
    if all < k || right + k > all {
        return if right > 0 { 1.0 } else { 0.0 };
    }
    #[expect(clippy::cast_precision_loss, reason = "there are no so many samples")]
    let wrong = ((all - right + 1)..=all).map(|n| 1.0 - k as f64 / n as f64).product::<f64>();
    1.0 - wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_estimated_without_bias() {
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}");
        close(pass_at(1, 1, 1), 1.0);
        close(pass_at(1, 1, 0), 0.0);
        close(pass_at(1, 4, 1), 0.25);
        close(pass_at(2, 4, 2), 1.0 - 1.0 / 6.0);
        close(pass_at(3, 3, 1), 1.0);
        close(pass_at(3, 3, 0), 0.0);
    }

    #[test]
    fn what_is_no_problem_is_named_by_its_line() {
        let line = |id: &str, name: &str| {
            serde_json::json!({"task_id": id, "prompt": "", "entry_point": name, "test": "", "canonical_solution": ""})
                .to_string()
        };
        assert_eq!(read(&format!("{}\n\n{}\n", line("a", "f"), line("b", "g"))).unwrap().len(), 2);
        let told = |text: &str| read(text).unwrap_err().to_string();
        assert!(told("{}").starts_with("line 1 is no problem: missing field `task_id`"));
        let twice = format!("{}\n{}", line("a", "f"), line("a", "f"));
        assert_eq!(told(&twice), "line 2 is no problem: `a` was there before");
        assert!(told(&line("a", "f(); import os")).contains("is no name of a function"));
        assert!(told("\n").contains("empty"));
    }
}
