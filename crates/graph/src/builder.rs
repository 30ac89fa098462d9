//! Graphs as they are written down.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use assize_types::Fingerprint;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::check::{self, InvalidGraph};
use crate::context::Context;
use crate::error::NodeError;
use crate::{State, mermaid};

/// Where a run ends, as the target of an edge.
pub const END: &str = "END";

pub(crate) type Updates<S> = Result<Vec<<S as State>::Update>, NodeError>;
type Body<S> = Arc<dyn Fn(Context<S>) -> BoxFuture<'static, Updates<S>> + Send + Sync>;
type Choose<S> = Arc<dyn Fn(&S, Option<&<S as State>::Item>) -> &'static str + Send + Sync>;
type Branches<S> = Arc<dyn Fn(&S) -> FanOut<<S as State>::Item> + Send + Sync>;

/// A graph that was checked and can be run, as often as wanted.
pub struct Graph<S: State> {
    pub(crate) name: &'static str,
    pub(crate) start: &'static str,
    pub(crate) nodes: Arc<[Node<S>]>,
    pub(crate) fingerprint: Fingerprint,
}

impl<S: State> Clone for Graph<S> {
    fn clone(&self) -> Graph<S> {
        Graph { nodes: self.nodes.clone(), ..*self }
    }
}

impl<S: State> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.nodes.iter().map(|node| node.name).collect();
        f.debug_struct("Graph").field("name", &self.name).field("nodes", &nodes).finish()
    }
}

impl<S: State> Graph<S> {
    pub fn builder(name: &'static str) -> GraphBuilder<S> {
        GraphBuilder { name, start: None, nodes: Vec::new(), exits: Vec::new() }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The graph as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        mermaid::draw(&self.outline())
    }

    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    fn outline(&self) -> Outline {
        outline(self.name, self.start, &self.nodes)
    }
}

fn outline<S: State>(name: &'static str, start: &'static str, nodes: &[Node<S>]) -> Outline {
    let nodes = nodes
        .iter()
        .map(|node| OutlineNode {
            name: node.name,
            exit: node.exit.outline(),
            inner: node.inner.clone(),
        })
        .collect();
    Outline { name, start, nodes }
}

impl Outline {
    /// Tells graphs of another shape apart.
    fn fingerprint(&self) -> Fingerprint {
        // Plain data: it can always be written.
        let text = serde_json::to_vec(self).unwrap_or_default();
        Fingerprint::of(text)
    }
}

/// The shape of a graph, without what its nodes do.
#[derive(Debug, Serialize)]
pub(crate) struct Outline {
    pub(crate) name: &'static str,
    pub(crate) start: &'static str,
    pub(crate) nodes: Vec<OutlineNode>,
}

#[derive(Debug, Serialize)]
pub(crate) struct OutlineNode {
    pub(crate) name: &'static str,
    pub(crate) exit: OutlineExit,
    /// The graph within this node.
    pub(crate) inner: Option<Arc<Outline>>,
}

