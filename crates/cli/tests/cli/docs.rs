//! Tests of the documentation: commands in the README and in `docs/` print the output shown there, and the generated
//! reference pages are up to date.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assize_config::{Setting, SettingGuard, all};

use crate::root;

/// Paths of the README and of all pages below `docs/`.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "md") {
                pages.push(entry);
            }
        }
    }
    pages.sort();
    pages
}

/// Commands in the `console` blocks of a page, each with the output that the page shows.
fn commands(page: &str) -> Vec<(&str, &str)> {
    let mut commands = Vec::new();
    for block in page.split("\n```console\n").skip(1) {
        let block = block.split("\n```").next().unwrap();
        let steps = block.strip_prefix("$ ").unwrap();
        commands
            .extend(steps.split("\n$ ").map(|step| step.split_once('\n').unwrap_or((step, ""))));
    }
    commands
}

/// Bash command that runs a script with the built binary in its `PATH`, and merges standard error into standard output.
fn bash(home: &Path, script: &str) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_assize")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", &format!("exec 2>&1; {script}")]).env_clear();
    command.env("PATH", path).env("HOME", home);
    command
}

/// Runs the commands of a page in order in a new home folder, and compares their output with the page. Returns the
/// number of commands. If `ASSIZE_TEST_WRITE` is set, corrects the outputs in the page instead of failing.
fn check(page: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(page).unwrap();
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("project");
    fs::create_dir_all(work.join("examples")).unwrap();
    for example in fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(example.path(), work.join("examples").join(example.file_name())).unwrap();
    }
    let commands = commands(&text);
    let mut updated = text.clone();
    for (command, expected) in &commands {
        let own = command.replace("cargo run --quiet -- ", "assize ");
        let output = bash(home.path(), &own)
            .current_dir(&work)
            // No command may use an Ollama server on this machine. `doctor --offline` connects to no provider, so it
            // keeps the default address.
            .envs((!own.contains("doctor")).then_some(("OLLAMA_HOST", "127.0.0.1:9")))
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout)
            .unwrap()
            .replace(&home.path().display().to_string(), "~")
            .replace(std::env::consts::ARCH, "x86_64");
        let printed = printed.trim_end();
        let fixed_parts = without_variable_parts(printed);
        if fixed_parts.trim_end() == without_variable_parts(expected).trim_end() {
            continue;
        }
        if std::env::var_os("ASSIZE_TEST_WRITE").is_some() {
            let shown = format!("$ {command}\n{expected}");
            updated = updated.replacen(&shown, &format!("$ {command}\n{printed}"), 1);
        } else {
            let page = page.strip_prefix(root()).unwrap().display();
            return Err(format!("{page}: `{command}` printed\n{printed}\ninstead of\n{expected}"));
        }
    }
    if updated != text {
        fs::write(page, updated).unwrap();
    }
    Ok(commands.len())
}

