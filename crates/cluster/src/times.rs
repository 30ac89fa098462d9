//! Timeouts and intervals of a cluster, all in proportion to its lease.

use std::time::Duration;

/// Default lease.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(6);

/// Timeouts and intervals of a cluster. They are the same on all nodes: the lease is stored on the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterTimes {
    lease: Duration,
}

impl Default for ClusterTimes {
    fn default() -> ClusterTimes {
        ClusterTimes::of_lease(DEFAULT_LEASE)
    }
}

impl ClusterTimes {
    /// Derives all times from the lease.
    pub fn of_lease(lease: Duration) -> ClusterTimes {
        ClusterTimes { lease }
    }

    /// How long a node may go without renewing before its jobs are redelivered.
    pub fn lease(self) -> Duration {
        self.lease
    }

    /// Interval between two renewals of a lease, and timeout of a renewal.
    pub(crate) fn renewal(self) -> Duration {
        self.lease / 4
    }

    /// Timeout of a request to the servers. After a timeout the node checks whether its write was stored.
    pub(crate) fn server_reply(self) -> Duration {
        self.lease / 2
    }

    /// Time after which a peer replies that it is still working on a request.
    pub(crate) fn progress(self) -> Duration {
        self.lease / 3
    }

    /// Timeout of a status request to a node.
    pub(crate) fn node_reply(self) -> Duration {
        self.lease / 3
    }

    /// Interval at which a worker polls for redelivered jobs, which JetStream does not announce.
    pub(crate) fn poll(self) -> Duration {
        self.lease / 6
    }

    /// Delay before a job is redelivered that a worker could not execute.
    pub fn retry(self) -> Duration {
        self.lease / 6
    }

    /// Maximum time that a node needs to connect to another server.
    pub fn reconnect(self) -> Duration {
        self.lease / 4
    }

    /// Maximum duration of storing a call before its lease must be checked again.
    pub(crate) fn noting(self) -> Duration {
        self.lease / 3
    }

    /// Interval at which a node reports its calls to the worker that enforces a provider's limits.
    pub fn report(self) -> Duration {
        self.lease / 3
    }

    /// Time within which every live node has reported.
    pub fn all_reported(self) -> Duration {
        self.report() * 2
    }

    /// How long a command waits for servers that do not reply.
    pub fn command(self) -> Duration {
        self.lease * 5
    }

    /// Interval at which workers search for runs whose lease holder is dead.
    pub fn sweep(self) -> Duration {
        self.lease * 10 / 3
    }
}
