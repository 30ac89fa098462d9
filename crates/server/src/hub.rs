//! Fan-out of live events: one task reads new events from the store, for any number of subscribers.
//!
//! Subscribers have no queues. Each subscriber has a cursor in the log and reads the events after the cursor. It reads
//! them from a buffer of recent encoded events that all subscribers share. If the events after the cursor are no longer
//! in the buffer, it reads them from the store. So a slow subscriber delays no other subscriber and loses no events.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use assize_run::{
    AuditEntry, AuditQuery, EventQuery, RunEvent, RunId, Store, StoreError, StoreLog, StoredEvent,
};
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Maximum number of events in the shared buffer.
const MAX_RECENT: usize = 4096;

/// Maximum number of events in one batch that a subscriber receives.
const MAX_BATCH: usize = 64;

/// Delay before a failed read of the store is retried. Also the interval at which the reader task checks whether any
/// subscriber is left.
const PAUSE: Duration = Duration::from_secs(1);

/// Event in its encoded form, as a server-sent event.
#[derive(Debug, Clone)]
pub(crate) struct EncodedEvent {
    pub(crate) id: u64,
    /// Id of the run that the event belongs to, or the audit-log subject of the workspace.
    subject: Arc<str>,
    frame: Bytes,
    /// Whether this is the `run_ended` event of a run.
    pub(crate) ends: bool,
}

impl EncodedEvent {
    fn new(id: u64, subject: &str, name: &str, data: &Value) -> EncodedEvent {
        let frame = frame(Some(id), name, data);
        EncodedEvent { id, subject: subject.into(), frame, ends: name == RunEvent::RUN_ENDED }
    }

    fn event(event: &StoredEvent) -> EncodedEvent {
        let mut data = event.payload.clone();
        if let Some(data) = data.as_object_mut() {
            data.insert("run".to_owned(), json!(event.run));
            data.insert("at".to_owned(), json!(event.at));
        }
        EncodedEvent::new(event.id, event.run.as_str(), &event.name, &data)
    }

    fn entry(entry: &AuditEntry) -> EncodedEvent {
        // If agents receive a message about an entry, the event has the name of that message.
        let name = match entry.action.as_str() {
            "submitted" => "DRAFT_READY",
            "applied" => "DRAFT_ACCEPTED",
            "undone" => "DRAFT_UNDONE",
            "decided" if entry.detail["verdict"] == "rejected" => "DRAFT_REJECTED",
            "decided" if entry.detail["verdict"] == "escalated" => "DRAFT_ESCALATED",
            action => action,
        };
        let data = json!({"id": entry.id, "at": entry.at, "actor": entry.actor,
                          "action": entry.action, "detail": entry.detail});
        EncodedEvent::new(entry.id, &entry.subject, name, &data)
    }
}

/// Encodes a server-sent event.
pub(crate) fn frame(id: Option<u64>, name: &str, data: &Value) -> Bytes {
    let mut frame = BytesMut::new();
    if let Some(id) = id {
        frame.put_slice(format!("id: {id}\n").as_bytes());
    }
    // Each field fits in one line: neither event names nor compact JSON contain line breaks.
    frame.put_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
    frame.freeze()
}

/// Buffer of recent events that all subscribers of a log share.
#[derive(Debug, Default)]
struct Recent {
    events: VecDeque<EncodedEvent>,
    /// The buffer contains all events with ids above `after`, up to `last`.
    after: u64,
    /// Id of the last event that was read from the store.
    last: u64,
}

/// Fan-out of the events of one log to the subscribers of the log.
#[derive(Debug)]
pub(crate) struct EventHub {
    log: StoreLog,
    store: Arc<dyn Store>,
    recent: RwLock<Recent>,
    /// Id of the last event that was read from the store. A change wakes waiting subscribers.
    last: watch::Sender<u64>,
    subscribers: AtomicUsize,
    /// Notified when a subscriber is added. Wakes the reader task, which waits while there are no subscribers.
    subscribed: Notify,
}

impl EventHub {
    pub(crate) fn new(log: StoreLog, store: Arc<dyn Store>) -> Arc<EventHub> {
        Arc::new(EventHub {
            log,
            store,
            recent: RwLock::default(),
            last: watch::Sender::new(0),
            subscribers: AtomicUsize::new(0),
            subscribed: Notify::new(),
        })
    }

    pub(crate) fn subscriber_count(&self) -> usize {
        self.subscribers.load(Ordering::Relaxed)
    }

