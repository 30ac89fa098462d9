//! State of the graph of a code run, and updates of this state.

use std::sync::Arc;

use assize_graph::State;
use assize_llm::CallTotals;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{self, Critique, GeneratedCode};
use crate::execution::{CodeExecution, CodeFailure};
use crate::runner::SandboxFacts;
use crate::task::CodeTask;

/// Maximum number of characters that are stored of an answer that does not match the schema.
const MAX_PROSE: usize = 2000;

/// One attempt of the model to solve the task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Number of the candidate program, from 1; null if the attempt has only one program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<u32>,
    /// Code of the program; null if the answer contained no code.
    pub code: Option<String>,
    /// Packages that the program requires.
    pub dependencies: Vec<String>,
    /// The model's explanation of its program.
    pub reasoning: String,
    /// The model's confidence in its program, from 0 to 1; null if the answer did not contain it.
    pub confidence: Option<f64>,
    /// Whether the code was extracted from an answer that does not match the schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub found_in_prose: bool,
    /// Result of running the program; null if the program was not run.
    pub execution: Option<CodeExecution>,
    /// Why the attempt failed; null if it succeeded or was stopped.
    pub error: Option<CodeFailure>,
    /// Critique of the attempt; null if the attempt succeeded, or the critic's answer was invalid.
    pub critique: Option<Critique>,
}

impl Attempt {
    /// Creates an attempt with the code of a valid answer.
    pub(crate) fn proposed(attempt: u32, generated: GeneratedCode) -> Attempt {
        let GeneratedCode { code, dependencies, reasoning, confidence } = generated;
        let code = answer::program(&code);
        Attempt {
            attempt,
            error: code.is_none().then_some(CodeFailure::NoCode),
            code,
            dependencies,
            reasoning,
            confidence: Some(confidence),
            ..Attempt::default()
        }
    }

    /// Creates an attempt from an answer that does not match the schema. `code` is the code found in the model's text,
    /// if any.
    pub(crate) fn from_text(attempt: u32, code: Option<String>, answer: &str) -> Attempt {
        Attempt {
            attempt,
            error: code.is_none().then_some(CodeFailure::NoCode),
            found_in_prose: code.is_some(),
            code,
            reasoning: assize_types::text::shorten(answer.trim(), MAX_PROSE),
            ..Attempt::default()
        }
    }

    pub fn succeeded(&self) -> bool {
        self.execution.is_some() && self.error.is_none()
    }

    /// Whether another attempt would be useless: the program succeeded, or every other program would fail too.
    pub(crate) fn is_final(&self) -> bool {
        self.succeeded() || self.error.as_ref().is_some_and(CodeFailure::is_final)
    }
}

/// State of the graph of a code run.
#[derive(Debug, Clone)]
pub struct CodeState {
    pub task: Arc<CodeTask>,
    /// All attempts so far.
    pub history: Vec<Attempt>,
    /// Tokens and cost of all model calls so far.
    pub spent: CallTotals,
    /// What programs can use in the sandbox; `None` until the sandbox is examined.
    pub facts: Option<Arc<SandboxFacts>>,
}

impl CodeState {
    pub fn new(task: CodeTask) -> CodeState {
        CodeState {
            task: Arc::new(task),
            history: Vec::new(),
            spent: CallTotals::default(),
            facts: None,
        }
    }

    /// Number of attempts so far. All candidate programs that were generated in parallel count as one attempt.
    pub fn attempt(&self) -> u32 {
        self.history.last().map_or(0, |last| last.attempt)
    }

    pub fn succeeded(&self) -> bool {
        self.history.last().is_some_and(Attempt::succeeded)
    }
}

/// Update of [`CodeState`].
#[derive(Debug, Clone)]
pub enum CodeUpdate {
    /// The sandbox was examined to find out what programs can use in it.
    SandboxDetected(Arc<SandboxFacts>),
    /// The model answered; the attempt is added to the history.
    Generated(Box<Attempt>),
    /// The program of the last attempt was run.
    Executed(Box<CodeExecution>),
    /// The critic reviewed the last attempt.
    Criticised(Critique),
    /// A model call used these tokens at this cost; both are added to the total.
    Spent(CallTotals),
}

impl State for CodeState {
    type Update = CodeUpdate;
    type Item = ();

    fn apply(&mut self, update: CodeUpdate) {
        let last = self.history.last_mut();
        match (update, last) {
            (CodeUpdate::Generated(attempt), _) => self.history.push(*attempt),
            (CodeUpdate::Executed(execution), Some(last)) => {
                last.error = execution.failure.clone();
                last.execution = Some(*execution);
            }
            (CodeUpdate::Criticised(critique), Some(last)) => last.critique = Some(critique),
            (CodeUpdate::SandboxDetected(facts), _) => self.facts = Some(facts),
            (CodeUpdate::Spent(spent), _) => self.spent = self.spent.plus(spent),
            (CodeUpdate::Executed(_) | CodeUpdate::Criticised(_), None) => {}
        }
    }
}
