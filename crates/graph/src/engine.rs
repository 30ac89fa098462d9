//! How a graph is run.
//!
//! One dispatcher holds the truth. A *strand* is one line of control with the state it has come to;
//! a task takes it along and brings it back with the updates of its node. A fork splits a strand
//! into branches and keeps the strand itself in a frame until all branches have arrived at the
//! join, where their updates are applied in the order of the branches.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use assize_types::{Cancel, Fingerprint};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use crate::State;
use crate::builder::{Branch, END, Exit, FanOut, Graph, Node, Updates};
use crate::context::{Context, Run};
use crate::error::{NodeError, NodePanicked, RunError};
use crate::journal::{Event, Outcome, Record};
use crate::key::{Scope, Visit};
use crate::options::{RunOptions, Signal};

/// The key under which a run remembers which graph it was begun with.
const GRAPH: &str = "graph";

impl<S: State> Graph<S> {
    /// Runs the graph from its start, or goes on with what the journal knows.
    pub async fn run(&self, state: S, options: RunOptions) -> Result<S, RunError> {
        let cancel = options.cancel.clone();
        let run = Arc::new(Run::new(options));
        let work = async {
            self.same_graph(&run).await?;
            let start = Start::default();
            drive(self, state, run, start, Cancel::new()).await
        };
        tokio::select! {
            biased;
            reason = cancel.cancelled() => Err(RunError::Cancelled { reason }),
            result = work => match result {
                // A node may hear of it first, and fail for it.
                Err(_) if cancel.is_cancelled() => {
                    Err(RunError::Cancelled { reason: cancel.reason() })
                }
                result => result,
            },
        }
    }

    /// Runs the graph as part of another.
    pub(crate) async fn run_within<O: State>(
        &self,
        state: S,
        outer: &Context<O>,
    ) -> Result<S, RunError> {
        let start = Start {
            scope: outer.scope.clone(),
            place: outer.place.within(&outer.visit.to_string())?,
            // It has taken one step to get into this graph, and its first node takes none more.
            steps: outer.steps - 1,
        };
        drive(self, state, outer.run.clone(), start, outer.halt.child()).await
    }

