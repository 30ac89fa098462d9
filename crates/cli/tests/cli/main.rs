//! The built binary, as a user meets it: its words, its exit codes, what it sends.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod anchor;
mod architecture;
mod ask;
mod cluster;
mod codes;
mod consult;
mod debate;
mod delegated;
mod drafts;
mod eval;
mod exec;
mod failures;
mod files;
mod forged;
mod gate_attack;
mod killed;
mod machines;
mod mcp;
mod readme;
mod rollback;
mod run;
mod runs;
mod sandboxes;
mod serve;
mod settings;
mod trust;
mod verify_python;
mod walls;
mod work;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assize_testkit::{FakeProvider, Kind};

/// A home and a working folder of its own, and nothing of the real environment.
struct Home {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// What a run of the binary came to.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("work")).unwrap();
        // Nobody answers where Ollama would be.
        Home { folder, variables: vec![] }.set("OLLAMA_HOST", "127.0.0.1:9")
    }

    fn set(mut self, name: &str, value: impl Into<String>) -> Home {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// A home in which this fake is the provider.
    fn with(kind: Kind, fake: &FakeProvider) -> Home {
        let (key, url) = match kind {
            Kind::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            Kind::OpenAi => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            Kind::Google => ("GEMINI_API_KEY", "GEMINI_BASE_URL"),
            Kind::Groq => ("GROQ_API_KEY", "GROQ_BASE_URL"),
            Kind::OpenRouter => ("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
            Kind::Ollama => ("OLLAMA_API_KEY", "OLLAMA_HOST"),
        };
        Home::new().set(key, fake.key()).set(url, fake.base_url())
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Where runs are kept.
    fn store(&self) -> PathBuf {
        self.folder.path().join(".local/state/assize/store.db")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assize"));
        command.args(args).env_clear().env("HOME", self.folder.path()).current_dir(self.work());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap(), self.folder.path())
    }

    fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A command that does not want all of it closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(input);
        ran(child.wait_with_output().unwrap(), self.folder.path())
    }
}

fn ran(output: Output, home: &Path) -> Ran {
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap().replace(&home.display().to_string(), "~")
    };
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}
