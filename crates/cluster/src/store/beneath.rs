//! What the store does beneath its trait: how a run stands, who has it, what of all that was written counts.

use assize_graph::{Event, Key, Record};
use assize_run::{Lease, RunId, StoreError, StoredEvent};
use assize_types::unix_millis;
use async_nats::HeaderMap;

use super::life::Life;
use super::pieces::Packed;
use super::view::View;
use super::wire::{
    self, Asked, Born, CALLS, EVENTS, EVENTS_OF_A_MESSAGE, Ended, Kind, PIECES, RUNS, Turn,
    TurnKind, Written, event_ids,
};
use super::{ClusterStore, with_events};
use crate::error::is_missing;
use crate::link::{Created, Found, More, Reading};

impl ClusterStore {
    pub(super) fn subject(&self, rest: String) -> String {
        self.link.subject(&rest)
    }

    pub(super) async fn get(&self, rest: String) -> Result<Option<Found>, StoreError> {
        self.link.last(RUNS, &self.subject(rest)).await
    }

    pub(super) async fn create(&self, rest: String, packed: Packed) -> Result<Created, StoreError> {
        self.link.create(RUNS, &self.subject(rest), packed.headers, packed.payload).await
    }

    /// A run with all that was written about how it stands.
    pub(super) async fn life(&self, id: &RunId) -> Result<Life, StoreError> {
        loop {
            let (mut life, born, ended) = self.outline(id).await?;
            match self.fill_in(&mut life, &born, ended.as_ref()).await {
                Ok(()) => return Ok(life),
                // What belongs to it goes first when it is removed.
                Err(_) if self.get(wire::turn(id, life.last_turn + 1)).await?.is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What is large about a run.
    async fn fill_in(
        &self,
        life: &mut Life,
        born: &Found,
        ended: Option<&Found>,
    ) -> Result<(), StoreError> {
        let born: Born = self.link.unpack(&life.run.id, born).await?;
        life.run.input = born.input;
        if let Some(ended) = ended {
            let ended: Ended = self.link.unpack(&life.run.id, ended).await?;
            life.run.result = ended.result;
        }
        Ok(())
    }

    /// A run without what is large about it, and where that is: how it was born, and how it ended if it has.
    pub(super) async fn outline(
        &self,
        id: &RunId,
    ) -> Result<(Life, Found, Option<Found>), StoreError> {
        let missing = || StoreError::NoSuchRun(id.clone());
        let born = self.get(wire::born(id)).await?.ok_or_else(missing)?;
        let mut life = Life::begin(id.clone(), born.sequence, self.link.parse(&born.payload)?);
        let mut end = None;
        for epoch in 1.. {
            let (ended, turn) = tokio::try_join!(
                self.get(wire::ended(id, epoch)),
                self.get(wire::turn(id, epoch + 1))
            )?;
            // Whichever was first.
            let before = match (&ended, &turn) {
                (Some(ended), Some(turn)) => ended.sequence < turn.sequence,
                _ => true,
            };
            if let Some(ended) = ended.filter(|_| before)
                && life.ended(epoch, self.link.parse(&ended.payload)?)
            {
                end = Some(ended);
            }
            let Some(turn) = turn else { break };
            if life.turn(epoch + 1, turn.sequence, self.link.parse(&turn.payload)?) {
                end = None;
            }
        }
        if life.removed { Err(missing()) } else { Ok((life, born, end)) }
    }

    pub(super) fn know(&self, id: &RunId) {
        self.known.lock().insert(id.clone());
    }

    /// Refuses what is about a run that never was.
    pub(super) async fn expect(&self, id: &RunId) -> Result<(), StoreError> {
        if !self.known.lock().contains(id) {
            let born = self.get(wire::born(id)).await?;
            born.ok_or_else(|| StoreError::NoSuchRun(id.clone()))?;
            self.know(id);
        }
        Ok(())
    }

    /// Refuses what was written when somebody else had the run. It is there, and nobody heeds it.
    pub(super) async fn check(&self, claim: &Lease, place: u64) -> Result<(), StoreError> {
        if self.get(wire::turn(&claim.run, claim.epoch + 1)).await?.is_none() {
            return Ok(());
        }
        let (life, ..) = self.outline(&claim.run).await?;
        match life.counts(claim.epoch, place) {
            true => Ok(()),
            false => Err(StoreError::Fenced(claim.run.clone())),
        }
    }

    /// The same for what was written by us just now. Of a run that is removed nothing stays.
    pub(super) async fn check_ours(&self, claim: &Lease, place: u64) -> Result<(), StoreError> {
        let checked = self.check(claim, place).await;
        if let Err(StoreError::NoSuchRun(_)) = &checked {
            self.take_back(&claim.run, place).await?;
        }
        checked
    }

    /// Removes what came too late for a run that is removed.
    pub(super) async fn take_back(&self, run: &RunId, place: u64) -> Result<(), StoreError> {
        self.remove_message(place).await?;
        self.purge(PIECES, &format!("piece.{run}.>")).await
    }

    /// Takes away what belongs to a run that is removed; last what says that there was one, so that it can be gone on
    /// with. Its turns stay: by them whoever holds it still finds out.
    pub(super) async fn take_away(
        &self,
        run: &RunId,
        once: Option<&str>,
    ) -> Result<(), StoreError> {
        self.purge(PIECES, &format!("piece.{run}.>")).await?;
        self.purge(CALLS, &format!("call.{run}.>")).await?;
        if let Some(once) = once
            && let Some(found) = self.get(once.to_owned()).await?
        {
            // By now it may have been asked for again.
            let asked: Asked = self.link.parse(&found.payload)?;
            if asked.run == *run {
                self.remove_message(found.sequence).await?;
            }
        }
        for part in ["record.>", "used.>", "state.ended.>", "state.born"] {
            self.purge(RUNS, &format!("run.{run}.{part}")).await?;
        }
        Ok(())
    }

    /// Goes on with removals that others had begun when they died.
    pub async fn finish_removals(&self) -> Result<(), StoreError> {
        let removed = self.caught_up().await?.removed();
        for (run, once) in removed {
            if self.get(wire::born(&run)).await?.is_some() {
                tracing::info!(%run, "what is left of a run that was removed is taken away");
                self.take_away(&run, once.as_deref()).await?;
            }
        }
        Ok(())
    }

    /// Removes one message, if it is there.
    pub(super) async fn remove_message(&self, place: u64) -> Result<(), StoreError> {
        let remove = async || {
            let stream = self.link.stream(RUNS).await?;
            let Err(error) = stream.delete_message(place).await else { return Ok(()) };
            match stream.get_raw_message(place).await {
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

    /// A turn of a run, if nobody else takes it first and it counts.
    pub(super) async fn take_turn(
        &self,
        life: &Life,
        kind: TurnKind,
    ) -> Result<Option<Lease>, StoreError> {
        let (run, epoch) = (&life.run.id, life.last_turn + 1);
        let events = match &kind {
            TurnKind::Stopped { events, .. } => events.len(),
            TurnKind::Claimed { .. } | TurnKind::Removed => 0,
        };
        let removed = matches!(kind, TurnKind::Removed);
        let payload = serde_json::to_vec(&Turn { at: unix_millis(), kind });
        let payload = payload.map_err(|error| self.link.failed(error))?;
        let packed = with_events(Packed { headers: HeaderMap::new(), payload }, events);
        let Created::Ours(place) = self.create(wire::turn(run, epoch), packed).await? else {
            return Ok(None);
        };
        let counts = removed || self.life(run).await?.counts(epoch, place);
        Ok(counts.then(|| Lease { run: run.clone(), epoch }))
    }

    /// What was written under a filter from a place on, and counts, in the order of places.
    pub(super) async fn written(
        &self,
        filter: &str,
        from: u64,
        mut each: impl FnMut(RunId, Kind, Found) -> More,
    ) -> Result<(), StoreError> {
        let mut view = self.view.lock().await;
        view.catch_up(&self.link).await?;
        let filter = self.link.subject(filter);
        let reading = Reading { stream: RUNS, filter, from, last_of_each: false };
        self.link
            .read(reading, |found| {
                // What came after all that the view knows may say that the rest does not count.
                view.apply(&found).map_err(|error| self.link.failed(error))?;
                Ok(match view.counting(&found) {
                    Some((run, kind)) => each(run, kind, found),
                    None => More::Wanted,
                })
            })
            .await
    }

    /// The events in a message, under their ids.
    pub(super) async fn events_in(
        &self,
        run: &RunId,
        kind: Kind,
        found: &Found,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let (at, events) = match kind {
            Kind::Written(_) => {
                let written: Written = self.link.unpack(run, found).await?;
                (written.at, written.events)
            }
            Kind::Ended(_) => {
                let ended: Ended = self.link.unpack(run, found).await?;
                (ended.at, ended.events)
            }
            Kind::Turn(_) => match self.link.parse(&found.payload)? {
                Turn { at, kind: TurnKind::Stopped { events, .. } } => (at, events),
                Turn { at, .. } => (at, Vec::new()),
            },
            Kind::Born | Kind::Used => (0, Vec::new()),
        };
        let ids = event_ids(found.sequence, events.len());
        let stored =
            |(id, Event { name, payload })| StoredEvent { id, run: run.clone(), at, name, payload };
        Ok(ids.zip(events).map(stored).collect())
    }

    /// The events under a filter above an id, at most so many.
    pub(super) async fn events_under(
        &self,
        filter: &str,
        after: u64,
        most: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let from = after / EVENTS_OF_A_MESSAGE;
        let mut messages = Vec::new();
        let mut count = 0;
        self.written(filter, from.max(1), |run, kind, found| {
            let has: usize = found.header(EVENTS).and_then(|count| count.parse().ok()).unwrap_or(0);
            if has > 0 {
                // Those of the first may have been seen, some or all.
                count += if found.sequence == from { 0 } else { has };
                messages.push((run, kind, found));
            }
            if count >= most { More::Enough } else { More::Wanted }
        })
        .await?;
        let mut all = Vec::new();
        for (run, kind, found) in messages {
            let events = self.events_in(&run, kind, &found).await?;
            all.extend(events.into_iter().filter(|event| event.id > after));
        }
        all.truncate(most);
        Ok(all)
    }

    /// How all runs stand.
    pub(super) async fn caught_up(&self) -> Result<tokio::sync::MutexGuard<'_, View>, StoreError> {
        let mut view = self.view.lock().await;
        view.catch_up(&self.link).await?;
        Ok(view)
    }

    /// What an earlier holder recorded under a key, if it counts.
    pub(super) async fn earlier(
        &self,
        claim: &Lease,
        key: &Key,
    ) -> Result<Option<Record>, StoreError> {
        let mut life = None;
        for epoch in 1..claim.epoch {
            let Some(found) = self.get(wire::record(&claim.run, epoch, key)).await? else {
                continue;
            };
            let life = match &life {
                Some(life) => life,
                None => life.insert(self.life(&claim.run).await?),
            };
            if life.counts(epoch, found.sequence) {
                let written: Written = self.link.unpack(&claim.run, &found).await?;
                return Ok(Some(written.record()));
            }
        }
        Ok(None)
    }
}