    /// Reader task: reads new events from the store while there are subscribers, until `closing` is cancelled.
    pub(crate) async fn read(&self, closing: CancellationToken) {
        let work = async {
            loop {
                while self.subscriber_count() == 0 {
                    self.subscribed.notified().await;
                }
                let read = self.fill_buffer().await;
                // From now on new events are not added to the buffer. So the buffer is cleared, and the next subscriber
                // reads from the store.
                *self.recent.write() = Recent::default();
                if let Err(error) = read {
                    tracing::warn!(%error, "cannot read new events from the store, retrying");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = closing.cancelled() => {}
        }
    }

    /// Appends new events to the buffer until no subscriber is left.
    async fn fill_buffer(&self) -> Result<(), StoreError> {
        // Start at the end of the log, because subscribers read older events from the store.
        let newest = self.newest().await?;
        {
            let mut recent = self.recent.write();
            *recent = Recent { events: VecDeque::new(), after: newest, last: newest };
        }
        self.last.send_replace(newest);
        let mut last = newest;
        while self.subscriber_count() > 0 {
            tokio::select! {
                grown = self.store.wait_for_entry(self.log, last) => grown?,
                // Check again whether any subscriber is left.
                () = tokio::time::sleep(PAUSE) => continue,
            }
            let events = self.after(None, last, MAX_RECENT / 2).await?;
            last = events.last().map_or(last, |event| event.id);
            let mut recent = self.recent.write();
            recent.events.extend(events);
            recent.last = last;
            while recent.events.len() > MAX_RECENT {
                recent.after = recent.events.pop_front().map_or(last, |event| event.id);
            }
            drop(recent);
            self.last.send_replace(last);
        }
        Ok(())
    }

    /// Id of the newest event in the store.
    async fn newest(&self) -> Result<u64, StoreError> {
        match self.log {
            StoreLog::Events => self.store.last_event().await,
            StoreLog::Audit => self.store.audit_head().await,
        }
    }

    /// Reads up to `limit` events after the id `after` from the store. `subjects` are the runs, or the one workspace,
    /// whose events are read. If `subjects` is `None`, the events of all runs or workspaces are read.
    async fn after(
        &self,
        subjects: Option<&BTreeSet<String>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EncodedEvent>, StoreError> {
        let subjects = subjects.into_iter().flatten();
        Ok(match self.log {
            StoreLog::Events => {
                let runs: Vec<RunId> = subjects.filter_map(|run| run.parse().ok()).collect();
                let events = self.store.events(EventQuery { runs, after, limit }).await?;
                events.iter().map(EncodedEvent::event).collect()
            }
            StoreLog::Audit => {
                let subject = subjects.last().cloned();
                let entries = self.store.audit_log(AuditQuery { subject, after, limit }).await?;
                entries.iter().map(EncodedEvent::entry).collect()
            }
        })
    }

    /// Subscribes to the events after the id `after`. `subjects` are the runs, or the one workspace, whose events are
    /// received. If `subjects` is `None`, all events are received.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        subjects: Option<BTreeSet<String>>,
        after: u64,
    ) -> Subscriber {
        self.subscribers.fetch_add(1, Ordering::Relaxed);
        self.subscribed.notify_one();
        Subscriber { hub: self.clone(), subjects, after, changes: self.last.subscribe() }
    }
}

/// Subscriber of a log, with its cursor in that log.
#[derive(Debug)]
pub(crate) struct Subscriber {
    hub: Arc<EventHub>,
    /// Runs, or the workspace, whose events the subscriber receives; `None` if it receives all events.
    subjects: Option<BTreeSet<String>>,
    /// Cursor: the subscriber has received or skipped every event up to this id.
    after: u64,
    changes: watch::Receiver<u64>,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.hub.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Subscriber {
    fn wants(&self, event: &EncodedEvent) -> bool {
        self.subjects.as_ref().is_none_or(|subjects| subjects.contains(&*event.subject))
    }

    /// Next batch of events that are already available; empty at the end of the log.
    pub(crate) async fn next(&mut self) -> Result<Vec<EncodedEvent>, StoreError> {
        self.changes.mark_unchanged();
        let (before, found) = self.recent();
        if let Some((found, last)) = found {
            self.after = last;
            return Ok(found);
        }
        // The cursor is before the start of the buffer, so read from the store.
        let found = self.hub.after(self.subjects.as_ref(), self.after, MAX_BATCH).await?;
        // If the store has no matching event, the cursor moves to the start of the buffer: no matching event is before
        // it.
        self.after = found.last().map_or(self.after.max(before), |event| event.id);
        Ok(found)
    }

    /// Returns the id after which the buffer starts. If the buffer contains all events after the cursor, also returns
    /// the next matching events and the id of the last examined event.
    fn recent(&self) -> (u64, Option<(Vec<EncodedEvent>, u64)>) {
        let recent = self.hub.recent.read();
        if self.after < recent.after || recent.last == 0 {
            return (recent.after, None);
        }
        let from = recent.events.partition_point(|event| event.id <= self.after);
        let mut last = self.after;
        let mut found = Vec::new();
        for event in recent.events.range(from..) {
            if found.len() == MAX_BATCH {
                break;
            }
            last = event.id;
            if self.wants(event) {
                found.push(event.clone());
            }
        }
        (recent.after, Some((found, last)))
    }

    /// Next batch of events, read from the store and not from the buffer, because the store can contain newer events.
    pub(crate) async fn next_stored(&mut self) -> Result<Vec<EncodedEvent>, StoreError> {
        let found = self.hub.after(self.subjects.as_ref(), self.after, MAX_BATCH).await?;
        self.after = found.last().map_or(self.after, |event| event.id);
        Ok(found)
    }

    /// Waits until the hub has read new events.
    pub(crate) async fn more(&mut self) {
        // Cannot fail: the hub owns the sender, and this subscriber has a reference to the hub.
        let _ = self.changes.changed().await;
    }
}

/// Concatenates the encoded forms of several events.
pub(crate) fn joined(events: &[EncodedEvent]) -> Bytes {
    match events {
        [one] => one.frame.clone(),
        many => {
            let length = many.iter().map(|event| event.frame.len()).sum();
            let mut all = BytesMut::with_capacity(length);
            many.iter().for_each(|event| all.put_slice(&event.frame));
            all.freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use assize_run::{EffectKey, EffectOutcome, EffectRecord, GraphEvent, Lease, NewRun, RunKind};
    use assize_store::{Access, Durability, SqliteStore};
    use assize_types::Fingerprint;

    use super::*;

    /// Creates 30 runs, and a hub without a reader task, so that subscribers read from the store at first.
    async fn hub_with_runs(store: &Arc<dyn Store>) -> (Arc<EventHub>, Vec<Lease>) {
        let mut claims = Vec::new();
        for _ in 0..30 {
            let new = NewRun {
                kind: RunKind::Debate,
                title: String::new(),
                parent: None,
                input: json!({}),
                artifacts: Vec::new(),
                idempotency_key: None,
            };
            claims.push(store.create_run(new, "").await.unwrap().1);
        }
        // Sort the runs in the order in which the store is queried.
        claims.sort_by_key(|claim| claim.run.to_string());
        (EventHub::new(StoreLog::Events, store.clone()), claims)
    }

    #[tokio::test]
    async fn subscriber_receives_events_that_are_appended_while_it_reads_many_runs() {
        let folder = tempfile::tempdir().unwrap();
        let access = Access::Write(Durability::ProcessCrash);
        let store = SqliteStore::open(&folder.path().join("store.db"), access).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let (hub, claims) = hub_with_runs(&store).await;
        let subjects = claims.iter().map(|claim| claim.run.to_string()).collect();
        let mut follower = hub.subscribe(Some(subjects), 0);
        let (writing, all) = (store.clone(), 600);
        let writer = tokio::spawn(async move {
            for number in 0..all {
                if number % 2 == 0 {
                    // Pause, so that the writer is not faster than the subscriber.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                // Alternate between the first and the last run of the query.
                let claim = &claims[if number % 2 == 0 { 0 } else { claims.len() - 1 }];
                let record = EffectRecord {
                    key: EffectKey::new(&format!("step-{number}")).unwrap(),
                    request: Fingerprint::NONE,
                    outcome: EffectOutcome::Done("1".to_owned()),
                };
                let events = vec![GraphEvent::new("step", json!({"number": number}))];
                writing.append(claim, record, events).await.unwrap();
            }
        });
        let reading = {
            let hub = hub.clone();
            tokio::spawn(async move { hub.read(CancellationToken::new()).await })
        };
        let mut received = Vec::new();
        while received.len() < all {
            // Mix reads from the store with reads from the buffer.
            let events = match received.len() % 3 {
                0 => follower.next_stored().await.unwrap(),
                _ => follower.next().await.unwrap(),
            };
            if events.is_empty() {
                if writer.is_finished() && follower.after >= hub.newest().await.unwrap() {
                    break;
                }
                // Wait for the reader task of the hub, which may not have read the newest events yet.
                let _ = tokio::time::timeout(Duration::from_millis(20), follower.more()).await;
            }
            received.extend(events.iter().map(|event| event.id));
        }
        reading.abort();
        writer.await.unwrap();
        let stored = store.events(EventQuery::default()).await.unwrap();
        assert_eq!(received, stored.iter().map(|event| event.id).collect::<Vec<_>>());
    }
}
