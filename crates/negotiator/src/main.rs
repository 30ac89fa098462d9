//! Program that runs the debate of one move inside a sandbox, without network access or API keys. It sends every
//! model request to the host, over the channel on standard input.
//!
//! The specification of the debate is a JSON file (the job file) named on the command line. The program writes the
//! verdict to standard output. It writes the conversations to `/workspace/logs/i1.json` and so on, and updates these
//! files after every model response.

mod host_model;

use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;

use assize_debate::{DebateSpec, DebateVerdict, Transcript};
use assize_graph::NodeError;
use assize_types::Cancel;

fn main() -> ExitCode {
    let done = debate().and_then(|verdict| {
        let failed = |error: &dyn std::fmt::Display| format!("cannot write the verdict: {error}");
        let text = serde_json::to_vec(&verdict).map_err(|error| failed(&error))?;
        std::io::stdout().write_all(&text).map_err(|error| failed(&error))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn debate() -> Result<DebateVerdict, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot start the debate: {error}");
    let path = std::env::args_os().nth(1).ok_or("missing argument: path of the job file")?;
    let job = std::fs::read(path).map_err(|error| format!("cannot read the job file: {error}"))?;
    let job: DebateSpec =
        serde_json::from_slice(&job).map_err(|error| format!("invalid job file: {error}"))?;
    let minutes = Transcript::of(job.personas.decision_makers.len());
    let cancel = Cancel::new();
    let channel = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
    let model = host_model::HostModel::open(channel, minutes, cancel.clone())
        .map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    runtime.block_on(job.run(Arc::new(model), cancel)).map_err(|error| match error {
        NodeError::Stop(error) => error.to_string(),
        NodeError::Failed(error) => error.to_string(),
    })
}
