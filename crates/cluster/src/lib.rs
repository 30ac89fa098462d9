//! Runs on a cluster of machines, on top of NATS `JetStream`.
//!
//! A [`Cluster`] is a connection to the NATS servers. [`ClusterStore`] stores runs there, behind the same trait as the
//! SQLite store. The [`Queue`] holds jobs for the workers. Each [`ClusterNode`] replies when it is asked for its status.
//!
//! A request fails with a [`StoreError`] when the servers refuse it, or do not reply for longer than
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

pub use address::ClusterCredentials;
pub use asking::{RpcError, RpcHandler};
pub use dead_letters::DeadLetter;
pub use link::ClusterOptions;
pub use member::{
    ClusterClient, DEBATE, LIMITS, RUN, RunJobBody, in_a_sandbox, isolation_of, labels,
    needed_labels, needs_of, options, patience,
};
pub use nodes::{ClusterNode, NodeRole};
pub use queue::{
    Capabilities, Delivery, JobLease, MOST_TRIES, Queue, QueueCounts, QueuedJob, Requirements,
    SlotKind,
};
pub use store::ClusterStore;
pub use streams::{StreamReplica, StreamStatus};
pub use times::{ClusterTimes, DEFAULT_LEASE};

/// Version of the data format on the servers. A cluster with a later version is rejected.
pub const VERSION: u32 = 1;

/// Connection to the NATS servers of a cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    link: Arc<link::NatsConnection>,
}

impl Cluster {
    /// Starts to connect in the background. The first request waits for the servers.
    pub async fn connect(options: ClusterOptions) -> Result<Cluster, StoreError> {
        Ok(Cluster { link: Arc::new(link::NatsConnection::open(options).await?) })
    }

    /// Name of the cluster. Several clusters can share the same servers.
    pub fn name(&self) -> &str {
        &self.link.options.name
    }

    /// Addresses of the NATS servers.
    pub fn address(&self) -> String {
        self.link.options.address.to_string()
    }

    /// Timeouts and intervals of the cluster.
    pub fn times(&self) -> ClusterTimes {
        self.link.options.times
    }

    /// Total time since this process joined during which the servers did not reply.
    pub fn away(&self) -> Duration {
        self.link.away()
    }

    /// Opens the store, and creates its streams if they do not exist.
    pub async fn store(&self) -> Result<ClusterStore, StoreError> {
        ClusterStore::open(Arc::clone(&self.link)).await
    }

    /// Opens the job queue, and creates its streams if they do not exist.
    pub async fn queue(&self) -> Result<Queue, StoreError> {
        Queue::open(Arc::clone(&self.link)).await
    }
}
