//! The machine that this runs on, and the server itself.

use assize_code::{Session, sessions as sessions_folder};
use assize_config::Isolation;
use assize_sandbox::PoolMetrics;
use assize_service::attack::scorecards::{self, Scorecard};
use assize_service::doctor::{self, DoctorReport, InUse};
use assize_service::status::Status;
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
pub(crate) struct Fine {
    status: &'static str,
}

/// Whether the server is there
#[utoipa::path(
    get, path = "/healthz", tag = "machine", security(()),
    responses((status = 200, description = "It is", body = Fine)),
)]
pub(crate) async fn health() -> Json<Fine> {
    Json(Fine { status: "ok" })
}

/// Whether the server can do its work
#[utoipa::path(
    get, path = "/readyz", tag = "machine", security(()),
    responses((status = 200, description = "It can", body = Fine)),
)]
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Fine>, Problem> {
    if app.closing.is_cancelled() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"));
    }
    app.store.last_event().await?;
    Ok(Json(Fine { status: "ready" }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Version {
    name: &'static str,
    version: &'static str,
}

/// Which version this is
#[utoipa::path(
    get, path = "/api/version", tag = "machine",
    responses((status = 200, description = "This one", body = Version)),
)]
pub(crate) async fn version() -> Json<Version> {
    Json(Version { name: "assize", version: env!("CARGO_PKG_VERSION") })
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct About {
    version: &'static str,
    /// Who answers: a provider, or `rehearsal`
    provider: &'static str,
    model: Option<String>,
    /// Why it is this one
    why: String,
    /// The walls around code; null, if there are none to be had
    isolation: Option<Isolation>,
    /// Why they are these, or why there are none
    isolation_why: String,
    /// The cluster that does the work, if the server takes part in one; its walls are those of its workers
    cluster: Option<String>,
    /// Where runs are kept: a file, or the servers of the cluster
    store: String,
    trials: Trials,
    /// Idle sandboxes of each backend that was used, and of the default backend from the start
    warm_pools: Vec<WarmPoolInfo>,
    /// The tasks for programs that the rehearsal model knows, if it is the one that answers
    rehearsed: Vec<&'static str>,
    /// And the changes of files
    rehearsed_changes: Vec<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Trials {
    running: usize,
    /// As many as may be at once
    most: usize,
}

/// The warm pools of one backend
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WarmPoolInfo {
    isolation: Isolation,
    /// Idle sandboxes when it is full, and now
    size: usize,
    idle: usize,
    /// Requests since the server was started that an idle sandbox served, and those that started one
    hits: u64,
    misses: u64,
    /// Mean time to make an idle sandbox; null, if none was made yet
    refill_ms: Option<f64>,
    /// Whether it is not refilled for want of free memory
    low_memory: bool,
}

impl From<(Isolation, PoolMetrics)> for WarmPoolInfo {
    fn from((isolation, pool): (Isolation, PoolMetrics)) -> WarmPoolInfo {
        let PoolMetrics { size, idle, hits, misses, low_memory, .. } = pool;
        let refill_ms = pool.refill_time().map(|time| time.as_secs_f64() * 1e3);
        WarmPoolInfo { isolation, size, idle, hits, misses, refill_ms, low_memory }
    }
}

/// What a trial would be held with that began now
#[utoipa::path(
    get, path = "/api/about", tag = "machine",
    responses((status = 200, description = "Who answers, behind which walls code runs, and where runs are kept", body = About)),
)]
pub(crate) async fn about(State(app): State<App>) -> Result<Json<About>, Problem> {
    let config = &app.services.settings;
    let InUse { provider, model, why } = doctor::in_use(config).await?;
    let member = app.services.member.as_ref();
    let (isolation, isolation_why) = match member {
        Some(_) => {
            (None, "programs are run by workers, behind the walls that each of them has".to_owned())
        }
        None => match app.backends.get(&app.services.sandboxes()).await {
            Ok(chosen) => (Some(chosen.manager.isolation()), chosen.why.clone()),
            Err(failure) => (None, failure.message().to_owned()),
        },
    };
    let store = match member {
        Some(member) => member.cluster.address(),
        None => app.services.store_path().display().to_string(),
    };
    let figures = app.docket.figures();
    let (rehearsed, rehearsed_changes) = match model {
        None => (assize_code::rehearsal::tasks(), vec![assize_draft::work::rehearsal::TASK]),
        Some(_) => (Vec::new(), Vec::new()),
    };
    Ok(Json(About {
        version: env!("CARGO_PKG_VERSION"),
        provider,
        model,
        why,
        isolation,
        isolation_why,
        cluster: member.map(|member| member.cluster.name().to_owned()),
        store,
        trials: Trials { running: figures.running, most: app.docket.most() },
        warm_pools: app.backends.metrics().into_iter().map(WarmPoolInfo::from).collect(),
        rehearsed,
        rehearsed_changes,
    }))
}

