//! `assize sandbox`: sandboxes that stay for a while.
//!
//! A sandbox lives as long as the process that made it. `create` leaves one behind for that, which
//! holds the sandbox until its time is up or somebody removes it; all other commands reach it there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use assize_code::Language;
use assize_config::{Environment, Settings};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Cause, Command, Key, Manager, Record, Sandbox, SandboxError, Sandboxes, Spec, WORKSPACE,
};
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::args::{CreateArgs, SandboxCommand};
use crate::exec::{exit_code, tell_limits};
use crate::passing::{Show, follow, pass_input};
use crate::terminal::{note, out_json, out_line, out_table, warn};
use crate::{artifacts, host_files, until_cancelled};

pub(crate) async fn run(
    command: SandboxCommand,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<u8, Failure> {
    match command {
        SandboxCommand::Create(args) => {
            // Whoever holds it then finds nobody to tell that it is there, and ends.
            until_cancelled(&cancel, create(&args, config, around)).await.map(|()| 0)
        }
        SandboxCommand::Hold(args) => hold(&args, config, around, cancel).await.map(|()| 0),
        SandboxCommand::Ls { labels, json } => {
            let records = visitor(config, around).await?.list(&labels.into_iter().collect())?;
            show(&records, json).map(|()| 0)
        }
        SandboxCommand::Exec { run, name, program, cwd, env, timeout, raw } => {
            let key = Key::new(run.id(), &name)?;
            let sandbox = find(&visitor(config, around).await?, &key).await?;
            let mut words = program.into_iter();
            let mut command =
                Command::new(words.next().unwrap_or_default()).args(words).stdin(true);
            command.cwd = cwd;
            command.env.extend(env);
            command.wall = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let show = if raw { Show::Raw } else { Show::Harmless };
            exec(&sandbox, command, show, cancel).await
        }
        SandboxCommand::Cp { run, from, to } => {
            let visitor = visitor(config, around).await?;
            copy(&visitor, run.id(), &from, &to, around).await.map(|()| 0)
        }
        SandboxCommand::Rm { run, names } => {
            let manager = visitor(config, around).await?;
            for name in &names {
                if !manager.delete(&Key::new(run.id(), name)?).await? {
                    return Err(no_such(name));
                }
            }
            Ok(0)
        }
    }
}

/// A manager that makes nothing, and reaches what others made.
async fn visitor(config: &Settings, around: &Environment) -> Result<Manager, Failure> {
    Sandboxes::new(config, around).manager(Arc::new(Jail::new(Vec::new()))).await
}

fn no_such(name: &str) -> Failure {
    SandboxError::NotFound(name.to_owned()).into()
}

async fn find(manager: &Manager, key: &Key) -> Result<Sandbox, Failure> {
    manager.get(key).await?.ok_or_else(|| no_such(&key.name))
}

async fn exec(
    sandbox: &Sandbox,
    command: Command,
    show: Show,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let mut limits = sandbox.spec().limits.clone();
    limits.wall = command.wall.map_or(limits.wall, |wall| wall.min(limits.wall));
    let running = sandbox.exec(command).await?;
    tokio::spawn(pass_input(running.stdin()));
    // Dropped, the program is killed; the sandbox stays.
    let outcome = tokio::select! {
        followed = follow(running, show, None) => followed?.outcome,
        reason = cancel.cancelled() => return Err(Failure::new(FailureKind::Interrupted, reason)),
    };
    tell_limits(&outcome, &limits, false);
    Ok(exit_code(&outcome))
}

/// Has another process make the sandbox and hold it.
async fn create(args: &CreateArgs, config: &Settings, around: &Environment) -> Result<(), Failure> {
    let key = Key::new(None, &args.name)?;
    let sandboxes = Sandboxes::new(config, around);
    let spec = sandboxes.spec(args.sandbox.image.clone())?;
    let chosen = sandboxes.choose(&[]).await?;
    if let Some(found) = find_record(&visitor(config, around).await?, &key)? {
        if !found.is(&spec, chosen.backend.isolation()) {
            return Err(SandboxError::Different(args.name.clone()).into());
        }
        note(&format!("`{}` is there already, and stays as it is", args.name));
        return out_line(&args.name);
    }
    let failed = |error: std::io::Error| Failure::from_error(FailureKind::Environment, &error);
    let program = std::env::current_exe().map_err(failed)?;
    // The same words, but for the command.
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let at = words.iter().position(|word| word == "create").unwrap_or(1);
    let mut holder = tokio::process::Command::new(program)
        .args(&words[..at])
        .arg("hold")
        .args(&words[at + 1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = holder.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).await.map_err(failed)?;
    }
    if line.trim_end() != args.name {
        // It has said why.
        let status = holder.wait().await.map_err(failed)?;
        std::process::exit(
            status.code().unwrap_or(crate::exit::exit_code(FailureKind::Internal).into()),
        );
    }
    note(&format!(
        "{} ({}), removed after {}",
        chosen.backend.isolation(),
        chosen.why,
        humantime::format_duration(args.ttl)
    ));
    out_line(&args.name)
}

fn find_record(manager: &Manager, key: &Key) -> Result<Option<Record>, Failure> {
    Ok(manager.list(&BTreeMap::new())?.into_iter().find(|record| record.key == *key))
}

/// Makes a sandbox, says so, and stays with it.
async fn hold(
    args: &CreateArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<(), Failure> {
    // Not to end with the terminal that it was made from.
    let _ = rustix::process::setsid();
    let key = Key::new(None, &args.name)?;
    let sandboxes = Sandboxes::new(config, around);
    let spec = Spec {
        labels: args.labels.iter().cloned().collect(),
        region: args.region.clone(),
        time_to_live: Some(args.ttl),
        ..sandboxes.spec(args.sandbox.image.clone())?
    };
    let chosen = sandboxes.choose(&Language::ALL).await?;
    let manager = sandboxes.manager(chosen.backend).await?;
    manager.create_if_not_exists(&key, spec).await?;
    out_line(&args.name)?;
    detach();
    tokio::select! {
        () = manager.until_empty() => {}
        _ = cancel.cancelled() => {}
    }
    manager.close().await;
    Ok(())
}

/// Lets go of the terminal and of whoever waits for the end of our output.
fn detach() {
    if let Ok(nothing) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
}

/// One side of a copy.
enum Side<'a> {
    Here(&'a str),
    /// Below the working folder, unless it is a whole path.
    There {
        name: &'a str,
        path: String,
    },
}

impl<'a> Side<'a> {
    fn of(text: &'a str) -> Side<'a> {
        match text.split_once(':') {
            // A path of this machine may have a colon in it, after a slash.
            Some((name, path)) if !name.is_empty() && !name.contains('/') => {
                let whole = path.starts_with('/');
                let path = if whole { path.to_owned() } else { format!("{WORKSPACE}/{path}") };
                Side::There { name, path }
            }
            _ => Side::Here(text),
        }
    }
}

async fn copy(
    manager: &Manager,
    run: Option<&str>,
    from: &str,
    to: &str,
    around: &Environment,
) -> Result<(), Failure> {
    match (Side::of(from), Side::of(to)) {
        (Side::Here(from), Side::There { name, path }) => {
            let sandbox = find(manager, &Key::new(run, name)?).await?;
            let to = into_folder(&sandbox, &path, &around.typed(from.as_ref())).await;
            let put = host_files::put(&sandbox, from.as_ref(), &to).await?;
            put.left.iter().for_each(|left| warn(left));
            if put.files == 0 {
                warn("there were no files to copy");
            }
            Ok(())
        }
        (Side::There { name, path }, Side::Here(to)) => {
            let sandbox = find(manager, &Key::new(run, name)?).await?;
            let to = around.typed(to.as_ref());
            take(&sandbox, &path, &to).await
        }
        _ => {
            let message = "one side of a copy is here, and the other in a sandbox";
            Err(Failure::new(FailureKind::Usage, message)
                .hint("name a file in a sandbox as in `my-sandbox:/workspace/file`"))
        }
    }
}

/// Where a file goes: below the folder that is named, if it is one.
async fn into_folder(sandbox: &Sandbox, path: &str, from: &Path) -> String {
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    let is_folder = path.ends_with('/') || sandbox.list(path).await.is_ok();
    if is_folder { format!("{}/{name}", path.trim_end_matches('/')) } else { path.to_owned() }
}

async fn take(sandbox: &Sandbox, path: &str, to: &Path) -> Result<(), Failure> {
    let name = Path::new(path).file_name();
    let to = match name {
        Some(name) if to.is_dir() => to.join(name),
        _ => to.to_owned(),
    };
    match sandbox.read(path, sandbox.spec().limits.disk).await {
        Ok(bytes) => artifacts::write(&to, &bytes),
        Err(error)
            if error.cause() == Some(Cause::WrongKind) && sandbox.list(path).await.is_ok() =>
        {
            let path = path.trim_end_matches('/');
            let taken =
                artifacts::take(sandbox, path, &to, &std::collections::BTreeSet::new()).await?;
            taken.left.iter().for_each(|left| warn(left));
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn show(records: &[Record], json: bool) -> Result<(), Failure> {
    if json {
        let records: Vec<Value> = records.iter().map(as_json).collect();
        return out_json(&json!(records));
    }
    if records.is_empty() {
        note("there are no sandboxes");
        return Ok(());
    }
    let now = crate::drafts::show::now() / 1000;
    let minutes =
        |seconds: u64| humantime::format_duration(Duration::from_secs(seconds)).to_string();
    let mut rows =
        vec![["NAME", "RUN", "WALLS", "AGE", "ENDS IN", "PROCESS", "LABELS"].map(str::to_owned)];
    rows.extend(records.iter().map(|record| {
        let labels = record.spec.labels.iter().map(|(name, value)| format!("{name}={value}"));
        [
            record.key.name.clone(),
            record.key.run.clone().unwrap_or_else(|| "–".to_owned()),
            record.isolation.to_string(),
            minutes(now.saturating_sub(record.made)),
            minutes(record.expires.saturating_sub(now)),
            record.pid.to_string(),
            labels.collect::<Vec<_>>().join(","),
        ]
    }));
    out_table(&rows)
}

fn as_json(record: &Record) -> Value {
    json!({
        "name": record.key.name, "run": record.key.run, "isolation": record.isolation,
        "pid": record.pid, "made_unix": record.made, "expires_unix": record.expires,
        "labels": record.spec.labels, "image": record.spec.image, "region": record.spec.region,
    })
}
