//! Tools over streamable HTTP. A session belongs to the caller that opened it, and a request id is in flight once.

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

/// The most requests of one session in flight, cancelled ones included.
const MAX_IN_FLIGHT: usize = 1024;

/// Sessions of one endpoint with their owners and the ids of their requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    manager: LocalSessionManager,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<SessionId, Session>,
    /// Sessions that each caller is about to open.
    opening: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Session {
    /// None between its creation and the response to its caller.
    owner: Option<String>,
    in_flight: InFlight,
}

/// Why a request of a session is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No session of this caller has that id.
    UnknownSession,
    /// A request with the same id is in flight.
    DuplicateId,
    TooManyInFlight,
}

/// Room for one more session of a caller, until it is opened or refused.
#[derive(Debug)]
pub(crate) struct Room {
    sessions: Arc<Sessions>,
    caller: String,
}

/// Id of a request, which is in flight from now on unless it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    in_flight: InFlight,
    id: Fingerprint,
    kept: bool,
}

impl Sessions {
    /// Room for a new session, unless the caller has as many as allowed.
    pub(crate) async fn room(self: &Arc<Self>, caller: &str, most: usize) -> Option<Room> {
        let open: HashSet<SessionId> = self.manager.sessions.read().await.keys().cloned().collect();
        let mut state = self.state.lock();
        state.sessions.retain(|id, session| session.owner.is_none() || open.contains(id));
        let own = state.sessions.values().filter(|one| one.owner.as_deref() == Some(caller));
        let count = own.count() + state.opening.get(caller).copied().unwrap_or_default();
        if count >= most {
            return None;
        }
        *state.opening.entry(caller.to_owned()).or_default() += 1;
        drop(state);
        Some(Room { sessions: self.clone(), caller: caller.to_owned() })
    }

    /// Checks that a session is the caller's.
    pub(crate) fn check(&self, session: &str, caller: &str) -> Result<(), Refusal> {
        let state = self.state.lock();
        let owner = state.sessions.get(session).and_then(|one| one.owner.as_deref());
        if owner == Some(caller) { Ok(()) } else { Err(Refusal::UnknownSession) }
    }

    /// Reserves the id of a request in a session.
    pub(crate) fn reserve(&self, session: &str, id: &Value) -> Result<Reserved, Refusal> {
        let state = self.state.lock();
        let session = state.sessions.get(session).ok_or(Refusal::UnknownSession)?;
        let (in_flight, id) = (session.in_flight.clone(), Fingerprint::of(id.to_string()));
        drop(state);
        let mut ids = in_flight.ids();
        if ids.len() >= MAX_IN_FLIGHT {
            return Err(Refusal::TooManyInFlight);
        }
        if !ids.insert(id) {
            return Err(Refusal::DuplicateId);
        }
        drop(ids);
        Ok(Reserved { in_flight, id, kept: false })
    }
}

impl Room {
    /// Notes whose session was opened.
    pub(crate) fn opened(self, session: &str) {
        if let Some(session) = self.sessions.state.lock().sessions.get_mut(session) {
            session.owner = Some(self.caller.clone());
        }
    }
}

impl Drop for Room {
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

impl Reserved {
    /// The request was accepted: its id is released with its response.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.kept {
            self.in_flight.ids().remove(&self.id);
        }
    }
}

/// Transport of a session that releases the id of each request with its response.
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

impl SessionManager for Sessions {
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

/// Serves tools over HTTP until the server stops. Who may call, under which host name, and how many sessions a caller
/// may have, is for the server to decide.
pub(crate) fn over_http<S>(
    tools: S,
    longest_message: usize,
    closing: CancellationToken,
) -> (StreamableHttpService<S, Sessions>, Arc<Sessions>)
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(longest_message)
        .with_cancellation_token(closing);
    let sessions = Arc::<Sessions>::default();
    (StreamableHttpService::new(move || Ok(tools.clone()), sessions.clone(), config), sessions)
}
