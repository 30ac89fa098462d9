//! Request/reply RPC between cluster nodes over NATS. Peers are addressed by name. A handler can take any time to
//! handle a request. Until the handler is done, the caller repeats the request, and the peer replies that it is still
//! handling the first copy. A request or reply that is too large for one NATS message is split into pieces, which are
//! sent as separate messages.

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
use crate::connection::{NatsConnection, random_id};
use crate::error::{NatsError, error_chain};
use crate::times::ClusterTimes;

/// Header of an empty reply with which the peer says that it is still handling the request.
const NOT_YET: &str = "Assize-Not-Yet";

/// Header of a message that contains one piece of a request. The value consists of the request id, the index of the
/// piece and the number of pieces.
const PIECE: &str = "Assize-Piece";

/// Header of a message with which the caller fetches one more piece of a reply. The value consists of the request id
/// and the index of the piece.
const REST: &str = "Assize-Rest";

/// Header of a reply; its value is the number of pieces that the whole reply consists of.
const PIECES: &str = "Assize-Pieces";

/// Header of an empty reply with which the peer says that it does not have the earlier pieces of the request, or the
/// requested piece of the reply.
const UNKNOWN: &str = "Assize-Unknown";

/// Maximum size in bytes of a piece of a request or reply.
const MAX_PIECE: usize = 256 << 10;

/// Time for which an RPC server stores the pieces of a request after the last received piece, and the pieces of a reply
/// after the last fetched piece.
const PIECE_TTL: Duration = Duration::from_secs(120);

/// Delay before the caller repeats a request that no peer has received, or whose earlier pieces the peer does not have.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Handler of RPC requests. The same request can arrive more than once, even while the first copy is still being
/// handled. All copies must receive the same reply.
#[async_trait]
pub trait RpcHandler: Send + Sync {
    async fn handle(&self, question: Value) -> Value;
}

/// Why an RPC failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// The peer did not reply for longer than the duration of a lease.
    #[error("the peer of the RPC no longer replies")]
    NoReply,
    #[error("the RPC failed: {0}")]
    Failed(String),
}

impl Cluster {
    /// Handles the RPC requests that are sent to `name`, until the returned handle is dropped.
    pub async fn serve_rpc(
        &self,
        name: &str,
        answering: Arc<dyn RpcHandler>,
    ) -> Result<AbortOnDropHandle<()>, StoreError> {
        let client = self.link.context.client();
        let requests = client.subscribe(subject(&self.link, name)).await;
        let mut requests = requests.map_err(|error| self.link.failed(error_chain(&error)))?;
        let (times, pieces) = (self.times(), StoredPieces::default());
        let server = Arc::new(RpcServer { client, times, answering, pieces });
        let task = tokio::spawn(async move {
            let mut replies = JoinSet::new();
            while let Some(message) = requests.next().await {
                let server = Arc::clone(&server);
                replies.spawn(async move { server.reply(message).await });
                while replies.try_join_next().is_some() {}
            }
        });
        Ok(AbortOnDropHandle::new(task))
    }

    /// Sends an RPC request to the peer with this name, and waits for the reply as long as the peer is alive.
    pub async fn call(&self, name: &str, question: &Value) -> Result<Value, RpcError> {
        let failed = |error: &dyn std::fmt::Display| RpcError::Failed(error.to_string());
        let payload = serde_json::to_vec(question).map_err(|error| failed(&error))?;
        let client = self.link.context.client();
        let call = RpcCall {
            subject: subject(&self.link, name),
            id: random_id(),
            times: self.times(),
            client,
        };
        let reply = call.send_whole(&payload.into()).await?;
        serde_json::from_slice(&reply).map_err(|error| failed(&error))
    }
}

/// Size of a piece in bytes: at most [`MAX_PIECE`], and at most half of the maximum payload of the NATS servers, so
/// that there is room for headers.
fn piece(client: &Client) -> usize {
    match client.server_info().max_payload {
        0 => MAX_PIECE,
        max => (max / 2).min(MAX_PIECE),
    }
}

/// State of one RPC in the process of the caller.
struct RpcCall {
    client: Client,
    times: ClusterTimes,
    subject: String,
    /// Unique id of the request.
    id: String,
}

