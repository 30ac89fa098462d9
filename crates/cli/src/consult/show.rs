//! What a consultation came to: as it is read, as one object, and as a folder of files.

use std::path::Path;

use assize_config::{Environment, REHEARSAL_LABEL};
use assize_consult::{Placed, Report, short};
use assize_service::files;
use assize_types::text::{one_line, shorten};
use assize_types::{Failure, FailureKind};
use serde_json::Value;

use crate::terminal::{self, BOLD, DIM, WARN, paint};

/// Refuses a folder in which something would be in the way, before anything is spent.
pub(crate) fn check_empty(folder: &Path, environment: &Environment) -> Result<(), Failure> {
    files::check_folder(folder, environment)?;
    let is_empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        return Ok(());
    }
    let message = format!("there is something in `{}` already", folder.display());
    Err(Failure::new(FailureKind::Usage, message).hint("name a new folder, or an empty one"))
}

/// What it came to, as it is read.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if report.spent.rehearsal {
        lines.push(format!("[{REHEARSAL_LABEL}]"));
    }
    lines.push(paint(
        BOLD,
        terminal::harmless(&format!("Recommended to {}", report.company.called())),
    ));
    for placed in report.recommended_moves.iter().chain(&report.other_moves) {
        if placed.rank == report.recommended_moves.len() + 1 {
            lines.push(String::new());
        }
        let flags: Vec<&str> =
            report.flags_of(&placed.move_id).map(|flag| short(flag.kind)).collect();
        let flags = match flags.is_empty() {
            true => String::new(),
            false => paint(WARN, format!("  [{}]", flags.join(", "))),
        };
        let before =
            placed.blind_score.map(|blind| format!(" (before: {blind})")).unwrap_or_default();
        let line = format!(
            "{:>2}. {:<4} {:>3} of {}{before}  {}",
            placed.rank, placed.move_id, placed.total_score, placed.out_of, placed.title
        );
        lines.push(format!("{}{flags}", terminal::harmless(&line)));
        if placed.rank <= report.recommended_moves.len() {
            lines.extend(reasons(report, placed));
        }
    }
    let common: Vec<String> = report
        .common_flags()
        .map(|flag| terminal::harmless(&format!("{}: {}", short(flag.kind), flag.message)))
        .collect();
    if !common.is_empty() {
        lines.push(String::new());
        lines.extend(common.into_iter().map(|flag| paint(WARN, flag)));
    }
    lines
}

/// Why a move is recommended, and what speaks against it, in three lines.
fn reasons(report: &Report, placed: &Placed) -> Vec<String> {
    let line = |head: &str, words: &str| {
        let words = shorten(&one_line(words), 150);
        paint(DIM, terminal::harmless(&format!("      {head}{words}")))
    };
    let suggestion = report.move_suggestions.iter().find(|one| one.move_id == placed.move_id);
    let verdict = report.policy_scores.iter().find(|one| one.move_id == placed.move_id);
    let mut lines: Vec<String> =
        suggestion.map(|one| line("", &one.proposed.thesis)).into_iter().collect();
    let scores = verdict.into_iter().flat_map(|verdict| &verdict.scores_by_agent);
    if let Some((id, score)) = scores.clone().max_by_key(|(_, score)| score.card.total()) {
        lines.push(line(&format!("reason, {id}: "), &score.card.reasoning));
    }
    let doubts = scores.filter(|(_, score)| !score.card.unanswered.trim().is_empty());
    if let Some((id, score)) = doubts.min_by_key(|(_, score)| score.card.total()) {
        lines.push(line(&format!("not answered, {id}: "), &score.card.unanswered));
    }
    lines
}

/// Writes everything into a folder; gives how many files.
pub(crate) fn write(
    folder: &Path,
    report: &Report,
    told: &Value,
    environment: &Environment,
) -> Result<usize, Failure> {
    let taken = files::keep(assize_consult::documents(report, told).into(), folder, environment)?;
    if taken.in_the_way.is_empty() {
        return Ok(taken.files.len());
    }
    let message = format!(
        "not written, as something of that name is in `{}` already: {}",
        folder.display(),
        assize_types::text::shorten(&taken.in_the_way.join(", "), 200)
    );
    Err(Failure::new(FailureKind::Environment, message).hint("name another folder"))
}
