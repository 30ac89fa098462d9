//! The `assize` command: parses the command line, loads the settings, runs one command, and turns its result into
//! output and an exit code. No other crate prints.

mod args;
mod ask;
mod attack;
mod cluster;
mod config_command;
mod config_edit;
mod consult;
mod cost_format;
mod debate;
mod doctor;
mod drafts;
mod eval;
mod exec;
mod exit;
mod file_edit;
mod hints;
mod image;
mod init;
mod input;
mod installation;
mod kind;
mod logging;
mod manual;
mod parse;
mod program_output;
mod progress;
mod questions;
mod run;
mod run_messages;
mod runs;
mod sandboxes;
mod serve;
mod sessions;
mod source_name_filter;
mod start_screen;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
mod static_names;
mod terminal;
mod tokens;
mod version;
mod work;
mod worker;

use std::io::IsTerminal;
use std::process::ExitCode;

use assize_config::{Environment, Settings};
use assize_service::sandboxes::SupervisorAhead;
use assize_types::{Cancel, CancelReason, Failure, FailureKind};
use clap::CommandFactory;
use etcetera::BaseStrategy;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{
    Cli, CliCommand, ConfigCommand, FlagSetting, McpArgs, McpCommand, ModelArgs, RunsCommand,
    SandboxCommand,
};
use crate::terminal::{DIM, paint};

