//! The door for programs and for the page: an HTTP API, and events as they happen.
//!
//! [`Server::bind`] takes the door's place in the network, [`Server::run`] opens it until it is told to stop. Trials are
//! started by the services and held on the docket; they go on whoever still looks. What happens in them is kept in the
//! store, and the hub passes it on. Stopped or killed, the server goes on with its trials when it is started again.

mod api;
mod auth;
mod docket;
mod document;
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
mod pace;
mod page;
mod pages;
mod problem;
mod routes;
mod tokens;
mod tools;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_run::{Log, Role, Store};
use assize_sandbox::SharedBackends;
use assize_service::Services;
use assize_types::{Cancel, Failure, FailureKind};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api::drafts::Desks;
use crate::auth::Guard;
use crate::docket::Docket;
use crate::hub::Hub;
use crate::pace::Pace;
use crate::problem::Problem;

pub use auth::Token;
pub use listen::{Certificate, Exposure};
pub use page::page_missing;
pub use tokens::{TokenInfo, Tokens, TokensError};
pub use tools::{CodeServer, DraftServer, Ended, serve_stdio};

/// How long it is waited for verdicts when the server stops.
const LAST_VERDICTS: Duration = Duration::from_secs(5);

/// How the server is set up.
#[derive(Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// The owner's token with the scoped ones; none, if everybody on this machine may come in.
    pub tokens: Option<Tokens>,
    pub exposure: Exposure,
    /// The names that it is called by, besides those of this machine.
    pub names: Vec<String>,
    /// Folders that may be named in requests.
    pub roots: BTreeMap<String, PathBuf>,
    /// The most that is read of one request, in bytes.
    pub longest_request: usize,
    pub starts_per_minute: u32,
    /// The most trials that are held at once.
    pub most_running: usize,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    services: Services,
    store: Arc<dyn Store>,
    docket: Arc<Docket>,
    /// What happens in runs.
    events: Arc<Hub>,
    /// What happens to drafts.
    audit: Arc<Hub>,
    desks: Desks,
    /// For all sandboxes that are made here.
    backends: Arc<SharedBackends>,
    guard: Guard,
    /// Whether we speak HTTPS ourselves.
    https: bool,
    pace: Pace,
    longest_request: usize,
    closing: CancellationToken,
    /// Held during a check of this machine, which starts sandboxes: one check at a time.
    examined: tokio::sync::Mutex<()>,
    /// Whether no other server was at work on this store when we began: then those who began what is left are gone.
    alone: bool,
    /// Shared by all servers of a store, as long as they live.
    _lock: Option<std::fs::File>,
}

/// What all requests share, handed to each.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Shared>);

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Shared {
    /// A folder that whoever runs the server has allowed.
    pub(crate) fn root(&self, name: &str) -> Result<&Path, Problem> {
        self.desks.folder(name).ok_or_else(|| {
            let known: Vec<&str> = self.desks.names().collect();
            let problem = Problem::not_found("no folder of that name was allowed on this server");
            match known.is_empty() {
                true => problem.hint("allow one with `assize serve --root NAME=FOLDER`"),
                false => problem.hint(format!("there are: {}", known.join(", "))),
            }
        })
    }

    /// Refuses to begin more than may be begun in a short time.
    pub(crate) fn pace(&self) -> Result<(), Problem> {
        self.pace.take()
    }
}

/// Fills the warm pool of the default backend. In a cluster the workers have one, and a pool opens here with the
/// first request that needs a sandbox.
async fn warm_up(app: App) {
    if app.services.member.is_some() {
        return;
    }
    let sandboxes = app.services.sandboxes();
    let started = app.backends.start(&sandboxes);
    let started = tokio::select! {
        started = started => started,
        () = app.closing.cancelled() => return,
    };
    if let Err(failure) = started {
        tracing::warn!(error = failure.message(), "cannot fill the warm pool");
    }
}

