//! MCP server that offers the draft tools of a workspace.

use std::borrow::Cow;
use std::sync::Arc;

use assize_draft::{DraftService, tools};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use serde_json::Value;

use crate::tools::server::{ToolCallError, ToolServer, ToolSet, object};

/// Draft tools of one workspace.
#[derive(Debug, Clone)]
pub struct DraftTools {
    service: Arc<DraftService>,
}

/// MCP server that offers the draft tools of one workspace.
pub type DraftServer = ToolServer<DraftTools>;

impl DraftServer {
    pub fn new(service: Arc<DraftService>) -> DraftServer {
        ToolServer(DraftTools { service })
    }
}

impl ToolSet for DraftTools {
    const INSTRUCTIONS: &'static str = "Change files of this workspace through drafts: request a draft with \
        ollama_request_draft, write the whole new content with ollama_write_draft, submit it with \
        ollama_submit_draft, and act on the verdict. Use one task_id for all changes that belong together.";

    async fn list(&self) -> Result<Vec<Tool>, ErrorData> {
        let failed = |error| ErrorData::internal_error(format!("{error}"), None);
        // If the draft tools of the workspace are disabled, none is listed.
        match self.service.state().await.map_err(failed)?.tools_off {
            true => Ok(Vec::new()),
            false => Ok(tools::all().into_iter().map(offered).collect()),
        }
    }

    async fn call(
        &self,
        caller: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ToolCallError> {
        match tools::call(&self.service, caller, tool, &arguments).await {
            Ok(answer) => Ok(CallToolResult::structured(answer)),
            Err(error @ tools::DraftToolError::Unknown(_)) => {
                Err(ToolCallError::UnknownTool(error.to_string()))
            }
            Err(error) => Err(ToolCallError::Failed(error.to_string())),
        }
    }
}

/// Converts a draft tool to an MCP tool.
fn offered(tool: tools::DraftTool) -> Tool {
    // An accepted submission overwrites files of the workspace; all other tools change only drafts.
    let submits = tool.name == tools::SUBMIT;
    let hints = ToolAnnotations::from_raw(
        None,
        Some(tool.only_reads),
        Some(submits),
        Some(!submits),
        Some(false),
    );
    Tool::new(tool.name, Cow::Borrowed(tool.description), object(tool.input))
        .with_raw_output_schema(object(tool.output))
        .with_annotations(hints)
}
