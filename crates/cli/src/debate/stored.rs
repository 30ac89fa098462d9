//! A debate in the store, as it is shown.

use assize_config::REHEARSAL_LABEL;
use assize_consult::{DebatePersonas, Verdict, conversation_logs};
use assize_run::read_result;
use assize_service::reading::is_rehearsal;
use assize_types::Failure;
use serde_json::{Value, json};

use super::show;
use crate::kind::StoredRun;
use crate::terminal::{self, out_line};

/// The result in a few words, for a list.
pub(crate) fn summary(result: &Value) -> Option<String> {
    result["total_score"].as_u64().map(|score| format!("{score} of 120"))
}

/// Adds what its JSON object has besides what every run has.
pub(crate) fn describe(stored: &StoredRun<'_>, object: &mut Value) {
    object["conversation_logs"] = json!(conversation_logs(stored.records));
}

/// Shows the result, and the transcripts if they are wanted.
pub(crate) fn show(stored: &StoredRun<'_>, transcripts: bool) -> Result<(), Failure> {
    let (run, logs) = (stored.run, conversation_logs(stored.records));
    if let Some(mut whole) = run.result.clone() {
        whole["conversation_logs"] = json!(logs);
        let verdict: Verdict = read_result(whole)?;
        out_line("")?;
        terminal::out_untrusted(&show::verdict(&run.title, &verdict))?;
    } else if is_rehearsal(run) {
        out_line(&format!("[{REHEARSAL_LABEL}]"))?;
    }
    if transcripts {
        let said = show::transcripts(&logs, &DebatePersonas::default().agents());
        terminal::out_untrusted(&said)?;
    }
    Ok(())
}