impl RpcCall {
    /// Sends all pieces of the request, and returns the whole reply.
    async fn send_whole(&self, request: &Bytes) -> Result<Bytes, RpcError> {
        loop {
            let mut pieces = pieces(request, piece(&self.client)).into_iter().enumerate();
            let count = pieces.len();
            let answered = loop {
                let Some((index, bytes)) = pieces.next() else { break None };
                let header = format!("{} {index} {count}", self.id);
                let reply = self.send(PIECE, &header, bytes).await?;
                // The peer sends the actual reply only after the last piece.
                if index + 1 == count {
                    break Some(reply);
                }
            };
            match answered.filter(|reply| !has(reply, UNKNOWN)) {
                Some(reply) => return self.rest(reply).await,
                // The peer lacks the earlier pieces, because another process serves the name now: send all pieces
                // again.
                None => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    /// Fetches the remaining pieces of a reply.
    async fn rest(&self, first: Message) -> Result<Bytes, RpcError> {
        let count: usize = header(&first, PIECES).and_then(|count| count.parse().ok()).unwrap_or(1);
        if count == 1 {
            return Ok(first.payload);
        }
        let mut whole = first.payload.to_vec();
        for index in 1..count {
            let reply = self.send(REST, &format!("{} {index}", self.id), Bytes::new()).await?;
            if has(&reply, UNKNOWN) {
                return Err(RpcError::NoReply);
            }
            whole.extend_from_slice(&reply.payload);
        }
        Ok(whole.into())
    }

    /// Sends one message with the header `name`, and repeats the message until the peer has handled it. Returns the
    /// peer's reply. Fails if the peer sends nothing for longer than the duration of a lease.
    async fn send(&self, name: &str, value: &str, bytes: Bytes) -> Result<Message, RpcError> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value);
        let mut last_reply = Instant::now();
        loop {
            let (subject, headers) = (self.subject.clone(), headers.clone());
            let request = self.client.request_with_headers(subject, headers, bytes.clone());
            match tokio::time::timeout(2 * self.times.progress(), request).await {
                Ok(Ok(reply)) if has(&reply, NOT_YET) => last_reply = Instant::now(),
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) if error.kind() == RequestErrorKind::InvalidSubject => {
                    return Err(RpcError::Failed(error.to_string()));
                }
                // For longer than a lease, no peer subscribed to the subject or the peer could not be reached.
                Ok(Err(_)) | Err(_) if last_reply.elapsed() > self.times.lease() => {
                    return Err(RpcError::NoReply);
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, subject = self.subject, "no reply to an RPC request");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(_) => {}
            }
        }
    }
}

/// Server that receives and handles the RPC requests that are sent to one name.
struct RpcServer {
    client: Client,
    times: ClusterTimes,
    answering: Arc<dyn RpcHandler>,
    pieces: StoredPieces,
}

/// Pieces of the requests and replies that do not fit in one message, by request id. They expire after [`PIECE_TTL`].
#[derive(Default)]
struct StoredPieces(Mutex<HashMap<String, Pieces>>);

struct Pieces {
    request: Vec<Bytes>,
    reply: Vec<Bytes>,
    last_used: Instant,
}

impl StoredPieces {
    /// Locks the pieces and removes those that have expired.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Pieces>> {
        let mut pieces = self.0.lock();
        pieces.retain(|_, kept| kept.last_used.elapsed() < PIECE_TTL);
        pieces
    }

    /// Stores the pieces of a reply. They replace the pieces of the request.
    fn store_reply(&self, id: &str, reply: Vec<Bytes>) {
        let kept = Pieces { request: Vec::new(), reply, last_used: Instant::now() };
        self.lock().insert(id.to_owned(), kept);
    }

    /// Returns one piece of a stored reply. The reply is removed once none of its pieces was fetched for [`PIECE_TTL`].
    fn fetch(&self, id: &str, index: usize) -> Option<Bytes> {
        let mut pieces = self.lock();
        let kept = pieces.get_mut(id)?;
        kept.last_used = Instant::now();
        kept.reply.get(index).cloned()
    }

    /// Stores a piece of a request, and returns the whole request once all pieces have arrived.
    fn assemble(&self, id: &str, index: usize, count: usize, piece: &Bytes) -> Option<Vec<u8>> {
        if count == 1 {
            return Some(piece.to_vec());
        }
        let mut pieces = self.lock();
        let fresh = || Pieces { request: Vec::new(), reply: Vec::new(), last_used: Instant::now() };
        let kept = pieces.entry(id.to_owned()).or_insert_with(fresh);
        kept.last_used = Instant::now();
        // Pieces arrive in order, but a piece may arrive several times.
        match index.cmp(&kept.request.len()) {
            Ordering::Equal => kept.request.push(piece.clone()),
            Ordering::Less => {}
            Ordering::Greater => return None,
        }
        // Keep the pieces until they expire, because the caller repeats the last piece until it receives a reply.
        (kept.request.len() == count).then(|| kept.request.concat())
    }
}

