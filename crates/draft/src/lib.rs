//! Drafts behind a gate: agents propose changes to files and never edit them directly.
//!
//! A [`DraftService`] creates drafts for agents: copies of files that agents may edit. Agents write and submit drafts
//! with the draft tools ([`tools`]). The gate checks each submitted change. Accepted changes are applied completely or
//! not at all. Every step is an entry in the audit log, and the [`DraftState`] of a workspace is computed from the log
//! entries of the workspace.
//!
//! [`work`] contains the agent of Assize itself: a model that edits files with the draft tools.

mod agent_access;
pub mod audit;
mod decide;
mod execute;
mod handlers;
pub mod handoff;
mod names;
mod propose;
mod responses;
mod review;
mod service;
mod settings;
mod state;
mod sweep;
pub mod tools;
mod transaction;
mod verifier;
mod view;
pub mod work;
mod workspace_log;

pub use assize_gate::{Diff, Reason, ReasonEffect, VerifyResult};
pub use assize_workspace::{DRAFTS, HANDOFF};

pub use propose::{FileProposal, ProposedContent, SeenFile};
pub use responses::{
    DraftContent, DraftCreated, DraftWritten, SubmissionStatus, SubmitRequest, SubmitResponse,
};
pub use review::Force;
pub use service::{DraftError, DraftOptions, DraftService, GATE};
pub use settings::{open_service, options, policy, retention, verifier};
pub use state::{
    AgentMessage, DraftState, DraftStep, MessageKind, OpenDraft, ProposedFile, Submission,
    SubmissionStage, message_id,
};
pub use sweep::{EmptyResult, SweepResult};
pub use view::{SubmissionView, diff_since_draft};
pub use workspace_log::{LogComparison, TRANSITIONS};
