//! Workspaces: drafts, what waits for a person, what was decided, and the log of it all.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use assize_draft::audit::{self, Whole};
use assize_draft::{
    Cleared, Diff, DraftError, DraftService, Force, OpenDraft, Options, Stage, Step, Submission,
    SubmissionView, desk, keep, policy, verifier,
};
use assize_run::{AuditEntry, AuditQuery, Store};
use assize_service::Services;
use assize_types::{Failure, unix_millis};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::spawn_blocking;
use utoipa::{IntoParams, ToSchema};

use super::page;
use crate::App;
use crate::events::{After, Stream, last_seen};
use crate::extract::{Path, Query, Sent};
use crate::problem::Problem;

/// Who decides, where somebody does so at this door.
const PERSON: &str = "person over HTTP";

/// The folders that whoever runs the server has allowed, each with its desk.
#[derive(Debug)]
pub(crate) struct Desks {
    folders: BTreeMap<String, PathBuf>,
    desks: BTreeMap<String, Arc<DraftService>>,
}

impl Desks {
    pub(crate) fn open(
        folders: BTreeMap<String, PathBuf>,
        services: &Services,
        store: &Arc<dyn Store>,
    ) -> Result<Desks, Failure> {
        let mut desks = BTreeMap::new();
        for (name, folder) in &folders {
            let options = Options {
                policy: policy(&services.settings)?,
                verifier: Some(verifier(&services.sandboxes())),
                ..Options::default()
            };
            let desk = desk(folder, &services.environment, store.clone(), options)?;
            desks.insert(name.clone(), desk);
        }
        Ok(Desks { folders, desks })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.folders.keys().map(String::as_str)
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = &FilePath> {
        self.folders.values().map(PathBuf::as_path)
    }

    pub(crate) fn folder(&self, name: &str) -> Option<&FilePath> {
        self.folders.get(name).map(PathBuf::as_path)
    }

    /// What a folder is called here, if it was allowed.
    pub(crate) fn name_of(&self, folder: &FilePath) -> Option<&str> {
        let mut all = self.folders.iter();
        all.find(|(_, known)| *known == folder).map(|(name, _)| name.as_str())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Arc<DraftService>)> {
        self.desks.iter().map(|(name, desk)| (name.as_str(), desk))
    }
}

impl App {
    /// The desk of a workspace.
    pub(crate) fn desk(&self, name: &str) -> Result<&Arc<DraftService>, Problem> {
        self.root(name)?;
        let broken = || Problem::not_found("there is no such workspace");
        self.desks.desks.get(name).ok_or_else(broken)
    }
}

/// A folder in which drafts are made.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Workspace {
    name: String,
    /// Whether workers can use the draft tools
    tools_on: bool,
    /// Submissions that a person must decide on
    waiting: usize,
    /// Drafts that were not handed in yet
    open_drafts: usize,
    /// What keeps workers from working, such as a contract that cannot be read
    blocked: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Workspaces {
    workspaces: Vec<Workspace>,
}

/// List workspaces
#[utoipa::path(
    get, path = "/api/workspaces", tag = "drafts",
    responses((status = 200, description = "Those that whoever runs the server has allowed", body = Workspaces)),
)]
pub(crate) async fn workspaces(State(app): State<App>) -> Result<Json<Workspaces>, Problem> {
    let mut workspaces = Vec::new();
    for (name, desk) in app.desks.all() {
        let book = desk.state().await?;
        let waits = |one: &&Submission| one.stage == Stage::Escalated;
        workspaces.push(Workspace {
            name: name.to_owned(),
            tools_on: !book.off,
            waiting: book.submissions.values().filter(waits).count(),
            open_drafts: book.drafts.values().filter(|draft| draft.submission.is_none()).count(),
            blocked: desk.contract().err().map(|error| error.to_string()),
        });
    }
    Ok(Json(Workspaces { workspaces }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switch {
    on: bool,
}

/// Switch the draft tools of a workspace on or off
#[utoipa::path(
    put, path = "/api/workspaces/{workspace}/tools", tag = "drafts", request_body = Switch,
    params(("workspace" = String, Path, description = "The workspace")),
    responses((status = 204, description = "So it is")),
)]
pub(crate) async fn switch(
    State(app): State<App>,
    Path(name): Path<String>,
    Sent { body, .. }: Sent<Switch>,
) -> Result<StatusCode, Problem> {
    let own = app.desk(&name)?.clone();
    app.docket.spawn(async move { own.switch(PERSON, body.on).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenDrafts {
    drafts: Vec<OpenDraft>,
}

/// List drafts that are being worked on, or wait in a submission
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/drafts", tag = "drafts",
    params(("workspace" = String, Path, description = "The workspace")),
    responses((status = 200, description = "By name", body = OpenDrafts)),
)]
pub(crate) async fn open_drafts(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<OpenDrafts>, Problem> {
    let book = app.desk(&name)?.state().await?;
    Ok(Json(OpenDrafts { drafts: book.drafts.into_values().collect() }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DraftView {
    draft: OpenDraft,
    content: String,
    /// What it would change, as a unified diff
    diff: String,
}

/// Show a draft with what it would change
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/drafts/{draft}", tag = "drafts",
    params(("workspace" = String, Path, description = "The workspace"), ("draft" = String, Path, description = "The draft")),
    responses((status = 200, description = "As it is now", body = DraftView)),
)]
pub(crate) async fn draft(
    State(app): State<App>,
    Path((name, draft)): Path<(String, String)>,
) -> Result<Json<DraftView>, Problem> {
    let desk = app.desk(&name)?.clone();
    let found = desk.state().await?.drafts.get(&draft).cloned();
    let draft = found.ok_or_else(|| Problem::not_found("there is no such draft"))?;
    spawn_blocking(move || {
        let base = draft.before.map(|hash| desk.copy(hash)).transpose()?.unwrap_or_default();
        let bytes = desk.draft(&draft.name)?;
        let (base, content) = (String::from_utf8_lossy(&base), String::from_utf8_lossy(&bytes));
        let diff = Diff::unified(&draft.path, &base, &content);
        Ok(Json(DraftView { content: content.into_owned(), diff, draft }))
    })
    .await?
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those that are settled, too
    all: Option<bool>,
    /// Those before this one: `next` of the page before
    before: Option<u64>,
    /// 50, if nothing is said
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Submissions {
    submissions: Vec<Submission>,
    /// Where the next page begins; null on the last
    next: Option<u64>,
}

/// List what was handed in
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/submissions", tag = "drafts",
    params(("workspace" = String, Path, description = "The workspace"), Which),
    responses((status = 200, description = "The latest first", body = Submissions)),
)]
pub(crate) async fn submissions(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(which): Query<Which>,
) -> Result<Json<Submissions>, Problem> {
    let limit = page::limit(which.limit, 50, 200)?;
    let book = app.desk(&name)?.state().await?;
    let settled = |stage| matches!(stage, Stage::Accepted | Stage::Rejected | Stage::Undone);
    let wanted = |one: &Submission| {
        which.before.is_none_or(|before| one.id < before)
            && (which.all == Some(true) || !settled(one.stage))
    };
    let mut found: Vec<Submission> = book.submissions.into_values().rev().filter(wanted).collect();
    let next = page::cut(&mut found, limit, |one| one.id);
    Ok(Json(Submissions { submissions: found, next }))
}

/// The submission of a name: its number, or its message (`msg_12`), as workers are told.
async fn find(desk: &DraftService, name: &str) -> Result<Submission, Problem> {
    let found = desk.state().await?.submission_named(name).cloned();
    found.ok_or_else(|| Problem::not_found("there is no such submission"))
}

async fn shown(desk: &Arc<DraftService>, name: &str) -> Result<Json<SubmissionView>, Problem> {
    let (submission, desk) = (find(desk, name).await?, desk.clone());
    // What differs may take a while to be found.
    let view = spawn_blocking(move || SubmissionView::new(&desk, submission)).await?;
    Ok(Json(view))
}

/// Makes a decision on a submission, even if the reviewer hangs up meanwhile, and shows what became of it.
async fn decide<F>(
    app: &App,
    (workspace, name): (String, String),
    decision: impl FnOnce(Arc<DraftService>, u64) -> F,
) -> Result<Json<SubmissionView>, Problem>
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let desk = app.desk(&workspace)?;
    let id = find(desk, &name).await?.id;
    app.docket.spawn(decision(desk.clone(), id)).await??;
    shown(desk, &name).await
}

/// Show a submission, with what it changes and why it was decided so
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/submissions/{submission}", tag = "drafts",
    params(("workspace" = String, Path, description = "The workspace"), ("submission" = String, Path, description = "The submission")),
    responses((status = 200, description = "With a diff of each file", body = ref("#/components/schemas/SubmissionView"))),
)]
pub(crate) async fn submission(
    State(app): State<App>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<SubmissionView>, Problem> {
    shown(app.desk(&name)?, &id).await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Accept {
    /// Put the draft in the place of what is there, though that has changed since
    force: bool,
}

/// Accept a submission
///
/// Its files are changed.
#[utoipa::path(
    post, path = "/api/workspaces/{workspace}/submissions/{submission}/accept", tag = "drafts", request_body = Option<Accept>,
    params(("workspace" = String, Path, description = "The workspace"), ("submission" = String, Path, description = "The submission")),
    responses((status = 200, description = "It was applied", body = ref("#/components/schemas/SubmissionView"))),
)]
pub(crate) async fn accept(
    State(app): State<App>,
    Path(names): Path<(String, String)>,
    Sent { body, .. }: Sent<Accept>,
) -> Result<Json<SubmissionView>, Problem> {
    let force = if body.force { Force::Yes } else { Force::No };
    let failed = |error| match error {
        DraftError::Conflict(_) => Problem::from(error).hint("`force` puts the draft in its place"),
        error => undecided(error),
    };
    let accept = move |desk: Arc<DraftService>, id| async move {
        desk.accept(PERSON, id, force).await.map_err(failed)
    };
    decide(&app, names, accept).await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Reject {
    /// What the worker is told
    reason: String,
}

/// Reject a submission
///
/// The worker is told why.
#[utoipa::path(
    post, path = "/api/workspaces/{workspace}/submissions/{submission}/reject", tag = "drafts", request_body = Option<Reject>,
    params(("workspace" = String, Path, description = "The workspace"), ("submission" = String, Path, description = "The submission")),
    responses((status = 200, description = "It was sent back", body = ref("#/components/schemas/SubmissionView"))),
)]
pub(crate) async fn reject(
    State(app): State<App>,
    Path(names): Path<(String, String)>,
    Sent { body, .. }: Sent<Reject>,
) -> Result<Json<SubmissionView>, Problem> {
    let reject = |desk: Arc<DraftService>, id| async move {
        desk.reject(PERSON, id, &body.reason).await.map_err(undecided)
    };
    decide(&app, names, reject).await
}

