//! Prints a stored run of `assize run`, and lists or copies the files that its program created.

use std::fmt::Write as _;
use std::path::Path;

use assize_code::{Attempt, history, output_files};
use assize_config::REHEARSAL_LABEL;
use assize_service::files::{self, CopiedOut};
use assize_service::run_json::is_rehearsal;
use assize_types::text::counted;
use assize_types::{Failure, FailureKind};
use serde_json::{Value, json};

use super::show;
use crate::kind::StoredRun;
use crate::terminal::{self, note, out_line};
use crate::{hints, runs};

/// Formats a short result for the list of runs.
pub(crate) fn summary(result: &Value) -> Option<String> {
    let how = if result["success"] == true { "succeeded" } else { "failed" };
    Some(match result["attempts"].as_u64().unwrap_or_default() {
        1 => format!("{how} at the first attempt"),
        attempts => format!("{how} after {attempts} attempts"),
    })
}

/// Adds the attempts to the JSON object of the run if the run has no result yet.
pub(crate) fn describe(stored: &StoredRun<'_>, object: &mut Value) {
    if stored.run.result.is_none() {
        object["history"] = json!(history(stored.records));
    }
}

/// Prints the result of a stored run, and its transcripts if requested.
pub(crate) fn show(stored: &StoredRun<'_>, transcripts: bool) -> Result<(), Failure> {
    let (run, history) = (stored.run, history(stored.records));
    if is_rehearsal(run) {
        out_line(&format!("[{REHEARSAL_LABEL}]"))?;
    }
    out_line("")?;
    show::attempts(&history).iter().try_for_each(|line| out_line(line))?;
    if transcripts {
        return history
            .iter()
            .try_for_each(|attempt| terminal::out_untrusted(&transcript(attempt)));
    }
    let last = history.last().filter(|last| last.succeeded());
    if let Some(execution) = last.and_then(|last| last.execution.as_ref()) {
        out_line("")?;
        terminal::out_untrusted(&execution.stdout)?;
    }
    let files = output_files(&history);
    if !files.is_empty() {
        note(&show::created_files_line(&files, &run.id));
    }
    if !history.is_empty() {
        note(&hints::transcripts("code and output", &run.id));
    }
    Ok(())
}

/// Lists the files that the program of a run created, or copies them to a folder.
pub(crate) async fn files(
    stored: &StoredRun<'_>,
    out: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    if let Some(folder) = out {
        files::check_folder(folder, stored.environment)?;
    }
    let left = assize_code::output_files(&assize_code::history(stored.records));
    let taken = match out {
        Some(folder) => super::copy_files(stored.store, &left, folder, stored.environment).await?,
        None => CopiedOut::default(),
    };
    let all: Vec<(String, u64)> = left.into_iter().map(|file| (file.name, file.bytes)).collect();
    let count = all.len();
    if !json && count == 0 {
        note("no files are stored with the run");
    }
    if !json && out.is_some() {
        taken.not_copied.iter().for_each(|left| terminal::warn(left));
    }
    let shown = if json || out.is_none() { all } else { taken.files };
    runs::list_files(stored.run, shown, json!({"left": taken.not_copied}), json)?;
    match taken.in_the_way.len() {
        0 => Ok(()),
        in_the_way => {
            let files = counted(count, "file", "files");
            let message = format!(
                "cannot copy {in_the_way} of {files}: files of the same name exist in the folder"
            );
            Err(Failure::new(FailureKind::Environment, message)
                .hint("name another folder with `--out FOLDER`"))
        }
    }
}

/// Formats the code, the output and the test errors of an attempt.
fn transcript(attempt: &Attempt) -> String {
    let mut text = format!("\n=== attempt {}\n", show::number(attempt));
    match &attempt.code {
        Some(code) => text.push_str(code),
        None => {
            let _ = writeln!(text, "(no code)\n{}", attempt.reasoning);
        }
    }
    let mut part = |name: &str, words: &str| {
        if !words.trim().is_empty() {
            let _ = writeln!(text, "--- {name}\n{}", words.trim_end());
        }
    };
    let Some(execution) = &attempt.execution else { return text };
    part("output", &execution.stdout);
    part("errors", &execution.stderr);
    for failed in execution.tests.iter().flat_map(|report| &report.failed) {
        part(&format!("test {}", failed.name), &failed.error);
    }
    let broken = execution.tests.as_ref().and_then(|report| report.broken.as_deref());
    part("tests", broken.unwrap_or_default());
    text
}
