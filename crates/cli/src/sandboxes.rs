//! `assize sandbox`: sandboxes that stay for a while.
//!
//! A sandbox lives as long as the process that made it. `create` starts another process for that, which holds the
//! sandbox until it expires or is removed; all other commands reach it there.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use assize_service::Services;
use assize_service::sandboxes::{NamedSandboxes, NewSandbox, Program, Record};
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::args::{CreateArgs, SandboxCommand};
use crate::exec::{exit_code, tell_limits};
use crate::passing::{Screen, Show};
use crate::terminal::{note, out_json, out_line, out_table, warn};
use crate::until_cancelled;

pub(crate) async fn run(
    command: SandboxCommand,
    services: Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    match command {
        SandboxCommand::Create(args) => {
            // The process that holds it then finds no reader for its output, and ends.
            until_cancelled(&cancel, create(&args, &services)).await.map(|()| 0)
        }
        SandboxCommand::Hold(args) => hold(&args, &services, cancel).await.map(|()| 0),
        SandboxCommand::Ls { labels, json } => {
            let named = services.named_sandboxes().await?;
            show(&named.list(&labels.into_iter().collect())?, json).map(|()| 0)
        }
        SandboxCommand::Exec { run, name, program: words, cwd, env, timeout, raw } => {
            let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let program = Program { words, cwd, env, timeout };
            let named = services.named_sandboxes().await?;
            let (running, limits) = named.exec(run.id(), &name, program).await?;
            running.feed(tokio::io::stdin());
            let mut screen = Screen::new(if raw { Show::Raw } else { Show::Harmless }, None);
            let pass = async |output, bytes: &[u8]| screen.pass(output, bytes).await;
            // Dropped, the program is killed; the sandbox stays.
            let outcome = until_cancelled(&cancel, running.follow(pass)).await?;
            screen.finish().await?;
            tell_limits(&outcome, &limits, false);
            Ok(exit_code(&outcome))
        }
        SandboxCommand::Cp { run, from, to } => {
            let named = services.named_sandboxes().await?;
            copy(&named, run.id(), &from, &to, &services).await.map(|()| 0)
        }
        SandboxCommand::Rm { run, names } => {
            let named = services.named_sandboxes().await?;
            for name in &names {
                named.remove(run.id(), name).await?;
            }
            Ok(0)
        }
    }
}

fn new_sandbox(args: &CreateArgs) -> NewSandbox {
    NewSandbox {
        name: args.name.clone(),
        image: args.sandbox.image.clone(),
        labels: args.labels.iter().cloned().collect(),
        region: args.region.clone(),
        time_to_live: args.ttl,
    }
}

/// Has another process make the sandbox and hold it.
async fn create(args: &CreateArgs, services: &Services) -> Result<(), Failure> {
    let prospect = services.look_at(&new_sandbox(args)).await?;
    if prospect.exists {
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
        prospect.isolation,
        prospect.why,
        humantime::format_duration(args.ttl)
    ));
    out_line(&args.name)
}

/// Makes a sandbox, says so, and stays with it.
async fn hold(args: &CreateArgs, services: &Services, cancel: Cancel) -> Result<(), Failure> {
    // Not to end with the terminal that it was made from.
    let _ = rustix::process::setsid();
    let held = services.hold(new_sandbox(args)).await?;
    out_line(&args.name)?;
    detach();
    tokio::select! {
        () = held.until_gone() => {}
        _ = cancel.cancelled() => {}
    }
    held.close().await;
    Ok(())
}

/// Lets go of the terminal and of whoever waits for the end of our output.
fn detach() {
    if let Ok(nothing) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
}

/// The name of a sandbox and a path in it, where a user typed both.
fn in_sandbox(text: &str) -> Option<(&str, &str)> {
    // A path of this machine may have a colon in it, after a slash.
    text.split_once(':').filter(|(name, _)| !name.is_empty() && !name.contains('/'))
}

async fn copy(
    named: &NamedSandboxes,
    run: Option<&str>,
    from: &str,
    to: &str,
    services: &Services,
) -> Result<(), Failure> {
    match (in_sandbox(from), in_sandbox(to)) {
        (None, Some(to)) => {
            let put = named.copy_in(run, Path::new(from), to).await?;
            put.left.iter().for_each(|left| warn(left));
            if put.files == 0 {
                warn("there were no files to copy");
            }
        }
        (Some(from), None) => {
            let to = services.environment.typed(to.as_ref());
            let taken = named.copy_out(run, from, &to).await?;
            taken.left.iter().for_each(|left| warn(left));
        }
        _ => {
            let message = "one side of a copy is here, and the other in a sandbox";
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("name a file in a sandbox as in `my-sandbox:/workspace/file`"));
        }
    }
    Ok(())
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
