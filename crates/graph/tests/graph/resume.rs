//! Random graphs, killed at random moments: the run that goes on ends where the uninterrupted one
//! does, and repeats nothing that was finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assize_graph::{
    Appended, Branch, Context, END, EffectError, Event, FanOut, Graph, GraphBuilder, Journal,
    JournalError, Key, MemoryJournal, NodeError, Record, RunOptions,
};
use assize_types::Cancel;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::effects::{Broken, print};
use crate::order::{Lines, Log, one_each};

/// A random piece of work, from which a graph is made.
#[derive(Debug, Clone)]
enum Piece {
    /// A node with so many effects, one after the other or side by side.
    Step {
        effects: u8,
        together: bool,
    },
    Sequence(Vec<Piece>),
    /// Branches side by side, different ones.
    Parallel(Vec<Piece>),
    /// So many branches of the same kind, so many of them at once.
    Fan {
        branches: u8,
        at_once: u8,
        piece: Box<Piece>,
    },
    /// Again and again.
    Loop {
        times: u8,
        piece: Box<Piece>,
    },
    /// As a graph of its own.
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
    print(text).seed().wrapping_add(more).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        ^ text.bytes().fold(more, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

/// Nodes are named by numbers; names live as long as the program.
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

/// Makes a graph of a piece of work.
struct Weaver {
    graph: Option<GraphBuilder<Log>>,
    nodes: usize,
    life: Arc<Life>,
}

impl Weaver {
    fn change(&mut self, change: impl FnOnce(GraphBuilder<Log>) -> GraphBuilder<Log>) {
        self.graph = self.graph.take().map(change);
    }

    fn node(&mut self, effects: u8, together: bool) -> &'static str {
        let node = name(self.nodes);
        self.nodes += 1;
        let life = self.life.clone();
        let body = move |context| work(node, effects, together, life.clone(), context);
        self.change(|graph| graph.node(node, body));
        node
    }

    /// Adds a piece; gives its first node, and its last, whose exit is still open.
    fn weave(&mut self, piece: &Piece) -> (&'static str, &'static str) {
        match piece {
            Piece::Step { effects, together } => {
                let node = self.node(*effects, *together);
                (node, node)
            }
            Piece::Sequence(pieces) => {
                let woven: Vec<_> = pieces.iter().map(|piece| self.weave(piece)).collect();
                for pair in woven.windows(2) {
                    self.change(|graph| graph.edge(pair[0].1, pair[1].0));
                }
                (woven[0].0, woven[woven.len() - 1].1)
            }
            Piece::Parallel(pieces) => {
                let fork = self.node(0, false);
                let woven: Vec<_> = pieces.iter().map(|piece| self.weave(piece)).collect();
                let join = self.node(0, false);
                let (a, b, c) = (woven[0].0, woven.get(1), woven.get(2));
                self.change(|graph| match (b, c) {
                    (None, _) => graph.fan_out(fork, [a], join, move |_| one_each([a])),
                    (Some(&(b, _)), None) => {
                        graph.fan_out(fork, [a, b], join, move |_| one_each([a, b]))
                    }
                    (Some(&(b, _)), Some(&(c, _))) => {
                        graph.fan_out(fork, [a, b, c], join, move |_| one_each([a, b, c]))
                    }
                });
                for (_, last) in woven {
                    self.change(|graph| graph.edge(last, join));
                }
                (fork, join)
            }
            Piece::Fan { branches, at_once, piece } => {
                let fork = self.node(0, false);
                let (first, last) = self.weave(piece);
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
                            FanOut::from(branches).at_once(at_once)
                        })
                        .edge(last, join)
                });
                (fork, join)
            }
            Piece::Inner(piece) => {
                let graph = Some(Graph::builder("inner"));
                let mut inner = Weaver { graph, nodes: self.nodes, life: self.life.clone() };
                let (first, last) = inner.weave(piece);
                self.nodes = inner.nodes + 1;
                let graph = inner.graph.unwrap().start(first).edge(last, END).compile().unwrap();
                let node = name(inner.nodes);
                // A mark says from where on the lines are its own.
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
                let (first, last) = self.weave(piece);
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
    life: Arc<Life>,
    context: Context<Log>,
) -> Lines {
    let seen = context.state().0.join("|");
    let visit = context.state().0.iter().filter(|line| line.starts_with(node)).count();
    let effect = |number: u8| {
        let key = format!("{node}-{visit}/{number}");
        let (context, life, seen) = (&context, &life, &seen);
        async move {
            context.emit(Event::new("before", json!([key, seen.len()])));
            let call = async {
                let delay = mix(&key, life.mood + seen.len() as u64) % 7;
                tokio::time::sleep(Duration::from_millis(delay)).await;
                life.moment().await;
                let value = mix(&key, seen.len() as u64);
                match value % 5 {
                    0 => Err(Broken(format!("{value}"))),
                    _ => Ok(value),
                }
            };
            let tell = |value: &u64| vec![Event::new("after", json!([node, visit, value]))];
            match context.effect(&key, || print(seen), call, tell).await {
                Ok(value) => Ok::<String, NodeError>(value.to_string()),
                Err(EffectError::Failed(failed)) => Ok(context.go_on(failed).await?.0),
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
        context.emit(Event::new("odd", json!([node, visit])));
    }
    Ok(vec![format!("{node}:{visit}:{:?}:{results:?}:{}", context.item(), mix(&seen, 0))])
}

/// One life of the process that runs the graph: it ends at a given moment.
#[derive(Debug)]
struct Life {
    journal: Arc<MemoryJournal>,
    /// Decides what is faster than what.
    mood: u64,
    moments: AtomicU64,
    dies_at: u64,
    dead: Cancel,
}

impl Life {
    /// A moment at which the process may die. Nothing happens after that.
    async fn moment(&self) {
        if self.moments.fetch_add(1, Ordering::Relaxed) >= self.dies_at {
            self.dead.cancel("killed");
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait::async_trait]
impl Journal for Life {
    async fn find(&self, key: &Key) -> Result<Option<Record>, JournalError> {
        self.journal.find(key).await
    }

    async fn append(&self, record: Record, events: Vec<Event>) -> Result<Appended, JournalError> {
        self.moment().await;
        let key = record.key.clone();
        let appended = self.journal.append(record, events).await?;
        assert!(matches!(appended, Appended::Recorded { .. }), "`{key}` was done twice");
        self.moment().await;
        Ok(appended)
    }
}

/// Runs the work in a life that ends after so many moments; the state, if it got to the end.
async fn live(
    piece: &Piece,
    journal: &Arc<MemoryJournal>,
    mood: u64,
    dies_at: u64,
) -> Option<Vec<String>> {
    let moments = AtomicU64::new(0);
    let life =
        Arc::new(Life { journal: journal.clone(), mood, moments, dies_at, dead: Cancel::new() });
    let mut weaver = Weaver { graph: Some(Graph::builder("random")), nodes: 0, life: life.clone() };
    let (first, last) = weaver.weave(piece);
    let graph = weaver.graph.unwrap().start(first).edge(last, END).compile().unwrap();
    let options = RunOptions::with_journal(life.clone());
    tokio::select! {
        biased;
        _ = life.dead.cancelled() => None,
        log = graph.run(Log::default(), options) => Some(log.unwrap().0),
    }
}

/// Events in an order that does not depend on timing.
fn told(journal: &MemoryJournal) -> Vec<String> {
    let mut told: Vec<String> =
        journal.events().iter().map(|event| format!("{} {}", event.name, event.payload)).collect();
    told.sort_unstable();
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_killed_run_ends_where_the_uninterrupted_one_does(
        piece in piece(),
        deaths in vec(0..40u64, 1..6),
        mood in any::<u32>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let whole = Arc::new(MemoryJournal::new());
            let expected = live(&piece, &whole, u64::from(mood), u64::MAX).await.unwrap();

            let journal = Arc::new(MemoryJournal::new());
            let mut ended = None;
            for (life, dies_at) in deaths.into_iter().enumerate() {
                ended = live(&piece, &journal, mix("mood", life as u64), dies_at).await;
                if ended.is_some() {
                    break;
                }
            }
            if ended.is_none() {
                ended = live(&piece, &journal, 3, u64::MAX).await;
            }
            prop_assert_eq!(ended.unwrap(), expected);
            prop_assert_eq!(journal.records(), whole.records());
            prop_assert_eq!(told(&journal), told(&whole));
            Ok(())
        })?;
    }
}
