//! Typed state graph whose runs can be killed at any moment and resumed.
//!
//! A [`Graph`] consists of nodes. A node reads the state and returns updates to it. Every node has one of these: an
//! edge to another node, a route to one of several nodes ([`GraphBuilder::route`]), or a fan-out into parallel branches
//! that meet at a join ([`GraphBuilder::fan_out`]). Branches advance independently until their join. A node sees only
//! the updates of the nodes before it on its path. At a join, the updates of the branches are applied in branch order,
//! independently of which branch finished first.
//!
//! A node performs side effects through its [`Context`], which records them as *effects* in a [`Journal`] under a
//! stable [`EffectKey`]. A resumed run executes its nodes again and replays every recorded effect from the journal.
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
//!     let judge = context.item().copied().unwrap_or("unknown");
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
pub use check::{GraphProblem, InvalidGraph};
pub use context::{Context, FailedEffect};
pub use error::{EffectError, NodeError, RunError};
pub use journal::{
    Appended, EffectOutcome, EffectRecord, ForkJournal, GraphEvent, Journal, JournalError,
    MemoryJournal,
};
pub use key::{EffectKey, InvalidEffectKey};
pub use options::{EffectStage, RunObserver, RunOptions, Signal};

/// State of a graph run: a value that changes only through updates.
///
/// `apply` must be deterministic: the same updates in the same order must produce the same state.
pub trait State: Clone + Send + Sync + 'static {
    /// One change to the state, as returned by a node.
    type Update: Clone + Send + Sync + 'static;
    /// Type of the value that a fan-out passes to each branch; `()` if unused.
    type Item: Send + Sync + 'static;

    fn apply(&mut self, update: Self::Update);
}
