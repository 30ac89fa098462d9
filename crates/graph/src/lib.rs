//! A typed state graph that can be killed at any moment and go on.
//!
//! A [`Graph`] is made of nodes that read a state and return updates of it, and of what follows
//! each node: another node, one of several ([`GraphBuilder::route`]), or branches side by side
//! ([`GraphBuilder::fan_out`]) that meet again where they join. There are no rounds in which
//! everyone waits for everyone: each branch goes its own way until it joins.
//! A node sees what its causal ancestors wrote, and at a join the writes of the branches arrive in
//! the order of the branches, whichever was the fastest.
//!
//! Whatever a node does to the world is an *effect*, done by way of its [`Context`] and recorded in
//! a [`Journal`] under a stable [`Key`]. A run that is started again on its journal does the same
//! again, but answers every recorded effect from the journal.
//!
//! ```
//! use assize_graph::{Branch, Context, END, Graph, NodeError, RunOptions, State};
//!
//! #[derive(Clone, Default)]
//! struct Votes(Vec<String>);
//!
//! impl State for Votes {
//!     type Update = String;
//!     type Item = &'static str;
//!
//!     fn apply(&mut self, vote: String) {
//!         self.0.push(vote);
//!     }
//! }
//!
//! async fn ask(context: Context<Votes>) -> Result<Vec<String>, NodeError> {
//!     let judge = context.item().copied().unwrap_or("nobody");
//!     Ok(vec![format!("{judge} says yes")])
//! }
//!
//! async fn count(context: Context<Votes>) -> Result<Vec<String>, NodeError> {
//!     Ok(vec![format!("{} votes", context.state().0.len())])
//! }
//!
//! async fn open(_: Context<Votes>) -> Result<Vec<String>, NodeError> {
//!     Ok(vec![])
//! }
//!
//! let graph = Graph::builder("vote")
//!     .node("open", open)
//!     .node("ask", ask)
//!     .node("count", count)
//!     .start("open")
//!     .fan_out("open", ["ask"], "count", |_| {
//!         ["anna", "ben"].map(|judge| Branch::new("ask", judge, judge)).into()
//!     })
//!     .edge("ask", "count")
//!     .edge("count", END)
//!     .compile()
//!     .unwrap();
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let votes = graph.run(Votes::default(), RunOptions::default()).await.unwrap();
//! assert_eq!(votes.0, ["anna says yes", "ben says yes", "2 votes"]);
//! # });
//! ```

mod builder;
mod check;
mod context;
mod engine;
mod error;
mod journal;
mod key;
mod mermaid;
mod options;

pub use builder::{Branch, END, FanOut, Graph, GraphBuilder};
pub use check::{InvalidGraph, Problem};
pub use context::{Context, FailedEffect};
pub use error::{EffectError, NodeError, RunError};
pub use journal::{Appended, Event, Fork, Journal, JournalError, MemoryJournal, Outcome, Record};
pub use key::{BadKey, Key};
pub use options::{EffectStage, Observer, RunOptions, Signal};

/// What a graph works on: a plain value that changes by updates alone.
///
/// Equal updates in equal order must make equal states: `apply` looks at nothing else.
pub trait State: Clone + Send + Sync + 'static {
    /// One change, as a node returns it.
    type Update: Clone + Send + Sync + 'static;
    /// What a fan-out hands to each of its branches; `()` if there is none.
    type Item: Send + Sync + 'static;

    fn apply(&mut self, update: Self::Update);
}
