//! Files of a workspace, with links in every place.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod files;
