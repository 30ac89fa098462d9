//! `assize sandbox`: creates and uses named sandboxes, which continue to exist after the command has ended.
//!
//! A sandbox exists as long as the process that created it. Therefore `create` starts a background process, which runs
//! until the sandbox expires or is removed. All other commands connect to that process.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use assize_service::Services;
use assize_service::sandboxes::{NamedSandboxes, NewSandbox, SandboxProgram, SandboxRecord};
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::args::{CreateArgs, SandboxCommand};
use crate::exec::{exit_code, warn_of_reached_limits};
use crate::program_output::{OutputMode, ProgramOutput};
use crate::terminal::{note, out_json, out_line, out_table, warn};
use crate::until_cancelled;

pub(crate) async fn run(
    command: SandboxCommand,
    services: Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    match command {
        SandboxCommand::Create(args) => {
            // If the command is cancelled, the background process exits, because its output pipe is closed.
            until_cancelled(&cancel, create(&args, &services)).await.map(|()| 0)
        }
        SandboxCommand::Hold(args) => hold(&args, &services, cancel).await.map(|()| 0),
        SandboxCommand::Ls { labels, json } => {
            let named = services.named_sandboxes().await?;
            show(&named.list(&labels.into_iter().collect())?, json).map(|()| 0)
        }
        SandboxCommand::Exec { run, name, program: words, cwd, env, timeout, raw } => {
            let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let program = SandboxProgram { words, cwd, env, timeout };
            let named = services.named_sandboxes().await?;
            let (running, limits) = named.exec(run.id(), &name, program).await?;
            running.feed(tokio::io::stdin());
            let mut screen =
                ProgramOutput::new(if raw { OutputMode::Raw } else { OutputMode::Sanitize }, None);
            let pass = async |output, bytes: &[u8]| screen.handle(output, bytes).await;
            // On cancellation, the future is dropped, which kills the program. The sandbox remains.
            let outcome = until_cancelled(&cancel, running.follow(pass)).await?;
            screen.finish().await?;
            warn_of_reached_limits(&outcome, &limits, false);
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

/// Starts a background process that creates the sandbox and keeps it running.
async fn create(args: &CreateArgs, services: &Services) -> Result<(), Failure> {
    let prospect = services.preview_sandbox(&new_sandbox(args)).await?;
    if prospect.exists {
        note(&format!("the sandbox `{}` already exists and is not changed", args.name));
        return out_line(&args.name);
    }
    let failed = |error: std::io::Error| Failure::from_error(FailureKind::Environment, &error);
    let program = std::env::current_exe().map_err(failed)?;
    // The background process gets the same arguments, with `hold` instead of `create`.
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let at = words.iter().position(|word| word == "create").unwrap_or(1);
    let mut background = tokio::process::Command::new(program)
        .args(&words[..at])
        .arg("hold")
        .args(&words[at + 1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = background.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).await.map_err(failed)?;
    }
    if line.trim_end() != args.name {
        // The background process has printed the error.
        let status = background.wait().await.map_err(failed)?;
        std::process::exit(
            status.code().unwrap_or(crate::exit::exit_code(FailureKind::Internal).into()),
        );
    }
    note(&format!(
        "isolation: {} ({}); the sandbox is removed after {}",
        prospect.isolation,
        prospect.why,
        humantime::format_duration(args.ttl)
    ));
    out_line(&args.name)
}

/// Runs the background process of a named sandbox: creates the sandbox, prints the name of the sandbox, and waits until
/// the sandbox expires or is removed.
async fn hold(args: &CreateArgs, services: &Services, cancel: Cancel) -> Result<(), Failure> {
    // The process gets its own session, so that it does not end when the terminal is closed.
    let _ = rustix::process::setsid();
    let sandbox = services.create_owned_sandbox(new_sandbox(args)).await?;
    out_line(&args.name)?;
    detach();
    tokio::select! {
        () = sandbox.until_gone() => {}
        _ = cancel.cancelled() => {}
    }
    sandbox.close().await;
    Ok(())
}

/// Redirects the output of this process to `/dev/null`. This releases the terminal and closes the pipe that `create`
/// reads.
fn detach() {
    if let Ok(nothing) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
}

/// Splits `SANDBOX:PATH` into the name of the sandbox and the path; `None` for a path on this machine.
fn in_sandbox(text: &str) -> Option<(&str, &str)> {
    // A path on this machine may contain a colon after a slash, as in `folder/a:b`.
    text.split_once(':').filter(|(name, _)| !name.is_empty() && !name.contains('/'))
}

/// Copies files into a sandbox or out of it.
async fn copy(
    named: &NamedSandboxes,
    run: Option<&str>,
    from: &str,
    to: &str,
    services: &Services,
) -> Result<(), Failure> {
    match (in_sandbox(from), in_sandbox(to)) {
        (None, Some(to)) => {
            let copied = named.copy_in(run, Path::new(from), to).await?;
            copied.not_copied.iter().for_each(|left| warn(left));
            if copied.files == 0 {
                warn("there were no files to copy");
            }
        }
        (Some(from), None) => {
            let to = services.environment.resolve_path(to.as_ref());
            let copied = named.copy_out(run, from, &to).await?;
            copied.not_copied.iter().for_each(|left| warn(left));
        }
        _ => {
            let message = "exactly one of the two paths must be in a sandbox";
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("write a path in a sandbox as `my-sandbox:/workspace/file`"));
        }
    }
    Ok(())
}

fn show(records: &[SandboxRecord], json: bool) -> Result<(), Failure> {
    if json {
        let records: Vec<Value> = records.iter().map(as_json).collect();
        return out_json(&json!(records));
    }
    if records.is_empty() {
        note("no sandboxes");
        return Ok(());
    }
    let now = assize_types::unix_millis() / 1000;
    let duration =
        |seconds: u64| humantime::format_duration(Duration::from_secs(seconds)).to_string();
    let mut rows = vec![
        ["NAME", "RUN", "ISOLATION", "AGE", "EXPIRES IN", "PROCESS", "LABELS"].map(str::to_owned),
    ];
    rows.extend(records.iter().map(|record| {
        let labels = record.spec.labels.iter().map(|(name, value)| format!("{name}={value}"));
        [
            record.key.name.clone(),
            record.key.run.clone().unwrap_or_else(|| "–".to_owned()),
            record.isolation.to_string(),
            duration(now.saturating_sub(record.created)),
            duration(record.expires.saturating_sub(now)),
            record.pid.to_string(),
            labels.collect::<Vec<_>>().join(","),
        ]
    }));
    out_table(&rows)
}

fn as_json(record: &SandboxRecord) -> Value {
    json!({
        "name": record.key.name, "run": record.key.run, "isolation": record.isolation,
        "pid": record.pid, "created_unix": record.created, "expires_unix": record.expires,
        "labels": record.spec.labels, "image": record.spec.image, "region": record.spec.region,
    })
}
