//! Conformance tests that every implementation of the `Store` trait must pass. The test crate of a store runs these
//! tests with `every_behaviour!(name, open)`.

use std::future::Future;
use std::sync::Arc;

use assize_graph::{
    Appended, Context, END, EffectKey, EffectOutcome, EffectRecord, Graph, GraphEvent, NodeError,
    RunOptions, State,
};
use assize_run::{
    ArtifactId, AuditQuery, AuditVerdict, CallState, Ending, EventQuery, IdempotencyKey, Lease,
    NewAuditEntry, NewRun, Run, RunFilter, RunId, RunJournal, RunKind, RunStatus, Store,
    StoreError, StoreLog, StoredCall,
};
use assize_types::{Cost, Fingerprint, Money};
use serde_json::{Value, json};

type Any = Arc<dyn Store>;

pub(crate) fn new_run(title: &str) -> NewRun {
    NewRun {
        kind: RunKind::Debate,
        title: title.into(),
        parent: None,
        input: json!({"a": 1}),
        artifacts: vec![],
        idempotency_key: None,
    }
}

async fn claimed(store: &Any, title: &str) -> Lease {
    store.create_run(new_run(title), "me").await.unwrap().1
}

pub(crate) fn record(key: &str, body: &str) -> EffectRecord {
    let request = Fingerprint::from_bytes([7; 32]);
    let outcome = EffectOutcome::Done(Value::from(body).to_string());
    EffectRecord { key: EffectKey::new(key).unwrap(), request, outcome }
}

fn event(name: &str) -> GraphEvent {
    GraphEvent::new(name, json!({"name": name}))
}

fn ids(appended: Appended) -> Vec<u64> {
    match appended {
        Appended::Recorded { event_ids } => event_ids,
        Appended::Existing(record) => panic!("the key exists already: {record:?}"),
    }
}

async fn titles(store: &Any, filter: RunFilter) -> Vec<String> {
    store.runs(filter).await.unwrap().into_iter().map(|run| run.title).collect()
}

async fn event_names(store: &Any, query: EventQuery) -> Vec<String> {
    store.events(query).await.unwrap().into_iter().map(|event| event.name).collect()
}

fn of(run: &RunId) -> EventQuery {
    EventQuery { runs: vec![run.clone()], ..EventQuery::default() }
}

pub(crate) async fn runs_are_stored_and_filtered(store: Any) {
    let first = store.create_run(new_run("Buy a Bakery"), "me").await.unwrap().0;
    let forked = NewRun { parent: Some(first.id.clone()), ..new_run("sell the bakery") };
    let second = store.create_run(forked, "me").await.unwrap().0;
    let other = NewRun { kind: RunKind::Consult, ..new_run("NVDA") };
    let third = store.create_run(other, "me").await.unwrap().0;
    assert_ne!(first.id, second.id);
    assert!(third.id.as_str().starts_with("consult-"));
    assert_eq!(store.run(&second.id).await.unwrap(), second);
    assert_eq!(second.parent, Some(first.id.clone()));
    assert_eq!(
        (second.status, second.epoch, &second.input),
        (RunStatus::Running, 1, &json!({"a": 1}))
    );

    let all = RunFilter::default;
    assert_eq!(titles(&store, all()).await, ["NVDA", "sell the bakery", "Buy a Bakery"]);
    let kind = RunFilter { kind: Some(RunKind::Consult), ..all() };
    assert_eq!(titles(&store, kind).await, ["NVDA"]);
    assert_eq!(titles(&store, RunFilter { limit: 2, ..all() }).await, ["NVDA", "sell the bakery"]);
    let latest = store.runs(RunFilter { limit: 1, ..all() }).await.unwrap().remove(0).number;
    let next = RunFilter { limit: 1, before: Some(latest), ..all() };
    assert_eq!(titles(&store, next).await, ["sell the bakery"]);
    let title = RunFilter { title: Some("BAKERY".into()), limit: 1, ..all() };
    assert_eq!(titles(&store, title).await, ["sell the bakery"]);
    let prefix = RunFilter { prefix: Some(first.id.as_str()[..11].into()), ..all() };
    assert_eq!(titles(&store, prefix).await, ["Buy a Bakery"]);
    // A prefix is literal text, not an SQL pattern.
    for odd in ["%", "_", "debate-%", "'"] {
        let prefix = RunFilter { prefix: Some(odd.into()), ..all() };
        assert_eq!(titles(&store, prefix).await, [""; 0], "{odd}");
    }
    let claim = store.claim(&first.id, "me", None).await.unwrap();
    store.finish(&claim, Ending::Done { result: json!(1) }, vec![]).await.unwrap();
    let done = RunFilter { status: Some(RunStatus::Done), ..all() };
    assert_eq!(titles(&store, done).await, ["Buy a Bakery"]);
}

