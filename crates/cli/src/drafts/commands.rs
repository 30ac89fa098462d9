//! `assize drafts`: what is being worked on.

use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use assize_draft::{DRAFTS, Diff, DraftService, DraftState, HANDOFF, OpenDraft, Stage, handoff};
use assize_service::Services;
use assize_types::{Failure, FailureKind};
use serde_json::json;

use super::{book_to_see, desk_to_see, desk_to_use, keep, person, show, workspace};
use crate::args::DraftsCommand;
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
            let book = book_to_see(&workspace, &services).await?;
            list(&book, json)
        }
        DraftsCommand::Show { draft, workspace, json } => {
            let desk = seen(desk_to_see(&workspace, &services).await?)?;
            let draft = find(&desk.state().await?, &draft)?;
            let bytes = desk.draft(&draft.name)?;
            let text = String::from_utf8_lossy(&bytes);
            if json {
                return out_json(&json!({"draft": draft, "content": text}));
            }
            terminal::out_untrusted(&text)
        }
        DraftsCommand::Diff { draft, workspace } => {
            let desk = seen(desk_to_see(&workspace, &services).await?)?;
            let draft = find(&desk.state().await?, &draft)?;
            let base = draft.before.map(|hash| desk.copy(hash)).transpose()?.unwrap_or_default();
            let bytes = desk.draft(&draft.name)?;
            let (base, text) = (String::from_utf8_lossy(&base), String::from_utf8_lossy(&bytes));
            if base == text {
                note("it changes nothing so far");
            }
            let unified = Diff::unified(&draft.path, &base, &text);
            show::diff(&unified).iter().try_for_each(|line| out_line(line))
        }
        DraftsCommand::Clean { workspace, all: true, yes, json, .. } => {
            let desk = desk_to_use(&workspace, &mut services).await?;
            empty(&desk, &person(&services.environment), yes, json).await
        }
        DraftsCommand::Clean { workspace, older_than, json, .. } => {
            let desk = desk_to_use(&workspace, &mut services).await?;
            let keep = older_than.unwrap_or_else(|| keep(&services.settings));
            let cleared = desk.sweep(&person(&services.environment), show::now(), keep).await?;
            if json {
                return out_json(&json!(cleared));
            }
            out_line(&format!(
                "deleted for good: what {} settled submissions were before and after (they cannot be undone any \
                 more), drafts that nobody handed in: {}",
                cleared.submissions, cleared.drafts
            ))
        }
        DraftsCommand::Off { workspace } => {
            let desk = desk_to_use(&workspace, &mut services).await?;
            switch(&desk, &person(&services.environment), false).await
        }
        DraftsCommand::On { workspace } => {
            let desk = desk_to_use(&workspace, &mut services).await?;
            switch(&desk, &person(&services.environment), true).await
        }
    }
}

/// Empties the drafts folder once the user has confirmed it.
async fn empty(desk: &Arc<DraftService>, by: &str, yes: bool, json: bool) -> Result<(), Failure> {
    let book = desk.state().await?;
    let waiting = book.submissions.values();
    let waiting =
        waiting.filter(|s| matches!(s.stage, Stage::Submitted | Stage::Escalated)).count();
    let question = format!(
        "Delete all {} open drafts in `{}` and reject {waiting} waiting submissions? [y/N]",
        book.drafts.len(),
        desk.workspace().join(HANDOFF).join(DRAFTS).display()
    );
    if !yes && !confirmed(&terminal::harmless(&question), Default::No) {
        return Err(Failure::new(FailureKind::Usage, "nothing was deleted: not confirmed")
            .hint("`assize drafts clean --all --yes` does not ask"));
    }
    let emptied = desk.empty(by).await?;
    if json {
        return out_json(&json!(emptied));
    }
    out_line(&format!(
        "emptied the drafts folder: {} waiting submissions rejected, {} open drafts and {} other files deleted",
        emptied.rejected, emptied.drafts, emptied.files
    ))?;
    if !emptied.left.is_empty() {
        let names = terminal::harmless(&emptied.left.join("`, `"));
        note(&format!(
            "left in the drafts folder: `{names}`, as folders are no drafts; delete them yourself"
        ));
    }
    Ok(())
}

