//! Tests of the state that nodes see and the order in which updates are applied.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_graph::{Branch, Context, END, FanOut, Graph, NodeError, RunError, RunOptions, State};
use tokio::sync::Notify;

/// Test state: a log with one line per update.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Log(pub(crate) Vec<String>);

impl State for Log {
    type Update = String;
    type Item = u64;

    fn apply(&mut self, line: String) {
        self.0.push(line);
    }
}

pub(crate) type Lines = Result<Vec<String>, NodeError>;

/// Returns the code of a node that appends its name and item to the log.
fn writes_name(
    name: &'static str,
) -> impl Fn(Context<Log>) -> std::future::Ready<Lines> + Send + Sync + 'static {
    move |context| {
        let item = context.item().map(|item| format!("({item})")).unwrap_or_default();
        std::future::ready(Ok(vec![format!("{name}{item}")]))
    }
}

/// Returns a fan-out with one branch for each node in `to`. The item of a branch is its index.
pub(crate) fn one_each<const N: usize>(to: [&'static str; N]) -> FanOut<u64> {
    let branch = |(number, node)| Branch::new(node, node, number);
    (0..).zip(to).map(branch).collect::<Vec<_>>().into()
}

fn diamond(slow: Duration) -> Graph<Log> {
    Graph::builder("diamond")
        .node("open", writes_name("open"))
        .node("left", move |context| async move {
            tokio::time::sleep(slow).await;
            Ok(vec![format!("left saw {:?}", context.state().0)])
        })
        .node(
            "right",
            |context| async move { Ok(vec![format!("right saw {:?}", context.state().0)]) },
        )
        .node("right_again", |context| async move {
            Ok(vec![format!("right_again saw {}", context.state().0.len())])
        })
        .node(
            "join",
            |context| async move { Ok(vec![format!("join saw {}", context.state().0.len())]) },
        )
        .start("open")
        .fan_out("open", ["left", "right"], "join", |_| one_each(["left", "right"]))
        .edge("left", "join")
        .edge("right", "right_again")
        .edge("right_again", "join")
        .edge("join", END)
        .compile()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn join_applies_updates_in_branch_order_and_branches_do_not_see_updates_of_other_branches() {
    for slow in [0, 60] {
        let log =
            diamond(Duration::from_secs(slow)).run(Log::default(), RunOptions::default()).await;
        assert_eq!(
            log.unwrap().0,
            [
                "open",
                "left saw [\"open\"]",
                "right saw [\"open\"]",
                "right_again saw 2",
                "join saw 4"
            ]
        );
    }
}

#[tokio::test]
async fn slow_branch_does_not_block_the_other_branches() {
    // The slow branch waits for the fast branch to finish, so a barrier between the branches would cause a deadlock.
    let fast_is_through = Arc::new(Notify::new());
    let (waiter, notifier) = (fast_is_through.clone(), fast_is_through);
    let graph = Graph::builder("lanes")
        .node("open", writes_name("open"))
        .node("slow", move |_| {
            let waiter = waiter.clone();
            async move {
                waiter.notified().await;
                Ok(vec!["slow".to_owned()])
            }
        })
        .node("fast", writes_name("fast"))
        .node("faster", writes_name("faster"))
        .node("fastest", move |_| {
            notifier.notify_one();
            async { Ok(vec!["fastest".to_owned()]) }
        })
        .node("join", writes_name("join"))
        .start("open")
        .fan_out("open", ["slow", "fast"], "join", |_| one_each(["slow", "fast"]))
        .edge("slow", "join")
        .edge("fast", "faster")
        .edge("faster", "fastest")
        .edge("fastest", "join")
        .edge("join", END)
        .compile()
        .unwrap();
    let log = graph.run(Log::default(), RunOptions::default()).await.unwrap();
    assert_eq!(log.0, ["open", "slow", "fast(1)", "faster(1)", "fastest", "join"]);
}

/// Number of branches that are running now, and the maximum number that ran at once.
type Running = Arc<Mutex<(u64, u64)>>;

fn fan(count: u64, at_once: usize, running: Running) -> Graph<Log> {
    Graph::builder("fan")
        .node("open", writes_name("open"))
        .node("work", move |context| {
            let running = running.clone();
            async move {
                {
                    let (now, most) = &mut *running.lock().unwrap();
                    *now += 1;
                    *most = (*most).max(*now);
                }
                let item = *context.item().unwrap();
                // The first branches sleep longest, so they finish last.
                tokio::time::sleep(Duration::from_secs(100 - item)).await;
                running.lock().unwrap().0 -= 1;
                Ok(vec![format!("work {item}")])
            }
        })
        .node(
            "again",
            |context| async move { Ok(vec![format!("again {}", context.item().unwrap())]) },
        )
        .node("join", writes_name("join"))
        .start("open")
        .fan_out("open", ["work"], "join", move |_| {
            let branch = |item: u64| Branch::new("work", format!("b{item}"), item);
            FanOut::from((0..count).map(branch).collect::<Vec<_>>()).max_concurrency(at_once)
        })
        .edge("work", "again")
        .edge("again", "join")
        .edge("join", END)
        .compile()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn fan_out_result_does_not_depend_on_concurrency() {
    let mut expected = vec!["open".to_owned()];
    expected.extend((0..7).flat_map(|item| [format!("work {item}"), format!("again {item}")]));
    expected.push("join".to_owned());
    for at_once in [1, 2, 100] {
        let graph = fan(7, at_once, Running::default());
        let log = graph.run(Log::default(), RunOptions::default()).await.unwrap();
        assert_eq!(log.0, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn fan_out_respects_its_concurrency_limit() {
    let running = Running::default();
    fan(9, 4, running.clone()).run(Log::default(), RunOptions::default()).await.unwrap();
    assert_eq!(*running.lock().unwrap(), (0, 4));
}

#[tokio::test]
async fn empty_fan_out_continues_at_its_join() {
    let graph = fan(0, 1, Running::default());
    let log = graph.run(Log::default(), RunOptions::default()).await.unwrap();
    assert_eq!(log.0, ["open", "join"]);
}

#[tokio::test]
async fn nested_and_repeated_fan_outs_apply_updates_in_branch_order() {
    let inner_rounds = |log: &Log| log.0.iter().filter(|line| line.starts_with("inner")).count();
    let graph = Graph::builder("nest")
        .node("open", writes_name("open"))
        .node("outer", writes_name("outer"))
        .node("inner", writes_name("inner"))
        .node("inner_join", writes_name("inner_join"))
        .node("join", writes_name("join"))
        .start("open")
        .fan_out("open", ["outer"], "join", |_| {
            [Branch::new("outer", "a", 1), Branch::new("outer", "b", 2)].into()
        })
        .fan_out("outer", ["inner"], "inner_join", |log| {
            // Each outer branch runs two rounds of two inner branches.
            let base = log.0.len() as u64 * 10;
            [Branch::new("inner", "x", base), Branch::new("inner", "y", base + 1)].into()
        })
        .edge("inner", "inner_join")
        .route("inner_join", ["outer", "join"], move |log, _| {
            if inner_rounds(log) < 4 { "outer" } else { "join" }
        })
        .edge("join", END)
        .compile()
        .unwrap();
    let log = graph.run(Log::default(), RunOptions::default()).await.unwrap();
    let branch = |item: u64| {
        vec![
            format!("outer({item})"),
            "inner(20)".to_owned(),
            "inner(21)".to_owned(),
            format!("inner_join({item})"),
            format!("outer({item})"),
            "inner(60)".to_owned(),
            "inner(61)".to_owned(),
            format!("inner_join({item})"),
        ]
    };
    let mut expected = vec!["open".to_owned()];
    expected.extend(branch(1));
    expected.extend(branch(2));
    expected.push("join".to_owned());
    assert_eq!(log.0, expected);
}

#[tokio::test]
async fn subgraph_runs_as_a_node_of_another_graph() {
    let inner = diamond(Duration::ZERO);
    let graph = Graph::builder("outer")
        .node("open", writes_name("hello"))
        .subgraph(
            "inner",
            inner,
            |log: &Log, _| log.clone(),
            |log: Log| vec![format!("inner wrote {}", log.0.len() - 1)],
        )
        .start("open")
        .edge("open", "inner")
        .edge("inner", END)
        .compile()
        .unwrap();
    let log = graph.run(Log::default(), RunOptions::default()).await.unwrap();
    assert_eq!(log.0, ["hello", "inner wrote 5"]);
}

#[tokio::test]
async fn graph_with_an_endless_loop_fails_at_the_step_limit() {
    let graph = Graph::builder("loop")
        .node("again", writes_name("again"))
        .start("again")
        .route("again", ["again", END], |_, _| "again")
        .compile()
        .unwrap();
    let options = RunOptions { step_limit: 12, ..RunOptions::default() };
    let error = graph.run(Log::default(), options).await.unwrap_err();
    assert!(matches!(error, RunError::StepLimit { node: "again", limit: 12 }));
    assert_eq!(error.to_string(), "the run reached its step limit (12) before node `again`");
}

#[tokio::test]
async fn route_to_an_undeclared_target_fails_and_names_both_nodes() {
    let graph = Graph::builder("choice")
        .node("a", writes_name("a"))
        .node("b", writes_name("b"))
        .start("a")
        .route("a", [END], |_, _| "b")
        .edge("b", END)
        .compile();
    // This graph is invalid, because no declared target leads to `b`.
    assert!(graph.is_err());
    let graph = Graph::builder("choice")
        .node("a", writes_name("a"))
        .start("a")
        .route("a", [END], |_, _| "nowhere")
        .compile()
        .unwrap();
    let error = graph.run(Log::default(), RunOptions::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "node `a` chose `nowhere`, which is not one of its declared targets"
    );
}

#[test]
fn graph_renders_as_mermaid() {
    let inner = diamond(Duration::ZERO);
    let graph = Graph::builder("outer")
        .node("open", writes_name("open"))
        .subgraph("inner", inner, |log: &Log, _| log.clone(), |log: Log| log.0)
        .node("check-it", writes_name("check"))
        .start("open")
        .fan_out("open", ["inner"], "check-it", |_| FanOut::from(vec![]))
        .edge("inner", "check-it")
        .route("check-it", ["open", END], |_, _| END)
        .compile()
        .unwrap();
    insta::assert_snapshot!(graph.mermaid(), @r"
    flowchart TD
        START([start])
        END([end])
        open[open]
        subgraph inner[inner]
            inner__START([start])
            inner__END([end])
            inner__open[open]
            inner__left[left]
            inner__right[right]
            inner__right_again[right_again]
            inner__join[join]
            inner__START --> inner__open
            inner__open ==>|each| inner__left
            inner__open ==>|each| inner__right
            inner__left --> inner__join
            inner__right --> inner__right_again
            inner__right_again --> inner__join
            inner__join --> inner__END
        end
        check_it[check-it]
        START --> open
        open ==>|each| inner
        inner --> check_it
        check_it -.-> open
        check_it -.-> END
    ");
}
