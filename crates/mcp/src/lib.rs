//! Our tools over the Model Context Protocol: what others call, they call here.
//!
//! The draft tools decide nothing. A call is handed to the desk with the name that the client gave itself, and what
//! the desk answers goes back as it is: as structured content, and as text for clients that know no other.

use std::borrow::Cow;
use std::sync::Arc;

use assize_draft::{Desk, tools};
use assize_types::text::{one_line, shorten};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

mod code;
mod http;
mod left;
mod stdio;

pub use code::{CodeServer, RUN_CODE};
pub use http::{HttpService, Sessions, over_http};
pub use stdio::{Ended, serve_stdio};

/// What is told to whoever connects.
const INSTRUCTIONS: &str = "Files of this workspace are changed through drafts. Ask for a draft with \
    ollama_request_draft, write the whole new content with ollama_write_draft, hand it in with \
    ollama_submit_draft, and act on the verdict. Use one task_id for all that belongs together.";

/// The draft tools of a workspace.
#[derive(Debug, Clone)]
pub struct DraftServer {
    desk: Arc<Desk>,
}

impl DraftServer {
    pub fn new(desk: Arc<Desk>) -> DraftServer {
        DraftServer { desk }
    }
}

impl ServerHandler for DraftServer {
    fn get_info(&self) -> ServerConfig {
        info(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let failed = |error| ErrorData::internal_error(format!("{error}"), None);
        let mut listed = ListToolsResult::default();
        // Whoever switches the tools off takes them away.
        if !self.desk.book().await.map_err(failed)?.off {
            listed.tools = tools::all().into_iter().map(offered).collect();
        }
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let by = name_of(&context);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        // Whatever goes wrong is for the model to read: an error of the protocol it would never see.
        let called = tokio::select! {
            called = tools::call(&self.desk, &by, &request.name, &arguments) => called,
            // Nobody hears the answer: what was decided is told with the next.
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("cancelled by the client", None));
            }
        };
        let result = match called {
            Ok(answer) => CallToolResult::structured(answer),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        };
        Ok(result.into())
    }
}

/// Who we are, and what is told to whoever connects.
fn info(instructions: &str) -> ServerConfig {
    let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
    info.server_info = Implementation::new("assize", env!("CARGO_PKG_VERSION"));
    info.instructions = Some(instructions.to_owned());
    info
}

/// A schema as it is sent.
fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::new(JsonObject::new()),
    }
}

/// Who calls, as they call themselves.
fn name_of(context: &RequestContext<RoleServer>) -> String {
    let client = context.peer.peer_info().map(|info| {
        let Implementation { name, version, .. } = &info.client_info;
        shorten(&one_line(&format!("{name} {version}")), 80)
    });
    format!("worker {}", client.as_deref().unwrap_or("unknown"))
}

fn offered(tool: tools::Tool) -> Tool {
    let hints = ToolAnnotations::from_raw(
        None,
        Some(tool.only_reads),
        Some(false),
        Some(tool.name != tools::SUBMIT),
        Some(false),
    );
    Tool::new(tool.name, Cow::Borrowed(tool.description), object(tool.input))
        .with_raw_output_schema(object(tool.output))
        .with_annotations(hints)
}
