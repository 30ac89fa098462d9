//! Cassettes: calls kept by what was asked, and played back without a network.
//!
//! One file is cache, audit trail and test fixture in one. It holds a line of JSON for each call,
//! with the whole request and its outcome, and no key. What is on it is never asked again.

use assize_types::{Failure, FailureKind, text::shorten};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use assize_llm::{ErrorKind, ModelError, Request, Response};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use similar::TextDiff;

/// Bumped when a file of an older kind can no longer be read.
const VERSION: u32 = 1;

/// Longer lines are on no cassette of ours: an answer ends at 32 MiB.
const LONGEST_HEADER: u64 = 1024;
const LONGEST_LINE: u64 = 256 * 1024 * 1024;

/// A cassette in the drive.
#[derive(Debug)]
pub struct Cassette {
    path: PathBuf,
    mode: Mode,
    tape: Mutex<Tape>,
}

/// What a cassette is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// What is on it is played, what is not is asked and added.
    Record,
    /// What is on it is played, what is not is an error.
    Replay,
}

type Calls = HashMap<String, Vec<Recorded>>;

#[derive(Debug)]
struct Tape {
    /// By the fingerprint of the request; one for each model that it was asked of.
    calls: Calls,
    /// Open, and locked against other recorders, while recording.
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
    request: Request,
    outcome: Outcome,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Response(Response),
    /// A failure that the caller had to live with.
    Failure {
        kind: ErrorKind,
        message: String,
        status: Option<u16>,
        hint: Option<String>,
    },
}

/// Why a cassette cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    #[error("cannot open the cassette `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("`{}` is not a cassette", path.display())]
    NotACassette { path: PathBuf },
    #[error("the cassette `{}` is of version {found}, this program reads version {VERSION}", path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("line {line} of the cassette `{}` cannot be read", path.display())]
    Damaged { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("line {line} of the cassette `{}` was changed: request and fingerprint differ", path.display())]
    Changed { path: PathBuf, line: usize },
    #[error("another process is recording to `{}`", path.display())]
    Busy { path: PathBuf },
}

impl Cassette {
    /// Opens a cassette; one that is to be recorded is made if it is not there.
    pub fn open(path: &Path, mode: Mode) -> Result<Cassette, CassetteError> {
        let failed = |source| CassetteError::Open { path: path.to_owned(), source };
        // To open a pipe could take for ever, and to read a device.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Err(CassetteError::NotACassette { path: path.to_owned() });
        }
        let mut file = match mode {
            Mode::Replay => File::open(path).map_err(failed)?,
            Mode::Record => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                options.open(path).map_err(failed)?
            }
        };
        if mode == Mode::Record && file.try_lock().is_err() {
            return Err(CassetteError::Busy { path: path.to_owned() });
        }
        let (calls, end) = read_tape(&file, path)?;
        if mode == Mode::Record {
            // A line that a killed recorder left half written is written over.
            file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
            if end == 0 {
                write_line(&mut file, &Header { assize_cassette: VERSION }).map_err(failed)?;
            }
        }
        let file = (mode == Mode::Record).then_some(file);
        Ok(Cassette { path: path.to_owned(), mode, tape: Mutex::new(Tape { calls, file }) })
    }

    /// What the cassette has for this request, asked of this model.
    ///
    /// A failure is played only in a replay: while recording, it is worth another try.
    pub(crate) fn play(
        &self,
        request: &Request,
        who: &Asked,
    ) -> Option<Result<Response, ModelError>> {
        let tape = self.tape.lock();
        let calls = tape.calls.get(&request.fingerprint().to_string())?;
        let mut fitting = calls.iter().filter(|call| who.matches(call));
        let call = fitting.next()?;
        if let Some(other) = fitting.next() {
            let message = format!(
                "the request is on the cassette `{}` twice, asked of {} and of {}",
                self.path.display(),
                call.model,
                other.model
            );
            return Some(Err(ModelError::new(ErrorKind::NotRecorded, message)
                .with_hint("say which with `--provider` and `--model`")));
        }
        match &call.outcome {
            Outcome::Response(response) => Some(Ok(response.clone())),
            Outcome::Failure { .. } if self.mode == Mode::Record => None,
            Outcome::Failure { kind, message, status, hint } => {
                let mut error = ModelError::new(*kind, message.clone());
                error.status = *status;
                error.hint.clone_from(hint);
                Some(Err(error))
            }
        }
    }

    /// Adds a call, and gives the outcome that the cassette now has for it: that of an equal call
    /// which was answered first, if there was one. What ended the work from our side (a budget, a
    /// cancellation) is no outcome, and is not kept.
    pub(crate) fn add(
        &self,
        request: &Request,
        provider: &str,
        model: &str,
        outcome: Result<Response, ModelError>,
    ) -> Result<Response, ModelError> {
        let kept = match &outcome {
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
            outcome: kept,
        };
        let mut tape = self.tape.lock();
        let same = |other: &&Recorded| other.provider == provider && other.model == model;
        let first = tape.calls.get(&call.fingerprint).and_then(|calls| calls.iter().find(same));
        if let Some(Outcome::Response(response)) = first.map(|call| &call.outcome) {
            return Ok(response.clone());
        }
        if let Some(file) = &mut tape.file {
            write_line(file, &call).map_err(|source| {
                let message = format!("cannot write to the cassette `{}`", self.path.display());
                ModelError::new(ErrorKind::Internal, message).with_source(source)
            })?;
        }
        insert(&mut tape.calls, call);
        outcome
    }

    /// The error for a request that is not on the cassette, with what differs from the nearest one.
    pub(crate) fn missing(&self, request: &Request, who: &Asked) -> ModelError {
        let tape = self.tape.lock();
        let path = self.path.display();
        let missing = |message: String| {
            let hint =
                "record it with `--record` instead of `--replay`; what is there is not asked again";
            ModelError::new(ErrorKind::NotRecorded, message).with_hint(hint)
        };
        if let Some(call) =
            tape.calls.get(&request.fingerprint().to_string()).and_then(|c| c.first())
        {
            return missing(format!(
                "the request is on the cassette `{path}`, asked of {} {}, not of {who}",
                call.provider, call.model
            ));
        }
        let wanted = pretty(request);
        let calls = tape.calls.values().flatten();
        let nearest = calls.map(|call| pretty(&call.request)).max_by_key(|text| {
            let same =
                |a: &mut dyn Iterator<Item = (u8, u8)>| a.take_while(|(a, b)| a == b).count();
            same(&mut text.bytes().zip(wanted.bytes()))
                + same(&mut text.bytes().rev().zip(wanted.bytes().rev()))
        });
        match nearest {
            None => missing(format!("the request is not on the cassette `{path}`, which is empty")),
            Some(nearest) => {
                let mut error = missing(format!(
                    "the request is not on the cassette `{path}`; the nearest one differs:"
                ));
                error.detail = Some(difference(&nearest, &wanted));
                error
            }
        }
    }
}

