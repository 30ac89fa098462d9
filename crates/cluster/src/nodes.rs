//! Who takes part: each process says so when it is asked. Nothing of it is kept, as the dead do not answer.

use std::time::Duration;

use assize_run::StoreError;
use futures_util::{StreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::error::Trouble;
use crate::link::{Link, mark};
use crate::{Abilities, Cluster};

/// How long it is waited for those who answer; one machine answers in a few milliseconds.
const ANSWERS: Duration = Duration::from_millis(700);

/// A process that takes part in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterNode")]
pub struct Node {
    /// Like that of no other.
    pub id: String,
    pub role: NodeRole,
    /// Of assize.
    pub version: String,
    /// Of what is said among nodes.
    pub speaks: u32,
    pub host: String,
    pub pid: u32,
    /// Milliseconds since 1970.
    pub since: u64,
    /// How much it can do at once, and does.
    pub slots: u32,
    pub busy: u32,
    /// The providers whose limits it keeps for all.
    #[serde(default)]
    pub keeps: Vec<String>,
    /// The runs that it holds, by name.
    #[serde(default)]
    pub holds: Vec<String>,
    pub abilities: Abilities,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    Server,
    Worker,
}

impl Node {
    /// An id for a new one.
    pub fn new_id() -> String {
        mark()
    }
}

impl Cluster {
    /// Answers for a process, as it stands each time, until this is dropped.
    pub async fn announce(
        &self,
        node: watch::Receiver<Node>,
    ) -> Result<AbortOnDropHandle<()>, StoreError> {
        let client = self.link.context.client();
        let id = node.borrow().id.clone();
        let mut asked = Vec::new();
        for subject in [self.link.subject("who"), self.link.subject(&format!("who.{id}"))] {
            let listening = client.subscribe(subject).await.map_err(Trouble::from);
            asked.push(listening.map_err(|trouble| trouble.told(&self.address()))?);
        }
        let mut asked = stream::select_all(asked);
        let task = tokio::spawn(async move {
            while let Some(question) = asked.next().await {
                let Some(reply) = question.reply else { continue };
                let answer = serde_json::to_vec(&*node.borrow()).unwrap_or_default();
                if let Err(error) = client.publish(reply, answer.into()).await {
                    tracing::debug!(%error, "somebody who asked who is there was not answered");
                }
            }
        });
        let task = AbortOnDropHandle::new(task);
        // Once it is answered by itself, others can ask.
        if !self.is_there(&id).await? {
            tracing::warn!("this process cannot be asked whether it is there");
        }
        Ok(task)
    }

    /// All who answer.
    pub async fn who(&self) -> Result<Vec<Node>, StoreError> {
        let mut nodes = self.link.retry(|| ask_all(&self.link)).await?;
        nodes.sort_by(|a, b| (a.role, &a.host, a.pid).cmp(&(b.role, &b.host, b.pid)));
        Ok(nodes)
    }

    /// Whether a process still answers.
    pub async fn is_there(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.node(id).await?.is_some())
    }

    /// A process as it is now, if it still answers.
    pub async fn node(&self, id: &str) -> Result<Option<Node>, StoreError> {
        use async_nats::RequestErrorKind::{NoResponders, TimedOut};
        use async_nats::connection::State;
        let client = &self.link.context.client();
        let ask = async || {
            let subject = self.link.subject(&format!("who.{id}"));
            let question = async_nats::Request::new().timeout(Some(self.times().node_reply()));
            match client.send_request(subject, question).await {
                Ok(answer) => Ok(serde_json::from_slice(&answer.payload).ok()),
                Err(error) => match error.kind() {
                    NoResponders => Ok(None),
                    TimedOut if client.connection_state() == State::Connected => Ok(None),
                    _ => Err(error.into()),
                },
            }
        };
        self.link.retry(ask).await
    }
}

async fn ask_all(link: &Link) -> Result<Vec<Node>, Trouble> {
    let client = link.context.client();
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await?;
    client.publish_with_reply(link.subject("who"), inbox, Vec::new().into()).await?;
    client.flush().await?;
    let mut nodes = Vec::new();
    let until = Instant::now() + ANSWERS;
    while let Ok(Some(answer)) = tokio::time::timeout_at(until, answers.next()).await {
        // Nobody at all takes part.
        if answer.status.is_some() {
            break;
        }
        match serde_json::from_slice(&answer.payload) {
            Ok(node) => nodes.push(node),
            Err(error) => tracing::warn!(%error, "somebody takes part who is not understood"),
        }
    }
    Ok(nodes)
}
