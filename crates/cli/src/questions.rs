//! Questions to the user on the terminal. The questions are written to standard error, the answers are read from
//! standard input.

use std::io::{self, BufRead, IsTerminal};

use assize_types::{Failure, FailureKind};
use console::Term;

use crate::terminal::{note, replace_control_chars};

/// Meaning of an empty line as the answer to a yes-or-no question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmptyLine {
    Yes,
    No,
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
    note(&format!("{} {keys}", replace_control_chars(question)));
    let Ok(Some(answer)) = read_line() else { return false };
    match answer.to_lowercase().as_str() {
        "y" | "yes" => true,
        "" => default == EmptyLine::Yes,
        _ => false,
    }
}

/// Asks for a text and returns the answer without surrounding whitespace.
pub(crate) fn ask(question: &str) -> Result<String, Failure> {
    note(question);
    read_line()?.ok_or_else(no_answer)
}

/// Asks for a text that is not shown while the user types it.
pub(crate) fn ask_secret(question: &str) -> Result<String, Failure> {
    note(question);
    Term::stderr().read_secure_line().map(|line| line.trim().to_owned()).map_err(|_| no_answer())
}

/// Reads a line; `None` at the end of the input.
fn read_line() -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let bytes = io::stdin().lock().read_line(&mut line).map_err(|_| no_answer())?;
    Ok((bytes > 0).then(|| line.trim().to_owned()))
}

fn no_answer() -> Failure {
    Failure::new(FailureKind::Interrupted, "the question was not answered")
}
