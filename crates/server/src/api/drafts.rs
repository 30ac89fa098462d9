//! Handlers for workspaces: drafts, submissions, decisions of reviewers, and the audit log.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use assize_draft::audit::{self, LogCheck};
use assize_draft::{
    Diff, DraftError, DraftOptions, DraftService, DraftStep, Force, OpenDraft, Submission,
    SubmissionStage, SubmissionView, SweepResult, open_service, policy, retention, verifier,
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

use super::pagination;
use crate::App;
use crate::events::{AfterQuery, EventStream, last_seen};
use crate::extract::{JsonBody, Path, Query};
use crate::problem::Problem;

/// Name of the actor in audit-log entries about decisions that were made through the HTTP API.
const HTTP_USER: &str = "user over HTTP";

/// Folders that the operator allowed with `assize serve --root`, each with its draft service.
#[derive(Debug)]
pub(crate) struct Workspaces {
    folders: BTreeMap<String, PathBuf>,
    services: BTreeMap<String, Arc<DraftService>>,
}

impl Workspaces {
    pub(crate) fn open(
        folders: BTreeMap<String, PathBuf>,
        services: &Services,
        store: &Arc<dyn Store>,
    ) -> Result<Workspaces, Failure> {
        let mut desks = BTreeMap::new();
        for (name, folder) in &folders {
            let options = DraftOptions {
                policy: policy(&services.settings)?,
                verifier: Some(verifier(&services.sandboxes())),
                ..DraftOptions::default()
            };
            let service = open_service(folder, &services.environment, store.clone(), options)?;
            desks.insert(name.clone(), service);
        }
        Ok(Workspaces { folders, services: desks })
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

    /// Returns the name that the operator gave to an allowed folder.
    pub(crate) fn name_of(&self, folder: &FilePath) -> Option<&str> {
        let mut all = self.folders.iter();
        all.find(|(_, known)| *known == folder).map(|(name, _)| name.as_str())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Arc<DraftService>)> {
        self.services.iter().map(|(name, service)| (name.as_str(), service))
    }
}

impl App {
    /// Returns the draft service of the workspace with this name.
    pub(crate) fn draft_service(&self, name: &str) -> Result<&Arc<DraftService>, Problem> {
        self.root(name)?;
        let missing = || Problem::not_found("unknown workspace: no workspace has this name");
        self.workspaces.services.get(name).ok_or_else(missing)
    }
}

/// Status of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceInfo {
    name: String,
    /// Whether the draft tools are enabled
    tools_on: bool,
    /// Number of submissions that wait for a reviewer
    waiting: usize,
    /// Number of drafts that are not submitted yet
    open_drafts: usize,
    /// Why agents cannot work in this workspace, such as an invalid file `_handoff/TASK_CONTRACT.json`; null if they
    /// can
    blocked: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceList {
    workspaces: Vec<WorkspaceInfo>,
}

/// List workspaces
#[utoipa::path(
    get, path = "/api/workspaces", tag = "drafts",
    responses((status = 200, description = "Folders allowed with `assize serve --root`", body = WorkspaceList)),
)]
pub(crate) async fn workspaces(State(app): State<App>) -> Result<Json<WorkspaceList>, Problem> {
    let mut workspaces = Vec::new();
    for (name, service) in app.workspaces.all() {
        let state = service.state().await?;
        let waits = |one: &&Submission| one.stage == SubmissionStage::Escalated;
        workspaces.push(WorkspaceInfo {
            name: name.to_owned(),
            tools_on: !state.tools_off,
            waiting: state.submissions.values().filter(waits).count(),
            open_drafts: state.drafts.values().filter(|draft| draft.submission.is_none()).count(),
            blocked: service.contract().err().map(|error| error.to_string()),
        });
    }
    Ok(Json(WorkspaceList { workspaces }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolsSwitch {
    on: bool,
}

/// Enable or disable the draft tools of a workspace
#[utoipa::path(
    put, path = "/api/workspaces/{workspace}/tools", tag = "drafts", request_body = ToolsSwitch,
    params(("workspace" = String, Path, description = "Name of the workspace")),
    responses((status = 204, description = "The tools were enabled or disabled")),
)]
pub(crate) async fn switch(
    State(app): State<App>,
    Path(name): Path<String>,
    JsonBody { body, .. }: JsonBody<ToolsSwitch>,
) -> Result<StatusCode, Problem> {
    let own = app.draft_service(&name)?.clone();
    app.supervisor.spawn(async move { own.switch(HTTP_USER, body.on).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenDrafts {
    drafts: Vec<OpenDraft>,
}

/// List the drafts that are in progress or in an undecided submission
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/drafts", tag = "drafts",
    params(("workspace" = String, Path, description = "Name of the workspace")),
    responses((status = 200, description = "Drafts, sorted by name", body = OpenDrafts)),
)]
pub(crate) async fn open_drafts(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<OpenDrafts>, Problem> {
    let state = app.draft_service(&name)?.state().await?;
    Ok(Json(OpenDrafts { drafts: state.drafts.into_values().collect() }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DraftView {
    draft: OpenDraft,
    content: String,
    /// Unified diff of the draft against the file as it was when the draft was created
    diff: String,
}

/// Show a draft with its diff
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/drafts/{draft}", tag = "drafts",
    params(("workspace" = String, Path, description = "Name of the workspace"), ("draft" = String, Path, description = "Name of the draft")),
    responses((status = 200, description = "Current state of the draft", body = DraftView)),
)]
pub(crate) async fn draft(
    State(app): State<App>,
    Path((name, draft)): Path<(String, String)>,
) -> Result<Json<DraftView>, Problem> {
    let service = app.draft_service(&name)?.clone();
    let found = service.state().await?.drafts.get(&draft).cloned();
    let unknown = || Problem::not_found("unknown draft: no open draft has this name");
    let draft = found.ok_or_else(unknown)?;
    spawn_blocking(move || {
        let base =
            draft.before.map(|hash| service.stored_content(hash)).transpose()?.unwrap_or_default();
        let bytes = service.draft(&draft.name)?;
        let (base, content) = (String::from_utf8_lossy(&base), String::from_utf8_lossy(&bytes));
        let diff = Diff::unified(&draft.path, &base, &content);
        Ok(Json(DraftView { content: content.into_owned(), diff, draft }))
    })
    .await?
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SubmissionQuery {
    /// Include submissions that are accepted, rejected or undone
    all: Option<bool>,
    /// Return only submissions before this cursor: `next` of the previous page
    before: Option<u64>,
    /// Maximum number of submissions per page; default: 50
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SubmissionList {
    submissions: Vec<Submission>,
    /// Cursor of the next page; null on the last page
    next: Option<u64>,
}

/// List submissions
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/submissions", tag = "drafts",
    params(("workspace" = String, Path, description = "Name of the workspace"), SubmissionQuery),
    responses((status = 200, description = "Submissions, newest first", body = SubmissionList)),
)]
pub(crate) async fn submissions(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(which): Query<SubmissionQuery>,
) -> Result<Json<SubmissionList>, Problem> {
    let limit = pagination::limit(which.limit, 50, 200)?;
    let state = app.draft_service(&name)?.state().await?;
    let settled = |stage| {
        matches!(
            stage,
            SubmissionStage::Accepted | SubmissionStage::Rejected | SubmissionStage::Undone
        )
    };
    let matches = |one: &Submission| {
        which.before.is_none_or(|before| one.id < before)
            && (which.all == Some(true) || !settled(one.stage))
    };
    let all = state.submissions.into_values().rev();
    let mut found: Vec<Submission> = all.filter(matches).collect();
    let next = pagination::cut(&mut found, limit, |one| one.id);
    Ok(Json(SubmissionList { submissions: found, next }))
}

/// Finds a submission by its number, or by the message id that the agent received for it (`msg_12`).
async fn find(service: &DraftService, name: &str) -> Result<Submission, Problem> {
    let found = service.state().await?.submission_named(name).cloned();
    found.ok_or_else(|| Problem::not_found("unknown submission: no submission has this id"))
}

async fn shown(service: &Arc<DraftService>, name: &str) -> Result<Json<SubmissionView>, Problem> {
    let (submission, service) = (find(service, name).await?, service.clone());
    // In a blocking task: computing a large diff takes a while.
    let view = spawn_blocking(move || SubmissionView::new(&service, submission)).await?;
    Ok(Json(view))
}

/// Executes a reviewer's decision and returns the submission. The decision completes even if the client disconnects.
async fn decide<F>(
    app: &App,
    (workspace, name): (String, String),
    decision: impl FnOnce(Arc<DraftService>, u64) -> F,
) -> Result<Json<SubmissionView>, Problem>
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let service = app.draft_service(&workspace)?;
    let id = find(service, &name).await?.id;
    app.supervisor.spawn(decision(service.clone(), id)).await??;
    shown(service, &name).await
}

/// Show a submission with its diffs and the reasons for the decision on it
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/submissions/{submission}", tag = "drafts",
    params(("workspace" = String, Path, description = "Name of the workspace"), ("submission" = String, Path, description = "Number or message id of the submission")),
    responses((status = 200, description = "Submission with a diff of each file", body = ref("#/components/schemas/SubmissionView"))),
)]
pub(crate) async fn submission(
    State(app): State<App>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<SubmissionView>, Problem> {
    shown(app.draft_service(&name)?, &id).await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AcceptBody {
    /// Overwrite files that have changed in the workspace since the draft was created
    force: bool,
}

/// Accept a submission
///
/// Applies the changes of the submission to the files of the workspace.
#[utoipa::path(
    post, path = "/api/workspaces/{workspace}/submissions/{submission}/accept", tag = "drafts", request_body = Option<AcceptBody>,
    params(("workspace" = String, Path, description = "Name of the workspace"), ("submission" = String, Path, description = "Number or message id of the submission")),
    responses((status = 200, description = "The submission was applied", body = ref("#/components/schemas/SubmissionView"))),
)]
pub(crate) async fn accept(
    State(app): State<App>,
    Path(names): Path<(String, String)>,
    JsonBody { body, .. }: JsonBody<AcceptBody>,
) -> Result<Json<SubmissionView>, Problem> {
    let force = if body.force { Force::Yes } else { Force::No };
    let failed = |error| match error {
        DraftError::Conflict(_) => Problem::from(error).hint(
            "to overwrite the file in the workspace, repeat the request with `\"force\": true`",
        ),
        error => decision_problem(error),
    };
    let accept = move |service: Arc<DraftService>, id| async move {
        service.accept(HTTP_USER, id, force).await.map_err(failed)
    };
    decide(&app, names, accept).await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RejectBody {
    /// Reason for the rejection, which the agent receives
    reason: String,
}

/// Reject a submission
///
/// The agent that wrote the draft receives the reason.
#[utoipa::path(
    post, path = "/api/workspaces/{workspace}/submissions/{submission}/reject", tag = "drafts", request_body = Option<RejectBody>,
    params(("workspace" = String, Path, description = "Name of the workspace"), ("submission" = String, Path, description = "Number or message id of the submission")),
    responses((status = 200, description = "The submission was rejected", body = ref("#/components/schemas/SubmissionView"))),
)]
pub(crate) async fn reject(
    State(app): State<App>,
    Path(names): Path<(String, String)>,
    JsonBody { body, .. }: JsonBody<RejectBody>,
) -> Result<Json<SubmissionView>, Problem> {
    let reject = |service: Arc<DraftService>, id| async move {
        service.reject(HTTP_USER, id, &body.reason).await.map_err(decision_problem)
    };
    decide(&app, names, reject).await
}

