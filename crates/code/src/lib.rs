//! Code trials: a model writes a program for a task, and a sandbox runs it.
//!
//! Each program runs in a new sandbox. If a program fails, a critic (another model call) explains why, and the model
//! writes the next program with all earlier attempts in its prompt:
//! `generate → execute → (critique → generate …) → finalize`. The default is at most three attempts.
//!
//! The loop is a [`Graph`]. Every model call and every execution is an effect under a stable key such as
//! `attempt-2/execute`, so a killed run can be resumed.
//!
//! The [`CodeTask`] defines success: the program exits with code 0, and also passes the user's tests and prints the
//! expected output if the task has them. The cause of a failure determines what happens next. If the program fails, the
//! critic reviews the program. If the sandbox fails, the same program runs again in a new sandbox. If the provider
//! fails, the run stops, and a user can resume the run later.

mod answer;
pub mod eval;
pub mod exec;
mod execution;
mod harness;
mod job;
mod nodes;
pub mod packages;
mod prompt;
mod prompt_size;
mod record;
pub mod rehearsal;
mod runner;
mod session;
mod state;
mod task;
mod verdict;

use std::sync::Arc;

use assize_graph::{END, Graph, InvalidGraph};

pub use assize_sandbox::Language;

pub use answer::{Critique, GeneratedCode};
pub use execution::{
    CodeExecution, CodeFailure, FailedTest, OutputFile, TestReport, informative_line,
};
pub use job::{
    CodeInput, CodeJob, CodeJobRequest, CodePlan, CodeRequest, EvalInput, EvalJob, EvalPlan,
    EvalRequest, INPUTS, check_inputs, check_names, package_layers, read_problems, run_reference,
    sessions,
};
pub use record::{history, output_files};
pub use runner::{
    CodeOptions, CodeRunner, CodeRunnerError, FileStorage, FileStorageError, SandboxFacts,
};
pub use session::{Session, SessionError};
pub use state::{Attempt, CodeState, CodeUpdate};
pub use task::{CodeTask, ExpectedOutput, InputFile, InvalidExpectation};
pub use verdict::CodeVerdict;

/// Default maximum number of attempts.
pub const MAX_ATTEMPTS: u32 = 3;

/// Builds the graph of a code run: generate, execute, critique and finalize.
pub fn graph(runner: Arc<CodeRunner>) -> Result<Graph<CodeState>, InvalidGraph> {
    let [generator, executor, critic] = std::array::from_fn(|_| runner.clone());
    Graph::builder("run")
        .node("generate", move |context| generator.clone().generate(context))
        .node("execute", move |context| executor.clone().execute(context))
        .node("critique", move |context| critic.clone().critique(context))
        .node("finalize", nodes::finalize)
        .start("generate")
        .route("generate", ["execute", "critique", "generate", "finalize"], |state, _| {
            match state.history.last() {
                Some(attempt) if attempt.is_final() => "finalize",
                Some(Attempt { execution: Some(_), .. }) => "critique",
                Some(Attempt { code: Some(_), .. }) => "execute",
                // The answer contained no code, so there is no program to run or to review.
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

/// Returns the name of the graph node that follows a failed attempt.
fn next(state: &CodeState) -> &'static str {
    if state.attempt() < state.task.max_attempts { "generate" } else { "finalize" }
}
