//! Nodes of a cluster. Each server and worker process replies to status requests. The list of nodes is not stored: a
//! dead node does not reply, so it is not listed.

use std::time::Duration;

use assize_run::StoreError;
use futures_util::{StreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::{NatsConnection, random_id};
use crate::error::NatsError;
use crate::{Capabilities, Cluster};

/// Time for which replies are collected after a status request was sent to all nodes. A node on the same machine
/// replies within a few milliseconds.
const REPLY_WINDOW: Duration = Duration::from_millis(700);

/// Status of a server or worker process of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterNode {
    /// Unique id of the process.
    pub id: String,
    pub role: NodeRole,
    /// Version of assize that the node runs.
    pub version: String,
    /// Version of the cluster's data format that the node uses.
    pub speaks: u32,
    pub host: String,
    pub pid: u32,
    /// Time at which the process started, in milliseconds since 1970.
    pub since: u64,
    /// Maximum number of sandboxes that the node uses at once.
    pub slots: u32,
    /// Number of sandboxes of the node that are in use.
    pub busy: u32,
    /// Names of the providers whose rate limits this node enforces for the whole cluster.
    #[serde(default)]
    pub rate_limits: Vec<String>,
    /// Ids of the runs whose leases the node holds.
    #[serde(default)]
    pub leases: Vec<String>,
    pub capabilities: Capabilities,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    Server,
    Worker,
}

impl ClusterNode {
    /// Generates a unique node id.
    pub fn new_id() -> String {
        random_id()
    }
}

impl Cluster {
    /// Replies to status requests with the current value of `node`, until the returned handle is dropped.
    pub async fn announce(
        &self,
        node: watch::Receiver<ClusterNode>,
    ) -> Result<AbortOnDropHandle<()>, StoreError> {
        let client = self.link.context.client();
        let id = node.borrow().id.clone();
        let mut requests = Vec::new();
        for subject in [self.link.subject("who"), self.link.subject(&format!("who.{id}"))] {
            let subscribed = client.subscribe(subject).await.map_err(NatsError::from);
            requests.push(subscribed.map_err(|trouble| trouble.into_store_error(&self.address()))?);
        }
        let mut requests = stream::select_all(requests);
        let task = tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                let Some(reply) = request.reply else { continue };
                let status = serde_json::to_vec(&*node.borrow()).unwrap_or_default();
                if let Err(error) = client.publish(reply, status.into()).await {
                    tracing::debug!(%error, "cannot reply to a status request");
                }
            }
        });
        let task = AbortOnDropHandle::new(task);
        // Send a status request to this process itself: once it receives the reply, other nodes can reach it as well.
        if !self.is_there(&id).await? {
            tracing::warn!("this node does not receive the status requests of the cluster");
        }
        Ok(task)
    }

    /// Sends a status request to all nodes, and returns the status of each node that replies.
    pub async fn nodes(&self) -> Result<Vec<ClusterNode>, StoreError> {
        let mut nodes = self.link.retry(|| request_all(&self.link)).await?;
        nodes.sort_by(|a, b| (a.role, &a.host, a.pid).cmp(&(b.role, &b.host, b.pid)));
        Ok(nodes)
    }

    /// Whether the node with this id replies to a status request.
    pub async fn is_there(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.node(id).await?.is_some())
    }

    /// Returns the current status of the node with this id; `None` if the node does not reply.
    pub async fn node(&self, id: &str) -> Result<Option<ClusterNode>, StoreError> {
        use async_nats::RequestErrorKind::{NoResponders, TimedOut};
        use async_nats::connection::State;
        let client = &self.link.context.client();
        let request = async || {
            let subject = self.link.subject(&format!("who.{id}"));
            let request = async_nats::Request::new().timeout(Some(self.times().node_reply()));
            match client.send_request(subject, request).await {
                Ok(reply) => Ok(serde_json::from_slice(&reply.payload).ok()),
                Err(error) => match error.kind() {
                    NoResponders => Ok(None),
                    TimedOut if client.connection_state() == State::Connected => Ok(None),
                    _ => Err(error.into()),
                },
            }
        };
        self.link.retry(request).await
    }
}

async fn request_all(link: &NatsConnection) -> Result<Vec<ClusterNode>, NatsError> {
    let client = link.context.client();
    let inbox = client.new_inbox();
    let mut replies = client.subscribe(inbox.clone()).await?;
    client.publish_with_reply(link.subject("who"), inbox, Vec::new().into()).await?;
    client.flush().await?;
    let mut nodes = Vec::new();
    let deadline = Instant::now() + REPLY_WINDOW;
    while let Ok(Some(reply)) = tokio::time::timeout_at(deadline, replies.next()).await {
        // If nothing subscribes to the subject, NATS replies with a status header: the cluster has no nodes.
        if reply.status.is_some() {
            break;
        }
        match serde_json::from_slice(&reply.payload) {
            Ok(node) => nodes.push(node),
            Err(error) => tracing::warn!(%error, "cannot decode the status of a node"),
        }
    }
    Ok(nodes)
}