fn main() -> ExitCode {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    static_names::use_own_modules();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let supervisor =
        arguments.first().is_some_and(|first| first == "exec").then(SupervisorAhead::prepare);
    let run: Box<dyn FnOnce() -> Result<u8, Failure>> =
        if arguments.is_empty() && std::io::stdout().is_terminal() {
            Box::new(show_start_screen)
        } else if let Some(detail) = version::requested(&arguments) {
            Box::new(move || version::show(detail).map(|()| 0))
        } else {
            let cli = parse::command_line();
            Box::new(|| run_command(cli, supervisor))
        };
    // The panic hook has already printed the message.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
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

/// Shows what is configured, and commands to try.
fn show_start_screen() -> Result<u8, Failure> {
    let environment = environment(false)?;
    let settings = Settings::load(&environment, &[])?;
    start_screen::show(&settings).map(|()| 0)
}

/// Runs one command and returns the exit code. A jail of the command uses the given supervisor.
fn run_command(cli: Cli, supervisor: Option<SupervisorAhead>) -> Result<u8, Failure> {
    if let CliCommand::Completions { shell } = cli.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "assize", &mut script);
        return terminal::out(&String::from_utf8_lossy(&script)).map(|()| 0);
    }
    if let CliCommand::Manual { folder } = &cli.command {
        return manual::write(folder).map(|()| 0);
    }
    if cli.command.prints_answer() {
        // Standard output is checked before money is spent on an answer that could not be printed.
        terminal::check_open()?;
        terminal::keep_exit_code();
    }
    let environment = environment(cli.command.is_quiet())?;
    match &cli.command {
        // `config set` and `config unset` run before the settings are loaded, because they can repair invalid settings.
        CliCommand::Config(ConfigCommand::Set { key, value }) => {
            return config_edit::set(key, value, &environment).map(|()| 0);
        }
        CliCommand::Config(ConfigCommand::Unset { key }) => {
            return config_edit::unset(key, &environment).map(|()| 0);
        }
        _ => {}
    }
    let runtime = match &cli.command {
        // `exec` has little work of its own, and threads would make its start slower.
        CliCommand::Exec(_) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    }
    .enable_all()
    .build()
    .map_err(|error| Failure::from_error(FailureKind::Environment, &error))?;
    if let Some(supervisor) = supervisor {
        supervisor.start(runtime.handle());
    }
    let config = Settings::load(&environment, &flags(&cli)?)?;
    logging::start(&config);
    hints::store_cluster_flag(&config);
    let services = run_messages::services(config, environment, cli.command.is_quiet());
    let clamped = services.sandboxes().clamped_cpus();
    for warning in services.settings.origin.warnings.iter().chain(&clamped) {
        terminal::warn(warning);
    }
    let outcome = runtime.block_on(async {
        let cancel = Cancel::new();
        tokio::spawn(handle_signals(Signals::listen(), cancel.clone()));
        let done = match cli.command {
            CliCommand::Exec(args) => {
                let code = exec::run(*args, &services, cancel).await?;
                // The sandbox is removed. Freeing all memory would only delay the exit.
                std::process::exit(code.into());
            }
            CliCommand::Run(args) => return run::run(*args, services, cancel).await,
            CliCommand::Eval(args) => return eval::run(*args, services, cancel).await,
            CliCommand::Work(args) => return work::run(*args, services, cancel).await,
            CliCommand::Runs(RunsCommand::Resume(args)) => {
                return kind::resume(args, services, cancel).await;
            }
            CliCommand::Runs(RunsCommand::Fork(args)) => {
                return kind::fork(*args, services, cancel).await;
            }
            CliCommand::Sandbox(command) => {
                return sandboxes::run(command, services, cancel).await;
            }
            CliCommand::Attack(args) => attack::run(args, services, cancel).await,
            CliCommand::Image(command) => {
                until_cancelled(&cancel, image::run(command, &services)).await
            }
            CliCommand::Ask(args) => ask::run(*args, services, cancel).await,
            CliCommand::Debate(args) => debate::run(*args, services, cancel).await,
            CliCommand::Consult(args) => consult::run(*args, services, cancel).await,
            CliCommand::Mcp(McpArgs { command: Some(McpCommand::Install(args)), .. }) => {
                drafts::mcp_install::run(&args, &services.environment)
            }
            CliCommand::Mcp(args) => drafts::mcp::run(args, services, cancel).await,
            CliCommand::Serve(args) => serve::run(*args, services, cancel).await,
            CliCommand::Worker(args) => worker::run(args, services, cancel).await,
            CliCommand::Cluster(command) => {
                until_cancelled(&cancel, cluster::run(command, &services)).await
            }
            CliCommand::Drafts(command) => {
                until_cancelled(&cancel, drafts::commands::run(command, services)).await
            }
            CliCommand::Gate(command) => {
                until_cancelled(&cancel, drafts::gate::run(command, services)).await
            }
            CliCommand::Audit(command) => {
                let audit = drafts::audit::run(command, &services, cancel.clone());
                until_cancelled(&cancel, audit).await
            }
            CliCommand::Runs(command) => {
                until_cancelled(&cancel, runs::run(command, services)).await
            }
            CliCommand::Sessions(command) => sessions::run(command, &services.environment),
            CliCommand::Tokens(command) => tokens::run(command, &services.environment),
            CliCommand::Doctor(args) => {
                until_cancelled(&cancel, doctor::run(args, &services)).await
            }
            CliCommand::Init(args) => {
                until_cancelled(&cancel, init::run(*args, &services, &cancel)).await
            }
            CliCommand::Config(command) => {
                config_command::run(command, &services.settings, &services.environment)
            }
            CliCommand::Completions { .. } | CliCommand::Manual { .. } => {
                unreachable!("handled above")
            }
        };
        done.map(|()| 0)
    });
    // Do not wait for a thread that is still blocked on standard input.
    runtime.shutdown_background();
    outcome
}

/// Awaits `work` until it ends or the command is cancelled. On cancellation, the future `work` is dropped, so it must
/// need no asynchronous cleanup.
pub(crate) async fn until_cancelled<T>(
    cancel: &Cancel,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        reason = cancel.cancelled() => Err(Failure::new(FailureKind::Interrupted, reason)),
    }
}

/// The signals that cancel a command. `None` if the handler could not be installed.
struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
}

impl Signals {
    fn listen() -> Signals {
        Signals {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hang_up: signal(SignalKind::hangup()).ok(),
        }
    }

    async fn next(&mut self) -> CancelReason {
        tokio::select! {
            () = received(&mut self.interrupt) => CancelReason::Interrupted,
            () = received(&mut self.terminate) => CancelReason::Terminated,
            () = received(&mut self.hang_up) => CancelReason::HungUp,
        }
    }
}