impl RpcServer {
    async fn reply(&self, message: Message) {
        let Some(to) = message.reply.clone() else { return };
        let mut headers = HeaderMap::new();
        let handled = tokio::time::timeout(self.times.progress(), self.handle(&message)).await;
        let payload = match handled {
            Ok(Reply::Answer { first, count }) => {
                headers.insert(PIECES, count.to_string().as_str());
                first
            }
            Ok(Reply::Received) => Bytes::new(),
            Ok(Reply::Unknown) => {
                headers.insert(UNKNOWN, "1");
                Bytes::new()
            }
            Err(_) => {
                headers.insert(NOT_YET, "1");
                Bytes::new()
            }
        };
        if let Err(error) = self.client.publish_with_headers(to, headers, payload).await {
            let trouble = NatsError::from(error);
            tracing::debug!(?trouble, "cannot send the reply to an RPC request");
        }
    }

    /// Handles one piece of a request, or a message that requests a further piece of a reply.
    async fn handle(&self, message: &Message) -> Reply {
        if let Some((id, index)) = header(message, REST).and_then(|rest| rest.split_once(' ')) {
            let index = index.parse::<usize>().ok();
            let first = index.and_then(|index| self.pieces.fetch(id, index));
            return first.map_or(Reply::Unknown, |first| Reply::Answer { first, count: 1 });
        }
        let words: Vec<&str> =
            header(message, PIECE).map(|piece| piece.split(' ').collect()).unwrap_or_default();
        let [id, index, count] = words[..] else { return Reply::Unknown };
        let (Ok(index), Ok(count)) = (index.parse::<usize>(), count.parse::<usize>()) else {
            return Reply::Unknown;
        };
        let Some(request) = self.pieces.assemble(id, index, count, &message.payload) else {
            return if index + 1 == count { Reply::Unknown } else { Reply::Received };
        };
        let Ok(request) = serde_json::from_slice(&request) else {
            tracing::warn!("cannot decode an RPC request: it is not valid JSON");
            return Reply::Answer { first: Bytes::from_static(b"null"), count: 1 };
        };
        let reply = self.answering.handle(request).await;
        let reply = serde_json::to_vec(&reply).unwrap_or_default();
        let reply = pieces(&reply.into(), piece(&self.client));
        let (first, count) = (reply[0].clone(), reply.len());
        if count > 1 {
            self.pieces.store_reply(id, reply);
        }
        Reply::Answer { first, count }
    }
}

/// Reply of the RPC server to one message of the caller.
enum Reply {
    /// A piece of the reply that the handler returned. For the first piece, `count` is the number of pieces of the
    /// whole reply. For every later piece, `count` is 1 and has no meaning.
    Answer { first: Bytes, count: usize },
    /// The piece was received, and the request is not complete yet.
    Received,
    /// The server does not have the earlier pieces of the request, or the requested piece of the reply.
    Unknown,
}

/// Splits bytes into pieces of at most `size` bytes.
fn pieces(whole: &Bytes, size: usize) -> Vec<Bytes> {
    let starts = (0..whole.len().max(1)).step_by(size);
    starts.map(|start| whole.slice(start..whole.len().min(start + size))).collect()
}

fn subject(link: &NatsConnection, name: &str) -> String {
    link.subject(&format!("ask.{name}"))
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.headers.as_ref()?.get(name).map(HeaderValue::as_str)
}

fn has(message: &Message, name: &str) -> bool {
    header(message, name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stored_reply_expires_once_no_piece_was_fetched_for_the_piece_ttl() {
        let stored = StoredPieces::default();
        let reply = ["one", "two", "three"].map(Bytes::from);
        stored.store_reply("call", reply.to_vec());
        for (index, piece) in reply.iter().enumerate() {
            tokio::time::advance(PIECE_TTL * 2 / 3).await;
            assert_eq!(stored.fetch("call", index).as_ref(), Some(piece));
        }
        tokio::time::advance(PIECE_TTL).await;
        assert_eq!(stored.fetch("call", 0), None);
    }
}
