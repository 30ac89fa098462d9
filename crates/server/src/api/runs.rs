//! Handlers that list, show, cancel, export and remove runs.

use std::collections::BTreeMap;

use assize_config::REHEARSAL_LABEL;
use assize_consult::JudgeScore;
use assize_run::{
    BudgetTotals, EventQuery, Lease, LeaseHolder, Run, RunEvent, RunFilter, RunId, RunKind,
    RunState, RunStatus, answered, cancel as cancel_run, inherited,
};
use assize_service::reading;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::IntoParams;
use utoipa::openapi::Ref;

use super::files::attachment;
use super::page;
use crate::extract::{Path, Query};
use crate::kinds::{ContentByKind, Transcripts};
use crate::problem::Problem;
use crate::{App, kinds};

/// Maximum and default number of runs per page.
const MAX_LIMIT: usize = 200;
const DEFAULT_LIMIT: usize = 50;

/// Usage and cost of model calls.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct UsageView {
    calls: u64,
    input_tokens: u64,
    cached_input_tokens: u64,
    output_tokens: u64,
    /// In dollars; null if the price is unknown
    cost_usd: Option<f64>,
    /// `local` if the model ran on the user's own server at no cost
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_note: Option<&'static str>,
    /// Calls in flight when an earlier lease holder died: they are repeated, and the provider may have charged for them
    lost_calls: u64,
    /// Maximum cost of the lost calls, in dollars
    lost_usd: f64,
}

impl From<BudgetTotals> for UsageView {
    fn from(totals: BudgetTotals) -> UsageView {
        UsageView {
            calls: totals.calls,
            input_tokens: totals.usage.input,
            cached_input_tokens: totals.usage.cached_input,
            output_tokens: totals.usage.output,
            cost_usd: totals.known_cost().known().map(|money| money.dollars()),
            cost_note: totals.known_cost().note(),
            lost_calls: totals.lost_calls,
            lost_usd: totals.lost_cost.dollars(),
        }
    }
}

/// Summary of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunSummary {
    id: String,
    kind: RunKind,
    title: String,
    status: RunState,
    parent: Option<String>,
    /// Milliseconds since 1970
    created: u64,
    updated: u64,
    /// Why the run failed or was stopped
    error: Option<String>,
    /// Notice to show with the run, such as that no model was used
    label: Option<&'static str>,
}

impl RunSummary {
    fn new(run: &Run) -> RunSummary {
        RunSummary {
            id: run.id.to_string(),
            kind: run.kind,
            title: run.title.clone(),
            status: RunState::of(run),
            parent: run.parent.as_ref().map(RunId::to_string),
            created: run.created,
            updated: run.updated,
            error: run.error.clone(),
            label: reading::is_rehearsal(run).then_some(REHEARSAL_LABEL),
        }
    }
}

/// Summary of a run with its input and result.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunDetails {
    #[serde(flatten)]
    summary: RunSummary,
    #[serde(flatten)]
    #[schemars(with = "ContentByKind")]
    content: Content,
    /// Whether this server executes the run
    held_here: bool,
}

/// Input and result of a run, as stored.
#[derive(Debug, Serialize)]
struct Content {
    input: Value,
    result: Option<Value>,
}

impl RunDetails {
    pub(crate) fn new(app: &App, run: &Run) -> RunDetails {
        RunDetails {
            summary: RunSummary::new(run),
            content: Content { input: kinds::input(app, run), result: run.result.clone() },
            held_here: run.status == RunStatus::Running && app.docket.holds(&run.id),
        }
    }
}

/// Current state of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunView {
    #[serde(flatten)]
    shown: RunDetails,
    /// Usage so far, including attempts before a resume
    spent: UsageView,
}

impl RunView {
    pub(crate) async fn new(app: &App, run: &Run) -> Result<RunView, Problem> {
        Ok(RunView { shown: RunDetails::new(app, run), spent: app.spent(run).await? })
    }