/// What all servers of a store share, and whether there is no other; none, if it cannot be had.
fn lock(services: &Services) -> Option<(std::fs::File, bool)> {
    let open = |more: &str| {
        let mut name = services.store_path().into_os_string();
        name.push(more);
        std::fs::OpenOptions::new().create(true).append(true).open(name).ok()
    };
    // One looks at a time: between having it alone and sharing it nobody has it.
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

/// A server that has its place in the network.
#[derive(Debug)]
pub struct Server {
    app: App,
    listener: TcpListener,
    exposure: Exposure,
    address: SocketAddr,
}

impl Server {
    /// Takes the place, and opens nothing yet.
    pub async fn bind(
        options: Options,
        mut services: Services,
        store: Arc<dyn Store>,
    ) -> Result<Server, Failure> {
        services.role = Role::Server;
        let failed = |error: std::io::Error| {
            let message = format!("cannot listen on {}: {error}", options.listen);
            let failure = Failure::new(FailureKind::Environment, message);
            match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    failure.hint("another program is there; name another with `--listen`")
                }
                _ => failure,
            }
        };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let local = matches!(options.exposure, Exposure::Local);
        let desks = Desks::open(options.roots, &services, &store)?;
        // In a cluster there is no file to share.
        let lock = if services.member.is_some() { None } else { lock(&services) };
        let (lock, alone) = lock.unzip();
        let alone = alone.unwrap_or(false);
        let backends = services.share_backends(usize::MAX)?;
        let app = App(Arc::new(Shared {
            docket: Arc::new(Docket::new(options.most_running, store.clone())),
            events: Hub::new(Log::Events, store.clone()),
            audit: Hub::new(Log::Audit, store.clone()),
            desks,
            backends,
            guard: Guard::new(options.tokens, local, &options.names, address),
            https: matches!(options.exposure, Exposure::Tls(_)),
            pace: Pace::new(options.starts_per_minute),
            longest_request: options.longest_request,
            closing: CancellationToken::new(),
            examined: tokio::sync::Mutex::new(()),
            alone,
            _lock: lock,
            services,
            store,
        }));
        Ok(Server { app, listener, exposure: options.exposure, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A path with a ticket that lets somebody in once.
    pub fn link(&self) -> Result<String, Failure> {
        let link = self.app.guard.link();
        link.map_err(|error| Failure::from_error(FailureKind::Environment, &error))
    }

    /// Goes on with what was under way, and serves until it is told to stop. Trials then stop where they are.
    pub async fn run(self, cancel: Cancel) -> Result<(), Failure> {
        let Server { app, listener, exposure, .. } = self;
        let _here = app.services.announce_server().await?;
        let roots: Vec<&Path> = app.desks.folders().collect();
        let went_on = app.docket.go_on(&app.services, &roots, app.alone).await?;
        if went_on > 0 {
            let runs = if went_on == 1 { "run" } else { "runs" };
            app.services.reporter.note(&format!("going on with {went_on} {runs}"));
        }
        mcp::tidy(&app).await;
        let warming = tokio::spawn(warm_up(app.clone()));
        let readers = [&app.events, &app.audit].map(|hub| {
            let (hub, closing) = (hub.clone(), app.closing.clone());
            tokio::spawn(async move { hub.read(closing).await })
        });
        let serving = listen::serve(listener, exposure, routes::router(&app), app.closing.clone());
        let stopping = async {
            cancel.cancelled().await;
            app.closing.cancel();
            // Trials first: nobody who is slow to hang up lets them spend on.
            app.docket.close().await;
        };
        tokio::join!(serving, stopping);
        for (_, desk) in app.desks.all() {
            // What takes longer is decided by whoever comes next.
            let _ = tokio::time::timeout(LAST_VERDICTS, desk.finish_deciding()).await;
        }
        let _ = warming.await;
        app.backends.close().await;
        for reader in readers {
            let _ = reader.await;
        }
        Ok(())
    }
}