pub(crate) async fn repeated_idempotency_key_creates_only_one_run(store: Any) {
    let keyed = |key: &str, request: u8| NewRun {
        idempotency_key: Some(IdempotencyKey {
            key: key.into(),
            request: Fingerprint::from_bytes([request; 32]),
        }),
        ..new_run("once")
    };
    let (first, claim) = store.create_run(keyed("a", 1), "me").await.unwrap();
    for (request, expected) in [(1, true), (2, false)] {
        match store.create_run(keyed("a", request), "me").await {
            Err(StoreError::IdempotencyKeyUsed { run, same }) => {
                assert_eq!((run, same), (first.id.clone(), expected));
            }
            other => panic!("{other:?}"),
        }
    }
    store.create_run(keyed("b", 1), "me").await.unwrap();
    assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), 2);
    // Concurrent requests with the same idempotency key all get the same run.
    let requests = (0..8).map(|_| {
        let (store, new) = (store.clone(), keyed("c", 3));
        tokio::spawn(async move { store.create_run(new, "me").await })
    });
    let mut names = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        names.push(match request.await.unwrap() {
            Ok((run, _)) => run.id,
            Err(StoreError::IdempotencyKeyUsed { run, same: true }) => run,
            Err(other) => panic!("{other}"),
        });
    }
    assert!(names.windows(2).all(|two| two[0] == two[1]), "{names:?}");
    // Removing a run makes its idempotency key usable again.
    store.remove_run(&claim).await.unwrap();
    store.create_run(keyed("a", 2), "me").await.unwrap();
}

pub(crate) async fn wait_for_entry_waits_for_new_events_and_audit_entries(store: Any) {
    let claim = claimed(&store, "waited for").await;
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { store.wait_for_entry(StoreLog::Events, 0).await })
    };
    let events = vec![event("one"), event("two")];
    let events = ids(store.append(&claim, record("k", "v"), events).await.unwrap());
    waiting.await.unwrap().unwrap();
    // `wait_for_entry` also returns for the second event of the same append.
    store.wait_for_entry(StoreLog::Events, events[0]).await.unwrap();
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { store.wait_for_entry(StoreLog::Events, events[1]).await })
    };
    // A record without events does not make `wait_for_entry` return.
    store.append(&claim, record("l", "v"), Vec::new()).await.unwrap();
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    store.finish(&claim, Ending::Done { result: json!(1) }, vec![event("end")]).await.unwrap();
    waiting.await.unwrap().unwrap();
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { store.wait_for_entry(StoreLog::Audit, 0).await })
    };
    let entry = NewAuditEntry {
        actor: "a".into(),
        action: "b".into(),
        subject: "c".into(),
        detail: Value::Null,
    };
    store.audit(entry).await.unwrap();
    waiting.await.unwrap().unwrap();
}

