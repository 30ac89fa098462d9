//! Live output of programs, for clients that watch a run. Live output is not stored, because the outcome of the program
//! contains the whole output.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Maximum live output of one program, in bytes. Output above the maximum is only in the outcome of the program.
const MAX_BYTES: usize = 64 * 1024;

/// Id of a program of a run: the number of its attempt and, if several programs run in parallel, its candidate number.
/// The text form is the prefix of the program's journal keys, such as `attempt-2/candidate-1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramId {
    pub attempt: u32,
    pub candidate: Option<u32>,
}

impl std::fmt::Display for ProgramId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "attempt-{}", self.attempt)?;
        self.candidate.map_or(Ok(()), |candidate| write!(f, "/candidate-{candidate}"))
    }
}

/// Output stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// A piece of output of a program, or the notice that the program started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputChunk {
    /// Sequence number of the chunk, counted from 1 over all programs of the run.
    #[serde(skip)]
    pub number: u64,
    pub attempt: u32,
    pub candidate: Option<u32>,
    /// Stream that the program wrote to; `None` in the notice that the program started.
    pub stream: Option<OutputStream>,
    pub text: String,
    /// Whether the live output is truncated after this chunk, so that later output of the program is not sent.
    pub cut: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Chunks of output from the programs of the latest attempt.
    chunks: Vec<OutputChunk>,
    programs: BTreeMap<ProgramId, Program>,
    last: u64,
}

#[derive(Debug, Default)]
struct Program {
    bytes_sent: usize,
    /// Whether the program wrote more than the maximum live output.
    cut: bool,
    /// For each stream, the first bytes of a UTF-8 character whose other bytes have not arrived yet.
    incomplete: [Vec<u8>; 2],
}

/// Live output of all programs of one run.
#[derive(Debug)]
pub struct LiveOutput {
    state: Mutex<State>,
    /// Sequence number of the latest chunk.
    last: watch::Sender<u64>,
}

impl Default for LiveOutput {
    fn default() -> LiveOutput {
        LiveOutput { state: Mutex::default(), last: watch::Sender::new(0) }
    }
}

impl LiveOutput {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a program that starts. Drops earlier output of the same program and all output of earlier attempts.
    pub fn begin(&self, id: ProgramId) {
        let mut state = self.state();
        let same = |one: &OutputChunk| (one.attempt, one.candidate) == (id.attempt, id.candidate);
        state.chunks.retain(|one| one.attempt == id.attempt && !same(one));
        state.programs.retain(|other, _| other.attempt == id.attempt);
        state.programs.insert(id, Program::default());
        self.push(&mut state, id, None, String::new(), false);
    }

    /// Adds output of a program, up to the maximum live output of one program.
    pub fn append(&self, id: ProgramId, output: OutputStream, bytes: &[u8]) {
        let mut state = self.state();
        let Some(program) = state.programs.get_mut(&id).filter(|one| !one.cut) else {
            return;
        };
        let incomplete = &mut program.incomplete[output as usize];
        let mut bytes = [std::mem::take(incomplete).as_slice(), bytes].concat();
        let cut = program.bytes_sent + bytes.len() > MAX_BYTES;
        bytes.truncate(MAX_BYTES - program.bytes_sent);
        // A UTF-8 character may be split between two writes.
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() && !cut => error.valid_up_to(),
            _ => bytes.len(),
        };
        *incomplete = bytes.split_off(whole);
        program.bytes_sent += whole;
        program.cut = cut;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if !text.is_empty() || cut {
            self.push(&mut state, id, Some(output), text, cut);
        }
    }

    fn push(
        &self,
        state: &mut State,
        id: ProgramId,
        stream: Option<OutputStream>,
        text: String,
        cut: bool,
    ) {
        state.last += 1;
        let ProgramId { attempt, candidate } = id;
        let number = state.last;
        state.chunks.push(OutputChunk { number, attempt, candidate, stream, text, cut });
        self.last.send_replace(number);
    }

    /// Adds output of programs that run on another node. The notice that a program started drops the earlier output of
    /// the same program and all output of earlier attempts.
    pub fn append_remote(&self, more: Vec<OutputChunk>) {
        let mut state = self.state();
        for one in more {
            if one.stream.is_none() {
                let same = |other: &OutputChunk| other.candidate == one.candidate;
                state.chunks.retain(|other| other.attempt == one.attempt && !same(other));
            }
            state.last += 1;
            let number = state.last;
            state.chunks.push(OutputChunk { number, ..one });
        }
        self.last.send_replace(state.last);
    }

    /// All chunks with a sequence number above `number`.
    pub fn after(&self, number: u64) -> Vec<OutputChunk> {
        self.state().chunks.iter().filter(|one| one.number > number).cloned().collect()
    }

    /// Subscribes to the sequence number of the latest chunk, which changes when output arrives.
    pub fn last(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: ProgramId = ProgramId { attempt: 1, candidate: None };

    fn texts(live: &LiveOutput) -> Vec<String> {
        live.after(0).into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn live_output_joins_utf8_characters_that_are_split_between_writes() {
        let live = LiveOutput::default();
        live.begin(FIRST);
        let euro = "€".as_bytes();
        live.append(FIRST, OutputStream::Stdout, &euro[..1]);
        live.append(FIRST, OutputStream::Stderr, b"between");
        live.append(FIRST, OutputStream::Stdout, &euro[1..]);
        live.append(FIRST, OutputStream::Stdout, b"\xff!");
        assert_eq!(texts(&live), ["", "between", "€", "\u{fffd}!"]);
    }

    #[test]
    fn live_output_above_the_maximum_is_truncated_and_its_last_chunk_is_marked() {
        for size in [MAX_BYTES - 1, MAX_BYTES] {
            let live = LiveOutput::default();
            live.begin(FIRST);
            for _ in 0..3 {
                live.append(FIRST, OutputStream::Stdout, &vec![b'x'; size]);
            }
            let pieces = live.after(0);
            assert_eq!(pieces.iter().map(|one| one.text.len()).sum::<usize>(), MAX_BYTES);
            assert_eq!(pieces.iter().map(|one| one.cut).collect::<Vec<_>>(), [false, false, true]);
        }
    }

    #[test]
    fn live_output_of_a_restarted_program_and_of_earlier_attempts_is_dropped() {
        let live = LiveOutput::default();
        let other = ProgramId { attempt: 1, candidate: Some(2) };
        live.begin(FIRST);
        live.begin(other);
        live.append(FIRST, OutputStream::Stdout, b"one");
        live.append(other, OutputStream::Stdout, b"two");
        live.begin(FIRST);
        assert_eq!(texts(&live), ["", "two", ""]);
        live.begin(ProgramId { attempt: 2, candidate: None });
        assert_eq!(texts(&live), [""]);
        let last = *live.last().borrow();
        assert!(live.after(last).is_empty());
    }
}
