//! MCP transport that rejects a request if another request with the same id is in flight. If both were accepted, the
//! client could not distinguish the responses to the two requests.

use std::collections::HashSet;
use std::sync::Arc;

use assize_types::Fingerprint;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use rmcp::ErrorData;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// MCP transport that ensures that all requests in flight have different ids.
pub(crate) struct UniqueIds<T: Transport<RoleServer>> {
    inner: T,
    in_flight: InFlight,
    /// Error response that is being sent. The future is stored here because `receive` may be dropped at any await point
    /// and called again.
    refusing: Option<BoxFuture<'static, Result<(), T::Error>>>,
}

/// Fingerprints of the ids of requests that have no response yet. The id of a cancelled request stays in the set: its
/// handler may still respond, and that response must not be mistaken for the response to another request.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashSet<Fingerprint>>>);

impl InFlight {
    pub(crate) fn ids(&self) -> MutexGuard<'_, HashSet<Fingerprint>> {
        self.0.lock()
    }

    /// Sends a message. If the message is a response, releases the id of the request.
    pub(crate) fn send<T: Transport<RoleServer>>(
        &self,
        transport: &mut T,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let id = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let id = id.map(fingerprint);
        let (sending, in_flight) = (transport.send(item), self.clone());
        async move {
            // Release the id before the response is sent, because the client may reuse the id once it has read the
            // response.
            if let Some(id) = id {
                in_flight.ids().remove(&id);
            }
            sending.await
        }
    }
}

/// Fingerprint of the JSON form of a request id.
fn fingerprint(id: &RequestId) -> Fingerprint {
    Fingerprint::of(serde_json::to_string(id).unwrap_or_default())
}

impl<T: Transport<RoleServer>> UniqueIds<T> {
    pub(crate) fn new(inner: T) -> UniqueIds<T> {
        UniqueIds { inner, in_flight: InFlight::default(), refusing: None }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for UniqueIds<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.in_flight.send(&mut self.inner, item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusing) = &mut self.refusing {
                let sent = refusing.await;
                self.refusing = None;
                sent.ok()?;
            }
            let message = self.inner.receive().await?;
            let JsonRpcMessage::Request(request) = &message else { return Some(message) };
            if self.in_flight.ids().insert(fingerprint(&request.id)) {
                return Some(message);
            }
            // Send the error through `inner`: `self.send` would release the id of the other request, which is in
            // flight.
            self.refusing = Some(Box::pin(self.inner.send(refusal(&request.id))));
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}

/// Error response to a request that has the same id as another request in flight.
fn refusal(id: &RequestId) -> TxJsonRpcMessage<RoleServer> {
    let message = "a request with this id is in flight, or was cancelled; give every request of a session a unique id";
    JsonRpcMessage::error(ErrorData::invalid_request(message, None), Some(id.clone()))
}
