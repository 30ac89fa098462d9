//! `assize drafts`: shows and deletes open drafts, and switches the draft tools off and on.

use std::path::Path;
use std::sync::Arc;

use assize_draft::{
    DRAFTS, Diff, DraftService, DraftState, HANDOFF, OpenDraft, SubmissionStage, handoff,
};
use assize_service::Services;
use assize_types::text::counted;
use assize_types::{Failure, FailureKind};
use serde_json::json;

use super::{
    current_user, draft_service_for_changes, draft_service_to_read, read_draft_state, retention,
    show, workspace,
};
use crate::args::DraftsCommand;
use crate::questions::{EmptyLine, confirmed};
use crate::terminal::{self, note, out_json, out_line};

pub(crate) async fn run(command: DraftsCommand, mut services: Services) -> Result<(), Failure> {
    match command {
        DraftsCommand::Init { workspace: args, yes } => {
            let folder = workspace(&args, &services.environment);
            if !folder.is_dir() {
                let message = format!("there is no folder `{}`", folder.display());
                return Err(Failure::new(FailureKind::Usage, message));
            }
            init(&folder, yes)
        }
        DraftsCommand::Ls { workspace, json } => {
            let state = read_draft_state(&workspace, &services).await?;
            list(&state, json)
        }
        DraftsCommand::Show { draft, workspace, json } => {
            let service = existing(draft_service_to_read(&workspace, &services).await?)?;
            let draft = find(&service.state().await?, &draft)?;
            let bytes = service.draft(&draft.name)?;
            let text = String::from_utf8_lossy(&bytes);
            if json {
                return out_json(&json!({"draft": draft, "content": text}));
            }
            terminal::out_untrusted(&text)
        }
        DraftsCommand::Diff { draft, workspace } => {
            let service = existing(draft_service_to_read(&workspace, &services).await?)?;
            let draft = find(&service.state().await?, &draft)?;
            let base = draft
                .before
                .map(|hash| service.stored_content(hash))
                .transpose()?
                .unwrap_or_default();
            let bytes = service.draft(&draft.name)?;
            let (base, text) = (String::from_utf8_lossy(&base), String::from_utf8_lossy(&bytes));
            if base == text {
                note("the draft has no changes yet");
            }
            let unified = Diff::unified(&draft.path, &base, &text);
            show::diff(&unified).iter().try_for_each(|line| out_line(line))
        }
        DraftsCommand::Clean { workspace, all: true, yes, json, .. } => {
            let service = draft_service_for_changes(&workspace, &mut services).await?;
            empty(&service, &current_user(&services.environment), yes, json).await
        }
        DraftsCommand::Clean { workspace, older_than, json, .. } => {
            let service = draft_service_for_changes(&workspace, &mut services).await?;
            let keep = older_than.unwrap_or_else(|| retention(&services.settings));
            let cleared = service
                .sweep(&current_user(&services.environment), assize_types::unix_millis(), keep)
                .await?;
            if json {
                return out_json(&json!(cleared));
            }
            out_line(&format!(
                "deleted {} and the undo data of {} (which can no longer be undone)",
                counted(cleared.drafts, "unsubmitted draft", "unsubmitted drafts"),
                counted(cleared.submissions, "submission", "submissions")
            ))
        }
        DraftsCommand::Off { workspace } => {
            let service = draft_service_for_changes(&workspace, &mut services).await?;
            switch(&service, &current_user(&services.environment), false).await
        }
        DraftsCommand::On { workspace } => {
            let service = draft_service_for_changes(&workspace, &mut services).await?;
            switch(&service, &current_user(&services.environment), true).await
        }
    }
}

/// Deletes all drafts and rejects all waiting submissions, after the user has confirmed the deletion.
async fn empty(
    service: &Arc<DraftService>,
    by: &str,
    yes: bool,
    json: bool,
) -> Result<(), Failure> {
    let state = service.state().await?;
    let waiting = state.submissions.values();
    let waiting = waiting
        .filter(|s| matches!(s.stage, SubmissionStage::Submitted | SubmissionStage::Escalated))
        .count();
    let question = format!(
        "Delete {} in `{}` and reject {}?",
        counted(state.drafts.len(), "open draft", "open drafts"),
        service.workspace().join(HANDOFF).join(DRAFTS).display(),
        counted(waiting, "waiting submission", "waiting submissions")
    );
    if !yes && !confirmed(&question, EmptyLine::No) {
        let message = "no drafts were deleted, because the deletion was not confirmed";
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("`assize drafts clean --all --yes` deletes without asking for confirmation"));
    }
    let emptied = service.empty(by).await?;
    if json {
        return out_json(&json!(emptied));
    }
    out_line(&format!(
        "emptied the drafts folder: {} rejected, {} and {} deleted",
        counted(emptied.rejected, "waiting submission", "waiting submissions"),
        counted(emptied.drafts, "open draft", "open drafts"),
        counted(emptied.files, "other file", "other files")
    ))?;
    if !emptied.left.is_empty() {
        let names = terminal::replace_control_chars(&emptied.left.join("`, `"));
        note(&format!(
            "not deleted from the drafts folder: `{names}` (folders are not drafts); delete them yourself"
        ));
    }
    Ok(())
}

