//! The `assize` command: reads what was typed, gathers the settings, runs one command, and turns
//! its outcome into words and an exit code. It is the only room that prints.

mod account;
mod args;
mod ask;
mod attack;
mod cluster;
mod config_command;
mod config_edit;
mod consult;
mod debate;
mod doctor;
mod drafts;
mod eval;
mod exec;
mod exit;
mod hints;
mod image;
mod input;
mod kind;
mod logging;
mod own_name;
mod parse;
mod passing;
mod progress;
mod run;
mod runs;
mod sandboxes;
mod serve;
mod sessions;
mod terminal;
mod tokens;
mod voice;
mod work;
mod worker;

use std::process::ExitCode;

use assize_config::{Environment, Settings};
use assize_types::{Cancel, CancelReason, Failure, FailureKind};
use clap::CommandFactory;
use etcetera::BaseStrategy;

use crate::args::{
    Cli, Command, ConfigCommand, FlagSetting, ModelArgs, RunsCommand, SandboxCommand,
};
use crate::terminal::{DIM, paint};

fn main() -> ExitCode {
    let cli = parse::command_line();
    // What went wrong has been told by then.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| begin(cli)));
    match outcome {
        Err(_) => ExitCode::from(exit::exit_code(FailureKind::Internal)),
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(failure)) => {
            if failure.kind != FailureKind::Unread {
                terminal::fail(&failure);
            }
            ExitCode::from(exit::exit_code(failure.kind))
        }
    }
}

/// Runs one command; gives the exit code, which is 0 unless code that was run had another.
fn begin(cli: Cli) -> Result<u8, Failure> {
    if let Command::Completions { shell } = cli.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "assize", &mut script);
        return terminal::out(&String::from_utf8_lossy(&script)).map(|()| 0);
    }
    if cli.command.prints_answer() {
        // Before anything is spent on an answer that would be lost.
        terminal::check_open()?;
        terminal::keep_outcome();
    }
    let around = environment(cli.command.is_quiet())?;
    match &cli.command {
        // Before the settings are read: they may be invalid, and these commands repair them.
        Command::Config(ConfigCommand::Set { key, value }) => {
            return config_edit::set(key, value, &around).map(|()| 0);
        }
        Command::Config(ConfigCommand::Unset { key }) => {
            return config_edit::unset(key, &around).map(|()| 0);
        }
        _ => {}
    }
    let config = Settings::load(&around, &flags(&cli)?)?;
    logging::start(&config);
    hints::remember_cluster(&config);
    let services = voice::services(config, around, cli.command.is_quiet());
    let clamped = services.sandboxes().clamped_cpus();
    for warning in services.settings.origin.warnings.iter().chain(&clamped) {
        terminal::warn(warning);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::from_error(FailureKind::Environment, &error))?;
    let outcome = runtime.block_on(async {
        let cancel = Cancel::new();
        tokio::spawn(interrupt(cancel.clone()));
        let done = match cli.command {
            Command::Exec(args) => return exec::run(*args, services, cancel).await,
            Command::Run(args) => return run::run(*args, services, cancel).await,
            Command::Eval(args) => return eval::run(*args, services, cancel).await,
            Command::Work(args) => return work::run(*args, services, cancel).await,
            Command::Runs(RunsCommand::Resume(args)) => {
                return kind::resume(args, services, cancel).await;
            }
            Command::Runs(RunsCommand::Fork(args)) => {
                return kind::fork(*args, services, cancel).await;
            }
            Command::Sandbox(command) => {
                return sandboxes::run(command, services, cancel).await;
            }
            Command::Attack(args) => attack::run(args, services, cancel).await,
            Command::Image(command) => {
                until_cancelled(&cancel, image::run(command, &services)).await
            }
            Command::Ask(args) => ask::run(*args, services, cancel).await,
            Command::Debate(args) => debate::run(*args, services, cancel).await,
            Command::Consult(args) => consult::run(*args, services, cancel).await,
            Command::Mcp(args) => drafts::mcp::run(args, services, cancel).await,
            Command::Serve(args) => serve::run(*args, services, cancel).await,
            Command::Worker(args) => worker::run(args, services, cancel).await,
            Command::Cluster(command) => {
                until_cancelled(&cancel, cluster::run(command, &services)).await
            }
            Command::Drafts(command) => {
                until_cancelled(&cancel, drafts::commands::run(command, services)).await
            }
            Command::Gate(command) => {
                until_cancelled(&cancel, drafts::gate::run(command, services)).await
            }
            Command::Audit(command) => {
                let audit = drafts::audit::run(command, &services, cancel.clone());
                until_cancelled(&cancel, audit).await
            }
            Command::Runs(command) => until_cancelled(&cancel, runs::run(command, services)).await,
            Command::Sessions(command) => sessions::run(command, &services.environment),
            Command::Tokens(command) => tokens::run(command, &services.environment),
            Command::Doctor(args) => until_cancelled(&cancel, doctor::run(args, &services)).await,
            Command::Config(command) => {
                config_command::run(command, &services.settings, &services.environment)
            }
            Command::Completions { .. } => unreachable!("answered above"),
        };
        done.map(|()| 0)
    });
    // Someone may still be waiting for standard input.
    runtime.shutdown_background();
    outcome
}

