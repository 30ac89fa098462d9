//! `assize exec`: code that one already has, in a fresh sandbox.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::Path;

use assize_code::{Language, package_layers};
use assize_config::{Environment, Limits, Settings, show_size};
use assize_sandbox::{Command, Outcome, Sandbox, Sandboxes, WORKSPACE};
use assize_types::{Cancel, CancelReason, Failure, FailureKind};
use clap::CommandFactory;
use serde_json::{Value, json};

use crate::args::{Cli, ExecArgs};
use crate::artifacts::{self, Taken};
use crate::exit::Exit;
use crate::own_name::OwnName;
use crate::passing::{Followed, Show, follow, pass_input};
use crate::terminal::{self, DIM, paint};
use crate::{host_files, input};

/// The longest code, in MiB.
const LONGEST: u64 = 4;

pub(crate) async fn run(
    args: ExecArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let (file, arguments) = code(&args)?;
    let arguments = match arguments.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => {
            if let Some(option) = misplaced_option(file, arguments).filter(|_| !args.quiet) {
                terminal::warn(&format!(
                    "`{option}` after `{}` goes to the program; put it before the file if it is meant for \
                     assize, or `--` after the file to silence this",
                    file.display()
                ));
            }
            arguments
        }
    };
    let language = language(&args, file)?;
    if let Some(folder) = &args.out {
        // Before the work, not after it.
        artifacts::check_folder(folder)?;
    }
    let inputs = inputs(&args.files, around)?;
    let code = if file == Path::new("-") {
        input::from_standard_input("the code", LONGEST, &cancel).await?
    } else {
        input::from_file("the code", LONGEST, file)?
    };
    let given = Given { file, code: &code, arguments, inputs: &inputs };
    let sandboxes = Sandboxes::new(config, around);
    let mut spec = sandboxes.spec(args.sandbox.image.clone())?;
    let interrupted = |reason: CancelReason| Failure::new(FailureKind::Interrupted, reason);
    if !args.packages.is_empty() {
        if language != Language::Python {
            let message = format!("`--packages` is for Python, and this is {}", language.name());
            return Err(Failure::new(FailureKind::Usage, message));
        }
        let layers = package_layers(&args.packages, &sandboxes, &spec);
        spec.layers = tokio::select! {
            layers = layers => layers?,
            reason = cancel.cancelled() => return Err(interrupted(reason)),
        };
    }
    let languages = [language];
    let made = sandboxes.make(&languages, &spec);
    let (manager, sandbox, why) = tokio::select! {
        made = made => made?,
        reason = cancel.cancelled() => return Err(interrupted(reason)),
    };
    let isolation = manager.isolation();
    let enforcement = manager.backend().enforcement();
    if !args.quiet {
        sandboxes.loose(&enforcement).iter().for_each(|loose| terminal::warn(loose));
    }
    let done = tokio::select! {
        done = trial(&sandbox, &args, language, &given) => done,
        reason = cancel.cancelled() => Err(interrupted(reason)),
    };
    sandbox.end().await;
    let (Followed { stdout, stderr, outcome }, taken) = done?;
    if args.json {
        terminal::out_json(&json!({
            "exit_code": outcome.exit_code, "signal": outcome.signal, "timed_out": outcome.timed_out,
            "out_of_memory": outcome.out_of_memory, "output_cut": outcome.output_cut, "disk_full": outcome.disk_full,
            "duration_ms": json!(outcome)["duration_ms"], "peak_memory_bytes": outcome.peak_memory,
            "stdout": String::from_utf8_lossy(&stdout), "stderr": String::from_utf8_lossy(&stderr),
            "language": language.name(), "isolation": isolation, "why": why, "warm": outcome.warm,
            "limits": spec.limits.as_json(), "enforcement": enforcement,
            "artifacts": taken.as_json(),
        }))?;
    } else if !args.quiet {
        let loose = enforcement.memory.starts_with("best effort");
        let loose = if loose { " · memory limit: best effort" } else { "" };
        let about = format!("{isolation} ({why}){loose}");
        tell(&outcome, &spec.limits, &taken, args.out.as_deref(), &about);
    }
    Ok(exit_code(&outcome))
}

/// What the exit code of the process is.
pub(crate) fn exit_code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome { timed_out: true, .. } => Exit::TimedOut.code(),
        Outcome { out_of_memory: true, signal: Some(9), .. } => Exit::OutOfMemory.code(),
        outcome => u8::try_from(outcome.status()).unwrap_or(u8::MAX),
    }
}

trait AsJson {
    fn as_json(&self) -> Value;
}

