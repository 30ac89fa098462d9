//! The words in the frames.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the host says first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    /// What holds for everything that runs in this sandbox.
    pub limits: GuestLimits,
    /// The environment of every program, unless it is told otherwise.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// For a guest that is the first process of a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// What a machine has to be told that was asleep, and that many others were copied from.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Fresh randomness, and the right time.
    pub entropy: Vec<u8>,
    pub unix_nanos: u64,
    /// What all programs together may use: memory, processes and threads, thousandths of a processor.
    pub memory: u64,
    pub processes: u64,
    pub cpu_millis: u32,
    /// The size of the disk in memory, and how many files it takes.
    pub disk_bytes: u64,
    pub disk_files: u64,
    /// Where the second disk is seen, if there is something on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<String>,
}

/// What the guest answers to it; in a machine it also says so by itself once it is up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    pub version: u32,
}

/// Limits that the guest itself lays on every program it starts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GuestLimits {
    /// The largest file, and so the most one program can put anywhere.
    pub file_bytes: u64,
    /// Memory for all programs together, when nothing outside watches over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_memory: Option<u64>,
    /// Processes and threads, when they are counted for this sandbox alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Seconds of processor time for one process, when nothing outside shares it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
}

/// What the host asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Runs a program.
    Exec(Exec),
    /// Starts a program that waits, and later is the next `Exec` that asks for what was prepared.
    Prepare(Prepare),
    /// Sends a signal to a program and its group.
    Signal { exec: u32, signal: i32 },
    /// Writes a file; its bytes follow on port 0. Folders on the way are made.
    Write { path: String, mode: u32 },
    /// Reads a file; its bytes come on port 1.
    Read { path: String, limit: u64 },
    /// What is in a folder.
    List { path: String },
    /// Removes a file, or a folder with all that is in it.
    Remove { path: String },
}

/// A program to run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Exec {
    /// The program, by its whole path, and its arguments.
    pub argv: Vec<String>,
    /// Its environment, besides what every program has.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub cwd: String,
    /// Whether its input comes on port 0; else it has none.
    pub stdin: bool,
    pub limits: ExecLimits,
    /// Whether it may talk to the host, on descriptor 3 and port 3; and on its standard input, if it has
    /// no other. Code under trial never may.
    #[serde(default)]
    pub talk: bool,
    /// Use the program that was prepared, if it still waits, with these arguments after its own.
    #[serde(default)]
    pub prepared: bool,
    /// What it started ends with it, as everything does that runs by then, unless another program
    /// that was asked for still runs.
    #[serde(default)]
    pub ends_all: bool,
}

/// Limits of one execution.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExecLimits {
    pub wall_millis: u64,
    /// Bytes of each of standard output and standard error; what is beyond is thrown away.
    pub output_bytes: u64,
}

/// A program that is started and waits on descriptor 3 until it is needed.
///
/// It says it is ready by one byte, and is let go by a JSON line with `args`, `env` and `cwd`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prepare {
    pub argv: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub cwd: String,
}

/// What a program that may talk to the host asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Stable: whoever asks again under the same key asks for the same thing.
    pub key: String,
    pub request: serde_json::Value,
}

/// What it is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done(serde_json::Value),
    Failed(serde_json::Value),
}

/// How a request ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Ended(Ended),
    Entries(Vec<Entry>),
    Done,
    Failed(Failure),
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    #[serde(default)]
    pub timed_out: bool,
    /// It or a part of it was ended for want of memory, as far as the guest knows.
    #[serde(default)]
    pub out_of_memory: bool,
    #[serde(default)]
    pub output_cut: bool,
    /// There was no room left to write when it ended.
    #[serde(default)]
    pub disk_full: bool,
    pub micros: u64,
    /// Of the largest process of it; in a machine, of all that ever ran there.
    #[serde(default)]
    pub peak_bytes: u64,
    /// It had been prepared.
    #[serde(default)]
    pub prepared: bool,
}

/// Something in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name; what is no text in it is replaced.
    pub name: String,
    pub kind: EntryKind,
    pub size: u64,
    pub mode: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Folder,
    Link,
    Other,
}

/// A request that could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub cause: Cause,
    pub message: String,
}

impl Failure {
    pub fn new(cause: Cause, message: impl Into<String>) -> Failure {
        Failure { cause, message: message.into() }
    }
}

/// Why, as far as a caller would act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    NotFound,
    /// It is there, and is not what was asked for.
    WrongKind,
    Denied,
    /// No room is left.
    Full,
    TooLarge,
    /// The request itself makes no sense.
    Invalid,
    Cancelled,
    Other,
}
