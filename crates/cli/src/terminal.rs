//! The only module that prints. Results go to standard output, all other messages to standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use assize_types::text::is_terminal_control;
use assize_types::{Failure, FailureKind};
use console::{Term, truncate_str};
use serde_json::Value;

pub(crate) use assize_types::text::{grouped, replace_control_chars};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const NUMBER: Style = AnsiColor::Cyan.on_default();

/// Adds a style to a text. `anstream` removes the style if the output is not a terminal.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Whether standard output was closed when the process started.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the command reports its result also by its exit code, and not only by its output.
static REPORTS_BY_EXIT_CODE: AtomicBool = AtomicBool::new(false);

/// Makes the command exit with the code of its result even if the reader of its output closes the pipe.
pub(crate) fn keep_exit_code() {
    REPORTS_BY_EXIT_CODE.store(true, Ordering::Relaxed);
}

/// Checks whether standard output is open, before the Rust runtime starts. The runtime would replace a closed standard
/// output with `/dev/null`, and all output would be lost without an error.
#[ctor::ctor(unsafe)]
fn note_closed_standard_output() {
    STDOUT_WAS_CLOSED
        .store(rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err(), Ordering::Relaxed);
}

/// Fails if standard output was closed when the process started.
pub(crate) fn check_open() -> Result<(), Failure> {
    match STDOUT_WAS_CLOSED.load(Ordering::Relaxed) {
        false => Ok(()),
        true => {
            let message = "cannot write to standard output: it is closed";
            Err(Failure::new(FailureKind::Environment, message)
                .hint("redirect the output to a file, or discard it with `> /dev/null`"))
        }
    }
}

/// Writes text to standard output.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    check_open()?;
    let mut stdout = anstream::stdout();
    check_write(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Writes a line to standard output.
pub(crate) fn out_line(text: &str) -> Result<(), Failure> {
    out(&format!("{text}\n"))
}

/// Writes untrusted text, such as a model's answer, to standard output. On a terminal, control codes are replaced, so
/// that the text cannot move the cursor, set the title or imitate messages of assize.
pub(crate) fn try_out_untrusted(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    if stdout.is_terminal() {
        stdout.write_all(replace_control_chars(text).as_bytes())?;
    } else {
        stdout.write_all(text.as_bytes())?;
    }
    stdout.flush()
}

/// Like [`try_out_untrusted`], but converts errors to failures.
pub(crate) fn out_untrusted(text: &str) -> Result<(), Failure> {
    check_open()?;
    check_write(try_out_untrusted(text))
}

pub(crate) fn out_json(value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::from_error(FailureKind::Internal, &error))?;
    // `serde_json` does not escape all control characters. They occur only in strings, where an escape is equivalent.
    let escaped = text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if is_terminal_control(c) {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
        safe
    });
    out_line(&escaped)
}

/// Writes a line to standard error, above the lines that are redrawn in place. Write errors are ignored.
pub(crate) fn note(text: &str) {
    let drawn = drawn();
    let _ = erase(drawn.len());
    write_to_stderr([text].into_iter().chain(drawn.iter().map(String::as_str)));
}

/// Writes all lines to standard error in one write, so that no other output appears between them.
fn write_to_stderr<'a>(lines: impl Iterator<Item = &'a str>) {
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let is_plain = anstream::AutoStream::choice(&io::stderr()) == anstream::ColorChoice::Never;
    let text = if is_plain { anstream::adapter::strip_str(&text).to_string() } else { text };
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Lines at the bottom of the terminal that are redrawn in place.
static DRAWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn drawn() -> MutexGuard<'static, Vec<String>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether lines can be redrawn in place: standard error must be a terminal that supports redrawing.
pub(crate) fn can_draw() -> bool {
    /// Minimum height of a terminal on which lines are redrawn in place, in rows.
    const ROWS: u16 = 8;
    let dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
    !dumb && Term::stderr().size_checked().is_some_and(|(rows, _)| rows >= ROWS)
}

/// Replaces the lines at the bottom of the terminal that are redrawn in place. An empty slice erases them.
pub(crate) fn draw(lines: &[String]) {
    let mut drawn = drawn();
    // Lines are cut, because a wrapped line would use two rows, and one of them would not be erased.
    let cut = |line: &String| truncate_str(line, columns(), "").into_owned();
    let lines: Vec<String> = lines.iter().map(cut).collect();
    if *drawn == lines {
        return;
    }
    let _ = erase(drawn.len());
    *drawn = lines;
    write_to_stderr(drawn.iter().map(String::as_str));
}

/// Number of columns of the terminal that a line can use without wrapping.
pub(crate) fn columns() -> usize {
    Term::stderr().size_checked().map_or(80, |(_, columns)| usize::from(columns)).saturating_sub(1)
}

/// Erases the last `lines` lines of the terminal. Does not write through `anstream`, which would remove the control
/// codes.
fn erase(lines: usize) -> io::Result<()> {
    if lines > 0 { write!(io::stderr(), "\x1b[{lines}A\r\x1b[J") } else { Ok(()) }
}

/// Lays rows out in columns; the first row is the heading.
pub(crate) fn table(rows: &[impl AsRef<[String]>]) -> Vec<String> {
    let rows: Vec<&[String]> = rows.iter().map(AsRef::as_ref).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> =
        (0..rows.first().map_or(0, |row| row.len())).filter_map(width).collect();
    let lines = rows.iter().enumerate().map(|(index, row)| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        let line = replace_control_chars(cells.collect::<Vec<_>>().join("  ").trim_end());
        if index == 0 { paint(BOLD, line) } else { line }
    });
    lines.collect()
}

pub(crate) fn out_table(rows: &[impl AsRef<[String]>]) -> Result<(), Failure> {
    table(rows).iter().try_for_each(|line| out_line(line))
}

pub(crate) fn warn(text: &str) {
    note(&format!("{} {}", paint(WARN.bold(), "warning:"), replace_control_chars(text)));
}

pub(crate) fn fail(failure: &Failure) {
    note(&format!("{} {}", paint(BAD.bold(), "error:"), replace_control_chars(&failure.render())));
}

/// Converts the result of a write to standard output. A closed pipe is not an error: a command that also reports its
/// result by its exit code continues, and any other command exits with code 0.
pub(crate) fn check_write(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            if !REPORTS_BY_EXIT_CODE.load(Ordering::Relaxed) {
                std::process::exit(0);
            }
            Ok(())
        }
        result => result.map_err(write_failed),
    }
}

pub(crate) fn write_failed(error: io::Error) -> Failure {
    Failure::new(FailureKind::Environment, format!("cannot write to standard output: {error}"))
}

/// Formats a time as `2026-11-15 04:29` (UTC).
pub(crate) fn when(milliseconds: u64) -> String {
    // The end of the year 9999, in milliseconds. `humantime` formats no later time.
    const LAST: u64 = 253_402_300_799_000;
    let moment = UNIX_EPOCH + Duration::from_millis(milliseconds.min(LAST));
    humantime::format_rfc3339_seconds(moment).to_string().replace('T', " ")[..16].to_owned()
}
