//! In-memory view of the state of all runs. Before each use, the view reads all new messages.

use std::collections::HashMap;

use assize_run::{Run, RunFilter, RunId, StoreError};

use super::pieces::is_large;
use super::timeline::RunTimeline;
use super::wire::{RUNS, RunMessageKind};
use crate::connection::{NatsConnection, ReadFlow, ReadSelection, StoredMessage};

/// Maximum number of removed runs that the view remembers until their leftover messages are removed.
const MAX_REMOVED: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct RunsView {
    timelines: HashMap<RunId, Known>,
    /// Sequence number up to which all messages have been applied to the view.
    read: u64,
    /// Removed runs of which messages may still exist, each with the NATS subject of its idempotency key, if any.
    removed: Vec<(RunId, Option<String>)>,
}

#[derive(Debug)]
struct Known {
    timeline: RunTimeline,
    /// Whether the view has all content of the run. False if some content of the run is stored in pieces, because the
    /// view does not read pieces.
    whole: bool,
}

/// Returns the run id and the kind of a message, from its NATS subject.
pub(super) fn about(found: &StoredMessage) -> Option<(RunId, RunMessageKind)> {
    let mut words = found.subject.split('.').skip(2);
    let run = words.next()?.parse().ok()?;
    Some((run, RunMessageKind::of(words)?))
}

fn parse<T: serde::de::DeserializeOwned>(found: &StoredMessage) -> Result<T, serde_json::Error> {
    serde_json::from_slice(&found.payload)
}

impl RunsView {
    /// Reads and applies all new messages.
    pub(super) async fn catch_up(&mut self, link: &NatsConnection) -> Result<(), StoreError> {
        let filter = link.subject("run.*.state.>");
        let reading =
            ReadSelection { stream: RUNS, filter, from: self.read + 1, last_of_each: false };
        link.read(reading, |found| {
            self.apply(&found).map_err(|error| link.failed(error))?;
            self.read = found.sequence;
            Ok(ReadFlow::Continue)
        })
        .await
    }

    /// Applies a message about the state of a run, unless [`RunsView::catch_up`] has already read it. The message may
    /// be newer than those that `catch_up` has read; `catch_up` then applies the message again, which has no effect.
    pub(super) fn apply(&mut self, found: &StoredMessage) -> Result<(), serde_json::Error> {
        let Some((run, kind)) = about(found).filter(|_| found.sequence > self.read) else {
            return Ok(());
        };
        let whole = !is_large(found);
        match (kind, self.timelines.get_mut(&run)) {
            (RunMessageKind::Created, None) => {
                let timeline = RunTimeline::begin(run.clone(), found.sequence, parse(found)?);
                self.timelines.insert(run, Known { timeline, whole });
            }
            (RunMessageKind::LeaseChange(epoch), Some(known)) => {
                known.timeline.apply_lease_change(epoch, found.sequence, parse(found)?);
                if known.timeline.removed {
                    let once = known.timeline.idempotency_subject.take();
                    self.timelines.remove(&run);
                    // If `removed` is never called, the oldest entries are dropped.
                    if self.removed.len() == MAX_REMOVED {
                        self.removed.remove(0);
                    }
                    self.removed.push((run, once));
                }
            }
            (RunMessageKind::Ended(epoch), Some(known)) => {
                let counts = known.timeline.ended(epoch, parse(found)?);
                known.whole &= whole || !counts;
            }
            // Other messages, such as those about a removed run, are ignored.
            _ => {}
        }
        Ok(())
    }

    /// Returns the run id and the kind of a message if the message is valid: its epoch held the lease when the message
    /// was written.
    pub(super) fn counting(&self, found: &StoredMessage) -> Option<(RunId, RunMessageKind)> {
        let (run, kind) = about(found)?;
        let timeline = &self.timelines.get(&run)?.timeline;
        let counts = match kind {
            RunMessageKind::Created | RunMessageKind::Used => true,
            RunMessageKind::LeaseChange(epoch)
            | RunMessageKind::Ended(epoch)
            | RunMessageKind::Written(epoch) => timeline.is_valid(epoch, found.sequence),
        };
        counts.then_some((run, kind))
    }

    /// Returns the runs that were removed since this function was last called, each with the NATS subject of its
    /// idempotency key, if any.
    pub(super) fn removed(&mut self) -> Vec<(RunId, Option<String>)> {
        std::mem::take(&mut self.removed)
    }

    /// Returns the runs that match the filter, newest first. The flag of each run says whether the view has all content
    /// of the run. It is false if some content is stored in pieces, which the view does not read.
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
            self.timelines.values().filter(|known| fits(&known.timeline.run)).collect();
        found.sort_by_key(|known| std::cmp::Reverse(known.timeline.run.number));
        let limit = if filter.limit == 0 { usize::MAX } else { filter.limit };
        found
            .into_iter()
            .take(limit)
            .map(|known| (known.timeline.run.clone(), known.whole))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(sequence: u64, subject: &str, payload: &Value) -> StoredMessage {
        let payload = payload.to_string().into_bytes();
        StoredMessage {
            sequence,
            subject: format!("test.{subject}"),
            headers: Default::default(),
            payload,
        }
    }

    #[test]
    fn runs_view_ignores_a_message_that_it_has_already_applied() {
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
        let mut view = RunsView::default();
        // First apply only the messages of one run, as a reader of the events of that run does.
        for index in [0, 2, 3] {
            view.apply(&messages[index]).unwrap();
        }
        // Then apply all messages in order, including those already applied.
        for message in &messages {
            view.apply(message).unwrap();
        }
        let runs = view.runs(&RunFilter::default());
        let epochs: Vec<(&str, u64)> =
            runs.iter().map(|(run, _)| (run.id.as_str(), run.epoch)).collect();
        assert_eq!(epochs, [("debate-b", 1), ("debate-a", 2)]);
        assert!(view.counting(&messages[2]).is_some());
        let late = found(5, "run.debate-a.record.1.y", &json!(null));
        assert!(view.counting(&late).is_none());
    }
}
