//! Counts the moves of a run that failed calls have affected, and stops the run when they are too many.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// More than half of a run's moves are affected by calls that failed for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed calls affect {affected} of {total} moves, more than half, so there is no report: {error}"
)]
pub struct MostMovesAffected {
    pub affected: usize,
    pub total: usize,
    /// What the last failed call said.
    pub error: String,
}

impl MostMovesAffected {
    /// An error if more than half of `total` moves are affected.
    pub fn check(affected: usize, total: usize, error: &str) -> Result<(), MostMovesAffected> {
        match 2 * affected > total {
            true => Err(MostMovesAffected { affected, total, error: error.to_owned() }),
            false => Ok(()),
        }
    }
}

/// The moves of one run that failed calls have affected so far in this life of it.
///
/// Failures are not journalled, so the count starts at zero when the run is resumed.
#[derive(Debug, Default)]
pub(crate) struct AffectedMoves(Mutex<BTreeSet<String>>);

impl AffectedMoves {
    /// Counts a move; `lost` moves of the `total` were never proposed, because calls failed before.
    pub(crate) fn mark(
        &self,
        move_id: &str,
        (lost, total): (usize, usize),
        error: &str,
    ) -> Result<(), MostMovesAffected> {
        let mut moves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moves.insert(move_id.to_owned());
        MostMovesAffected::check(moves.len() + lost, total, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_moves_is_not_too_many_and_one_more_is() {
        let affected = AffectedMoves::default();
        assert_eq!(affected.mark("m1", (0, 4), "x"), Ok(()));
        assert_eq!(affected.mark("m1", (0, 4), "x"), Ok(()));
        assert_eq!(affected.mark("m2", (0, 4), "x"), Ok(()));
        let error = affected.mark("m3", (0, 4), "HTTP 429").unwrap_err();
        assert_eq!((error.affected, error.total), (3, 4));
        assert!(error.to_string().ends_with("HTTP 429"));
    }
}
