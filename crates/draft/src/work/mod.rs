//! The agent of Assize itself: a model with the draft tools and with read access to the workspace.
//!
//! The agent alternates model calls and tool calls until its drafts are accepted, a reviewer must decide, or a limit
//! is reached. Every model call and every tool call is an effect under a key such as `step-3/think`, so that a killed
//! run resumes where it stopped. Text mode is for models that call no tools: the file blocks in their answers are
//! submitted as proposals, which pass the same gate.

mod blocks;
mod input;
mod job;
mod nodes;
mod prompt;
mod read_tools;
pub mod rehearsal;
mod state;
mod transcript;

pub use blocks::{FileBlock, UnclosedBlock, file_blocks};
pub use input::{MAX_REJECTIONS, MAX_STEPS, WorkMode, WorkTask};
pub use job::{PATCH, WorkInput, WorkJob, WorkOptions, WorkPlan, WorkRequest};
pub use nodes::{Agent, graph};
pub use state::{ReportedSubmission, WorkOutcome, WorkReport, WorkState};
pub use transcript::transcript;
