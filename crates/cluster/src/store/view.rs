//! How all runs stand, as far as this process has read. Before anything is told of it, it reads on.

use std::collections::HashMap;

use assize_run::{Run, RunFilter, RunId, StoreError};

use super::life::Life;
use super::pieces::is_large;
use super::wire::{Kind, RUNS};
use crate::link::{Found, Link, More, Reading};

/// So many runs that were removed are looked after.
const MOST_REMOVED: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct View {
    lives: HashMap<RunId, Known>,
    /// All up to this place is part of it.
    read: u64,
    /// Those of which something may be left, with the subjects under which they were asked for.
    removed: Vec<(RunId, Option<String>)>,
}

#[derive(Debug)]
struct Known {
    life: Life,
    /// Whether all of it is here, also what is large.
    whole: bool,
}

/// The run and the kind of a message.
pub(super) fn about(found: &Found) -> Option<(RunId, Kind)> {
    let mut words = found.subject.split('.').skip(2);
    let run = words.next()?.parse().ok()?;
    Some((run, Kind::of(words)?))
}

fn parse<T: serde::de::DeserializeOwned>(found: &Found) -> Result<T, serde_json::Error> {
    serde_json::from_slice(&found.payload)
}

impl View {
    /// Reads what was written since.
    pub(super) async fn catch_up(&mut self, link: &Link) -> Result<(), StoreError> {
        let filter = link.subject("run.*.state.>");
        let reading = Reading { stream: RUNS, filter, from: self.read + 1, last_of_each: false };
        link.read(reading, |found| {
            self.apply(&found).map_err(|error| link.failed(error))?;
            self.read = found.sequence;
            Ok(More::Wanted)
        })
        .await
    }

    /// A message, if it is about how a run stands and was not read before. It may be ahead of what was read of
    /// other runs, and comes again when all is read up to it.
    pub(super) fn apply(&mut self, found: &Found) -> Result<(), serde_json::Error> {
        let Some((run, kind)) = about(found).filter(|_| found.sequence > self.read) else {
            return Ok(());
        };
        let whole = !is_large(found);
        match (kind, self.lives.get_mut(&run)) {
            (Kind::Born, None) => {
                let life = Life::begin(run.clone(), found.sequence, parse(found)?);
                self.lives.insert(run, Known { life, whole });
            }
            (Kind::Turn(epoch), Some(known)) => {
                known.life.turn(epoch, found.sequence, parse(found)?);
                if known.life.removed {
                    let once = known.life.once.take();
                    self.lives.remove(&run);
                    // Where nobody asks for them, those of long ago are forgotten.
                    if self.removed.len() == MOST_REMOVED {
                        self.removed.remove(0);
                    }
                    self.removed.push((run, once));
                }
            }
            (Kind::Ended(epoch), Some(known)) => {
                let counts = known.life.ended(epoch, parse(found)?);
                known.whole &= whole || !counts;
            }
            // Once it is removed, nothing about it is heeded.
            _ => {}
        }
        Ok(())
    }

    /// The run and the kind of a message, if it counts.
    pub(super) fn counting(&self, found: &Found) -> Option<(RunId, Kind)> {
        let (run, kind) = about(found)?;
        let life = &self.lives.get(&run)?.life;
        let counts = match kind {
            Kind::Born | Kind::Used => true,
            Kind::Turn(epoch) | Kind::Ended(epoch) | Kind::Written(epoch) => {
                life.counts(epoch, found.sequence)
            }
        };
        counts.then_some((run, kind))
    }

    /// The runs that were removed since this was asked the last time.
    pub(super) fn removed(&mut self) -> Vec<(RunId, Option<String>)> {
        std::mem::take(&mut self.removed)
    }

    /// Runs that fit, the latest first, and whether all is here of each.
    pub(super) fn runs(&self, filter: &RunFilter) -> Vec<(Run, bool)> {
        let title = filter.title.as_ref().map(|title| title.to_lowercase());
        let fits = |run: &Run| {
            filter.kind.as_ref().is_none_or(|kind| *kind == run.kind)
                && filter.status.is_none_or(|status| status == run.status)
                && filter.prefix.as_ref().is_none_or(|prefix| run.id.as_str().starts_with(prefix))
                && title.as_ref().is_none_or(|title| run.title.to_lowercase().contains(title))
                && filter.before.is_none_or(|before| run.number < before)
        };
        let mut found: Vec<&Known> =
            self.lives.values().filter(|known| fits(&known.life.run)).collect();
        found.sort_by_key(|known| std::cmp::Reverse(known.life.run.number));
        let most = if filter.limit == 0 { usize::MAX } else { filter.limit };
        found.into_iter().take(most).map(|known| (known.life.run.clone(), known.whole)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(sequence: u64, subject: &str, payload: &Value) -> Found {
        let payload = payload.to_string().into_bytes();
        Found { sequence, subject: format!("test.{subject}"), headers: Default::default(), payload }
    }

    #[test]
    fn what_is_ahead_of_others_leaves_none_of_them_out() {
        let born = |holder: &str| {
            json!({"at": 1, "kind": "debate", "title": holder, "parent": null, "input": null, "holder": holder,
                   "artifacts": [], "once": null})
        };
        let messages = [
            found(1, "run.debate-a.state.born", &born("a")),
            found(2, "run.debate-b.state.born", &born("b")),
            found(3, "run.debate-a.record.1.x", &json!(null)),
            found(
                4,
                "run.debate-a.state.turn.2",
                &json!({"at": 2, "turn": "claimed", "holder": "c"}),
            ),
        ];
        let mut view = View::default();
        // All of one run, as whoever follows it reads.
        for index in [0, 2, 3] {
            view.apply(&messages[index]).unwrap();
        }
        // All of all, with what was ahead once more.
        for message in &messages {
            view.apply(message).unwrap();
        }
        let runs = view.runs(&RunFilter::default());
        let told: Vec<(&str, u64)> =
            runs.iter().map(|(run, _)| (run.id.as_str(), run.epoch)).collect();
        assert_eq!(told, [("debate-b", 1), ("debate-a", 2)]);
        assert!(view.counting(&messages[2]).is_some());
        let late = found(5, "run.debate-a.record.1.y", &json!(null));
        assert!(view.counting(&late).is_none());
    }
}
