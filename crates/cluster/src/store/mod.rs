//! Store of runs in streams of NATS `JetStream`.

mod calls;
mod log_follower;
mod pieces;
mod raw;
mod timeline;
mod view;
mod wire;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use assize_graph::{Appended, EffectRecord, GraphEvent};
use assize_run::{
    ArtifactId, ArtifactUse, AuditEntry, AuditQuery, Ending, EventQuery, IdempotencyKey, Lease,
    NewAuditEntry, NewRun, Run, RunFilter, RunId, RunStatus, Store, StoreError, StoreLog,
    StoredCall, StoredEvent,
};
use assize_types::{Fingerprint, unix_millis};
use async_nats::HeaderMap;
use async_nats::jetstream::stream::Config;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;

use crate::connection::{CreateResult, NatsConnection, ReadFlow, ReadSelection};
use log_follower::LogFollower;
use pieces::PackedMessage;
use timeline::RunTimeline;
use view::RunsView;
use wire::{
    AUDIT, ArtifactMessage, CALLS, EVENTS, EVENTS_OF_A_MESSAGE, EndMessage, KeyedRun,
    LeaseChangeKind, PIECES, RUNS, RecordMessage, RunCreated, RunMessageKind, event_ids,
};

/// Names of the streams of the store.
pub(crate) const STREAMS: [&str; 4] = [RUNS, PIECES, CALLS, AUDIT];

/// Store of runs in streams of NATS `JetStream`.
#[derive(Debug)]
pub struct ClusterStore {
    link: Arc<NatsConnection>,
    view: tokio::sync::Mutex<RunsView>,
    /// Ids of runs that this process has already found in the store. The runs may have been removed since.
    known: Mutex<HashSet<RunId>>,
    events: LogFollower,
    audit: LogFollower,
}

impl ClusterStore {
    pub(crate) async fn open(link: Arc<NatsConnection>) -> Result<ClusterStore, StoreError> {
        for (stream, subjects, last_only) in [
            (RUNS, vec!["run.>", "asked.*"], false),
            (PIECES, vec!["piece.>"], true),
            (CALLS, vec!["call.>"], true),
            (AUDIT, vec!["audit.*"], false),
        ] {
            let config = Config {
                name: link.stream_name(stream),
                subjects: subjects.into_iter().map(|subject| link.subject(subject)).collect(),
                num_replicas: link.options.replicas,
                max_messages_per_subject: if last_only { 1 } else { -1 },
                ..Config::default()
            };
            link.set_up(config).await?;
        }
        let (events, audit) = (LogFollower::of(RUNS, "run.>"), LogFollower::of(AUDIT, "audit.*"));
        Ok(ClusterStore { link, view: Default::default(), known: Mutex::default(), events, audit })
    }
}

fn with_events(mut packed: PackedMessage, count: usize) -> PackedMessage {
    if count > 0 {
        packed.headers.insert(EVENTS, count.to_string().as_str());
    }
    packed
}

#[async_trait]
impl Store for ClusterStore {
    async fn create_run(&self, new: NewRun, holder: &str) -> Result<(Run, Lease), StoreError> {
        let mut id = RunId::random(new.kind);
        let once = new.idempotency_key.as_ref().map(|once| wire::asked(&once.key));
        if let (Some(once), Some(subject)) = (&new.idempotency_key, &once) {
            let asked = KeyedRun { run: id.clone(), request: once.request };
            let packed = self.link.pack(&id, &asked, None::<&()>).await?;
            if let CreateResult::Theirs(found) = self.create(subject.clone(), packed).await? {
                let asked: KeyedRun = self.link.parse(&found.payload)?;
                match self.timeline(&asked.run).await {
                    Ok(_) => {
                        let same = asked.request == once.request;
                        return Err(StoreError::IdempotencyKeyUsed { run: asked.run, same });
                    }
                    Err(StoreError::NoSuchRun(_)) => {}
                    Err(error) => return Err(error),
                }
                if self.get(wire::turn(&asked.run, 2)).await?.is_some() {
                    // The run of this idempotency key was removed, but the key was not: remove the key and start again.
                    self.remove_message(found.sequence).await?;
                    return self.create_run(new, holder).await;
                }
                // An earlier request has reserved the idempotency key, but has not created its run yet, or its process
                // has died. Create the run with the same id.
                id = asked.run;
            }
        }
        let mut artifacts = Vec::new();
        for (name, bytes) in &new.artifacts {
            let (hash, _) = self.link.put_pieces(&id, bytes).await?;
            artifacts.push(ArtifactMessage {
                name: name.clone(),
                id: hash,
                bytes: bytes.len() as u64,
            });
        }
        let mut born = RunCreated {
            at: unix_millis(),
            kind: new.kind,
            title: new.title,
            parent: new.parent,
            input: new.input,
            holder: holder.to_owned(),
            artifacts,
            once: once.clone(),
        };
        let input = std::mem::take(&mut born.input);
        let light = serde_json::to_value(&born).map_err(|error| self.link.failed(error))?;
        born.input = input;
        loop {
            let packed = self.link.pack(&id, &born, Some(&light)).await?;
            match self.create(wire::born(&id), packed).await? {
                CreateResult::Ours(sequence) => {
                    self.know(&id);
                    let timeline = RunTimeline::begin(id.clone(), sequence, born);
                    return Ok((timeline.run, Lease { run: id, epoch: 1 }));
                }
                CreateResult::Theirs(_) if once.is_some() => {
                    return Err(StoreError::IdempotencyKeyUsed { run: id, same: true });
                }
                // Another run already has this random id, which is very unlikely. Try another id.
                CreateResult::Theirs(_) => id = RunId::random(born.kind),
            }
        }
    }

