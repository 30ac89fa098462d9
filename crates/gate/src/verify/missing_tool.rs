//! Detects that a verification command failed because a tool is missing in the sandbox. Such a failure is not the fault
//! of the agent.

/// Number of lines at the end of the output that are searched for a missing command. A shell that stops at a missing
/// command prints only few lines after the error.
const LAST_LINES: usize = 10;

/// Returns the command or module that is missing in the sandbox, according to the output of a failed verification
/// command. `None` if the change itself may have caused the failure. `added` are the lines that the change adds: if
/// they import the missing module, the change caused the failure.
pub(crate) fn missing_tool(output: &str, added: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let command = last.iter().find_map(|line| command(line));
    command.or_else(|| lines.iter().find_map(|line| module(line, added)))
}

/// Returns the command that a shell, `env`, `make`, `npm` or `cargo` did not find, according to a line of output.
fn command(line: &str) -> Option<String> {
    let named = |text: &str| {
        let name = text.rsplit(": ").next()?.trim_matches(['\'', '"', '‘', '’', '`']);
        let plain = !name.is_empty() && !name.contains(char::is_whitespace) && !name.contains('/');
        plain.then(|| name.to_owned())
    };
    let program = line.split(':').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let shell = matches!(program, "sh" | "bash" | "dash");
    // "No such file or directory" counts only for these programs, because a shell also prints it for a missing input
    // file.
    let runner =
        matches!(program, "env" | "make" | "xargs" | "time") || program.starts_with("make[");
    let rest = line
        .strip_suffix(": command not found")
        .or_else(|| line.strip_suffix(": not found").filter(|_| shell || runner))
        .or_else(|| line.strip_suffix(": No such file or directory").filter(|_| runner));
    if let Some(rest) = rest {
        return named(rest);
    }
    // `npx` and similar tools try to download a missing package, which fails without a network.
    let fetched = ["npm error request to ", "npm ERR! request to "];
    if let Some(rest) = fetched.iter().find_map(|start| line.strip_prefix(start)) {
        let (address, why) = rest.split_once(" failed")?;
        return why.contains("cache mode").then(|| named(address.rsplit('/').next()?)).flatten();
    }
    let rest = line.strip_prefix("error: no such command: `")?;
    Some(format!("cargo {}", rest.split('`').next()?))
}