/// Handles SIGINT, SIGTERM and SIGHUP: the first signal cancels the command, the second exits at once. During a question
/// to the user, the first signal exits.
async fn handle_signals(mut signals: Signals, cancel: Cancel) {
    loop {
        let reason = signals.next().await;
        // While a question waits for an answer, nothing else runs that could react to the cancellation.
        if questions::interrupt() || cancel.is_cancelled() {
            std::process::exit(exit::exit_code(FailureKind::Interrupted).into());
        }
        cancel.cancel(reason);
    }
}

/// Waits until the process receives the signal. If the handler could not be installed, waits forever.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns the settings that were given as flags of the command. Fails if a `--model ROLE=MODEL` flag is invalid.
fn flags(cli: &Cli) -> Result<Vec<FlagSetting>, Failure> {
    let (mut flags, model_args) = match &cli.command {
        CliCommand::Ask(args) => (Vec::new(), Some(args.model.clone())),
        CliCommand::Run(args) => (args.sandbox.settings(), Some(args.model.clone())),
        CliCommand::Consult(args) => (args.sandbox.settings(), Some(args.model.clone())),
        CliCommand::Debate(args) => (args.sandbox.settings(), Some(args.model.clone())),
        CliCommand::Eval(args) => (args.sandbox.settings(), Some(args.model.clone())),
        CliCommand::Work(args) => (args.gate.settings(), Some(args.model.clone())),
        CliCommand::Runs(RunsCommand::Resume(args)) => (Vec::new(), Some(args.model())),
        CliCommand::Runs(RunsCommand::Fork(args)) => (Vec::new(), Some(args.model())),
        CliCommand::Exec(args) => (args.sandbox.settings(), None),
        CliCommand::Attack(args) => (args.settings(), None),
        CliCommand::Worker(args) => (args.settings(), None),
        CliCommand::Mcp(McpArgs { command: Some(McpCommand::Install(args)), .. }) => {
            (args.tools.gate.settings(), None)
        }
        CliCommand::Mcp(args) => (args.tools.gate.settings(), None),
        CliCommand::Sandbox(SandboxCommand::Create(args) | SandboxCommand::Hold(args)) => {
            (args.sandbox.settings(), None)
        }
        _ => (Vec::new(), None),
    };
    // `assize runs fork` also accepts roles, because the forked run may be a consultation.
    let has_roles =
        matches!(cli.command, CliCommand::Consult(_) | CliCommand::Runs(RunsCommand::Fork(_)));
    flags.extend(model_args.iter().flat_map(ModelArgs::settings));
    if let Some(wrong) = model_args.as_ref().and_then(ModelArgs::first_invalid_role) {
        let message = format!(
            "invalid `--model {wrong}`: the role is unknown or given twice, or the model is missing"
        );
        let hint = "roles are critic, D1, D2, …, analyst_1, analyst_2, …, financial, trend and synthesizer";
        return Err(Failure::new(FailureKind::Usage, message).hint(hint));
    }
    if model_args.is_some_and(|model| !has_roles && !model.by_role().is_empty()) {
        let message = "only consultations have roles: `--model ROLE=MODEL` is for `assize consult`";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    flags.extend(cli.global_settings());
    Ok(flags)
}

/// Returns the environment of this process: its variables, its working folder, and the user's folders.
fn environment(quiet: bool) -> Result<Environment, Failure> {
    let missing =
        |what: &str| Failure::new(FailureKind::Environment, format!("cannot find {what}"));
    let strategy =
        etcetera::choose_base_strategy().map_err(|_| missing("your home folder; set `HOME`"))?;
    let config_folder = strategy.config_dir().join("assize");
    let state_folder = strategy.state_dir().unwrap_or_else(|| strategy.data_dir()).join("assize");
    Ok(Environment {
        // Variables that are not valid UTF-8 are ignored, because no setting can have them as its value.
        variables: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        working_folder: std::env::current_dir()
            .and_then(|folder| folder.canonicalize())
            .map_err(|_| missing("the working folder; it may have been removed"))?,
        home: strategy.home_dir().canonicalize().unwrap_or_else(|_| strategy.home_dir().to_owned()),
        user_file: config_folder.join("config.toml"),
        cache_folder: strategy.cache_dir().join("assize"),
        state_folder,
        show_message: if quiet { |_| {} } else { |what| terminal::note(&paint(DIM, what)) },
    })
}
