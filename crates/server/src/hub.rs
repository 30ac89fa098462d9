//! Live events: one reader of the store, and any number of followers.
//!
//! Nobody has a queue. Each follower has a place in the log, and takes what comes after it: from what was told lately,
//! which is kept here once for all of them, ready to be sent; or, if it is further behind, from the store. A slow one
//! falls behind and costs nothing but its connection; nobody waits for it, and nothing is lost to it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use assize_run::{
    AuditEntry, AuditQuery, EventQuery, Log, RunEvent, RunId, Store, StoreError, StoredEvent,
};
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The most that is kept for followers, and the most that is sent at once.
const RECENT: usize = 4096;
const AT_ONCE: usize = 64;

/// How long it is waited before a store that failed is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that was told, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) id: u64,
    /// The run, or the workspace.
    about: Arc<str>,
    frame: Bytes,
    /// Whether a run has ended with it.
    pub(crate) ends: bool,
}

impl Told {
    fn new(id: u64, about: &str, name: &str, data: &Value) -> Told {
        let frame = frame(Some(id), name, data);
        Told { id, about: about.into(), frame, ends: name == RunEvent::RUN_ENDED }
    }

    fn event(event: &StoredEvent) -> Told {
        let mut data = event.payload.clone();
        if let Some(data) = data.as_object_mut() {
            data.insert("run".to_owned(), json!(event.run));
            data.insert("at".to_owned(), json!(event.at));
        }
        Told::new(event.id, event.run.as_str(), &event.name, &data)
    }

    fn entry(entry: &AuditEntry) -> Told {
        // By the names of the messages that workers get, where there is one.
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
        Told::new(entry.id, &entry.subject, name, &data)
    }
}

/// An event as it is sent.
pub(crate) fn frame(id: Option<u64>, name: &str, data: &Value) -> Bytes {
    let mut frame = BytesMut::new();
    if let Some(id) = id {
        frame.put_slice(format!("id: {id}\n").as_bytes());
    }
    // One line each: names are ours, and JSON has none.
    frame.put_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
    frame.freeze()
}

/// What was told lately.
#[derive(Debug, Default)]
struct Recent {
    told: VecDeque<Told>,
    /// All that was told after this is here.
    after: u64,
    /// The last that was read.
    last: u64,
}

/// One log, and those who follow it.
#[derive(Debug)]
pub(crate) struct Hub {
    log: Log,
    store: Arc<dyn Store>,
    recent: RwLock<Recent>,
    /// The last that was read, for those who wait for more.
    last: watch::Sender<u64>,
    followers: AtomicUsize,
    /// Rung when somebody begins to follow.
    bell: Notify,
}

impl Hub {
    pub(crate) fn new(log: Log, store: Arc<dyn Store>) -> Arc<Hub> {
        Arc::new(Hub {
            log,
            store,
            recent: RwLock::default(),
            last: watch::Sender::new(0),
            followers: AtomicUsize::new(0),
            bell: Notify::new(),
        })
    }

    pub(crate) fn followers(&self) -> usize {
        self.followers.load(Ordering::Relaxed)
    }

