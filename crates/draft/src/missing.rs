//! Tools that a verification did not find in its sandbox. Their absence is not the worker's mistake.

/// The command or module that a failed verification misses, by what it printed; `None` if the change itself may be at
/// fault. `added` are the lines that the change adds: a module that they import is the change's own.
pub(crate) fn missing_tool(output: &str, added: &str) -> Option<String> {
    output.lines().find_map(|line| {
        let line = line.trim();
        command(line).or_else(|| module(line, added))
    })
}

/// A command that a shell, `env` or `make` did not find.
fn command(line: &str) -> Option<String> {
    let named = |text: &str| {
        let name = text.rsplit(": ").next()?.trim_matches(['\'', '"', '‘', '’', '`']);
        let plain = !name.is_empty() && !name.contains(char::is_whitespace) && !name.contains('/');
        plain.then(|| name.to_owned())
    };
    let shell = |line: &str| {
        let first = line.split(':').next().unwrap_or_default();
        let name = first.rsplit('/').next().unwrap_or_default();
        matches!(name, "sh" | "bash" | "dash" | "env" | "make" | "npm" | "xargs" | "time")
            || name.starts_with("make[")
    };
    let ends = [": not found", ": command not found", ": No such file or directory"];
    if let Some(rest) = ends.iter().find_map(|end| line.strip_suffix(end))
        && (shell(line) || line.ends_with(": command not found"))
    {
        return named(rest);
    }
    let rest = line.strip_prefix("error: no such command: `")?;
    Some(format!("cargo {}", rest.split('`').next()?))
}

/// A module that an interpreter did not find.
fn module(line: &str, added: &str) -> Option<String> {
    // `python3 -m NAME`: the interpreter itself says so.
    if let Some((program, name)) = line.split_once(": No module named ") {
        let program = program.rsplit('/').next().unwrap_or_default();
        if program.starts_with("python") {
            return Some(name.trim_matches(['\'', '"']).to_owned());
        }
    }
    let python = line.strip_prefix("ModuleNotFoundError: No module named ");
    let python = python.or_else(|| line.strip_prefix("E   ModuleNotFoundError: No module named "));
    let node = || line.strip_prefix("Error: Cannot find module ");
    let quoted = python.or_else(node)?;
    let name = quoted.trim_start_matches(['\'', '"']).split(['\'', '"']).next()?;
    let top = name.split('.').next().filter(|top| !top.is_empty())?;
    (!added.contains(top)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_commands_and_modules_are_recognised() {
        for (output, tool) in [
            ("/usr/bin/python3: No module named pytest", "pytest"),
            ("/opt/layers/ab/bin/python3.11: No module named pytest", "pytest"),
            ("sh: 1: pytest: not found", "pytest"),
            ("/bin/sh: 1: npm: not found", "npm"),
            ("bash: line 1: cargo: command not found", "cargo"),
            ("zsh: ruff: command not found", "ruff"),
            ("env: ‘node’: No such file or directory", "node"),
            ("make: pytest: No such file or directory", "pytest"),
            ("make[1]: tox: No such file or directory\nmake: *** [test] Error 127", "tox"),
            ("error: no such command: `nextest`", "cargo nextest"),
            ("Traceback\nModuleNotFoundError: No module named 'requests'", "requests"),
            ("E   ModuleNotFoundError: No module named 'yaml.loader'", "yaml.loader"),
            ("Error: Cannot find module 'jest'", "jest"),
        ] {
            assert_eq!(missing_tool(output, "x = 1").as_deref(), Some(tool), "{output}");
        }
    }

    #[test]
    fn failures_of_the_change_itself_are_not_missing_tools() {
        for output in [
            "",
            "AssertionError: 1 != 2",
            "FAILED (failures=1)",
            "FileNotFoundError: [Errno 2] No such file or directory: 'a.txt'",
            "cat: data.txt: No such file or directory",
            "error: key not found",
            "the page was not found",
            // The change imports it.
            "ModuleNotFoundError: No module named 'requestz'",
            "Error: Cannot find module './b'\nimport requestz",
        ] {
            assert_eq!(missing_tool(output, "import requestz\nrequire('./b')"), None, "{output}");
        }
    }
}
