//! Times that the nodes of a cluster work by, all in proportion to its lease.

use std::time::Duration;

/// The lease where no other is configured.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(6);

/// Times of a cluster. All nodes of a cluster have the same: the lease is recorded on its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    lease: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times::of_lease(DEFAULT_LEASE)
    }
}

impl Times {
    /// Times of a cluster with this lease.
    pub fn of_lease(lease: Duration) -> Times {
        Times { lease }
    }

    /// A node that was silent for so long has lost its jobs.
    pub fn lease(self) -> Duration {
        self.lease
    }

    /// Time between two renewals of a lease, and the longest that one may take.
    pub(crate) fn renewal(self) -> Duration {
        self.lease / 4
    }

    /// The longest that the servers may take to reply, before they are asked what became of it.
    pub(crate) fn server_reply(self) -> Duration {
        self.lease / 2
    }

    /// After so long a peer replies that it still works on the answer.
    pub(crate) fn progress(self) -> Duration {
        self.lease / 3
    }

    /// The longest that a node may take to say that it is there.
    pub(crate) fn node_reply(self) -> Duration {
        self.lease / 3
    }

    /// Time between two looks for redelivered jobs, of which nothing tells.
    pub(crate) fn poll(self) -> Duration {
        self.lease / 6
    }

    /// After so long another worker may try a job that failed on one.
    pub fn retry(self) -> Duration {
        self.lease / 6
    }

    /// The longest that a node takes to connect to another server.
    pub fn reconnect(self) -> Duration {
        self.lease / 4
    }

    /// The longest that noting a call may take before its claim has to be checked once more.
    pub(crate) fn noting(self) -> Duration {
        self.lease / 3
    }

    /// Time between two reports of a node's calls to the holder of a provider's limits.
    pub fn report(self) -> Duration {
        self.lease / 3
    }

    /// After so long every living node has reported.
    pub fn all_reported(self) -> Duration {
        self.report() * 2
    }

    /// The longest that a command waits for servers that do not answer.
    pub fn command(self) -> Duration {
        self.lease * 5
    }

    /// Time between two searches for runs whose worker is gone.
    pub fn sweep(self) -> Duration {
        self.lease * 10 / 3
    }
}