pub(crate) async fn missing_runs_and_artifacts_are_reported(store: Any) {
    let unknown: RunId = "debate-unknown".parse().unwrap();
    let claim = Lease { run: unknown.clone(), epoch: 1 };
    let missing = |error: StoreError| {
        assert!(matches!(&error, StoreError::NoSuchRun(id) if *id == unknown), "{error}");
    };
    missing(store.run(&unknown).await.unwrap_err());
    missing(store.claim(&unknown, "me", None).await.unwrap_err());
    missing(store.records(&unknown).await.unwrap_err());
    assert_eq!(store.events(of(&unknown)).await.unwrap(), []);
    missing(store.remove_run(&claim).await.unwrap_err());
    missing(store.artifacts(&unknown).await.unwrap_err());
    missing(store.put_artifact(&unknown, "a", vec![]).await.unwrap_err());
    missing(store.append(&claim, record("a", "b"), vec![]).await.unwrap_err());
    let id = ArtifactId::of(b"nothing");
    let error = store.artifact(id).await.unwrap_err();
    assert_eq!(error.to_string(), format!("there is no artifact `{id}`"));
}

pub(crate) async fn later_claim_fences_the_earlier_one(store: Any) {
    let first = claimed(&store, "one").await;
    store.append(&first, record("a", "1"), vec![event("a")]).await.unwrap();
    // A claim based on an older epoch fails.
    let stale = store.claim(&first.run, "you", Some(first.epoch - 1)).await.unwrap_err();
    assert!(matches!(stale, StoreError::Fenced(_)), "{stale}");
    let second = store.claim(&first.run, "you", Some(first.epoch)).await.unwrap();
    let stale = store.remove_run(&first).await.unwrap_err();
    assert!(matches!(stale, StoreError::Fenced(_)), "{stale}");
    assert!(second.epoch > first.epoch);
    assert_eq!(store.run(&first.run).await.unwrap().holder.as_deref(), Some("you"));
    let fenced = |error: StoreError| assert!(matches!(error, StoreError::Fenced(_)), "{error}");
    fenced(store.append(&first, record("b", "2"), vec![event("b")]).await.unwrap_err());
    fenced(store.append(&first, record("a", "1"), vec![]).await.unwrap_err());
    let done = Ending::Done { result: json!(1) };
    fenced(store.finish(&first, done, vec![event("end")]).await.unwrap_err());
    store.append(&second, record("b", "3"), vec![event("c")]).await.unwrap();
    assert_eq!(event_names(&store, of(&first.run)).await, ["a", "c"]);
    assert_eq!(store.records(&first.run).await.unwrap(), [record("a", "1"), record("b", "3")]);
}

pub(crate) async fn calls_are_stored_by_epoch_and_fenced_before_sending(store: Any) {
    let first = claimed(&store, "one").await;
    let noted =
        |state, tokens| StoredCall { state, tokens, cost: Cost::Known(Money::from_nanos(tokens)) };
    assert_eq!(store.calls(&first.run).await.unwrap(), []);
    for number in 1..=3 {
        store.store_call(&first, number, noted(CallState::Sent, 100 + number)).await.unwrap();
    }
    let unpriced = StoredCall { cost: Cost::Unknown, ..noted(CallState::Answered, 7) };
    store.store_call(&first, 2, unpriced).await.unwrap();
    let second = store.claim(&first.run, "you", None).await.unwrap();
    // An earlier lease holder can send no more calls, but can still store how its calls ended.
    let fenced = store.store_call(&first, 4, noted(CallState::Sent, 104)).await.unwrap_err();
    assert!(matches!(fenced, StoreError::Fenced(_)), "{fenced}");
    store.store_call(&first, 3, noted(CallState::Lost, 103)).await.unwrap();
    store.store_call(&second, 1, noted(CallState::Sent, 201)).await.unwrap();
    let mut calls = store.calls(&first.run).await.unwrap();
    // A store may keep the refused call, which then counts as sent.
    calls.retain(|(_, noted)| noted.tokens != 104);
    calls.sort_by_key(|(epoch, noted)| (*epoch, noted.tokens));
    let (one, two) = (first.epoch, second.epoch);
    assert_eq!(
        calls,
        [
            (one, unpriced),
            (one, noted(CallState::Sent, 101)),
            (one, noted(CallState::Lost, 103)),
            (two, noted(CallState::Sent, 201)),
        ]
    );
    store.remove_run(&second).await.unwrap();
    assert_eq!(store.calls(&first.run).await.unwrap(), []);
    let gone = store.store_call(&second, 1, noted(CallState::Free, 0)).await.unwrap_err();
    assert!(matches!(gone, StoreError::NoSuchRun(_)), "{gone}");
}

