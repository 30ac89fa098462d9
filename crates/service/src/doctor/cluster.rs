//! Whether the cluster of the settings answers, and how many workers it has.

use std::time::Instant;

use assize_cluster::{Member, Node, NodeRole, VERSION, options};
use assize_config::{Environment, SettingKey, Settings};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::Serialize;

use super::PATIENCE;

/// State of the cluster that the settings name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClusterReport {
    pub servers: String,
    pub state: ClusterReportState,
    pub detail: Option<String>,
    /// Workers that take jobs, and their sandboxes in total.
    pub workers: Option<usize>,
    pub slots: Option<u32>,
    #[serde(skip)]
    failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterReportState {
    Answers,
    Fails,
    NotTried,
}

impl ClusterReport {
    pub(super) async fn new(
        config: &Settings,
        around: &Environment,
        offline: bool,
    ) -> Option<ClusterReport> {
        config.cluster.servers.as_ref()?;
        let servers = match options(config, around) {
            Ok(options) => options.address.to_string(),
            Err(failure) => {
                let servers = SettingKey::ClusterServers.to_string();
                return Some(ClusterReport::not_tried(servers).failed(failure));
            }
        };
        let report = ClusterReport::not_tried(servers);
        if offline {
            return Some(report);
        }
        let start = Instant::now();
        let asked = async {
            let (member, _) = Member::join(config, around, Some(PATIENCE)).await?;
            let took = start.elapsed();
            Ok::<_, Failure>((took, member.cluster.who().await?))
        };
        Some(match asked.await {
            Err(failure) => report.failed(failure),
            Ok((took, nodes)) => {
                let takes_jobs =
                    |node: &&Node| node.role == NodeRole::Worker && node.speaks == VERSION;
                let workers = nodes.iter().filter(takes_jobs);
                ClusterReport {
                    state: ClusterReportState::Answers,
                    detail: Some(format!("{} ms", took.as_millis())),
                    workers: Some(workers.clone().count()),
                    slots: Some(workers.map(|worker| worker.slots).sum()),
                    ..report
                }
            }
        })
    }

    fn not_tried(servers: String) -> ClusterReport {
        let state = ClusterReportState::NotTried;
        ClusterReport { servers, state, detail: None, workers: None, slots: None, failure: None }
    }

    fn failed(self, failure: Failure) -> ClusterReport {
        ClusterReport {
            state: ClusterReportState::Fails,
            detail: Some(failure.message().to_owned()),
            failure: Some(failure),
            ..self
        }
    }

    /// It is in use, so it has to work.
    pub(super) fn complain(&self) -> Result<(), Failure> {
        match (&self.failure, self.workers) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(0)) => {
                let message = format!("nobody works for the cluster at {}", self.servers);
                Err(Failure::new(FailureKind::Environment, message)
                    .hint("start a worker there: `assize worker --cluster …`"))
            }
            (None, _) => Ok(()),
        }
    }
}
