//! Worker of a cluster.
//!
//! A process that starts a run stores the run and queues a job for it. A [`Worker`] receives the job and executes the
//! run. It queues a separate job for each debate of the run, so that any worker with a free sandbox can execute the
//! debate ([`ClusterDebates`]). The worker that executes the run makes all model calls of the run. So only the holder
//! of the run's lease can spend money. A rate limiter for the whole cluster enforces the limits of each provider
//! ([`ClusterRateLimiter`]).

mod backend_cache;
mod debates;
mod limits;
pub mod live;
pub mod status;
mod worker;

pub use debates::ClusterDebates;
pub use limits::ClusterRateLimiter;
pub use worker::{PARALLEL, ResumeRuns, Worker, WorkerOffer, node};
