//! Nodes that fail, and runs that are cancelled.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_graph::{
    Branch, Context, END, Event, Graph, Journal, MemoryJournal, NodeError, RunError, RunOptions,
};
use assize_types::Cancel;

use crate::effects::{Broken, print};
use crate::order::Log;

#[tokio::test]
async fn a_cancelled_run_says_why() {
    let cancel = Cancel::new();
    let options = RunOptions { cancel: cancel.clone(), ..RunOptions::default() };
    let hangs = |_: Context<Log>| std::future::pending();
    let graph = Graph::builder("one").node("only", hangs).start("only").edge("only", END);
    let graph = graph.compile().unwrap();
    let run = graph.run(Log::default(), options);
    let (result, ()) = tokio::join!(run, async { cancel.cancel("interrupted") });
    let error = result.unwrap_err();
    assert!(
        matches!(&error, RunError::Cancelled { reason } if reason.to_string() == "interrupted")
    );
    assert_eq!(error.to_string(), "interrupted");
}

#[tokio::test]
async fn a_node_that_fails_because_it_was_cancelled_has_not_failed() {
    let cancel = Cancel::new();
    let options = RunOptions { cancel: cancel.clone(), ..RunOptions::default() };
    let body = move |_: Context<Log>| {
        cancel.cancel("enough");
        async { Err(NodeError::from(Broken("cut short".to_owned()))) }
    };
    let graph = Graph::builder("one").node("only", body).start("only").edge("only", END);
    let error = graph.compile().unwrap().run(Log::default(), options).await.unwrap_err();
    assert!(
        matches!(&error, RunError::Cancelled { reason } if reason.to_string() == "enough"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_when_another_part_fails_is_finished_and_kept() {
    let journal = Arc::new(MemoryJournal::new());
    let begun = Arc::new(Mutex::new(Vec::new()));
    let body = {
        let begun = begun.clone();
        move |context: Context<Log>| {
            let begun = begun.clone();
            async move {
                if context.item() == Some(&1) {
                    return Err(NodeError::from(Broken("out of order".to_owned())));
                }
                for call in ["slow", "later"] {
                    let work = async {
                        begun.lock().unwrap().push(call);
                        tokio::time::sleep(Duration::from_secs(30)).await;
                        Ok::<_, Broken>(call.to_owned())
                    };
                    context.effect(call, || print(call), work, |_| vec![]).await?;
                }
                Ok(vec![])
            }
        }
    };
    let graph = Graph::builder("halt")
        .node("open", |_| async { Ok(vec![]) })
        .node("work", body)
        .node("join", |_| async { Ok(vec![]) })
        .start("open")
        .fan_out("open", ["work"], "join", |_| {
            [0, 1].map(|item| Branch::new("work", format!("b{item}"), item)).into()
        })
        .edge("work", "join")
        .edge("join", END)
        .compile()
        .unwrap();
    let options = RunOptions::with_journal(journal.clone());
    let error = graph.run(Log::default(), options).await.unwrap_err();
    let RunError::Node { node, scope, source } = &error else { panic!("{error}") };
    assert_eq!(
        (*node, scope.as_str(), source.to_string().as_str()),
        ("work", "b1", "out of order")
    );
    assert_eq!(*begun.lock().unwrap(), ["slow"]);
    let slow = assize_graph::Key::new("b0/slow").unwrap();
    assert!(journal.find(&slow).await.unwrap().is_some());
}

#[tokio::test]
async fn a_panic_is_a_failure_of_its_node() {
    let body = |_: Context<Log>| async { panic!("out of {}", "cheese") };
    let graph = Graph::builder("p").node("only", body).start("only").edge("only", END);
    let error = graph.compile().unwrap().run(Log::default(), RunOptions::default()).await;
    assert_eq!(error.unwrap_err().to_string(), "`only` failed: it panicked: out of cheese");
}

#[tokio::test]
async fn failure_in_subgraph_names_both_nodes() {
    let body = |_: Context<Log>| async { Err(NodeError::from(Broken("torn".to_owned()))) };
    let inner = Graph::builder("inner").node("deep", body).start("deep").edge("deep", END);
    let inner = inner.compile().unwrap();
    let outer = Graph::builder("outer")
        .subgraph("inner", inner, |log: &Log, _| log.clone(), |log: Log| log.0)
        .start("inner")
        .edge("inner", END)
        .compile()
        .unwrap();
    let error = outer.run(Log::default(), RunOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "`inner` failed: `deep` failed: torn");
}

#[tokio::test]
async fn visits_within_a_graph_within_a_graph_are_told_apart() {
    // The same node name inside and outside, twice in a loop.
    let journal = Arc::new(MemoryJournal::new());
    let tell = |context: &Context<Log>, place: &str| {
        let seen = context.state().0.len();
        context.emit(Event::new("told", serde_json::json!(format!("{place} after {seen}"))));
    };
    let inner_body = move |context: Context<Log>| async move {
        tell(&context, "inside");
        Ok(vec![format!("inside after {}", context.state().0.len())])
    };
    let inner = Graph::builder("inner")
        .node("open", inner_body)
        .start("open")
        .edge("open", END)
        .compile()
        .unwrap();
    let outer_body = move |context: Context<Log>| async move {
        tell(&context, "outside");
        Ok(vec!["outside".to_owned()])
    };
    let outer = Graph::builder("outer")
        .node("open", outer_body)
        .subgraph(
            "inner",
            inner,
            |log: &Log, _| log.clone(),
            |log: Log| log.0.last().cloned().into_iter().collect(),
        )
        .start("open")
        .edge("open", "inner")
        .route("inner", ["open", END], |log, _| if log.0.len() < 4 { "open" } else { END })
        .compile()
        .unwrap();
    for _ in 0..2 {
        let options = RunOptions::with_journal(journal.clone());
        let log = outer.run(Log::default(), options).await.unwrap();
        assert_eq!(log.0, ["outside", "inside after 1", "outside", "inside after 3"]);
    }
    let told: Vec<String> = journal.events().iter().map(|e| e.payload.to_string()).collect();
    assert_eq!(
        told,
        ["\"outside after 0\"", "\"inside after 1\"", "\"outside after 2\"", "\"inside after 3\""]
    );
    let keys: Vec<String> = journal.records().iter().map(|r| r.key.to_string()).collect();
    assert_eq!(
        keys,
        [
            "graph",
            "inner.1/open.1/events",
            "inner.2/open.1/events",
            "open.1/events",
            "open.2/events"
        ]
    );
}

#[tokio::test]
async fn a_graph_within_a_node_counts_its_steps_from_there() {
    let idle = |_: Context<Log>| async { Ok(vec![]) };
    let inner = Graph::builder("inner")
        .node("a", idle)
        .node("b", idle)
        .start("a")
        .edge("a", "b")
        .edge("b", END)
        .compile()
        .unwrap();
    let outer = Graph::builder("outer")
        .node("first", idle)
        .subgraph("second", inner, |log: &Log, _| log.clone(), |log: Log| log.0)
        .start("first")
        .edge("first", "second")
        .edge("second", END)
        .compile()
        .unwrap();
    let run =
        |step_limit| outer.run(Log::default(), RunOptions { step_limit, ..RunOptions::default() });
    run(3).await.unwrap();
    let error = run(2).await.unwrap_err();
    assert!(matches!(error, RunError::StepLimit { node: "b", limit: 2 }), "{error}");
}
