//! Internal operations of the cluster store: read the state of a run, change its lease, and check which of the messages
//! in the stream are valid.

use assize_graph::{EffectKey, EffectRecord, GraphEvent};
use assize_run::{Lease, RunId, StoreError, StoredEvent};
use assize_types::unix_millis;
use async_nats::HeaderMap;

use super::pieces::PackedMessage;
use super::timeline::RunTimeline;
use super::view::RunsView;
use super::wire::{
    self, CALLS, EVENTS, EVENTS_OF_A_MESSAGE, EndMessage, KeyedRun, LeaseChange, LeaseChangeKind,
    PIECES, RUNS, RecordMessage, RunCreated, RunMessageKind, event_ids,
};
use super::{ClusterStore, with_events};
use crate::connection::{CreateResult, ReadFlow, ReadSelection, StoredMessage};
use crate::error::is_missing;

impl ClusterStore {
    pub(super) fn subject(&self, rest: String) -> String {
        self.link.subject(&rest)
    }

    pub(super) async fn get(&self, rest: String) -> Result<Option<StoredMessage>, StoreError> {
        self.link.last(RUNS, &self.subject(rest)).await
    }

    pub(super) async fn create(
        &self,
        rest: String,
        packed: PackedMessage,
    ) -> Result<CreateResult, StoreError> {
        self.link.create(RUNS, &self.subject(rest), packed.headers, packed.payload).await
    }