    /// A journal that was begun with another graph is not for this one.
    async fn same_graph(&self, run: &Run) -> Result<(), RunError> {
        let Some(journal) = run.journal() else { return Ok(()) };
        let key = Scope::default().key(GRAPH)?;
        let known = match journal.find(&key).await? {
            Some(record) => Some(record),
            None => {
                let outcome = Outcome::Done("null".to_owned());
                let record = Record { key, request: self.fingerprint, outcome };
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

/// Where a graph begins: at the top, or within a node of another.
#[derive(Default)]
struct Start {
    scope: Scope,
    place: Scope,
    steps: u32,
}

/// One line of control.
struct Strand<S: State> {
    state: Arc<S>,
    item: Option<Arc<S::Item>>,
    /// Where its effects are keyed.
    scope: Scope,
    /// Where its visits are: the same, but that a graph within a node is in a place of its own.
    place: Scope,
    /// How many tasks have led here, one after the other.
    steps: u32,
    /// How often each node was visited on the way.
    visits: Vec<u32>,
    /// What was written since the branch began; empty outside of branches.
    written: Vec<S::Update>,
    /// The frame of the fork that this is a branch of, and which of its branches.
    branch: Option<(usize, usize)>,
}

/// A fork whose branches have not all arrived.
struct Frame<S: State> {
    /// The strand that was split, to go on at the join.
    strand: Strand<S>,
    join: usize,
    /// What each branch wrote, once it has arrived.
    arrived: Vec<Vec<S::Update>>,
    missing: usize,
    /// Branches that wait for their turn.
    waiting: VecDeque<(usize, Strand<S>)>,
}

/// A task that is done: the strand it took along, and what its node said.
struct Done<S: State> {
    node: usize,
    strand: Strand<S>,
    result: Updates<S>,
}

struct Dispatcher<'g, S: State> {
    graph: &'g Graph<S>,
    run: Arc<Run>,
    halt: Cancel,
    frames: Vec<Option<Frame<S>>>,
    tasks: FuturesUnordered<BoxFuture<'g, Done<S>>>,
    /// Where the run has ended.
    end: Option<Arc<S>>,
}

async fn drive<S: State>(
    graph: &Graph<S>,
    state: S,
    run: Arc<Run>,
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
        place: start.place,
        steps: start.steps,
        visits: vec![0; graph.nodes.len()],
        written: Vec::new(),
        branch: None,
    };
    let mut outcome = dispatcher.enter(graph.start, graph.start, strand);
    while let Some(done) = dispatcher.tasks.next().await {
        // Once the run has failed, what is under way is finished, so that it is not paid for
        // again, and nothing new is begun.
        if outcome.is_ok() {
            outcome = dispatcher.take(done);
        }
        if outcome.is_err() {
            dispatcher.halt.cancel("another part of the run failed");
        }
    }
    outcome?;
    match dispatcher.end {
        Some(state) => Ok(Arc::unwrap_or_clone(state)),
        // Every branch joins and every strand ends: the check has seen to it.
        None => unreachable!("a run without tasks has ended"),
    }
}

impl<'g, S: State> Dispatcher<'g, S> {
    fn take(&mut self, done: Done<S>) -> Result<(), RunError> {
        let Done { node: index, mut strand, result } = done;
        let node: &'g Node<S> = &self.graph.nodes[index];
        let updates = result.map_err(|error| match error {
            NodeError::Stop(error) => error,
            NodeError::Failed(source) => {
                RunError::Node { node: node.name, scope: strand.scope.as_str().to_owned(), source }
            }
        })?;
        strand.write(updates);
        match &node.exit {
            Exit::Edge(to) => self.enter(node.name, to, strand),
            Exit::Route { to, choose } => {
                let chosen = choose(&strand.state, strand.item.as_deref());
                if !to.contains(&chosen) {
                    return Err(RunError::UndeclaredTarget { from: node.name, to: chosen });
                }
                self.enter(node.name, chosen, strand)
            }
            Exit::FanOut { to, join, send } => {
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

    /// Splits a strand into branches.
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
                place: strand.place.within(&label)?,
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

    /// Lets a strand go to a node, to the end, or to where its branch joins the others.
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
            Some((frame, branch)) if self.joins_at(frame) == Some(node) => {
                self.arrive(frame, branch, strand)
            }
            _ => self.begin(node, strand),
        }
    }

    fn joins_at(&self, frame: usize) -> Option<usize> {
        self.frames[frame].as_ref().map(|frame| frame.join)
    }

    fn index(&self, from: &'static str, to: &'static str) -> Result<usize, RunError> {
        self.graph.index(to).ok_or(RunError::UndeclaredTarget { from, to })
    }

    /// A branch has arrived at the join. The last one lets the strand that was split go on.
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
        self.tasks.push(task.perform(strand).boxed());
        Ok(())
    }
}

impl<S: State> Strand<S> {
    fn write(&mut self, updates: impl IntoIterator<Item = S::Update>) {
        let mut updates = updates.into_iter().peekable();
        if updates.peek().is_none() {
            return;
        }
        // Copied only where a fork or a task still holds on to the state before.
        let state = Arc::make_mut(&mut self.state);
        for update in updates {
            if self.branch.is_some() {
                self.written.push(update.clone());
            }
            state.apply(update);
        }
    }
}

/// One visit of one node.
struct Task<'g, S: State> {
    node: &'g Node<S>,
    index: usize,
    run: Arc<Run>,
    halt: Cancel,
}

impl<S: State> Task<'_, S> {
    async fn perform(self, strand: Strand<S>) -> Done<S> {
        let result = self.result(&strand).await;
        if result.is_ok() {
            self.run.signal(&Signal::NodeFinished { node: self.node.name });
        }
        Done { node: self.index, strand, result }
    }

    /// Runs the node, and writes the events that wait for no effect.
    async fn result(&self, strand: &Strand<S>) -> Updates<S> {
        let context = Context::new(
            (strand.state.clone(), strand.item.clone()),
            self.run.clone(),
            (strand.scope.clone(), strand.place.clone(), self.visit(strand)),
            strand.steps,
            self.halt.clone(),
        );
        // The node has its own handle, so that the state is ours again when it is done.
        let told = context.told();
        let result = AssertUnwindSafe((self.node.body)(context)).catch_unwind().await;
        let updates = result.unwrap_or_else(|panic| {
            let words = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or(panic.downcast_ref::<&str>().copied());
            Err(NodeError::from(NodePanicked(words.unwrap_or("without words").to_owned())))
        })?;
        let told = told.take();
        if !told.is_empty() {
            self.record_events(strand, told).await?;
        }
        Ok(updates)
    }

    /// Records the events of this visit, unless they are recorded already.
    async fn record_events(&self, strand: &Strand<S>, events: Vec<Event>) -> Result<(), RunError> {
        let key = strand.place.key(&format!("{}/events", self.visit(strand)))?;
        self.run.take(&key)?;
        if let Some(journal) = self.run.journal()
            && journal.find(&key).await?.is_some()
        {
            return Ok(());
        }
        let outcome = Outcome::Done("null".to_owned());
        self.run.append(Record { key, request: Fingerprint::NONE, outcome }, events).await?;
        Ok(())
    }

    fn visit(&self, strand: &Strand<S>) -> Visit {
        Visit { node: self.node.name, number: strand.visits[self.index] }
    }
}
