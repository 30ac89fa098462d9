//! What the rehearsal model knows to say about code: a handful of tasks of its own, by heart, so that the
//! whole loop can be seen without a model.

use assize_llm::{ErrorKind, ModelError, Request, Turn};
use assize_sandbox::Language;
use serde_json::json;

use crate::answer::{CODE, CRITIQUE};

/// A task that is known by heart.
struct Scene {
    task: &'static str,
    /// The program of each attempt, and why it is written like this.
    programs: &'static [(&'static str, &'static str, f64)],
    /// The file that it reads, if it reads one.
    reads: Option<&'static str>,
}

static SCENES: [Scene; 5] = [
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
            (include_str!("../rehearsal/users_1.py"), "The file is read as the task says.", 0.7),
            (
                include_str!("../rehearsal/users_2.py"),
                "A file that is missing is replaced by sample data, and the output says so; a record may name the user by another key.",
                0.9,
            ),
        ],
        reads: Some("users.json"),
    },
    Scene {
        task: "Find the ten most common words in words.txt",
        programs: &[
            (
                include_str!("../rehearsal/words_1.py"),
                "Counting words is what Counter is for.",
                0.8,
            ),
            (
                include_str!("../rehearsal/words_2.py"),
                "Where the file is not given, a sample stands in for it; punctuation is not counted.",
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
            "Each number is written at once, so that whoever watches sees it.",
            0.97,
        )],
        reads: None,
    },
];

/// The tasks that are known by heart.
pub fn tasks() -> Vec<&'static str> {
    SCENES.iter().map(|scene| scene.task).collect()
}

/// Whether a task is one of them, and to be done in Python.
pub fn knows(task: &str, language: Language) -> bool {
    language == Language::Python && scene(task).is_some()
}

fn scene(task: &str) -> Option<&'static Scene> {
    let task = task.trim().trim_end_matches('.');
    SCENES.iter().find(|scene| task.eq_ignore_ascii_case(scene.task))
}

/// What the rehearsal model answers to a request about code; `None` if it is about something else.
pub fn answer(request: &Request) -> Option<Result<String, ModelError>> {
    let schema = request.schema.as_ref()?;
    let writes = *schema == CODE.schema;
    if !writes && *schema != CRITIQUE.schema {
        return None;
    }
    let block = request.prompt.blocks.iter().find(|block| block.name == "task")?;
    // The first line between its marks is all of such a task.
    let Some(scene) = block.text.lines().nth(2).and_then(scene) else {
        return Some(Err(unknown()));
    };
    let tried = request.prompt.transcript.len();
    let answer = if writes {
        let (code, reasoning, confidence) = scene.programs[tried.min(scene.programs.len() - 1)];
        json!({"code": code, "dependencies": [], "reasoning": reasoning, "confidence": confidence})
    } else {
        let told = match request.prompt.transcript.last() {
            Some(Turn::User { text }) => &**text,
            _ => "",
        };
        let (issue, fix) = critique(scene, told);
        json!({"issues": [issue], "suggested_fixes": [fix]})
    };
    Some(Ok(answer.to_string()))
}

/// An issue and its fix, from what is told of the last attempt: the rehearsal model has no other knowledge.
fn critique(scene: &Scene, told: &str) -> (String, String) {
    let happened = told.lines().find_map(|line| {
        line.strip_prefix("What happened: ").or_else(|| line.strip_prefix("It was not run: "))
    });
    let Some(happened) = happened.map(|words| words.trim_end_matches('.')) else {
        return (
            "Nothing is told about how the last attempt ended.".to_owned(),
            "Run the program once more.".to_owned(),
        );
    };
    if let Some(file) = scene.reads
        && told.lines().any(|line| line.starts_with("FileNotFoundError") && line.contains(file))
    {
        return (
            format!("The program opens `{file}`, and no such file is in the sandbox."),
            "Look whether the file is there; where it is not, work on sample data and say so."
                .to_owned(),
        );
    }
    // Python's own last word, where there is one.
    let is_error = |line: &&str| {
        let kind = line.split(':').next().unwrap_or_default();
        kind.ends_with("Error") && !kind.contains(' ')
    };
    let happened = told.lines().rfind(is_error).unwrap_or(happened);
    let fix = if happened.starts_with("KeyError") {
        "Look which keys the records have, and use those."
    } else if happened.contains("JSONDecodeError") || happened.contains("UnicodeDecodeError") {
        "Check the file's content before relying on it, and say what is wrong with it."
    } else {
        "Handle exactly what the message names, and say on standard error when it cannot be done."
    };
    (format!("The program failed: {happened}."), fix.to_owned())
}

/// That a task is none of them, and what to do about it.
pub fn unknown() -> ModelError {
    let tasks: Vec<String> = tasks().into_iter().map(|task| format!("\"{task}\"")).collect();
    let message = format!(
        "no model is configured, and the rehearsal model knows only these tasks by heart, in Python: {}",
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
    fn every_scene_can_be_played_to_its_end() {
        for scene in &SCENES {
            assert!(!scene.programs.is_empty());
        }
    }

    #[test]
    fn critique_names_what_happened_and_nothing_else() {
        let scene = scene("Read data from users.json and print usernames").unwrap();
        let missing = "What happened: it ended with exit code 1.\n\
                       FileNotFoundError: [Errno 2] No such file or directory: 'users.json'\n";
        assert!(critique(scene, missing).0.contains("no such file is in the sandbox"));
        for (error, fix) in [
            ("KeyError: 'username'", "which keys the records have"),
            ("json.decoder.JSONDecodeError: Expecting value", "the file's content"),
            ("TypeError: 'int' object is not iterable", "what the message names"),
        ] {
            let told =
                format!("What happened: it ended with exit code 1.\nTraceback\n{error}\nend\n");
            let (issue, said) = critique(scene, &told);
            assert!(
                issue.ends_with(&format!("{error}.")) && !issue.contains("no such file"),
                "{issue}"
            );
            assert!(said.contains(fix), "{said}");
        }
        assert!(critique(scene, "").0.contains("Nothing is told"));
    }
}
