//! Output of programs while they run, for clients that watch. Nothing of it is stored: all of it is part of the outcome.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The most that is told of one program, in bytes; the rest is there when it is over.
const MOST: usize = 64 * 1024;

/// A program of a run: of which attempt, and which one of several side by side. Displayed as the start of its keys,
/// such as `attempt-2/candidate-1`.
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

/// A stream that a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// Something that a program wrote, or that it was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrote {
    /// One more with each.
    #[serde(skip)]
    pub number: u64,
    pub attempt: u32,
    pub candidate: Option<u32>,
    /// Where it was written to; nowhere yet by one that has just begun.
    pub stream: Option<OutputStream>,
    pub text: String,
    /// Whether the rest of what it writes is not told.
    pub cut: bool,
}

#[derive(Debug, Default)]
struct State {
    /// What the programs of the last attempt wrote.
    wrote: Vec<Wrote>,
    programs: BTreeMap<ProgramId, Program>,
    last: u64,
}

#[derive(Debug, Default)]
struct Program {
    told: usize,
    /// The beginnings of characters whose ends are still to come, by stream.
    halves: [Vec<u8>; 2],
}

/// What the programs of one trial write.
#[derive(Debug)]
pub struct LiveOutput {
    state: Mutex<State>,
    /// The number of the last piece.
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

    /// A program begins; what was there of it, or of attempts before it, is of no use any more.
    pub fn begin(&self, place: ProgramId) {
        let mut state = self.state();
        let same = |one: &Wrote| (one.attempt, one.candidate) == (place.attempt, place.candidate);
        state.wrote.retain(|one| one.attempt == place.attempt && !same(one));
        state.programs.retain(|other, _| other.attempt == place.attempt);
        state.programs.insert(place, Program::default());
        self.tell(&mut state, place, None, String::new(), false);
    }

    pub fn wrote(&self, place: ProgramId, output: OutputStream, bytes: &[u8]) {
        let mut state = self.state();
        let Some(program) = state.programs.get_mut(&place).filter(|one| one.told < MOST) else {
            return;
        };
        let half = &mut program.halves[output as usize];
        let mut bytes = [std::mem::take(half).as_slice(), bytes].concat();
        let cut = program.told + bytes.len() > MOST;
        bytes.truncate(MOST - program.told);
        // A character may come in two pieces.
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() && !cut => error.valid_up_to(),
            _ => bytes.len(),
        };
        *half = bytes.split_off(whole);
        program.told += whole;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if !text.is_empty() {
            self.tell(&mut state, place, Some(output), text, cut);
        }
    }

    fn tell(
        &self,
        state: &mut State,
        place: ProgramId,
        stream: Option<OutputStream>,
        text: String,
        cut: bool,
    ) {
        state.last += 1;
        let ProgramId { attempt, candidate } = place;
        let number = state.last;
        state.wrote.push(Wrote { number, attempt, candidate, stream, text, cut });
        self.last.send_replace(number);
    }

    /// Tells what programs wrote that run elsewhere. Where one begins, what was there of it is of no use any more.
    pub fn pass_on(&self, more: Vec<Wrote>) {
        let mut state = self.state();
        for one in more {
            if one.stream.is_none() {
                let same = |other: &Wrote| other.candidate == one.candidate;
                state.wrote.retain(|other| other.attempt == one.attempt && !same(other));
            }
            state.last += 1;
            let number = state.last;
            state.wrote.push(Wrote { number, ..one });
        }
        self.last.send_replace(state.last);
    }

    /// All that is known after this one.
    pub fn after(&self, number: u64) -> Vec<Wrote> {
        self.state().wrote.iter().filter(|one| one.number > number).cloned().collect()
    }

    /// The number of the last piece, for those who wait for more.
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
    fn characters_come_whole() {
        let live = LiveOutput::default();
        live.begin(FIRST);
        let euro = "€".as_bytes();
        live.wrote(FIRST, OutputStream::Stdout, &euro[..1]);
        live.wrote(FIRST, OutputStream::Stderr, b"between");
        live.wrote(FIRST, OutputStream::Stdout, &euro[1..]);
        live.wrote(FIRST, OutputStream::Stdout, b"\xff!");
        assert_eq!(texts(&live), ["", "between", "€", "\u{fffd}!"]);
    }

    #[test]
    fn a_flood_is_cut_once() {
        let live = LiveOutput::default();
        live.begin(FIRST);
        for _ in 0..3 {
            live.wrote(FIRST, OutputStream::Stdout, &[b'x'; MOST - 1]);
        }
        let told = live.after(0);
        assert_eq!(told.iter().map(|one| one.text.len()).sum::<usize>(), MOST);
        assert_eq!(told.iter().map(|one| one.cut).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn what_is_begun_anew_takes_the_place_of_what_was() {
        let live = LiveOutput::default();
        let other = ProgramId { attempt: 1, candidate: Some(2) };
        live.begin(FIRST);
        live.begin(other);
        live.wrote(FIRST, OutputStream::Stdout, b"one");
        live.wrote(other, OutputStream::Stdout, b"two");
        live.begin(FIRST);
        assert_eq!(texts(&live), ["", "two", ""]);
        live.begin(ProgramId { attempt: 2, candidate: None });
        assert_eq!(texts(&live), [""]);
        let last = *live.last().borrow();
        assert!(live.after(last).is_empty());
    }
}
