//! `assize exec`: runs the user's code in a new sandbox.

use std::io::IsTerminal;
use std::path::Path;

use assize_code::exec::{CodeExecRequest, PreparedExec, ProgramOutcome};
use assize_code::{InputFile, Language};
use assize_config::{SandboxLimits, format_size};
use assize_service::Services;
use assize_service::files::{self, CopiedOut};
use assize_types::{Cancel, Failure, FailureKind};
use clap::CommandFactory;
use serde_json::{Value, json};

use crate::args::{Cli, ExecArgs};
use crate::exit::ExitStatus;
use crate::program_output::{OutputMode, ProgramOutput};
use crate::source_name_filter::SourceNameFilter;
use crate::terminal::{self, DIM, paint};
use crate::{input, until_cancelled};

/// Maximum size of the code, in MiB.
const MAX_CODE_MIB: u64 = 4;

pub(crate) async fn run(
    args: ExecArgs,
    services: &Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    let (file, arguments) = code(&args)?;
    let arguments = match arguments.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => {
            if let Some(option) = misplaced_option(file, arguments).filter(|_| !args.quiet) {
                terminal::warn(&format!(
                    "`{option}` after `{}` is passed to the program; if it is an option for assize, put it before \
                     the file; to silence this warning, put `--` after the file",
                    file.display()
                ));
            }
            arguments
        }
    };
    let language = language(&args, file)?;
    if !args.packages.is_empty() && language != Language::Python {
        let message = format!("`--packages` works only with Python, not with {}", language.name());
        return Err(Failure::new(FailureKind::Usage, message));
    }
    if let Some(folder) = &args.out {
        // The folder is checked before the program runs, so that an invalid folder cannot lose the program's files.
        files::check_folder(folder, &services.environment)?;
    }
    let inputs = inputs(&args.files, services)?;
    let is_standard_input = file == Path::new("-");
    let code = match is_standard_input {
        true => input::from_standard_input("the code", MAX_CODE_MIB, &cancel).await?,
        false => input::from_file("the code", MAX_CODE_MIB, file)?,
    };
    let ask = CodeExecRequest {
        code,
        language,
        arguments: arguments.to_vec(),
        env: args.env.iter().cloned().collect(),
        inputs,
        packages: args.packages.clone(),
        image: args.sandbox.image.clone(),
    };
    let sandboxes = services.sandboxes();
    let prepared = until_cancelled(&cancel, PreparedExec::new(ask, &sandboxes)).await?;
    let enforcement = prepared.enforcement();
    if let Some(enforcement) = enforcement.as_ref().filter(|_| !args.quiet) {
        sandboxes.best_effort_warnings(enforcement).iter().for_each(|loose| terminal::warn(loose));
    }
    let show = match args {
        ExecArgs { json: true, .. } => OutputMode::Capture,
        ExecArgs { raw: true, .. } => OutputMode::Raw,
        _ => OutputMode::Sanitize,
    };
    let mut screen = ProgramOutput::new(show, SourceNameFilter::of(file, language));
    // If the code was read from standard input, the program gets no input.
    let done = async {
        let outcome = run_and_print(&prepared, &mut screen, !is_standard_input).await?;
        let taken = match &args.out {
            Some(folder) => {
                files::write_collected(prepared.harvest().await?, folder, &services.environment)?
            }
            None => CopiedOut::default(),
        };
        Ok((outcome, taken))
    };
    let done = until_cancelled(&cancel, done).await;
    let (isolation, why) = (prepared.isolation(), prepared.why.clone());
    let limits = prepared.spec().limits.clone();
    prepared.end().await;
    let (outcome, taken) = done?;
    if args.json {
        terminal::out_json(&json!({
            "exit_code": outcome.exit_code, "signal": outcome.signal, "timed_out": outcome.timed_out,
            "out_of_memory": outcome.out_of_memory, "output_cut": outcome.output_cut, "disk_full": outcome.disk_full,
            "duration_ms": json!(outcome)["duration_ms"], "peak_memory_bytes": outcome.peak_memory,
            "stdout": String::from_utf8_lossy(&screen.captured_stdout),
            "stderr": String::from_utf8_lossy(&screen.captured_stderr),
            "language": language.name(), "isolation": isolation, "why": why, "warm": outcome.warm,
            "limits": limits.as_json(), "enforcement": enforcement,
            "artifacts": taken.as_json(),
        }))?;
    } else if !args.quiet {
        let loose = enforcement.is_some_and(|by| by.memory.starts_with("best effort"));
        let loose = if loose { " · memory limit: best effort" } else { "" };
        let about = format!("{isolation} ({why}){loose}");
        print_summary(&outcome, &limits, &taken, args.out.as_deref(), &about);
    }
    Ok(exit_code(&outcome))
}

