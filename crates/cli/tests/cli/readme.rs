//! What the README shows is what the binary prints.

use std::process::Command;

/// Runs every `$ assize …` of the README's `console` blocks, in order and in one fresh home, and
/// compares what is printed.
#[test]
fn the_readme_shows_what_is_printed() {
    let readme = include_str!("../../../../README.md");
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("project");
    std::fs::create_dir_all(work.join("examples")).unwrap();
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for example in std::fs::read_dir(examples).unwrap() {
        let example = example.unwrap();
        std::fs::copy(example.path(), work.join("examples").join(example.file_name())).unwrap();
    }
    let mut checked = 0;
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for step in format!("\n{block}").split("\n$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
            let command = command.replace("cargo run --quiet -- ", "assize ");
            // The others need a key or a network, or would run the tests inside the tests; or they
            // name a run that somebody else made.
            let runs_here = [
                "assize ask",
                "assize debate examples",
                "assize debate --fork",
                "assize consult NVDA",
                "assize runs fork",
                "assize run ",
                "assize work",
                "assize gate",
                "assize audit",
                "python3 examples",
                "assize runs list",
                "assize doctor --offline",
                "assize exec",
                "assize sandbox",
                "echo ",
            ];
            let elsewhere = ["--stream", "--estimate", "--isolation microvm", "--cluster"]
                .iter()
                .any(|word| command.contains(word));
            if elsewhere || !runs_here.iter().any(|start| command.starts_with(start)) {
                continue;
            }
            let binary = env!("CARGO_BIN_EXE_assize");
            let folder = std::path::Path::new(binary).parent().unwrap();
            let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
            let output = Command::new("bash")
                .args(["-c", &format!("{command} 2>&1")])
                .env_clear()
                .env("PATH", path)
                .env("HOME", home.path())
                .current_dir(&work)
                // An Ollama on this machine would be asked; `--offline` asks nobody.
                .envs((!command.contains("doctor")).then_some(("OLLAMA_HOST", "127.0.0.1:9")))
                .output()
                .unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            let printed = without_chance(&printed)
                .replace(&home.path().display().to_string(), "~")
                .replace(std::env::consts::ARCH, "x86_64");
            assert_eq!(printed.trim_end(), without_chance(expected).trim_end(), "`{command}`");
            checked += 1;
        }
    }
    assert!(checked >= 9, "only {checked} commands of the README were run");
}

/// What differs from run to run: how long it took, the names of runs, the time of day, and how far
/// one conversation is while another ends its round.
fn without_chance(text: &str) -> String {
    let line = |line: &str| match (line.split_once(" · "), line.rsplit_once(" · ")) {
        (Some((round, _)), _) if round.starts_with("round ") => round.to_owned(),
        (_, Some((account, seconds))) if seconds.ends_with(" s") => account.to_owned(),
        _ => line.to_owned(),
    };
    // What sandboxes a machine offers is its own business.
    let mut in_sandboxes = false;
    let here = |line: &&str| {
        in_sandboxes = *line == "Sandboxes" || (in_sandboxes && !line.is_empty());
        !in_sandboxes
    };
    // Which boundary a machine offers for debates is its own business, too.
    let chosen =
        |line: &&str| !line.starts_with("weaker isolation: ") && !line.starts_with("debated in: ");
    let text = text.lines().filter(here).filter(chosen).map(line).collect::<Vec<_>>().join("\n");
    let mut plain = String::new();
    for (index, part) in text.split("debate-").enumerate() {
        let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        plain.push_str(if index > 0 { "debate-" } else { "" });
        plain.push_str(if index > 0 { part.trim_start_matches(name) } else { part });
    }
    // How long a program took, and what the model was told of this machine.
    let of_run = |line: &str| match (line.split_once(" · "), line.rsplit_once(" (")) {
        (Some((run, rest)), _) if run.starts_with("run-") => {
            rest.split(" · ").next().unwrap_or_default().to_owned()
        }
        (_, Some((told, seconds))) if seconds.ends_with(" s)") => told.to_owned(),
        _ => line.to_owned(),
    };
    let plain = plain.lines().map(of_run).collect::<Vec<_>>().join("\n");
    let time = |line: &str| match line.split_once("  done       20") {
        // A date and a time are 16 characters.
        Some((name, rest)) => format!("{name}  done       {}", &rest[14..]),
        None => line.to_owned(),
    };
    plain.lines().map(time).collect::<Vec<_>>().join("\n")
}

/// The binary names the tasks that the rehearsal model knows; the README lists exactly these.
#[test]
fn the_readme_lists_the_tasks_of_the_rehearsal_model() {
    let home = crate::Home::new();
    let refused =
        home.run(&["run", "Something that no rehearsal model knows", "--provider", "rehearsal"]);
    let named = refused.err.split_once("in Python: ").unwrap().1;
    let known: Vec<&str> = named.lines().next().unwrap().split('"').skip(1).step_by(2).collect();
    assert!(known.len() >= 5, "{known:?}");
    let readme = include_str!("../../../../README.md");
    let list = readme.split_once("knows\nthese tasks by heart:\n\n").unwrap().1;
    let listed: Vec<&str> =
        list.lines().map_while(|line| line.strip_prefix("- `")?.strip_suffix('`')).collect();
    assert_eq!(listed, known);
}
