//! Text that somebody hands us.

use assize_types::text::is_invisible;
use assize_types::{Failure, FailureKind};

/// Text that must say something, in at most so many MiB.
pub fn checked(what: &str, mebibytes: u64, text: &str) -> Result<String, Failure> {
    let refused = |why: String| Err(Failure::new(FailureKind::Usage, format!("{what} {why}")));
    if text.len() as u64 > mebibytes * 1024 * 1024 {
        return refused(format!("is longer than {mebibytes} MiB"));
    }
    if text.chars().all(|c| c.is_whitespace() || is_invisible(c)) {
        return refused("is empty".to_owned());
    }
    Ok(text.to_owned())
}
