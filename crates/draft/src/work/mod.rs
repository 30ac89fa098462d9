//! The worker: a model that has just the draft tools, and may read the workspace.
//!
//! It thinks, calls tools, reads what they answer, and thinks again, until its drafts are accepted, a person
//! must decide, or a limit is reached. Every call to the model and every tool call is an effect under a key such
//! as `step-3/think`, so that a worker that was killed goes on where it was. For models that call no tools
//! there is the older way: their answer's file blocks are taken as drafts, and go through the same gate.

mod blocks;
mod input;
mod job;
mod nodes;
mod prompt;
mod reading;
pub mod rehearsal;
mod state;
mod transcript;

pub use blocks::{FileBlock, NotClosed, file_blocks};
pub use input::{MAX_REJECTIONS, MAX_STEPS, Mode, Work};
pub use job::{PATCH, WorkAsk, WorkInput, WorkJob, WorkPlan, WorkRequest};
pub use nodes::{Worker, graph};
pub use state::{Handed, WorkOutcome, WorkState, Worked};
pub use transcript::transcript;
