//! Graphs as they are written down.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

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
    /// Any number of branches to any of these.
    FanOut {
        to: Vec<&'static str>,
        join: &'static str,
    },
}

pub(crate) struct Node<S: State> {
    pub(crate) name: &'static str,
    pub(crate) body: Body<S>,
    pub(crate) inner: Option<Arc<Outline>>,
    pub(crate) exit: Exit<S>,
}

/// What follows a node.
pub(crate) enum Exit<S: State> {
    Edge(&'static str),
    Route { to: Vec<&'static str>, choose: Choose<S> },
    FanOut { to: Vec<&'static str>, join: &'static str, send: Branches<S> },
}

impl<S: State> Exit<S> {
    pub(crate) fn outline(&self) -> OutlineExit {
        match self {
            Exit::Edge(to) => OutlineExit::Edge(to),
            Exit::Route { to, .. } => OutlineExit::Route(to.clone()),
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
    inner: Option<Arc<Outline>>,
}

impl<S: State> fmt::Debug for GraphBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S: State> GraphBuilder<S> {
    /// Adds a node.
    pub fn node<F, Fut>(mut self, name: &'static str, body: F) -> Self
    where
        F: Fn(Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Updates<S>> + Send + 'static,
    {
        let body: Body<S> = Arc::new(move |context| body(context).boxed());
        self.nodes.push(Draft { name, body, inner: None });
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
        self.nodes.push(Draft { name, body, inner });
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
        for Draft { name, body, inner } in self.nodes {
            // The check has seen to it that every node has one.
            let Some(at) = exits.iter().position(|(from, _)| *from == name) else { continue };
            let exit = exits.swap_remove(at).1;
            nodes.push(Node { name, body, inner, exit });
        }
        let fingerprint = outline(self.name, start, &nodes).fingerprint();
        Ok(Graph { name: self.name, start, nodes: nodes.into(), fingerprint })
    }
}
