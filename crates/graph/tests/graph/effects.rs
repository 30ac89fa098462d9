//! Effects: done once, told once, refused when they have changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use assize_graph::{
    Context, END, EffectError, EffectStage, Event, Fork, Graph, Journal, Key, MemoryJournal,
    Outcome, Record, RunError, RunOptions, Signal,
};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::order::{Lines, Log};

/// A failure that can be written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(pub(crate) String);

pub(crate) fn print(text: &str) -> Fingerprint {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    for (index, byte) in text.bytes().enumerate() {
        bytes[8 + index % 24] ^= byte.rotate_left(index as u32 % 8);
    }
    Fingerprint::from_bytes(bytes)
}

/// A graph of one node.
fn one<F, Fut>(body: F) -> Graph<Log>
where
    F: Fn(Context<Log>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Lines> + Send + 'static,
{
    Graph::builder("one").node("only", body).start("only").edge("only", END).compile().unwrap()
}

fn asking(question: &'static str, calls: &Arc<AtomicU64>) -> Graph<Log> {
    let calls = calls.clone();
    one(move |context| {
        let calls = calls.clone();
        async move {
            let call = async {
                calls.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Broken>(format!("answer to {question}"))
            };
            let tell = |answer: &String| vec![Event::new("answered", json!(answer))];
            context.emit(Event::new("asking", json!(question)));
            let answer = context.effect("ask", || print(question), call, tell).await?;
            context.emit(Event::new("done", json!(null)));
            Ok(vec![answer])
        }
    })
}

fn names(journal: &MemoryJournal) -> Vec<String> {
    journal.events().into_iter().map(|event| event.name).collect()
}

#[tokio::test]
async fn an_effect_is_done_once_and_told_once() {
    let journal = Arc::new(MemoryJournal::new());
    let calls = Arc::new(AtomicU64::new(0));
    for _ in 0..3 {
        let options = RunOptions::with_journal(journal.clone());
        let log = asking("why", &calls).run(Log::default(), options).await.unwrap();
        assert_eq!(log.0, ["answer to why"]);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(names(&journal), ["asking", "answered", "done"]);
    let records = journal.records();
    let keys: Vec<&str> = records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["ask", "ask.begun", "graph", "only.1/events"]);
    assert_eq!(records[0].outcome, Outcome::Done("\"answer to why\"".to_owned()));
}

#[tokio::test]
async fn what_is_told_before_an_effect_need_not_wait_for_it() {
    let journal = Arc::new(MemoryJournal::new());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (kept, heard) = (journal.clone(), seen.clone());
    let graph = one(move |context| {
        let (kept, heard) = (kept.clone(), heard.clone());
        async move {
            context.emit(Event::new("asking", json!(null)));
            let call = async {
                let mut heard = heard.lock().unwrap();
                heard.push(names(&kept));
                // The first life ends here.
                if heard.len() == 1 { Err(Broken("gone".to_owned())) } else { Ok(1) }
            };
            let tell = |_: &i32| vec![Event::new("answered", json!(null))];
            context.effect("ask", || print("x"), call, tell).await?;
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
async fn a_changed_question_is_refused_and_a_fork_pays_for_it_alone() {
    let journal = Arc::new(MemoryJournal::new());
    let calls = Arc::new(AtomicU64::new(0));
    let run = |question, journal: Arc<dyn Journal>| {
        let graph = asking(question, &calls);
        async move { graph.run(Log::default(), RunOptions::with_journal(journal)).await }
    };
    run("why", journal.clone()).await.unwrap();
    let error = run("how", journal.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "what is asked at `ask` is not what this run asked there before");

    let fork = |own: &Arc<MemoryJournal>| Arc::new(Fork::new(own.clone(), journal.records()));
    let own = Arc::new(MemoryJournal::new());
    assert_eq!(run("how", fork(&own)).await.unwrap().0, ["answer to how"]);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let own = Arc::new(MemoryJournal::new());
    assert_eq!(run("why", fork(&own)).await.unwrap().0, ["answer to why"]);
    assert_eq!(calls.load(Ordering::Relaxed), 2, "nothing had changed");
    // The fork stands on its own: it has the record and has told its own watchers.
    assert_eq!(names(&own), ["asking", "answered", "done"]);
    assert_eq!(run("why", own).await.unwrap().0, ["answer to why"]);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn another_graph_on_an_old_journal_is_refused() {
    let journal = Arc::new(MemoryJournal::new());
    let idle = |_: Context<Log>| async { Ok(vec![]) };
    let graph =
        |node| Graph::builder("g").node(node, idle).start(node).edge(node, END).compile().unwrap();
    let options = || RunOptions::with_journal(journal.clone());
    graph("a").run(Log::default(), options()).await.unwrap();
    graph("a").run(Log::default(), options()).await.unwrap();
    let error = graph("b").run(Log::default(), options()).await.unwrap_err();
    assert_eq!(error.to_string(), "the graph `g` is not the one that this run was begun with");
    let forked = Arc::new(Fork::new(MemoryJournal::new(), journal.records()));
    graph("b").run(Log::default(), RunOptions::with_journal(forked)).await.unwrap();
}

#[tokio::test]
async fn a_failure_that_ended_a_run_is_tried_again_and_one_that_did_not_stays() {
    let journal = Arc::new(MemoryJournal::new());
    let broken = Arc::new(Mutex::new(true));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let graph = {
        let (broken, calls) = (broken.clone(), calls.clone());
        one(move |context| {
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
                let first =
                    context.effect("first", || print("1"), async { call("first").await }, none);
                let first = match first.await {
                    Ok(value) => value,
                    Err(EffectError::Failed(failed)) => context.go_on(failed).await?.0,
                    Err(stop) => return Err(stop.into()),
                };
                let second = context
                    .effect("second", || print("2"), async { call("second").await }, none)
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
async fn one_key_is_for_one_effect() {
    let ask = |context: Context<Log>, key: &'static str| async move {
        let call = async { Ok::<_, Broken>(1) };
        context.effect(key, || print("x"), call, |_| vec![]).await
    };
    let twice = one(move |context| async move {
        ask(context.clone(), "same").await?;
        ask(context, "same").await?;
        Ok(vec![])
    });
    let error = twice.run(Log::default(), RunOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "two effects of one run have the key `same`");
    let bad = one(move |context| async move {
        ask(context, "no good").await?;
        Ok(vec![])
    });
    let error = bad.run(Log::default(), RunOptions::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("`no good` cannot name an effect"), "{error}");
}

/// A journal in which somebody else was faster.
struct Beaten;

#[async_trait::async_trait]
impl Journal for Beaten {
    async fn find(&self, _: &Key) -> Result<Option<Record>, assize_graph::JournalError> {
        Ok(None)
    }

    async fn append(
        &self,
        record: Record,
        _: Vec<Event>,
    ) -> Result<assize_graph::Appended, assize_graph::JournalError> {
        if record.key.as_str() == "graph" {
            return Ok(assize_graph::Appended::Recorded { event_ids: vec![] });
        }
        let outcome = Outcome::Done("\"theirs\"".to_owned());
        Ok(assize_graph::Appended::Existing(Record { outcome, ..record }))
    }
}

#[tokio::test]
async fn whoever_was_first_counts() {
    let graph = one(|context| async move {
        let call = async { Ok::<_, Broken>("ours".to_owned()) };
        Ok(vec![context.effect("ask", || print("x"), call, |_| vec![]).await?])
    });
    let options = RunOptions::with_journal(Arc::new(Beaten));
    assert_eq!(graph.run(Log::default(), options).await.unwrap().0, ["theirs"]);
}

#[tokio::test]
async fn observers_see_effects_begin_end_and_come_back() {
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
        asking("why", &calls).run(Log::default(), options).await.unwrap();
    }
    use EffectStage::{Recorded, Replayed, Started};
    assert_eq!(*stages.lock().unwrap(), [Started, Recorded, Replayed]);
}

#[tokio::test]
async fn a_record_of_another_type_is_not_made_to_fit() {
    let journal = Arc::new(MemoryJournal::new());
    let number = one(|context| async move {
        let call = async { Ok::<_, Broken>(1) };
        context.effect("ask", || print("x"), call, |_| vec![]).await?;
        Ok(vec![])
    });
    let text = one(|context| async move {
        let call = async { Ok::<_, Broken>(String::new()) };
        Ok(vec![context.effect("ask", || print("x"), call, |_| vec![]).await?])
    });
    let options = || RunOptions::with_journal(journal.clone());
    number.run(Log::default(), options()).await.unwrap();
    let error = text.run(Log::default(), options()).await.unwrap_err();
    assert!(matches!(error, RunError::Unreadable { .. }), "{error}");
}
