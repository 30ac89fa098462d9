//! Prints a stored run of `assize work`, and lists or copies its proposed patch.

use std::path::Path;

use assize_config::REHEARSAL_LABEL;
use assize_draft::work::{PATCH, WorkReport, transcript};
use assize_run::read_result;
use assize_service::files;
use assize_service::run_json::is_rehearsal;
use assize_types::Failure;
use serde_json::{Value, json};

use super::show;
use crate::drafts::show::diff;
use crate::kind::StoredRun;
use crate::terminal::{self, note, out_line};
use crate::{hints, runs};

/// Adds the proposed patch to the JSON object of the run.
pub(crate) async fn describe(stored: &StoredRun<'_>, object: &mut Value) -> Result<(), Failure> {
    if let Some(patch) = proposed_patch(stored).await? {
        object["proposed_patch"] = json!(String::from_utf8_lossy(&patch));
    }
    Ok(())
}

/// Prints the result of a stored run, and its transcripts if requested.
pub(crate) async fn show(stored: &StoredRun<'_>, transcripts: bool) -> Result<(), Failure> {
    let run = stored.run;
    if is_rehearsal(run) {
        out_line(&format!("[{REHEARSAL_LABEL}]"))?;
    }
    if let Some(value) = &run.result {
        out_line("")?;
        let worked: WorkReport = read_result(value.clone())?;
        show::report_lines(&worked).iter().try_for_each(|line| out_line(line))?;
    }
    if transcripts {
        terminal::out_untrusted(&transcript(stored.records))?;
    } else {
        note(&hints::transcripts("details of each step", &run.id));
    }
    let patch = proposed_patch(stored).await?.unwrap_or_default();
    diff(&String::from_utf8_lossy(&patch)).iter().try_for_each(|line| out_line(line))
}

/// Lists the proposed patch as the only file of the run, or copies it to a folder.
pub(crate) async fn files(
    stored: &StoredRun<'_>,
    out: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    if let Some(folder) = out {
        files::check_folder(folder, stored.environment)?;
    }
    let Some(bytes) = proposed_patch(stored).await? else {
        note("the run has no proposed patch");
        return if json {
            runs::list_files(stored.run, Vec::new(), json!({}), true)
        } else {
            Ok(())
        };
    };
    let listed = vec![(PATCH.to_owned(), bytes.len() as u64)];
    if let Some(folder) = out {
        let taken = files::write_collected(
            vec![(PATCH.to_owned(), bytes)].into(),
            folder,
            stored.environment,
        )?;
        if !taken.in_the_way.is_empty() {
            return Err(runs::exists(&folder.join(PATCH)));
        }
    }
    runs::list_files(stored.run, listed, json!({}), json)
}

/// Returns the patch that a model without tools proposed; `None` if the run has no proposed patch.
async fn proposed_patch(stored: &StoredRun<'_>) -> Result<Option<Vec<u8>>, Failure> {
    let artifacts = stored.store.artifacts(&stored.run.id).await?;
    match artifacts.iter().find(|artifact| artifact.name == PATCH) {
        Some(artifact) => Ok(Some(stored.store.artifact(artifact.id).await?)),
        None => Ok(None),
    }
}
