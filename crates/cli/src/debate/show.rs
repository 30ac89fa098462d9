//! Formats the verdict of a debate and its transcripts for the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use assize_config::REHEARSAL_LABEL;
use assize_consult::{ConversationEntry, DebateVerdict, LogName, METRICS};
use assize_types::text::{counted, one_line};

/// Column headings of the metrics, short enough for a table that is 80 characters wide.
const HEADS: [&str; METRICS.len()] = ["impact", "feasibility", "return", "alignment"];

/// Formats a verdict without its transcripts: the scores of each judge by metric, and the reasons.
pub(crate) fn verdict(title: &str, verdict: &DebateVerdict) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        let _ = writeln!(text, "{}", words.trim_end());
    };
    if verdict.spent.rehearsal {
        line(format!("[{REHEARSAL_LABEL}]"));
    }
    line(format!("{title}: {} of {}", verdict.total_score, verdict.out_of));
    line(String::new());
    let heads = HEADS.map(str::to_owned);
    let widths = heads.each_ref().map(String::len);
    let row = |name: &str, cells: [String; 4], total: String| {
        let mut row = format!("{name:<30}");
        for (cell, width) in cells.iter().zip(widths) {
            let _ = write!(row, "  {cell:>width$}");
        }
        format!("{row}  {total:>5}")
    };
    line(row("", heads.clone(), "total".to_owned()));
    for (id, score) in &verdict.scores_by_agent {
        let name = format!("{id} {}", verdict.agents.get(id).map_or("", String::as_str));
        let cells = score.card.scores().map(|score| score.to_string());
        line(row(&name, cells, score.card.total().to_string()));
    }
    line(String::new());
    for (id, score) in &verdict.scores_by_agent {
        line(format!("{id}  {}", one_line(&score.card.reasoning)));
        if !score.card.unanswered.trim().is_empty() {
            line(format!("    unanswered objection: {}", one_line(&score.card.unanswered)));
        }
        if let Some(doubt) = score.caveat() {
            line(format!("    scores uncertain: {doubt}"));
        }
    }
    for (log, partial) in &verdict.partial {
        line(String::new());
        line(format!(
            "PARTIAL: the conversation {} ended after {} of {}: {}",
            log,
            partial.completed_rounds,
            counted(verdict.rounds, "round", "rounds"),
            one_line(&partial.error)
        ));
    }
    for (log, summary) in &verdict.summaries {
        let how = if summary.extracted {
            " (the summary contains only the first line of each message)"
        } else {
            ""
        };
        line(format!(
            "In the conversation {log}, rounds 2 to {} were summarized for the model{how}.",
            summary.up_to_round
        ));
    }
    text
}

/// Formats the transcripts, one conversation after the other.
pub(crate) fn transcripts(
    logs: &BTreeMap<LogName, Vec<ConversationEntry>>,
    agents: &BTreeMap<String, String>,
) -> String {
    let mut text = String::new();
    for (log, entries) in logs {
        let id = log.decision_maker_id();
        let name = agents.get(&id).map(|name| format!(" ({name})")).unwrap_or_default();
        let _ = writeln!(text, "\n=== {log}: conversation between the critic and {id}{name}");
        for entry in entries {
            let cut = if entry.cut_off { " (cut off)" } else { "" };
            let _ = writeln!(text, "\n[Round {}] {}{cut}", entry.round, entry.role);
            let _ = writeln!(text, "{}", entry.content);
        }
    }
    text
}
