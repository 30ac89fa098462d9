//! State of a run, computed from the messages of the run.
//!
//! The NATS servers provide no locks. They only guarantee that all messages are in one order, and that each subject has
//! at most one message. So the order of the messages determines which messages are valid. A *lease change* (`turn` in
//! the subjects) is a claim, a stop or a removal, and each change has the next number. A claim is valid if the run is
//! not done, a stop is valid if the run is running, and a removal is always valid. The message that ends a run, and a
//! journal record, are valid if their epoch held the lease when they were written. Every reader computes the same
//! state, and ignores messages that were written too late.

use assize_run::{Run, RunId, RunStatus};

use super::wire::{EndMessage, LeaseChange, LeaseChangeKind, RunCreated};

/// State of a run, computed from the messages read so far.
#[derive(Debug)]
pub(super) struct RunTimeline {
    pub(super) run: Run,
    /// All epochs in ascending order, each with the sequence number of the message that gave the lease to the epoch.
    epochs: Vec<(u64, u64)>,
    /// Number of the last lease change, even if that change was not valid.
    pub(super) last_turn: u64,
    pub(super) removed: bool,
    /// NATS subject of the idempotency key that the run was created with, if any.
    pub(super) idempotency_subject: Option<String>,
}

impl RunTimeline {
    pub(super) fn begin(id: RunId, sequence: u64, born: RunCreated) -> RunTimeline {
        let run = Run {
            id,
            number: sequence,
            kind: born.kind,
            title: born.title,
            status: RunStatus::Running,
            parent: born.parent,
            created: born.at,
            updated: born.at,
            epoch: 1,
            holder: Some(born.holder),
            input: born.input,
            result: None,
            error: None,
        };
        RunTimeline {
            run,
            epochs: vec![(1, sequence)],
            last_turn: 1,
            removed: false,
            idempotency_subject: born.once,
        }
    }

    /// Applies the next lease change. Returns whether the change is valid.
    pub(super) fn apply_lease_change(
        &mut self,
        epoch: u64,
        sequence: u64,
        turn: LeaseChange,
    ) -> bool {
        if epoch <= self.last_turn {
            return false;
        }
        self.last_turn = epoch;
        let running = self.run.status == RunStatus::Running;
        let valid = match &turn.kind {
            LeaseChangeKind::Claimed { .. } => self.run.status != RunStatus::Done,
            LeaseChangeKind::Stopped { .. } => running,
            LeaseChangeKind::Removed => true,
        };
        if !valid || self.removed {
            return false;
        }
        self.epochs.push((epoch, sequence));
        let run = &mut self.run;
        run.epoch = epoch;
        run.updated = turn.at;
        match turn.kind {
            LeaseChangeKind::Claimed { holder } => {
                run.status = RunStatus::Running;
                run.holder = Some(holder);
                (run.result, run.error) = (None, None);
            }
            LeaseChangeKind::Stopped { reason, .. } => {
                run.status = RunStatus::Cancelled;
                run.holder = None;
                run.error = Some(reason);
            }
            LeaseChangeKind::Removed => self.removed = true,
        }
        true
    }

    /// Applies the message that ends the run. Returns whether the message is valid.
    pub(super) fn ended(&mut self, epoch: u64, ended: EndMessage) -> bool {
        if epoch != self.run.epoch || self.removed {
            return false;
        }
        let run = &mut self.run;
        run.status = ended.status;
        run.updated = ended.at;
        run.holder = None;
        (run.result, run.error) = (ended.result, ended.error);
        true
    }

    /// Whether the epoch held the lease when the message with this sequence number was written.
    pub(super) fn is_valid(&self, epoch: u64, sequence: u64) -> bool {
        let holder = self.epochs.iter().rev().find(|(_, since)| *since <= sequence);
        holder.is_some_and(|(holder, _)| *holder == epoch)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use assize_run::RunKind;

    use super::*;

    fn timeline() -> RunTimeline {
        let born = RunCreated {
            at: 1,
            kind: RunKind::Debate,
            title: "one".to_owned(),
            parent: None,
            input: Value::Null,
            holder: "a".to_owned(),
            artifacts: Vec::new(),
            once: None,
        };
        RunTimeline::begin("debate-one".parse().unwrap(), 10, born)
    }

    fn claimed(holder: &str) -> LeaseChange {
        LeaseChange { at: 2, kind: LeaseChangeKind::Claimed { holder: holder.to_owned() } }
    }

    fn ended(status: RunStatus) -> EndMessage {
        EndMessage { at: 3, status, result: None, error: None, events: Vec::new() }
    }

    #[test]
    fn messages_after_a_claim_are_valid_only_if_the_new_epoch_wrote_them() {
        let mut timeline = timeline();
        assert!(timeline.is_valid(1, 11));
        assert!(timeline.apply_lease_change(2, 20, claimed("b")));
        // Messages of epoch 1 are valid before the claim, and invalid after it.
        assert!(timeline.is_valid(1, 19) && !timeline.is_valid(1, 21));
        assert!(timeline.is_valid(2, 21) && !timeline.is_valid(2, 19));
        assert!(!timeline.ended(1, ended(RunStatus::Done)));
        assert_eq!(
            (timeline.run.status, timeline.run.holder.as_deref()),
            (RunStatus::Running, Some("b"))
        );
    }

    #[test]
    fn done_run_can_be_removed_but_not_claimed_or_stopped() {
        let mut timeline = timeline();
        assert!(timeline.ended(1, ended(RunStatus::Done)));
        assert!(!timeline.apply_lease_change(2, 20, claimed("b")));
        let stopped = LeaseChangeKind::Stopped { reason: "late".to_owned(), events: Vec::new() };
        assert!(!timeline.apply_lease_change(3, 21, LeaseChange { at: 4, kind: stopped }));
        // Both lease changes have used up their numbers, but have not changed the run.
        assert_eq!(
            (timeline.run.epoch, timeline.last_turn, timeline.run.status),
            (1, 3, RunStatus::Done)
        );
        assert!(timeline.is_valid(1, 22));
        assert!(timeline.apply_lease_change(
            4,
            30,
            LeaseChange { at: 5, kind: LeaseChangeKind::Removed }
        ));
        assert!(timeline.removed && !timeline.is_valid(1, 31));
    }

    #[test]
    fn failed_run_accepts_only_the_first_of_two_claims_with_the_same_number() {
        let mut timeline = timeline();
        assert!(timeline.ended(1, ended(RunStatus::Failed)));
        assert!(timeline.apply_lease_change(2, 20, claimed("b")));
        assert_eq!((timeline.run.status, timeline.run.epoch), (RunStatus::Running, 2));
        // A second claim with the same number is not valid.
        assert!(!timeline.apply_lease_change(2, 21, claimed("c")));
        assert_eq!(timeline.run.holder.as_deref(), Some("b"));
    }
}