#[derive(Debug, Serialize)]
pub(crate) enum OutlineExit {
    Edge(&'static str),
    Route(Vec<&'static str>),
    /// Branches to all of these.
    Parallel {
        to: Vec<&'static str>,
        join: &'static str,
    },
    /// Any number of branches to any of these.
    FanOut {
        to: Vec<&'static str>,
        join: &'static str,
    },
}

pub(crate) struct Node<S: State> {
    pub(crate) name: &'static str,
    pub(crate) body: Body<S>,
    pub(crate) policy: Policy<S>,
    pub(crate) inner: Option<Arc<Outline>>,
    pub(crate) exit: Exit<S>,
}

/// What follows a node.
pub(crate) enum Exit<S: State> {
    Edge(&'static str),
    Route { to: Vec<&'static str>, choose: Choose<S> },
    Parallel { to: Vec<&'static str>, join: &'static str },
    FanOut { to: Vec<&'static str>, join: &'static str, send: Branches<S> },
}

impl<S: State> Exit<S> {
    pub(crate) fn outline(&self) -> OutlineExit {
        match self {
            Exit::Edge(to) => OutlineExit::Edge(to),
            Exit::Route { to, .. } => OutlineExit::Route(to.clone()),
            Exit::Parallel { to, join } => OutlineExit::Parallel { to: to.clone(), join },
            Exit::FanOut { to, join, .. } => OutlineExit::FanOut { to: to.clone(), join },
        }
    }
}

/// The branches of one fan-out.
#[derive(Debug)]
pub struct FanOut<I> {
    pub(crate) branches: Vec<Branch<I>>,
    pub(crate) at_once: usize,
}

impl<I> FanOut<I> {
    /// Lets at most so many branches run at a time, the first ones first. The result is the same.
    pub fn at_once(mut self, most: usize) -> FanOut<I> {
        self.at_once = most.max(1);
        self
    }
}

impl<I> From<Vec<Branch<I>>> for FanOut<I> {
    fn from(branches: Vec<Branch<I>>) -> FanOut<I> {
        FanOut { branches, at_once: usize::MAX }
    }
}

impl<I, const N: usize> From<[Branch<I>; N]> for FanOut<I> {
    fn from(branches: [Branch<I>; N]) -> FanOut<I> {
        Vec::from(branches).into()
    }
}

/// One branch of a fan-out: where it begins, its label in the keys of its effects, and what its
/// nodes are given.
#[derive(Debug)]
pub struct Branch<I> {
    pub(crate) node: &'static str,
    pub(crate) label: String,
    pub(crate) item: I,
}

impl<I> Branch<I> {
    pub fn new(node: &'static str, label: impl Into<String>, item: I) -> Branch<I> {
        Branch { node, label: label.into(), item }
    }
}

/// How a node is treated when it takes too long or fails.
pub struct Policy<S: State> {
    pub(crate) deadline: Option<Duration>,
    pub(crate) retries: u32,
    pub(crate) wait: Duration,
    pub(crate) on_error: OnError<S>,
}

/// What becomes of the run when a node has failed for good.
pub enum OnError<S: State> {
    /// The run ends. It can be taken up again.
    Stop,
    /// The run goes on with these updates instead of the node's. The failure is recorded.
    GoOn(Recover<S>),
}

/// Makes updates out of the words of a failure.
type Recover<S> =
    Arc<dyn Fn(&S, Option<&<S as State>::Item>, &str) -> Vec<<S as State>::Update> + Send + Sync>;

impl<S: State> Policy<S> {
    pub fn new() -> Policy<S> {
        Policy { deadline: None, retries: 0, wait: Duration::ZERO, on_error: OnError::Stop }
    }

    /// How long one attempt at the node may take.
    pub fn deadline(mut self, allowed: Duration) -> Policy<S> {
        self.deadline = Some(allowed);
        self
    }

    /// Runs a failed node again, after `wait` and then after twice as long each time. What it had
    /// done by then stays done, if there is a journal that knows of it.
    pub fn retry(mut self, times: u32, wait: Duration) -> Policy<S> {
        (self.retries, self.wait) = (times, wait);
        self
    }

    /// Goes on from a failure with the updates that `recover` makes of its words.
    pub fn go_on(
        mut self,
        recover: impl Fn(&S, Option<&S::Item>, &str) -> Vec<S::Update> + Send + Sync + 'static,
    ) -> Policy<S> {
        self.on_error = OnError::GoOn(Arc::new(recover));
        self
    }
}

impl<S: State> Default for Policy<S> {
    fn default() -> Policy<S> {
        Policy::new()
    }
}

impl<S: State> fmt::Debug for Policy<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("deadline", &self.deadline)
            .field("retries", &self.retries)
            .field("goes_on", &matches!(self.on_error, OnError::GoOn(_)))
            .finish_non_exhaustive()
    }
}

impl<S: State> fmt::Debug for OnError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnError::Stop => "Stop",
            OnError::GoOn(_) => "GoOn",
        })
    }
}