pub(crate) async fn failed_run_can_be_claimed_again_and_done_run_cannot(store: Any) {
    let claim = claimed(&store, "one").await;
    store.finish(&claim, Ending::Failed { error: "no key".into() }, vec![]).await.unwrap();
    let run = store.run(&claim.run).await.unwrap();
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Failed, Some("no key")));
    assert_eq!(run.holder, None);
    let claim = store.claim(&claim.run, "me", None).await.unwrap();
    let run = store.run(&claim.run).await.unwrap();
    assert_eq!((run.status, run.error), (RunStatus::Running, None));
    store.finish(&claim, Ending::Cancelled { reason: "enough".into() }, vec![]).await.unwrap();
    let claim = store.claim(&claim.run, "me", None).await.unwrap();
    let ids = store.finish(&claim, Ending::Done { result: json!({"x": 1}) }, vec![event("end")]);
    assert_eq!(ids.await.unwrap().len(), 1);
    let run = store.run(&claim.run).await.unwrap();
    assert_eq!((run.status, run.result), (RunStatus::Done, Some(json!({"x": 1}))));
    let error = store.claim(&claim.run, "me", None).await.unwrap_err();
    assert_eq!(error.to_string(), format!("the run `{}` is done", claim.run));
}

pub(crate) async fn journal_key_is_written_once(store: Any) {
    let claim = claimed(&store, "one").await;
    let tasks = (0..32).map(|number| {
        let (store, claim) = (store.clone(), claim.clone());
        tokio::spawn(async move {
            let record = record("same/key", &number.to_string());
            (record.clone(), store.append(&claim, record, vec![event("won")]).await.unwrap())
        })
    });
    let mut winners = Vec::new();
    let mut seen = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        match task.await.unwrap() {
            (record, Appended::Recorded { .. }) => winners.push(record),
            (_, Appended::Existing(record)) => seen.push(record),
        }
    }
    assert_eq!((winners.len(), seen.len()), (1, 31));
    assert!(seen.iter().all(|record| *record == winners[0]));
    assert_eq!(store.records(&claim.run).await.unwrap(), winners);
    assert_eq!(event_names(&store, of(&claim.run)).await, ["won"]);
    // Another run can use the same journal key.
    let other = claimed(&store, "two").await;
    assert_eq!(ids(store.append(&other, record("same/key", "x"), vec![]).await.unwrap()), [0; 0]);
}

pub(crate) async fn records_are_read_as_written(store: Any) {
    let claim = claimed(&store, "one").await;
    let mut failed = record("b", "x");
    failed.outcome = EffectOutcome::Failed("{\"kind\":\"timeout\"}".into());
    let mut without_request = record("a", "y");
    without_request.request = Fingerprint::NONE;
    let odd = record("c", "\u{0} \u{1f600} \u{fffd} \n \" '; DROP TABLE runs; --");
    let large = record("d", &"long ".repeat(100_000));
    let written = [failed, without_request, odd, large];
    for record in &written {
        store.append(&claim, record.clone(), vec![]).await.unwrap();
    }
    assert_eq!(store.records(&claim.run).await.unwrap(), written);
    for record in &written {
        let again = store.append(&claim, record.clone(), vec![]).await.unwrap();
        assert_eq!(again, Appended::Existing(record.clone()));
    }
}

