//! Sandboxes: where code that nobody trusts is run.
//!
//! A [`Backend`] builds walls and puts the guest behind them; everything else is the same for all of
//! them and speaks to the guest alone: [`Sandbox`] runs programs and moves files. The [`Manager`] knows
//! all sandboxes of the machine, and a [`Pool`] has some waiting.

mod backend;
mod cgroup;
mod channel;
pub mod choice;
mod command;
pub mod docker;
mod error;
mod guest;
mod harvest;
mod interpreter;
pub mod jail;
mod manager;
mod memfd;
pub mod memory;
pub mod microvm;
mod pool;
mod registry;
pub mod rootfs;
mod sandbox;
mod settings;
mod spec;
mod venv;
mod visit;
mod warm;
mod words;
mod work;

pub use assize_protocol::{Cause, Entry, EntryKind};
pub use backend::{Backend, Enforcement, Identity, Started};
pub use choice::{RunPool, Sandboxes, SharedBackends};
pub use command::{Command, Outcome, Output};
pub use error::SandboxError;
pub use harvest::Harvest;
pub use interpreter::{Interpreter, Language};
pub use manager::{Manager, TIME_TO_LIVE};
pub use pool::{Pool, PoolMetrics, PoolOptions};
pub use registry::{Key, Record};
pub use sandbox::{Event, Finished, Running, Sandbox, Stdin, WORKSPACE};
pub use settings::RunSettings;
pub use spec::{LAYERS, Layer, Spec};
pub use venv::VirtualEnvironment;
pub use warm::WarmPools;
pub use work::{Answers, KILL_AFTER, Work};
