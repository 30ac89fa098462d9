//! Drafts behind a gate: those who propose changes to files never touch them.
//!
//! A [`DraftService`] gives workers copies of files, and takes in the drafts that they write and submit ([`tools`]).
//! The gate checks what would change; what it accepts is applied, all of it or none. Every step is an entry in the
//! audit log, and the state of a workspace is the sum of its entries: the [`DraftState`].
//!
//! [`work`] is a worker of our own.

mod answers;
pub mod audit;
mod decide;
mod execute;
mod handlers;
pub mod handoff;
mod ledger;
mod names;
mod propose;
mod review;
mod service;
mod settings;
mod state;
mod sweep;
pub mod tools;
mod transaction;
mod verifier;
mod view;
mod visible;
pub mod work;

pub use assize_gate::{Diff, Effect, Reason, Verified};
pub use assize_workspace::{DRAFTS, HANDOFF};

pub use answers::{Answer, Read, Requested, Submit, Submitted, Written};
pub use ledger::{Mirror, TRANSITIONS};
pub use propose::{NewContent, Proposal, Seen};
pub use review::Force;
pub use service::{DraftError, DraftService, GATE, Options};
pub use settings::{desk, keep, options, policy, verifier};
pub use state::{
    DraftState, Message, MessageKind, OpenDraft, Proposed, Stage, Step, Submission, message_id,
};
pub use sweep::{Cleared, Emptied};
pub use view::{SubmissionView, meanwhile};
