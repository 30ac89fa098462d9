//! `assize sessions`: lists, shows and removes sessions, which store working files between runs.

use assize_code::Session;
use assize_config::Environment;
use assize_types::{Failure, FailureKind};
use serde_json::json;

use crate::args::SessionsCommand;
use crate::terminal::{self, BOLD, grouped, note, out_json, out_line, paint};

pub(crate) fn run(command: SessionsCommand, environment: &Environment) -> Result<(), Failure> {
    let root = assize_code::sessions(environment);
    match command {
        SessionsCommand::List { json } => list(&root, json),
        SessionsCommand::Show { name, json } => {
            let files = Session::list_files(&root, &name)?.ok_or_else(|| no_such(&name))?;
            show(&root.join(&name).join("files"), &files, json)
        }
        SessionsCommand::Rm { names } => {
            // All names are checked before the first session is removed.
            for name in &names {
                Session::list_files(&root, name)?.ok_or_else(|| no_such(name))?;
            }
            for name in &names {
                Session::open(&root, name)?.remove()?;
                out_line(&format!("removed {name}"))?;
            }
            Ok(())
        }
    }
}

fn no_such(name: &str) -> Failure {
    let message = format!("there is no session `{}`", terminal::replace_control_chars(name));
    Failure::new(FailureKind::Usage, message).hint("`assize sessions list` lists all sessions")
}

fn list(root: &std::path::Path, json: bool) -> Result<(), Failure> {
    let mut sessions = Vec::new();
    for name in Session::names(root)? {
        sessions.extend(Session::list_files(root, &name)?.map(|files| (name, files)));
    }
    let bytes = |files: &[(String, u64)]| files.iter().map(|(_, bytes)| bytes).sum::<u64>();
    if json {
        let described = sessions.iter().map(
            |(name, files)| json!({"name": name, "files": files.len(), "bytes": bytes(files)}),
        );
        return out_json(&described.collect());
    }
    if sessions.is_empty() {
        note("no sessions; `assize run --session NAME` creates one");
        return Ok(());
    }
    let width = sessions.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max(7);
    out_line(&paint(BOLD, format!("{:width$}  {:>5}  {:>13}", "SESSION", "FILES", "BYTES")))?;
    for (name, files) in &sessions {
        let bytes = grouped(bytes(files));
        out_line(&format!("{name:width$}  {:>5}  {bytes:>13}", files.len()))?;
    }
    Ok(())
}

fn show(folder: &std::path::Path, files: &[(String, u64)], json: bool) -> Result<(), Failure> {
    if json {
        let described = files.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
        let described: Vec<_> = described.collect();
        return out_json(&json!({"folder": folder, "files": described}));
    }
    out_line(&folder.display().to_string())?;
    lines(files).iter().try_for_each(|line| out_line(line))
}

/// Formats a line for each file: its size in bytes and its name.
pub(crate) fn lines(files: &[(String, u64)]) -> Vec<String> {
    let line = |(name, bytes): &(String, u64)| {
        terminal::replace_control_chars(&format!("{:>13}  {name}", grouped(*bytes)))
    };
    files.iter().map(line).collect()
}
