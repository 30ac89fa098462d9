//! Scripted answers of the rehearsal model for a few code tasks, to demonstrate a whole code run (write a program, run
//! it, critique it, correct it) without a real model.

use assize_llm::{ErrorKind, ModelError, ModelRequest, TranscriptTurn};
use assize_sandbox::Language;
use serde_json::json;

use crate::answer::{CODE, CRITIQUE};

/// A task for which the rehearsal model has scripted answers.
struct Scene {
    task: &'static str,
    /// For each attempt: the program, the model's reasoning and its confidence.
    programs: &'static [(&'static str, &'static str, f64)],
    /// File that the program reads, if any.
    reads: Option<&'static str>,
}

static SCRIPTED_TASKS: [Scene; 5] = [
    Scene {
        task: "Calculate fibonacci(10)",
        programs: &[(
            include_str!("../rehearsal/fibonacci.py"),
            "A loop needs no recursion and stays exact for any n.",
            0.98,
        )],
        reads: None,
    },
    Scene {
        task: "Read data from users.json and print usernames",
        programs: &[
            (
                include_str!("../rehearsal/users_1.py"),
                "The program reads the file that the task names.",
                0.7,
            ),
            (
                include_str!("../rehearsal/users_2.py"),
                "The program uses sample data if the file is missing, and accepts several keys for the user name.",
                0.9,
            ),
        ],
        reads: Some("users.json"),
    },
    Scene {
        task: "Find the ten most common words in words.txt",
        programs: &[
            (include_str!("../rehearsal/words_1.py"), "The class `Counter` counts the words.", 0.8),
            (
                include_str!("../rehearsal/words_2.py"),
                "The program uses a sample sentence if the file is missing, and ignores punctuation.",
                0.9,
            ),
        ],
        reads: Some("words.txt"),
    },
    Scene {
        task: "Draw a sine wave as an SVG file",
        programs: &[(
            include_str!("../rehearsal/sine.py"),
            "An SVG is text, so no drawing library is needed.",
            0.95,
        )],
        reads: None,
    },
    Scene {
        task: "Count down from ten",
        programs: &[(
            include_str!("../rehearsal/countdown.py"),
            "The program flushes each number, so that a viewer sees the number immediately.",
            0.97,
        )],
        reads: None,
    },
];

/// Returns the tasks that the rehearsal model supports.
pub fn tasks() -> Vec<&'static str> {
    SCRIPTED_TASKS.iter().map(|scene| scene.task).collect()
}

/// Whether the rehearsal model supports a task: the task is scripted, and the language is Python.
pub fn supports(task: &str, language: Language) -> bool {
    language == Language::Python && scene(task).is_some()
}

fn scene(task: &str) -> Option<&'static Scene> {
    let task = task.trim().trim_end_matches('.');
    SCRIPTED_TASKS.iter().find(|scene| task.eq_ignore_ascii_case(scene.task))
}

/// Returns the scripted answer to a request for a program or for a critique; `None` for other requests.
pub fn answer(request: &ModelRequest) -> Option<Result<String, ModelError>> {
    let schema = request.schema.as_ref()?;
    let writes = *schema == CODE.schema;
    if !writes && *schema != CRITIQUE.schema {
        return None;
    }
    let block = request.prompt.blocks.iter().find(|block| block.name == "task")?;
    // A scripted task has one line. In the prompt, this is the third line of the block `task`, after the opening fence.
    let Some(scene) = block.text.lines().nth(2).and_then(scene) else {
        return Some(Err(unsupported_task()));
    };
    let tried = request.prompt.transcript.len();
    let answer = if writes {
        let (code, reasoning, confidence) = scene.programs[tried.min(scene.programs.len() - 1)];
        json!({"code": code, "dependencies": [], "reasoning": reasoning, "confidence": confidence})
    } else {
        let last = match request.prompt.transcript.last() {
            Some(TranscriptTurn::User { text }) => &**text,
            _ => "",
        };
        let (issue, fix) = critique(scene, last);
        json!({"issues": [issue], "suggested_fixes": [fix]})
    };
    Some(Ok(answer.to_string()))
}

/// Derives the critic's issue and fix from the description of the last attempt in the prompt.
fn critique(scene: &Scene, attempt: &str) -> (String, String) {
    let happened = attempt.lines().find_map(|line| {
        line.strip_prefix("What happened: ").or_else(|| line.strip_prefix("It was not run: "))
    });
    let Some(happened) = happened.map(|words| words.trim_end_matches('.')) else {
        return (
            "The prompt does not describe how the last attempt ended.".to_owned(),
            "Run the program once more.".to_owned(),
        );
    };
    if let Some(file) = scene.reads
        && attempt.lines().any(|line| line.starts_with("FileNotFoundError") && line.contains(file))
    {
        return (
            format!("The program opens `{file}`, and no such file is in the sandbox."),
            "Check whether the file exists; if it is missing, use sample data and say so."
                .to_owned(),
        );
    }
    // Prefer the line of a Python traceback that names the error.
    let is_error = |line: &&str| {
        let kind = line.split(':').next().unwrap_or_default();
        kind.ends_with("Error") && !kind.contains(' ')
    };
    let happened = attempt.lines().rfind(is_error).unwrap_or(happened);
    let fix = if happened.starts_with("KeyError") {
        "Find out which keys the records have, and use these keys."
    } else if happened.contains("JSONDecodeError") || happened.contains("UnicodeDecodeError") {
        "Check the file's content before using it, and report what is wrong with the content."
    } else {
        "Remove the cause of the error; if that is impossible, report the error on standard error."
    };
    (format!("The program failed: {happened}."), fix.to_owned())
}

/// Creates the error for a task that the rehearsal model does not support.
pub fn unsupported_task() -> ModelError {
    let tasks: Vec<String> = tasks().into_iter().map(|task| format!("\"{task}\"")).collect();
    let message = format!(
        "no model is configured, and the rehearsal model supports only these Python tasks: {}",
        tasks.join(", ")
    );
    ModelError::new(ErrorKind::BadRequest, message).with_hint(
        "set a provider's key, such as `ANTHROPIC_API_KEY`, or start Ollama; `assize doctor` shows what \
         is configured",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rehearsal_task_has_a_program() {
        for scene in &SCRIPTED_TASKS {
            assert!(!scene.programs.is_empty());
        }
    }

    #[test]
    fn rehearsal_critique_describes_the_error_of_the_last_attempt() {
        let scene = scene("Read data from users.json and print usernames").unwrap();
        let missing = "What happened: the program exited with code 1.\n\
                       FileNotFoundError: [Errno 2] No such file or directory: 'users.json'\n";
        assert!(critique(scene, missing).0.contains("no such file is in the sandbox"));
        for (error, fix) in [
            ("KeyError: 'username'", "which keys the records have"),
            ("json.decoder.JSONDecodeError: Expecting value", "the file's content"),
            ("TypeError: 'int' object is not iterable", "the cause of the error"),
        ] {
            let attempt = format!(
                "What happened: the program exited with code 1.\nTraceback\n{error}\nend\n"
            );
            let (issue, suggested) = critique(scene, &attempt);
            assert!(
                issue.ends_with(&format!("{error}.")) && !issue.contains("no such file"),
                "{issue}"
            );
            assert!(suggested.contains(fix), "{suggested}");
        }
        assert!(critique(scene, "").0.contains("does not describe"));
    }
}
