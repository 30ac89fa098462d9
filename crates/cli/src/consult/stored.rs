//! Prints a stored consultation; lists and copies its documents.

use std::path::Path;

use assize_consult::{ConsultReport, conversations_json, document_files, stored_report};
use assize_service::run_json;
use assize_types::{Failure, FailureKind};
use serde_json::{Value, json};

use super::show;
use crate::debate::show::transcripts as conversations;
use crate::kind::StoredRun;
use crate::terminal::{self, DIM, note, out_line, paint};
use crate::{hints, runs};

/// Formats the result of a consultation as a short text for the list of runs.
pub(crate) fn summary(result: &Value) -> Option<String> {
    let moves = result["recommended_moves"].as_array()?.iter();
    let ids: Vec<&str> = moves.filter_map(|one| one["move_id"].as_str()).collect();
    Some(format!("recommended: {}", ids.join(" ")))
}

/// Adds the transcripts of the debates to the JSON object of the run.
pub(crate) fn describe(stored: &StoredRun<'_>, object: &mut Value) -> Result<(), Failure> {
    let report = stored_report(stored.run, stored.records)?;
    object["conversation_logs"] = report.map_or(Value::Null, |report| conversations_json(&report));
    Ok(())
}

/// Prints the result of a stored consultation, and its transcripts if requested.
pub(crate) fn show(stored: &StoredRun<'_>, transcripts: bool) -> Result<(), Failure> {
    let Some(report) = stored_report(stored.run, stored.records)? else { return Ok(()) };
    out_line("")?;
    show::lines(&report).iter().try_for_each(|line| out_line(line))?;
    if transcripts {
        return show_transcripts(&report);
    }
    note(&hints::transcripts("transcripts", &stored.run.id));
    let files = hints::runs(&format!("files {} --out FOLDER", stored.run.id));
    note(&paint(DIM, format!("copy the report and all documents with {files}")));
    Ok(())
}

/// Lists the documents of a stored consultation. If `out` is given, also copies the documents to this folder.
pub(crate) async fn files(
    stored: &StoredRun<'_>,
    out: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    let StoredRun { run, records, store, environment } = stored;
    let Some(report) = stored_report(run, records)? else {
        let message = format!("the consultation `{}` has no report yet", run.id);
        let hint = hints::resume(&run.id);
        return Err(Failure::new(FailureKind::Usage, message).hint(hint));
    };
    let updates = run_json::status_updates(*store, run).await?;
    if let Some(folder) = out {
        show::check_empty(folder, environment)?;
        show::write(folder, &report, &updates, environment)?;
    }
    let files = document_files(&report, &updates).into_iter();
    let files = files.map(|(name, bytes)| (name, bytes.len() as u64)).collect();
    runs::list_files(run, files, json!({}), json)
}

fn show_transcripts(report: &ConsultReport) -> Result<(), Failure> {
    for placed in report.recommended_moves.iter().chain(&report.other_moves) {
        let verdict = report.policy_scores.iter().find(|one| one.move_id == placed.move_id);
        let Some(verdict) = verdict else { continue };
        terminal::out_untrusted(&format!("\n=== {} {}\n", placed.move_id, placed.title))?;
        let text = conversations(&verdict.conversation_logs, &verdict.agents);
        terminal::out_untrusted(&text)?;
    }
    Ok(())
}
