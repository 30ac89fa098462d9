//! Execution of a graph.
//!
//! One dispatcher per graph controls the execution. A *strand* is one thread of control with its current state. A task
//! executes one node for a strand and returns the updates of the node. A fan-out splits a strand into branches and
//! stores the original strand in a *frame* until all branches have arrived at the join. At the join, the updates of the
//! branches are applied in branch order.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use assize_types::{Cancel, Fingerprint};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use crate::State;
use crate::builder::{Branch, END, FanOut, Graph, GraphNode, NodeExit, NodeResult};
use crate::context::{Context, RunContext};
use crate::error::{NodeError, NodePanicked, RunError};
use crate::journal::{EffectOutcome, EffectRecord, GraphEvent};
use crate::key::{KeyScope, Visit};
use crate::options::{RunOptions, Signal};

/// Key of the journal record that contains the fingerprint of the graph.
const GRAPH: &str = "graph";

impl<S: State> Graph<S> {
    /// Runs the graph from its start and replays the effects recorded in the journal.
    pub async fn run(&self, state: S, options: RunOptions) -> Result<S, RunError> {
        let cancel = options.cancel.clone();
        let run = Arc::new(RunContext::new(options));
        let work = async {
            self.check_same_graph(&run).await?;
            let start = Start::default();
            drive(self, state, run, start, Cancel::new()).await
        };
        tokio::select! {
            biased;
            reason = cancel.cancelled() => Err(RunError::Cancelled { reason }),
            result = work => match result {
                // A node may detect the cancellation first and return an error because of it.
                Err(_) if cancel.is_cancelled() => {
                    Err(RunError::Cancelled { reason: cancel.reason() })
                }
                result => result,
            },
        }
    }

    /// Runs the graph as a subgraph, inside a node of another graph.
    pub(crate) async fn run_within<O: State>(
        &self,
        state: S,
        outer: &Context<O>,
    ) -> Result<S, RunError> {
        let start = Start {
            scope: outer.scope.clone(),
            visit_scope: outer.visit_scope.within(&outer.visit.to_string())?,
            // The node that runs the subgraph already counts as a step, so the subgraph's first node must not count.
            steps: outer.steps - 1,
        };
        drive(self, state, outer.run.clone(), start, outer.halt.child()).await
    }

    /// Returns an error if the run was started with a graph whose shape differs from the shape of this graph.
    async fn check_same_graph(&self, run: &RunContext) -> Result<(), RunError> {
        let Some(journal) = run.journal() else { return Ok(()) };
        let key = KeyScope::default().key(GRAPH)?;
        let known = match journal.find(&key).await? {
            Some(record) => Some(record),
            None => {
                let outcome = EffectOutcome::Done("null".to_owned());
                let record = EffectRecord { key, request: self.fingerprint, outcome };
                run.append(record, Vec::new()).await?
            }
        };
        match known {
            Some(record) if record.request != self.fingerprint => {
                Err(RunError::GraphChanged { graph: self.name })
            }
            _ => Ok(()),
        }
    }
}

/// Key scopes and step count with which the execution of a graph starts. A top-level graph starts with the default. A
/// subgraph starts with the values of the node that runs the subgraph.
#[derive(Default)]
struct Start {
    scope: KeyScope,
    visit_scope: KeyScope,
    steps: u32,
}

/// One thread of control through the graph, with its current state.
struct Strand<S: State> {
    state: Arc<S>,
    item: Option<Arc<S::Item>>,
    /// Prefix of the effect keys of this strand.
    scope: KeyScope,
    /// Prefix of the journal keys under which the events of node executions are recorded. The prefix differs from
    /// `scope` only inside a subgraph, where the prefix also contains the node execution that runs the subgraph, such
    /// as `debate.1`.
    visit_scope: KeyScope,
    /// Number of nodes executed in sequence on this strand so far.
    steps: u32,
    /// Number of times that each node was executed so far, by node index.
    visits: Vec<u32>,
    /// Updates written since the branch started; empty outside of branches.
    written: Vec<S::Update>,
    /// Index of the fan-out's frame in the dispatcher, and index of this branch within the fan-out; `None` outside of
    /// branches.
    branch: Option<(usize, usize)>,
}

/// State of a fan-out while it waits at the join for branches that have not yet arrived.
struct Frame<S: State> {
    /// The strand that was split into branches. It continues at the join.
    strand: Strand<S>,
    join: usize,
    /// Updates of each branch, by branch index; empty until the branch has arrived.
    arrived: Vec<Vec<S::Update>>,
    missing: usize,
    /// Branches that have not started because of the concurrency limit, each with the index of its first node.
    waiting: VecDeque<(usize, Strand<S>)>,
}

/// Result of a task that executed one node: index of the node, the strand (thread of control), and the updates or error
/// of the node.
struct Done<S: State> {
    node: usize,
    strand: Strand<S>,
    result: NodeResult<S>,
}

