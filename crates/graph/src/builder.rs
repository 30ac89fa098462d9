//! Definition of a graph: [`GraphBuilder`] and the compiled [`Graph`].

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

/// Name of the edge target that ends the run.
pub const END: &str = "END";

pub(crate) type NodeResult<S> = Result<Vec<<S as State>::Update>, NodeError>;
type Body<S> = Arc<dyn Fn(Context<S>) -> BoxFuture<'static, NodeResult<S>> + Send + Sync>;
type Choose<S> = Arc<dyn Fn(&S, Option<&<S as State>::Item>) -> &'static str + Send + Sync>;
type Branches<S> = Arc<dyn Fn(&S) -> FanOut<<S as State>::Item> + Send + Sync>;

/// A validated graph, which can be run any number of times.
pub struct Graph<S: State> {
    pub(crate) name: &'static str,
    pub(crate) start: &'static str,
    pub(crate) nodes: Arc<[GraphNode<S>]>,
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

    /// Renders the graph as a Mermaid flowchart.
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

fn outline<S: State>(name: &'static str, start: &'static str, nodes: &[GraphNode<S>]) -> Outline {
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
    /// Hash that identifies the shape of the graph.
    fn fingerprint(&self) -> Fingerprint {
        // Serializing plain data cannot fail.
        let text = serde_json::to_vec(self).unwrap_or_default();
        Fingerprint::of(text)
    }
}

/// The shape of a graph: its nodes with their edges, routes and fan-outs, but without their code.
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
    /// Outline of the subgraph that this node runs; `None` if the node does not run a subgraph.
    pub(crate) inner: Option<Arc<Outline>>,
}

