//! Pagination of lists.

use axum::http::StatusCode;

use crate::problem::Problem;

/// Size of a page: the requested limit, checked against the maximum, or the default.
pub(super) fn limit(query: Option<usize>, default: usize, max: usize) -> Result<usize, Problem> {
    let limit = query.unwrap_or(default);
    let detail = || format!("`limit` must be between 1 and {max}");
    match (1..=max).contains(&limit) {
        true => Ok(limit),
        false => Err(Problem::new(StatusCode::BAD_REQUEST, detail())),
    }
}

/// Cuts a list to the limit; returns the key of its last element if elements were cut off.
pub(super) fn cut<T, K>(found: &mut Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Option<K> {
    let more = found.len() > limit;
    found.truncate(limit);
    found.last().filter(|_| more).map(key)
}
