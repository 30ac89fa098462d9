//! `assize runs`: lists, shows, exports, cancels and removes stored runs.

mod show;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_run::{
    Lease, LeaseHolder, Run, RunFilter, RunState, RunStatus, Store, cancel as cancel_run, find,
    no_such_run, refuse_if_held,
};
use assize_service::{Services, run_json};
use assize_types::text::{counted, one_line, shorten};
use assize_types::{Failure, FailureKind};
use serde_json::{Value, json};

use crate::args::{RunsCommand, StatusFilter};
use crate::kind::{self, StoredRun};
use crate::sessions;
use crate::terminal::{self, BOLD, DIM, note, out, out_json, out_line, paint, when};

pub(crate) async fn run(command: RunsCommand, mut services: Services) -> Result<(), Failure> {
    let named = async |name: &str| {
        let store = services.open_store_to_read().await?;
        store.ok_or_else(|| no_such_run(name))
    };
    match command {
        RunsCommand::List { kind, status, title, limit, json } => {
            let filter = RunFilter { kind, title, ..RunFilter::default() };
            list(services.open_store_to_read().await?, filter, status, limit, json).await
        }
        RunsCommand::Show { run, transcripts, events, json } => {
            let store = named(&run).await?;
            let run = find(&*store, &run).await?;
            show::show(&*store, run, &services, (transcripts, events), json).await
        }
        RunsCommand::Resume(_) | RunsCommand::Fork(_) => {
            unreachable!("`kind::resume` and `kind::fork` handle `runs resume` and `runs fork`")
        }
        RunsCommand::Files { run, out, json } => {
            let store = named(&run).await?;
            let run = find(&*store, &run).await?;
            let records = store.records(&run.id).await?;
            let stored = {
                let environment = &services.environment;
                StoredRun { run: &run, records: &records, store: &*store, environment }
            };
            kind::files(&stored, out.as_deref(), json).await
        }
        RunsCommand::Export { run, output } => {
            let store = named(&run).await?;
            let run = find(&*store, &run).await?;
            export(&*store, run, output).await
        }
        RunsCommand::Cancel { run } => {
            named(&run).await?;
            cancel(&*services.open_store(false).await?, &run).await
        }
        RunsCommand::Rm { runs, force } => {
            named(runs.first().map_or("", String::as_str)).await?;
            remove(services.open_store(false).await?, &runs, force).await
        }
    }
}

async fn list(
    store: Option<Arc<dyn Store>>,
    filter: RunFilter,
    status: Option<StatusFilter>,
    limit: usize,
    json: bool,
) -> Result<(), Failure> {
    let any = RunFilter::default();
    let filtered = status.is_some() || filter != any;
    let mut runs = match store {
        Some(store) => store.runs(filter).await?,
        None => Vec::new(),
    };
    // The status is filtered here and not by the store, because the store cannot tell whether the process that executes
    // a run is still alive.
    runs.retain(|run| status.is_none_or(|status| RunState::of(run).name() == status.name()));
    let found = runs.len();
    if limit > 0 {
        runs.truncate(limit);
    }
    if json {
        return out_json(&Value::Array(runs.iter().map(run_json::described).collect()));
    }
    if runs.is_empty() {
        note(match filtered {
            true => "no matching runs; `assize runs list` lists all runs",
            false => "there are no runs; `assize run \"Calculate fibonacci(10)\"` starts one",
        });
        return Ok(());
    }
    let width = runs.iter().map(|run| run.id.as_str().len()).max().unwrap_or_default();
    out_line(&paint(
        BOLD,
        format!("{:width$}  {:9}  {:16}  TITLE", "RUN", "STATUS", "CREATED (UTC)"),
    ))?;
    for run in &runs {
        let (id, status, created) = (run.id.as_str(), RunState::of(run).name(), when(run.created));
        let line = format!("{id:width$}  {status:9}  {created}  {}", summary(run));
        out_line(&terminal::replace_control_chars(&line))?;
    }
    if found > runs.len() {
        let more = counted(found - runs.len(), "more run", "more runs");
        note(&paint(DIM, format!("{more}; `--limit 0` lists all runs")));
    }
    Ok(())
}

