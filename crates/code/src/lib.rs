//! Code on trial.
//!
//! A model writes a program for a task. It runs in a sandbox of its own; if it fails, a critic says why,
//! and the model writes the next one, knowing all that was tried before: `generate → execute →
//! (critique → generate …) → finalize`, three attempts unless more or fewer are asked for.
//!
//! The trial is a [`Graph`]. Every call to the model and every execution is an effect under a stable
//! key, such as `attempt-2/execute`, so that a run that was killed goes on where it was.
//!
//! What counts as success is the [`Task`]'s business: that the program ends well, and besides that the
//! user's tests were run to their end and passed, or that it prints what is expected. What goes wrong
//! has its rule: a program that fails is the critic's matter, a sandbox that breaks is ours and the same
//! code is run again in another, and a provider that fails ends the run, which can go on later.

mod answer;
mod court;
pub mod eval;
pub mod exec;
mod execution;
mod extent;
mod harness;
mod job;
mod nodes;
pub mod packages;
mod prompt;
mod record;
pub mod rehearsal;
mod session;
mod state;
mod task;
mod verdict;

use std::sync::Arc;

use assize_graph::{END, Graph, InvalidGraph};

pub use assize_sandbox::Language;

pub use answer::{Critique, GeneratedCode};
pub use court::{CannotKeep, Court, Facts, Keep, Options, Trouble};
pub use execution::{CodeFailure, Execution, FailedTest, LeftFile, TestReport, telling_line};
pub use job::{
    CodeAsk, CodeInput, CodeJob, CodePlan, EvalAsk, EvalInput, EvalJob, EvalPlan, INPUTS, Request,
    check_inputs, check_names, package_layers, read_problems, run_reference, sessions,
};
pub use record::{history, left};
pub use session::{Session, SessionError};
pub use state::{Attempt, CodeState, Update};
pub use task::{Expect, InputFile, Task, UnknownExpectation};
pub use verdict::Verdict;

/// Attempts at a task, where nothing else is asked for.
pub const MAX_ATTEMPTS: u32 = 3;

/// The trial as a graph.
pub fn graph(court: Arc<Court>) -> Result<Graph<CodeState>, InvalidGraph> {
    let [generates, executes, criticises] = std::array::from_fn(|_| court.clone());
    Graph::builder("run")
        .node("generate", move |context| generates.clone().generate(context))
        .node("execute", move |context| executes.clone().execute(context))
        .node("critique", move |context| criticises.clone().critique(context))
        .node("finalize", nodes::finalize)
        .start("generate")
        .route("generate", ["execute", "critique", "generate", "finalize"], |state, _| {
            match state.history.last() {
                Some(attempt) if attempt.is_final() => "finalize",
                Some(Attempt { execution: Some(_), .. }) => "critique",
                Some(Attempt { code: Some(_), .. }) => "execute",
                // There is nothing to run, and nothing to criticise.
                _ => next(state),
            }
        })
        .route("execute", ["critique", "finalize"], |state, _| {
            let last = state.history.last();
            if last.is_some_and(Attempt::is_final) { "finalize" } else { "critique" }
        })
        .route("critique", ["generate", "finalize"], |state, _| next(state))
        .edge("finalize", END)
        .compile()
}

/// What comes after an attempt that failed.
fn next(state: &CodeState) -> &'static str {
    if state.attempt() < state.task.max_attempts { "generate" } else { "finalize" }
}