    /// Reads the state of a run, including content that is stored in pieces.
    pub(super) async fn timeline(&self, id: &RunId) -> Result<RunTimeline, StoreError> {
        loop {
            let (mut timeline, born, ended) = self.outline(id).await?;
            match self.load_pieces(&mut timeline, &born, ended.as_ref()).await {
                Ok(()) => return Ok(timeline),
                // The pieces are missing because the run is being removed. Read the state again.
                Err(_) if self.get(wire::turn(id, timeline.last_turn + 1)).await?.is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Loads the input and the result of a run, which may be stored in pieces.
    async fn load_pieces(
        &self,
        timeline: &mut RunTimeline,
        born: &StoredMessage,
        ended: Option<&StoredMessage>,
    ) -> Result<(), StoreError> {
        let born: RunCreated = self.link.unpack(&timeline.run.id, born).await?;
        timeline.run.input = born.input;
        if let Some(ended) = ended {
            let ended: EndMessage = self.link.unpack(&timeline.run.id, ended).await?;
            timeline.run.result = ended.result;
        }
        Ok(())
    }

    /// Reads the state of a run without content that is stored in pieces. Also returns the message that created the
    /// run, and the message that ended it, if any.
    pub(super) async fn outline(
        &self,
        id: &RunId,
    ) -> Result<(RunTimeline, StoredMessage, Option<StoredMessage>), StoreError> {
        let missing = || StoreError::NoSuchRun(id.clone());
        let born = self.get(wire::born(id)).await?.ok_or_else(missing)?;
        let mut timeline =
            RunTimeline::begin(id.clone(), born.sequence, self.link.parse(&born.payload)?);
        let mut end = None;
        for epoch in 1.. {
            let (ended, turn) = tokio::try_join!(
                self.get(wire::ended(id, epoch)),
                self.get(wire::turn(id, epoch + 1))
            )?;
            // The end is valid only if it was written before the next change of the lease.
            let ended_first = match (&ended, &turn) {
                (Some(ended), Some(turn)) => ended.sequence < turn.sequence,
                _ => true,
            };
            if let Some(ended) = ended.filter(|_| ended_first)
                && timeline.ended(epoch, self.link.parse(&ended.payload)?)
            {
                end = Some(ended);
            }
            let Some(turn) = turn else { break };
            if timeline.apply_lease_change(
                epoch + 1,
                turn.sequence,
                self.link.parse(&turn.payload)?,
            ) {
                end = None;
            }
        }
        if timeline.removed { Err(missing()) } else { Ok((timeline, born, end)) }
    }

    pub(super) fn know(&self, id: &RunId) {
        self.known.lock().insert(id.clone());
    }

    /// Fails if the store contains no run with this id. Does not read the store if this process has found the run
    /// before, so the run may have been removed since.
    pub(super) async fn expect(&self, id: &RunId) -> Result<(), StoreError> {
        if !self.known.lock().contains(id) {
            let born = self.get(wire::born(id)).await?;
            born.ok_or_else(|| StoreError::NoSuchRun(id.clone()))?;
            self.know(id);
        }
        Ok(())
    }

    /// Fails if the lease `claim` was already lost when the message with this sequence number was written. Such a
    /// message stays in the stream, but readers ignore it.
    pub(super) async fn check(&self, claim: &Lease, sequence: u64) -> Result<(), StoreError> {
        if self.get(wire::turn(&claim.run, claim.epoch + 1)).await?.is_none() {
            return Ok(());
        }
        let (timeline, ..) = self.outline(&claim.run).await?;
        match timeline.is_valid(claim.epoch, sequence) {
            true => Ok(()),
            false => Err(StoreError::Fenced(claim.run.clone())),
        }
    }

    /// Like [`ClusterStore::check`], for a message that this process has just written. If the run was removed, also
    /// removes the message.
    pub(super) async fn check_ours(&self, claim: &Lease, sequence: u64) -> Result<(), StoreError> {
        let checked = self.check(claim, sequence).await;
        if let Err(StoreError::NoSuchRun(_)) = &checked {
            self.remove_late_write(&claim.run, sequence).await?;
        }
        checked
    }

    /// Removes a message that was written after its run had been removed. Also removes all large content of the run
    /// that is stored in pieces.
    pub(super) async fn remove_late_write(
        &self,
        run: &RunId,
        sequence: u64,
    ) -> Result<(), StoreError> {
        self.remove_message(sequence).await?;
        self.purge(PIECES, &format!("piece.{run}.>")).await
    }

    /// Removes the messages of a removed run. The message that created the run is removed last, so that an interrupted
    /// removal can be continued. The messages that changed the lease stay in the stream, so that a process that still
    /// uses an old lease finds out that the run was removed.
    pub(super) async fn remove_messages(
        &self,
        run: &RunId,
        once: Option<&str>,
    ) -> Result<(), StoreError> {
        self.purge(PIECES, &format!("piece.{run}.>")).await?;
        self.purge(CALLS, &format!("call.{run}.>")).await?;
        if let Some(once) = once
            && let Some(found) = self.get(once.to_owned()).await?
        {
            // Remove the idempotency key only if it belongs to this run: it may have been used again for another run.
            let asked: KeyedRun = self.link.parse(&found.payload)?;
            if asked.run == *run {
                self.remove_message(found.sequence).await?;
            }
        }
        for part in ["record.>", "used.>", "state.ended.>", "state.born"] {
            self.purge(RUNS, &format!("run.{run}.{part}")).await?;
        }
        Ok(())
    }

    /// Completes the removal of every run whose removal was interrupted because the removing process died.
    pub async fn finish_removals(&self) -> Result<(), StoreError> {
        let removed = self.caught_up().await?.removed();
        for (run, once) in removed {
            if self.get(wire::born(&run)).await?.is_some() {
                tracing::info!(%run, "completing the interrupted removal of a run");
                self.remove_messages(&run, once.as_deref()).await?;
            }
        }
        Ok(())
    }

    /// Removes the message with this sequence number, if it exists.
    pub(super) async fn remove_message(&self, sequence: u64) -> Result<(), StoreError> {
        let remove = async || {
            let stream = self.link.stream(RUNS).await?;
            let Err(error) = stream.delete_message(sequence).await else { return Ok(()) };
            match stream.get_raw_message(sequence).await {
                Err(gone) if is_missing(&gone) => Ok(()),
                _ => Err(error.into()),
            }
        };
        self.link.retry(remove).await
    }

    pub(super) async fn purge(&self, stream: &str, filter: &str) -> Result<(), StoreError> {
        let filter = self.link.subject(filter);
        let purge = async || {
            self.link.stream(stream).await?.purge().filter(&filter).await?;
            Ok(())
        };
        self.link.retry(purge).await
    }

    /// Writes the next message that changes the lease of a run: a claim, a stop or a removal. Returns `None` if another
    /// process changed the lease first, or if the change is not valid.
    pub(super) async fn change_lease(
        &self,
        timeline: &RunTimeline,
        kind: LeaseChangeKind,
    ) -> Result<Option<Lease>, StoreError> {
        let (run, epoch) = (&timeline.run.id, timeline.last_turn + 1);
        let events = match &kind {
            LeaseChangeKind::Stopped { events, .. } => events.len(),
            LeaseChangeKind::Claimed { .. } | LeaseChangeKind::Removed => 0,
        };
        let removed = matches!(kind, LeaseChangeKind::Removed);
        let payload = serde_json::to_vec(&LeaseChange { at: unix_millis(), kind });
        let payload = payload.map_err(|error| self.link.failed(error))?;
        let packed = with_events(PackedMessage { headers: HeaderMap::new(), payload }, events);
        let CreateResult::Ours(sequence) = self.create(wire::turn(run, epoch), packed).await?
        else {
            return Ok(None);
        };
        let counts = removed || self.timeline(run).await?.is_valid(epoch, sequence);
        Ok(counts.then(|| Lease { run: run.clone(), epoch }))
    }

    /// Reads the valid messages whose subject matches a filter, in order, from the sequence number `from` on.
    pub(super) async fn read_valid(
        &self,
        filter: &str,
        from: u64,
        mut each: impl FnMut(RunId, RunMessageKind, StoredMessage) -> ReadFlow,
    ) -> Result<(), StoreError> {
        let mut view = self.view.lock().await;
        view.catch_up(&self.link).await?;
        let filter = self.link.subject(filter);
        let reading = ReadSelection { stream: RUNS, filter, from, last_of_each: false };
        self.link
            .read(reading, |found| {
                // Apply messages that are newer than the view: a lease change among them invalidates later messages.
                view.apply(&found).map_err(|error| self.link.failed(error))?;
                Ok(match view.counting(&found) {
                    Some((run, kind)) => each(run, kind, found),
                    None => ReadFlow::Continue,
                })
            })
            .await
    }

    /// Returns the events that a message contains, with their ids.
    pub(super) async fn events_in(
        &self,
        run: &RunId,
        kind: RunMessageKind,
        found: &StoredMessage,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let (at, events) = match kind {
            RunMessageKind::Written(_) => {
                let written: RecordMessage = self.link.unpack(run, found).await?;
                (written.at, written.events)
            }
            RunMessageKind::Ended(_) => {
                let ended: EndMessage = self.link.unpack(run, found).await?;
                (ended.at, ended.events)
            }
            RunMessageKind::LeaseChange(_) => match self.link.parse(&found.payload)? {
                LeaseChange { at, kind: LeaseChangeKind::Stopped { events, .. } } => (at, events),
                LeaseChange { at, .. } => (at, Vec::new()),
            },
            RunMessageKind::Created | RunMessageKind::Used => (0, Vec::new()),
        };
        let ids = event_ids(found.sequence, events.len());
        let stored = |(id, GraphEvent { name, payload })| StoredEvent {
            id,
            run: run.clone(),
            at,
            name,
            payload,
        };
        Ok(ids.zip(events).map(stored).collect())
    }

    /// Reads up to `limit` events with ids above `after`, from the messages whose subject matches a filter.
    pub(super) async fn events_under(
        &self,
        filter: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let from = after / EVENTS_OF_A_MESSAGE;
        let mut messages = Vec::new();
        let mut count = 0;
        self.read_valid(filter, from.max(1), |run, kind, found| {
            let has: usize = found.header(EVENTS).and_then(|count| count.parse().ok()).unwrap_or(0);
            if has > 0 {
                // Do not count the events of the first message: some or all of them may have ids up to `after`.
                count += if found.sequence == from { 0 } else { has };
                messages.push((run, kind, found));
            }
            if count >= limit { ReadFlow::Stop } else { ReadFlow::Continue }
        })
        .await?;
        let mut all = Vec::new();
        for (run, kind, found) in messages {
            let events = self.events_in(&run, kind, &found).await?;
            all.extend(events.into_iter().filter(|event| event.id > after));
        }
        all.truncate(limit);
        Ok(all)
    }

    /// Returns the in-memory view of all runs, after the view has read all new messages.
    pub(super) async fn caught_up(
        &self,
    ) -> Result<tokio::sync::MutexGuard<'_, RunsView>, StoreError> {
        let mut view = self.view.lock().await;
        view.catch_up(&self.link).await?;
        Ok(view)
    }

    /// Returns the valid journal record with this key that an earlier lease holder wrote, if any.
    pub(super) async fn earlier(
        &self,
        claim: &Lease,
        key: &EffectKey,
    ) -> Result<Option<EffectRecord>, StoreError> {
        let mut timeline = None;
        for epoch in 1..claim.epoch {
            let Some(found) = self.get(wire::record(&claim.run, epoch, key)).await? else {
                continue;
            };
            let timeline = match &timeline {
                Some(timeline) => timeline,
                None => timeline.insert(self.timeline(&claim.run).await?),
            };
            if timeline.is_valid(epoch, found.sequence) {
                let written: RecordMessage = self.link.unpack(&claim.run, &found).await?;
                return Ok(Some(written.record()));
            }
        }
        Ok(None)
    }
}
