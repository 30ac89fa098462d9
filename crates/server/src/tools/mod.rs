//! Our tools over the Model Context Protocol: what others call, they call here.
//!
//! The draft tools decide nothing. A call is handed to the desk with the name that the client gave itself, and what
//! the desk answers goes back as it is: as structured content, and as text for clients that know no other.

mod code;
mod drafts;
mod http;
mod left;
mod server;
mod stdio;
mod unique_ids;

pub use code::CodeServer;
pub use drafts::DraftServer;
pub(crate) use http::{Refusal, Sessions, over_http};
pub use stdio::{Ended, serve_stdio};
