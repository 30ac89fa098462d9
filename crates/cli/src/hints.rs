//! Formats hints in messages. Most hints suggest the next command for a run, such as `assize runs show ID`.

use std::sync::OnceLock;

use assize_config::{SettingKey, Settings};
use assize_run::{RunId, how_to_resume};
use assize_types::Failure;

use crate::terminal::{DIM, paint};

/// Text ` --cluster SERVERS` that is appended to suggested commands. Set only if the flag `--cluster` was given.
static CLUSTER: OnceLock<String> = OnceLock::new();

/// Stores the `--cluster` flag of the command line, because suggested commands need the same flag to find the run.
pub(crate) fn store_cluster_flag(config: &Settings) {
    let servers =
        config.text_of(SettingKey::ClusterServers).and_then(|servers| servers.requested());
    if let Some(servers) = servers {
        let _ = CLUSTER.set(format!(" --cluster {servers}"));
    }
}

fn cluster() -> &'static str {
    CLUSTER.get().map_or("", String::as_str)
}

/// Formats the command `assize runs ARGUMENTS` in backticks, with the flag `--cluster` if the user gave this flag.
pub(crate) fn runs(arguments: &str) -> String {
    format!("`assize runs {arguments}{}`", cluster())
}

/// Formats a hint with the command that shows the transcripts of a run. `content` describes what the transcripts
/// contain.
pub(crate) fn transcripts(content: &str, id: &RunId) -> String {
    paint(DIM, format!("{content}: {}", runs(&format!("show {id} --transcripts"))))
}

/// Formats a hint that tells the user how to resume a run.
pub(crate) fn resume(id: &RunId) -> String {
    how_to_resume(id, cluster())
}

/// Adds a hint to a failure that has none.
pub(crate) fn with_fallback(failure: Failure, hint: &str) -> Failure {
    if failure.hint_text().is_some() { failure } else { failure.hint(hint) }
}
