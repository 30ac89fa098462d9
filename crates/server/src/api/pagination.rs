//! Pagination of the lists that the API returns.

use axum::http::StatusCode;

use crate::problem::Problem;

/// Number of elements per page: the limit that the client requested, or the default. A limit of 0 or above `max` is an
/// error.
pub(super) fn limit(query: Option<usize>, default: usize, max: usize) -> Result<usize, Problem> {
    let limit = query.unwrap_or(default);
    let detail = || format!("`limit` must be between 1 and {max}");
    match (1..=max).contains(&limit) {
        true => Ok(limit),
        false => Err(Problem::new(StatusCode::BAD_REQUEST, detail())),
    }
}

/// Truncates a list to `limit` elements. If elements were removed, returns the key of the last remaining element, which
/// is the cursor of the next page.
pub(super) fn cut<T, K>(found: &mut Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Option<K> {
    let more = found.len() > limit;
    found.truncate(limit);
    found.last().filter(|_| more).map(key)
}
