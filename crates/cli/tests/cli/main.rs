//! Tests of the built binary: its output, its exit codes and the requests it sends.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod architecture;
mod ask;
mod audit_heads;
mod backends;
mod cluster;
mod consult;
mod debate;
mod delegated;
mod docs;
mod drafts;
mod eval;
mod exec;
mod failed_model_calls;
mod forged_tests;
mod gate_attack;
mod init;
mod invalid_input;
mod killed_debates;
mod mcp;
mod mcp_install;
mod microvms;
mod program_files;
mod run;
mod runs;
mod sandboxes;
mod serve;
mod settings;
mod tools_off;
mod untrusted_folders;
mod verify_python;
mod words;
mod work;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assize_testkit::{FakeKind, FakeProvider};

/// Root folder of the project's source tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Temporary home folder of one test, with a working folder in it. Commands see only the environment variables in
/// `variables`, not those of the test process.
struct Home {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// Exit code and output of one execution of the binary.
struct CommandOutput {
    code: i32,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("work")).unwrap();
        // This address refuses connections, so that commands find no real Ollama server.
        Home { folder, variables: vec![] }.set("OLLAMA_HOST", "127.0.0.1:9")
    }

    fn set(mut self, name: &str, value: impl Into<String>) -> Home {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Creates a `Home` whose environment variables select the fake provider `fake`.
    fn with_fake_provider(kind: FakeKind, fake: &FakeProvider) -> Home {
        let (key, url) = match kind {
            FakeKind::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            FakeKind::OpenAi => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            FakeKind::Google => ("GEMINI_API_KEY", "GEMINI_BASE_URL"),
            FakeKind::Groq => ("GROQ_API_KEY", "GROQ_BASE_URL"),
            FakeKind::OpenRouter => ("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
            FakeKind::Ollama => ("OLLAMA_API_KEY", "OLLAMA_HOST"),
        };
        Home::new().set(key, fake.key()).set(url, fake.base_url())
    }

    fn work_folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Path of the SQLite store.
    fn store_path(&self) -> PathBuf {
        self.folder.path().join(".local/state/assize/store.db")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work_folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assize"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.folder.path())
            .current_dir(self.work_folder());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        command_output(self.command(args).output().unwrap(), self.folder.path())
    }

    fn run_with_input(&self, args: &[&str], input: &[u8]) -> CommandOutput {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // The write fails if the command exits without reading all of its input. That is not an error.
        let _ = child.stdin.take().unwrap().write_all(input);
        command_output(child.wait_with_output().unwrap(), self.folder.path())
    }
}

/// Exit code and output of a finished process, with the path of the home folder replaced by `~`.
fn command_output(output: Output, home: &Path) -> CommandOutput {
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap().replace(&home.display().to_string(), "~")
    };
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}