/// Switches the draft tools of the workspace on or off, and prints the new state.
async fn switch(service: &Arc<DraftService>, by: &str, on: bool) -> Result<(), Failure> {
    let changed = service.switch(by, on).await?;
    let state = if on { "on" } else { "off" };
    let folder = service.workspace().display();
    print_path(&match changed {
        true => format!("the draft tools are {state} in `{folder}`"),
        false => format!("the draft tools were already {state} in `{folder}`"),
    })?;
    if !on {
        note(
            "hint: `assize work --mode text` still proposes patches; `assize gate accept` applies them",
        );
        return Ok(());
    }
    let state = service.state().await?;
    let waiting =
        state.submissions.values().filter(|s| s.stage == SubmissionStage::Escalated).count();
    if waiting > 0 {
        let waiting = counted(waiting, "submission waits", "submissions wait");
        note(&format!("{waiting} for your decision: `assize gate ls`"));
    }
    Ok(())
}

/// Returns the draft service, or fails if the store does not exist yet.
fn existing(
    service: Option<std::sync::Arc<DraftService>>,
) -> Result<std::sync::Arc<DraftService>, Failure> {
    service.ok_or_else(|| Failure::new(FailureKind::Usage, "there are no drafts yet"))
}

/// Finds an open draft by its name or by the path of its file.
fn find(state: &DraftState, text: &str) -> Result<OpenDraft, Failure> {
    let name = text.rsplit('/').next().unwrap_or(text);
    if let Some(draft) = state.drafts.get(name) {
        return Ok(draft.clone());
    }
    let of_file: Vec<&OpenDraft> =
        state.drafts.values().filter(|draft| draft.path == text).collect();
    match of_file.as_slice() {
        [draft] => Ok((*draft).clone()),
        [] => {
            let message =
                format!("there is no open draft `{}`", terminal::replace_control_chars(text));
            Err(Failure::new(FailureKind::Usage, message).hint(
                "`assize drafts ls` lists open drafts, `assize gate ls --all` lists submissions",
            ))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|draft| draft.name.as_str()).collect();
            let message =
                format!("several drafts of `{}` are open", terminal::replace_control_chars(text));
            Err(Failure::new(FailureKind::Usage, message)
                .hint(format!("give the name of one of these drafts: {}", names.join(", "))))
        }
    }
}

fn list(state: &DraftState, json: bool) -> Result<(), Failure> {
    if json {
        let drafts: Vec<&OpenDraft> = state.drafts.values().collect();
        return out_json(
            &json!({"drafts": drafts, "tools": if state.tools_off { "off" } else { "on" }}),
        );
    }
    if state.tools_off {
        note("the draft tools of this workspace are off; `assize drafts on` switches them on");
    }
    if state.drafts.is_empty() {
        note("no open drafts");
        return Ok(());
    }
    let now = assize_types::unix_millis();
    let row = |draft: &OpenDraft| {
        let state = match draft.submission {
            None => "open".to_owned(),
            Some(id) => format!("submitted ({id})"),
        };
        let new = if draft.before.is_none() { " (new)" } else { "" };
        vec![
            draft.task.to_string(),
            format!("{}{new}", draft.path),
            state,
            show::ago(draft.since, now),
            draft.name.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = state.drafts.values().map(row).collect();
    let lines = show::table(&["TASK", "FILE", "STATE", "AGE", "DRAFT"], &rows);
    lines.iter().try_for_each(|line| out_line(line))
}

/// Creates the drafts folder of a workspace. If the user confirms it, also excludes the folder in `.gitignore`.
fn init(folder: &Path, yes: bool) -> Result<(), Failure> {
    let ignore_file = handoff::prepare(folder)?;
    let drafts = folder.join(HANDOFF).join(DRAFTS);
    print_path(&format!("the drafts folder is `{}`", drafts.display()))?;
    if ignore_file.ignores_drafts() {
        return out_line("`.gitignore` already excludes the drafts folder");
    }
    let ignore = folder.join(".gitignore");
    let question = format!("Add `{}` to `{}`?", handoff::IGNORED, ignore.display());
    if !yes && !confirmed(&question, EmptyLine::Yes) {
        note("hint: `assize drafts init --yes` adds `/_handoff/*` to `.gitignore`");
        return Ok(());
    }
    ignore_file.add_ignore_lines(folder)?;
    print_path(&format!(
        "added `/_handoff/*` and an exception for the task contract to `{}`",
        ignore.display()
    ))
}

/// Prints a line that contains a path. Control codes in the path are replaced.
fn print_path(text: &str) -> Result<(), Failure> {
    out_line(&terminal::replace_control_chars(text))
}
