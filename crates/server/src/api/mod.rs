//! Handlers of the HTTP API, grouped by the resource that they serve.

pub(crate) mod again;
pub(crate) mod asks;
pub(crate) mod drafts;
pub(crate) mod files;
pub(crate) mod machine;
mod page;
pub(crate) mod runs;
pub(crate) mod sandboxes;
pub(crate) mod start;
pub(crate) mod tokens;
pub(crate) mod wishes;
