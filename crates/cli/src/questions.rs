//! Questions to the user on the terminal. The questions are written to standard error, the answers are read from
//! standard input.

use std::io::{self, BufRead, IsTerminal};
use std::sync::{Mutex, MutexGuard, PoisonError};

use assize_types::{Failure, FailureKind};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::terminal::{note, replace_control_chars};

/// Meaning of an empty line as the answer to a yes-or-no question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmptyLine {
    Yes,
    No,
}

static STATE: Mutex<State> = Mutex::new(State { open: None, is_interrupted: false });

struct State {
    /// Terminal settings to restore when the open question is closed; `None` if no question is open.
    open: Option<Termios>,
    /// Whether the command was interrupted by a signal. After that signal, all questions are refused.
    is_interrupted: bool,
}

impl State {
    fn lock() -> MutexGuard<'static, State> {
        STATE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores the terminal if a question is open. Returns whether a question was open.
    fn close_question(&mut self) -> bool {
        let open = self.open.take();
        if let Some(before) = &open {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
        open.is_some()
    }
}

/// A question that waits for its answer. Dropping this value restores the terminal.
struct OpenQuestion;

impl OpenQuestion {
    /// Opens a question. If `secret` is true, the terminal does not show the answer while the user types.
    fn new(secret: bool) -> io::Result<OpenQuestion> {
        let mut state = State::lock();
        if state.is_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let before = tcgetattr(stdin())?;
        if secret {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            tcsetattr(stdin(), OptionalActions::Now, &silent)?;
        }
        state.open = Some(before);
        Ok(OpenQuestion)
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        State::lock().close_question();
    }
}

/// Refuses all later questions, and restores the terminal if a question is open. Returns whether a question was open.
pub(crate) fn interrupt() -> bool {
    let mut state = State::lock();
    state.is_interrupted = true;
    state.close_question()
}

/// Whether the user can be asked: standard input and standard error are a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for confirmation. Without a terminal, the answer is no.
pub(crate) fn confirmed(question: &str, default: EmptyLine) -> bool {
    if !can_ask() {
        return false;
    }
    let keys = if default == EmptyLine::Yes { "[Y/n]" } else { "[y/N]" };
    let Ok(answer) = ask(&format!("{} {keys}", replace_control_chars(question))) else {
        return false;
    };
    match answer.to_lowercase().as_str() {
        "y" | "yes" => true,
        "" => default == EmptyLine::Yes,
        _ => false,
    }
}

/// Asks for a text and returns the answer without surrounding whitespace.
pub(crate) fn ask(question: &str) -> Result<String, Failure> {
    read_answer(question, false)
}

/// Asks for a text that is not shown while the user types it.
pub(crate) fn ask_secret(question: &str) -> Result<String, Failure> {
    let answer = read_answer(question, true);
    // The terminal did not show the end of the line.
    note("");
    answer
}

fn read_answer(question: &str, secret: bool) -> Result<String, Failure> {
    let failed = || Failure::new(FailureKind::Interrupted, "the question was not answered");
    // The terminal is prepared before the question appears, so that an answer that is typed at once stays hidden.
    let _open = OpenQuestion::new(secret).map_err(|_| failed())?;
    note(question);
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(bytes) if bytes > 0 => Ok(line.trim().to_owned()),
        _ => Err(failed()),
    }
}