/// Runs the program and prints its output.
async fn run_and_print(
    prepared: &PreparedExec,
    screen: &mut ProgramOutput,
    has_stdin: bool,
) -> Result<ProgramOutcome, Failure> {
    let running = prepared.start(has_stdin).await?;
    if has_stdin {
        running.feed(tokio::io::stdin());
    }
    let outcome = running.follow(async |output, bytes| screen.handle(output, bytes).await).await?;
    screen.finish().await?;
    Ok(outcome)
}

/// Returns the exit code of the command for the outcome of the program.
pub(crate) fn exit_code(outcome: &ProgramOutcome) -> u8 {
    match outcome {
        ProgramOutcome { timed_out: true, .. } => ExitStatus::TimedOut.code(),
        ProgramOutcome { out_of_memory: true, signal: Some(9), .. } => {
            ExitStatus::OutOfMemory.code()
        }
        outcome => u8::try_from(outcome.status()).unwrap_or(u8::MAX),
    }
}

/// A type with a JSON form for `assize exec --json`.
trait AsJson {
    fn as_json(&self) -> Value;
}

impl AsJson for SandboxLimits {
    fn as_json(&self) -> Value {
        json!({
            "memory_bytes": self.memory, "cpus": f64::from(self.cpu_millis) / 1000.0,
            "timeout_seconds": self.wall.as_secs_f64(), "processes": self.processes,
            "output_bytes": self.output, "disk_bytes": self.disk,
        })
    }
}

impl AsJson for CopiedOut {
    fn as_json(&self) -> Value {
        let files: Vec<Value> =
            self.files.iter().map(|(name, size)| json!({"name": name, "bytes": size})).collect();
        json!({"files": files, "left": self.not_copied})
    }
}

/// Parses the name of a language, or a usual alias such as `js`.
pub(crate) fn parse_language(name: &str) -> Result<Language, Failure> {
    let lower = name.to_ascii_lowercase();
    let canonical = match lower.as_str() {
        "py" | "python3" => "python",
        "sh" => "bash",
        "js" | "node" => "javascript",
        other => other,
    };
    canonical.parse().map_err(|_| {
        let message = format!("unsupported language `{name}`");
        Failure::new(FailureKind::Usage, message).hint("use python, bash or javascript")
    })
}

/// Splits the positional arguments into the path of the code file and the arguments of the program.
fn code(args: &ExecArgs) -> Result<(&Path, &[String]), Failure> {
    let (file, arguments) = match args.code.split_first() {
        Some((file, arguments)) => (Path::new(file), arguments),
        None => (Path::new("-"), &[] as &[String]),
    };
    let shown = file.display();
    let refused = |why: String| Err(Failure::new(FailureKind::Usage, why));
    match file.to_str() {
        Some(text) if text.len() > 1 && text.starts_with('-') => {
            refused(format!("unknown option `{shown}`"))
                .map_err(|failure| failure.hint("`assize exec --help` lists the options"))
        }
        _ if file.is_dir() => refused(format!("`{shown}` is a folder, not a code file")),
        _ => Ok((file, arguments)),
    }
}

/// Returns the first program argument that is also an option of `assize exec`, because the user may have misplaced it.
/// Returns `None` if there is a `--` before the file: then the option is meant for the program.
fn misplaced_option<'a>(file: &Path, arguments: &'a [String]) -> Option<&'a str> {
    let before_file = std::env::args_os().take_while(|word| word != file.as_os_str());
    if before_file.into_iter().any(|word| word == "--") {
        return None;
    }
    let options = arguments.iter().take_while(|word| *word != "--").filter_map(|word| {
        let name = word.strip_prefix("--")?;
        Some((word.split('=').next()?, name.split('=').next()?))
    });
    let mut options = options.peekable();
    options.peek()?;
    let mut cli = Cli::command();
    cli.build();
    let exec = cli.find_subcommand("exec")?;
    let is_ours = |name: &str| exec.get_arguments().any(|arg| arg.get_long() == Some(name));
    options.find(|(_, name)| is_ours(name)).map(|(option, _)| option)
}

/// Returns the language of the code: from `--language`, or by the file name. Code from standard input is Python.
fn language(args: &ExecArgs, file: &Path) -> Result<Language, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    match &args.language {
        Some(name) => parse_language(name),
        None if file == Path::new("-") => Ok(Language::Python),
        None => Language::of_file(file).ok_or_else(|| {
            let message = format!("cannot tell the language of `{}` from its name", file.display());
            usage(message).hint(
                "set the language with `--language python`, `--language bash` or `--language javascript`",
            )
        }),
    }
}

