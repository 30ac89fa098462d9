//! Formats drafts and decisions for the terminal. Their text may come from a model, so control codes are replaced.

use std::io::IsTerminal;

use assize_draft::{Reason, ReasonEffect, VerifyResult};
use assize_types::text::{is_invisible, is_terminal_control, shorten};

use crate::terminal::{self, BAD, BOLD, DIM, GOOD, NUMBER, WARN, paint, replace_control_chars};

/// Formats the lines of a unified diff with colours.
pub(crate) fn diff(unified: &str) -> Vec<String> {
    let line = |line: &str| {
        let safe = replace_control_chars(&visible(line));
        match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => paint(BOLD, safe),
            [b'+', ..] => paint(GOOD, safe),
            [b'-', ..] => paint(BAD, safe),
            [b'@', b'@', ..] => paint(NUMBER, safe),
            [b'\\', ..] => paint(DIM, safe),
            _ => safe,
        }
    };
    unified.lines().map(line).collect()
}

/// Replaces the invisible characters of a line with their code points, such as `<U+200B>`.
fn visible(line: &str) -> String {
    let named = |c: char| match is_invisible(c) || is_terminal_control(c) && c != '\t' {
        true => format!("<U+{:04X}>", c as u32),
        false => c.to_string(),
    };
    line.chars().map(named).collect()
}

/// Formats the reasons of a decision. Below each reason is advice on what to do about it.
pub(crate) fn reasons(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().flat_map(reason).collect()
}

fn reason(reason: &Reason) -> Vec<String> {
    let (style, word) = match reason.effect {
        ReasonEffect::Reject => (BAD, "reject"),
        ReasonEffect::Escalate => (WARN, "escalate"),
    };
    let place = match reason.line {
        Some(line) => format!("{}:{line}", reason.file),
        None => reason.file.clone(),
    };
    let mut message = reason.message.lines();
    let first = message.next().unwrap_or_default();
    let rule = paint(DIM, format!("[{}]", replace_control_chars(&reason.rule)));
    let words = replace_control_chars(&format!("{place}: {first}"));
    let mut lines = vec![format!("  {} {words} {rule}", paint(style, word))];
    lines.extend(message.map(|line| format!("      {}", replace_control_chars(line))));
    if !reason.what_to_do.is_empty() {
        lines.push(format!("      {}", paint(DIM, replace_control_chars(&reason.what_to_do))));
    }
    lines
}

/// Formats the result of the command that verified a submission (`--verify`), with the last 20 lines of its output.
pub(crate) fn verified(verified: &VerifyResult) -> Vec<String> {
    let (style, word) = if verified.passed { (GOOD, "passed") } else { (BAD, "failed") };
    let mut lines = vec![format!(
        "  {} {}",
        paint(style, word),
        replace_control_chars(&format!(
            "`{}`: {} in {} s, in {}",
            verified.command, verified.outcome, verified.seconds, verified.isolation
        ))
    )];
    if !verified.evidence.is_empty() {
        lines.push(format!("      {}", verified.evidence));
    }
    let output: Vec<&str> = verified.output.lines().collect();
    let end = output.iter().skip(output.len().saturating_sub(20));
    lines.extend(end.map(|line| paint(DIM, format!("      {}", replace_control_chars(line)))));
    lines
}

/// Formats the time from `at` to `now`, both in milliseconds, in the largest unit that fits.
pub(crate) fn ago(at: u64, now: u64) -> String {
    let seconds = now.saturating_sub(at) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Lays out rows in columns. On a terminal, lines are cut to its width.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let mut lines = terminal::table(&[std::slice::from_ref(&heads), rows].concat());
    // Lines that are written to a file or pipe are not cut.
    if std::io::stdout().is_terminal() {
        lines[1..].iter_mut().for_each(|line| *line = shorten(line, terminal::columns()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_line_shows_invisible_characters_as_code_points() {
        let shown = visible("+x\u{200b}\t= \u{202e}1\u{1b}[0m");
        assert_eq!(shown, "+x<U+200B>\t= <U+202E>1<U+001B>[0m");
    }

    #[test]
    fn diffs_and_reasons_contain_no_terminal_control_codes() {
        let shown = diff("--- a/x\n+++ b/x\n+evil\u{1b}[2J\n").join("\n");
        assert!(!shown.contains("\u{1b}[2J"), "{shown:?}");
        let reason = Reason {
            effect: ReasonEffect::Reject,
            rule: "x".into(),
            file: "a\u{1b}[2Jb".into(),
            line: Some(3),
            message: "m\u{7}".into(),
            what_to_do: "t\u{1b}".into(),
        };
        let shown = reasons(&[reason]).join("\n");
        assert!(!shown.contains("\u{1b}[2J") && !shown.contains('\u{7}'), "{shown:?}");
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = vec![
            vec!["1".into(), "é".into(), "x".into()],
            vec!["22".into(), "bb".into(), "y".into()],
        ];
        let lines = table(&["A", "B", "C"], &rows);
        assert_eq!(lines[1..], ["1   é   x", "22  bb  y"]);
    }
}