impl AsJson for Limits {
    fn as_json(&self) -> Value {
        json!({
            "memory_bytes": self.memory, "cpus": f64::from(self.cpu_millis) / 1000.0,
            "timeout_seconds": self.wall.as_secs_f64(), "processes": self.processes,
            "output_bytes": self.output, "disk_bytes": self.disk,
        })
    }
}

impl AsJson for Taken {
    fn as_json(&self) -> Value {
        let files: Vec<Value> =
            self.files.iter().map(|(name, size)| json!({"name": name, "bytes": size})).collect();
        json!({"files": files, "left": self.left})
    }
}

/// The language of that name.
pub(crate) fn language_named(name: &str) -> Result<Language, Failure> {
    let lower = name.to_ascii_lowercase();
    let usual = match lower.as_str() {
        "py" | "python3" => "python",
        "sh" => "bash",
        "js" | "node" => "javascript",
        other => other,
    };
    usual.parse().map_err(|_| {
        let message = format!("`{name}` is no language that can be run");
        Failure::new(FailureKind::Usage, message).hint("use python, bash or javascript")
    })
}

/// The file, and what is passed on to it.
fn code(args: &ExecArgs) -> Result<(&Path, &[String]), Failure> {
    let (file, arguments) = match args.code.split_first() {
        Some((file, arguments)) => (Path::new(file), arguments),
        None => (Path::new("-"), &[] as &[String]),
    };
    let shown = file.display();
    let refused = |why: String| Err(Failure::new(FailureKind::Usage, why));
    match file.to_str() {
        Some(text) if text.len() > 1 && text.starts_with('-') => {
            refused(format!("there is no option `{shown}`"))
                .map_err(|failure| failure.hint("`assize exec --help` shows those there are"))
        }
        _ if file.is_dir() => refused(format!("`{shown}` is a folder, not a file of code")),
        _ => Ok((file, arguments)),
    }
}

/// An argument of the program that is an option of `assize exec`, unless `--` before the file says that it is meant so.
fn misplaced_option<'a>(file: &Path, arguments: &'a [String]) -> Option<&'a str> {
    let before_file = std::env::args_os().take_while(|word| word != file.as_os_str());
    if before_file.into_iter().any(|word| word == "--") {
        return None;
    }
    let mut cli = Cli::command();
    cli.build();
    let exec = cli.find_subcommand("exec")?;
    let is_ours = |name: &str| exec.get_arguments().any(|arg| arg.get_long() == Some(name));
    let names = arguments.iter().take_while(|word| *word != "--").filter_map(|word| {
        let name = word.strip_prefix("--")?;
        Some((word.split('=').next()?, name.split('=').next()?))
    });
    names.into_iter().find(|(_, name)| is_ours(name)).map(|(option, _)| option)
}

fn language(args: &ExecArgs, file: &Path) -> Result<Language, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    match &args.language {
        Some(name) => language_named(name),
        None if file == Path::new("-") => Ok(Language::Python),
        None => Language::of_file(file).ok_or_else(|| {
            let message = format!("`{}` does not say what it is written in", file.display());
            usage(message).hint("say it with `--language python`, `bash` or `javascript`")
        }),
    }
}

/// A file for the sandbox: where it is here, as the user named it, and its name there.
pub(crate) struct Input {
    pub(crate) path: std::path::PathBuf,
    pub(crate) name: String,
}

/// The files that were named, as `PATH` or `PATH=NAME`.
pub(crate) fn inputs(files: &[String], around: &Environment) -> Result<Vec<Input>, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    let mut inputs: Vec<Input> = Vec::new();
    for given in files {
        let (path, name) = match given.rsplit_once('=') {
            // A file may have such a name itself.
            Some((path, name)) if !around.typed(given.as_ref()).exists() => (path, name.to_owned()),
            _ => {
                let name =
                    Path::new(given).file_name().map(|name| name.to_string_lossy().into_owned());
                (given.as_str(), name.ok_or_else(|| usage(format!("`{given}` is no file")))?)
            }
        };
        let plain = !name.is_empty()
            && !name.starts_with('/')
            && !name.chars().any(char::is_control)
            && !Path::new(&name)
                .components()
                .any(|part| !matches!(part, std::path::Component::Normal(_)));
        if !plain {
            return Err(usage(format!("`{name}` is no name for a file in the sandbox")));
        }
        if inputs.iter().any(|input| input.name == name) {
            let hint = format!("name them apart, as in `--file {path}=other-{name}`");
            return Err(usage(format!("two files would be `{name}` in the sandbox")).hint(hint));
        }
        inputs.push(Input { path: path.into(), name });
    }
    Ok(inputs)
}

