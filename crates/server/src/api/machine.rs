//! Handlers for the server and its machine: health, version, doctor, cluster, attack scorecards, sessions, personas and
//! sign-in links.

use assize_code::{Session, SessionError, sessions as sessions_folder};
use assize_config::Isolation;
use assize_sandbox::PoolMetrics;
use assize_service::attack::scorecards::{self, Scorecard};
use assize_service::doctor::{self, DoctorReport, ModelChoice};
use assize_service::status::ClusterStatus;
use assize_types::{Failure, FailureKind};
use axum::Json;
use axum::extract::State;
use axum::http::header::{REFRESH, SET_COOKIE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::extract::{Path, Query};
use crate::problem::Problem;
use crate::{App, pages};

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HealthView {
    status: &'static str,
}

/// Check that the server process responds
#[utoipa::path(
    get, path = "/healthz", tag = "machine", security(()),
    responses((status = 200, description = "The server process responds", body = HealthView)),
)]
pub(crate) async fn health() -> Json<HealthView> {
    Json(HealthView { status: "ok" })
}

/// Check that the server can handle requests
#[utoipa::path(
    get, path = "/readyz", tag = "machine", security(()),
    responses((status = 200, description = "The server can read its store and is not stopping", body = HealthView)),
)]
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<HealthView>, Problem> {
    if app.closing.is_cancelled() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"));
    }
    app.store.last_event().await?;
    Ok(Json(HealthView { status: "ready" }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct VersionInfo {
    name: &'static str,
    version: &'static str,
}

/// Show the version of the server
#[utoipa::path(
    get, path = "/api/version", tag = "machine",
    responses((status = 200, description = "Version of assize", body = VersionInfo)),
)]
pub(crate) async fn version() -> Json<VersionInfo> {
    Json(VersionInfo { name: "assize", version: env!("CARGO_PKG_VERSION") })
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServerInfo {
    version: &'static str,
    /// Provider that new runs use, or `rehearsal`
    provider: &'static str,
    model: Option<String>,
    /// Why new runs use this provider
    why: String,
    /// Sandbox backend that new runs use; null if none is available
    isolation: Option<Isolation>,
    /// Why new runs use this sandbox backend, or why no backend is available
    isolation_why: String,
    /// Name of the cluster whose workers execute the runs in their own sandboxes; null if the server is not part of a
    /// cluster
    cluster: Option<String>,
    /// Where runs are stored: the path of the store's file, or the addresses of the cluster's NATS servers
    store: String,
    run_slots: RunSlots,
    /// Warm pools of the default sandbox backend and of every other backend used since the server was started
    warm_pools: Vec<WarmPoolInfo>,
    /// Code tasks that the rehearsal model can solve; empty if another provider is used
    rehearsal_tasks: Vec<&'static str>,
    /// File-editing tasks that the rehearsal model can solve; empty if another provider is used
    rehearsal_edits: Vec<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunSlots {
    running: usize,
    /// Maximum number of concurrent runs
    max: usize,
}

/// Totals of the warm pools of one sandbox backend
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WarmPoolInfo {
    isolation: Isolation,
    /// Maximum number of idle sandboxes
    size: usize,
    /// Current number of idle sandboxes
    idle: usize,
    /// Number of sandboxes that were taken from the warm pool since the server was started
    hits: u64,
    /// Number of sandboxes that were newly started for a request, not taken from the warm pool, since the server was
    /// started
    misses: u64,
    /// Mean time in milliseconds to create an idle sandbox; null if none was created yet
    refill_ms: Option<f64>,
    /// Whether the warm pool is not refilled at the moment because free memory is low
    low_memory: bool,
}

impl From<(Isolation, PoolMetrics)> for WarmPoolInfo {
    fn from((isolation, pool): (Isolation, PoolMetrics)) -> WarmPoolInfo {
        let PoolMetrics { size, idle, hits, misses, low_memory, .. } = pool;
        let refill_ms = pool.refill_time().map(|time| time.as_secs_f64() * 1e3);
        WarmPoolInfo { isolation, size, idle, hits, misses, refill_ms, low_memory }
    }
}

/// Show the configuration that new runs use
#[utoipa::path(
    get, path = "/api/about", tag = "machine",
    responses((status = 200, description = "Provider, sandbox backend, store and warm pools", body = ServerInfo)),
)]
pub(crate) async fn about(State(app): State<App>) -> Result<Json<ServerInfo>, Problem> {
    let config = &app.services.settings;
    let ModelChoice { provider, model, why } = doctor::model_choice(config).await?;
    let member = app.services.cluster_client.as_ref();
    let (isolation, isolation_why) = match member {
        Some(_) => (None, "each worker of the cluster chooses its own sandbox backend".to_owned()),
        None => match app.backends.get(&app.services.sandboxes()).await {
            Ok(chosen) => (Some(chosen.manager.isolation()), chosen.why.clone()),
            Err(failure) => (None, failure.message().to_owned()),
        },
    };
    let store = match member {
        Some(member) => member.cluster.address(),
        None => app.services.store_path().display().to_string(),
    };
    let figures = app.supervisor.figures();
    let (rehearsal_tasks, rehearsal_edits) = match model {
        None => (assize_code::rehearsal::tasks(), vec![assize_draft::work::rehearsal::TASK]),
        Some(_) => (Vec::new(), Vec::new()),
    };
    Ok(Json(ServerInfo {
        version: env!("CARGO_PKG_VERSION"),
        provider,
        model,
        why,
        isolation,
        isolation_why,
        cluster: member.map(|member| member.cluster.name().to_owned()),
        store,
        run_slots: RunSlots { running: figures.running, max: app.supervisor.max_running() },
        warm_pools: app.backends.metrics().into_iter().map(WarmPoolInfo::from).collect(),
        rehearsal_tasks,
        rehearsal_edits,
    }))
}

