//! Debates one move inside a sandbox. There is no network and no key here: every answer of a model is
//! asked for on a channel to the host, which is the standard input.
//!
//! The job is a JSON file, named on the command line; the verdict goes to standard output, and what is said
//! to `/workspace/logs/i1.json` and so on, as it grows.

mod door;

use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;

use assize_debate::{Job, Minutes, Verdict};
use assize_graph::NodeError;
use assize_types::Cancel;

fn main() -> ExitCode {
    let done = debate().and_then(|verdict| {
        let text = serde_json::to_vec(&verdict).map_err(|error| error.to_string())?;
        std::io::stdout().write_all(&text).map_err(|error| error.to_string())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn debate() -> Result<Verdict, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let path = std::env::args_os().nth(1).ok_or("name the file with the job")?;
    let job = std::fs::read(path).map_err(|error| told(&error))?;
    let job: Job = serde_json::from_slice(&job).map_err(|error| told(&error))?;
    let minutes = Minutes::of(job.personas.decision_makers.len());
    let cancel = Cancel::new();
    let channel = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| told(&error))?;
    let door = door::Door::open(channel, minutes, cancel.clone()).map_err(|error| told(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| told(&error))?;
    runtime.block_on(job.hold(Arc::new(door), cancel)).map_err(|error| match error {
        NodeError::Stop(error) => error.to_string(),
        NodeError::Failed(error) => error.to_string(),
    })
}
