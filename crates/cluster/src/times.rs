//! Timeouts and intervals of a cluster. All are a fixed fraction or multiple of the lease duration.

use std::time::Duration;

/// Default duration of a lease.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(6);

/// Timeouts and intervals of a cluster. They are the same on all nodes, because the lease duration is stored on the
/// NATS servers.
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
    /// Derives all timeouts and intervals from the lease duration.
    pub fn of_lease(lease: Duration) -> ClusterTimes {
        ClusterTimes { lease }
    }

    /// Duration of a lease. If a worker does not renew the lease on a job within this time, the job is redelivered.
    pub fn lease(self) -> Duration {
        self.lease
    }

    /// Interval between two renewals of a lease, and also the timeout of a renewal.
    pub(crate) fn renewal(self) -> Duration {
        self.lease / 4
    }

    /// Timeout of a request to the NATS servers. After a timeout, this process checks whether the servers stored its
    /// message.
    pub(crate) fn server_reply(self) -> Duration {
        self.lease / 2
    }

    /// Time after which an RPC peer replies that it is still handling a request.
    pub(crate) fn progress(self) -> Duration {
        self.lease / 3
    }

    /// Timeout of a status request to a node.
    pub(crate) fn node_reply(self) -> Duration {
        self.lease / 3
    }

    /// Interval at which a worker polls the queue. Polling is needed because no message wakes the workers when a job is
    /// redelivered.
    pub(crate) fn poll(self) -> Duration {
        self.lease / 6
    }

    /// Delay before the redelivery of a job that a worker could not execute.
    pub fn retry(self) -> Duration {
        self.lease / 6
    }

    /// Maximum time that a node needs to connect to a different NATS server after it has lost its connection.
    pub fn reconnect(self) -> Duration {
        self.lease / 4
    }

    /// Time after which the write of a model call's record counts as slow. After a slow write, the lease of the run
    /// must be checked again before the call is sent.
    pub(crate) fn noting(self) -> Duration {
        self.lease / 3
    }

    /// Interval at which a node reports its model calls in progress to the coordinator of the provider's rate limits.
    pub fn report(self) -> Duration {
        self.lease / 3
    }

    /// Time within which every live node has reported its model calls in progress.
    pub fn all_reported(self) -> Duration {
        self.report() * 2
    }

    /// Maximum time that a command waits for NATS servers that do not reply.
    pub fn command(self) -> Duration {
        self.lease * 5
    }

    /// Interval at which workers search for runs that no process executes.
    pub fn sweep(self) -> Duration {
        self.lease * 10 / 3
    }
}