pub(crate) async fn event_ids_increase_over_all_runs(store: Any) {
    let (one, two) = (claimed(&store, "one").await, claimed(&store, "two").await);
    let mut all = Vec::new();
    for number in 0..4 {
        let claim = if number % 2 == 0 { &one } else { &two };
        let events = vec![event(&format!("a{number}")), event(&format!("b{number}"))];
        let key = format!("k{number}");
        all.extend(ids(store.append(claim, record(&key, "x"), events).await.unwrap()));
    }
    assert_eq!(all.len(), 8);
    assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
    let whole = EventQuery::default;
    let names = event_names(&store, whole()).await;
    assert_eq!(names, ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]);
    assert_eq!(event_names(&store, of(&two.run)).await, ["a1", "b1", "a3", "b3"]);
    let after = EventQuery { after: all[2], ..of(&two.run) };
    assert_eq!(event_names(&store, after).await, ["b1", "a3", "b3"]);
    let unknown = "debate-aaaaaaaa".parse().unwrap();
    let both = EventQuery { runs: vec![one.run.clone(), unknown, two.run.clone()], ..whole() };
    assert_eq!(event_names(&store, both).await, names);
    assert!(store.last_event().await.unwrap() >= all[7]);
    let some = EventQuery { after: all[1], limit: 3, ..whole() };
    assert_eq!(event_names(&store, some).await, ["a1", "b1", "a2"]);
    let first = &store.events(EventQuery { limit: 1, ..whole() }).await.unwrap()[0];
    assert_eq!((&first.run, &first.payload), (&one.run, &json!({"name": "a0"})));
    // Event ids are not reused after runs are removed.
    for claim in [one, two] {
        let last = store.last_event().await.unwrap();
        store.remove_run(&claim).await.unwrap();
        assert!(store.last_event().await.unwrap() >= last);
        let more = claimed(&store, "more").await;
        let appended = store.append(&more, record("k", "x"), vec![event("z")]).await.unwrap();
        all.extend(ids(appended));
        store.remove_run(&more).await.unwrap();
    }
    assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
    assert!(store.events(whole()).await.unwrap().is_empty());
}

pub(crate) async fn stop_cancels_a_running_run_and_fences_its_holder(store: Any) {
    let claim = claimed(&store, "one").await;
    let stopped = store.cancel_run(&claim, "enough", vec![event("end")]).await;
    stopped.unwrap();
    let run = store.run(&claim.run).await.unwrap();
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Cancelled, Some("enough")));
    let late = store.append(&claim, record("k", "x"), vec![]).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    // A cancelled or failed run cannot be stopped.
    let again = Lease { epoch: run.epoch, ..claim.clone() };
    assert!(matches!(store.cancel_run(&again, "more", vec![]).await, Err(StoreError::Fenced(_))));
    let other = claimed(&store, "two").await;
    store.finish(&other, Ending::Failed { error: "simulated error".into() }, vec![]).await.unwrap();
    assert!(matches!(store.cancel_run(&other, "late", vec![]).await, Err(StoreError::Fenced(_))));
    assert_eq!(store.run(&other.run).await.unwrap().error.as_deref(), Some("simulated error"));
    assert_eq!(event_names(&store, EventQuery::default()).await, ["end"]);
}

pub(crate) async fn step_with_2500_events_is_stored_in_order(store: Any) {
    let claim = claimed(&store, "one").await;
    let events: Vec<GraphEvent> =
        (0..2500).map(|number| GraphEvent::new("tick", json!(number))).collect();
    let ids = ids(store.append(&claim, record("a", "b"), events).await.unwrap());
    assert!(ids.is_sorted_by(|a, b| a < b));
    let stored = store.events(of(&claim.run)).await.unwrap();
    assert_eq!(stored.iter().map(|event| event.id).collect::<Vec<_>>(), ids);
    let numbers: Vec<u64> = stored.iter().map(|event| event.payload.as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..2500).collect::<Vec<u64>>());
    let rest = EventQuery { after: ids[1700], limit: 500, ..of(&claim.run) };
    let rest = store.events(rest).await.unwrap();
    assert_eq!((rest.len(), rest[0].id, rest[499].id), (500, ids[1701], ids[2200]));
}

