//! Messages inside the frames.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// First message from the host: protocol version, limits and environment of the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    /// Limits for all programs in this sandbox.
    pub limits: GuestLimits,
    /// Default environment of programs; an `Exec` can override each variable.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Settings of the microVM; `None` on other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MicroVmSettings>,
}

/// Settings of one microVM, applied after it is restored from a snapshot that many microVMs share.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MicroVmSettings {
    /// Seed for the random generator.
    pub entropy: Vec<u8>,
    /// Current time.
    pub unix_nanos: u64,
    /// Memory limit of all programs together, in bytes.
    pub memory: u64,
    /// Limit on processes and threads.
    pub processes: u64,
    /// CPU limit in thousandths of a CPU.
    pub cpu_millis: u32,
    /// Limits of the tmpfs on its size and its number of files.
    pub disk_bytes: u64,
    pub disk_files: u64,
    /// Mount point of the second disk, if it has layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<String>,
}

/// The guest agent's answer to [`Hello`]. In a microVM, the guest agent also sends it after boot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    pub version: u32,
}

/// Limits that the guest agent enforces on every program it starts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GuestLimits {
    /// Maximum file size.
    pub file_bytes: u64,
    /// Memory limit of all programs together, if no cgroup enforces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_memory: Option<u64>,
    /// Limit on processes and threads, if the kernel counts them for this sandbox's user alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// CPU seconds of one process, if no cgroup limits CPU time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
}

/// Request from the host, which opens a stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestRequest {
    /// Runs a program.
    Exec(ExecRequest),
    /// Starts a program ahead of time; a later `Exec` with `prepared` uses it.
    Prepare(PrepareRequest),
    /// Sends a signal to a program and its process group.
    Signal { exec: u32, signal: i32 },
    /// Writes a file, whose contents follow on port 0. Creates missing parent folders.
    Write { path: String, mode: u32 },
    /// Reads a file, whose contents come on port 1.
    Read { path: String, limit: u64 },
    /// Lists a folder.
    List { path: String },
    /// Removes a file, or a folder recursively.
    Remove { path: String },
}

/// Program to run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExecRequest {
    /// Absolute path of the program, and its arguments.
    pub argv: Vec<String>,
    /// Environment variables, in addition to those of [`Hello`].
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub cwd: String,
    /// Whether standard input comes on port 0; otherwise it is empty.
    pub stdin: bool,
    pub limits: ExecLimits,
    /// Whether the program may send messages to the host, on descriptor 3 and port 3; also on standard input if
    /// `stdin` is false. Always false for code under trial.
    #[serde(default)]
    pub talk: bool,
    /// Use the prepared program, if it is still there, with these arguments after its own.
    #[serde(default)]
    pub prepared: bool,
    /// Kill all processes of the sandbox when the program ends, except those of other running programs.
    #[serde(default)]
    pub ends_all: bool,
}

/// Limits of one execution.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExecLimits {
    pub wall_millis: u64,
    /// Bytes of standard output and of standard error, each; the rest is discarded.
    pub output_bytes: u64,
}

/// Program to start ahead of time, which waits on descriptor 3 until it is needed.
///
/// The program sends one byte when it is ready. A JSON line with `args`, `env` and `cwd` releases it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PrepareRequest {
    pub argv: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub cwd: String,
}

/// Call from a program to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostCall {
    /// Stable key: a repeated call with the same key makes the same request.
    pub key: String,
    pub request: serde_json::Value,
}

/// The host's answer to a [`Call`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAnswer {
    Done(serde_json::Value),
    Failed(serde_json::Value),
}

/// Reply to a [`Request`], which ends the stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestReply {
    Ended(ProgramExit),
    Entries(Vec<FolderEntry>),
    Done,
    Failed(GuestFailure),
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramExit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    #[serde(default)]
    pub timed_out: bool,
    /// Whether a process was killed for exceeding the memory limit, as far as the guest agent can tell.
    #[serde(default)]
    pub out_of_memory: bool,
    /// Whether output beyond the limit was discarded.
    #[serde(default)]
    pub output_cut: bool,
    /// Whether the disk was full when the program ended.
    #[serde(default)]
    pub disk_full: bool,
    pub micros: u64,
    /// Peak memory of the largest process; in a microVM, of all programs since it started.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Whether a prepared program was used.
    #[serde(default)]
    pub prepared: bool,
}

/// Folder entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderEntry {
    /// Name, with invalid UTF-8 replaced.
    pub name: String,
    pub kind: FolderEntryKind,
    pub size: u64,
    pub mode: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FolderEntryKind {
    File,
    Folder,
    Link,
    Other,
}

/// Error reply to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct GuestFailure {
    pub cause: GuestFailureCause,
    pub message: String,
}

impl GuestFailure {
    pub fn new(cause: GuestFailureCause, message: impl Into<String>) -> GuestFailure {
        GuestFailure { cause, message: message.into() }
    }
}

/// Cause of a failure, as far as callers distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestFailureCause {
    NotFound,
    /// The entry exists but has another type, such as a folder instead of a file.
    WrongKind,
    Denied,
    /// The disk is full.
    Full,
    TooLarge,
    /// The request is invalid.
    Invalid,
    Cancelled,
    Other,
}
