//! More machines: the same runs on an existing distributed engine, NATS `JetStream`.
//!
//! A [`Cluster`] is a line to its servers. [`ClusterStore`] keeps there what outlives a process, behind the same
//! trait as the store in one file; in the [`Queue`] work waits for whoever can do it; each [`Node`] that takes part
//! says so when it is asked.
//!
//! A request fails with a [`StoreError`] when the servers refuse it, or do not answer for longer than
//! [`Options::patience`].

mod address;
mod asking;
mod dead_letters;
mod error;
mod link;
mod member;
mod nodes;
mod queue;
mod store;
mod streams;
mod times;

use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;

pub use address::Identification;
pub use asking::{Answering, Unanswered};
pub use dead_letters::DeadLetter;
pub use link::Options;
pub use member::{
    DEBATE, LIMITS, Member, RUN, RunWork, in_a_sandbox, isolation_of, labels, needed_labels,
    needs_of, options, patience,
};
pub use nodes::{Node, NodeRole};
pub use queue::{Abilities, Lease, Line, MOST_TRIES, Needs, Place, Queue, Taken, Work};
pub use store::ClusterStore;
pub use streams::{Copy, Stream};
pub use times::{DEFAULT_LEASE, Times};

/// What is written to the servers is of this version. A cluster of a later one is not for us.
pub const VERSION: u32 = 1;

/// A line to the servers of a cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    link: Arc<link::Link>,
}

impl Cluster {
    /// Begins to connect; whatever is asked first waits for the servers.
    pub async fn connect(options: Options) -> Result<Cluster, StoreError> {
        Ok(Cluster { link: Arc::new(link::Link::open(options).await?) })
    }

    /// What it is called, as several can share the same servers.
    pub fn name(&self) -> &str {
        &self.link.options.name
    }

    /// Where its servers are.
    pub fn address(&self) -> String {
        self.link.options.address.to_string()
    }

    /// Times that its nodes work by.
    pub fn times(&self) -> Times {
        self.link.options.times
    }

    /// How long its servers have not answered since this process joined it, in all.
    pub fn away(&self) -> Duration {
        self.link.away()
    }

    /// What outlives a process. What is not there yet is made.
    pub async fn store(&self) -> Result<ClusterStore, StoreError> {
        ClusterStore::open(Arc::clone(&self.link)).await
    }

    /// Work that waits.
    pub async fn queue(&self) -> Result<Queue, StoreError> {
        Queue::open(Arc::clone(&self.link)).await
    }
}
