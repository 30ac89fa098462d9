//! Definitions of the draft tools for models (names, descriptions, schemas), and the function that executes tool calls.
//! This module executes the tool calls of MCP clients and of Assize's own agent.

use std::sync::Arc;

use assize_llm::Schema;
use assize_types::text::shorten;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::responses::{DraftContent, DraftCreated, DraftWritten, SubmitRequest, SubmitResponse};
use crate::service::{DraftError, DraftService};

/// Definition of a draft tool.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftTool {
    pub name: &'static str,
    pub description: &'static str,
    /// JSON schema of the arguments.
    pub input: Value,
    /// JSON schema of the result.
    pub output: Value,
    /// Whether the tool only reads and changes nothing.
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

/// Returns the definitions of the four draft tools.
pub fn all() -> Vec<DraftTool> {
    vec![
        tool::<RequestDraft, DraftCreated>(
            REQUEST,
            "Step 1 of changing a file. Creates a draft, a copy of the file that you may edit; you \
                never edit the file itself. Returns `draft_path` for the other tools. To propose a new file, \
                name a path that does not exist yet.",
        ),
        tool::<WriteDraft, DraftWritten>(
            WRITE,
            "Step 2. Replaces the whole content of a draft with `content`. Write the complete \
                file, including the lines that you do not change. You can write as often as you like before you \
                submit.",
        ),
        tool::<ReadDraft, DraftContent>(
            READ,
            "Returns the current content of a draft. Right after `ollama_request_draft`, this is the \
                content of the file.",
        ),
        tool::<SubmitRequest<'_>, SubmitResponse>(
            SUBMIT,
            "Step 3, when the draft is finished. A gate checks the change and answers with a \
                verdict. `accepted`: the file is changed. `rejected`: nothing is changed and the draft is \
                deleted; read the reasons, request the draft again and fix it. `escalated`: a reviewer will \
                decide; do not change the file. `pending`: a later response contains the verdict.",
        ),
    ]
}

fn tool<I: JsonSchema, O: JsonSchema>(name: &'static str, description: &'static str) -> DraftTool {
    let (input, output) = (Schema::of::<I>().value, Schema::of::<O>().value);
    DraftTool { name, description, input, output, only_reads: name == READ }
}

/// Error of a tool call. Its message is returned to the model.
#[derive(Debug, thiserror::Error)]
pub enum DraftToolError {
    #[error("unknown tool `{0}`; the tools are {REQUEST}, {WRITE}, {READ} and {SUBMIT}")]
    Unknown(String),
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Draft(#[from] DraftError),
}

/// Calls a draft tool on behalf of the agent `by`.
///
/// # Errors
/// If the call fails; the message tells the model what to do.
pub async fn call(
    service: &Arc<DraftService>,
    by: &str,
    tool: &str,
    arguments: &Value,
) -> Result<Value, DraftToolError> {
    match tool {
        REQUEST => {
            let input: RequestDraft = read(tool, arguments)?;
            Ok(json!(service.request(by, &input.source_path, &input.task_id).await?))
        }
        WRITE => {
            let input: WriteDraft = read(tool, arguments)?;
            Ok(json!(service.write(by, &input.draft_path, &input.content).await?))
        }
        READ => {
            let input: ReadDraft = read(tool, arguments)?;
            Ok(json!(service.read(by, &input.draft_path).await?))
        }
        SUBMIT => Ok(json!(service.submit(by, read(tool, arguments)?).await?)),
        other => Err(DraftToolError::Unknown(shorten(other, 100))),
    }
}

/// Parses the arguments of a tool call.
pub(crate) fn read<'a, T: Deserialize<'a> + JsonSchema>(
    tool: &str,
    arguments: &'a Value,
) -> Result<T, DraftToolError> {
    T::deserialize(arguments).map_err(|error| {
        let schema = Schema::of::<T>().value;
        let required = schema["required"].as_array().into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        DraftToolError::Arguments(format!(
            "{error}; call `{tool}` with an object that has `{}`",
            required.join("`, `")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_tools_have_the_documented_inputs_and_outputs() {
        let tools = all();
        for (tool, required, outputs) in [
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
            for field in outputs {
                assert!(tool.output["properties"][*field].is_object(), "{field}");
            }
            let fields = tool.input["properties"].as_object().unwrap();
            let explained = fields.values().all(|field| field["description"].is_string());
            assert!(explained, "{}", tool.input);
        }
        assert_eq!(tools.len(), 4);
    }

    #[test]
    fn invalid_tool_arguments_return_an_error_with_the_required_fields() {
        let message =
            read::<WriteDraft>(WRITE, &json!({"draft_path": "x"})).unwrap_err().to_string();
        assert_eq!(
            message,
            "missing field `content`; call `ollama_write_draft` with an object that has `draft_path`, `content`"
        );
        assert!(read::<ReadDraft>(READ, &json!("x")).is_err());
        assert!(read::<ReadDraft>(READ, &json!({"draft_path": 3})).is_err());
    }
}
