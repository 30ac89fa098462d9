//! Tests of failing nodes and cancelled runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_graph::{
    Branch, Context, END, Graph, GraphEvent, Journal, MemoryJournal, NodeError, RunError,
    RunOptions,
};
use assize_types::Cancel;

use crate::effects::{Broken, test_fingerprint};
use crate::order::Log;

#[tokio::test]
async fn cancelled_run_reports_the_reason_of_its_cancellation() {
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
async fn run_whose_node_fails_after_cancellation_is_reported_as_cancelled() {
    let cancel = Cancel::new();
    let options = RunOptions { cancel: cancel.clone(), ..RunOptions::default() };
    let body = move |_: Context<Log>| {
        cancel.cancel("enough");
        async { Err(NodeError::from(Broken("request aborted".to_owned()))) }
    };
    let graph = Graph::builder("one").node("only", body).start("only").edge("only", END);
    let error = graph.compile().unwrap().run(Log::default(), options).await.unwrap_err();
    assert!(
        matches!(&error, RunError::Cancelled { reason } if reason.to_string() == "enough"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn effects_in_progress_are_completed_and_recorded_when_another_branch_fails() {
    let journal = Arc::new(MemoryJournal::new());
    let started = Arc::new(Mutex::new(Vec::new()));
    let body = {
        let started = started.clone();
        move |context: Context<Log>| {
            let started = started.clone();
            async move {
                if context.item() == Some(&1) {
                    return Err(NodeError::from(Broken("branch 1 failed".to_owned())));
                }
                for call in ["slow", "later"] {
                    let work = async {
                        started.lock().unwrap().push(call);
                        tokio::time::sleep(Duration::from_secs(30)).await;
                        Ok::<_, Broken>(call.to_owned())
                    };
                    context.effect(call, || test_fingerprint(call), work, |_| vec![]).await?;
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
        ("work", "b1", "branch 1 failed")
    );
    assert_eq!(*started.lock().unwrap(), ["slow"]);
    let slow = assize_graph::EffectKey::new("b0/slow").unwrap();
    assert!(journal.find(&slow).await.unwrap().is_some());
}

#[tokio::test]
async fn panicking_node_fails_with_the_panic_message() {
    let body = |_: Context<Log>| async { panic!("invalid {}", "index") };
    let graph = Graph::builder("p").node("only", body).start("only").edge("only", END);
    let error = graph.compile().unwrap().run(Log::default(), RunOptions::default()).await;
    assert_eq!(error.unwrap_err().to_string(), "`only` failed: the node panicked: invalid index");
}

#[tokio::test]
async fn failure_in_a_subgraph_names_the_inner_and_the_outer_node() {
    let body = |_: Context<Log>| async { Err(NodeError::from(Broken("timed out".to_owned()))) };
    let inner = Graph::builder("inner").node("deep", body).start("deep").edge("deep", END);
    let inner = inner.compile().unwrap();
    let outer = Graph::builder("outer")
        .subgraph("inner", inner, |log: &Log, _| log.clone(), |log: Log| log.0)
        .start("inner")
        .edge("inner", END)
        .compile()
        .unwrap();
    let error = outer.run(Log::default(), RunOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "`inner` failed: `deep` failed: timed out");
}

#[tokio::test]
async fn repeated_executions_of_a_subgraph_have_distinct_event_keys() {
    // Both graphs have a node `open`. Each of these two nodes is visited twice in a loop.
    let journal = Arc::new(MemoryJournal::new());
    let emit = |context: &Context<Log>, graph: &str| {
        let seen = context.state().0.len();
        context
            .emit(GraphEvent::new("visited", serde_json::json!(format!("{graph} after {seen}"))));
    };
    let inner_body = move |context: Context<Log>| async move {
        emit(&context, "inside");
        Ok(vec![format!("inside after {}", context.state().0.len())])
    };
    let inner = Graph::builder("inner")
        .node("open", inner_body)
        .start("open")
        .edge("open", END)
        .compile()
        .unwrap();
    let outer_body = move |context: Context<Log>| async move {
        emit(&context, "outside");
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
    let events: Vec<String> = journal.events().iter().map(|e| e.payload.to_string()).collect();
    assert_eq!(
        events,
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
async fn subgraph_steps_count_toward_the_step_limit() {
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