struct Dispatcher<'g, S: State> {
    graph: &'g Graph<S>,
    run: Arc<RunContext>,
    halt: Cancel,
    frames: Vec<Option<Frame<S>>>,
    tasks: FuturesUnordered<BoxFuture<'g, Done<S>>>,
    /// Final state; `None` until the run has reached `END`.
    end: Option<Arc<S>>,
}

async fn drive<S: State>(
    graph: &Graph<S>,
    state: S,
    run: Arc<RunContext>,
    start: Start,
    halt: Cancel,
) -> Result<S, RunError> {
    let mut dispatcher = Dispatcher {
        graph,
        run,
        halt,
        frames: Vec::new(),
        tasks: FuturesUnordered::new(),
        end: None,
    };
    let strand = Strand {
        state: Arc::new(state),
        item: None,
        scope: start.scope,
        visit_scope: start.visit_scope,
        steps: start.steps,
        visits: vec![0; graph.nodes.len()],
        written: Vec::new(),
        branch: None,
    };
    let mut outcome = dispatcher.enter(graph.start, graph.start, strand);
    while let Some(done) = dispatcher.tasks.next().await {
        // After a failure, no new task starts. Running tasks finish, so that their effects are recorded and a resumed
        // run does not pay for them again.
        if outcome.is_ok() {
            outcome = dispatcher.finish(done);
        }
        if outcome.is_err() {
            dispatcher.halt.cancel("another node of the run failed");
        }
    }
    outcome?;
    match dispatcher.end {
        Some(state) => Ok(Arc::unwrap_or_clone(state)),
        // `check` has verified that every branch reaches its join and every path reaches `END`.
        None => unreachable!("all tasks are done, but the run has not reached `END`"),
    }
}

impl<'g, S: State> Dispatcher<'g, S> {
    fn finish(&mut self, done: Done<S>) -> Result<(), RunError> {
        let Done { node: index, mut strand, result } = done;
        let node: &'g GraphNode<S> = &self.graph.nodes[index];
        let updates = result.map_err(|error| match error {
            NodeError::Stop(error) => error,
            NodeError::Failed(source) => {
                RunError::Node { node: node.name, scope: strand.scope.as_str().to_owned(), source }
            }
        })?;
        strand.write(updates);
        match &node.exit {
            NodeExit::Edge(to) => self.enter(node.name, to, strand),
            NodeExit::Route { to, choose } => {
                let chosen = choose(&strand.state, strand.item.as_deref());
                if !to.contains(&chosen) {
                    return Err(RunError::UndeclaredTarget { from: node.name, to: chosen });
                }
                self.enter(node.name, chosen, strand)
            }
            NodeExit::FanOut { to, join, send } => {
                let FanOut { branches, at_once } = send(&strand.state);
                let mut sent = Vec::with_capacity(branches.len());
                for Branch { node: target, label, item } in branches {
                    if !to.contains(&target) {
                        return Err(RunError::UndeclaredTarget { from: node.name, to: target });
                    }
                    sent.push(Branch { node: target, label, item: Some(Arc::new(item)) });
                }
                self.fork(node.name, join, strand, sent, at_once)
            }
        }
    }

