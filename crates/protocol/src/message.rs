//! Messages that frames contain, encoded as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// First message from the host: protocol version, limits and environment of the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    /// Limits for all programs in this sandbox.
    pub limits: GuestLimits,
    /// Default environment of programs; an [`ExecRequest`] can override each variable.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Settings of the microVM; `None` on other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MicroVmSettings>,
}

/// Settings of one microVM, applied after it is restored from a snapshot that many microVMs share.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MicroVmSettings {
    /// Random bytes with which the guest kernel reseeds its random generator.
    pub entropy: Vec<u8>,
    /// Current time in nanoseconds since 1970.
    pub unix_nanos: u64,
    /// Memory limit of all programs together, in bytes.
    pub memory: u64,
    /// Maximum number of processes and threads of all programs together.
    pub processes: u64,
    /// CPU limit in thousandths of a CPU.
    pub cpu_millis: u32,
    /// Maximum size of the tmpfs with the writable folders, in bytes.
    pub disk_bytes: u64,
    /// Maximum number of files on the tmpfs with the writable folders.
    pub disk_files: u64,
    /// Mount point of the disk with the layers; `None` if the sandbox has no layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<String>,
}

/// The guest agent's reply to [`Hello`]. In a microVM, the guest agent also sends this message after boot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    pub version: u32,
}

/// Limits that the guest agent enforces on every program it starts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GuestLimits {
    /// Maximum size of a file in bytes.
    pub file_bytes: u64,
    /// Memory limit of all programs together, in bytes, that the guest agent enforces; `None` if a cgroup enforces the
    /// memory limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_memory: Option<u64>,
    /// Maximum number of processes and threads of the user that runs the programs; `None` if only a cgroup limits this
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Maximum CPU time of each process in seconds; `None` if a cgroup limits the CPU time of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
}

/// Request from the host to the guest agent. Each request opens a new stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestRequest {
    /// Runs a program.
    Exec(ExecRequest),
    /// Starts a program ahead of time; a later [`ExecRequest`] with `prepared` uses it.
    Prepare(PrepareRequest),
    /// Sends a signal to a program and its process group.
    Signal { exec: u32, signal: i32 },
    /// Writes a file, whose contents the host sends on port 0. Creates missing parent folders.
    Write { path: String, mode: u32 },
    /// Reads a file, whose contents the guest agent sends on port 1.
    Read { path: String, limit: u64 },
    /// Lists a folder.
    List { path: String },
    /// Removes a file, or a folder recursively.
    Remove { path: String },
}

/// Request to run a program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExecRequest {
    /// Program and its arguments. The program is a path, or a name that is looked up in `PATH`.
    pub argv: Vec<String>,
    /// Environment variables, in addition to those of [`Hello`].
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub cwd: String,
    /// Whether the host sends standard input on port 0. Otherwise standard input is empty.
    pub stdin: bool,
    pub limits: ExecLimits,
    /// Whether the program is allowed to exchange messages with the host on file descriptor 3 (port 3), and also on
    /// standard input if `stdin` is false. Always false for programs that models or users supply.
    #[serde(default)]
    pub talk: bool,
    /// Whether to use the prepared program, if it still runs. `argv` must begin with the command line of the prepared
    /// program, which receives the remaining arguments.
    #[serde(default)]
    pub prepared: bool,
    /// Whether all processes of the sandbox are killed when the program ends, except those of other running programs.
    #[serde(default)]
    pub ends_all: bool,
}

/// Limits of one execution.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExecLimits {
    pub wall_millis: u64,
    /// Maximum size of standard output in bytes. The same limit applies to standard error. Output above the limit is
    /// discarded.
    pub output_bytes: u64,
}

/// Request to start a program ahead of time, for a later [`ExecRequest`].
///
/// The program writes one byte to file descriptor 3 when it is ready. Then it waits until it reads a line of JSON with
/// `args`, `env` and `cwd` from file descriptor 3.
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
    /// Key under which the host stores its answer in the journal. If the program repeats a call, it sends the same key
    /// and the same request again.
    pub key: String,
    pub request: serde_json::Value,
}

/// The host's answer to a [`HostCall`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAnswer {
    Done(serde_json::Value),
    Failed(serde_json::Value),
}

/// The guest agent's reply to a [`GuestRequest`]. The reply ends the stream of the request.
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
    /// Whether a process was killed because it exceeded the memory limit, as far as the guest agent can determine.
    #[serde(default)]
    pub out_of_memory: bool,
    /// Whether output beyond the limit was discarded.
    #[serde(default)]
    pub output_cut: bool,
    /// Whether the disk was full when the program ended.
    #[serde(default)]
    pub disk_full: bool,
    pub micros: u64,
    /// Peak memory use in bytes: of the largest process or, in a microVM, of all programs together since the microVM
    /// started.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Whether a prepared program was used.
    #[serde(default)]
    pub prepared: bool,
}

/// Entry of a folder in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderEntry {
    /// Name of the entry, with invalid UTF-8 replaced.
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

/// Reply of the guest agent to a request that failed.
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

/// Cause of a failed request. Only causes that callers distinguish are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestFailureCause {
    NotFound,
    /// The path exists but has a different type than the request needs, such as a folder instead of a file.
    WrongKind,
    Denied,
    /// The disk of the sandbox is full.
    Full,
    TooLarge,
    /// The request is invalid.
    Invalid,
    Cancelled,
    Other,
}