/// For work that has nothing to put in order: it is dropped where it stands.
pub(crate) async fn until_cancelled<T>(
    cancel: &Cancel,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        reason = cancel.cancelled() => Err(Failure::new(FailureKind::Interrupted, reason)),
    }
}

/// The first signal to end ends the work in good order, the second at once.
async fn interrupt(cancel: Cancel) {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).ok();
    let mut terminate = listen(SignalKind::terminate());
    let mut hang_up = listen(SignalKind::hangup());
    loop {
        let reason = tokio::select! {
            _ = tokio::signal::ctrl_c() => CancelReason::Interrupted,
            () = heard(&mut terminate) => CancelReason::Terminated,
            () = heard(&mut hang_up) => CancelReason::HungUp,
        };
        if cancel.is_cancelled() {
            std::process::exit(exit::exit_code(FailureKind::Interrupted).into());
        }
        cancel.cancel(reason);
    }
}

/// Waits for a signal; for ever if it cannot be listened to.
async fn heard(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// The settings that were given as flags.
fn flags(cli: &Cli) -> Result<Vec<FlagSetting>, Failure> {
    let (mut flags, of_model) = match &cli.command {
        Command::Ask(args) => (Vec::new(), Some(args.model.clone())),
        Command::Run(args) => (args.sandbox.settings(), Some(args.model.clone())),
        Command::Consult(args) => (args.sandbox.settings(), Some(args.model.clone())),
        Command::Debate(args) => (args.sandbox.settings(), Some(args.model.clone())),
        Command::Eval(args) => (args.sandbox.settings(), Some(args.model.clone())),
        Command::Work(args) => (args.gate.settings(), Some(args.model.clone())),
        Command::Runs(RunsCommand::Resume(args)) => (Vec::new(), Some(args.model())),
        Command::Runs(RunsCommand::Fork(args)) => (Vec::new(), Some(args.model())),
        Command::Exec(args) => (args.sandbox.settings(), None),
        Command::Attack(args) => (args.settings(), None),
        Command::Worker(args) => (args.settings(), None),
        Command::Mcp(args) => (args.gate.settings(), None),
        Command::Sandbox(SandboxCommand::Create(args) | SandboxCommand::Hold(args)) => {
            (args.sandbox.settings(), None)
        }
        _ => (Vec::new(), None),
    };
    // A fork may be of a consultation.
    let has_roles =
        matches!(cli.command, Command::Consult(_) | Command::Runs(RunsCommand::Fork(_)));
    flags.extend(of_model.iter().flat_map(ModelArgs::settings));
    if let Some(wrong) = of_model.as_ref().and_then(ModelArgs::no_role) {
        let message = format!("`--model {wrong}` names no role, no model, or somebody once more");
        let hint = "roles are critic, D1, D2 and so on, analyst_1 and so on, financial, trend, synthesizer";
        return Err(Failure::new(FailureKind::Usage, message).hint(hint));
    }
    if of_model.is_some_and(|model| !has_roles && !model.by_role().is_empty()) {
        let message =
            "there are roles only in a consultation: `--model ROLE=MODEL` is for `assize consult`";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    flags.extend(cli.global_settings());
    Ok(flags)
}

/// All that is read from the process and from where it runs.
fn environment(quiet: bool) -> Result<Environment, Failure> {
    let lost = |what: &str| Failure::new(FailureKind::Environment, format!("cannot find {what}"));
    let strategy =
        etcetera::choose_base_strategy().map_err(|_| lost("your home folder; set `HOME`"))?;
    let config_folder = strategy.config_dir().join("assize");
    let state_folder = strategy.state_dir().unwrap_or_else(|| strategy.data_dir()).join("assize");
    Ok(Environment {
        // What is not text can be no setting of ours.
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        working_folder: std::env::current_dir()
            .and_then(|folder| folder.canonicalize())
            .map_err(|_| lost("the working folder; it may have been removed"))?,
        home: strategy.home_dir().canonicalize().unwrap_or_else(|_| strategy.home_dir().to_owned()),
        user_file: config_folder.join("config.toml"),
        cache_folder: strategy.cache_dir().join("assize"),
        state_folder,
        say: if quiet { |_| {} } else { |what| terminal::note(&paint(DIM, what)) },
    })
}
