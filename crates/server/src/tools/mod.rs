//! MCP servers (Model Context Protocol): the draft tools of a workspace, and code execution.
//!
//! The draft tools make no decisions. They pass each call to the draft service together with the name of the MCP
//! client. They return the result as structured content, and also as text for clients that do not support structured
//! content.

mod code;
mod drafts;
mod http;
mod returned_files;
mod server;
mod stdio;
mod unique_ids;

pub use code::CodeServer;
pub use drafts::DraftServer;
pub(crate) use http::{McpSessions, SessionRefusal, over_http};
pub use stdio::{McpSessionEnd, serve_stdio};