#[derive(Debug, Serialize)]
pub(crate) enum OutlineExit {
    Edge(&'static str),
    Route(Vec<&'static str>),
    /// A fan-out into any number of branches. Each branch starts at one of the nodes `to`.
    FanOut {
        to: Vec<&'static str>,
        join: &'static str,
    },
}

pub(crate) struct GraphNode<S: State> {
    pub(crate) name: &'static str,
    pub(crate) body: Body<S>,
    pub(crate) inner: Option<Arc<Outline>>,
    pub(crate) exit: NodeExit<S>,
}

/// Outgoing edge, route or fan-out of a node, which determines the next nodes.
pub(crate) enum NodeExit<S: State> {
    Edge(&'static str),
    Route { to: Vec<&'static str>, choose: Choose<S> },
    FanOut { to: Vec<&'static str>, join: &'static str, send: Branches<S> },
}

impl<S: State> NodeExit<S> {
    pub(crate) fn outline(&self) -> OutlineExit {
        match self {
            NodeExit::Edge(to) => OutlineExit::Edge(to),
            NodeExit::Route { to, .. } => OutlineExit::Route(to.clone()),
            NodeExit::FanOut { to, join, .. } => OutlineExit::FanOut { to: to.clone(), join },
        }
    }
}

/// The branches of one fan-out, and the maximum number of them that run at once.
#[derive(Debug)]
pub struct FanOut<I> {
    pub(crate) branches: Vec<Branch<I>>,
    pub(crate) at_once: usize,
}

impl<I> FanOut<I> {
    /// Sets the maximum number of branches that run at once. Branches start in their order in the fan-out. The
    /// maximum does not change the result of the run.
    pub fn max_concurrency(mut self, most: usize) -> FanOut<I> {
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

/// One branch of a fan-out: its first node, its label in effect keys, and the item that its nodes receive.
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

/// Builder of a [`Graph`].
pub struct GraphBuilder<S: State> {
    pub(crate) name: &'static str,
    pub(crate) start: Option<&'static str>,
    nodes: Vec<UnlinkedNode<S>>,
    exits: Vec<(&'static str, NodeExit<S>)>,
}

struct UnlinkedNode<S: State> {
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
    /// Adds a node that executes `body`.
    pub fn node<F, Fut>(mut self, name: &'static str, body: F) -> Self
    where
        F: Fn(Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = NodeResult<S>> + Send + 'static,
    {
        let body: Body<S> = Arc::new(move |context| body(context).boxed());
        self.nodes.push(UnlinkedNode { name, body, inner: None });
        self
    }

    /// Adds a node whose code `body` runs the graph `graph` outside of this engine, for example in another process.
    ///
    /// The builder does not run `graph`: it only adds the shape of `graph` to the outline and the fingerprint of the
    /// new graph. Therefore `body` must run `graph`.
    #[must_use]
    pub fn external_graph<I: State, F, Fut>(
        self,
        name: &'static str,
        graph: &Graph<I>,
        body: F,
    ) -> Self
    where
        F: Fn(Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = NodeResult<S>> + Send + 'static,
    {
        let mut builder = self.node(name, body);
        if let Some(node) = builder.nodes.last_mut() {
            node.inner = Some(Arc::new(graph.outline()));
        }
        builder
    }

    /// Adds a node that runs another graph as a subgraph. `enter` creates the initial state of the subgraph. `leave`
    /// converts the final state of the subgraph to updates of this graph.
    ///
    /// The effect keys of the subgraph start with the labels of the branches that contain this node.
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
        self.nodes.push(UnlinkedNode { name, body, inner });
        self
    }

    /// Sets the first node of a run.
    pub fn start(mut self, node: &'static str) -> Self {
        self.start = Some(node);
        self
    }

    /// Adds an edge: the run continues with node `to` after node `from`. `to` can be [`END`].
    pub fn edge(self, from: &'static str, to: &'static str) -> Self {
        self.exit(from, NodeExit::Edge(to))
    }

    /// Adds a route: after node `from`, the run continues with one of the nodes `to`. `choose` returns the name of that
    /// node.
    pub fn route<const N: usize>(
        self,
        from: &'static str,
        to: [&'static str; N],
        choose: impl Fn(&S, Option<&S::Item>) -> &'static str + Send + Sync + 'static,
    ) -> Self {
        self.exit(from, NodeExit::Route { to: to.to_vec(), choose: Arc::new(choose) })
    }

    /// Adds a fan-out: after node `from`, the branches that `send` returns run in parallel, each with its own item. The
    /// run continues with node `join` when all branches have arrived at `join`, or directly if there are no branches.
    pub fn fan_out<const N: usize>(
        self,
        from: &'static str,
        to: [&'static str; N],
        join: &'static str,
        send: impl Fn(&S) -> FanOut<S::Item> + Send + Sync + 'static,
    ) -> Self {
        self.exit(from, NodeExit::FanOut { to: to.to_vec(), join, send: Arc::new(send) })
    }

    fn exit(mut self, from: &'static str, exit: NodeExit<S>) -> Self {
        self.exits.push((from, exit));
        self
    }

    /// Validates the graph. Returns the compiled graph, which can be run, or all problems found.
    pub fn compile(self) -> Result<Graph<S>, InvalidGraph> {
        let names: Vec<&'static str> = self.nodes.iter().map(|node| node.name).collect();
        let exits: Vec<_> = self.exits.iter().map(|(from, exit)| (*from, exit.outline())).collect();
        let start = check::check(self.name, self.start, &names, &exits)?;
        let mut exits = self.exits;
        let mut nodes = Vec::new();
        for UnlinkedNode { name, body, inner } in self.nodes {
            // `check` has verified that every node has an edge, a route or a fan-out.
            let Some(at) = exits.iter().position(|(from, _)| *from == name) else { continue };
            let exit = exits.swap_remove(at).1;
            nodes.push(GraphNode { name, body, inner, exit });
        }
        let fingerprint = outline(self.name, start, &nodes).fingerprint();
        Ok(Graph { name: self.name, start, nodes: nodes.into(), fingerprint })
    }
}
