//! The tools, as models see them: names, descriptions, shapes, and what a call of each comes to.
//!
//! Everyone calls them here: whoever speaks MCP, and our own worker.

use std::sync::Arc;

use assize_llm::Schema;
use assize_types::text::shorten;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answers::{Read, Requested, Submit, Submitted, Written};
use crate::service::{DraftError, DraftService};

/// A tool as it is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    /// The schema of its input, and of its output.
    pub input: Value,
    pub output: Value,
    /// It changes nothing at all.
    pub only_reads: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct RequestDraft {
    /// The file to edit, from the workspace's folder, such as `src/main.py`. May be a new file.
    source_path: String,
    /// The task you work on: letters, digits, `_`, `-` and `.`. Use the same one in all calls of a task.
    task_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WriteDraft {
    /// The `draft_path` that `ollama_request_draft` gave you.
    draft_path: String,
    /// The whole new content of the file, from its first line to its last; not a diff and not an excerpt.
    content: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReadDraft {
    /// The `draft_path` that `ollama_request_draft` gave you.
    draft_path: String,
}

pub const REQUEST: &str = "ollama_request_draft";
pub const WRITE: &str = "ollama_write_draft";
pub const READ: &str = "ollama_read_draft";
pub const SUBMIT: &str = "ollama_submit_draft";

/// The four tools.
pub fn all() -> Vec<Tool> {
    vec![
        tool::<RequestDraft, Requested>(
            REQUEST,
            "Step 1 of changing a file. Gives you a draft, a copy of the file that you may \
                edit; the file itself is never touched by you. Returns `draft_path` for the other tools. \
                To propose a new file, name a path where none is.",
        ),
        tool::<WriteDraft, Written>(
            WRITE,
            "Step 2. Replaces the whole content of a draft with `content`. Write the complete \
                file, with the lines that you do not change. You can write as often as you like before you \
                submit.",
        ),
        tool::<ReadDraft, Read>(
            READ,
            "Returns the content of a draft as it is now. Right after \
                `ollama_request_draft` that is the content of the file.",
        ),
        tool::<Submit<'_>, Submitted>(
            SUBMIT,
            "Step 3, when the draft is finished. A gate checks the change and answers with a \
                verdict. `accepted`: the file is changed. `rejected`: nothing is changed and the draft is \
                gone; read the reasons, ask for the draft again and mend them. `escalated`: a person will \
                decide, leave the file alone. `pending`: the verdict comes with a later answer.",
        ),
    ]
}

fn tool<I: JsonSchema, O: JsonSchema>(name: &'static str, description: &'static str) -> Tool {
    let (input, output) = (Schema::of::<I>().value, Schema::of::<O>().value);
    Tool { name, description, input, output, only_reads: name == READ }
}

/// A call that came to nothing. The words are for the model.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("there is no tool `{0}`; there are {REQUEST}, {WRITE}, {READ} and {SUBMIT}")]
    Unknown(String),
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Draft(#[from] DraftError),
}

/// Calls a tool on behalf of somebody.
///
/// # Errors
/// When nothing came of it; the words say what to do.
pub async fn call(
    service: &Arc<DraftService>,
    by: &str,
    tool: &str,
    arguments: &Value,
) -> Result<Value, CallError> {
    match tool {
        REQUEST => {
            let given: RequestDraft = read(tool, arguments)?;
            Ok(json!(service.request(by, &given.source_path, &given.task_id).await?))
        }
        WRITE => {
            let given: WriteDraft = read(tool, arguments)?;
            Ok(json!(service.write(by, &given.draft_path, &given.content).await?))
        }
        READ => {
            let given: ReadDraft = read(tool, arguments)?;
            Ok(json!(service.read(by, &given.draft_path).await?))
        }
        SUBMIT => Ok(json!(service.submit(by, read(tool, arguments)?).await?)),
        other => Err(CallError::Unknown(shorten(other, 100))),
    }
}

/// Reads the arguments of a call.
pub(crate) fn read<'a, T: Deserialize<'a> + JsonSchema>(
    tool: &str,
    arguments: &'a Value,
) -> Result<T, CallError> {
    T::deserialize(arguments).map_err(|error| {
        let schema = Schema::of::<T>().value;
        let required = schema["required"].as_array().into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        CallError::Arguments(format!(
            "{error}; call `{tool}` with an object that has `{}`",
            required.join("`, `")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_have_the_inputs_and_outputs_that_others_know() {
        let tools = all();
        for (tool, required, gives) in [
            (
                REQUEST,
                &["source_path", "task_id"][..],
                &["draft_path", "original_hash", "line_count"][..],
            ),
            (WRITE, &["draft_path", "content"], &["success", "new_hash", "line_count"]),
            (READ, &["draft_path"], &["content", "line_count"]),
            (
                SUBMIT,
                &["draft_path", "original_path", "task_id", "change_summary"],
                &["submitted", "message_id", "verdict"],
            ),
        ] {
            let tool = tools.iter().find(|known| known.name == tool).unwrap();
            assert_eq!(tool.input["required"], json!(required));
            for field in gives {
                assert!(tool.output["properties"][*field].is_object(), "{field}");
            }
            let fields = tool.input["properties"].as_object().unwrap();
            let explained = fields.values().all(|field| field["description"].is_string());
            assert!(explained, "{}", tool.input);
        }
        assert_eq!(tools.len(), 4);
    }

    #[test]
    fn wrong_arguments_are_told_in_words() {
        let told = read::<WriteDraft>(WRITE, &json!({"draft_path": "x"})).unwrap_err().to_string();
        assert_eq!(
            told,
            "missing field `content`; call `ollama_write_draft` with an object that has `draft_path`, `content`"
        );
        assert!(read::<ReadDraft>(READ, &json!("x")).is_err());
        assert!(read::<ReadDraft>(READ, &json!({"draft_path": 3})).is_err());
    }
}