/// Whose answers are wanted; what is not said does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    pub provider: Option<String>,
    pub model: Option<String>,
}

impl Asked {
    fn matches(&self, call: &Recorded) -> bool {
        self.provider.as_ref().is_none_or(|provider| *provider == call.provider)
            && self.model.as_ref().is_none_or(|model| *model == call.model)
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> =
            [&self.provider, &self.model].into_iter().flatten().map(String::as_str).collect();
        f.write_str(&parts.join(" "))
    }
}

/// Puts a call in its place; a later one takes that of an earlier one to the same model.
fn insert(calls: &mut Calls, call: Recorded) {
    let same = calls.entry(call.fingerprint.clone()).or_default();
    same.retain(|other| other.provider != call.provider || other.model != call.model);
    same.push(call);
}

/// What differs, in bearable length.
fn difference(nearest: &str, wanted: &str) -> String {
    const MOST_LINES: usize = 40;
    const LONGEST_SHOWN: usize = 300;
    let diff = TextDiff::from_lines(nearest, wanted);
    let diff = diff.unified_diff().context_radius(1).header("on the cassette", "asked").to_string();
    let shown = |line: &str| shorten(line, LONGEST_SHOWN);
    let mut lines: Vec<String> = diff.lines().take(MOST_LINES).map(shown).collect();
    let more = diff.lines().count().saturating_sub(MOST_LINES);
    if more > 0 {
        lines.push(format!("… and {more} more lines"));
    }
    lines.join("\n")
}

/// The calls on a tape, and where its last whole line ends.
fn read_tape(file: &File, path: &Path) -> Result<(Calls, u64), CassetteError> {
    let mut reader = BufReader::new(file);
    let mut calls = Calls::new();
    let mut end = 0;
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let most = if line == 1 { LONGEST_HEADER } else { LONGEST_LINE };
        let length = reader
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| CassetteError::Open { path: path.to_owned(), source })?;
        if length == 0 {
            break;
        }
        let whole = bytes.last() == Some(&b'\n');
        let no_cassette = || CassetteError::NotACassette { path: path.to_owned() };
        if length as u64 == most && !whole {
            return Err(no_cassette());
        }
        if line == 1 {
            match serde_json::from_slice::<Header>(&bytes) {
                Ok(header) if header.assize_cassette == VERSION && whole => {}
                Ok(header) if whole => {
                    let found = header.assize_cassette;
                    return Err(CassetteError::Version { path: path.to_owned(), found });
                }
                _ => return Err(no_cassette()),
            }
        } else {
            match serde_json::from_slice::<Recorded>(&bytes) {
                Ok(call) if whole => {
                    if call.fingerprint != call.request.fingerprint().to_string() {
                        return Err(CassetteError::Changed { path: path.to_owned(), line });
                    }
                    insert(&mut calls, call);
                }
                // The recorder was killed in the middle of its last line.
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

/// Writes a line in one piece, or nothing of it that a reader would take for one.
fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let start = file.stream_position()?;
    let written = file.write_all(&line);
    if written.is_err() {
        // The disk may be full: what fitted is taken back, so that later lines stay readable.
        let _ = file.set_len(start);
        let _ = file.seek(SeekFrom::Start(start));
    }
    written
}

/// A request with each text on lines of its own, so that a diff shows words and not escapes.
fn pretty(request: &Request) -> String {
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
    fn a_full_disk_is_an_error() {
        // The kernel's own always-full device.
        let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = write_line(&mut full, &"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
