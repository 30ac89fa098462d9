//! How a run stands, by what was written about it.
//!
//! The servers hold no locks and compare nothing: they keep what is written once, in one order. So the
//! order decides. A turn counts if it is the next and the run is not done; an end counts if its epoch
//! is the one that has the run; a record counts if its epoch had the run when it was written. Everybody who
//! reads comes to the same, also about what came too late.

use assize_run::{Run, RunId, RunStatus};

use super::wire::{Born, Ended, Turn, TurnKind};

/// A run, as far as its messages were read.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) run: Run,
    /// Since which place each epoch has had it, the first first.
    epochs: Vec<(u64, u64)>,
    /// The number of the last turn, whether it counted or not.
    pub(super) last_turn: u64,
    pub(super) removed: bool,
    /// The subject under which it was asked for.
    pub(super) once: Option<String>,
}

impl Life {
    pub(super) fn begin(id: RunId, place: u64, born: Born) -> Life {
        let run = Run {
            id,
            number: place,
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
        Life { run, epochs: vec![(1, place)], last_turn: 1, removed: false, once: born.once }
    }

    /// The next message is that somebody takes it. Whether that counts.
    pub(super) fn turn(&mut self, epoch: u64, place: u64, turn: Turn) -> bool {
        if epoch <= self.last_turn {
            return false;
        }
        self.last_turn = epoch;
        let running = self.run.status == RunStatus::Running;
        let counts = match &turn.kind {
            TurnKind::Claimed { .. } => self.run.status != RunStatus::Done,
            TurnKind::Stopped { .. } => running,
            TurnKind::Removed => true,
        };
        if !counts || self.removed {
            return false;
        }
        self.epochs.push((epoch, place));
        let run = &mut self.run;
        run.epoch = epoch;
        run.updated = turn.at;
        match turn.kind {
            TurnKind::Claimed { holder } => {
                run.status = RunStatus::Running;
                run.holder = Some(holder);
                (run.result, run.error) = (None, None);
            }
            TurnKind::Stopped { reason, .. } => {
                run.status = RunStatus::Cancelled;
                run.holder = None;
                run.error = Some(reason);
            }
            TurnKind::Removed => self.removed = true,
        }
        true
    }

    /// The next message is that it ended. Whether that counts.
    pub(super) fn ended(&mut self, epoch: u64, ended: Ended) -> bool {
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

    /// Whether what an epoch wrote at this place counts: it had the run then.
    pub(super) fn counts(&self, epoch: u64, place: u64) -> bool {
        let had = self.epochs.iter().rev().find(|(_, since)| *since <= place);
        had.is_some_and(|(had, _)| *had == epoch)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use assize_run::RunKind;

    use super::*;

    fn life() -> Life {
        let born = Born {
            at: 1,
            kind: RunKind::Debate,
            title: "one".to_owned(),
            parent: None,
            input: Value::Null,
            holder: "a".to_owned(),
            artifacts: Vec::new(),
            once: None,
        };
        Life::begin("debate-one".parse().unwrap(), 10, born)
    }

    fn claimed(holder: &str) -> Turn {
        Turn { at: 2, kind: TurnKind::Claimed { holder: holder.to_owned() } }
    }

    fn ended(status: RunStatus) -> Ended {
        Ended { at: 3, status, result: None, error: None, events: Vec::new() }
    }

    #[test]
    fn what_comes_after_a_turn_is_the_next_ones() {
        let mut life = life();
        assert!(life.counts(1, 11));
        assert!(life.turn(2, 20, claimed("b")));
        // What the first one wrote before counts, and what it wrote after does not.
        assert!(life.counts(1, 19) && !life.counts(1, 21));
        assert!(life.counts(2, 21) && !life.counts(2, 19));
        assert!(!life.ended(1, ended(RunStatus::Done)));
        assert_eq!((life.run.status, life.run.holder.as_deref()), (RunStatus::Running, Some("b")));
    }

    #[test]
    fn what_is_done_is_not_taken_and_not_stopped() {
        let mut life = life();
        assert!(life.ended(1, ended(RunStatus::Done)));
        assert!(!life.turn(2, 20, claimed("b")));
        let stopped = TurnKind::Stopped { reason: "late".to_owned(), events: Vec::new() };
        assert!(!life.turn(3, 21, Turn { at: 4, kind: stopped }));
        // Both have used up their numbers, and changed nothing.
        assert_eq!((life.run.epoch, life.last_turn, life.run.status), (1, 3, RunStatus::Done));
        assert!(life.counts(1, 22));
        assert!(life.turn(4, 30, Turn { at: 5, kind: TurnKind::Removed }));
        assert!(life.removed && !life.counts(1, 31));
    }

    #[test]
    fn what_failed_is_taken_up_again() {
        let mut life = life();
        assert!(life.ended(1, ended(RunStatus::Failed)));
        assert!(life.turn(2, 20, claimed("b")));
        assert_eq!((life.run.status, life.run.epoch), (RunStatus::Running, 2));
        // The same turn once more is none.
        assert!(!life.turn(2, 21, claimed("c")));
        assert_eq!(life.run.holder.as_deref(), Some("b"));
    }
}
