//! Tests of `assize init`, of the start screen, and of `assize --version --verbose`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use assize_testkit::{FakeKind, FakeProvider};
use serde_json::Value;

use crate::{CommandOutput, Home, command_output};

impl Home {
    /// Runs a command on a terminal. Waits for each prompt of the dialog, and types the answer. Returns what the
    /// terminal shows.
    fn run_on_terminal(&self, args: &str, dialog: &[(&str, &str)]) -> CommandOutput {
        self.run_in_terminal(&format!("{} {args}", env!("CARGO_BIN_EXE_assize")), dialog)
    }

    /// Like [`Home::run_on_terminal`], for a shell command.
    fn run_in_terminal(&self, command: &str, dialog: &[(&str, &str)]) -> CommandOutput {
        let mut child = Command::new("/usr/bin/script")
            .args(["--quiet", "--flush", "--return", "--command", command, "/dev/null"])
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TERM", "xterm")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work_folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut shown = Vec::new();
        for (prompt, answer) in dialog {
            let begin = shown.len();
            while !String::from_utf8_lossy(&shown[begin..]).contains(prompt) {
                let mut bytes = [0; 1024];
                let count = stdout.read(&mut bytes).unwrap();
                let text = String::from_utf8_lossy(&shown);
                assert!(count > 0, "the command ended before the prompt {prompt:?}: {text}");
                shown.extend_from_slice(&bytes[..count]);
            }
            writeln!(stdin, "{answer}").unwrap();
        }
        stdout.read_to_end(&mut shown).unwrap();
        let mut output = child.wait_with_output().unwrap();
        output.stdout = shown;
        command_output(output, self.folder.path())
    }

    /// Text of a file below the home folder.
    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.folder.path().join(path)).unwrap()
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.folder.path().join(path)).unwrap().permissions().mode() & 0o777
    }
}

const KEYS: &str = ".config/assize/keys.env";
const SETTINGS: &str = ".config/assize/config.toml";