    /// Reads what is told, as long as anybody follows.
    pub(crate) async fn read(&self, closing: CancellationToken) {
        let work = async {
            loop {
                while self.followers() == 0 {
                    self.bell.notified().await;
                }
                let read = self.read_on().await;
                // What is told from now on is not seen here: whoever comes next asks the store.
                *self.recent.write() = Recent::default();
                if let Err(error) = read {
                    tracing::warn!(%error, "events cannot be read");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = closing.cancelled() => {}
        }
    }

    async fn read_on(&self) -> Result<(), StoreError> {
        // What was told while nobody followed is left in the store.
        let newest = self.newest().await?;
        {
            let mut recent = self.recent.write();
            *recent = Recent { told: VecDeque::new(), after: newest, last: newest };
        }
        self.last.send_replace(newest);
        let mut last = newest;
        while self.followers() > 0 {
            tokio::select! {
                grown = self.store.grown(self.log, last) => grown?,
                // So that somebody who leaves is noticed.
                () = tokio::time::sleep(PAUSE) => continue,
            }
            let told = self.after(None, last, RECENT / 2).await?;
            last = told.last().map_or(last, |told| told.id);
            let mut recent = self.recent.write();
            recent.told.extend(told);
            recent.last = last;
            while recent.told.len() > RECENT {
                recent.after = recent.told.pop_front().map_or(last, |told| told.id);
            }
            drop(recent);
            self.last.send_replace(last);
        }
        Ok(())
    }

    /// The last that the store has.
    async fn newest(&self) -> Result<u64, StoreError> {
        match self.log {
            Log::Events => self.store.last_event().await,
            Log::Audit => self.store.audit_head().await,
        }
    }

    /// What the store has after a place: of some runs, or one workspace, or of all.
    async fn after(
        &self,
        about: Option<&BTreeSet<String>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Told>, StoreError> {
        let about = about.into_iter().flatten();
        Ok(match self.log {
            Log::Events => {
                let runs: Vec<RunId> = about.filter_map(|run| run.parse().ok()).collect();
                let events = self.store.events(EventQuery { runs, after, limit }).await?;
                events.iter().map(Told::event).collect()
            }
            Log::Audit => {
                let subject = about.last().cloned();
                let entries = self.store.audit_log(AuditQuery { subject, after, limit }).await?;
                entries.iter().map(Told::entry).collect()
            }
        })
    }

    /// Begins to follow, after a place in the log: some of what is told, or all.
    pub(crate) fn follow(
        self: &Arc<Self>,
        about: Option<BTreeSet<String>>,
        after: u64,
    ) -> Follower {
        self.followers.fetch_add(1, Ordering::Relaxed);
        self.bell.notify_one();
        Follower { hub: self.clone(), about, after, changes: self.last.subscribe() }
    }
}

/// Somebody who follows a log.
#[derive(Debug)]
pub(crate) struct Follower {
    hub: Arc<Hub>,
    about: Option<BTreeSet<String>>,
    /// All up to here was taken, or is not wanted.
    after: u64,
    changes: watch::Receiver<u64>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.hub.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Follower {
    fn wants(&self, told: &Told) -> bool {
        self.about.as_ref().is_none_or(|about| about.contains(&*told.about))
    }

    /// What comes next that is there already; nothing, if all of it was taken.
    pub(crate) async fn next(&mut self) -> Result<Vec<Told>, StoreError> {
        self.changes.mark_unchanged();
        let (before, found) = self.recent();
        if let Some((found, last)) = found {
            self.after = last;
            return Ok(found);
        }
        // Further behind than what is kept here.
        let found = self.hub.after(self.about.as_ref(), self.after, AT_ONCE).await?;
        // Whatever was before that, and is not in the store, is nothing of ours.
        self.after = found.last().map_or(self.after.max(before), |told| told.id);
        Ok(found)
    }

    /// From where on all is kept here; and if that is far enough back, what is wanted of it, with the last that was
    /// looked at.
    fn recent(&self) -> (u64, Option<(Vec<Told>, u64)>) {
        let recent = self.hub.recent.read();
        if self.after < recent.after || recent.last == 0 {
            return (recent.after, None);
        }
        let from = recent.told.partition_point(|told| told.id <= self.after);
        let mut last = self.after;
        let mut found = Vec::new();
        for told in recent.told.range(from..) {
            if found.len() == AT_ONCE {
                break;
            }
            last = told.id;
            if self.wants(told) {
                found.push(told.clone());
            }
        }
        (recent.after, Some((found, last)))
    }

    /// What comes next by the word of the store, whatever was read here so far.
    pub(crate) async fn next_kept(&mut self) -> Result<Vec<Told>, StoreError> {
        let found = self.hub.after(self.about.as_ref(), self.after, AT_ONCE).await?;
        self.after = found.last().map_or(self.after, |told| told.id);
        Ok(found)
    }

    /// Waits until there is more.
    pub(crate) async fn more(&mut self) {
        // It lives as long as the hub, which we hold.
        let _ = self.changes.changed().await;
    }
}

/// Several events as one piece.
pub(crate) fn joined(told: &[Told]) -> Bytes {
    match told {
        [one] => one.frame.clone(),
        many => {
            let length = many.iter().map(|told| told.frame.len()).sum();
            let mut all = BytesMut::with_capacity(length);
            many.iter().for_each(|told| all.put_slice(&told.frame));
            all.freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use assize_run::{Event, Key, Lease, NewRun, Outcome, Record, RunKind};
    use assize_store::{Access, Durability, SqliteStore};
    use assize_types::Fingerprint;

    use super::*;

    /// A hub of many runs that nobody reads: followers ask the store.
    async fn many(store: &Arc<dyn Store>) -> (Arc<Hub>, Vec<Lease>) {
        let mut claims = Vec::new();
        for _ in 0..30 {
            let new = NewRun {
                kind: RunKind::Debate,
                title: String::new(),
                parent: None,
                input: json!({}),
                artifacts: Vec::new(),
                once: None,
            };
            claims.push(store.create_run(new, "").await.unwrap().1);
        }
        // As they are asked for.
        claims.sort_by_key(|claim| claim.run.to_string());
        (Hub::new(Log::Events, store.clone()), claims)
    }

    #[tokio::test]
    async fn what_is_told_while_many_runs_are_asked_for_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let access = Access::Write(Durability::ProcessCrash);
        let store = SqliteStore::open(&folder.path().join("store.db"), access).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let (hub, claims) = many(&store).await;
        let about = claims.iter().map(|claim| claim.run.to_string()).collect();
        let mut follower = hub.follow(Some(about), 0);
        let (writing, all) = (store.clone(), 600);
        let writer = tokio::spawn(async move {
            for number in 0..all {
                if number % 2 == 0 {
                    // Not faster than they are heard.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                // The first of them and the last.
                let claim = &claims[if number % 2 == 0 { 0 } else { claims.len() - 1 }];
                let record = Record {
                    key: Key::new(&format!("step-{number}")).unwrap(),
                    request: Fingerprint::NONE,
                    outcome: Outcome::Done("1".to_owned()),
                };
                let told = vec![Event::new("told", json!({"number": number}))];
                writing.append(claim, record, told).await.unwrap();
            }
        });
        let reading = {
            let hub = hub.clone();
            tokio::spawn(async move { hub.read(CancellationToken::new()).await })
        };
        let mut heard = Vec::new();
        while heard.len() < all {
            // From what is kept here and from the store, as it comes.
            let told = match heard.len() % 3 {
                0 => follower.next_kept().await.unwrap(),
                _ => follower.next().await.unwrap(),
            };
            if told.is_empty() {
                if writer.is_finished() && follower.after >= hub.newest().await.unwrap() {
                    break;
                }
                // The reader may be behind, and has to be let to its work.
                let _ = tokio::time::timeout(Duration::from_millis(20), follower.more()).await;
            }
            heard.extend(told.iter().map(|told| told.id));
        }
        reading.abort();
        writer.await.unwrap();
        let kept = store.events(EventQuery::default()).await.unwrap();
        assert_eq!(heard, kept.iter().map(|event| event.id).collect::<Vec<_>>());
    }
}
