//! How a trial is begun, gone on with and ended, whichever door it was asked for at.
//!
//! The doors read what was typed or sent; the trials know nothing of settings. Between them stands the
//! [`Clerk`]: who is asked ([`choose`]), behind which walls ([`walls`]), where it is kept ([`kept`]), all by the
//! settings ([`Settings`]). For each kind of trial there is a module with what can be asked for (`Ask`), what is made
//! of that or of an earlier run (`Plan`), and the trial itself (`Trial`): opened, its run is claimed and kept; held,
//! it is run to its end, which is written down. What it came to is shown by the door.
//!
//! Nothing here prints or reads the environment: both are handed in.

pub(crate) mod account;
pub mod backends;
pub mod choose;
pub mod cluster;
pub mod code;
pub mod consult;
pub mod debate;
pub mod doctor;
pub mod drafts;
pub mod ended;
pub mod eval;
pub mod exec;
pub mod fork;
pub mod kept;
pub mod reading;
pub mod scorecards;
pub mod text;
pub mod trial;
pub mod walls;
pub mod work;

use std::fmt;
use std::sync::Arc;

use assize_config::{Environment, Settings};
use assize_run::IdempotencyKey;
use serde::{Deserialize, Serialize};

use backends::Backends;
use choose::Paces;
use cluster::Member;

pub use ended::Broke;

/// Whoever is told what happens on the way.
pub trait Listener: Send + Sync {
    /// Something that must be known.
    fn warn(&self, text: &str);

    /// What is waited for, and the like.
    fn note(&self, text: &str);
}

/// On whose behalf trials are begun: by which settings, where, and who listens.
#[derive(Clone)]
pub struct Clerk {
    pub config: Settings,
    pub around: Environment,
    pub listener: Arc<dyn Listener>,
    /// In which process.
    pub role: Role,
    /// The cluster that it is a part of, if it is.
    pub member: Option<Arc<Member>>,
    /// Under what this one trial was asked for.
    pub once: Option<IdempotencyKey>,
    /// Who paces the calls to providers, for all trials of this process.
    pub paces: Paces,
    /// Backends and warm pools that all runs of this process share, if it is a server or a worker.
    pub backends: Option<Arc<Backends>>,
    /// Nothing is asked, only estimated: no key is needed.
    pub estimate_only: bool,
}

/// What the process that works on a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A command, for the one run.
    #[default]
    Command,
    /// A server, which goes on with its runs when it is started again.
    Server,
    /// A worker, which holds what others put on the queue of a cluster.
    Worker,
}

impl Clerk {
    /// The cluster in which others hold the trials that are asked for here, if there is one.
    pub(crate) fn others(&self) -> Option<&Arc<Member>> {
        self.member.as_ref().filter(|_| self.role != Role::Worker)
    }
}

impl fmt::Debug for Clerk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clerk").finish_non_exhaustive()
    }
}

/// An earlier run that is to go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GoOn {
    /// Its name, or a beginning of it.
    pub run: String,
    /// Even if somebody works on it, or may.
    pub take_over: bool,
}

/// An earlier run that a new one starts from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForkOf {
    pub run: String,
    /// From where on everything is asked again.
    pub at: Option<assize_consult::At>,
    /// What some are told to be from there on, by `critic`, `D1` and so on.
    pub told: std::collections::BTreeMap<String, String>,
}
