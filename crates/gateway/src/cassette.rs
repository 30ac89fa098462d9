//! Cassettes: calls kept by what was asked, and played back without a network.
//!
//! One file is cache, audit trail and test fixture in one. It holds a line of JSON for each call,
//! with the whole request and its outcome, and no key. What is on it is never asked again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use assize_llm::{ErrorKind, ModelError, Request, Response};
use serde::{Deserialize, Serialize};
use similar::TextDiff;

/// Bumped when a file of an older kind can no longer be read.
const VERSION: u32 = 1;

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

#[derive(Debug)]
struct Tape {
    calls: HashMap<String, Recorded>,
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
    #[error("another process is recording to `{}`", path.display())]
    Busy { path: PathBuf },
}

impl Cassette {
    /// Opens a cassette; one that is to be recorded is made if it is not there.
    pub fn open(path: &Path, mode: Mode) -> Result<Cassette, CassetteError> {
        let failed = |source| CassetteError::Open { path: path.to_owned(), source };
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
        // A device could be read for ever.
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(CassetteError::NotACassette { path: path.to_owned() });
        }
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

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The provider and model that the calls on the cassette were first made to.
    pub fn recorded_with(&self) -> Option<(String, String)> {
        self.tape().calls.values().find_map(|call| match &call.outcome {
            Outcome::Response(response) => {
                Some((response.provider.clone(), response.model.clone()))
            }
            Outcome::Failure { .. } => None,
        })
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the cassette has for this request.
    pub(crate) fn play(&self, request: &Request) -> Option<Result<Response, ModelError>> {
        let tape = self.tape();
        let recorded = tape.calls.get(&request.fingerprint().to_string())?;
        Some(match &recorded.outcome {
            Outcome::Response(response) => Ok(response.clone()),
            Outcome::Failure { kind, message, status, hint } => {
                let mut error = ModelError::new(*kind, message.clone());
                if let Some(status) = status {
                    error = error.with_status(*status);
                }
                if let Some(hint) = hint {
                    error = error.with_hint(hint.clone());
                }
                Err(error)
            }
        })
    }

    /// Adds a call. What ended the work from our side (a budget, a cancellation) is no outcome.
    pub(crate) fn add(
        &self,
        request: &Request,
        outcome: &Result<Response, ModelError>,
    ) -> Result<(), ModelError> {
        let outcome = match outcome {
            Ok(response) => Outcome::Response(response.clone()),
            Err(error) if error.kind().is_final() => return Ok(()),
            Err(error) => Outcome::Failure {
                kind: error.kind(),
                message: error.message().to_owned(),
                status: error.status(),
                hint: error.hint().map(str::to_owned),
            },
        };
        let fingerprint = request.fingerprint().to_string();
        let call = Recorded { fingerprint, request: request.clone(), outcome };
        let mut tape = self.tape();
        if tape.calls.contains_key(&call.fingerprint) {
            return Ok(());
        }
        if let Some(file) = &mut tape.file {
            write_line(file, &call).map_err(|source| {
                let message = format!("cannot write to the cassette `{}`", self.path.display());
                ModelError::new(ErrorKind::Internal, message).with_source(source)
            })?;
        }
        tape.calls.insert(call.fingerprint.clone(), call);
        Ok(())
    }

    /// The error for a request that is not on the cassette, with what differs from the nearest one.
    pub(crate) fn missing(&self, request: &Request) -> ModelError {
        let tape = self.tape();
        let wanted = pretty(request);
        let path = self.path.display();
        let nearest = tape.calls.values().map(|call| pretty(&call.request)).max_by_key(|text| {
            let same =
                |a: &mut dyn Iterator<Item = (u8, u8)>| a.take_while(|(a, b)| a == b).count();
            same(&mut text.bytes().zip(wanted.bytes()))
                + same(&mut text.bytes().rev().zip(wanted.bytes().rev()))
        });
        let message = match nearest {
            None => format!("the request is not on the cassette `{path}`, which is empty"),
            Some(nearest) => {
                let diff = TextDiff::from_lines(nearest.as_str(), wanted.as_str());
                let diff = diff
                    .unified_diff()
                    .context_radius(1)
                    .header("on the cassette", "asked")
                    .to_string();
                let most = 40;
                let lines: Vec<&str> =
                    diff.lines().take(most).map(|line| line.get(..300).unwrap_or(line)).collect();
                let more = diff.lines().count().saturating_sub(most);
                let rest =
                    if more > 0 { format!("\n… and {more} more lines") } else { String::new() };
                format!(
                    "the request is not on the cassette `{path}`; the nearest one differs:\n{}{rest}",
                    lines.join("\n")
                )
            }
        };
        ModelError::new(ErrorKind::NotRecorded, message).with_hint(
            "record it with `--record` instead of `--replay`; what is there is not asked again",
        )
    }
}

/// The calls on a tape, and where its last whole line ends.
fn read_tape(file: &File, path: &Path) -> Result<(HashMap<String, Recorded>, u64), CassetteError> {
    let mut reader = BufReader::new(file);
    let mut calls = HashMap::new();
    let mut end = 0;
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let length = reader
            .read_until(b'\n', &mut bytes)
            .map_err(|source| CassetteError::Open { path: path.to_owned(), source })?;
        if length == 0 {
            break;
        }
        let whole = bytes.last() == Some(&b'\n');
        if line == 1 {
            match serde_json::from_slice::<Header>(&bytes) {
                Ok(header) if header.assize_cassette == VERSION && whole => {}
                Ok(header) if whole => {
                    let found = header.assize_cassette;
                    return Err(CassetteError::Version { path: path.to_owned(), found });
                }
                _ => {
                    return Err(CassetteError::NotACassette { path: path.to_owned() });
                }
            }
        } else {
            match serde_json::from_slice::<Recorded>(&bytes) {
                Ok(call) if whole => {
                    calls.insert(call.fingerprint.clone(), call);
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
