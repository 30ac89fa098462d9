//! Cassettes: files in which model calls are recorded, and from which they are replayed without network access.
//!
//! A cassette serves as cache, audit trail and test fixture. It has one line of JSON for each call, with the whole
//! request and its outcome, but without the API key. A request whose answer is recorded is never sent again.

use assize_types::{Failure, FailureKind, text::shorten};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use assize_llm::{ErrorKind, ModelError, ModelRequest, ModelResponse};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use crate::provider::display_name;

/// Version of the cassette format. It is incremented when older files can no longer be read.
const VERSION: u32 = 1;

/// Maximum length of the first line of a cassette, in bytes.
const MAX_HEADER: u64 = 1024;

/// Maximum length of a line with a recorded call, in bytes. Valid lines are shorter, because answers are limited to
/// 32 MiB.
const MAX_LINE: u64 = 256 * 1024 * 1024;

/// An open cassette file.
#[derive(Debug)]
pub struct Cassette {
    path: PathBuf,
    mode: CassetteMode,
    contents: Mutex<Contents>,
}

/// Whether a cassette is recorded or only replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CassetteMode {
    /// Recorded requests are replayed. All other requests are sent and recorded.
    Record,
    /// Recorded requests are replayed. All other requests fail.
    Replay,
}

type Calls = HashMap<String, Vec<Recorded>>;

#[derive(Debug)]
struct Contents {
    /// Recorded calls, by the fingerprint of their request. A request can be recorded once for each model.
    calls: Calls,
    /// The file, locked against other processes; `None` if the cassette is only replayed.
    file: Option<File>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Header {
    assize_cassette: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Recorded {
    fingerprint: String,
    provider: String,
    model: String,
    request: ModelRequest,
    outcome: Outcome,
}

impl Recorded {
    /// Names of the provider and the model as one text, for output.
    fn display_name(&self) -> String {
        display_name(&self.provider, &self.model)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Response(ModelResponse),
    /// The call failed. The fields describe the error that the caller received.
    Failure {
        kind: ErrorKind,
        message: String,
        status: Option<u16>,
        hint: Option<String>,
    },
}

/// Error of opening a cassette.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    #[error("cannot open the cassette `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("`{}` is not a cassette", path.display())]
    NotACassette { path: PathBuf },
    #[error("the cassette `{}` has version {found}, but this program reads version {VERSION}", path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("line {line} of the cassette `{}` cannot be read", path.display())]
    Damaged { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("line {line} of the cassette `{}` was modified: its fingerprint does not match its request", path.display())]
    Changed { path: PathBuf, line: usize },
    #[error("another process is recording to the cassette `{}`", path.display())]
    Busy { path: PathBuf },
}

impl Cassette {
    /// Opens a cassette. In record mode, creates the file if it does not exist.
    pub fn open(path: &Path, mode: CassetteMode) -> Result<Cassette, CassetteError> {
        let failed = |source| CassetteError::Open { path: path.to_owned(), source };
        // Opening a pipe or reading a device could block forever.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Err(CassetteError::NotACassette { path: path.to_owned() });
        }
        let mut file = match mode {
            CassetteMode::Replay => File::open(path).map_err(failed)?,
            CassetteMode::Record => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                options.open(path).map_err(failed)?
            }
        };
        if mode == CassetteMode::Record && file.try_lock().is_err() {
            return Err(CassetteError::Busy { path: path.to_owned() });
        }
        let (calls, end) = read_calls(&file, path)?;
        if mode == CassetteMode::Record {
            // If a process was killed while it recorded, the last line is incomplete. It is removed here.
            file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
            if end == 0 {
                write_line(&mut file, &Header { assize_cassette: VERSION }).map_err(failed)?;
            }
        }
        let file = (mode == CassetteMode::Record).then_some(file);
        Ok(Cassette { path: path.to_owned(), mode, contents: Mutex::new(Contents { calls, file }) })
    }

