//! A program to run in a sandbox, and its outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interpreter::Language;

/// A program to run in a sandbox.
#[derive(Debug, Clone, Default)]
pub struct ProgramCommand {
    pub(crate) run: CommandKind,
    pub args: Vec<String>,
    /// Environment variables of the program, in addition to the default environment of the sandbox.
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    /// Whether the caller sends standard input to the program. If `false`, the standard input of the program is empty.
    pub stdin: bool,
    /// Time limit of this program; ignored if it is longer than the time limit of the sandbox.
    pub time_limit: Option<Duration>,
    /// Whether the program is allowed to send calls (such as requests for a model response) and events to the host.
    pub(crate) may_call_host: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum CommandKind {
    Program(String),
    /// Runs the file at [`Language::code_path`] with the interpreter of this language.
    Code(Language),
    /// Runs the file at this path with the interpreter of this language.
    Script(Language, String),
}

impl Default for CommandKind {
    fn default() -> CommandKind {
        CommandKind::Program("/bin/sh".to_owned())
    }
}

impl ProgramCommand {
    /// Command that runs a program, given by its path or by a name that is looked up in `PATH`.
    pub fn new(program: impl Into<String>) -> ProgramCommand {
        ProgramCommand { run: CommandKind::Program(program.into()), ..ProgramCommand::default() }
    }

    /// Command that runs a script file in the sandbox with the interpreter of its language.
    pub fn script(language: Language, path: impl Into<String>) -> ProgramCommand {
        ProgramCommand {
            run: CommandKind::Script(language, path.into()),
            ..ProgramCommand::default()
        }
    }

    pub(crate) fn code(language: Language) -> ProgramCommand {
        ProgramCommand { run: CommandKind::Code(language), ..ProgramCommand::default() }
    }

    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> ProgramCommand {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> ProgramCommand {
        self.env.insert(name.into(), value.into());
        self
    }

    pub fn cwd(mut self, folder: impl Into<String>) -> ProgramCommand {
        self.cwd = Some(folder.into());
        self
    }

    pub fn stdin(mut self, given: bool) -> ProgramCommand {
        self.stdin = given;
        self
    }

    pub fn time_limit(mut self, wall: Duration) -> ProgramCommand {
        self.time_limit = Some(wall);
        self
    }
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramOutcome {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub timed_out: bool,
    /// A process in the sandbox was killed because memory ran out: the program itself if `signal` is 9, or a process
    /// that it started.
    pub out_of_memory: bool,
    /// The output exceeded the limit and was truncated.
    pub output_cut: bool,
    /// The disk was full when the program ended.
    pub disk_full: bool,
    #[serde(rename = "duration_ms", with = "millis")]
    #[schemars(with = "f64")]
    pub duration: Duration,
    /// Peak memory use of the sandbox in bytes, or of its largest process if the total is not measured.
    #[serde(rename = "peak_memory_bytes")]
    pub peak_memory: u64,
    /// The program ran in a pre-started interpreter.
    pub warm: bool,
}

/// Converts a duration to milliseconds, rounded to three decimal places (microseconds).
fn in_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(super::in_millis(*duration))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let millis = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(millis / 1e3).map_err(serde::de::Error::custom)
    }
}

impl ProgramOutcome {
    /// Duration of the program in milliseconds, rounded to three decimal places.
    pub fn duration_ms(&self) -> f64 {
        in_millis(self.duration)
    }

    pub fn success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    /// Exit status as a shell reports it: the exit code, or 128 plus the signal.
    pub fn status(&self) -> i32 {
        match (self.exit_code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 128,
        }
    }
}

/// Output stream of a program: standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramStream {
    Stdout,
    Stderr,
}
