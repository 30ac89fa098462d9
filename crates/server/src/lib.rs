//! HTTP server: the API, the MCP tools, the event streams and the web page.
//!
//! [`Server::bind`] opens the port; [`Server::run`] serves requests until it is cancelled. The run supervisor executes
//! the runs, even after the client that started a run has disconnected. The events of runs are written to the store,
//! and the event hub sends them to subscribers. A server that was stopped or killed resumes its runs at the next start.

mod api;
mod auth;
mod document;
mod embedded_files;
mod events;
mod extract;
mod framing;
mod headers;
mod hub;
mod json;
mod kinds;
mod listen;
mod mcp;
mod metrics;
mod pages;
mod problem;
mod routes;
mod run_supervisor;
mod start_limit;
mod tokens;
mod tools;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_run::{Role, Store, StoreLog};
use assize_sandbox::SharedBackends;
use assize_service::Services;
use assize_types::{Cancel, Failure, FailureKind};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api::drafts::Workspaces;
use crate::auth::AccessGuard;
use crate::hub::EventHub;
use crate::problem::Problem;
use crate::run_supervisor::RunSupervisor;
use crate::start_limit::StartLimit;

pub use auth::Token;
pub use embedded_files::page_missing;
pub use listen::{Exposure, TlsCertificate};
pub use tokens::{ScopedTokens, TokenError, TokenInfo};
pub use tools::{CodeServer, DraftServer, McpSessionEnd, serve_stdio};

/// Maximum time that a stopping server waits until the gate has made the decisions that are in progress.
const PENDING_DECISIONS_TIMEOUT: Duration = Duration::from_secs(5);

/// Configuration of the server.
#[derive(Debug)]
pub struct ServerOptions {
    pub listen: SocketAddr,
    /// The owner's token and the scoped tokens; `None` disables authentication (`--no-auth`).
    pub tokens: Option<ScopedTokens>,
    pub exposure: Exposure,
    /// Accepted values of the `Host` header, besides `localhost` and the listening address.
    pub names: Vec<String>,
    /// Folders on the server that requests may use. The keys are the names that requests use for the folders.
    pub roots: BTreeMap<String, PathBuf>,
    /// Maximum size of a request body in bytes.
    pub max_request_size: usize,
    pub starts_per_minute: u32,
    /// Maximum number of runs that the server executes at once.
    pub max_running: usize,
}

/// State that all requests share.
#[derive(Debug)]
pub(crate) struct AppState {
    services: Services,
    store: Arc<dyn Store>,
    supervisor: Arc<RunSupervisor>,
    /// Fan-out of the events of runs.
    events: Arc<EventHub>,
    /// Fan-out of the entries of the audit log, which are the events of workspaces.
    audit: Arc<EventHub>,
    workspaces: Workspaces,
    /// Sandbox backends and warm pools that all requests and runs of this server share.
    backends: Arc<SharedBackends>,
    guard: AccessGuard,
    /// Whether this process terminates TLS.
    https: bool,
    start_limit: StartLimit,
    max_request_size: usize,
    closing: CancellationToken,
    /// Lock that a request `GET /api/doctor` holds while the checks of the request run. The checks start sandboxes, so
    /// the checks of two requests must not run at the same time.
    doctor_lock: tokio::sync::Mutex<()>,
    /// Whether no other server process used this store when this server started. If so, the server processes that left
    /// unfinished runs in the store are dead.
    alone: bool,
    /// Locked file beside the store. Every server process that uses the store holds a shared lock on this file while
    /// the process runs.
    _lock: Option<std::fs::File>,
}

/// Reference to the state that all requests share; each request has a clone of it.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<AppState>);

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl AppState {
    /// Returns the path of a folder that the operator allowed with `assize serve --root`, by its name.
    pub(crate) fn root(&self, name: &str) -> Result<&Path, Problem> {
        self.workspaces.folder(name).ok_or_else(|| {
            let known: Vec<&str> = self.workspaces.names().collect();
            let problem =
                Problem::not_found("unknown folder: this server allows no folder with this name");
            match known.is_empty() {
                true => problem.hint("allow a folder with `assize serve --root NAME=FOLDER`"),
                false => problem.hint(format!("allowed folders: {}", known.join(", "))),
            }
        })
    }

    /// Counts one start against the rate limit; returns a 429 problem if the limit is reached.
    pub(crate) fn check_start_limit(&self) -> Result<(), Problem> {
        self.start_limit.take()
    }
}

/// Fills the warm pool of the default sandbox backend. In a cluster this function does nothing: the workers have the
/// warm pools, and this server opens a pool only for the first request that needs a sandbox on this machine.
async fn warm_up(app: App) {
    if app.services.cluster_client.is_some() {
        return;
    }
    let sandboxes = app.services.sandboxes();
    let started = app.backends.start(&sandboxes);
    let started = tokio::select! {
        started = started => started,
        () = app.closing.cancelled() => return,
    };
    if let Err(failure) = started {
        tracing::warn!(error = failure.message(), "cannot fill the warm pool of idle sandboxes");
    }
}

