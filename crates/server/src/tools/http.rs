//! MCP over streamable HTTP. A session can be used only by the caller that opened it. No two requests that are in
//! flight in a session may have the same id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use assize_types::Fingerprint;
use futures_util::Stream;
use parking_lot::Mutex;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::tools::unique_ids::InFlight;

/// Maximum number of requests in flight in one MCP session, including cancelled requests.
const MAX_IN_FLIGHT: usize = 1024;

/// MCP sessions of one endpoint, with the owner of each session and the ids of its requests in flight.
#[derive(Debug, Default)]
pub(crate) struct McpSessions {
    manager: LocalSessionManager,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<SessionId, Session>,
    /// Number of sessions that each caller is about to open.
    opening: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Session {
    /// Caller that opened the session; `None` until the response to `initialize` is ready.
    owner: Option<String>,
    in_flight: InFlight,
}

/// Why a request of an MCP session is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionRefusal {
    /// The caller has no session with the id in the request.
    UnknownSession,
    /// Another request with the same request id is in flight in the session.
    DuplicateId,
    TooManyInFlight,
}

/// Reservation of one MCP session for a caller, held while the session is being opened. The reservation counts against
/// the caller's session limit until it is dropped. From then on the session itself counts, if it was opened.
#[derive(Debug)]
pub(crate) struct SessionReservation {
    sessions: Arc<McpSessions>,
    caller: String,
}

/// Reserved request id of an MCP session. Dropping the value releases the id, unless [`ReservedId::keep`] was called.
#[derive(Debug)]
pub(crate) struct ReservedId {
    in_flight: InFlight,
    id: Fingerprint,
    kept: bool,
}

impl McpSessions {
    /// Reserves a new session for the caller; `None` if the caller already has `max` sessions.
    pub(crate) async fn reserve_session(
        self: &Arc<Self>,
        caller: &str,
        max: usize,
    ) -> Option<SessionReservation> {
        let without_owner: HashSet<SessionId> = {
            let state = self.state.lock();
            let sessions = state.sessions.iter().filter(|(_, session)| session.owner.is_none());
            sessions.map(|(id, _)| id.clone()).collect()
        };
        let open: HashSet<SessionId> = self.manager.sessions.read().await.keys().cloned().collect();
        let mut state = self.state.lock();
        // Remove closed sessions. A session that was created after `open` was read is not closed.
        state.sessions.retain(|id, session| {
            open.contains(id) || session.owner.is_none() && !without_owner.contains(id)
        });
        let own = state.sessions.values().filter(|one| one.owner.as_deref() == Some(caller));
        let count = own.count() + state.opening.get(caller).copied().unwrap_or_default();
        if count >= max {
            return None;
        }
        *state.opening.entry(caller.to_owned()).or_default() += 1;
        drop(state);
        Some(SessionReservation { sessions: self.clone(), caller: caller.to_owned() })
    }

    /// Checks that a session belongs to the caller.
    pub(crate) fn check(&self, session: &str, caller: &str) -> Result<(), SessionRefusal> {
        let state = self.state.lock();
        let owner = state.sessions.get(session).and_then(|one| one.owner.as_deref());
        if owner == Some(caller) { Ok(()) } else { Err(SessionRefusal::UnknownSession) }
    }

    /// Reserves the id of a request in a session; fails if a request with this id is in flight.
    pub(crate) fn reserve(&self, session: &str, id: &Value) -> Result<ReservedId, SessionRefusal> {
        let state = self.state.lock();
        let session = state.sessions.get(session).ok_or(SessionRefusal::UnknownSession)?;
        let (in_flight, id) = (session.in_flight.clone(), Fingerprint::of(id.to_string()));
        drop(state);
        let mut ids = in_flight.ids();
        if ids.len() >= MAX_IN_FLIGHT {
            return Err(SessionRefusal::TooManyInFlight);
        }
        if !ids.insert(id) {
            return Err(SessionRefusal::DuplicateId);
        }
        drop(ids);
        Ok(ReservedId { in_flight, id, kept: false })
    }
}

impl SessionReservation {
    /// Records the caller as the owner of the opened session.
    pub(crate) fn opened(self, session: &str) {
        if let Some(session) = self.sessions.state.lock().sessions.get_mut(session) {
            session.owner = Some(self.caller.clone());
        }
    }
}

impl Drop for SessionReservation {
    fn drop(&mut self) {
        let mut state = self.sessions.state.lock();
        if let Some(count) = state.opening.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                state.opening.remove(&self.caller);
            }
        }
    }
}

impl ReservedId {
    /// Keeps the id reserved when this value is dropped. The transport releases the id when it sends the response.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for ReservedId {
    fn drop(&mut self) {
        if !self.kept {
            self.in_flight.ids().remove(&self.id);
        }
    }
}

/// Transport of an MCP session. When it sends the response to a request, it releases the reserved request id.
#[derive(Debug)]
pub(crate) struct Tracked<T> {
    inner: T,
    in_flight: InFlight,
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Tracked<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.in_flight.send(&mut self.inner, item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.inner.receive().await
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}

impl SessionManager for McpSessions {
    type Error = LocalSessionManagerError;
    type Transport = Tracked<<LocalSessionManager as SessionManager>::Transport>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, inner) = self.manager.create_session().await?;
        let session = Session::default();
        let in_flight = session.in_flight.clone();
        self.state.lock().sessions.insert(id.clone(), session);
        Ok((id, Tracked { inner, in_flight }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.manager.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.manager.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.state.lock().sessions.remove(id);
        self.manager.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.manager.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.manager.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.manager.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.manager.resume(id, last_event_id).await
    }
}

/// Creates the HTTP service of an MCP server. The service runs until `closing` is cancelled. It does not authenticate
/// requests, does not check the `Host` header and does not limit the number of sessions: the code that mounts the
/// service must add middleware for these three checks.
pub(crate) fn over_http<S>(
    tools: S,
    max_message: usize,
    closing: CancellationToken,
) -> (StreamableHttpService<S, McpSessions>, Arc<McpSessions>)
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(max_message)
        .with_cancellation_token(closing);
    let sessions = Arc::<McpSessions>::default();
    (StreamableHttpService::new(move || Ok(tools.clone()), sessions.clone(), config), sessions)
}