/// The test runs every `console` block and compares the output with the block. Commands that are shown without their
/// output are in `sh` blocks.
#[test]
fn documented_commands_print_the_output_shown() {
    let pages = pages();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let checked = std::thread::scope(|scope| {
        let work = || {
            let mut results = Vec::new();
            while let Some(page) =
                pages.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
            {
                results.push(check(page));
            }
            results
        };
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let failed: Vec<_> = checked.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(
        failed.is_empty(),
        "{}",
        failed.iter().map(|text| format!("{text}\n\n")).collect::<String>()
    );
    let count: usize = checked.iter().flatten().sum();
    assert!(count >= 30, "expected at least 30 documented commands, but ran only {count}");
}

/// Shell blocks of the documentation that no test runs: text that identifies the block, and the reason.
const NOT_RUN: [(&str, &str); 20] = [
    ("_API_KEY=…", "needs a key"),
    ("OPENAI_BASE_URL=", "needs a model server; `scripts/llama` starts one"),
    ("--max-output-tokens", "needs the model server of an earlier block"),
    ("pip install --no-deps xllamacpp", "`scripts/llama` does it"),
    ("llama_server.py", "`scripts/llama` does it"),
    ("scripts/", "`scripts/test` runs it"),
    ("cargo ", "builds the project, which `scripts/test` does"),
    ("claude mcp add", "needs Claude Code"),
    (
        "git push",
        "needs a remote repository; the tests in `audit_heads` run the commands of Assize",
    ),
    ("assize attack", "takes minutes; the tests in `attack` and `gate_attack` run it"),
    ("--packages numpy", "downloads large packages; the tests of packages install small ones"),
    ("config set sandbox.python", "names a virtual environment of the reader"),
    ("systemd-run", "needs a systemd session"),
    ("systemctl", "changes the host"),
    ("assize-0.1.0", "needs a release; `scripts/test-release` installs one"),
    ("uvx --find-links", "needs a release; `scripts/test-release` installs one"),
    ("apt-get install ./", "needs a release; `scripts/test-release` installs one"),
    ("docker run", "the stage `image for a cluster` of `scripts/test` runs it"),
    ("--root site", "names folders of the reader; the tests in `serve` run it"),
    ("--host assize.example", "needs a domain; the tests in `serve` run it"),
];

/// Runs a script with the built binary in `home`. Returns its output; fails if a command fails.
fn run_script(home: &Path, script: &str) -> String {
    let stop_background_jobs = "trap 'kill $(jobs -p) 2>/dev/null || :; wait' EXIT";
    let output = bash(home, &format!("set -euo pipefail\n{stop_background_jobs}\n{script}"))
        .env("OLLAMA_HOST", "127.0.0.1:9")
        .current_dir(home)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}\n{printed}");
    printed
}

/// Address of a local port that no process uses.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn shell_blocks_of_the_documentation_are_run_or_excluded_with_a_reason() {
    let mut used = vec![false; NOT_RUN.len()];
    let mut run = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for block in text.split("\n```sh\n").skip(1) {
            let block = block.split("\n```").next().unwrap();
            match NOT_RUN.iter().position(|(part, _)| block.contains(part)) {
                Some(index) => used[index] = true,
                None => run.push(block.to_owned()),
            }
        }
    }
    for block in &run {
        let home = tempfile::tempdir().unwrap();
        let address = free_address();
        let port = address.rsplit(':').next().unwrap();
        if block.contains("nats-server") {
            let block = block
                .replace(
                    "nats-server -js",
                    &format!("nats-server -js -a 127.0.0.1 -p {port} -sd nats"),
                )
                .replace("nats://127.0.0.1", &format!("nats://{address}"));
            let printed = run_script(home.path(), &block);
            assert!(printed.contains("\n55\n"), "{printed}");
            assert!(printed.lines().any(|line| line.starts_with("NODE")), "{printed}");
        } else if block == "assize serve" {
            // The block that sends requests to the server.
            let requests = run.iter().find(|block| block.contains("curl")).unwrap();
            let (token, requests) = requests.split_once('\n').unwrap();
            let (start, events) = requests.split_once('\n').unwrap();
            let script = format!(
                "coproc SERVER {{ exec assize serve --listen {address} 2>&1; }}\n\
                 while read -r line <&\"${{SERVER[0]}}\"; do [[ $line == *'this link'* ]] && break; done\n\
                 {token}\n{start} > started\n\
                 RUN=$(sed 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/' started)\n{}",
                events.replace("/RUN/", "/$RUN/")
            );
            let printed = run_script(home.path(), &script.replace("localhost:8080", &address));
            assert!(printed.contains("event: run_ended"), "{printed}");
        } else if !block.contains("curl") {
            run_script(home.path(), block);
        }
    }
    assert!(run.len() >= 5, "{run:?}");
    let unused = NOT_RUN.iter().zip(used).filter(|(_, used)| !used).map(|(entry, _)| entry);
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
}

/// Asserts that the file `name` in `docs/reference` has the generated content `text`. If `ASSIZE_TEST_WRITE` is set,
/// first writes `text` to the file.
fn check_generated(name: &str, text: &str) {
    let file = root().join("docs/reference").join(name);
    if std::env::var_os("ASSIZE_TEST_WRITE").is_some() {
        fs::write(&file, text).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == text,
        "docs/reference/{name} is out of date: run this test with ASSIZE_TEST_WRITE=1 to write it"
    );
}

/// Appends the help texts of a command and of its subcommands to a reference page.
fn append_help(page: &mut String, command: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_assize"))
        .args(command)
        .arg("--help")
        .env_clear()
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let level = "#".repeat(2 + usize::from(!command.is_empty()));
    let name = [&["assize"], command].concat().join(" ");
    page.push_str(&format!("\n{level} `{name}`\n\n```text\n{}\n```\n", help.trim_end()));
    let subcommands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in subcommands.take_while(|line| !line.is_empty()) {
        let name = line.strip_prefix("  ").and_then(|line| line.split(' ').next());
        if let Some(name) = name.filter(|name| !name.is_empty() && *name != "help") {
            append_help(page, &[command, &[name]].concat());
        }
    }
}