async fn switch(desk: &Arc<DraftService>, by: &str, on: bool) -> Result<(), Failure> {
    let changed = desk.switch(by, on).await?;
    let state = if on { "on" } else { "off" };
    let folder = desk.workspace().display();
    say(&match changed {
        true => format!("the draft tools are {state} in `{folder}`"),
        false => format!("the draft tools were {state} already in `{folder}`"),
    })?;
    if !on {
        note(
            "hint: `assize work --mode text` still proposes patches; `assize gate accept` applies them",
        );
        return Ok(());
    }
    let book = desk.state().await?;
    let waiting = book.submissions.values().filter(|s| s.stage == Stage::Escalated).count();
    if waiting > 0 {
        note(&format!("{waiting} submissions still wait for your decision: `assize gate ls`"));
    }
    Ok(())
}

/// The desk, where there is anything to see.
fn seen(
    desk: Option<std::sync::Arc<DraftService>>,
) -> Result<std::sync::Arc<DraftService>, Failure> {
    desk.ok_or_else(|| Failure::new(FailureKind::Usage, "there are no drafts yet"))
}

/// The draft that is meant by its name or its file.
fn find(book: &DraftState, text: &str) -> Result<OpenDraft, Failure> {
    let name = text.rsplit('/').next().unwrap_or(text);
    if let Some(draft) = book.drafts.get(name) {
        return Ok(draft.clone());
    }
    let of_file: Vec<&OpenDraft> =
        book.drafts.values().filter(|draft| draft.path == text).collect();
    match of_file.as_slice() {
        [draft] => Ok((*draft).clone()),
        [] => {
            let message = format!("there is no open draft `{}`", terminal::harmless(text));
            Err(Failure::new(FailureKind::Usage, message).hint(
                "`assize drafts ls` shows those there are, `assize gate ls --all` what was settled",
            ))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|draft| draft.name.as_str()).collect();
            let message = format!("several drafts are of `{}`", terminal::harmless(text));
            Err(Failure::new(FailureKind::Usage, message)
                .hint(format!("name one: {}", names.join(", "))))
        }
    }
}

fn list(book: &DraftState, json: bool) -> Result<(), Failure> {
    if json {
        let drafts: Vec<&OpenDraft> = book.drafts.values().collect();
        return out_json(&json!({"drafts": drafts, "tools": if book.off { "off" } else { "on" }}));
    }
    if book.off {
        note("the draft tools are switched off here; `assize drafts on` switches them on");
    }
    if book.drafts.is_empty() {
        note("no open drafts");
        return Ok(());
    }
    let now = show::now();
    let row = |draft: &OpenDraft| {
        let state = match draft.submission {
            None => "open".to_owned(),
            Some(id) => format!("handed in ({id})"),
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
    let rows: Vec<Vec<String>> = book.drafts.values().map(row).collect();
    let lines = show::table(&["TASK", "FILE", "STATE", "AGE", "DRAFT"], &rows);
    lines.iter().try_for_each(|line| out_line(line))
}

fn init(folder: &Path, yes: bool) -> Result<(), Failure> {
    let ignore_file = handoff::prepare(folder)?;
    let drafts = folder.join(HANDOFF).join(DRAFTS);
    say(&format!("drafts will be in `{}`", drafts.display()))?;
    if ignore_file.leaves_drafts_out() {
        return out_line("`.gitignore` leaves them out already");
    }
    let ignore = folder.join(".gitignore");
    let question = format!("Add `{}` to `{}`? [Y/n]", handoff::IGNORED, ignore.display());
    if !yes && !confirmed(&terminal::harmless(&question), Default::Yes) {
        note("hint: `assize drafts init --yes` adds `/_handoff/*` to `.gitignore`");
        return Ok(());
    }
    ignore_file.leave_drafts_out(folder)?;
    say(&format!("added `/_handoff/*`, but for the contract, to `{}`", ignore.display()))
}

/// Says something with a path in it, which may be called anything.
fn say(text: &str) -> Result<(), Failure> {
    out_line(&terminal::harmless(text))
}

/// The answer that an empty line stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Default {
    Yes,
    No,
}

/// Asks on the terminal; without one, the answer is no.
fn confirmed(question: &str, default: Default) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    note(question);
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let answer = line.trim().to_lowercase();
    let yes = matches!(answer.as_str(), "y" | "yes");
    read.is_ok_and(|bytes| bytes > 0) && (yes || answer.is_empty() && default == Default::Yes)
}
