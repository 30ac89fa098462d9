//! Worker of a cluster.
//!
//! A process that starts a run stores it and puts it on the queue. A [`Worker`] takes it and executes it, except for
//! its debates: it puts those on the queue in their turn, so that each runs wherever there is a sandbox for it
//! ([`ClusterDebates`]). The process that executes the run makes all calls to models, so that one lease guards all that
//! is spent on it. Calls to a provider keep its limits across the cluster ([`FarPacer`]).

mod debates;
mod grounds;
mod limits;
pub mod live;
pub mod status;
mod worker;

pub use debates::ClusterDebates;
pub use limits::FarPacer;
pub use worker::{Offer, PARALLEL, Resume, Worker, node};
