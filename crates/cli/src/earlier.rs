//! `assize runs resume` and `assize runs fork`: the command of the run's kind, with a typed request.

use assize_config::{Environment, Settings};
use assize_run::{Run, RunKind, find, no_such_run};
use assize_service::{PARALLEL, settings_of_run, stores};
use assize_types::{Cancel, Failure, FailureKind};

use crate::args::{
    Again, ConsultArgs, DebateArgs, EvalArgs, ForkArgs, ForkRunArgs, ResumeArgs, RunArgs, WorkArgs,
};
use crate::{consult, debate, eval, run, work};

async fn earlier(name: &str, config: &Settings, around: &Environment) -> Result<Run, Failure> {
    let store = stores::open_to_read(config, around).await?.ok_or_else(|| no_such_run(name))?;
    find(&*store, name).await
}

/// Resumes a run of any kind, with the model and isolation that it was started with.
pub(crate) async fn resume(
    args: ResumeArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let earlier = earlier(&args.run, config, around).await?;
    let config = &settings_of_run(config, &earlier)?;
    let model = args.model();
    let ResumeArgs { take_over, out, json, quiet, .. } = args;
    let again = Again { resume: Some(earlier.id.to_string()), take_over };
    if out.is_some() && !matches!(earlier.kind, RunKind::Code | RunKind::Consult) {
        let message =
            format!("`--out` is for programs and consultations, not for {}", earlier.kind);
        return Err(Failure::new(FailureKind::Usage, message));
    }
    match earlier.kind {
        RunKind::Code => {
            let args = RunArgs { again, out, json, quiet, model, ..RunArgs::default() };
            run::run(args, config, around, cancel).await
        }
        RunKind::Eval => {
            let parallel = PARALLEL;
            let args = EvalArgs { again, json, quiet, model, parallel, ..EvalArgs::default() };
            eval::run(args, config, around, cancel).await
        }
        RunKind::Work => {
            let args = WorkArgs { again, json, quiet, model, ..WorkArgs::default() };
            work::run(args, config, around, cancel).await
        }
        RunKind::Debate => {
            let Again { resume, take_over } = again;
            let args =
                DebateArgs { resume, take_over, json, quiet, model, ..DebateArgs::default() };
            debate::run(args, config, around, cancel).await.map(|()| 0)
        }
        RunKind::Consult => {
            let args = ConsultArgs { again, out, json, quiet, model, ..ConsultArgs::default() };
            consult::run(args, config, around, cancel).await.map(|()| 0)
        }
    }
}

/// Starts a new debate or consultation from an earlier one.
pub(crate) async fn fork(
    args: ForkRunArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<(), Failure> {
    let earlier = earlier(&args.run, config, around).await?;
    let config = &settings_of_run(config, &earlier)?;
    let model = args.model();
    let ForkRunArgs { at, set, out, yes, json, quiet, .. } = args;
    let fork = ForkArgs { fork: Some(earlier.id.to_string()), at, set };
    match earlier.kind {
        RunKind::Debate => {
            if out.is_some() || yes {
                let message = "`--out` and `--yes` are for consultations";
                return Err(Failure::new(FailureKind::Usage, message));
            }
            let args = DebateArgs { fork, json, quiet, model, ..DebateArgs::default() };
            debate::run(args, config, around, cancel).await
        }
        RunKind::Consult => {
            let args = ConsultArgs { fork, out, yes, json, quiet, model, ..ConsultArgs::default() };
            consult::run(args, config, around, cancel).await
        }
        RunKind::Code | RunKind::Eval | RunKind::Work => {
            let message =
                format!("`{}` is of a kind that cannot be forked: {}", earlier.id, earlier.kind);
            let failure = Failure::new(FailureKind::Usage, message);
            Err(failure.hint("debates and consultations can be"))
        }
    }
}