pub(crate) async fn concurrent_writers_lose_no_records_or_events(store: Any) {
    let mut tasks = Vec::new();
    for number in 0..8 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let claim = claimed(&store, &format!("run {number}")).await;
            for step in 0..25 {
                let key = format!("step-{step}");
                let events = vec![event("step"), event("step")];
                store.append(&claim, record(&key, "x"), events).await.unwrap();
            }
            claim.run
        }));
    }
    for task in tasks {
        let run = task.await.unwrap();
        assert_eq!(store.records(&run).await.unwrap().len(), 25);
        assert_eq!(store.events(of(&run)).await.unwrap().len(), 50);
    }
    assert_eq!(store.events(EventQuery::default()).await.unwrap().len(), 400);
}

/// A client polls for the events of several runs, each time from the id of the last received event. It receives every
/// event once and in order.
pub(crate) async fn polling_events_of_several_runs_returns_each_event_once_in_order(store: Any) {
    const STEPS: usize = 60;
    let mut runs = Vec::new();
    let mut writing = tokio::task::JoinSet::new();
    for number in 0..3 {
        let claim = claimed(&store, &format!("run {number}")).await;
        runs.push(claim.run.clone());
        let store = store.clone();
        writing.spawn(async move {
            for step in 0..STEPS {
                let key = format!("step-{step}");
                store.append(&claim, record(&key, "x"), vec![event("step")]).await.unwrap();
            }
        });
    }
    let mut seen = Vec::new();
    while seen.len() < 3 * STEPS {
        let all_written = writing.is_empty();
        let after = seen.last().copied().unwrap_or_default();
        let query = EventQuery { runs: runs.clone(), after, limit: 0 };
        let new: Vec<u64> = store.events(query).await.unwrap().iter().map(|one| one.id).collect();
        assert!(!all_written || !new.is_empty(), "{} of {}", seen.len(), 3 * STEPS);
        assert!(new.iter().all(|id| *id > after));
        seen.extend(new);
        while let Some(done) = writing.try_join_next() {
            done.unwrap();
        }
    }
    assert!(seen.is_sorted_by(|one, next| one < next));
}

pub(crate) async fn artifacts_are_shared_by_content_until_unused(store: Any) {
    let (first, second) = (claimed(&store, "one").await, claimed(&store, "two").await);
    let (one, two) = (first.run.clone(), second.run.clone());
    let bytes = vec![0, 159, 146, 150];
    let id = store.put_artifact(&one, "move.md", bytes.clone()).await.unwrap();
    assert_eq!(id, ArtifactId::of(&bytes));
    assert_eq!(store.put_artifact(&two, "other.md", bytes.clone()).await.unwrap(), id);
    let replaced = store.put_artifact(&one, "note.md", b"first".to_vec()).await.unwrap();
    store.put_artifact(&one, "note.md", b"second".to_vec()).await.unwrap();
    let names: Vec<(String, u64)> =
        store.artifacts(&one).await.unwrap().into_iter().map(|a| (a.name, a.bytes)).collect();
    assert_eq!(names, [("move.md".to_owned(), 4), ("note.md".to_owned(), 6)]);
    // A run can be created with artifacts.
    let new = NewRun { artifacts: vec![("move.md".into(), bytes.clone())], ..new_run("three") };
    let three = store.create_run(new, "me").await.unwrap().1;
    assert_eq!(store.artifacts(&three.run).await.unwrap()[0].id, id);
    store.remove_run(&three).await.unwrap();
    store.remove_run(&first).await.unwrap();
    assert_eq!(store.artifact(id).await.unwrap(), bytes, "another run still uses the artifact");
    assert!(store.artifact(replaced).await.is_err());
    store.remove_run(&second).await.unwrap();
    assert!(store.artifact(id).await.is_err());
}