    /// Returns the recorded outcome of a request to a provider and model that match `who`.
    ///
    /// A recorded failure is returned only in replay mode. In record mode, the call is sent again.
    pub(crate) fn recorded_outcome(
        &self,
        request: &ModelRequest,
        who: &CassetteFilter,
    ) -> Option<Result<ModelResponse, ModelError>> {
        let contents = self.contents.lock();
        let calls = contents.calls.get(&request.fingerprint().to_string())?;
        let mut matching = calls.iter().filter(|call| who.matches(call));
        let call = matching.next()?;
        if let Some(other) = matching.next() {
            let message = format!(
                "the request is recorded twice in the cassette `{}`, for {} and for {}",
                self.path.display(),
                call.display_name(),
                other.display_name()
            );
            return Some(Err(ModelError::new(ErrorKind::NotRecorded, message)
                .with_hint("choose one of the recorded models with `--provider` and `--model`")));
        }
        match &call.outcome {
            Outcome::Response(response) => Some(Ok(response.clone())),
            Outcome::Failure { .. } if self.mode == CassetteMode::Record => None,
            Outcome::Failure { kind, message, status, hint } => {
                let mut error = ModelError::new(*kind, message.clone());
                error.status = *status;
                error.hint.clone_from(hint);
                Some(Err(error))
            }
        }
    }

    /// Records a call and returns its outcome. If the same request to the same model already has a recorded answer,
    /// returns that answer instead. Errors of this process, such as an exhausted budget or a cancellation, are not
    /// recorded.
    pub(crate) fn add(
        &self,
        request: &ModelRequest,
        provider: &str,
        model: &str,
        outcome: Result<ModelResponse, ModelError>,
    ) -> Result<ModelResponse, ModelError> {
        let recorded = match &outcome {
            Ok(response) => Outcome::Response(response.clone()),
            Err(error) if error.kind().is_final() => return outcome,
            Err(error) => Outcome::Failure {
                kind: error.kind(),
                message: error.message().to_owned(),
                status: error.status,
                hint: error.hint.clone(),
            },
        };
        let call = Recorded {
            fingerprint: request.fingerprint().to_string(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            request: request.clone(),
            outcome: recorded,
        };
        let mut contents = self.contents.lock();
        let same = |other: &&Recorded| other.provider == provider && other.model == model;
        let first = contents.calls.get(&call.fingerprint).and_then(|c| c.iter().find(same));
        if let Some(Outcome::Response(response)) = first.map(|call| &call.outcome) {
            return Ok(response.clone());
        }
        if let Some(file) = &mut contents.file {
            write_line(file, &call).map_err(|source| {
                let message = format!("cannot write to the cassette `{}`", self.path.display());
                ModelError::new(ErrorKind::Internal, message).with_source(source)
            })?;
        }
        insert(&mut contents.calls, call);
        outcome
    }

    /// Creates the error for a request that is not in the cassette, with a diff to the most similar recorded request.
    pub(crate) fn missing(&self, request: &ModelRequest, who: &CassetteFilter) -> ModelError {
        let contents = self.contents.lock();
        let path = self.path.display();
        let missing = |message: String| {
            let hint = "record the request with `--record` instead of `--replay`; recorded requests are not sent again";
            ModelError::new(ErrorKind::NotRecorded, message).with_hint(hint)
        };
        if let Some(call) =
            contents.calls.get(&request.fingerprint().to_string()).and_then(|c| c.first())
        {
            return missing(format!(
                "the request is in the cassette `{path}` for {}, but not for {who}",
                call.display_name()
            ));
        }
        let requested = pretty(request);
        let calls = contents.calls.values().flatten();
        let nearest = calls.map(|call| pretty(&call.request)).max_by_key(|text| {
            let same =
                |a: &mut dyn Iterator<Item = (u8, u8)>| a.take_while(|(a, b)| a == b).count();
            same(&mut text.bytes().zip(requested.bytes()))
                + same(&mut text.bytes().rev().zip(requested.bytes().rev()))
        });
        match nearest {
            None => missing(format!("the request is not in the cassette `{path}`, which is empty")),
            Some(nearest) => {
                let mut error = missing(format!(
                    "the request is not in the cassette `{path}`; most similar recorded request:"
                ));
                error.detail = Some(difference(&nearest, &requested));
                error
            }
        }
    }
}

/// Provider and model whose recorded answers are replayed; `None` matches every provider or model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CassetteFilter {
    pub provider: Option<String>,
    pub model: Option<String>,
}

