//! `assize exec`: code that one already has, in a fresh sandbox.

use std::io::IsTerminal;
use std::path::Path;

use assize_code::exec::{Ask, Outcome, Prepared};
use assize_code::{InputFile, Language};
use assize_config::{Limits, show_size};
use assize_service::Services;
use assize_service::files::{self, Taken};
use assize_types::{Cancel, Failure, FailureKind};
use clap::CommandFactory;
use serde_json::{Value, json};

use crate::args::{Cli, ExecArgs};
use crate::exit::Exit;
use crate::own_name::OwnName;
use crate::passing::{Screen, Show};
use crate::terminal::{self, DIM, paint};
use crate::{input, until_cancelled};

/// The longest code, in MiB.
const LONGEST: u64 = 4;

pub(crate) async fn run(args: ExecArgs, services: Services, cancel: Cancel) -> Result<u8, Failure> {
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
    if !args.packages.is_empty() && language != Language::Python {
        let message = format!("`--packages` is for Python, and this is {}", language.name());
        return Err(Failure::new(FailureKind::Usage, message));
    }
    if let Some(folder) = &args.out {
        // Before the work, not after it.
        files::check_folder(folder, &services.environment)?;
    }
    let inputs = inputs(&args.files, &services)?;
    let is_standard_input = file == Path::new("-");
    let code = match is_standard_input {
        true => input::from_standard_input("the code", LONGEST, &cancel).await?,
        false => input::from_file("the code", LONGEST, file)?,
    };
    let ask = Ask {
        code,
        language,
        arguments: arguments.to_vec(),
        env: args.env.iter().cloned().collect(),
        inputs,
        packages: args.packages.clone(),
        image: args.sandbox.image.clone(),
    };
    let sandboxes = services.sandboxes();
    let prepared = until_cancelled(&cancel, Prepared::new(ask, &sandboxes)).await?;
    let enforcement = prepared.enforcement();
    if let Some(enforcement) = enforcement.as_ref().filter(|_| !args.quiet) {
        sandboxes.loose(enforcement).iter().for_each(|loose| terminal::warn(loose));
    }
    let show = match args {
        ExecArgs { json: true, .. } => Show::Keep,
        ExecArgs { raw: true, .. } => Show::Raw,
        _ => Show::Harmless,
    };
    let mut screen = Screen::new(show, OwnName::of(file, language));
    // Standard input that the code came from cannot be its input, too.
    let done = async {
        let outcome = follow(&prepared, &mut screen, !is_standard_input).await?;
        let taken = match &args.out {
            Some(folder) => files::keep(prepared.harvest().await?, folder, &services.environment)?,
            None => Taken::default(),
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
            "stdout": String::from_utf8_lossy(&screen.kept_stdout),
            "stderr": String::from_utf8_lossy(&screen.kept_stderr),
            "language": language.name(), "isolation": isolation, "why": why, "warm": outcome.warm,
            "limits": limits.as_json(), "enforcement": enforcement,
            "artifacts": taken.as_json(),
        }))?;
    } else if !args.quiet {
        let loose = enforcement.is_some_and(|by| by.memory.starts_with("best effort"));
        let loose = if loose { " · memory limit: best effort" } else { "" };
        let about = format!("{isolation} ({why}){loose}");
        tell(&outcome, &limits, &taken, args.out.as_deref(), &about);
    }
    Ok(exit_code(&outcome))
}

/// Runs the program, and shows what it writes.
async fn follow(
    prepared: &Prepared,
    screen: &mut Screen,
    has_stdin: bool,
) -> Result<Outcome, Failure> {
    let running = prepared.start(has_stdin).await?;
    if has_stdin {
        running.feed(tokio::io::stdin());
    }
    let outcome = running.follow(async |output, bytes| screen.pass(output, bytes).await).await?;
    screen.finish().await?;
    Ok(outcome)
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

/// Reads the files that were named, as `PATH` or `PATH=NAME`.
pub(crate) fn inputs(files: &[String], services: &Services) -> Result<Vec<InputFile>, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    let mut room = services.sandboxes().limits().disk;
    let mut inputs: Vec<InputFile> = Vec::new();
    for given in files {
        let (path, name) = match given.rsplit_once('=') {
            // A file may have such a name itself.
            Some((path, name)) if !services.environment.typed(given.as_ref()).exists() => {
                (path, name.to_owned())
            }
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
        let bytes = files::read(path.as_ref(), room, &services.environment)?;
        room = room.saturating_sub(bytes.len() as u64);
        inputs.push(InputFile { name, bytes: bytes.into() });
    }
    Ok(inputs)
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
