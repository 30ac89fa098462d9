//! Where a probe runs, and what is seen of it from outside.

use std::time::Duration;

use async_trait::async_trait;

use crate::catalog::{Probe, Promise};

/// One run of a probe.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) probe: &'a Probe,
    pub(crate) code: String,
    /// What the probe is told, as JSON.
    pub(crate) given: String,
    /// What all its processes can be known by.
    pub(crate) mark: String,
    /// What runs of one probe share.
    pub(crate) tag: String,
}

/// What was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: End,
    /// The exit code that the guest or the host reports for the program; `None` if the report is invalid.
    pub(crate) told: Option<i32>,
    pub(crate) took: Duration,
    /// The time that it had.
    pub(crate) wall: Duration,
    /// Processes of it lived on.
    pub(crate) survived: bool,
    /// The content of the files that were collected.
    pub(crate) collected: Vec<u8>,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Exit(i32),
    Signal(i32),
    TimedOut,
    OutOfMemory,
}

/// A run that could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failed {
    /// There was no place for it.
    Start(String),
    /// The place went away beneath it.
    Gone(String),
}

/// The host itself, or sandboxes of some backend.
#[async_trait]
pub(crate) trait Place: Send + Sync {
    fn name(&self) -> String;

    /// Whether the program has a machine to itself.
    fn is_machine(&self) -> bool {
        false
    }

    /// How much more time everything has than elsewhere.
    fn slower(&self) -> u32 {
        1
    }

    /// The number of the process that watches over the program; `None` where nobody does.
    fn guest(&self) -> Option<i32>;

    /// What is said about a limit that is only tried to be held.
    fn best_effort(&self, promise: Promise) -> Option<String>;

    async fn run(&self, run: &Run<'_>) -> Result<Ran, Failed>;
}
