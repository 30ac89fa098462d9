//! Questions to one who is known by name, wherever they are. An answer may take as long as it takes: whoever waits asks
//! again and again, and so knows that the other is still there. What is large goes in pieces.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;
use async_nats::header::HeaderValue;
use async_nats::{Client, HeaderMap, Message, RequestErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::Cluster;
use crate::error::{Trouble, words};
use crate::link::{Link, mark};
use crate::times::Times;

/// How such a reply is marked.
const NOT_YET: &str = "Assize-Not-Yet";

/// How a piece of a question is marked: whose, which, and of how many.
const PIECE: &str = "Assize-Piece";

/// How the next piece of an answer is asked for: whose, and which.
const REST: &str = "Assize-Rest";

/// How many pieces an answer has.
const PIECES: &str = "Assize-Pieces";

/// What is said where the beginning was not heard.
const UNKNOWN: &str = "Assize-Unknown";

/// The largest piece, in bytes.
const LARGEST: usize = 256 << 10;

/// How long pieces are kept that nobody asks for any more.
const KEPT: Duration = Duration::from_secs(120);

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
    pub async fn answer(
        &self,
        name: &str,
        answering: Arc<dyn Answering>,
    ) -> Result<AbortOnDropHandle<()>, StoreError> {
        let client = self.link.context.client();
        let listening = client.subscribe(subject(&self.link, name)).await;
        let mut listening = listening.map_err(|error| self.link.failed(words(&error)))?;
        let counter =
            Arc::new(Counter { client, times: self.times(), answering, pieces: Mutex::default() });
        let task = tokio::spawn(async move {
            let mut answers = JoinSet::new();
            while let Some(message) = listening.next().await {
                let counter = Arc::clone(&counter);
                answers.spawn(async move { counter.reply(message).await });
                while answers.try_join_next().is_some() {}
            }
        });
        Ok(AbortOnDropHandle::new(task))
    }

    /// Asks whoever answers under a name, and waits for as long as they are there.
    pub async fn ask(&self, name: &str, question: &Value) -> Result<Value, Unanswered> {
        let failed = |error: &dyn std::fmt::Display| Unanswered::Failed(error.to_string());
        let payload = serde_json::to_vec(question).map_err(|error| failed(&error))?;
        let client = self.link.context.client();
        let asking =
            Asking { subject: subject(&self.link, name), id: mark(), times: self.times(), client };
        let answer = asking.ask(&payload.into()).await?;
        serde_json::from_slice(&answer).map_err(|error| failed(&error))
    }
}

/// The most that is sent at once: what the servers take, with room for what goes before it.
fn piece(client: &Client) -> usize {
    match client.server_info().max_payload {
        0 => LARGEST,
        most => (most / 2).min(LARGEST),
    }
}

/// One question, on its way.
struct Asking {
    client: Client,
    times: Times,
    subject: String,
    /// Like that of no other.
    id: String,
}

