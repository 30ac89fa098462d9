//! Property test: a random graph, killed at random points and resumed, ends in the same state as an uninterrupted run
//! and repeats no finished effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assize_graph::{
    Appended, Branch, Context, END, EffectError, EffectKey, EffectRecord, FanOut, Graph,
    GraphBuilder, GraphEvent, Journal, JournalError, MemoryJournal, NodeError, RunOptions,
};
use assize_types::Cancel;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::effects::{Broken, test_fingerprint};
use crate::order::{Lines, Log, one_each};

/// Random building block of a test graph. Building blocks can be nested.
#[derive(Debug, Clone)]
enum Piece {
    /// A node with `effects` effects, which run concurrently if `together` is true, else in sequence.
    Step {
        effects: u8,
        together: bool,
    },
    Sequence(Vec<Piece>),
    /// Parallel branches of different structure.
    Parallel(Vec<Piece>),
    /// `branches` parallel branches of equal structure, at most `at_once` at a time.
    Fan {
        branches: u8,
        at_once: u8,
        piece: Box<Piece>,
    },
    /// A loop whose body `piece` is executed `times` times.
    Loop {
        times: u8,
        piece: Box<Piece>,
    },
    /// A node that runs a subgraph. The building block in this variant is the whole subgraph.
    Inner(Box<Piece>),
}

fn piece() -> impl Strategy<Value = Piece> {
    let leaf =
        (0..4u8, any::<bool>()).prop_map(|(effects, together)| Piece::Step { effects, together });
    leaf.prop_recursive(3, 14, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(Piece::Sequence),
            vec(inner.clone(), 1..4).prop_map(Piece::Parallel),
            (0..4u8, 1..4u8, inner.clone()).prop_map(|(branches, at_once, piece)| Piece::Fan {
                branches,
                at_once,
                piece: Box::new(piece)
            }),
            (1..4u8, inner.clone())
                .prop_map(|(times, piece)| Piece::Loop { times, piece: Box::new(piece) }),
            inner.prop_map(|piece| Piece::Inner(Box::new(piece))),
        ]
    })
}

