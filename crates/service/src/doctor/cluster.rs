//! Checks of `assize doctor` on the cluster: whether the configured NATS servers reply, and how many workers there are.

use std::time::Instant;

use assize_cluster::{ClusterClient, ClusterNode, NodeRole, VERSION, options};
use assize_config::{Environment, SettingKey, Settings};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::Serialize;

use super::PROBE_TIMEOUT;

/// Result of the checks on the configured cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClusterReport {
    pub servers: String,
    pub state: ClusterReportState,
    pub detail: Option<String>,
    /// Number of workers that accept jobs from this version of assize; null if the check was skipped or failed.
    pub workers: Option<usize>,
    /// Total number of sandboxes that the workers counted in `workers` can use at once; null if the check was skipped
    /// or failed.
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
        let probe = async {
            let (member, _) = ClusterClient::join(config, around, Some(PROBE_TIMEOUT)).await?;
            let took = start.elapsed();
            Ok::<_, Failure>((took, member.cluster.nodes().await?))
        };
        Some(match probe.await {
            Err(failure) => report.failed(failure),
            Ok((took, nodes)) => {
                let takes_jobs =
                    |node: &&ClusterNode| node.role == NodeRole::Worker && node.speaks == VERSION;
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

    /// Fails if the configured cluster cannot be reached or has no workers.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match (&self.failure, self.workers) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(0)) => {
                let message = format!("the cluster at {} has no workers", self.servers);
                Err(Failure::new(FailureKind::Environment, message)
                    .hint("start a worker with `assize worker --cluster …`"))
            }
            (None, _) => Ok(()),
        }
    }
}
