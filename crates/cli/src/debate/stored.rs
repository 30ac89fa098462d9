//! Prints a stored debate.

use assize_config::REHEARSAL_LABEL;
use assize_consult::{DebatePersonas, DebateVerdict, conversation_logs};
use assize_run::read_result;
use assize_service::run_json::is_rehearsal;
use assize_types::Failure;
use serde_json::{Value, json};

use super::show;
use crate::kind::StoredRun;
use crate::terminal::{self, out_line};

/// Formats the result of a debate as a short text for the list of runs.
pub(crate) fn summary(result: &Value) -> Option<String> {
    result["total_score"].as_u64().map(|score| format!("{score} of 120"))
}

/// Adds the transcripts to the JSON object of the run.
pub(crate) fn describe(stored: &StoredRun<'_>, object: &mut Value) {
    object["conversation_logs"] = json!(conversation_logs(stored.records));
}

/// Prints the result of a stored debate, and its transcripts if requested.
pub(crate) fn show(stored: &StoredRun<'_>, transcripts: bool) -> Result<(), Failure> {
    let (run, logs) = (stored.run, conversation_logs(stored.records));
    if let Some(mut whole) = run.result.clone() {
        whole["conversation_logs"] = json!(logs);
        let verdict: DebateVerdict = read_result(whole)?;
        out_line("")?;
        terminal::out_untrusted(&show::verdict(&run.title, &verdict))?;
    } else if is_rehearsal(run) {
        out_line(&format!("[{REHEARSAL_LABEL}]"))?;
    }
    if transcripts {
        let text = show::transcripts(&logs, &DebatePersonas::default().agents());
        terminal::out_untrusted(&text)?;
    }
    Ok(())
}
