//! Lists that may be long: one page of them, and where the next begins.

use axum::http::StatusCode;

use crate::problem::Problem;

/// How many are wanted of a list.
pub(super) fn limit(wanted: Option<usize>, usual: usize, most: usize) -> Result<usize, Problem> {
    let limit = wanted.unwrap_or(usual);
    match (1..=most).contains(&limit) {
        true => Ok(limit),
        false => Err(Problem::new(StatusCode::BAD_REQUEST, format!("`limit` is from 1 to {most}"))),
    }
}

/// As many as are wanted, and the last of them, if more were found.
pub(super) fn cut<T, K>(found: &mut Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Option<K> {
    let more = found.len() > limit;
    found.truncate(limit);
    found.last().filter(|_| more).map(key)
}