impl Asking {
    async fn ask(&self, question: &Bytes) -> Result<Bytes, Unanswered> {
        loop {
            let mut pieces = pieces(question, piece(&self.client)).into_iter().enumerate();
            let count = pieces.len();
            let answered = loop {
                let Some((index, bytes)) = pieces.next() else { break None };
                let what = format!("{} {index} {count}", self.id);
                let reply = self.send(PIECE, &what, bytes).await?;
                // Only the last is answered.
                if index + 1 == count {
                    break Some(reply);
                }
            };
            match answered.filter(|reply| !has(reply, UNKNOWN)) {
                Some(reply) => return self.rest(reply).await,
                // Somebody else is there now, who has not heard the beginning.
                None => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// The whole of an answer whose first piece is there.
    async fn rest(&self, first: Message) -> Result<Bytes, Unanswered> {
        let count: usize = header(&first, PIECES).and_then(|count| count.parse().ok()).unwrap_or(1);
        if count == 1 {
            return Ok(first.payload);
        }
        let mut whole = first.payload.to_vec();
        for index in 1..count {
            let reply = self.send(REST, &format!("{} {index}", self.id), Bytes::new()).await?;
            if has(&reply, UNKNOWN) {
                return Err(Unanswered::Gone);
            }
            whole.extend_from_slice(&reply.payload);
        }
        Ok(whole.into())
    }

    /// Sends one piece until there is a reply.
    async fn send(&self, what: &str, value: &str, bytes: Bytes) -> Result<Message, Unanswered> {
        let mut headers = HeaderMap::new();
        headers.insert(what, value);
        let mut heard = Instant::now();
        loop {
            let (subject, headers) = (self.subject.clone(), headers.clone());
            let asked = self.client.request_with_headers(subject, headers, bytes.clone());
            match tokio::time::timeout(2 * self.times.progress(), asked).await {
                Ok(Ok(reply)) if has(&reply, NOT_YET) => heard = Instant::now(),
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) if error.kind() == RequestErrorKind::InvalidSubject => {
                    return Err(Unanswered::Failed(error.to_string()));
                }
                // Nobody there, or nobody who can be reached.
                Ok(Err(_)) | Err(_) if heard.elapsed() > self.times.lease() => {
                    return Err(Unanswered::Gone);
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, subject = self.subject, "not answered");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(_) => {}
            }
        }
    }
}

/// Whoever answers under one name.
struct Counter {
    client: Client,
    times: Times,
    answering: Arc<dyn Answering>,
    /// Questions and answers that are not whole yet, or have not been fetched.
    pieces: Mutex<HashMap<String, Pieces>>,
}

struct Pieces {
    question: Vec<Bytes>,
    answer: Vec<Bytes>,
    since: Instant,
}

impl Counter {
    fn pieces(&self) -> MutexGuard<'_, HashMap<String, Pieces>> {
        let mut pieces = self.pieces.lock();
        pieces.retain(|_, kept| kept.since.elapsed() < KEPT);
        pieces
    }

    async fn reply(&self, message: Message) {
        let Some(to) = message.reply.clone() else { return };
        let mut headers = HeaderMap::new();
        let payload = match tokio::time::timeout(self.times.progress(), self.take(&message)).await {
            Ok(Taken::Answer { first, count }) => {
                headers.insert(PIECES, count.to_string().as_str());
                first
            }
            Ok(Taken::Heard) => Bytes::new(),
            Ok(Taken::Unknown) => {
                headers.insert(UNKNOWN, "1");
                Bytes::new()
            }
            Err(_) => {
                headers.insert(NOT_YET, "1");
                Bytes::new()
            }
        };
        if let Err(error) = self.client.publish_with_headers(to, headers, payload).await {
            let trouble = Trouble::from(error);
            tracing::debug!(?trouble, "an answer could not be given");
        }
    }

    /// Takes one piece of a question, or a wish for more of an answer.
    async fn take(&self, message: &Message) -> Taken {
        if let Some((id, index)) = header(message, REST).and_then(|rest| rest.split_once(' ')) {
            let pieces = self.pieces();
            let piece =
                pieces.get(id).and_then(|kept| kept.answer.get(index.parse::<usize>().ok()?));
            let first = piece.cloned();
            return first.map_or(Taken::Unknown, |first| Taken::Answer { first, count: 1 });
        }
        let words: Vec<&str> =
            header(message, PIECE).map(|piece| piece.split(' ').collect()).unwrap_or_default();
        let [id, index, count] = words[..] else { return Taken::Unknown };
        let (Ok(index), Ok(count)) = (index.parse::<usize>(), count.parse::<usize>()) else {
            return Taken::Unknown;
        };
        let Some(question) = self.gather(id, index, count, &message.payload) else {
            return if index + 1 == count { Taken::Unknown } else { Taken::Heard };
        };
        let Ok(question) = serde_json::from_slice(&question) else {
            tracing::warn!("a question that cannot be read is not answered");
            return Taken::Answer { first: Bytes::from_static(b"null"), count: 1 };
        };
        let answer = self.answering.answer(question).await;
        let answer = serde_json::to_vec(&answer).unwrap_or_default();
        let answer = pieces(&answer.into(), piece(&self.client));
        let (first, count) = (answer[0].clone(), answer.len());
        if count > 1 {
            let kept = Pieces { question: Vec::new(), answer, since: Instant::now() };
            self.pieces().insert(id.to_owned(), kept);
        }
        Taken::Answer { first, count }
    }

    /// The question, once all of it is there.
    fn gather(&self, id: &str, index: usize, count: usize, piece: &Bytes) -> Option<Vec<u8>> {
        if count == 1 {
            return Some(piece.to_vec());
        }
        let mut pieces = self.pieces();
        let fresh = || Pieces { question: Vec::new(), answer: Vec::new(), since: Instant::now() };
        let kept = pieces.entry(id.to_owned()).or_insert_with(fresh);
        kept.since = Instant::now();
        // They come one after the other, some perhaps again.
        match index.cmp(&kept.question.len()) {
            Ordering::Equal => kept.question.push(piece.clone()),
            Ordering::Less => {}
            Ordering::Greater => return None,
        }
        // It stays until it is forgotten: the last piece is sent again and again until there is an answer.
        (kept.question.len() == count).then(|| kept.question.concat())
    }
}

/// What became of a piece.
enum Taken {
    Answer { first: Bytes, count: usize },
    Heard,
    Unknown,
}

/// Something large, in pieces; something small, in one.
fn pieces(whole: &Bytes, size: usize) -> Vec<Bytes> {
    let starts = (0..whole.len().max(1)).step_by(size);
    starts.map(|start| whole.slice(start..whole.len().min(start + size))).collect()
}

fn subject(link: &Link, name: &str) -> String {
    link.subject(&format!("ask.{name}"))
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.headers.as_ref()?.get(name).map(HeaderValue::as_str)
}

fn has(message: &Message, name: &str) -> bool {
    header(message, name).is_some()
}