    /// View of a run whose usage is unknown: all counters are 0.
    pub(crate) fn unspent(app: &App, run: &Run) -> RunView {
        RunView { shown: RunDetails::new(app, run), spent: BudgetTotals::default().into() }
    }
}

impl App {
    /// Loads a run by its id.
    pub(crate) async fn run(&self, id: &str) -> Result<Run, Problem> {
        let id: RunId = id.parse().map_err(|_| Problem::not_found("unknown run"))?;
        Ok(self.store.run(&id).await?)
    }

    /// Usage of a run, without the answers that it inherited from the run it was forked from.
    pub(crate) async fn spent(&self, run: &Run) -> Result<UsageView, Problem> {
        let own = self.store.records(&run.id).await?;
        let inherited = inherited(&*self.store, run).await?;
        Ok(answered(&own, &inherited).into())
    }

    /// Refuses to change a run that is being executed; `take_over` ignores the lease of another process.
    pub(crate) fn refuse_held(&self, run: &Run, take_over: bool) -> Result<(), Problem> {
        if self.docket.holds(&run.id) {
            let problem = Problem::conflict(format!("`{}` is running on this server", run.id));
            return Err(problem.hint("cancel it first"));
        }
        match LeaseHolder::of(run) {
            Some(holder) if !take_over => {
                let problem = Problem::conflict(format!("{holder} is executing `{}`", run.id));
                Err(problem.hint("wait for it, cancel the run, or resume it with `take_over`"))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunListQuery {
    #[param(schema_with = run_kind)]
    kind: Option<RunKind>,
    #[param(schema_with = run_state)]
    status: Option<RunState>,
    /// Return only runs whose title contains this text (ignores case)
    title: Option<String>,
    /// Return only runs before this cursor: `next` of the previous page
    before: Option<u64>,
    /// Page size; default: 50
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

fn run_kind() -> Ref {
    Ref::from_schema_name(RunKind::schema_name())
}

fn run_state() -> Ref {
    Ref::from_schema_name(RunState::schema_name())
}

/// Page of runs, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunPage {
    runs: Vec<RunSummary>,
    /// Cursor of the next page; null on the last page
    next: Option<u64>,
}

/// List runs
#[utoipa::path(
    get, path = "/api/runs", tag = "runs", params(RunListQuery),
    responses((status = 200, description = "Runs, newest first", body = RunPage)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(query): Query<RunListQuery>,
) -> Result<Json<RunPage>, Problem> {
    let limit = page::limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT)?;
    let mut before = query.before;
    let mut runs: Vec<Run> = Vec::new();
    // The store does not know which lease holders are alive, so states are filtered here until the page is full.
    loop {
        let filter = RunFilter {
            kind: query.kind,
            status: query.status.map(RunState::status),
            title: query.title.clone(),
            before,
            limit: limit + 1,
            ..RunFilter::default()
        };
        let found = app.store.runs(filter).await?;
        let all = found.len() <= limit;
        before = found.last().map(|run| run.number);
        let matches = |run: &Run| query.status.is_none_or(|state| RunState::of(run) == state);
        runs.extend(found.into_iter().filter(matches));
        if all || runs.len() > limit {
            break;
        }
    }
    let next = page::cut(&mut runs, limit, |run| run.number);
    Ok(Json(RunPage { runs: runs.iter().map(RunSummary::new).collect(), next }))
}

/// Show a run
#[utoipa::path(
    get, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path, description = "Id of the run")),
    responses((status = 200, description = "Current state of the run", body = RunView)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<RunView>, Problem> {
    let run = app.run(&id).await?;
    Ok(Json(RunView::new(&app, &run).await?))
}

/// Cancel a run
///
/// Also works if another process executes the run; it stops before its next step. A cancelled run can be resumed.
#[utoipa::path(
    post, path = "/api/runs/{id}/cancel", tag = "runs", params(("id" = String, Path, description = "Id of the run")),
    responses((status = 202, description = "The run is being cancelled", body = RunView)),
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    if run.status != RunStatus::Running {
        let detail = format!("`{}` is not running: it is {}", run.id, RunState::of(&run).name());
        return Err(Problem::conflict(detail));
    }
    if !app.docket.cancel(&run.id) {
        cancel_run(&*app.store, &run).await?;
    }
    let view = RunView::new(&app, &app.run(&id).await?).await?;
    Ok((StatusCode::ACCEPTED, Json(view)).into_response())
}

/// Remove a run with its events, records and files
#[utoipa::path(
    delete, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path, description = "Id of the run")),
    responses((status = 204, description = "The run was removed")),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let run = app.run(&id).await?;
    app.refuse_held(&run, false)?;
    app.store.remove_run(&Lease { run: run.id, epoch: run.epoch }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Export everything stored about a run
#[utoipa::path(
    get, path = "/api/runs/{id}/export", tag = "runs", params(("id" = String, Path, description = "Id of the run")),
    responses((status = 200, description = "One JSON document", body = Object)),
)]
pub(crate) async fn export(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    let mut whole = reading::export(&*app.store, &run).await?;
    whole["run"]["input"] = kinds::input(&app, &run);
    let bytes = serde_json::to_vec_pretty(&whole).unwrap_or_default();
    Ok(attachment(&format!("{}.json", run.id), bytes))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TranscriptQuery {
    /// Consultation only: return only the debate of this move, such as `m3`
    r#move: Option<String>,
}

/// Show the transcripts of a run
///
/// Debates and consultations have conversations, code runs have attempts with code and output, other runs have records.
#[utoipa::path(
    get, path = "/api/runs/{id}/transcripts", tag = "runs", params(("id" = String, Path, description = "Id of the run"), TranscriptQuery),
    responses((status = 200, description = "Transcripts so far", body = Transcripts)),
)]
pub(crate) async fn transcripts(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(of): Query<TranscriptQuery>,
) -> Result<Json<Transcripts>, Problem> {
    let run = app.run(&id).await?;
    let records = app.store.records(&run.id).await?;
    Ok(Json(Transcripts::new(&run, &records, of.r#move.as_deref())))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Scores {
    /// Final scores; empty until the run is done
    scores: Vec<Score>,
    /// Data of the `sandbox_scored` events, until the run is done
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    so_far: Vec<Value>,
}

/// Scores of one move. The transcripts have the reasons.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Score {
    move_id: String,
    ticker: Option<String>,
    total_score: u32,
    out_of: u32,
    rounds: u32,
    /// Names of the judges, by role
    agents: BTreeMap<String, String>,
    /// Scores, by role of the judge
    #[schemars(with = "BTreeMap<String, JudgeScore>")]
    scores_by_agent: BTreeMap<String, Value>,
    /// Scores before the debate, if `blind_scores` was requested
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, JudgeScore>")]
    blind_scores: BTreeMap<String, Value>,
}

/// Show the scores of a debate or of the moves of a consultation
#[utoipa::path(
    get, path = "/api/runs/{id}/scores", tag = "runs", params(("id" = String, Path, description = "Id of the run")),
    responses((status = 200, description = "Scores, by move and judge", body = Scores)),
)]
pub(crate) async fn scores(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Scores>, Problem> {
    let run = app.run(&id).await?;
    if let Some(scores) = kinds::scores(&run)? {
        let scores = serde_json::from_value(scores).map_err(|error| {
            Problem::conflict(format!("scores were written by another version: {error}"))
        })?;
        return Ok(Json(Scores { scores, so_far: Vec::new() }));
    }
    let events = app.store.events(EventQuery::of_run(&run)).await?.into_iter();
    let scored =
        events.filter(|event| event.name == RunEvent::SANDBOX_SCORED).map(|event| event.payload);
    Ok(Json(Scores { scores: Vec::new(), so_far: scored.collect() }))
}
