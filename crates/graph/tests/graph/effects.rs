//! Tests of effects: an effect is executed once, its events are written once, and a changed request is rejected.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use assize_graph::{
    Context, END, EffectError, EffectKey, EffectOutcome, EffectRecord, EffectStage, ForkJournal,
    Graph, GraphEvent, Journal, MemoryJournal, RunError, RunOptions, Signal,
};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::order::{Lines, Log};

/// Serializable error of a test effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(pub(crate) String);

pub(crate) fn test_fingerprint(text: &str) -> Fingerprint {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    for (index, byte) in text.bytes().enumerate() {
        bytes[8 + index % 24] ^= byte.rotate_left(index as u32 % 8);
    }
    Fingerprint::from_bytes(bytes)
}

/// Builds a graph with a single node.
fn single_node<F, Fut>(body: F) -> Graph<Log>
where
    F: Fn(Context<Log>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Lines> + Send + 'static,
{
    Graph::builder("one").node("only", body).start("only").edge("only", END).compile().unwrap()
}

fn single_effect_graph(question: &'static str, calls: &Arc<AtomicU64>) -> Graph<Log> {
    let calls = calls.clone();
    single_node(move |context| {
        let calls = calls.clone();
        async move {
            let call = async {
                calls.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Broken>(format!("answer to {question}"))
            };
            let tell = |answer: &String| vec![GraphEvent::new("answered", json!(answer))];
            context.emit(GraphEvent::new("asking", json!(question)));
            let answer = context.effect("ask", || test_fingerprint(question), call, tell).await?;
            context.emit(GraphEvent::new("done", json!(null)));
            Ok(vec![answer])
        }
    })
}

fn names(journal: &MemoryJournal) -> Vec<String> {
    journal.events().into_iter().map(|event| event.name).collect()
}

#[tokio::test]
async fn resumed_run_neither_executes_a_recorded_effect_nor_writes_its_events_again() {
    let journal = Arc::new(MemoryJournal::new());
    let calls = Arc::new(AtomicU64::new(0));
    for _ in 0..3 {
        let options = RunOptions::with_journal(journal.clone());
        let log = single_effect_graph("why", &calls).run(Log::default(), options).await.unwrap();
        assert_eq!(log.0, ["answer to why"]);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(names(&journal), ["asking", "answered", "done"]);
    let records = journal.records();
    let keys: Vec<&str> = records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["ask", "ask.begun", "graph", "only.1/events"]);
    assert_eq!(records[0].outcome, EffectOutcome::Done("\"answer to why\"".to_owned()));
}

#[tokio::test]
async fn events_emitted_before_an_effect_are_written_before_its_call() {
    let journal = Arc::new(MemoryJournal::new());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (events, seen_by_call) = (journal.clone(), seen.clone());
    let graph = single_node(move |context| {
        let (events, seen_by_call) = (events.clone(), seen_by_call.clone());
        async move {
            context.emit(GraphEvent::new("asking", json!(null)));
            let call = async {
                let mut seen = seen_by_call.lock().unwrap();
                seen.push(names(&events));
                // Only the first attempt fails.
                if seen.len() == 1 { Err(Broken("connection lost".to_owned())) } else { Ok(1) }
            };
            let tell = |_: &i32| vec![GraphEvent::new("answered", json!(null))];
            context.effect("ask", || test_fingerprint("x"), call, tell).await?;
            Ok(vec![])
        }
    });
    let options = || RunOptions::with_journal(journal.clone());
    graph.run(Log::default(), options()).await.unwrap_err();
    graph.run(Log::default(), options()).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [["asking"], ["asking"]]);
    assert_eq!(names(&journal), ["asking", "answered"]);
}

#[tokio::test]
async fn changed_request_is_rejected_on_resume_and_executed_in_a_fork() {
    let journal = Arc::new(MemoryJournal::new());
    let calls = Arc::new(AtomicU64::new(0));
    let run = |question, journal: Arc<dyn Journal>| {
        let graph = single_effect_graph(question, &calls);
        async move { graph.run(Log::default(), RunOptions::with_journal(journal)).await }
    };
    run("why", journal.clone()).await.unwrap();
    let error = run("how", journal.clone()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the request of effect `ask` differs from the request recorded in this run"
    );

    let fork =
        |own: &Arc<MemoryJournal>| Arc::new(ForkJournal::new(own.clone(), journal.records()));
    let own = Arc::new(MemoryJournal::new());
    assert_eq!(run("how", fork(&own)).await.unwrap().0, ["answer to how"]);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let own = Arc::new(MemoryJournal::new());
    assert_eq!(run("why", fork(&own)).await.unwrap().0, ["answer to why"]);
    assert_eq!(
        calls.load(Ordering::Relaxed),
        2,
        "the outcome of the unchanged request must be reused"
    );
    // The journal of the fork is self-contained: it has the reused record and all events.
    assert_eq!(names(&own), ["asking", "answered", "done"]);
    assert_eq!(run("why", own).await.unwrap().0, ["answer to why"]);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn changed_graph_is_rejected_on_resume_and_allowed_in_a_fork() {
    let journal = Arc::new(MemoryJournal::new());
    let idle = |_: Context<Log>| async { Ok(vec![]) };
    let graph =
        |node| Graph::builder("g").node(node, idle).start(node).edge(node, END).compile().unwrap();
    let options = || RunOptions::with_journal(journal.clone());
    graph("a").run(Log::default(), options()).await.unwrap();
    graph("a").run(Log::default(), options()).await.unwrap();
    let error = graph("b").run(Log::default(), options()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "graph `g` differs from the graph that this run was started with"
    );
    let forked = Arc::new(ForkJournal::new(MemoryJournal::new(), journal.records()));
    graph("b").run(Log::default(), RunOptions::with_journal(forked)).await.unwrap();
}

#[tokio::test]
async fn resumed_run_retries_fatal_failures_and_replays_handled_failures() {
    let journal = Arc::new(MemoryJournal::new());
    let broken = Arc::new(Mutex::new(true));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let graph = {
        let (broken, calls) = (broken.clone(), calls.clone());
        single_node(move |context| {
            let (broken, calls) = (broken.clone(), calls.clone());
            async move {
                let call = |name: &'static str| {
                    calls.lock().unwrap().push(name);
                    let result = match *broken.lock().unwrap() {
                        true => Err(Broken(format!("{name} is down"))),
                        false => Ok(format!("{name} is up")),
                    };
                    std::future::ready(result)
                };
                let none = |_: &String| vec![];
                let first = context.effect(
                    "first",
                    || test_fingerprint("1"),
                    async { call("first").await },
                    none,
                );
                let first = match first.await {
                    Ok(value) => value,
                    Err(EffectError::Failed(failed)) => context.record_failure(failed).await?.0,
                    Err(stop) => return Err(stop.into()),
                };
                let second = context
                    .effect(
                        "second",
                        || test_fingerprint("2"),
                        async { call("second").await },
                        none,
                    )
                    .await?;
                Ok(vec![first, second])
            }
        })
    };
    let options = || RunOptions::with_journal(journal.clone());
    let error = graph.run(Log::default(), options()).await.unwrap_err();
    assert_eq!(error.to_string(), "`only` failed: second is down");
    *broken.lock().unwrap() = false;
    let log = graph.run(Log::default(), options()).await.unwrap();
    assert_eq!(log.0, ["first is down", "second is up"]);
    assert_eq!(*calls.lock().unwrap(), ["first", "second", "second"]);
}

