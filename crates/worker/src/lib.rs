//! Worker of a cluster.
//!
//! A process that starts a run stores it and queues a job for it. A [`Worker`] takes the job and executes the run, but
//! queues a separate job for each debate, so that any worker with a free sandbox can run it ([`ClusterDebates`]). The
//! worker that executes the run makes all of its model calls, so that one lease guards all spending. A rate limiter for
//! the whole cluster keeps the limits of each provider ([`ClusterRateLimiter`]).

mod debates;
mod grounds;
mod limits;
pub mod live;
pub mod status;
mod worker;

pub use debates::ClusterDebates;
pub use limits::ClusterRateLimiter;
pub use worker::{PARALLEL, ResumeRuns, Worker, WorkerOffer, node};