/// What is run, and with what.
#[derive(Clone, Copy)]
struct Given<'a> {
    /// Where the code came from; `-` for standard input.
    file: &'a Path,
    code: &'a str,
    arguments: &'a [String],
    inputs: &'a [Input],
}

/// Gives the files, runs the code, takes what it left.
async fn trial(
    sandbox: &Sandbox,
    args: &ExecArgs,
    language: Language,
    given: &Given<'_>,
) -> Result<(Followed, Taken), Failure> {
    let Given { file, code, arguments, inputs } = *given;
    // Standard input that the code came from cannot be its input, too.
    let stdin = file != Path::new("-");
    let mut left = sandbox.spec().limits.disk;
    for input in inputs {
        let bytes = host_files::read(&input.path, left)?;
        left = left.saturating_sub(bytes.len() as u64);
        sandbox.write_with_mode(&format!("{WORKSPACE}/{}", input.name), &bytes, 0o444).await?;
    }
    let mut command = Command::default().args(arguments.iter().cloned()).stdin(stdin);
    let layers: Vec<&str> = sandbox.spec().layers.iter().map(|layer| layer.at.as_str()).collect();
    if !layers.is_empty() {
        command.env.insert("PYTHONPATH".to_owned(), layers.join(":"));
    }
    command.env.extend(args.env.iter().cloned());
    let running = sandbox.run(language, code.as_bytes(), command).await?;
    if stdin {
        tokio::spawn(pass_input(running.stdin()));
    }
    let show = match args {
        ExecArgs { json: true, .. } => Show::Keep,
        ExecArgs { raw: true, .. } => Show::Raw,
        _ => Show::Harmless,
    };
    let followed = follow(running, show, OwnName::of(file, language)).await?;
    let taken = match &args.out {
        Some(folder) => {
            let names: BTreeSet<String> = inputs.iter().map(|input| input.name.clone()).collect();
            artifacts::take(sandbox, WORKSPACE, folder, &names).await?
        }
        None => Taken::default(),
    };
    Ok((followed, taken))
}

/// One line for each limit that was met, and how it went.
pub(crate) fn tell(
    outcome: &Outcome,
    limits: &Limits,
    taken: &Taken,
    out: Option<&Path>,
    about: &str,
) {
    tell_limits(outcome, limits, true);
    for left in &taken.left {
        terminal::warn(left);
    }
    if let Some(folder) = out {
        let files = if taken.files.len() == 1 { "file" } else { "files" };
        terminal::note(&format!("{} {files} taken into `{}`", taken.files.len(), folder.display()));
    }
    if std::io::stderr().is_terminal() {
        let seconds = outcome.duration.as_secs_f64();
        let peak = outcome.peak_memory.div_ceil(1 << 20);
        terminal::note(&paint(DIM, format!("{seconds:.2} s · {peak} MB · {about}")));
    }
}

/// One line for each limit that was met. Who can do something about it is told by which option.
pub(crate) fn tell_limits(outcome: &Outcome, limits: &Limits, has_options: bool) {
    let more = |option: &str, does: &str| match has_options {
        true => format!("`{option}` {does} more"),
        false => "a new sandbox can have more".to_owned(),
    };
    let seconds = limits.wall.as_secs_f64();
    let met = [
        (
            outcome.timed_out,
            format!("stopped: its time of {seconds} s is up ({})", more("--timeout", "gives it")),
        ),
        (
            outcome.out_of_memory && outcome.signal != Some(9),
            format!(
                "something in it ran out of memory, it had {} ({})",
                show_size(limits.memory),
                more("--memory", "gives it")
            ),
        ),
        (
            outcome.out_of_memory && outcome.signal == Some(9),
            format!(
                "stopped: out of memory, it had {} ({})",
                show_size(limits.memory),
                more("--memory", "gives it")
            ),
        ),
        (
            outcome.output_cut,
            format!(
                "output was cut: {} of each are kept ({})",
                show_size(limits.output),
                more("--output", "keeps")
            ),
        ),
        (
            outcome.disk_full,
            format!(
                "the disk is full: it had {} for files ({})",
                show_size(limits.disk),
                more("--disk", "gives it")
            ),
        ),
    ];
    for (_, line) in met.iter().filter(|(met, _)| *met) {
        terminal::warn(line);
    }
    if let (Some(signal), false) = (outcome.signal, outcome.timed_out || outcome.out_of_memory) {
        terminal::warn(&format!("it was ended by signal {signal}"));
    }
}