/// Take back what a submission changed
#[utoipa::path(
    post, path = "/api/workspaces/{workspace}/submissions/{submission}/undo", tag = "drafts",
    params(("workspace" = String, Path, description = "The workspace"), ("submission" = String, Path, description = "The submission")),
    responses((status = 200, description = "The files are as they were", body = ref("#/components/schemas/SubmissionView"))),
)]
pub(crate) async fn undo(
    State(app): State<App>,
    Path(names): Path<(String, String)>,
) -> Result<Json<SubmissionView>, Problem> {
    let undo =
        |desk: Arc<DraftService>, id| async move { desk.undo(PERSON, id).await.map_err(undecided) };
    decide(&app, names, undo).await
}

/// It is there, and what is asked for does not fit how it stands.
fn undecided(error: DraftError) -> Problem {
    match error {
        DraftError::Wrong(_) | DraftError::Refused(_) => Problem::conflict(error.to_string()),
        error => error.into(),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Entries {
    /// With ids above this one: `next` of the page before
    after: Option<u64>,
    /// Only what concerns this task
    task: Option<String>,
    /// Only paths that were refused
    refused: Option<bool>,
    /// 200, if nothing is said
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Entry of the log, chained to the one before. What it is about is in `detail`, by its `action`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes entries, which are answered as the store has them")]
struct LogEntry {
    #[serde(flatten)]
    entry: AuditEntry,
    #[serde(flatten)]
    step: Step,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AuditLog {
    #[schemars(with = "Vec<LogEntry>")]
    entries: Vec<AuditEntry>,
    /// Where the next page begins; null on the last
    next: Option<u64>,
}

/// Read the log of a workspace
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/audit", tag = "drafts",
    params(("workspace" = String, Path, description = "The workspace"), Entries),
    responses((status = 200, description = "The oldest first", body = AuditLog)),
)]
pub(crate) async fn audit(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(query): Query<Entries>,
) -> Result<Json<AuditLog>, Problem> {
    let limit = page::limit(query.limit, 200, 1000)?;
    let desk = app.desk(&name)?;
    let (after, refused) = (query.after.unwrap_or_default(), query.refused == Some(true));
    let mut entries = match (&query.task, refused) {
        (None, false) => {
            let subject = Some(desk.subject().to_owned());
            app.store.audit_log(AuditQuery { subject, after, limit: limit + 1 }).await?
        }
        (task, refused) => {
            let mut entries = audit::about(desk.entries().await?, task.as_deref(), refused);
            entries.retain(|entry| entry.id > after);
            entries
        }
    };
    let next = page::cut(&mut entries, limit, |entry| entry.id);
    Ok(Json(AuditLog { entries, next }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Since {
    /// `head` of an earlier look: it must still be in the log
    since: Option<String>,
}

/// See whether the log is whole
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/audit/verify", tag = "drafts",
    params(("workspace" = String, Path, description = "The workspace"), Since),
    responses((status = 200, description = "Of the store and of the workspace", body = ref("#/components/schemas/LogCheck"))),
)]
pub(crate) async fn verify(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(query): Query<Since>,
) -> Result<Json<Whole>, Problem> {
    let desk = app.desk(&name)?;
    Ok(Json(audit::look(&*app.store, desk, query.since.as_deref()).await?))
}

/// Follow what happens to drafts
///
/// A stream of server-sent events: the entries of the workspace's log, by the names of the messages that workers get
/// where there is one. Without an id to begin after it begins now.
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/events", tag = "events", operation_id = "of_workspace",
    params(("workspace" = String, Path, description = "The workspace"), After,
           ("Last-Event-ID" = Option<u64>, Header, description = "The last event that was seen")),
    responses((status = 200, description = "Events as they happen", content_type = "text/event-stream", body = String)),
)]
pub(crate) async fn events(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let desk = app.desk(&name)?;
    let newest = app.store.audit_head().await?;
    let after = last_seen(&headers)?.or(query.after).unwrap_or(newest);
    let book = desk.state().await?;
    let waiting: Vec<&Submission> =
        book.submissions.values().filter(|one| one.stage == Stage::Escalated).collect();
    let snapshot = json!({"workspace": name, "tools_on": !book.off, "waiting": waiting,
                          "drafts": book.drafts.values().collect::<Vec<_>>(), "last_event_id": newest});
    let about = Some([desk.subject().to_owned()].into());
    let follower = app.audit.follow(about, after);
    Ok(Stream::new(app.clone(), follower, snapshot).into_response())
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Clean {
    /// What was settled longer ago than this; as the settings say, if nothing
    #[schema(maximum = 36500)]
    older_than_days: Option<u32>,
}

/// Put old drafts away
///
/// What settled submissions were before and after is deleted for good.
#[utoipa::path(
    post, path = "/api/workspaces/{workspace}/clean", tag = "drafts", request_body = Option<Clean>,
    params(("workspace" = String, Path, description = "The workspace")),
    responses((status = 200, description = "What was put away", body = ref("#/components/schemas/Cleared"))),
)]
pub(crate) async fn clean(
    State(app): State<App>,
    Path(name): Path<String>,
    Sent { body, .. }: Sent<Clean>,
) -> Result<Json<Cleared>, Problem> {
    let desk = app.desk(&name)?;
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let keep = match body.older_than_days {
        Some(days) if days > 36500 => {
            return Err(Problem::unusable("`older_than_days` is at most 36500"));
        }
        Some(days) => day * days,
        None => keep(&app.services.settings),
    };
    let own = desk.clone();
    let sweep = app.docket.spawn(async move { own.sweep(PERSON, unix_millis(), keep).await });
    Ok(Json(sweep.await??))
}