/// Undo the changes of an accepted submission
#[utoipa::path(
    post, path = "/api/workspaces/{workspace}/submissions/{submission}/undo", tag = "drafts",
    params(("workspace" = String, Path, description = "Name of the workspace"), ("submission" = String, Path, description = "Number or message id of the submission")),
    responses((status = 200, description = "The changes were undone: the files have the content that they had before the submission was accepted", body = ref("#/components/schemas/SubmissionView"))),
)]
pub(crate) async fn undo(
    State(app): State<App>,
    Path(names): Path<(String, String)>,
) -> Result<Json<SubmissionView>, Problem> {
    let undo = |service: Arc<DraftService>, id| async move {
        service.undo(HTTP_USER, id).await.map_err(decision_problem)
    };
    decide(&app, names, undo).await
}

/// Converts the error of a reviewer's decision to a problem. If the submission is in a stage that does not allow the
/// decision, for example because it was already rejected, the problem is a conflict.
fn decision_problem(error: DraftError) -> Problem {
    match error {
        DraftError::InvalidRequest(_) | DraftError::PathRefused(_) => {
            Problem::conflict(error.to_string())
        }
        error => error.into(),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditLogQuery {
    /// Return only entries after this cursor: `next` of the previous page
    after: Option<u64>,
    /// Return only entries about this task
    task: Option<String>,
    /// If true, return only entries about refused paths: an agent requested the path, and the gate refused the request
    refused: Option<bool>,
    /// Maximum number of entries per page; default: 200
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Entry of the audit log. Each entry contains the hash of the previous entry. The value of `action` determines the
/// fields of `detail`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "schema only: the server sends entries as stored")]
struct LogEntry {
    #[serde(flatten)]
    entry: AuditEntry,
    #[serde(flatten)]
    step: DraftStep,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AuditLog {
    #[schemars(with = "Vec<LogEntry>")]
    entries: Vec<AuditEntry>,
    /// Cursor of the next page; null on the last page
    next: Option<u64>,
}

/// Read the audit log of a workspace
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/audit", tag = "drafts",
    params(("workspace" = String, Path, description = "Name of the workspace"), AuditLogQuery),
    responses((status = 200, description = "Entries of the audit log, oldest first", body = AuditLog)),
)]
pub(crate) async fn audit(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(query): Query<AuditLogQuery>,
) -> Result<Json<AuditLog>, Problem> {
    let limit = pagination::limit(query.limit, 200, 1000)?;
    let service = app.draft_service(&name)?;
    let (after, refused) = (query.after.unwrap_or_default(), query.refused == Some(true));
    let mut entries = match (&query.task, refused) {
        (None, false) => {
            let subject = Some(service.subject().to_owned());
            app.store.audit_log(AuditQuery { subject, after, limit: limit + 1 }).await?
        }
        (task, refused) => {
            let mut entries =
                audit::filter_entries(service.entries().await?, task.as_deref(), refused);
            entries.retain(|entry| entry.id > after);
            entries
        }
    };
    let next = pagination::cut(&mut entries, limit, |entry| entry.id);
    Ok(Json(AuditLog { entries, next }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VerifyQuery {
    /// Id and hash of a log entry, as `ID:HASH`, from the field `head` of an earlier verification. If the log no longer
    /// contains this entry, the log is not intact
    since: Option<String>,
}

/// Verify the integrity of the audit log
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/audit/verify", tag = "drafts",
    params(("workspace" = String, Path, description = "Name of the workspace"), VerifyQuery),
    responses((status = 200, description = "Result of verifying the log in the store and the copy of the log in the workspace", body = ref("#/components/schemas/LogCheck"))),
)]
pub(crate) async fn verify(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(query): Query<VerifyQuery>,
) -> Result<Json<LogCheck>, Problem> {
    let service = app.draft_service(&name)?;
    Ok(Json(audit::check_log(&*app.store, service, query.since.as_deref()).await?))
}

/// Stream the events of a workspace
///
/// A stream of server-sent events, one for each entry of the workspace's audit log. If the agent or the reviewer
/// receives a message about the entry, the event has the name of the message, such as `DRAFT_READY`. Otherwise the
/// event has the name of the entry's action. If a request has neither `after` nor `Last-Event-ID`, only new entries are
/// sent.
#[utoipa::path(
    get, path = "/api/workspaces/{workspace}/events", tag = "events", operation_id = "of_workspace",
    params(("workspace" = String, Path, description = "Name of the workspace"), AfterQuery,
           ("Last-Event-ID" = Option<u64>, Header, description = "Id of the last event that the client received")),
    responses((status = 200, description = "Event stream", content_type = "text/event-stream", body = String)),
)]
pub(crate) async fn events(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(query): Query<AfterQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let service = app.draft_service(&name)?;
    let newest = app.store.audit_head().await?;
    // A larger id than the newest comes from another store and is ignored.
    let seen = last_seen(&headers)?.or(query.after).filter(|seen| *seen <= newest);
    let after = seen.unwrap_or(newest);
    let state = service.state().await?;
    let waiting: Vec<&Submission> =
        state.submissions.values().filter(|one| one.stage == SubmissionStage::Escalated).collect();
    let snapshot = json!({"workspace": name, "tools_on": !state.tools_off, "waiting": waiting,
                          "drafts": state.drafts.values().collect::<Vec<_>>(), "last_event_id": newest});
    let subjects = Some([service.subject().to_owned()].into());
    let follower = app.audit.subscribe(subjects, after);
    Ok(EventStream::new(app.clone(), follower, snapshot).into_response())
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CleanBody {
    /// Minimum age, in days, of the drafts and file versions to delete; default: the setting `draft.keep_days`
    #[schema(maximum = 36500)]
    older_than_days: Option<u32>,
}

/// Delete old drafts
///
/// Permanently deletes old drafts that were never submitted, and the stored file versions (before and after the change)
/// of submissions that were accepted, rejected or undone long ago.
#[utoipa::path(
    post, path = "/api/workspaces/{workspace}/clean", tag = "drafts", request_body = Option<CleanBody>,
    params(("workspace" = String, Path, description = "Name of the workspace")),
    responses((status = 200, description = "Numbers of deleted items, by type", body = ref("#/components/schemas/SweepResult"))),
)]
pub(crate) async fn clean(
    State(app): State<App>,
    Path(name): Path<String>,
    JsonBody { body, .. }: JsonBody<CleanBody>,
) -> Result<Json<SweepResult>, Problem> {
    let service = app.draft_service(&name)?;
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let keep = match body.older_than_days {
        Some(days) if days > 36500 => {
            return Err(Problem::unprocessable("`older_than_days` must be at most 36500"));
        }
        Some(days) => day * days,
        None => retention(&app.services.settings),
    };
    let own = service.clone();
    let sweep =
        app.supervisor.spawn(async move { own.sweep(HTTP_USER, unix_millis(), keep).await });
    Ok(Json(sweep.await??))
}