/// Formats the title of a run with its short result and with remarks such as `rehearsal`.
fn summary(run: &Run) -> String {
    let partial = run.result.as_ref().is_some_and(|result| !result["partial"].is_null());
    let remarks = [
        run.parent.as_ref().map(|parent| format!("fork of {parent}")),
        run.error.as_deref().map(|error| shorten(&one_line(error), 60)),
        kind::summary(run),
        partial.then(|| "partial".to_owned()),
        run_json::is_rehearsal(run).then(|| "rehearsal".to_owned()),
    ];
    let remarks: Vec<String> = remarks.into_iter().flatten().collect();
    if remarks.is_empty() {
        run.title.clone()
    } else {
        format!("{} ({})", run.title, remarks.join(", "))
    }
}

/// Prints the list of a run's files, as text or JSON. `object` contains the fields that the JSON output has besides the
/// list.
pub(crate) fn list_files(
    run: &Run,
    files: Vec<(String, u64)>,
    mut object: Value,
    json: bool,
) -> Result<(), Failure> {
    if json {
        let files = files.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
        object["run"] = json!(run.id);
        object["files"] = files.collect();
        return out_json(&object);
    }
    sessions::lines(&files).iter().try_for_each(|line| out_line(line))
}

/// Exports all stored data of a run as one JSON document.
async fn export(store: &dyn Store, run: Run, output: Option<PathBuf>) -> Result<(), Failure> {
    let value = run_json::export(store, &run).await?;
    let Some(path) = output.filter(|path| path.as_os_str() != "-") else {
        return out_json(&value);
    };
    let text = serde_json::to_string_pretty(&value)
        .map_err(|error| Failure::from_error(FailureKind::Internal, &error))?;
    write_new(&path, &format!("{text}\n"))?;
    note(&format!("wrote the run to `{}`", path.display()));
    Ok(())
}

/// Error of a command whose output file already exists.
pub(crate) fn exists(path: &Path) -> Failure {
    let message = format!("`{}` already exists", path.display());
    Failure::new(FailureKind::Usage, message).hint("name another file, or remove the existing file")
}

/// Writes a new file atomically; fails if the file exists.
fn write_new(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("cannot write `{}`: {error}", path.display());
        Failure::new(FailureKind::Environment, message)
    };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new("."));
    if !folder.is_dir() {
        return Err(failed(&"the folder of the file does not exist"));
    }
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| failed(&error))?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(failed(&error.error)),
    }
}

async fn cancel(store: &dyn Store, name: &str) -> Result<(), Failure> {
    let run = find(store, name).await?;
    if run.status != RunStatus::Running {
        let message = format!(
            "the run `{}` is not running: its status is {}",
            run.id,
            RunState::of(&run).name()
        );
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let holder = LeaseHolder::of(&run);
    cancel_run(store, &run).await?;
    if let Some(holder) = holder {
        note(&format!("{holder}, which executes the run, stops it at the next step"));
    }
    out_line(&format!("cancelled {}", run.id))
}

async fn remove(store: Arc<dyn Store>, names: &[String], force: bool) -> Result<(), Failure> {
    // All names are checked before the first run is removed, so that a typo in a later name removes nothing.
    let mut runs: Vec<Run> = Vec::new();
    for name in names {
        let run = find(&*store, name).await?;
        if !force {
            let instead = "cancel the run first, or remove it anyway with `--force`";
            refuse_if_held(&run, "removed", instead)?;
        }
        if runs.iter().all(|other| other.id != run.id) {
            runs.push(run);
        }
    }
    let mut removed = String::new();
    for run in runs {
        store.remove_run(&Lease { run: run.id.clone(), epoch: run.epoch }).await?;
        let _ = writeln!(removed, "removed {}", run.id);
    }
    out(&removed)
}
