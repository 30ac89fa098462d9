//! The only place that prints: data to standard output, everything else to standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use crate::failure::{Failure, FailureKind};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();

/// Text in a style, for terminals that have it; elsewhere the style is taken out again.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Writes data.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(write_failed)
}

pub(crate) fn out_line(text: &str) -> Result<(), Failure> {
    out(&format!("{text}\n"))
}

/// Writes data that is not ours (a model's words) to a terminal without letting it move the cursor,
/// set the title or pretend to be us; to anything else as it is.
pub(crate) fn try_out_untrusted(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    if stdout.is_terminal() {
        stdout.write_all(harmless(text).as_bytes())?;
    } else {
        stdout.write_all(text.as_bytes())?;
    }
    stdout.flush()
}

pub(crate) fn out_untrusted(text: &str) -> Result<(), Failure> {
    try_out_untrusted(text).map_err(write_failed)
}

pub(crate) fn out_json(value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::from_error(FailureKind::Internal, &error))?;
    // JSON leaves some of them as they are. They can only be inside texts, where an escape will do.
    let escaped = text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if is_obeyed(c) {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
        safe
    });
    out_line(&escaped)
}

/// Writes a line about what is going on. That nobody reads it is no failure.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

pub(crate) fn warn(text: &str) {
    note(&format!("{} {}", paint(WARN.bold(), "warning:"), harmless(text)));
}

pub(crate) fn fail(failure: &Failure) {
    note(&format!("{} {}", paint(BAD.bold(), "error:"), harmless(&failure.render())));
}

/// Text without the characters that a terminal would obey: controls, and marks that turn the
/// direction of what follows.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// A reader that has seen enough closes the pipe; that is its right.
pub(crate) fn write_failed(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    Failure::new(FailureKind::Environment, format!("cannot write to standard output: {error}"))
}

/// A number with thin groups of three: 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_words_cannot_drive_the_terminal() {
        assert_eq!(
            harmless("a\u{1b}[2Jb\u{7}\r\nc\td\u{9b}1m"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}\nc\td\u{fffd}1m"
        );
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