/// A graph that is being written down.
pub struct GraphBuilder<S: State> {
    pub(crate) name: &'static str,
    pub(crate) start: Option<&'static str>,
    nodes: Vec<Draft<S>>,
    exits: Vec<(&'static str, Exit<S>)>,
}

struct Draft<S: State> {
    name: &'static str,
    body: Body<S>,
    policy: Policy<S>,
    inner: Option<Arc<Outline>>,
}

impl<S: State> fmt::Debug for GraphBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S: State> GraphBuilder<S> {
    /// Adds a node.
    pub fn node<F, Fut>(self, name: &'static str, body: F) -> Self
    where
        F: Fn(Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Updates<S>> + Send + 'static,
    {
        self.node_with(name, Policy::new(), body)
    }

    /// Adds a node that is treated by a policy of its own.
    pub fn node_with<F, Fut>(mut self, name: &'static str, policy: Policy<S>, body: F) -> Self
    where
        F: Fn(Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Updates<S>> + Send + 'static,
    {
        let body: Body<S> = Arc::new(move |context| body(context).boxed());
        self.nodes.push(Draft { name, body, policy, inner: None });
        self
    }

    /// Adds a node that has another graph carried out elsewhere, such as in another process. What it does
    /// is its own matter; the graph is what it looks like.
    #[must_use]
    pub fn elsewhere<I: State, F, Fut>(self, name: &'static str, graph: &Graph<I>, body: F) -> Self
    where
        F: Fn(Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Updates<S>> + Send + 'static,
    {
        let mut builder = self.node(name, body);
        if let Some(node) = builder.nodes.last_mut() {
            node.inner = Some(Arc::new(graph.outline()));
        }
        builder
    }

    /// Adds a node that is a graph of its own: `enter` makes its state, `leave` makes updates of
    /// what it came to. Its effects are keyed within the branch that the node is in.
    pub fn subgraph<I: State>(
        mut self,
        name: &'static str,
        policy: Policy<S>,
        graph: Graph<I>,
        enter: impl Fn(&S, Option<&S::Item>) -> I + Send + Sync + 'static,
        leave: impl Fn(I) -> Vec<S::Update> + Send + Sync + 'static,
    ) -> Self {
        let inner = Some(Arc::new(graph.outline()));
        let (enter, leave) = (Arc::new(enter), Arc::new(leave));
        let body: Body<S> = Arc::new(move |context| {
            let (graph, enter, leave) = (graph.clone(), enter.clone(), leave.clone());
            async move {
                let state = enter(context.state(), context.item());
                Ok(leave(graph.run_within(state, &context).await?))
            }
            .boxed()
        });
        self.nodes.push(Draft { name, body, policy, inner });
        self
    }

    /// Where a run begins.
    pub fn start(mut self, node: &'static str) -> Self {
        self.start = Some(node);
        self
    }

    /// After `from` comes `to`, which may be [`END`].
    pub fn edge(self, from: &'static str, to: &'static str) -> Self {
        self.exit(from, Exit::Edge(to))
    }

    /// After `from` comes one of `to`, as `choose` says.
    pub fn route<const N: usize>(
        self,
        from: &'static str,
        to: [&'static str; N],
        choose: impl Fn(&S, Option<&S::Item>) -> &'static str + Send + Sync + 'static,
    ) -> Self {
        self.exit(from, Exit::Route { to: to.to_vec(), choose: Arc::new(choose) })
    }

    /// After `from` come all of `to`, side by side, until each of them arrives at `join`.
    pub fn parallel<const N: usize>(
        self,
        from: &'static str,
        to: [&'static str; N],
        join: &'static str,
    ) -> Self {
        self.exit(from, Exit::Parallel { to: to.to_vec(), join })
    }

    /// After `from` come the branches that `send` makes, side by side, each with an item of its
    /// own, until all of them have arrived at `join`. If there are none, `join` comes at once.
    pub fn fan_out<const N: usize>(
        self,
        from: &'static str,
        to: [&'static str; N],
        join: &'static str,
        send: impl Fn(&S) -> FanOut<S::Item> + Send + Sync + 'static,
    ) -> Self {
        self.exit(from, Exit::FanOut { to: to.to_vec(), join, send: Arc::new(send) })
    }

    fn exit(mut self, from: &'static str, exit: Exit<S>) -> Self {
        self.exits.push((from, exit));
        self
    }

    /// Checks the graph and makes it ready to run.
    pub fn compile(self) -> Result<Graph<S>, InvalidGraph> {
        let names: Vec<&'static str> = self.nodes.iter().map(|node| node.name).collect();
        let exits: Vec<_> = self.exits.iter().map(|(from, exit)| (*from, exit.outline())).collect();
        let start = check::check(self.name, self.start, &names, &exits)?;
        let mut exits = self.exits;
        let mut nodes = Vec::new();
        for Draft { name, body, policy, inner } in self.nodes {
            // The check has seen to it that every node has one.
            let Some(at) = exits.iter().position(|(from, _)| *from == name) else { continue };
            let exit = exits.swap_remove(at).1;
            nodes.push(Node { name, body, policy, inner, exit });
        }
        let fingerprint = outline(self.name, start, &nodes).fingerprint();
        Ok(Graph { name: self.name, start, nodes: nodes.into(), fingerprint })
    }
}
