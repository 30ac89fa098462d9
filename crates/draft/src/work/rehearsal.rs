//! Scripted answers of the rehearsal model for one agent task. The first answer contains a mistake, to demonstrate the
//! whole draft workflow (rejection, correction, acceptance) without a real model.

use assize_llm::{ErrorKind, ModelError, ModelRequest, ToolResult, TranscriptTurn};
use serde_json::{Value, json};

use super::read_tools;
use crate::tools;

/// The only task for which the rehearsal model has scripted answers.
pub const TASK: &str = "Add --version flag to watchdog.py";

/// Name of the file that the scripted task changes.
const FILE: &str = "watchdog.py";

/// Whether the rehearsal model has scripted answers for a task.
pub fn supports(task: &str) -> bool {
    task.trim().trim_end_matches('.').eq_ignore_ascii_case(TASK)
}

/// Creates the error for a task without scripted answers.
pub fn unsupported_task() -> ModelError {
    ModelError::new(
        ErrorKind::BadRequest,
        format!("the rehearsal model can edit files only for the task \"{TASK}\""),
    )
    .with_hint("select a real model with `--provider`, or set an API key")
}

/// A scripted answer of the rehearsal model: text or a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptedAnswer {
    Words(String),
    Call(&'static str, Value),
}

/// Returns the next scripted answer; `None` if the request does not come from Assize's own agent.
pub fn answer(request: &ModelRequest) -> Option<Result<ScriptedAnswer, ModelError>> {
    let rules = request.prompt.blocks.iter().find(|block| block.name == "rules")?;
    let task = request.prompt.blocks.iter().find(|block| block.name == "task")?;
    if !rules.text.starts_with("You change files of a software project") {
        return None;
    }
    if !task.text.lines().nth(2).is_some_and(supports) {
        return Some(Err(unsupported_task()));
    }
    let files = request.prompt.blocks.iter().find(|block| block.name == "files");
    Some(Ok(match files {
        Some(files) => in_text_mode(&files.text, request.prompt.transcript.len() > 1),
        None if request.tools.is_empty() => {
            ScriptedAnswer::Words("I was shown no file.".to_owned())
        }
        None => in_tool_mode(&request.prompt.transcript),
    }))
}

fn in_tool_mode(transcript: &[TranscriptTurn]) -> ScriptedAnswer {
    let results: Vec<&ToolResult> = transcript
        .iter()
        .filter_map(
            |turn| if let TranscriptTurn::Tool(result) = turn { Some(result) } else { None },
        )
        .collect();
    let Some(last) = results.last() else {
        return ScriptedAnswer::Call(read_tools::LIST, json!({}));
    };
    let read =
        |result: &ToolResult| serde_json::from_str::<Value>(&result.content).unwrap_or_default();
    let result = read(last);
    let rejected = results.iter().any(|result| read(result)["verdict"] == "rejected");
    let of = |name: &str| results.iter().rev().find(|result| result.name == name).map(|r| read(r));
    let path = of(read_tools::LIST).and_then(|listed| {
        let files = listed["files"].as_array()?;
        let named =
            |file: &&Value| file.as_str().is_some_and(|file| file.rsplit('/').next() == Some(FILE));
        files.iter().find(named)?.as_str().map(str::to_owned)
    });
    let Some(path) = path else {
        return ScriptedAnswer::Words(format!(
            "The workspace has no {FILE}, so there is nothing to change."
        ));
    };
    let draft = of(tools::REQUEST).map(|asked| asked["draft_path"].clone()).unwrap_or_default();
    match last.name.as_str() {
        _ if last.failed => ScriptedAnswer::Words(format!("I cannot continue: {}", last.content)),
        read_tools::LIST => {
            ScriptedAnswer::Call(tools::REQUEST, json!({"source_path": path, "task_id": "version"}))
        }
        tools::REQUEST => ScriptedAnswer::Call(tools::READ, json!({"draft_path": draft})),
        tools::READ => {
            let content = changed(result["content"].as_str().unwrap_or_default(), rejected);
            ScriptedAnswer::Call(tools::WRITE, json!({"draft_path": draft, "content": content}))
        }
        tools::WRITE => ScriptedAnswer::Call(
            tools::SUBMIT,
            json!({"draft_path": draft, "original_path": path, "task_id": "version",
                   "change_summary": "--version prints the version and ends"}),
        ),
        _ if result["verdict"] == "rejected" => {
            ScriptedAnswer::Call(tools::REQUEST, json!({"source_path": path, "task_id": "version"}))
        }
        _ => ScriptedAnswer::Words(match result["verdict"].as_str() {
            Some("accepted") => format!("{path} has a --version flag now."),
            _ => format!("The change to {path} is submitted; a reviewer decides now."),
        }),
    }
}

/// Returns the scripted answer in text mode.
fn in_text_mode(files: &str, rejected: bool) -> ScriptedAnswer {
    // Each file in the prompt is a line with its path, followed by its content between two fences.
    let mut lines = files.lines();
    let path = lines.find_map(|line| {
        let path = line.strip_prefix('`')?.split('`').next()?;
        (path.rsplit('/').next() == Some(FILE)).then(|| path.to_owned())
    });
    let Some(path) = path else {
        return ScriptedAnswer::Words(format!("I was not shown {FILE}."));
    };
    let mark = lines.next().unwrap_or_default();
    let content: String =
        lines.take_while(|line| *line != mark).map(|line| format!("{line}\n")).collect();
    let content = changed(&content, rejected);
    ScriptedAnswer::Words(format!(
        "--version prints the version and ends.\n\nFILE: {path}\n```python\n{content}```\n"
    ))
}

/// Adds the `--version` flag to the content of the file. If `careful` is false, the new code reads the version from a
/// machine-specific path, which the gate rejects.
fn changed(content: &str, careful: bool) -> String {
    let version = match careful {
        true => "VERSION = \"1.0.0\"",
        false => "VERSION = open(\"/home/dev/watchdog/VERSION\").read().strip()",
    };
    let lines: Vec<&str> = content.lines().collect();
    let is_import = |line: &&str| line.starts_with("import ") || line.starts_with("from ");
    let after = lines.iter().rposition(is_import).map_or(0, |last| last + 1);
    let first = usize::from(lines.first().is_some_and(|line| line.starts_with("#!")));
    let has_sys = lines.iter().any(|line| line.trim() == "import sys");
    let mut new: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let flag = [
        "",
        version,
        "",
        "if \"--version\" in sys.argv[1:]:",
        "    print(f\"watchdog {VERSION}\")",
        "    sys.exit(0)",
    ];
    let at = after.max(first);
    let own = if has_sys { None } else { Some("import sys") };
    let added: Vec<String> = own.into_iter().chain(flag).map(str::to_owned).collect();
    new.splice(at..at, added);
    new.join("\n") + "\n"
}
