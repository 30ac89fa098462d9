//! A program to run in a sandbox, and how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interpreter::Language;

/// A program to run in a sandbox.
#[derive(Debug, Clone, Default)]
pub struct Command {
    pub(crate) run: Run,
    pub args: Vec<String>,
    /// Added to the few variables that every program has.
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    /// Whether input will be given to it.
    pub stdin: bool,
    /// Another limit than the sandbox's own; never a wider one.
    pub wall: Option<Duration>,
    /// It may talk to the host.
    pub(crate) talk: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Run {
    Program(String),
    /// The code that is put at the language's usual place.
    Code(Language),
    /// Code at another place.
    Script(Language, String),
}

impl Default for Run {
    fn default() -> Run {
        Run::Program("/bin/sh".to_owned())
    }
}

impl Command {
    /// A program, by its path or by a name that is looked for in the usual folders.
    pub fn new(program: impl Into<String>) -> Command {
        Command { run: Run::Program(program.into()), ..Command::default() }
    }

    /// Code that is in the sandbox already, by the interpreter of its language.
    pub fn script(language: Language, path: impl Into<String>) -> Command {
        Command { run: Run::Script(language, path.into()), ..Command::default() }
    }

    pub(crate) fn code(language: Language) -> Command {
        Command { run: Run::Code(language), ..Command::default() }
    }

    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Command {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.env.insert(name.into(), value.into());
        self
    }

    pub fn cwd(mut self, folder: impl Into<String>) -> Command {
        self.cwd = Some(folder.into());
        self
    }

    pub fn stdin(mut self, given: bool) -> Command {
        self.stdin = given;
        self
    }

    pub fn wall(mut self, wall: Duration) -> Command {
        self.wall = Some(wall);
        self
    }
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub timed_out: bool,
    /// Something in the sandbox was ended for want of memory meanwhile: the program itself, if it was
    /// ended by signal 9, or one that it started.
    pub out_of_memory: bool,
    /// It wrote more than was allowed, and the rest was thrown away.
    pub output_cut: bool,
    /// No room for files was left at its end.
    pub disk_full: bool,
    #[serde(rename = "duration_ms", with = "millis")]
    #[schemars(with = "f64")]
    pub duration: Duration,
    /// The most memory that was in use in the sandbox; of the largest process alone where nobody
    /// keeps an account of the whole.
    #[serde(rename = "peak_memory_bytes")]
    pub peak_memory: u64,
    /// It ran in an interpreter that was waiting for it.
    pub warm: bool,
}

/// Milliseconds, with the three places that were measured.
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

impl Outcome {
    /// How long it took, in milliseconds.
    pub fn duration_ms(&self) -> f64 {
        in_millis(self.duration)
    }

    pub fn success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    /// What a shell would call its end: its exit code, or 128 and the signal.
    pub fn status(&self) -> i32 {
        match (self.exit_code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 128,
        }
    }
}

/// Where something was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
}
