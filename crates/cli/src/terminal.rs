//! The only place that prints: data to standard output, everything else to standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use assize_types::text::is_obeyed;
use assize_types::{Failure, FailureKind};
use console::{Term, truncate_str};
use serde_json::Value;

pub(crate) use assize_types::text::{grouped, harmless};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const NUMBER: Style = AnsiColor::Cyan.on_default();

/// Text in a style, for terminals that have it; elsewhere the style is taken out again.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Whether standard output was closed when the process started.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the command has an outcome to report, besides what it prints.
static HAS_OUTCOME: AtomicBool = AtomicBool::new(false);

/// Keeps the exit code of the command's outcome when the reader of its output goes away.
pub(crate) fn keep_outcome() {
    HAS_OUTCOME.store(true, Ordering::Relaxed);
}

/// Looks at standard output before `main`: the runtime of Rust then opens `/dev/null` in place of a closed one, where all
/// output would be lost without an error.
#[ctor::ctor(unsafe)]
fn look_at_standard_output() {
    CLOSED.store(rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err(), Ordering::Relaxed);
}

/// Fails if standard output was closed when the process started.
pub(crate) fn check_open() -> Result<(), Failure> {
    match CLOSED.load(Ordering::Relaxed) {
        false => Ok(()),
        true => {
            let message = "cannot write to standard output: it is closed";
            Err(Failure::new(FailureKind::Environment, message)
                .hint("write it to a file, or discard it with `> /dev/null`"))
        }
    }
}

/// Writes data.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    check_open()?;
    let mut stdout = anstream::stdout();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
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
    check_open()?;
    written(try_out_untrusted(text))
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
    let drawn = drawn();
    let _ = erase(drawn.len());
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{text}");
    let _ = drawn.iter().try_for_each(|line| writeln!(stderr, "{line}"));
}

/// The lines at the bottom of the terminal that are drawn over again.
static DRAWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn drawn() -> MutexGuard<'static, Vec<String>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether lines can be drawn over: standard error is a terminal that knows how.
pub(crate) fn can_draw() -> bool {
    const ROWS: u16 = 8;
    let dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
    !dumb && Term::stderr().size_checked().is_some_and(|(rows, _)| rows >= ROWS)
}

/// Draws lines in place of those drawn before; none to take them away. Other notes go above them.
pub(crate) fn draw(lines: &[String]) {
    let mut drawn = drawn();
    // A line that wraps would be two, and one of them would stay.
    let cut = |line: &String| truncate_str(line, columns(), "").into_owned();
    let lines: Vec<String> = lines.iter().map(cut).collect();
    if *drawn == lines {
        return;
    }
    let _ = erase(drawn.len());
    *drawn = lines;
    let mut stderr = anstream::stderr().lock();
    let _ = drawn.iter().try_for_each(|line| writeln!(stderr, "{line}"));
}

/// How many columns of the terminal can be used without wrapping.
pub(crate) fn columns() -> usize {
    Term::stderr().size_checked().map_or(80, |(_, columns)| usize::from(columns)).saturating_sub(1)
}

/// Takes lines away again. These codes are no colours: they go past what takes colours out.
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
        let line = harmless(cells.collect::<Vec<_>>().join("  ").trim_end());
        if index == 0 { paint(BOLD, line) } else { line }
    });
    lines.collect()
}

pub(crate) fn out_table(rows: &[impl AsRef<[String]>]) -> Result<(), Failure> {
    table(rows).iter().try_for_each(|line| out_line(line))
}

pub(crate) fn warn(text: &str) {
    note(&format!("{} {}", paint(WARN.bold(), "warning:"), harmless(text)));
}

pub(crate) fn fail(failure: &Failure) {
    note(&format!("{} {}", paint(BAD.bold(), "error:"), harmless(&failure.render())));
}

/// A reader that has seen enough closes the pipe, which is no error: a command that only prints ends, and one with an
/// outcome goes on to its exit code.
pub(crate) fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            if !HAS_OUTCOME.load(Ordering::Relaxed) {
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

/// A moment as people write it: `2026-11-15 04:29`.
pub(crate) fn when(milliseconds: u64) -> String {
    // The library writes years of four digits.
    const LAST: u64 = 253_402_300_799_000;
    let moment = UNIX_EPOCH + Duration::from_millis(milliseconds.min(LAST));
    humantime::format_rfc3339_seconds(moment).to_string().replace('T', " ")[..16].to_owned()
}
