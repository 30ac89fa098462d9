//! Sandboxes for running untrusted code.
//!
//! A [`Backend`] (jail, Docker, microVM) starts the guest agent in isolation. After the start, sandboxes of all
//! backends are used in the same way: through requests to the guest agent. A [`Sandbox`] runs programs and transfers
//! files. The [`SandboxManager`] tracks all sandboxes of this user, and a [`SandboxPool`] keeps idle sandboxes ready.

mod backend;
mod cgroup;
mod channel;
pub mod choice;
mod collect_files;
mod command;
mod diagnostics;
pub mod docker;
mod error;
mod guest;
mod host_calls;
mod interpreter;
pub mod jail;
mod manager;
mod memfd;
pub mod memory;
pub mod microvm;
mod pool;
mod registry;
mod remote;
pub mod rootfs;
mod sandbox;
mod settings;
mod spec;
mod venv;
mod warm;

pub use assize_protocol::{FolderEntry, FolderEntryKind, GuestFailureCause};
pub use backend::{Backend, Enforcement, SandboxIdentity, StartedSandbox};
pub use choice::{RunPool, SandboxFactory, SharedBackends};
pub use collect_files::CollectedFiles;
pub use command::{ProgramCommand, ProgramOutcome, ProgramStream};
pub use error::SandboxError;
pub use guest::guest_program;
pub use host_calls::{HostCallHandler, HostCallLimits, KILL_AFTER};
pub use interpreter::{Interpreter, Language};
pub use jail::SupervisorAhead;
pub use manager::{SandboxManager, TIME_TO_LIVE};
pub use pool::{PoolMetrics, PoolOptions, SandboxPool};
pub use registry::{SandboxKey, SandboxRecord};
pub use sandbox::{FinishedProgram, ProgramEvent, ProgramHandle, ProgramStdin, Sandbox, WORKSPACE};
pub use settings::RunSettings;
pub use spec::{LAYERS, SandboxLayer, SandboxSpec};
pub use venv::VirtualEnvironment;
pub use warm::WarmPools;
