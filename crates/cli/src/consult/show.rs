//! Formats the result of a consultation for the terminal, and writes its documents to a folder.

use std::path::Path;

use assize_config::{Environment, REHEARSAL_LABEL};
use assize_consult::{ConsultReport, RankedMove, flag_label};
use assize_service::files;
use assize_types::text::{one_line, shorten};
use assize_types::{Failure, FailureKind};
use serde_json::Value;

use crate::terminal::{self, BOLD, DIM, WARN, paint};

/// Fails if the output folder is not empty. Must be called before the first model call.
pub(crate) fn check_empty(folder: &Path, environment: &Environment) -> Result<(), Failure> {
    files::check_folder(folder, environment)?;
    let is_empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        return Ok(());
    }
    let message = format!("the folder `{}` is not empty", folder.display());
    Err(Failure::new(FailureKind::Usage, message).hint("choose a new or an empty folder"))
}

/// Formats the result of a consultation: the business moves by rank, with scores, reasons and warnings (flags).
pub(crate) fn lines(report: &ConsultReport) -> Vec<String> {
    let mut lines = Vec::new();
    if report.spent.rehearsal {
        lines.push(format!("[{REHEARSAL_LABEL}]"));
    }
    lines.push(paint(
        BOLD,
        terminal::replace_control_chars(&format!(
            "Recommended to {}",
            report.company.display_name()
        )),
    ));
    for placed in report.recommended_moves.iter().chain(&report.other_moves) {
        if placed.rank == report.recommended_moves.len() + 1 {
            lines.push(String::new());
        }
        let flags: Vec<&str> =
            report.flags_of(&placed.move_id).map(|flag| flag_label(flag.kind)).collect();
        let flags = match flags.is_empty() {
            true => String::new(),
            false => paint(WARN, format!("  [{}]", flags.join(", "))),
        };
        let before = placed
            .blind_score
            .map(|blind| format!(" (before the debate: {blind})"))
            .unwrap_or_default();
        let line = format!(
            "{:>2}. {:<4} {:>3} of {}{before}  {}",
            placed.rank, placed.move_id, placed.total_score, placed.out_of, placed.title
        );
        lines.push(format!("{}{flags}", terminal::replace_control_chars(&line)));
        if placed.rank <= report.recommended_moves.len() {
            lines.extend(reasons(report, placed));
        }
    }
    let common: Vec<String> = report
        .common_flags()
        .map(|flag| {
            terminal::replace_control_chars(&format!("{}: {}", flag_label(flag.kind), flag.message))
        })
        .collect();
    if !common.is_empty() {
        lines.push(String::new());
        lines.extend(common.into_iter().map(|flag| paint(WARN, flag)));
    }
    lines
}

/// Formats three texts about a recommended business move: its thesis, the reason of the judge who gave it the highest
/// score, and the unanswered objection of the judge who gave it the lowest score.
fn reasons(report: &ConsultReport, placed: &RankedMove) -> Vec<String> {
    let line = |head: &str, words: &str| {
        let words = shorten(&one_line(words), 150);
        paint(DIM, terminal::replace_control_chars(&format!("      {head}{words}")))
    };
    let suggestion = report.move_suggestions.iter().find(|one| one.move_id == placed.move_id);
    let verdict = report.policy_scores.iter().find(|one| one.move_id == placed.move_id);
    let mut lines: Vec<String> =
        suggestion.map(|one| line("", &one.proposed.thesis)).into_iter().collect();
    let scores = verdict.into_iter().flat_map(|verdict| &verdict.scores_by_agent);
    if let Some((id, score)) = scores.clone().max_by_key(|(_, score)| score.card.total()) {
        lines.push(line(&format!("reason of {id}: "), &score.card.reasoning));
    }
    let objections = scores.filter(|(_, score)| !score.card.unanswered.trim().is_empty());
    if let Some((id, score)) = objections.min_by_key(|(_, score)| score.card.total()) {
        lines.push(line(&format!("unanswered objection ({id}): "), &score.card.unanswered));
    }
    lines
}

/// Writes all documents of a consultation to a folder; returns the number of files.
pub(crate) fn write(
    folder: &Path,
    report: &ConsultReport,
    updates: &Value,
    environment: &Environment,
) -> Result<usize, Failure> {
    let taken = files::write_collected(
        assize_consult::document_files(report, updates).into(),
        folder,
        environment,
    )?;
    if taken.in_the_way.is_empty() {
        return Ok(taken.files.len());
    }
    let message = format!(
        "some documents were not written, because files of the same name exist in `{}`: {}",
        folder.display(),
        assize_types::text::shorten(&taken.in_the_way.join(", "), 200)
    );
    Err(Failure::new(FailureKind::Environment, message)
        .hint("name another folder with `--out FOLDER`"))
}
