//! Counts the moves that are affected by failed model calls, and ends the run if more than half of its moves are
//! affected.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Error: more than half of a run's moves are affected by model calls that failed permanently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed calls affect {affected} of {total} moves, more than half, so there is no report: {error}"
)]
pub struct TooManyMovesAffected {
    pub affected: usize,
    pub total: usize,
    /// Error of a failed call, or the errors of several failed calls.
    pub error: String,
}

impl TooManyMovesAffected {
    /// Returns an error if more than half of `total` moves are affected.
    pub fn check(affected: usize, total: usize, error: &str) -> Result<(), TooManyMovesAffected> {
        match 2 * affected > total {
            true => Err(TooManyMovesAffected { affected, total, error: error.to_owned() }),
            false => Ok(()),
        }
    }
}

/// Ids of the moves that have been affected by failed model calls since the run was started or resumed.
///
/// Failed calls are not journaled, so the set is empty when the run is resumed.
#[derive(Debug, Default)]
pub(crate) struct AffectedMoves(Mutex<BTreeSet<String>>);

impl AffectedMoves {
    /// Marks a move as affected by a failed call, and returns an error if more than half of the moves are affected.
    /// `total` is the number of all moves; `lost` of them were never proposed, because calls of analysts failed.
    pub(crate) fn mark(
        &self,
        move_id: &str,
        (lost, total): (usize, usize),
        error: &str,
    ) -> Result<(), TooManyMovesAffected> {
        let mut moves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moves.insert(move_id.to_owned());
        TooManyMovesAffected::check(moves.len() + lost, total, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marking_more_than_half_of_the_moves_as_affected_returns_an_error() {
        let affected = AffectedMoves::default();
        assert_eq!(affected.mark("m1", (0, 4), "x"), Ok(()));
        assert_eq!(affected.mark("m1", (0, 4), "x"), Ok(()));
        assert_eq!(affected.mark("m2", (0, 4), "x"), Ok(()));
        let error = affected.mark("m3", (0, 4), "HTTP 429").unwrap_err();
        assert_eq!((error.affected, error.total), (3, 4));
        assert!(error.to_string().ends_with("HTTP 429"));
    }
}