fn mix(text: &str, more: u64) -> u64 {
    test_fingerprint(text)
        .seed()
        .wrapping_add(more)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        ^ text.bytes().fold(more, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

/// Returns a static node name for a number below 64.
fn name(number: usize) -> &'static str {
    const NAMES: [&str; 64] = {
        let mut names = [""; 64];
        let digits = "n00n01n02n03n04n05n06n07n08n09n10n11n12n13n14n15n16n17n18n19n20n21n22n23n24n25n26n27n28n29n30n31n32n33n34n35n36n37n38n39n40n41n42n43n44n45n46n47n48n49n50n51n52n53n54n55n56n57n58n59n60n61n62n63";
        let mut index = 0;
        while index < 64 {
            names[index] = digits.split_at(3 * index).1.split_at(3).0;
            index += 1;
        }
        names
    };
    NAMES[number]
}

/// Builds a test graph from a [`Piece`].
struct Assembler {
    graph: Option<GraphBuilder<Log>>,
    nodes: usize,
    process: Arc<Process>,
}

impl Assembler {
    fn change(&mut self, change: impl FnOnce(GraphBuilder<Log>) -> GraphBuilder<Log>) {
        self.graph = self.graph.take().map(change);
    }

    fn node(&mut self, effects: u8, together: bool) -> &'static str {
        let node = name(self.nodes);
        self.nodes += 1;
        let process = self.process.clone();
        let body = move |context| work(node, effects, together, process.clone(), context);
        self.change(|graph| graph.node(node, body));
        node
    }

    /// Adds the nodes of a building block to the graph. Returns the first and the last of these nodes. The last node
    /// has no outgoing edge yet.
    fn add(&mut self, piece: &Piece) -> (&'static str, &'static str) {
        match piece {
            Piece::Step { effects, together } => {
                let node = self.node(*effects, *together);
                (node, node)
            }
            Piece::Sequence(pieces) => {
                let added: Vec<_> = pieces.iter().map(|piece| self.add(piece)).collect();
                for pair in added.windows(2) {
                    self.change(|graph| graph.edge(pair[0].1, pair[1].0));
                }
                (added[0].0, added[added.len() - 1].1)
            }
            Piece::Parallel(pieces) => {
                let fork = self.node(0, false);
                let added: Vec<_> = pieces.iter().map(|piece| self.add(piece)).collect();
                let join = self.node(0, false);
                let (a, b, c) = (added[0].0, added.get(1), added.get(2));
                self.change(|graph| match (b, c) {
                    (None, _) => graph.fan_out(fork, [a], join, move |_| one_each([a])),
                    (Some(&(b, _)), None) => {
                        graph.fan_out(fork, [a, b], join, move |_| one_each([a, b]))
                    }
                    (Some(&(b, _)), Some(&(c, _))) => {
                        graph.fan_out(fork, [a, b, c], join, move |_| one_each([a, b, c]))
                    }
                });
                for (_, last) in added {
                    self.change(|graph| graph.edge(last, join));
                }
                (fork, join)
            }
            Piece::Fan { branches, at_once, piece } => {
                let fork = self.node(0, false);
                let (first, last) = self.add(piece);
                let join = self.node(0, false);
                let (branches, at_once) = (u64::from(*branches), usize::from(*at_once));
                self.change(|graph| {
                    graph
                        .fan_out(fork, [first], join, move |log| {
                            let branch = |item: u64| {
                                let label = format!("b{item}-{}", log.0.len());
                                Branch::new(first, label, item)
                            };
                            let branches: Vec<_> = (0..branches).map(branch).collect();
                            FanOut::from(branches).max_concurrency(at_once)
                        })
                        .edge(last, join)
                });
                (fork, join)
            }
            Piece::Inner(piece) => {
                let graph = Some(Graph::builder("inner"));
                let mut inner =
                    Assembler { graph, nodes: self.nodes, process: self.process.clone() };
                let (first, last) = inner.add(piece);
                self.nodes = inner.nodes + 1;
                let graph = inner.graph.unwrap().start(first).edge(last, END).compile().unwrap();
                let node = name(inner.nodes);
                // Log line after which the lines of the subgraph start.
                const MARK: &str = "|";
                let enter = |log: &Log, _: Option<&u64>| {
                    Log(log.0.iter().cloned().chain([MARK.to_owned()]).collect())
                };
                let leave = |mut log: Log| {
                    let mark = log.0.iter().rposition(|line| line == MARK).unwrap();
                    log.0.split_off(mark + 1)
                };
                self.change(|outer| outer.subgraph(node, graph, enter, leave));
                (node, node)
            }
            Piece::Loop { times, piece } => {
                let (first, last) = self.add(piece);
                let check = self.node(0, false);
                let out = self.node(0, false);
                let times = usize::from(*times);
                self.change(|graph| {
                    graph.edge(last, check).route(check, [first, out], move |log, _| {
                        let visits = log.0.iter().filter(|line| line.starts_with(check)).count();
                        if visits % times == 0 { out } else { first }
                    })
                });
                (first, out)
            }
        }
    }
}

async fn work(
    node: &'static str,
    effects: u8,
    together: bool,
    process: Arc<Process>,
    context: Context<Log>,
) -> Lines {
    let seen = context.state().0.join("|");
    let visit = context.state().0.iter().filter(|line| line.starts_with(node)).count();
    let effect = |number: u8| {
        let key = format!("{node}-{visit}/{number}");
        let (context, process, seen) = (&context, &process, &seen);
        async move {
            context.emit(GraphEvent::new("before", json!([key, seen.len()])));
            let call = async {
                let delay = mix(&key, process.delay_seed + seen.len() as u64) % 7;
                tokio::time::sleep(Duration::from_millis(delay)).await;
                process.kill_point().await;
                let value = mix(&key, seen.len() as u64);
                match value % 5 {
                    0 => Err(Broken(format!("{value}"))),
                    _ => Ok(value),
                }
            };
            let tell = |value: &u64| vec![GraphEvent::new("after", json!([node, visit, value]))];
            match context.effect(&key, || test_fingerprint(seen), call, tell).await {
                Ok(value) => Ok::<String, NodeError>(value.to_string()),
                Err(EffectError::Failed(failed)) => Ok(context.record_failure(failed).await?.0),
                Err(stop) => Err(stop.into()),
            }
        }
    };
    let mut results = Vec::new();
    if together {
        results = futures_util::future::try_join_all((0..effects).map(effect)).await?;
    } else {
        for number in 0..effects {
            results.push(effect(number).await?);
        }
    }
    if visit % 2 == 1 {
        context.emit(GraphEvent::new("odd", json!([node, visit])));
    }
    Ok(vec![format!("{node}:{visit}:{:?}:{results:?}:{}", context.item(), mix(&seen, 0))])
}