/// Acquires a shared lock on a file beside the store. Every server process that uses the store holds this lock while
/// the process runs. Returns the locked file, and whether no other server process held the lock; `None` if the lock
/// cannot be acquired.
fn lock_store(services: &Services) -> Option<(std::fs::File, bool)> {
    let open = |more: &str| {
        let mut name = services.store_path().into_os_string();
        name.push(more);
        std::fs::OpenOptions::new().create(true).append(true).open(name).ok()
    };
    // The file is unlocked for a moment between the test with an exclusive lock and the shared lock. A second lock
    // ensures that only one process executes this function at a time.
    let turn = open("-server-turn")?;
    turn.lock().ok()?;
    let file = open("-server")?;
    let alone = file.try_lock().is_ok();
    if alone {
        file.unlock().ok()?;
    }
    file.lock_shared().ok()?;
    Some((file, alone))
}

/// HTTP server that is bound to its address.
#[derive(Debug)]
pub struct Server {
    app: App,
    listener: TcpListener,
    exposure: Exposure,
    address: SocketAddr,
}

impl Server {
    /// Binds the address and opens the workspaces; serves no request yet.
    pub async fn bind(
        options: ServerOptions,
        mut services: Services,
        store: Arc<dyn Store>,
    ) -> Result<Server, Failure> {
        services.role = Role::Server;
        let failed = |error: std::io::Error| {
            let message = format!("cannot listen on {}: {error}", options.listen);
            let failure = Failure::new(FailureKind::Environment, message);
            match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    failure.hint("the address is in use; choose another address with `--listen`")
                }
                _ => failure,
            }
        };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let local = matches!(options.exposure, Exposure::Local);
        let desks = Workspaces::open(options.roots, &services, &store)?;
        // With a cluster, runs are stored in NATS, so there is no store file to lock.
        let lock = if services.cluster_client.is_some() { None } else { lock_store(&services) };
        let (lock, alone) = lock.unzip();
        let alone = alone.unwrap_or(false);
        let backends = services.share_backends(usize::MAX)?;
        let app = App(Arc::new(AppState {
            supervisor: Arc::new(RunSupervisor::new(options.max_running, store.clone())),
            events: EventHub::new(StoreLog::Events, store.clone()),
            audit: EventHub::new(StoreLog::Audit, store.clone()),
            workspaces: desks,
            backends,
            guard: AccessGuard::new(options.tokens, local, &options.names, address),
            https: matches!(options.exposure, Exposure::Tls(_)),
            start_limit: StartLimit::new(options.starts_per_minute),
            max_request_size: options.max_request_size,
            closing: CancellationToken::new(),
            doctor_lock: tokio::sync::Mutex::new(()),
            alone,
            _lock: lock,
            services,
            store,
        }));
        Ok(Server { app, listener, exposure: options.exposure, address })
    }

    /// Address that the server listens on, with the actual port if the system assigned one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a one-time sign-in path for a browser.
    pub fn link(&self) -> Result<String, Failure> {
        let link = self.app.guard.link();
        link.map_err(|error| Failure::from_error(FailureKind::Environment, &error))
    }

    /// Resumes the unfinished runs of an earlier server process, then serves requests until `cancel` is cancelled. Then
    /// pauses all runs and stops.
    pub async fn run(self, cancel: Cancel) -> Result<(), Failure> {
        let Server { app, listener, exposure, .. } = self;
        let _here = app.services.announce_server().await?;
        let roots: Vec<&Path> = app.workspaces.folders().collect();
        let resumed = app.supervisor.resume_unfinished(&app.services, &roots, app.alone).await?;
        if resumed > 0 {
            let runs = if resumed == 1 { "run" } else { "runs" };
            let note =
                format!("resumed {resumed} {runs} that an earlier server process left unfinished");
            app.services.reporter.note(&note);
        }
        mcp::clean_workspaces(&app).await;
        let warming = tokio::spawn(warm_up(app.clone()));
        let readers = [&app.events, &app.audit].map(|hub| {
            let (hub, closing) = (hub.clone(), app.closing.clone());
            tokio::spawn(async move { hub.read(closing).await })
        });
        let serving = listen::serve(listener, exposure, routes::router(&app), app.closing.clone());
        let stopping = async {
            cancel.cancelled().await;
            app.closing.cancel();
            // Pause the runs without waiting for connections to close, so that they make no further model calls.
            app.supervisor.close().await;
        };
        tokio::join!(serving, stopping);
        for (_, service) in app.workspaces.all() {
            // The next server process makes the decisions that are not finished after the timeout.
            let _ =
                tokio::time::timeout(PENDING_DECISIONS_TIMEOUT, service.wait_for_decisions()).await;
        }
        let _ = warming.await;
        app.backends.close().await;
        for reader in readers {
            let _ = reader.await;
        }
        Ok(())
    }
}