/// Returns the module that Python or Node.js did not find, according to a line of output. `None` if the lines that the
/// change adds import this module.
fn module(line: &str, added: &str) -> Option<String> {
    // For `python3 -m NAME`, the interpreter prints the error without a traceback.
    if let Some((program, name)) = line.split_once(": No module named ") {
        let program = program.rsplit('/').next().unwrap_or_default();
        if program.starts_with("python") {
            return Some(name.trim_matches(['\'', '"']).to_owned());
        }
    }
    let quoted = |rest: &str| {
        let name = rest.trim_start_matches(['\'', '"']).split(['\'', '"']).next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    let python = line.strip_prefix("E   ").unwrap_or(line);
    if let Some(rest) = python.strip_prefix("ModuleNotFoundError: No module named ") {
        let name = quoted(rest)?;
        let own = imports(added).iter().any(|import| match import.trim_start_matches('.') {
            relative if relative.len() < import.len() => {
                !relative.is_empty() && name.ends_with(&format!(".{relative}"))
            }
            absolute => absolute.split('.').next() == name.split('.').next(),
        });
        return (!own).then_some(name);
    }
    let name = quoted(line.strip_prefix("Error: Cannot find module ")?)?;
    // A name that starts like a path is a file of the project and not a package.
    let file = name.starts_with(['.', '/']);
    let own = || imports(added).iter().any(|import| package(import) == package(&name));
    (!file && !own()).then_some(name)
}

/// Returns the npm package of a module that Node.js loads: `@scope/name` for the module `@scope/name/file`.
fn package(module: &str) -> &str {
    let slashes = if module.starts_with('@') { 1 } else { 0 };
    module.match_indices('/').nth(slashes).map_or(module, |(end, _)| &module[..end])
}

/// Returns the modules that lines of Python or JavaScript import.
fn imports(added: &str) -> Vec<String> {
    let comment = |line: &&str| !line.starts_with('#') && !line.starts_with("//");
    added.lines().map(str::trim_start).filter(comment).flat_map(imports_of_line).collect()
}

fn imports_of_line(line: &str) -> Vec<String> {
    const QUOTES: [char; 3] = ['"', '\'', '`'];
    let part = |char: char| char.is_alphanumeric() || char == '_';
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(part) {
        let end = rest[start..].find(|char| !part(char)).map_or(rest.len(), |end| start + end);
        let word = &rest[start..end];
        rest = &rest[end..];
        if !["import", "from", "require", "__import__", "import_module"].contains(&word) {
            continue;
        }
        let after = rest.trim_start().trim_start_matches('(').trim_start();
        if let Some(text) = after.strip_prefix(QUOTES) {
            found.extend(text.split(QUOTES).next().map(str::to_owned));
        } else if word == "from" {
            // In `from a.b import c`, only `a.b` is certainly a module.
            let Some((module, _)) = after.split_once(" import ") else { continue };
            found.push(module.trim().to_owned());
            break;
        } else if word == "import" {
            let names = after.split([';', '#']).next().unwrap_or_default().split(',');
            let first = |name: &str| name.split_whitespace().next().map(str::to_owned);
            found.extend(names.filter_map(first));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_commands_and_modules_are_recognised_in_the_output() {
        for (output, tool) in [
            ("/usr/bin/python3: No module named pytest", "pytest"),
            ("/opt/layers/ab/bin/python3.11: No module named pytest", "pytest"),
            ("sh: 1: pytest: not found", "pytest"),
            ("/bin/sh: 1: npm: not found", "npm"),
            ("bash: line 1: cargo: command not found", "cargo"),
            ("zsh: ruff: command not found", "ruff"),
            (
                "npm error code ENOTCACHED\nnpm error request to https://registry.example/jest failed: cache mode is \
                 'only-if-cached' but no cached response is available.\nnpm error A complete log of this run",
                "jest",
            ),
            ("env: ‘node’: No such file or directory", "node"),
            ("./build.sh: line 3: cargo: command not found\nmake: *** [test] Error 127", "cargo"),
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
    fn failures_caused_by_the_change_are_not_reported_as_missing_tools() {
        for output in [
            "",
            "AssertionError: 1 != 2",
            "FAILED (failures=1)",
            "FileNotFoundError: [Errno 2] No such file or directory: 'a.txt'",
            "cat: data.txt: No such file or directory",
            "sh: 1: data.txt: No such file or directory",
            "bash: line 1: data.txt: No such file or directory",
            "dash: 1: cannot open data.txt: No such file or directory",
            "error: key not found",
            "the page was not found",
            // The change imports the missing module `requestz`, so the change caused the failure.
            "ModuleNotFoundError: No module named 'requestz'",
            "Error: Cannot find module './b'\nimport requestz",
        ] {
            assert_eq!(missing_tool(output, "import requestz\nrequire('./b')"), None, "{output}");
        }
    }

    /// A change causes the failure only if its added lines import the missing module, not if they only mention it.
    #[test]
    fn missing_module_counts_as_a_missing_tool_unless_the_change_imports_it() {
        let python = |name: &str| format!("ModuleNotFoundError: No module named '{name}'");
        let node = |name: &str| format!("Error: Cannot find module '{name}'");
        for (output, added) in [
            (python("yaml"), "data = load_yaml(path)  # yaml"),
            (python("yaml"), "# import yaml"),
            (python("yaml"), "import pyyaml, ruamel.yaml"),
            (python("yaml"), "from loaders import yaml"),
            (python("yaml"), "important = yaml"),
            (node("jest"), "// require('jest')"),
            (node("jest"), "const jest = run('jest');"),
            (node("jest"), "import jester from 'jest-extended';"),
        ] {
            assert!(missing_tool(&output, added).is_some(), "{output} {added}");
        }
        for (output, added) in [
            (python("yaml"), "import os, yaml as y"),
            (python("yaml.loader"), "    from yaml import loader"),
            (python("app.helpers"), "from .helpers import x"),
            (python("yaml"), "m = importlib.import_module('yaml')"),
            (node("lodash/fp"), "const _ = require(\"lodash\");"),
            (node("@acme/ui"), "import { Button } from '@acme/ui/button';"),
            (node("left-pad"), "import 'left-pad';"),
            (node("/tmp/workspace/run.js"), ""),
        ] {
            assert_eq!(missing_tool(&output, added), None, "{output} {added}");
        }
    }

    #[test]
    fn missing_command_is_recognised_only_in_the_last_lines_of_the_output() {
        let early = format!("sh: 1: gizmo: not found\n{}", "ok\n".repeat(20));
        assert_eq!(missing_tool(&early, ""), None);
        let late =
            format!("{}sh: 1: gizmo: not found\n\nmake: *** [test] Error 127\n", "ok\n".repeat(20));
        assert_eq!(missing_tool(&late, "").as_deref(), Some("gizmo"));
    }
}
