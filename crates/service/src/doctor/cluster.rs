//! Whether the cluster of the settings answers, and who works for it.

use std::time::Instant;

use assize_cluster::{Member, Node, NodeRole, VERSION, options};
use assize_config::{Environment, SettingKey, Settings};
use assize_types::{Failure, FailureKind};

use super::PATIENCE;

/// What was found out about it.
#[derive(Debug)]
pub struct ClusterFound {
    pub servers: String,
    pub state: ClusterState,
}

/// How it stands with it.
#[derive(Debug)]
pub enum ClusterState {
    /// And how many workers it has that take work, with how many sandboxes.
    Answers {
        took: std::time::Duration,
        workers: usize,
        slots: u32,
    },
    Fails(Failure),
    NotTried,
}

pub(super) async fn examine(
    config: &Settings,
    around: &Environment,
    offline: bool,
) -> Option<ClusterFound> {
    if config.cluster.servers.is_none() {
        return None;
    }
    let found = match options(config, around) {
        Err(failure) => ClusterFound {
            servers: SettingKey::ClusterServers.to_string(),
            state: ClusterState::Fails(failure),
        },
        Ok(options) => {
            let servers = options.address.to_string();
            let state = match offline {
                true => ClusterState::NotTried,
                false => ask(config, around).await.unwrap_or_else(ClusterState::Fails),
            };
            ClusterFound { servers, state }
        }
    };
    Some(found)
}

async fn ask(config: &Settings, around: &Environment) -> Result<ClusterState, Failure> {
    let start = Instant::now();
    let (member, _) = Member::join(config, around, Some(PATIENCE)).await?;
    let took = start.elapsed();
    let takes_work = |node: &Node| node.role == NodeRole::Worker && node.speaks == VERSION;
    let nodes = member.cluster.who().await?;
    let workers = nodes.iter().filter(|node| takes_work(node));
    let slots = workers.clone().map(|worker| worker.slots).sum();
    Ok(ClusterState::Answers { took, workers: workers.count(), slots })
}

impl ClusterFound {
    /// It is in use, so it has to work.
    pub fn complain(&self) -> Result<(), Failure> {
        match &self.state {
            ClusterState::Fails(failure) => Err(failure.clone()),
            ClusterState::Answers { workers: 0, .. } => {
                let message = format!("nobody works for the cluster at {}", self.servers);
                Err(Failure::new(FailureKind::Environment, message)
                    .hint("start a worker there: `assize worker --cluster …`"))
            }
            ClusterState::Answers { .. } | ClusterState::NotTried => Ok(()),
        }
    }
}
