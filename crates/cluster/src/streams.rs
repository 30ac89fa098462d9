//! How the servers keep what is written to them.

use assize_run::StoreError;
use assize_types::unix_millis;
use async_nats::jetstream::stream::Info;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Cluster;
use crate::queue::WORK;
use crate::store::STREAMS;

/// A stream, and how far its copies are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StreamStatus")]
pub struct Stream {
    pub name: String,
    pub messages: u64,
    pub bytes: u64,
    /// The server that decides, if there is one; none where it is kept on one alone that is no part of a cluster.
    pub leader: Option<String>,
    pub copies: Vec<Copy>,
    /// Seconds since the oldest message was written.
    pub oldest: Option<u64>,
}

/// What another server has of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StreamCopy")]
pub struct Copy {
    pub server: String,
    /// Whether it has all.
    pub current: bool,
    pub offline: bool,
    /// How many messages it is behind.
    pub behind: u64,
}

impl Cluster {
    /// How the servers keep what is written to them.
    pub async fn streams(&self) -> Result<Vec<Stream>, StoreError> {
        let mut all = Vec::new();
        for name in STREAMS.into_iter().chain([WORK]) {
            all.push(stream(name, self.link.retry(|| self.link.info(name)).await?));
        }
        Ok(all)
    }
}

fn stream(name: &str, info: Info) -> Stream {
    let copy = |peer: &async_nats::jetstream::stream::PeerInfo| Copy {
        server: peer.name.clone(),
        current: peer.current,
        offline: peer.offline,
        behind: peer.lag.unwrap_or_default(),
    };
    let cluster = info.cluster.as_ref();
    let first = info.state.first_timestamp.unix_timestamp();
    let old = (unix_millis() / 1000).saturating_sub(u64::try_from(first).unwrap_or_default());
    Stream {
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