    async fn find_by_idempotency_key(
        &self,
        once: &IdempotencyKey,
    ) -> Result<Option<(RunId, bool)>, StoreError> {
        let Some(found) = self.get(wire::asked(&once.key)).await? else { return Ok(None) };
        let asked: KeyedRun = self.link.parse(&found.payload)?;
        match self.timeline(&asked.run).await {
            Ok(_) => Ok(Some((asked.run, asked.request == once.request))),
            Err(StoreError::NoSuchRun(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn run(&self, id: &RunId) -> Result<Run, StoreError> {
        Ok(self.timeline(id).await?.run)
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>, StoreError> {
        let found = self.caught_up().await?.runs(&filter);
        let mut runs = Vec::with_capacity(found.len());
        for (run, whole) in found {
            match whole {
                true => runs.push(run),
                false => match self.timeline(&run.id).await {
                    Ok(timeline) => runs.push(timeline.run),
                    // The run was removed meanwhile, so it is not returned.
                    Err(StoreError::NoSuchRun(_)) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(runs)
    }

    async fn claim(
        &self,
        id: &RunId,
        holder: &str,
        seen: Option<u64>,
    ) -> Result<Lease, StoreError> {
        loop {
            let timeline = self.timeline(id).await?;
            if timeline.run.status == RunStatus::Done {
                return Err(StoreError::Done(id.clone()));
            }
            if seen.is_some_and(|seen| seen != timeline.run.epoch) {
                return Err(StoreError::Fenced(id.clone()));
            }
            let kind = LeaseChangeKind::Claimed { holder: holder.to_owned() };
            // If another process changed the lease first, check the new state of the run.
            if let Some(claim) = self.change_lease(&timeline, kind).await? {
                self.know(id);
                return Ok(claim);
            }
        }
    }

    async fn append(
        &self,
        claim: &Lease,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, StoreError> {
        self.expect(&claim.run).await?;
        if let Some(earlier) = self.earlier(claim, &record.key).await? {
            return Ok(Appended::Existing(earlier));
        }
        let count = events.len();
        if count as u64 > EVENTS_OF_A_MESSAGE {
            let reason = format!("one step of the run has more than {EVENTS_OF_A_MESSAGE} events");
            return Err(self.link.failed(reason));
        }
        let subject = wire::record(&claim.run, claim.epoch, &record.key);
        let request = (record.request != Fingerprint::NONE).then_some(record.request);
        let written = RecordMessage {
            at: unix_millis(),
            key: record.key,
            request,
            outcome: record.outcome,
            events,
        };
        let packed = self.link.pack(&claim.run, &written, None::<&()>).await?;
        match self.create(subject, with_events(packed, count)).await? {
            CreateResult::Ours(sequence) => {
                self.check_ours(claim, sequence).await?;
                Ok(Appended::Recorded { event_ids: event_ids(sequence, count).collect() })
            }
            CreateResult::Theirs(found) => {
                // The existing record may be valid although this process has lost the lease by now: check the lease.
                self.check(claim, self.link.last_sequence(RUNS).await?).await?;
                let written: RecordMessage = self.link.unpack(&claim.run, &found).await?;
                Ok(Appended::Existing(written.record()))
            }
        }
    }

    async fn records(&self, id: &RunId) -> Result<Vec<EffectRecord>, StoreError> {
        let mut messages = Vec::new();
        self.read_valid(&format!("run.{id}.>"), 1, |_, kind, found| {
            if let RunMessageKind::Written(_) = kind {
                messages.push(found);
            }
            ReadFlow::Continue
        })
        .await?;
        let mut records = Vec::with_capacity(messages.len());
        let mut failed = None;
        for found in messages {
            match self.link.unpack::<RecordMessage>(id, &found).await {
                Ok(written) => records.push(written.record()),
                Err(error) => failed = Some(error),
            }
        }
        // Records may be missing because the run is being removed. If the run still exists, all records were read.
        self.timeline(id).await?;
        failed.map_or(Ok(records), Err)
    }

    async fn store_call(
        &self,
        claim: &Lease,
        number: u64,
        noted: StoredCall,
    ) -> Result<(), StoreError> {
        self.write_call(claim, number, noted).await
    }

    async fn calls(&self, id: &RunId) -> Result<Vec<(u64, StoredCall)>, StoreError> {
        self.read_calls(id).await
    }

    fn unavailable_time(&self) -> Duration {
        self.link.away()
    }

    async fn finish(
        &self,
        claim: &Lease,
        ending: Ending,
        events: Vec<GraphEvent>,
    ) -> Result<Vec<u64>, StoreError> {
        self.expect(&claim.run).await?;
        let count = events.len();
        let mut ended = EndMessage::of(unix_millis(), ending, events);
        let (result, events) = (ended.result.take(), std::mem::take(&mut ended.events));
        let light = serde_json::to_value(&ended).map_err(|error| self.link.failed(error))?;
        (ended.result, ended.events) = (result, events);
        let packed = self.link.pack(&claim.run, &ended, Some(&light)).await?;
        let subject = wire::ended(&claim.run, claim.epoch);
        let created = self.create(subject, with_events(packed, count)).await?;
        // A run ends at most once in each epoch. If this function is called again, it succeeds if the lease is valid.
        let sequence = match created {
            CreateResult::Ours(sequence) => {
                self.check_ours(claim, sequence).await?;
                sequence
            }
            CreateResult::Theirs(found) => {
                self.check(claim, self.link.last_sequence(RUNS).await?).await?;
                found.sequence
            }
        };
        Ok(event_ids(sequence, count).collect())
    }

    async fn cancel_run(
        &self,
        seen: &Lease,
        reason: &str,
        events: Vec<GraphEvent>,
    ) -> Result<(), StoreError> {
        let fenced = || StoreError::Fenced(seen.run.clone());
        let timeline = self.timeline(&seen.run).await?;
        if timeline.run.epoch != seen.epoch || timeline.run.status != RunStatus::Running {
            return Err(fenced());
        }
        let kind = LeaseChangeKind::Stopped { reason: reason.to_owned(), events };
        self.change_lease(&timeline, kind).await?.map(drop).ok_or_else(fenced)
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<StoredEvent>, StoreError> {
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        if query.runs.is_empty() {
            return self.events_under("run.>", query.after, limit).await;
        }
        // The runs are read one after another. Return only events up to the same id for all runs: later events would
        // make the next query skip new events of the runs that were read first.
        let upto = self.last_event().await?;
        let mut all = Vec::new();
        for run in &query.runs {
            all.extend(self.events_under(&format!("run.{run}.>"), query.after, limit).await?);
        }
        if query.runs.len() > 1 {
            all.retain(|event| event.id <= upto);
        }
        all.sort_by_key(|event| event.id);
        all.truncate(limit);
        Ok(all)
    }

    async fn last_event(&self) -> Result<u64, StoreError> {
        let last = self.link.last_sequence(RUNS).await?;
        Ok(if last == 0 { 0 } else { last * EVENTS_OF_A_MESSAGE + EVENTS_OF_A_MESSAGE - 1 })
    }

    async fn wait_for_entry(&self, log: StoreLog, beyond: u64) -> Result<(), StoreError> {
        match log {
            StoreLog::Events => {
                let sequence = beyond / EVENTS_OF_A_MESSAGE;
                let seen = beyond % EVENTS_OF_A_MESSAGE + 1;
                self.events.beyond(&self.link, sequence, seen).await
            }
            StoreLog::Audit => self.audit.beyond(&self.link, beyond, u64::MAX).await,
        }
    }

    async fn remove_run(&self, seen: &Lease) -> Result<(), StoreError> {
        let fenced = || StoreError::Fenced(seen.run.clone());
        let timeline = self.timeline(&seen.run).await?;
        if timeline.run.epoch != seen.epoch {
            return Err(fenced());
        }
        self.change_lease(&timeline, LeaseChangeKind::Removed).await?.ok_or_else(fenced)?;
        let entry = NewAuditEntry {
            actor: "user".to_owned(),
            action: "run removed".to_owned(),
            subject: seen.run.to_string(),
            detail: Value::Null,
        };
        self.audit(entry).await?;
        self.remove_messages(&seen.run, timeline.idempotency_subject.as_deref()).await
    }

    async fn put_artifact(
        &self,
        run: &RunId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<ArtifactId, StoreError> {
        let missing = || StoreError::NoSuchRun(run.clone());
        self.get(wire::born(run)).await?.ok_or_else(missing)?;
        let (id, _) = self.link.put_pieces(run, &bytes).await?;
        let used = ArtifactMessage { name: name.to_owned(), id, bytes: bytes.len() as u64 };
        let packed = self.link.pack(run, &used, None::<&()>).await?;
        let subject = self.subject(wire::used(run, name));
        let sequence = self.link.add(&subject, packed.headers, packed.payload).await?;
        if let Err(error) = self.outline(run).await {
            if let StoreError::NoSuchRun(_) = &error {
                self.remove_late_write(run, sequence).await?;
            }
            return Err(error);
        }
        Ok(id)
    }

    async fn artifact(&self, id: ArtifactId) -> Result<Vec<u8>, StoreError> {
        let found = self.link.find_pieces(id).await?;
        found.ok_or_else(|| StoreError::NoSuchArtifact(id.to_string()))
    }

    async fn artifacts(&self, run: &RunId) -> Result<Vec<ArtifactUse>, StoreError> {
        let missing = || StoreError::NoSuchRun(run.clone());
        let found = self.get(wire::born(run)).await?.ok_or_else(missing)?;
        let born: RunCreated = self.link.parse(&found.payload)?;
        let mut all: std::collections::BTreeMap<String, ArtifactMessage> =
            born.artifacts.into_iter().map(|used| (used.name.clone(), used)).collect();
        let filter = self.subject(format!("run.{run}.used.*"));
        let reading = ReadSelection { stream: RUNS, filter, from: 1, last_of_each: true };
        self.link
            .read(reading, |found| {
                let used: ArtifactMessage = self.link.parse(&found.payload)?;
                all.insert(used.name.clone(), used);
                Ok(ReadFlow::Continue)
            })
            .await?;
        Ok(all.into_values().map(Into::into).collect())
    }

    async fn audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, StoreError> {
        loop {
            let last = self.link.last(AUDIT, &self.subject("audit.*".to_owned())).await?;
            let last: Option<AuditEntry> =
                last.map(|found| self.link.parse(&found.payload)).transpose()?;
            let (id, previous) = match last {
                Some(last) => (last.id + 1, last.hash),
                None => (1, Fingerprint::NONE),
            };
            let chained = AuditEntry::chained(id, unix_millis(), entry.clone(), previous);
            let payload = serde_json::to_vec(&chained).map_err(|error| self.link.failed(error))?;
            let subject = self.subject(format!("audit.{id}"));
            // If another process has added an entry first, chain this entry to that one.
            if let CreateResult::Ours(_) =
                self.link.create(AUDIT, &subject, HeaderMap::new(), payload).await?
            {
                return Ok(chained);
            }
        }
    }

    async fn audit_log(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let filter = self.subject("audit.*".to_owned());
        let reading = ReadSelection { stream: AUDIT, filter, from: 1, last_of_each: false };
        let mut all = Vec::new();
        self.link
            .read(reading, |found| {
                let entry: AuditEntry = self.link.parse(&found.payload)?;
                let matches = query.subject.as_ref().is_none_or(|one| *one == entry.subject);
                if matches && entry.id > query.after {
                    all.push(entry);
                }
                Ok(if all.len() >= limit { ReadFlow::Stop } else { ReadFlow::Continue })
            })
            .await?;
        Ok(all)
    }

    async fn audit_head(&self) -> Result<u64, StoreError> {
        // Each entry of the audit log is one message, so its id is the sequence number of the message.
        self.link.last_sequence(AUDIT).await
    }
}
