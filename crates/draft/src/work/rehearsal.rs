//! What the rehearsal model knows to do as a worker: one task, by heart, with a mistake on the way, so that
//! the whole cycle can be seen without a model.

use assize_llm::{ErrorKind, ModelError, Request, ToolResult, Turn};
use serde_json::{Value, json};

use super::reading;
use crate::tools;

/// The task that is known by heart.
pub const TASK: &str = "Add --version flag to watchdog.py";

/// The file that it is about.
const FILE: &str = "watchdog.py";

/// Whether a task is the one that is known.
pub fn knows(task: &str) -> bool {
    task.trim().trim_end_matches('.').eq_ignore_ascii_case(TASK)
}

/// That a task is another one, and what to do about it.
pub fn unknown() -> ModelError {
    ModelError::new(
        ErrorKind::BadRequest,
        format!("the rehearsal model knows one task of this kind by heart: \"{TASK}\""),
    )
    .with_hint("ask a real model with `--provider`, or set a key")
}

/// What is said: words, or a call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    Words(String),
    Call(&'static str, Value),
}

/// What the rehearsal model does next; `None` if it is about something else.
pub fn answer(request: &Request) -> Option<Result<Line, ModelError>> {
    let rules = request.prompt.blocks.iter().find(|block| block.name == "rules")?;
    let task = request.prompt.blocks.iter().find(|block| block.name == "task")?;
    if !rules.text.starts_with("You change files of a software project") {
        return None;
    }
    if !task.text.lines().nth(2).is_some_and(knows) {
        return Some(Err(unknown()));
    }
    let files = request.prompt.blocks.iter().find(|block| block.name == "files");
    Some(Ok(match files {
        Some(files) => in_words(&files.text, request.prompt.transcript.len() > 1),
        None if request.tools.is_empty() => Line::Words("I was shown no file.".to_owned()),
        None => by_tools(&request.prompt.transcript),
    }))
}

fn by_tools(transcript: &[Turn]) -> Line {
    let results: Vec<&ToolResult> = transcript
        .iter()
        .filter_map(|turn| if let Turn::Tool(result) = turn { Some(result) } else { None })
        .collect();
    let Some(last) = results.last() else { return Line::Call(reading::LIST, json!({})) };
    let read =
        |result: &ToolResult| serde_json::from_str::<Value>(&result.content).unwrap_or_default();
    let told = read(last);
    let rejected = results.iter().any(|result| read(result)["verdict"] == "rejected");
    let of = |name: &str| results.iter().rev().find(|result| result.name == name).map(|r| read(r));
    let path = of(reading::LIST).and_then(|listed| {
        let files = listed["files"].as_array()?;
        let named =
            |file: &&Value| file.as_str().is_some_and(|file| file.rsplit('/').next() == Some(FILE));
        files.iter().find(named)?.as_str().map(str::to_owned)
    });
    let Some(path) = path else {
        return Line::Words(format!("There is no {FILE} here, so there is nothing to change."));
    };
    let draft = of(tools::REQUEST).map(|asked| asked["draft_path"].clone()).unwrap_or_default();
    match last.name.as_str() {
        _ if last.failed => Line::Words(format!("I cannot go on: {}", last.content)),
        reading::LIST => {
            Line::Call(tools::REQUEST, json!({"source_path": path, "task_id": "version"}))
        }
        tools::REQUEST => Line::Call(tools::READ, json!({"draft_path": draft})),
        tools::READ => {
            let content = changed(told["content"].as_str().unwrap_or_default(), rejected);
            Line::Call(tools::WRITE, json!({"draft_path": draft, "content": content}))
        }
        tools::WRITE => Line::Call(
            tools::SUBMIT,
            json!({"draft_path": draft, "original_path": path, "task_id": "version",
                   "change_summary": "--version prints the version and ends"}),
        ),
        _ if told["verdict"] == "rejected" => {
            Line::Call(tools::REQUEST, json!({"source_path": path, "task_id": "version"}))
        }
        _ => Line::Words(match told["verdict"].as_str() {
            Some("accepted") => format!("{path} has a --version flag now."),
            _ => format!("The change to {path} is handed in; somebody else decides now."),
        }),
    }
}

/// The same for a worker without tools.
fn in_words(files: &str, rejected: bool) -> Line {
    // A path, then the marks around its content.
    let mut lines = files.lines();
    let path = lines.find_map(|line| {
        let path = line.strip_prefix('`')?.split('`').next()?;
        (path.rsplit('/').next() == Some(FILE)).then(|| path.to_owned())
    });
    let Some(path) = path else {
        return Line::Words(format!("I was not shown {FILE}."));
    };
    let mark = lines.next().unwrap_or_default();
    let content: String =
        lines.take_while(|line| *line != mark).map(|line| format!("{line}\n")).collect();
    let content = changed(&content, rejected);
    Line::Words(format!(
        "--version prints the version and ends.\n\nFILE: {path}\n```python\n{content}```\n"
    ))
}

/// The file with the flag. At first the version is read from a place that only one machine has.
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