/// How the cluster is that the server takes part in
///
/// Who takes part and what they can do, what waits and for what, and runs that nobody gets on with.
#[utoipa::path(
    get, path = "/api/cluster", tag = "machine",
    responses((status = 200, description = "As `assize cluster status` says it", body = ref("#/components/schemas/ClusterStatus"))),
)]
pub(crate) async fn cluster(State(app): State<App>) -> Result<Json<Status>, Problem> {
    let Some(member) = &app.services.member else {
        let detail = "the server takes part in no cluster; start it with `--cluster` to have workers do its work";
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    Ok(Json(Status::of(member, &*app.store).await?))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Attacks {
    attacks: Vec<Scorecard>,
}

/// What became of the last attack on each kind of sandbox
///
/// `assize attack` makes them, on this machine.
#[utoipa::path(
    get, path = "/api/attacks", tag = "machine",
    responses((status = 200, description = "By isolation; none, if nobody attacked yet", body = Attacks)),
)]
pub(crate) async fn attacks(State(app): State<App>) -> Result<Json<Attacks>, Problem> {
    Ok(Json(Attacks { attacks: scorecards::kept(&app.services.environment)? }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Examine {
    /// Do not try to reach anyone
    offline: Option<bool>,
}

/// What this machine offers, and why not the rest
///
/// Providers, sandboxes, and what each limit rests on. Sandboxes are tried by making one.
#[utoipa::path(
    get, path = "/api/doctor", tag = "machine", params(Examine),
    responses((status = 200, description = "What was found out", body = ref("#/components/schemas/DoctorReport"))),
)]
pub(crate) async fn examine(
    State(app): State<App>,
    Query(query): Query<Examine>,
) -> Result<Json<DoctorReport>, Problem> {
    let _check = app.examined.lock().await;
    Ok(Json(app.services.examine(query.offline == Some(true)).await?))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionInfo {
    name: String,
    files: Vec<super::files::FileInfo>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sessions {
    sessions: Vec<SessionInfo>,
}

/// List the sessions whose files are kept between runs
#[utoipa::path(
    get, path = "/api/sessions", tag = "runs",
    responses((status = 200, description = "By name", body = Sessions)),
)]
pub(crate) async fn sessions(State(app): State<App>) -> Result<Json<Sessions>, Problem> {
    let root = sessions_folder(&app.services.environment);
    let mut sessions = Vec::new();
    for name in Session::names(&root).map_err(Failure::from)? {
        let Some(files) = Session::look(&root, &name).map_err(Failure::from)? else { continue };
        let files = files.into_iter().map(|(name, bytes)| super::files::FileInfo { name, bytes });
        sessions.push(SessionInfo { name, files: files.collect() });
    }
    Ok(Json(Sessions { sessions }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FileName {
    /// As in the list of sessions
    path: String,
}

/// Fetch a file of a session
#[utoipa::path(
    get, path = "/api/sessions/{session}/files", tag = "runs",
    params(("session" = String, Path, description = "The session"), FileName),
    responses((status = 200, description = "As a file, of a type by its name", content_type = "*/*", body = Vec<u8>)),
)]
pub(crate) async fn session_file(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(file): Query<FileName>,
) -> Result<axum::http::Response<axum::body::Body>, Problem> {
    let root = sessions_folder(&app.services.environment);
    let missing = || Problem::not_found("there is no such session, or no such file in it");
    let path = file.path.clone();
    let read = tokio::task::spawn_blocking(move || Session::read(&root, &name, &path)).await?;
    let bytes = match read {
        Err(assize_code::SessionError::Name(_)) => None,
        read => read.map_err(Failure::from)?,
    };
    Ok(super::files::attachment(&file.path, bytes.ok_or_else(missing)?))
}

/// Who takes part in a consultation, unless others are sent
///
/// Change what you like and send it back as `personas` of a consultation.
#[utoipa::path(
    get, path = "/api/personas", tag = "runs",
    responses((status = 200, description = "A file in TOML", content_type = "text/plain", body = String)),
)]
pub(crate) async fn personas() -> axum::http::Response<axum::body::Body> {
    let file = assize_consult::Personas::default().to_file();
    super::files::attachment("personas.toml", file.into_bytes())
}

/// Remove a session with its files
#[utoipa::path(
    delete, path = "/api/sessions/{session}", tag = "runs", params(("session" = String, Path, description = "The session")),
    responses((status = 204, description = "It is gone")),
)]
pub(crate) async fn remove_session(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let root = sessions_folder(&app.services.environment);
    let missing = || Problem::not_found("there is no such session");
    Session::look(&root, &name).ok().flatten().ok_or_else(missing)?;
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
pub(crate) struct Link {
    /// To be opened in a browser, once, on this server
    path: String,
}

/// Make a link that lets a browser in, once
#[utoipa::path(
    post, path = "/api/links", tag = "machine",
    responses((status = 201, description = "It works for a quarter of an hour", body = Link)),
)]
pub(crate) async fn link(State(app): State<App>) -> Result<Response, Problem> {
    let path = app.guard.link();
    let path = path.map_err(|error| Failure::from_error(FailureKind::Environment, &error))?;
    let link = Link { path };
    Ok((StatusCode::CREATED, Json(link)).into_response())
}

#[derive(Debug, Deserialize)]
pub(crate) struct Ticket {
    #[serde(default)]
    ticket: String,
}

/// Lets somebody with a ticket in: the link becomes a cookie.
pub(crate) async fn enter(
    method: Method,
    State(app): State<App>,
    Query(query): Query<Ticket>,
) -> Response {
    // Whoever only looks what is there does not use it up.
    if method != Method::GET {
        return StatusCode::NO_CONTENT.into_response();
    }
    match app.guard.admit(&query.ticket) {
        Some(cookie) => {
            // Not a redirect: a browser that came from elsewhere would not send the cookie along with that.
            let go_on = (REFRESH, HeaderValue::from_static("0; url=/"));
            let words = "<p>You are in. <a href=\"/\">Go on</a></p>";
            ([(SET_COOKIE, cookie), go_on], pages::page("Welcome", words)).into_response()
        }
        None => {
            let words = "<p>This link was used already, or it is too old. Start the server again, or ask for \
                         another one with <code>POST /api/links</code>.</p>";
            (StatusCode::GONE, pages::page("This link does not work", words)).into_response()
        }
    }
}