pub(crate) async fn stopped_and_removed_run_rejects_writes(store: Any) {
    let holder = claimed(&store, "short-lived").await;
    store.append(&holder, record("a", "1"), vec![]).await.unwrap();
    store.cancel_run(&holder, "enough", vec![event("end")]).await.unwrap();
    let epoch = store.run(&holder.run).await.unwrap().epoch;
    store.remove_run(&Lease { run: holder.run.clone(), epoch }).await.unwrap();
    // The former lease holder still writes, because it does not know that the run was stopped and removed.
    let large = "x".repeat(200_000);
    for late in [record("b", "2"), record("c", &large)] {
        let error = store.append(&holder, late, vec![event("late")]).await.unwrap_err();
        assert!(matches!(error, StoreError::NoSuchRun(_)), "{error}");
    }
    let late = store.put_artifact(&holder.run, "a", large.into_bytes()).await.unwrap_err();
    assert!(matches!(late, StoreError::NoSuchRun(_)), "{late}");
    let late = store.finish(&holder, Ending::Done { result: json!(1) }, vec![]).await.unwrap_err();
    assert!(matches!(late, StoreError::NoSuchRun(_)), "{late}");
    assert!(matches!(store.run(&holder.run).await, Err(StoreError::NoSuchRun(_))));
    assert_eq!(event_names(&store, EventQuery::default()).await, Vec::<String>::new());
}

pub(crate) async fn removing_a_run_keeps_other_runs(store: Any) {
    let (one, two) = (claimed(&store, "one").await, claimed(&store, "two").await);
    let long = "x".repeat(200_000);
    for claim in [&one, &two] {
        store.append(claim, record("a", "b"), vec![event("e")]).await.unwrap();
        store.append(claim, record("large", &long), vec![]).await.unwrap();
    }
    store.remove_run(&one).await.unwrap();
    assert!(store.run(&one.run).await.is_err());
    assert_eq!(store.records(&two.run).await.unwrap(), [record("a", "b"), record("large", &long)]);
    assert_eq!(event_names(&store, EventQuery::default()).await, ["e"]);
    // Later writes of the removed run's lease holder fail.
    let error = store.append(&one, record("c", "d"), vec![]).await.unwrap_err();
    assert!(matches!(error, StoreError::NoSuchRun(_)), "{error}");
    let log = store.audit_log(AuditQuery::default()).await.unwrap();
    assert_eq!((log.len(), log[0].subject.as_str()), (1, one.run.as_str()));
}

pub(crate) async fn concurrent_audit_entries_form_one_hash_chain(store: Any) {
    let tasks = (0..20).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let entry = NewAuditEntry {
                actor: "gate".into(),
                action: "accept".into(),
                subject: format!("draft-{number}"),
                detail: json!({"number": number, "ratio": 0.25}),
            };
            store.audit(entry).await.unwrap()
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let log = store.audit_log(AuditQuery::default()).await.unwrap();
    let head = store.audit_head().await.unwrap();
    assert_eq!(AuditVerdict::of(&log, head), AuditVerdict::Intact { entries: 20 });
    let subject = Some("draft-7".to_owned());
    let one = store.audit_log(AuditQuery { subject, after: 0, limit: 0 }).await.unwrap();
    assert_eq!((one.len(), one[0].detail["number"].as_u64()), (1, Some(7)));
    let late = store.audit_log(AuditQuery { after: 15, ..AuditQuery::default() }).await.unwrap();
    assert_eq!(late, log[15..]);
}

#[derive(Clone, Default)]
struct Sum(u64);

impl State for Sum {
    type Update = u64;
    type Item = ();

    fn apply(&mut self, more: u64) {
        self.0 += more;
    }
}

#[derive(Debug, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[error("broken")]
struct Broken;

