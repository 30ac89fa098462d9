//! Drafts behind a gate: those who propose changes to files never touch them.
//!
//! At the [`Desk`] of a workspace, workers get copies of files, write drafts and hand them in ([`tools`]). A gate
//! looks at what would change ([`gate`]), under the settings and a [`Contract`] ([`Policy`]); what it accepts is
//! applied, all of it or none, and whatever happens is written down. How things stand is what all that was written
//! down comes to: the [`Book`].
//!
//! Paths are what somebody wrote, and therefore hostile: they are taken apart here ([`Inside`]) and opened by the
//! kernel relative to a [`Workspace`] or a [`Folder`], which refuses whatever leads out of it, links of all kinds
//! included. Nothing depends on what a path meant a moment ago.
//!
//! [`work`] is a worker of our own.

mod answers;
mod apply;
mod book;
mod carry_out;
mod contract;
mod copies;
pub mod corpus;
mod counter;
mod decide;
mod desk;
mod diff;
mod failure;
mod file_kind;
mod file_rules;
mod folder;
pub mod gate;
mod git_settings;
mod globs;
pub mod hardcoded;
pub mod hidden_text;
mod ignored;
mod inside;
mod ledger;
mod line_ends;
mod missing;
mod names;
mod pattern;
mod places;
mod policy;
mod propose;
mod runs_on_build;
pub mod secrets;
mod sweep;
mod task;
pub mod tools;
mod verify;
pub mod work;
mod workspace;

pub use answers::{Answer, Read, Requested, Submit, Submitted, Written};
pub use book::{
    Book, Message, MessageKind, OpenDraft, Proposed, Replacing, Stage, Step, Submission, message_id,
};
pub use contract::{CONTRACT, Contract, ContractError, ContractLimits, Verify};
pub use decide::Force;
pub use desk::{Desk, DeskError, GATE, Options};
pub use diff::Diff;
pub use file_kind::FileKind;
pub use folder::{BadName, DRAFTS, Folder, HANDOFF, Lock, Wait};
pub use gate::{Effect, Reason, Verdict};
pub use git_settings::GitSettings;
pub use inside::{Inside, Outside};
pub use ledger::{Mirror, TRANSITIONS};
pub use pattern::BadPattern;
pub use policy::{Policy, VerifyMost};
pub use propose::{NewContent, Proposal, Seen};
pub use sweep::{Cleared, Emptied};
pub use task::{BadTaskId, TaskId};
pub use verify::{Job, NamedEnvironment, NotVerified, Ran, Verified, Verifier};
pub use workspace::{FileError, Kind, Original, Walk, Workspace};
