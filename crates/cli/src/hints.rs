//! Hints in messages: the command about a run to type next.

use std::sync::OnceLock;

use assize_config::{SettingKey, Settings};
use assize_run::{RunId, RunKind, how_to_resume};

use crate::terminal::{DIM, paint};

/// ` --cluster SERVERS`, if that flag was given.
static CLUSTER: OnceLock<String> = OnceLock::new();

/// Remembers the `--cluster` flag of the command line, which commands about its runs need again.
pub(crate) fn remember_cluster(config: &Settings) {
    let servers =
        config.written(SettingKey::ClusterServers).and_then(|servers| servers.requested());
    if let Some(servers) = servers {
        let _ = CLUSTER.set(format!(" --cluster {servers}"));
    }
}

fn cluster() -> &'static str {
    CLUSTER.get().map_or("", String::as_str)
}

/// `assize runs …` for the runs of this command, in backticks.
pub(crate) fn runs(arguments: &str) -> String {
    format!("`assize runs {arguments}{}`", cluster())
}

/// Hint which command shows the transcripts of a run; `content` says what they contain.
pub(crate) fn transcripts(content: &str, id: &RunId) -> String {
    paint(DIM, format!("{content}: {}", runs(&format!("show {id} --transcripts"))))
}

/// Hint how to resume a run.
pub(crate) fn resume(kind: RunKind, id: &RunId) -> String {
    how_to_resume(kind, id, cluster())
}
