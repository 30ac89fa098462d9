//! MCP server that offers one set of tools. It declares only the `tools` capability.

use std::sync::Arc;

use assize_types::text::{one_line, shorten};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ContentBlock, Implementation, JsonObject,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

/// Set of tools that an MCP server offers.
pub trait ToolSet: Clone + Send + Sync + 'static {
    /// Instructions sent to a client when it connects.
    const INSTRUCTIONS: &'static str;

    /// Lists the tools that are enabled.
    fn list(&self) -> impl Future<Output = Result<Vec<Tool>, ErrorData>> + Send;

    /// Calls a tool on behalf of the client `caller`.
    fn call(
        &self,
        caller: &str,
        tool: &str,
        arguments: Value,
    ) -> impl Future<Output = Result<CallToolResult, ToolCallError>> + Send;
}

/// Why the call of a tool failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCallError {
    /// The tool is unknown. This is a protocol error; the message lists the known tools.
    UnknownTool(String),
    /// The tool failed. The message is sent as a tool result, so that the model reads it.
    Failed(String),
}

/// MCP server that offers a set of tools.
#[derive(Debug, Clone)]
pub struct ToolServer<T>(pub(crate) T);

impl<T: ToolSet> ServerHandler for ToolServer<T> {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("assize", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(T::INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: self.0.list().await?, ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = name_of(&context);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let called = tokio::select! {
            called = self.0.call(&caller, &request.name, arguments) => called,
            // The client no longer waits for the result.
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("cancelled by the client", None));
            }
        };
        match called {
            Ok(result) => Ok(result.into()),
            Err(ToolCallError::UnknownTool(message)) => {
                Err(ErrorData::invalid_params(message, None))
            }
            Err(ToolCallError::Failed(message)) => {
                Ok(CallToolResult::error(vec![ContentBlock::text(message)]).into())
            }
        }
    }

    // The following methods return `method not found`. rmcp's defaults would return empty lists, as if the server had
    // declared the capabilities.

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}

/// Converts a JSON schema to the type that rmcp uses for schemas.
pub(crate) fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::new(JsonObject::new()),
    }
}

/// Name of the MCP client in the audit log: `worker`, followed by the name and version that the client sent in
/// `initialize`.
fn name_of(context: &RequestContext<RoleServer>) -> String {
    let client = context.peer.peer_info().map(|info| {
        let Implementation { name, version, .. } = &info.client_info;
        shorten(&one_line(&format!("{name} {version}")), 80)
    });
    format!("worker {}", client.as_deref().unwrap_or("unknown"))
}
