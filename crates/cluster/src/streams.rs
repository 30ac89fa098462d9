//! Status of the cluster's streams on the NATS servers.

use assize_run::StoreError;
use assize_types::unix_millis;
use async_nats::jetstream::stream::Info;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Cluster;
use crate::queue::WORK;
use crate::store::STREAMS;

/// Status of a stream and its replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamStatus {
    pub name: String,
    pub messages: u64,
    pub bytes: u64,
    /// Name of the NATS server that leads the stream; null while there is no leader, or if the only NATS server is not
    /// part of a NATS cluster.
    pub leader: Option<String>,
    /// Replicas of the stream on other NATS servers.
    pub copies: Vec<StreamReplica>,
    /// Age in seconds of the oldest message in the stream; null if the stream is empty.
    pub oldest: Option<u64>,
}

/// Replica of a stream, on a NATS server that is not the leader of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StreamCopy")]
pub struct StreamReplica {
    pub server: String,
    /// Whether the replica is up to date.
    pub current: bool,
    pub offline: bool,
    /// Number of messages that the replica has not stored yet.
    pub behind: u64,
}

impl Cluster {
    /// Returns the status of all streams of the cluster.
    pub async fn streams(&self) -> Result<Vec<StreamStatus>, StoreError> {
        let mut all = Vec::new();
        for name in STREAMS.into_iter().chain([WORK]) {
            all.push(stream(name, self.link.retry(|| self.link.info(name)).await?));
        }
        Ok(all)
    }
}

fn stream(name: &str, info: Info) -> StreamStatus {
    let copy = |peer: &async_nats::jetstream::stream::PeerInfo| StreamReplica {
        server: peer.name.clone(),
        current: peer.current,
        offline: peer.offline,
        behind: peer.lag.unwrap_or_default(),
    };
    let cluster = info.cluster.as_ref();
    let first = info.state.first_timestamp.unix_timestamp();
    let old = (unix_millis() / 1000).saturating_sub(u64::try_from(first).unwrap_or_default());
    StreamStatus {
        name: name.to_owned(),
        messages: info.state.messages,
        bytes: info.state.bytes,
        leader: cluster.and_then(|cluster| cluster.leader.clone()),
        copies: cluster
            .map(|cluster| cluster.replicas.iter().map(copy).collect())
            .unwrap_or_default(),
        oldest: (info.state.messages > 0).then_some(old),
    }
}