/// Show the status of the cluster
///
/// Lists the nodes with their capabilities, the queued jobs with their requirements, and the stuck runs.
#[utoipa::path(
    get, path = "/api/cluster", tag = "machine",
    responses((status = 200, description = "Status of the cluster, as `assize cluster status --json` prints it", body = ref("#/components/schemas/ClusterStatus"))),
)]
pub(crate) async fn cluster(State(app): State<App>) -> Result<Json<ClusterStatus>, Problem> {
    let Some(member) = &app.services.cluster_client else {
        let problem = Problem::not_found("this server is not part of a cluster");
        let hint = "start the server with `--cluster` so that cluster workers execute its runs";
        return Err(problem.hint(hint));
    };
    Ok(Json(ClusterStatus::of(member, &*app.store).await?))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ScorecardList {
    attacks: Vec<Scorecard>,
}

/// Show the last attack scorecard of each sandbox backend
///
/// The scorecards come from runs of `assize attack` on the server's machine.
#[utoipa::path(
    get, path = "/api/attacks", tag = "machine",
    responses((status = 200, description = "Scorecards, sorted by isolation; empty if `assize attack` never ran", body = ScorecardList)),
)]
pub(crate) async fn attacks(State(app): State<App>) -> Result<Json<ScorecardList>, Problem> {
    Ok(Json(ScorecardList { attacks: scorecards::load(&app.services.environment)? }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DoctorQuery {
    /// Skip the checks that connect to providers or to the cluster
    offline: Option<bool>,
}

/// Check what the server's machine supports
///
/// Reports the providers, the sandbox backends, how each limit is enforced, and what is unavailable and why. The check
/// starts one sandbox of each backend.
#[utoipa::path(
    get, path = "/api/doctor", tag = "machine", params(DoctorQuery),
    responses((status = 200, description = "Result of the checks", body = ref("#/components/schemas/DoctorReport"))),
)]
pub(crate) async fn examine(
    State(app): State<App>,
    Query(query): Query<DoctorQuery>,
) -> Result<Json<DoctorReport>, Problem> {
    let _check = app.doctor_lock.lock().await;
    Ok(Json(app.services.examine(query.offline == Some(true)).await?))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionInfo {
    name: String,
    files: Vec<super::files::FileInfo>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionList {
    sessions: Vec<SessionInfo>,
}

/// List the sessions, each with the files that the runs of the session share
#[utoipa::path(
    get, path = "/api/sessions", tag = "runs",
    responses((status = 200, description = "Sessions, sorted by name", body = SessionList)),
)]
pub(crate) async fn sessions(State(app): State<App>) -> Result<Json<SessionList>, Problem> {
    let root = sessions_folder(&app.services.environment);
    let mut sessions = Vec::new();
    for name in Session::names(&root).map_err(Failure::from)? {
        let Some(files) = Session::list_files(&root, &name).map_err(Failure::from)? else {
            continue;
        };
        let files = files.into_iter().map(|(name, bytes)| super::files::FileInfo { name, bytes });
        sessions.push(SessionInfo { name, files: files.collect() });
    }
    Ok(Json(SessionList { sessions }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionFileQuery {
    /// Path of the file, as in the list of sessions
    path: String,
}

/// Fetch a file of a session
#[utoipa::path(
    get, path = "/api/sessions/{session}/files", tag = "runs",
    params(("session" = String, Path, description = "Name of the session"), SessionFileQuery),
    responses((status = 200, description = "Content of the file, with a media type that depends on the file name", content_type = "*/*", body = Vec<u8>)),
)]
pub(crate) async fn session_file(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(file): Query<SessionFileQuery>,
) -> Result<axum::http::Response<axum::body::Body>, Problem> {
    let root = sessions_folder(&app.services.environment);
    let missing = || Problem::not_found("unknown session, or the session has no such file");
    let path = file.path.clone();
    let read = tokio::task::spawn_blocking(move || Session::read(&root, &name, &path)).await?;
    let bytes = match read {
        Err(assize_code::SessionError::Name(_)) => None,
        read => read.map_err(Failure::from)?,
    };
    Ok(super::files::attachment(&file.path, bytes.ok_or_else(missing)?))
}

/// Fetch the default personas of a consultation
///
/// Clients can change the file and send it in the field `personas` when they start a consultation.
#[utoipa::path(
    get, path = "/api/personas", tag = "runs",
    responses((status = 200, description = "Personas as a TOML file", content_type = "text/plain", body = String)),
)]
pub(crate) async fn personas() -> axum::http::Response<axum::body::Body> {
    let file = assize_consult::ConsultPersonas::default().to_file();
    super::files::attachment("personas.toml", file.into_bytes())
}