#[test]
fn init_with_flags_checks_and_stores_the_key_and_later_commands_use_it() {
    let fake = FakeProvider::scripted(FakeKind::Groq, []);
    let home = Home::new().set("GROQ_BASE_URL", fake.base_url());
    home.write("key", &format!("{}\n", fake.key()));
    let done = home.run(&["init", "--provider", "groq", "--key-file", "key", "--model", "fast"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("✓ groq answers"), "{}", done.err);
    assert!(!done.err.contains(fake.key()) && !done.out.contains(fake.key()));
    assert_eq!(home.text(KEYS), format!("GROQ_API_KEY={}\n", fake.key()));
    assert_eq!((home.mode(KEYS), home.mode(SETTINGS)), (0o600, 0o600));
    assert_eq!(home.text(SETTINGS), "provider = \"groq\"\n\n[groq]\nmodel = \"fast\"\n");
    let report: Value = serde_json::from_str(&home.run(&["doctor", "--json"]).out).unwrap();
    assert_eq!(report["used"], "groq");
    let groq = report["providers"].as_array().unwrap().iter().find(|it| it["provider"] == "groq");
    assert_eq!(groq.unwrap()["state"], "answers", "{report}");
    assert_eq!(groq.unwrap()["key"]["from"], "~/.config/assize/keys.env, GROQ_API_KEY");

    // A second key is added, and the first one replaced; other lines are preserved.
    fs::write(home.folder.path().join(KEYS), "# mine\nexport GROQ_API_KEY=old\nOTHER=1\n").unwrap();
    let done = home
        .run_with_input(&["init", "--provider", "groq", "--key-file", "-"], fake.key().as_bytes());
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(home.text(KEYS), format!("# mine\nOTHER=1\nGROQ_API_KEY={}\n", fake.key()));
    assert_eq!(home.mode(KEYS), 0o600);
}

#[test]
fn init_stores_nothing_if_the_provider_refuses_the_key() {
    let fake = FakeProvider::scripted(FakeKind::Anthropic, []);
    let home = Home::new().set("ANTHROPIC_BASE_URL", fake.base_url());
    home.write("key", "sk-ant-wrong-0123456789\n");
    let args = ["init", "--provider", "anthropic", "--key-file", "key"];
    let refused = home.run(&args);
    assert_eq!(refused.code, 3, "{}", refused.err);
    assert!(refused.err.contains("the API key was rejected"), "{}", refused.err);
    assert!(!home.folder.path().join(KEYS).exists() && !home.folder.path().join(SETTINGS).exists());
    let unchecked = home.run(&[&args[..], &["--no-check"]].concat());
    assert_eq!(unchecked.code, 0, "{}", unchecked.err);
    assert_eq!(home.text(KEYS), "ANTHROPIC_API_KEY=sk-ant-wrong-0123456789\n");
    home.write("key", "two words");
    let invalid = home.run(&args);
    assert_eq!(invalid.code, 2, "{}", invalid.err);
    assert!(invalid.err.contains("this is not an API key"), "{}", invalid.err);
}

#[test]
fn init_without_a_terminal_needs_flags() {
    let home = Home::new();
    let asked = home.run(&["init"]);
    assert_eq!(asked.code, 2, "{}", asked.err);
    assert!(asked.err.contains("--provider"), "{}", asked.err);
    let keyless = home.run(&["init", "--provider", "openai"]);
    assert_eq!(keyless.code, 3, "{}", keyless.err);
    assert!(
        keyless.err.contains("hint: set `OPENAI_API_KEY`, or")
            && keyless.err.contains("--key-file"),
        "{}",
        keyless.err
    );
    let rehearsal = home.run(&["init", "--provider", "rehearsal", "--completions", "fish"]);
    assert_eq!(rehearsal.code, 0, "{}", rehearsal.err);
    assert!(home.text(".config/fish/completions/assize.fish").contains("complete -c assize"));
    assert_eq!(home.text(SETTINGS), "provider = \"rehearsal\"\n");
}

#[test]
fn interrupted_question_ends_the_command_and_restores_the_terminal() {
    let home = Home::new().set("DOCKER_HOST", "unix:///nonexistent");
    // The script shows whether the terminal shows typed characters again.
    let script = format!(
        "trap : INT; {} init; echo \"exit $?\"; stty -a | grep -o '[-]*echo '",
        env!("CARGO_BIN_EXE_assize")
    );
    home.write("script", &script);
    let dialog = [("Number or name [7]:", "3"), ("API key of google", "\u{3}")];
    let done = home.run_in_terminal("sh script", &dialog);
    assert!(done.out.contains("exit 130"), "{}", done.out);
    assert!(done.out.trim_end().ends_with("\necho"), "{:?}", done.out);
}

#[test]
fn init_on_a_terminal_asks_for_provider_key_and_completions() {
    let fake = FakeProvider::scripted(FakeKind::OpenAi, []);
    let home = Home::new().set("OPENAI_BASE_URL", fake.base_url()).set("SHELL", "/bin/bash");
    let dialog = [
        ("Number or name [7]:", "nothing"),
        ("Number or name [7]:", "2"),
        ("API key of openai", "sk-wrong-key-0123456789"),
        ("Type another key? [Y/n]", "y"),
        ("API key of openai", "two words"),
        ("API key of openai", fake.key()),
        ("Install completions for bash", "y"),
    ];
    // Images are built only if an engine works on this machine.
    let home = home.set("DOCKER_HOST", "unix:///nonexistent").set("PATH", "/nonexistent");
    let done = home.run_on_terminal("init", &dialog);
    assert!(!done.out.contains(fake.key()) && !done.out.contains("sk-wrong"), "{}", done.out);
    assert_eq!(done.code, 0, "{}", done.out);
    assert!(done.out.contains("expected a number from 1 to 7 or a name"), "{}", done.out);
    assert!(done.out.contains("openai answers"), "{}", done.out);
    assert_eq!(home.text(KEYS), format!("OPENAI_API_KEY={}\n", fake.key()));
    assert_eq!(home.text(SETTINGS), "provider = \"openai\"\n");
    assert!(
        home.text(".local/share/bash-completion/completions/assize").contains("_assize"),
        "{}",
        done.out
    );
}

#[test]
fn api_keys_file_that_other_users_can_read_is_reported() {
    let home = Home::new();
    fs::create_dir_all(home.folder.path().join(".config/assize")).unwrap();
    fs::write(home.folder.path().join(KEYS), "GROQ_API_KEY=gsk_0123456789abcdef\n").unwrap();
    fs::set_permissions(home.folder.path().join(KEYS), fs::Permissions::from_mode(0o644)).unwrap();
    let shown = home.run(&["config", "show"]);
    assert!(shown.err.contains("other users may read the API keys"), "{}", shown.err);
    assert!(shown.out.contains("…cdef"), "{}", shown.out);
    fs::set_permissions(home.folder.path().join(KEYS), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(home.run(&["config", "show"]).err, "");
    // A repository cannot replace the key before the user trusts it.
    home.write(".env", "GROQ_API_KEY=gsk_0123456789repository\n");
    assert!(home.run(&["config", "show"]).out.contains("…cdef"));
    assert_eq!(home.run(&["config", "trust"]).code, 0);
    assert!(home.run(&["config", "show"]).out.contains("…tory"));
    // The environment has precedence.
    let home = home.set("GROQ_API_KEY", "gsk_0123456789fedcba");
    assert!(home.run(&["config", "show"]).out.contains("…dcba"));
}

#[test]
fn start_screen_is_shown_on_a_terminal_and_help_otherwise() {
    let home = Home::new();
    let shown = home.run_on_terminal("", &[]);
    assert_eq!(shown.code, 0, "{}", shown.out);
    for expected in ["assize init", "assize run", "assize exec", "assize --help", "config.toml"] {
        assert!(shown.out.contains(expected), "{expected}: {}", shown.out);
    }
    let piped = home.run(&[]);
    assert_eq!(piped.code, 2, "{}", piped.out);
    assert!(piped.err.contains("Usage: assize"), "{}", piped.err);
}

#[test]
fn verbose_version_shows_how_assize_was_built_and_installed() {
    let home = Home::new();
    for args in [["--version", "--verbose"], ["--verbose", "--version"], ["-V", "-v"]] {
        let shown = home.run(&args);
        assert_eq!(shown.code, 0, "{}", shown.err);
        let pattern = r"^assize \d+\.\d+\.\d+
installed   build from source \(.*assize\)
build       debug, (static|dynamic), \w+ linux
web page    embedded
guest       sha256 [0-9a-f]{64} \(\d+ kB\)
negotiator  sha256 [0-9a-f]{64} \(\d+ kB\)
$";
        assert!(regex::Regex::new(pattern).unwrap().is_match(&shown.out), "{}", shown.out);
    }
}

#[test]
fn man_pages_of_all_commands_are_written() {
    let home = Home::new();
    let done = home.run(&["manual", "."]);
    assert_eq!(done.code, 0, "{}", done.err);
    let pages: Vec<String> = fs::read_dir(home.work_folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for page in ["assize.1", "assize-run.1", "assize-mcp-install.1", "assize-gate-accept.1"] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    let page = home.file_text("assize-run.1");
    assert!(page.contains("max\\-attempts") && page.starts_with(".ie"), "{page}");
    assert_eq!(home.run(&["manual", "nowhere"]).code, 4);
}
