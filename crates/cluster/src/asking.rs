//! Questions to one who is known by name, wherever they are. An answer may take as long as it takes: whoever waits asks
//! again and again, and so knows that the other is still there.

use std::sync::Arc;
use std::time::Duration;

use assize_store::StoreError;
use async_nats::{HeaderMap, Message, RequestErrorKind};
use async_trait::async_trait;
use futures_util::StreamExt;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::error::{trouble, words};
use crate::queue::LEASE;
use crate::{Cluster, link::Link};

/// Whoever asks is told so soon that there is no answer yet.
const LATER: Duration = Duration::from_secs(2);

/// How such a reply is marked.
const NOT_YET: &str = "Assize-Not-Yet";

/// It is asked again so soon where nobody was there.
const PAUSE: Duration = Duration::from_millis(200);

/// Who answers. The same may be asked more than once, also while the first is still being answered, and must then get
/// the same answer.
#[async_trait]
pub trait Answering: Send + Sync {
    async fn answer(&self, question: Value) -> Value;
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Whoever should answer was not there for as long as the living may be silent.
    #[error("whoever should answer is gone")]
    Gone,
    #[error("it could not be asked: {0}")]
    Failed(String),
}

impl Cluster {
    /// Answers under a name, until this is dropped.
    ///
    /// # Errors
    /// When the servers refuse to let others ask.
    pub async fn answer(
        &self,
        name: &str,
        answering: Arc<dyn Answering>,
    ) -> Result<AbortOnDropHandle<()>, StoreError> {
        let client = self.link.context.client();
        let listening = client.subscribe(subject(&self.link, name)).await;
        let mut listening = listening.map_err(|error| self.link.failed(words(&error)))?;
        let task = tokio::spawn(async move {
            let mut answers = JoinSet::new();
            while let Some(question) = listening.next().await {
                let (client, answering) = (client.clone(), Arc::clone(&answering));
                answers.spawn(async move { reply(&client, &*answering, question).await });
                while answers.try_join_next().is_some() {}
            }
        });
        Ok(AbortOnDropHandle::new(task))
    }

    /// Asks whoever answers under a name, and waits for as long as they are there.
    ///
    /// # Errors
    /// When they are gone, or cannot be asked this.
    pub async fn ask(&self, name: &str, question: &Value) -> Result<Value, Unanswered> {
        let failed = |error: &dyn std::fmt::Display| Unanswered::Failed(error.to_string());
        let client = self.link.context.client();
        let payload = serde_json::to_vec(question).map_err(|error| failed(&error))?;
        let payload = bytes::Bytes::from(payload);
        let most = client.server_info().max_payload;
        if most > 0 && payload.len() > most {
            let why = format!("it has {} bytes, and the servers take {most}", payload.len());
            return Err(Unanswered::Failed(why));
        }
        let mut heard = Instant::now();
        loop {
            let asked = client.request(subject(&self.link, name), payload.clone());
            match tokio::time::timeout(2 * LATER, asked).await {
                Ok(Ok(reply)) if is_not_yet(&reply) => heard = Instant::now(),
                Ok(Ok(reply)) => {
                    return serde_json::from_slice(&reply.payload).map_err(|error| failed(&error));
                }
                Ok(Err(error)) if error.kind() == RequestErrorKind::InvalidSubject => {
                    return Err(failed(&error));
                }
                // Nobody there, or nobody who can be reached.
                Ok(Err(_)) | Err(_) if heard.elapsed() > LEASE => return Err(Unanswered::Gone),
                Ok(Err(error)) => {
                    tracing::debug!(%error, name, "not answered");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(_) => {}
            }
        }
    }
}

fn subject(link: &Link, name: &str) -> String {
    link.subject(&format!("ask.{name}"))
}

fn is_not_yet(reply: &Message) -> bool {
    reply.headers.as_ref().is_some_and(|headers| headers.get(NOT_YET).is_some())
}

async fn reply(client: &async_nats::Client, answering: &dyn Answering, question: Message) {
    let Some(to) = question.reply else { return };
    let Ok(question) = serde_json::from_slice(&question.payload) else {
        tracing::warn!("a question that cannot be read is not answered");
        return;
    };
    let mut headers = HeaderMap::new();
    let payload = match tokio::time::timeout(LATER, answering.answer(question)).await {
        Ok(answer) => serde_json::to_vec(&answer).unwrap_or_default(),
        Err(_) => {
            headers.insert(NOT_YET, "1");
            Vec::new()
        }
    };
    if let Err(error) = client.publish_with_headers(to, headers, payload.into()).await {
        let trouble = trouble(&error);
        tracing::debug!(?trouble, "an answer could not be given");
    }
}
