//! Reads text from a file or standard input, up to a size limit.

use std::io::Read;
use std::path::Path;

use assize_types::text::validated_text;
use assize_types::{Cancel, Failure, FailureKind};

use assize_service::files::open_regular;

/// Reads all of standard input, which must be UTF-8 text of at most `mebibytes` MiB. `what` is the word for the text in
/// error messages, such as `the task`.
pub(crate) async fn from_standard_input(
    what: &'static str,
    mebibytes: u64,
    cancel: &Cancel,
) -> Result<String, Failure> {
    let reading = tokio::task::spawn_blocking(move || {
        read(what, mebibytes, &mut std::io::stdin().lock(), "standard input")
    });
    tokio::select! {
        text = reading => text.map_err(|error| Failure::from_error(FailureKind::Internal, &error))?,
        reason = cancel.cancelled() => Err(Failure::new(FailureKind::Interrupted, reason)),
    }
}

/// Reads a file, which must be UTF-8 text of at most `mebibytes` MiB. `what` is the word for the text in error
/// messages, such as `the task`.
pub(crate) fn from_file(
    what: &'static str,
    mebibytes: u64,
    path: &Path,
) -> Result<String, Failure> {
    let shown = format!("`{}`", path.display());
    let failed =
        |why: String| Failure::new(FailureKind::Usage, format!("cannot read {shown}: {why}"));
    // The file is opened once, because it could be replaced between a check and a second open.
    let opened = open_regular(path).map_err(|error| failed(error.to_string()))?;
    let mut file = opened
        .ok_or_else(|| failed("not a regular file".to_owned()).hint("`-` reads standard input"))?;
    read(what, mebibytes, &mut file, &shown)
}

fn read(what: &str, mebibytes: u64, from: &mut impl Read, shown: &str) -> Result<String, Failure> {
    let refused = |why: String| Err(Failure::new(FailureKind::Usage, format!("{what} {why}")));
    let max_bytes = mebibytes * 1024 * 1024;
    let mut bytes = Vec::new();
    from.take(max_bytes + 1).read_to_end(&mut bytes).map_err(|error| {
        Failure::new(FailureKind::Environment, format!("cannot read {shown}: {error}"))
    })?;
    if bytes.len() as u64 > max_bytes {
        return refused(format!("is longer than {mebibytes} MiB"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => validated_text(what, mebibytes, &text),
        Err(_) => refused("is not UTF-8 text".to_owned()),
    }
}
