//! Handlers of the HTTP API, grouped by the resource that they serve.

pub(crate) mod drafts;
pub(crate) mod files;
pub(crate) mod machine;
mod pagination;
pub(crate) mod request_parts;
pub(crate) mod resume_fork;
pub(crate) mod runs;
pub(crate) mod sandboxes;
pub(crate) mod start;
pub(crate) mod start_bodies;
pub(crate) mod tokens;