/// Graph node that adds the values of three effects. The third effect fails unless `succeeds` is set.
async fn adds(context: Context<Sum>, succeeds: bool) -> Result<Vec<u64>, NodeError> {
    let mut sum = Vec::new();
    for step in 1..=3u64 {
        let call = async { if step < 3 || succeeds { Ok(step * 100) } else { Err(Broken) } };
        let events = |value: &u64| vec![GraphEvent::new("added", json!(value))];
        let key = format!("step-{step}");
        sum.push(context.effect(&key, || Fingerprint::from_bytes([1; 32]), call, events).await?);
    }
    Ok(sum)
}

pub(crate) async fn graph_resumes_from_its_journal(store: Any) {
    let graph = |succeeds| {
        let body = move |context| adds(context, succeeds);
        Graph::builder("add").node("add", body).start("add").edge("add", END).compile().unwrap()
    };
    let run: Run = store.create_run(new_run("sum"), "me").await.unwrap().0;
    let open = || async {
        let claim = store.claim(&run.id, "me", None).await.unwrap();
        Arc::new(RunJournal::open(store.clone(), claim).await.unwrap())
    };
    let journal = open().await;
    let result = graph(false).run(Sum::default(), RunOptions::with_journal(journal.clone())).await;
    assert!(result.is_err());
    journal.finish(Ending::Failed { error: "broken".into() }, vec![]).await.unwrap();
    assert_eq!(event_names(&store, of(&run.id)).await, ["added"; 2]);

    let stale = journal;
    let journal = open().await;
    let sum = graph(true).run(Sum::default(), RunOptions::with_journal(journal)).await.unwrap();
    assert_eq!(sum.0, 600);
    assert_eq!(event_names(&store, of(&run.id)).await, ["added"; 3]);
    let error = stale.finish(Ending::Done { result: json!(0) }, vec![]).await.unwrap_err();
    assert!(matches!(error, StoreError::Fenced(_)));
}

/// Runs one conformance test against the fresh store that `open` creates. `open` also creates a guard, such as a
/// temporary folder, that must live as long as the store.
pub(crate) fn check<Guard, F: Future<Output = ()>>(
    open: impl Future<Output = (Guard, Any)>,
    behaviour: fn(Any) -> F,
) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (_guard, store) = open.await;
        behaviour(store).await;
    });
}

macro_rules! conformance {
    ($store:ident, $open:expr, [$($behaviour:ident),* $(,)?]) => {
        mod $store {
            $(
                #[test]
                fn $behaviour() {
                    crate::conformance::check(async { $open }, crate::conformance::$behaviour);
                }
            )*
        }
    };
}

/// Calls the macro `$then` with the given arguments, followed by the list of all conformance tests.
macro_rules! with_all {
    ($then:ident, $($arguments:tt)*) => {
        $then!(
            $($arguments)*,
            [
                runs_are_stored_and_filtered,
                repeated_idempotency_key_creates_only_one_run,
                wait_for_entry_waits_for_new_events_and_audit_entries,
                missing_runs_and_artifacts_are_reported,
                later_claim_fences_the_earlier_one,
                stopped_and_removed_run_rejects_writes,
                calls_are_stored_by_epoch_and_fenced_before_sending,
                failed_run_can_be_claimed_again_and_done_run_cannot,
                journal_key_is_written_once,
                records_are_read_as_written,
                event_ids_increase_over_all_runs,
                stop_cancels_a_running_run_and_fences_its_holder,
                step_with_2500_events_is_stored_in_order,
                concurrent_writers_lose_no_records_or_events,
                polling_events_of_several_runs_returns_each_event_once_in_order,
                artifacts_are_shared_by_content_until_unused,
                removing_a_run_keeps_other_runs,
                concurrent_audit_entries_form_one_hash_chain,
                graph_resumes_from_its_journal,
            ]
        );
    };
}

macro_rules! every_behaviour {
    ($store:ident, $open:expr) => {
        with_all!(conformance, $store, $open);
    };
}