/// Reads the files given with `--file`, as `PATH` or `PATH=NAME`.
pub(crate) fn inputs(files: &[String], services: &Services) -> Result<Vec<InputFile>, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    let mut remaining = services.sandboxes().limits().disk;
    let mut inputs: Vec<InputFile> = Vec::new();
    for given in files {
        let (path, name) = match given.rsplit_once('=') {
            // If a file with the whole name exists, the `=` is part of its name.
            Some((path, name)) if !services.environment.resolve_path(given.as_ref()).exists() => {
                (path, name.to_owned())
            }
            _ => {
                let name =
                    Path::new(given).file_name().map(|name| name.to_string_lossy().into_owned());
                let unnamed = || usage(format!("`--file {given}`: the path has no file name"));
                (given.as_str(), name.ok_or_else(unnamed)?)
            }
        };
        let plain = !name.is_empty()
            && !name.starts_with('/')
            && !name.chars().any(char::is_control)
            && !Path::new(&name)
                .components()
                .any(|part| !matches!(part, std::path::Component::Normal(_)));
        if !plain {
            let message = format!("`--file {given}`: invalid file name in the sandbox: `{name}`");
            return Err(usage(message));
        }
        if inputs.iter().any(|input| input.name == name) {
            let hint =
                format!("give one of the files another name, as in `--file {path}=other-{name}`");
            return Err(
                usage(format!("two files would have the name `{name}` in the sandbox")).hint(hint)
            );
        }
        let bytes = files::read(path.as_ref(), remaining, &services.environment)?;
        remaining = remaining.saturating_sub(bytes.len() as u64);
        inputs.push(InputFile { name, bytes: bytes.into() });
    }
    Ok(inputs)
}

/// Prints warnings about reached limits, then the number of copied files, and on a terminal a summary of the execution.
/// `about` describes the sandbox.
pub(crate) fn print_summary(
    outcome: &ProgramOutcome,
    limits: &SandboxLimits,
    taken: &CopiedOut,
    out: Option<&Path>,
    about: &str,
) {
    warn_of_reached_limits(outcome, limits, true);
    for left in &taken.not_copied {
        terminal::warn(left);
    }
    if let Some(folder) = out {
        let files = if taken.files.len() == 1 { "file" } else { "files" };
        terminal::note(&format!("{} {files} copied to `{}`", taken.files.len(), folder.display()));
    }
    if std::io::stderr().is_terminal() {
        let seconds = outcome.duration.as_secs_f64();
        let peak = outcome.peak_memory.div_ceil(1 << 20);
        terminal::note(&paint(DIM, format!("{seconds:.2} s · {peak} MB · {about}")));
    }
}

/// Prints a warning for each limit that the program reached. If `has_options` is true, the command has flags
/// for limits, and the warning contains the flag that raises the limit.
pub(crate) fn warn_of_reached_limits(
    outcome: &ProgramOutcome,
    limits: &SandboxLimits,
    has_options: bool,
) {
    let how_to_raise = |option: &str| match has_options {
        true => format!("raise the limit with `{option}`"),
        false => "create a sandbox with a higher limit".to_owned(),
    };
    let seconds = limits.wall.as_secs_f64();
    let limits_reached = [
        (
            outcome.timed_out,
            format!(
                "the program was stopped: it reached its time limit of {seconds} s ({})",
                how_to_raise("--timeout")
            ),
        ),
        (
            outcome.out_of_memory && outcome.signal != Some(9),
            format!(
                "a process ran out of memory: the limit is {} ({})",
                format_size(limits.memory),
                how_to_raise("--memory")
            ),
        ),
        (
            outcome.out_of_memory && outcome.signal == Some(9),
            format!(
                "the program was stopped: it reached its memory limit of {} ({})",
                format_size(limits.memory),
                how_to_raise("--memory")
            ),
        ),
        (
            outcome.output_cut,
            format!(
                "the output was cut: the limit is {} for each stream ({})",
                format_size(limits.output),
                how_to_raise("--output")
            ),
        ),
        (
            outcome.disk_full,
            format!(
                "the disk of the sandbox is full: the limit is {} for all files ({})",
                format_size(limits.disk),
                how_to_raise("--disk")
            ),
        ),
    ];
    for (_, line) in limits_reached.iter().filter(|(reached, _)| *reached) {
        terminal::warn(line);
    }
    if let (Some(signal), false) = (outcome.signal, outcome.timed_out || outcome.out_of_memory) {
        terminal::warn(&format!("the program was killed by signal {signal}"));
    }
}