impl CassetteFilter {
    fn matches(&self, call: &Recorded) -> bool {
        self.provider.as_ref().is_none_or(|provider| *provider == call.provider)
            && self.model.as_ref().is_none_or(|model| *model == call.model)
    }
}

impl fmt::Display for CassetteFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let provider = self.provider.as_deref().unwrap_or_default();
        f.write_str(&display_name(provider, self.model.as_deref().unwrap_or_default()))
    }
}

/// Adds a recorded call. If the same request to the same model was recorded earlier, the new call replaces that call.
fn insert(calls: &mut Calls, call: Recorded) {
    let same = calls.entry(call.fingerprint.clone()).or_default();
    same.retain(|other| other.provider != call.provider || other.model != call.model);
    same.push(call);
}

/// Unified diff of the recorded and the current request. Long lines are shortened, and a long diff is cut off.
fn difference(recorded: &str, requested: &str) -> String {
    const MAX_LINES: usize = 40;
    const MAX_WIDTH: usize = 300;
    let diff = TextDiff::from_lines(recorded, requested);
    let diff = diff.unified_diff().context_radius(1).header("recorded", "requested").to_string();
    let shown = |line: &str| shorten(line, MAX_WIDTH);
    let mut lines: Vec<String> = diff.lines().take(MAX_LINES).map(shown).collect();
    let more = diff.lines().count().saturating_sub(MAX_LINES);
    if more > 0 {
        lines.push(format!("… and {more} more {}", if more == 1 { "line" } else { "lines" }));
    }
    lines.join("\n")
}

/// Reads the calls of a cassette. Also returns the byte offset at which the last complete line ends.
fn read_calls(file: &File, path: &Path) -> Result<(Calls, u64), CassetteError> {
    let mut reader = BufReader::new(file);
    let mut calls = Calls::new();
    let mut end = 0;
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let max = if line == 1 { MAX_HEADER } else { MAX_LINE };
        let length = reader
            .by_ref()
            .take(max)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| CassetteError::Open { path: path.to_owned(), source })?;
        if length == 0 {
            break;
        }
        let whole = bytes.last() == Some(&b'\n');
        let invalid = || CassetteError::NotACassette { path: path.to_owned() };
        if length as u64 == max && !whole {
            return Err(invalid());
        }
        if line == 1 {
            match serde_json::from_slice::<Header>(&bytes) {
                Ok(header) if header.assize_cassette == VERSION && whole => {}
                Ok(header) if whole => {
                    let found = header.assize_cassette;
                    return Err(CassetteError::Version { path: path.to_owned(), found });
                }
                _ => return Err(invalid()),
            }
        } else {
            match serde_json::from_slice::<Recorded>(&bytes) {
                Ok(call) if whole => {
                    if call.fingerprint != call.request.fingerprint().to_string() {
                        return Err(CassetteError::Changed { path: path.to_owned(), line });
                    }
                    insert(&mut calls, call);
                }
                // The recording process was killed while it wrote its last line.
                _ if !whole => break,
                Ok(_) => {}
                Err(source) => {
                    return Err(CassetteError::Damaged { path: path.to_owned(), line, source });
                }
            }
        }
        end += length as u64;
    }
    Ok((calls, end))
}

/// Writes a value as one line of JSON. If writing fails, removes the incomplete line.
fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let start = file.stream_position()?;
    let written = file.write_all(&line);
    if written.is_err() {
        // The disk may be full. The incomplete line is removed, so that later lines stay readable.
        let _ = file.set_len(start);
        let _ = file.seek(SeekFrom::Start(start));
    }
    written
}

/// Formats a request as JSON with real line breaks in its texts, so that a diff is readable.
fn pretty(request: &ModelRequest) -> String {
    serde_json::to_string_pretty(request).unwrap_or_default().replace("\\n", "\n")
}

impl From<CassetteError> for Failure {
    fn from(error: CassetteError) -> Failure {
        let kind = match error {
            CassetteError::Open { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
                FailureKind::Usage
            }
            CassetteError::Open { .. } | CassetteError::Busy { .. } => FailureKind::Environment,
            _ => FailureKind::Usage,
        };
        Failure::from_error(kind, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cassette_write_to_a_full_disk_fails() {
        // Every write to `/dev/full` fails with "no space left on device".
        let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = write_line(&mut full, &"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