#[tokio::test]
async fn duplicate_and_invalid_effect_keys_are_rejected() {
    let ask = |context: Context<Log>, key: &'static str| async move {
        let call = async { Ok::<_, Broken>(1) };
        context.effect(key, || test_fingerprint("x"), call, |_| vec![]).await
    };
    let twice = single_node(move |context| async move {
        ask(context.clone(), "same").await?;
        ask(context, "same").await?;
        Ok(vec![])
    });
    let error = twice.run(Log::default(), RunOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "effect key `same` is used twice in one run");
    let bad = single_node(move |context| async move {
        ask(context, "no good").await?;
        Ok(vec![])
    });
    let error = bad.run(Log::default(), RunOptions::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid effect key `no good`"), "{error}");
}

/// Test journal that simulates a race: another process always records an effect first.
struct RacedJournal;

#[async_trait::async_trait]
impl Journal for RacedJournal {
    async fn find(
        &self,
        _: &EffectKey,
    ) -> Result<Option<EffectRecord>, assize_graph::JournalError> {
        Ok(None)
    }

    async fn append(
        &self,
        record: EffectRecord,
        _: Vec<GraphEvent>,
    ) -> Result<assize_graph::Appended, assize_graph::JournalError> {
        if record.key.as_str() == "graph" {
            return Ok(assize_graph::Appended::Recorded { event_ids: vec![] });
        }
        let outcome = EffectOutcome::Done("\"theirs\"".to_owned());
        Ok(assize_graph::Appended::Existing(EffectRecord { outcome, ..record }))
    }
}

#[tokio::test]
async fn effect_returns_the_outcome_that_another_process_recorded_first() {
    let graph = single_node(|context| async move {
        let call = async { Ok::<_, Broken>("ours".to_owned()) };
        Ok(vec![context.effect("ask", || test_fingerprint("x"), call, |_| vec![]).await?])
    });
    let options = RunOptions::with_journal(Arc::new(RacedJournal));
    assert_eq!(graph.run(Log::default(), options).await.unwrap().0, ["theirs"]);
}

#[tokio::test]
async fn observer_is_notified_when_an_effect_is_started_recorded_or_replayed() {
    let journal = Arc::new(MemoryJournal::new());
    let calls = Arc::new(AtomicU64::new(0));
    let stages = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..2 {
        let seen = stages.clone();
        let observer = move |signal: &Signal<'_>| match signal {
            Signal::Effect { stage, .. } => seen.lock().unwrap().push(*stage),
            Signal::Event { id, .. } => assert!(id.is_some()),
            Signal::NodeFinished { .. } => {}
        };
        let mut options = RunOptions::with_journal(journal.clone());
        options.observer = Some(Arc::new(observer));
        single_effect_graph("why", &calls).run(Log::default(), options).await.unwrap();
    }
    use EffectStage::{Recorded, Replayed, Started};
    assert_eq!(*stages.lock().unwrap(), [Started, Recorded, Replayed]);
}

#[tokio::test]
async fn journal_record_that_does_not_decode_into_the_expected_type_fails_the_run() {
    let journal = Arc::new(MemoryJournal::new());
    let number = single_node(|context| async move {
        let call = async { Ok::<_, Broken>(1) };
        context.effect("ask", || test_fingerprint("x"), call, |_| vec![]).await?;
        Ok(vec![])
    });
    let text = single_node(|context| async move {
        let call = async { Ok::<_, Broken>(String::new()) };
        Ok(vec![context.effect("ask", || test_fingerprint("x"), call, |_| vec![]).await?])
    });
    let options = || RunOptions::with_journal(journal.clone());
    number.run(Log::default(), options()).await.unwrap();
    let error = text.run(Log::default(), options()).await.unwrap_err();
    assert!(matches!(error, RunError::Unreadable { .. }), "{error}");
}
