//! What the README shows is what the binary prints.

use std::process::Command;

/// Runs every `$ assize …` of the README's `console` blocks, in order and in one fresh home, and
/// compares what is printed.
#[test]
fn the_readme_shows_what_is_printed() {
    let readme = include_str!("../../../../README.md");
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("project");
    std::fs::create_dir_all(&work).unwrap();
    let mut checked = 0;
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for step in format!("\n{block}").split("\n$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
            let command = command.replace("cargo run --quiet -- ", "assize ");
            // The others need a key or a network, or would run the tests inside the tests.
            let runs_here = ["assize ask", "assize doctor --offline", "echo "];
            let streams = command.contains("--stream");
            if streams || !runs_here.iter().any(|start| command.starts_with(start)) {
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
            let printed = without_seconds(&printed)
                .replace(&home.path().display().to_string(), "~")
                .replace(std::env::consts::ARCH, "x86_64");
            assert_eq!(printed.trim_end(), without_seconds(expected).trim_end(), "`{command}`");
            checked += 1;
        }
    }
    assert!(checked >= 4, "only {checked} commands of the README were run");
}

/// The account's last figure depends on the machine.
fn without_seconds(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(" · ") {
        Some((account, seconds)) if seconds.ends_with(" s") => account.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