    /// Splits a strand (thread of control) into the branches of a fan-out, and starts the first `at_once` branches.
    fn fork(
        &mut self,
        from: &'static str,
        join: &'static str,
        strand: Strand<S>,
        branches: Vec<Branch<Option<Arc<S::Item>>>>,
        at_once: usize,
    ) -> Result<(), RunError> {
        if branches.is_empty() {
            return self.enter(from, join, strand);
        }
        let frame = match self.frames.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.frames.push(None);
                self.frames.len() - 1
            }
        };
        let mut labels = HashSet::new();
        let mut waiting = VecDeque::with_capacity(branches.len());
        for (index, Branch { node, label, item }) in branches.into_iter().enumerate() {
            let branch = Strand {
                state: strand.state.clone(),
                item,
                scope: strand.scope.within(&label)?,
                visit_scope: strand.visit_scope.within(&label)?,
                steps: strand.steps,
                visits: strand.visits.clone(),
                written: Vec::new(),
                branch: Some((frame, index)),
            };
            if !labels.insert(label.clone()) {
                return Err(RunError::DuplicateBranch { from, label });
            }
            waiting.push_back((self.index(from, node)?, branch));
        }
        let count = waiting.len();
        let begun: Vec<_> = waiting.drain(..count.min(at_once)).collect();
        self.frames[frame] = Some(Frame {
            join: self.index(from, join)?,
            arrived: (0..count).map(|_| Vec::new()).collect(),
            missing: count,
            waiting,
            strand,
        });
        begun.into_iter().try_for_each(|(node, branch)| self.begin(node, branch))
    }

    /// Moves a strand (thread of control) to a node, to `END`, or to the join of its branch.
    fn enter(
        &mut self,
        from: &'static str,
        to: &'static str,
        strand: Strand<S>,
    ) -> Result<(), RunError> {
        if to == END {
            self.end = Some(strand.state);
            return Ok(());
        }
        let node = self.index(from, to)?;
        match strand.branch {
            Some((frame, branch)) if self.join_of(frame) == Some(node) => {
                self.arrive(frame, branch, strand)
            }
            _ => self.begin(node, strand),
        }
    }

    fn join_of(&self, frame: usize) -> Option<usize> {
        self.frames[frame].as_ref().map(|frame| frame.join)
    }

    fn index(&self, from: &'static str, to: &'static str) -> Result<usize, RunError> {
        self.graph.index(to).ok_or(RunError::UndeclaredTarget { from, to })
    }

    /// Records that a branch has arrived at the join. After the last branch, the strand that was split into branches
    /// continues at the join.
    fn arrive(&mut self, index: usize, branch: usize, strand: Strand<S>) -> Result<(), RunError> {
        let Some(frame) = &mut self.frames[index] else { return Ok(()) };
        frame.arrived[branch] = strand.written;
        frame.missing -= 1;
        frame.strand.steps = frame.strand.steps.max(strand.steps);
        for (count, more) in frame.strand.visits.iter_mut().zip(strand.visits) {
            *count = more.max(*count);
        }
        if let Some((node, next)) = frame.waiting.pop_front() {
            return self.begin(node, next);
        }
        if frame.missing > 0 {
            return Ok(());
        }
        let Some(Frame { mut strand, join, arrived, .. }) = self.frames[index].take() else {
            return Ok(());
        };
        strand.write(arrived.into_iter().flatten());
        self.begin(join, strand)
    }

    fn begin(&mut self, node: usize, mut strand: Strand<S>) -> Result<(), RunError> {
        let limit = self.run.options.step_limit;
        if strand.steps >= limit {
            return Err(RunError::StepLimit { node: self.graph.nodes[node].name, limit });
        }
        strand.steps += 1;
        strand.visits[node] += 1;
        let task = Task {
            node: &self.graph.nodes[node],
            index: node,
            run: self.run.clone(),
            halt: self.halt.clone(),
        };
        self.tasks.push(task.execute(strand).boxed());
        Ok(())
    }
}

impl<S: State> Strand<S> {
    fn write(&mut self, updates: impl IntoIterator<Item = S::Update>) {
        let mut updates = updates.into_iter().peekable();
        if updates.peek().is_none() {
            return;
        }
        // Copies the state only if another strand or a task still references it.
        let state = Arc::make_mut(&mut self.state);
        for update in updates {
            if self.branch.is_some() {
                self.written.push(update.clone());
            }
            state.apply(update);
        }
    }
}

/// Task that executes a node once.
struct Task<'g, S: State> {
    node: &'g GraphNode<S>,
    index: usize,
    run: Arc<RunContext>,
    halt: Cancel,
}

impl<S: State> Task<'_, S> {
    async fn execute(self, strand: Strand<S>) -> Done<S> {
        let result = self.result(&strand).await;
        if result.is_ok() {
            self.run.signal(&Signal::NodeFinished { node: self.node.name });
        }
        Done { node: self.index, strand, result }
    }

    /// Runs the node and writes the events emitted after its last effect.
    async fn result(&self, strand: &Strand<S>) -> NodeResult<S> {
        let context = Context::new(
            (strand.state.clone(), strand.item.clone()),
            self.run.clone(),
            (strand.scope.clone(), strand.visit_scope.clone(), self.visit(strand)),
            strand.steps,
            self.halt.clone(),
        );
        // The node consumes the context and its reference to the state. So the state need not be copied to apply
        // updates.
        let pending = context.pending_events();
        let result = AssertUnwindSafe((self.node.body)(context)).catch_unwind().await;
        let updates = result.unwrap_or_else(|panic| {
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or(panic.downcast_ref::<&str>().copied());
            Err(NodeError::from(NodePanicked(message.unwrap_or("(no message)").to_owned())))
        })?;
        let pending = pending.take();
        if !pending.is_empty() {
            self.record_events(strand, pending).await?;
        }
        Ok(updates)
    }

    /// Records the events that this execution of the node emitted, unless the journal already has a record of this
    /// execution.
    async fn record_events(
        &self,
        strand: &Strand<S>,
        events: Vec<GraphEvent>,
    ) -> Result<(), RunError> {
        let key = strand.visit_scope.key(&format!("{}/events", self.visit(strand)))?;
        self.run.reserve_key(&key)?;
        if let Some(journal) = self.run.journal()
            && journal.find(&key).await?.is_some()
        {
            return Ok(());
        }
        let outcome = EffectOutcome::Done("null".to_owned());
        self.run.append(EffectRecord { key, request: Fingerprint::NONE, outcome }, events).await?;
        Ok(())
    }

    fn visit(&self, strand: &Strand<S>) -> Visit {
        Visit { node: self.node.name, number: strand.visits[self.index] }
    }
}