#[test]
fn command_reference_is_up_to_date() {
    let mut page = "# Command line\n\nThe output of `--help` for every command. [Exit codes](exit-codes.md) are the \
                    same for all commands.\n"
        .to_owned();
    append_help(&mut page, &[]);
    check_generated("cli.md", &page);
}

#[test]
fn settings_reference_is_up_to_date() {
    let mut page = "# Settings\n\n\
        Flags override environment variables, these override `.env`, then `assize.toml` in the project, then \n\
        `~/.config/assize/config.toml`. `assize config show` prints every setting, its value and its source.\n\
        The environment variable of `sandbox.memory` is `ASSIZE_SANDBOX_MEMORY`, and likewise for every setting.\n\n\
        The column *project files* says what `assize.toml` and `.env` of a folder may do before you trust the folder with\n\
        `assize config trust`: set the value (*yes*), lower the limit (*lower*), or nothing: the value is ignored with a\n\
        warning (*ignored*) or stops the command (*no*).\n"
        .to_owned();
    let mut sections: Vec<(&str, String)> = Vec::new();
    for setting in all() {
        let name = setting.key.name();
        let section = name.split_once('.').map_or("general", |(section, _)| section);
        if !sections.iter().any(|(known, _)| *known == section) {
            sections.push((section, String::new()));
        }
        let Setting {
            kind,
            default,
            guard,
            description: about,
            conventional_variable: convention,
            ..
        } = setting;
        let default = default.map_or("none".to_owned(), |default| format!("`{default}`"));
        let guard = match guard {
            SettingGuard::Open => "yes",
            SettingGuard::Tighten => "lower",
            SettingGuard::Trusted => "no",
            SettingGuard::Choice => "ignored",
        };
        let variable = convention.map(|name| format!("; also `{name}`")).unwrap_or_default();
        let about = about.trim();
        let rows = &mut sections.iter_mut().find(|(known, _)| *known == section).unwrap().1;
        rows.push_str(&format!(
            "| `{name}` | {about}{variable} | {kind} | {default} | {guard} |\n"
        ));
    }
    for (section, rows) in sections {
        page.push_str(&format!(
            "\n## {section}\n\n| setting | description | values | default | project files |\n|---|---|---|---|---|\n{rows}"
        ));
    }
    check_generated("settings.md", &page);
}

/// Masks the parts of an output that differ between runs or machines: ids, times, durations, usage, progress of
/// conversations that run in parallel, and available sandboxes.
fn without_variable_parts(text: &str) -> String {
    let mask = |text: String, pattern: &str, by: &str| -> String {
        regex::Regex::new(pattern).unwrap().replace_all(&text, by).into_owned()
    };
    let mut in_sandboxes = false;
    let is_fixed = |line: &&str| {
        in_sandboxes = *line == "Sandboxes" || (in_sandboxes && !line.is_empty());
        let names_backend =
            line.starts_with("weaker isolation: ") || line.starts_with("isolation of the debate: ");
        !in_sandboxes && !names_backend
    };
    let text = text.lines().filter(is_fixed).collect::<Vec<_>>().join("\n");
    let text = mask(text, r"\b(consult|debate|eval|run|work)-[a-z0-9]{8}\b", "$1-ID");
    let text = mask(text, r"(?m)^(\S+-ID) · .* tokens in, .*$", "$1 · usage");
    let text = mask(text, r"(?m)^(round \d+) · .*$", "$1");
    let text = mask(text, r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "TIME");
    mask(text, r"\b\d+(\.\d+)? s\b", "N s")
}

/// The error for an unknown task lists the tasks of the rehearsal model; the README must list the same tasks.
#[test]
fn readme_lists_the_tasks_of_the_rehearsal_model() {
    let home = crate::Home::new();
    let refused =
        home.run(&["run", "Something that no rehearsal model knows", "--provider", "rehearsal"]);
    let named = refused.err.split_once("these Python tasks: ").unwrap().1;
    let known: Vec<&str> = named.lines().next().unwrap().split('"').skip(1).step_by(2).collect();
    assert!(known.len() >= 5, "{known:?}");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let list = readme.split_once("The rehearsal model knows these tasks:\n\n").unwrap().1;
    let listed: Vec<&str> =
        list.lines().map_while(|line| line.strip_prefix("- `")?.strip_suffix('`')).collect();
    assert_eq!(listed, known);
}

/// This test checks the links in the Markdown files of the root folder. MkDocs checks the links between pages of
/// `docs/`.
#[test]
fn links_in_root_markdown_files_point_to_existing_files() {
    for entry in fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&entry).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap()) {
            let exists = link.contains("://") || root().join(link).exists();
            assert!(exists, "{} links to {link}, which does not exist", entry.display());
        }
    }
}
