//! MCP servers (Model Context Protocol): the draft tools of a workspace, and code execution.
//!
//! The draft tools decide nothing: they pass each call to the draft service with the client's name, and return its
//! answer as structured content, and as text for clients that do not support structured content.

mod code;
mod drafts;
mod http;
mod left;
mod server;
mod stdio;
mod unique_ids;

pub use code::CodeServer;
pub use drafts::DraftServer;
pub(crate) use http::{McpSessions, SessionRefusal, over_http};
pub use stdio::{McpSessionEnd, serve_stdio};
