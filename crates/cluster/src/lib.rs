//! Execution of runs on a cluster of machines that communicate over NATS `JetStream`.
//!
//! A [`Cluster`] is a connection to the NATS servers. [`ClusterStore`] stores runs on these servers; it implements the
//! same trait as the SQLite store. The [`Queue`] contains the jobs for the workers. Each server and worker process of
//! the cluster replies to status requests with a [`ClusterNode`].
//!
//! A request fails with a [`StoreError`] if the servers refuse it, or if they do not reply for longer than
//! [`ClusterOptions::timeout`].

mod address;
mod client;
mod connection;
mod dead_letters;
mod error;
mod nodes;
mod queue;
mod rpc;
mod store;
mod streams;
mod times;

use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;

pub use address::ClusterCredentials;
pub use client::{
    ClusterClient, DEBATE, LIMITS, RUN, RunJobBody, command_timeout, isolation_of, labels,
    needed_labels, options, requirements_of, with_sandbox_requirements,
};
pub use connection::ClusterOptions;
pub use dead_letters::DeadLetter;
pub use nodes::{ClusterNode, NodeRole};
pub use queue::{
    Capabilities, Delivery, JobLease, MAX_DELIVERIES, Queue, QueueCounts, QueuedJob, Requirements,
    SlotKind,
};
pub use rpc::{RpcError, RpcHandler};
pub use store::ClusterStore;
pub use streams::{StreamReplica, StreamStatus};
pub use times::{ClusterTimes, DEFAULT_LEASE};

/// Version of the data format on the NATS servers. This process refuses to join a cluster with a later version.
pub const VERSION: u32 = 1;

/// Connection to the NATS servers of a cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    link: Arc<connection::NatsConnection>,
}

impl Cluster {
    /// Starts to connect to the NATS servers in the background. The first request waits until the servers reply.
    pub async fn connect(options: ClusterOptions) -> Result<Cluster, StoreError> {
        Ok(Cluster { link: Arc::new(connection::NatsConnection::open(options).await?) })
    }

    /// Name of the cluster. It distinguishes clusters that share the same NATS servers.
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

    /// Total time during which the NATS servers did not reply, since this process joined the cluster.
    pub fn away(&self) -> Duration {
        self.link.away()
    }

    /// Opens the store of runs, and creates its streams if they do not exist.
    pub async fn store(&self) -> Result<ClusterStore, StoreError> {
        ClusterStore::open(Arc::clone(&self.link)).await
    }

    /// Opens the job queue, and creates its streams if they do not exist.
    pub async fn queue(&self) -> Result<Queue, StoreError> {
        Queue::open(Arc::clone(&self.link)).await
    }
}