/// Simulated process that runs the graph. It is killed when it reaches the kill point with the number `kill_at`. The
/// process is also the journal of the run, and forwards all calls to `journal`.
#[derive(Debug)]
struct Process {
    journal: Arc<MemoryJournal>,
    /// Seed of the delays of the effects, which determine the order in which effects finish.
    delay_seed: u64,
    kill_points: AtomicU64,
    kill_at: u64,
    killed: Cancel,
}

impl Process {
    /// Point at which the simulated process can be killed. Once the process is killed, this function never returns.
    async fn kill_point(&self) {
        if self.kill_points.fetch_add(1, Ordering::Relaxed) >= self.kill_at {
            self.killed.cancel("killed");
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait::async_trait]
impl Journal for Process {
    async fn find(&self, key: &EffectKey) -> Result<Option<EffectRecord>, JournalError> {
        self.journal.find(key).await
    }

    async fn append(
        &self,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, JournalError> {
        self.kill_point().await;
        let key = record.key.clone();
        let appended = self.journal.append(record, events).await?;
        assert!(matches!(appended, Appended::Recorded { .. }), "effect `{key}` was recorded twice");
        self.kill_point().await;
        Ok(appended)
    }
}

/// Runs the graph in a simulated process, which is killed at the kill point with the number `kill_at`. Returns the
/// final state, or `None` if the process was killed.
async fn run_process(
    piece: &Piece,
    journal: &Arc<MemoryJournal>,
    delay_seed: u64,
    kill_at: u64,
) -> Option<Vec<String>> {
    let kill_points = AtomicU64::new(0);
    let process = Arc::new(Process {
        journal: journal.clone(),
        delay_seed,
        kill_points,
        kill_at,
        killed: Cancel::new(),
    });
    let mut assembler =
        Assembler { graph: Some(Graph::builder("random")), nodes: 0, process: process.clone() };
    let (first, last) = assembler.add(piece);
    let graph = assembler.graph.unwrap().start(first).edge(last, END).compile().unwrap();
    let options = RunOptions::with_journal(process.clone());
    tokio::select! {
        biased;
        _ = process.killed.cancelled() => None,
        log = graph.run(Log::default(), options) => Some(log.unwrap().0),
    }
}

/// Returns all events as sorted text, so that their order does not depend on timing.
fn sorted_events(journal: &MemoryJournal) -> Vec<String> {
    let mut events: Vec<String> =
        journal.events().iter().map(|event| format!("{} {}", event.name, event.payload)).collect();
    events.sort_unstable();
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn killed_and_resumed_run_has_the_same_result_as_an_uninterrupted_run(
        piece in piece(),
        kills in vec(0..40u64, 1..6),
        delay_seed in any::<u32>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let whole = Arc::new(MemoryJournal::new());
            let expected = run_process(&piece, &whole, u64::from(delay_seed), u64::MAX).await.unwrap();

            let journal = Arc::new(MemoryJournal::new());
            let mut ended = None;
            for (attempt, kill_at) in kills.into_iter().enumerate() {
                ended = run_process(&piece, &journal, mix("delay_seed", attempt as u64), kill_at).await;
                if ended.is_some() {
                    break;
                }
            }
            if ended.is_none() {
                ended = run_process(&piece, &journal, 3, u64::MAX).await;
            }
            prop_assert_eq!(ended.unwrap(), expected);
            prop_assert_eq!(journal.records(), whole.records());
            prop_assert_eq!(sorted_events(&journal), sorted_events(&whole));
            Ok(())
        })?;
    }
}
