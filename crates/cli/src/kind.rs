//! Dispatch on the kind of a run: selects the command that belongs to the kind. No other module of the crate
//! dispatches on the kind.

use std::path::{Path, PathBuf};

use assize_config::Environment;
use assize_run::{EffectRecord, Run, RunKind, Store, find, no_such_run};
use assize_service::{PARALLEL, Services, settings_of_run};
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::Value;

use crate::args::{
    ConsultArgs, DebateArgs, EvalArgs, ForkArgs, ForkRunArgs, ModelArgs, ResumeArgs, ResumeFlags,
    RunArgs, WorkArgs,
};
use crate::{consult, debate, eval, run, work};

/// A run with its journal records and its store.
pub(crate) struct StoredRun<'a> {
    pub(crate) run: &'a Run,
    pub(crate) records: &'a [EffectRecord],
    pub(crate) store: &'a dyn Store,
    pub(crate) environment: &'a Environment,
}

/// Options of `assize runs resume` or `assize runs fork`, for any kind of run.
struct EarlierArgs {
    resume_flags: ResumeFlags,
    fork: ForkArgs,
    out: Option<PathBuf>,
    yes: bool,
    json: bool,
    quiet: bool,
    model: ModelArgs,
}

/// Resumes or forks a run: executes the command that belongs to this kind of run, with the given options.
async fn start(
    kind: RunKind,
    args: EarlierArgs,
    services: Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let EarlierArgs { resume_flags: again, fork, out, yes, json, quiet, model } = args;
    match kind {
        RunKind::Code => {
            let args =
                RunArgs { resume_flags: again, out, json, quiet, model, ..RunArgs::default() };
            run::run(args, services, cancel).await
        }
        RunKind::Eval => {
            let parallel = PARALLEL;
            let args = EvalArgs {
                resume_flags: again,
                json,
                quiet,
                model,
                parallel,
                ..EvalArgs::default()
            };
            eval::run(args, services, cancel).await
        }
        RunKind::Work => {
            let args = WorkArgs { resume_flags: again, json, quiet, model, ..WorkArgs::default() };
            work::run(args, services, cancel).await
        }
        RunKind::Debate => {
            let ResumeFlags { resume, take_over } = again;
            let args =
                DebateArgs { resume, take_over, fork, json, quiet, model, ..Default::default() };
            debate::run(args, services, cancel).await.map(|()| 0)
        }
        RunKind::Consult => {
            let args = ConsultArgs {
                resume_flags: again,
                fork,
                out,
                yes,
                json,
                quiet,
                model,
                ..Default::default()
            };
            consult::run(args, services, cancel).await.map(|()| 0)
        }
    }
}

/// Formats the result of a run as a short text for the list of runs. `None` if there is no such text.
pub(crate) fn summary(run: &Run) -> Option<String> {
    let result = run.result.as_ref()?;
    match run.kind {
        RunKind::Code => run::stored::summary(result),
        RunKind::Eval => eval::summary(result),
        RunKind::Debate => debate::stored::summary(result),
        RunKind::Consult => consult::stored::summary(result),
        RunKind::Work => None,
    }
}

/// Extends the JSON object of the run with the fields that only this kind of run has.
pub(crate) async fn describe(
    stored: &StoredRun<'_>,
    transcripts: bool,
    object: &mut Value,
) -> Result<(), Failure> {
    match stored.run.kind {
        RunKind::Code => run::stored::describe(stored, object),
        RunKind::Debate if transcripts => debate::stored::describe(stored, object),
        RunKind::Consult if transcripts => return consult::stored::describe(stored, object),
        RunKind::Work => return work::stored::describe(stored, object).await,
        RunKind::Eval | RunKind::Debate | RunKind::Consult => {}
    }
    Ok(())
}

/// Prints the result of a run, and its transcripts if requested.
pub(crate) async fn show(stored: &StoredRun<'_>, transcripts: bool) -> Result<(), Failure> {
    match stored.run.kind {
        RunKind::Code => run::stored::show(stored, transcripts),
        RunKind::Eval => eval::show_stored(stored),
        RunKind::Debate => debate::stored::show(stored, transcripts),
        RunKind::Consult => consult::stored::show(stored, transcripts),
        RunKind::Work => work::stored::show(stored, transcripts).await,
    }
}

/// Lists the files of a run. If `out` is given, also copies the files to this folder.
pub(crate) async fn files(
    stored: &StoredRun<'_>,
    out: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    match stored.run.kind {
        RunKind::Consult => consult::stored::files(stored, out, json).await,
        RunKind::Work => work::stored::files(stored, out, json).await,
        RunKind::Code | RunKind::Eval | RunKind::Debate => {
            run::stored::files(stored, out, json).await
        }
    }
}

/// Finds a run by its id, a prefix of the id, or `latest`. Also returns the services of this command, but with the
/// settings of that run.
async fn find_run_with_settings(
    name: &str,
    services: Services,
) -> Result<(Run, Services), Failure> {
    let store = services.open_store_to_read().await?.ok_or_else(|| no_such_run(name))?;
    let run = find(&*store, name).await?;
    let settings = settings_of_run(&services.settings, &run)?;
    Ok((run, services.with_settings(settings)))
}

/// Runs the command `assize runs resume`.
pub(crate) async fn resume(
    args: ResumeArgs,
    services: Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let (earlier, services) = find_run_with_settings(&args.run, services).await?;
    let kind = earlier.kind;
    if args.out.is_some() && !matches!(kind, RunKind::Code | RunKind::Consult) {
        let message =
            format!("`--out` works only for programs and consultations, not for {kind} runs");
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let model = args.model();
    let ResumeArgs { take_over, out, json, quiet, .. } = args;
    let again = ResumeFlags { resume: Some(earlier.id.to_string()), take_over };
    let fork = ForkArgs::default();
    let args = EarlierArgs { resume_flags: again, fork, out, yes: false, json, quiet, model };
    start(kind, args, services, cancel).await
}

/// Runs the command `assize runs fork`.
pub(crate) async fn fork(
    args: ForkRunArgs,
    services: Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let (earlier, services) = find_run_with_settings(&args.run, services).await?;
    let (id, kind) = (&earlier.id, earlier.kind);
    if !kind.can_be_forked() {
        let message = format!("the run `{id}` cannot be forked: its kind is {kind}");
        let failure = Failure::new(FailureKind::Usage, message);
        return Err(failure.hint("only debates and consultations can be forked"));
    }
    if kind == RunKind::Debate && (args.out.is_some() || args.yes) {
        let message = "`--out` and `--yes` work only for consultations, not for debates";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let model = args.model();
    let ForkRunArgs { at, set, out, yes, json, quiet, .. } = args;
    let fork = ForkArgs { fork: Some(id.to_string()), at, set };
    let args =
        EarlierArgs { resume_flags: ResumeFlags::default(), fork, out, yes, json, quiet, model };
    start(kind, args, services, cancel).await
}
