//! What a trial knows, and how it changes.

use std::sync::Arc;

use assize_graph::State;
use assize_llm::Spent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{self, Critique, GeneratedCode};
use crate::court::Facts;
use crate::execution::{CodeFailure, Execution};
use crate::task::Task;

/// The most that is kept of an answer that had another shape than was asked for.
const LONGEST_SAID: usize = 2000;

/// One attempt at the task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// From 1.
    pub attempt: u32,
    /// Which one of several side by side, from 1; `None` if it was the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<u32>,
    /// `None` if the model gave none.
    pub code: Option<String>,
    pub dependencies: Vec<String>,
    pub reasoning: String,
    /// From 0 to 1; `None` if the model did not say.
    pub confidence: Option<f64>,
    /// The answer had another shape than was asked for, and the code was found in it all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub found_in_prose: bool,
    pub execution: Option<Execution>,
    /// Why it failed.
    pub error: Option<CodeFailure>,
    /// What the critic said; `None` if it succeeded, or nothing could be read in the answer.
    pub critique: Option<Critique>,
}

impl Attempt {
    /// One that has begun with what a model proposes.
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

    /// One that has begun with an answer of another shape, in which there may be code.
    pub(crate) fn without_shape(attempt: u32, code: Option<String>, said: &str) -> Attempt {
        Attempt {
            attempt,
            error: code.is_none().then_some(CodeFailure::NoCode),
            found_in_prose: code.is_some(),
            code,
            reasoning: assize_types::text::shorten(said.trim(), LONGEST_SAID),
            ..Attempt::default()
        }
    }

    pub fn succeeded(&self) -> bool {
        self.execution.is_some() && self.error.is_none()
    }

    /// Whether there is nothing left to try.
    pub(crate) fn is_final(&self) -> bool {
        self.succeeded() || self.error.as_ref().is_some_and(CodeFailure::is_final)
    }
}

/// What a trial has come to.
#[derive(Debug, Clone)]
pub struct CodeState {
    pub task: Arc<Task>,
    pub history: Vec<Attempt>,
    pub spent: Spent,
    /// What there is in the sandbox, once somebody looked.
    pub facts: Option<Arc<Facts>>,
}

impl CodeState {
    pub fn new(task: Task) -> CodeState {
        CodeState {
            task: Arc::new(task),
            history: Vec::new(),
            spent: Spent::default(),
            facts: None,
        }
    }

    /// How many attempts were made. Several side by side are one.
    pub fn attempt(&self) -> u32 {
        self.history.last().map_or(0, |last| last.attempt)
    }

    pub fn succeeded(&self) -> bool {
        self.history.last().is_some_and(Attempt::succeeded)
    }
}

/// How it changes.
#[derive(Debug, Clone)]
pub enum Update {
    LookedAround(Arc<Facts>),
    Generated(Box<Attempt>),
    Executed(Box<Execution>),
    Criticised(Critique),
    Spent(Spent),
}

impl State for CodeState {
    type Update = Update;
    type Item = ();

    fn apply(&mut self, update: Update) {
        let last = self.history.last_mut();
        match (update, last) {
            (Update::Generated(attempt), _) => self.history.push(*attempt),
            (Update::Executed(execution), Some(last)) => {
                last.error = execution.failure.clone();
                last.execution = Some(*execution);
            }
            (Update::Criticised(critique), Some(last)) => last.critique = Some(critique),
            (Update::LookedAround(facts), _) => self.facts = Some(facts),
            (Update::Spent(spent), _) => self.spent = self.spent.plus(spent),
            (Update::Executed(_) | Update::Criticised(_), None) => {}
        }
    }
}