/// Remove a session with its files
#[utoipa::path(
    delete, path = "/api/sessions/{session}", tag = "runs", params(("session" = String, Path, description = "Name of the session")),
    responses((status = 204, description = "The session was removed")),
)]
pub(crate) async fn remove_session(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let root = sessions_folder(&app.services.environment);
    // Errors in the files of a session do not prevent its removal.
    if matches!(Session::list_files(&root, &name), Ok(None) | Err(SessionError::Name(_))) {
        return Err(Problem::not_found("unknown session"));
    }
    let session = Session::open(&root, &name).map_err(|error| {
        let failure = Failure::from(error);
        match failure.kind {
            FailureKind::Usage => Problem::conflict(failure.message()),
            _ => failure.into(),
        }
    })?;
    session.remove().map_err(Failure::from)?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SignInLink {
    /// Path of the link on this server; a browser that opens this path is signed in
    path: String,
}

/// Create a one-time sign-in link for a browser
#[utoipa::path(
    post, path = "/api/links", tag = "machine",
    responses((status = 201, description = "Link that can be used once within 15 minutes", body = SignInLink)),
)]
pub(crate) async fn link(State(app): State<App>) -> Result<Response, Problem> {
    let path = app.guard.link();
    let path = path.map_err(|error| Failure::from_error(FailureKind::Environment, &error))?;
    let link = SignInLink { path };
    Ok((StatusCode::CREATED, Json(link)).into_response())
}

#[derive(Debug, Deserialize)]
pub(crate) struct Ticket {
    #[serde(default)]
    ticket: String,
}

/// Signs a browser in: exchanges the ticket of a sign-in link for a cookie.
pub(crate) async fn sign_in(
    method: Method,
    State(app): State<App>,
    Query(query): Query<Ticket>,
) -> Response {
    // A HEAD request, such as that of a link preview, must not use up the ticket.
    if method != Method::GET {
        return StatusCode::NO_CONTENT.into_response();
    }
    match app.guard.exchange_ticket(&query.ticket) {
        Some(cookie) => {
            // The page refreshes itself. With a redirect, a browser that followed a link from another site would not
            // send the new cookie, which is `SameSite=Strict`.
            let refresh = (REFRESH, HeaderValue::from_static("0; url=/"));
            let text = "<p>You are signed in. <a href=\"/\">Continue</a></p>";
            ([(SET_COOKIE, cookie), refresh], pages::page("Signed in", text)).into_response()
        }
        None => {
            let text = "<p>This link was already used or has expired. Restart the server, or create another link \
                        with <code>POST /api/links</code>.</p>";
            (StatusCode::GONE, pages::page("This sign-in link is not valid", text)).into_response()
        }
    }
}
