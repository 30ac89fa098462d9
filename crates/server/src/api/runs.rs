//! Handlers that list, show, cancel, export and remove runs, and that show their transcripts and scores.

use std::collections::BTreeMap;

use assize_config::REHEARSAL_LABEL;
use assize_consult::JudgeScore;
use assize_run::{
    BudgetTotals, EventQuery, Lease, LeaseHolder, Run, RunEvent, RunFilter, RunId, RunKind,
    RunState, RunStatus, cancel as cancel_run, parent_records, totals_of_answered_calls,
};
use assize_service::run_json;
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
use super::pagination;
use crate::extract::{Path, Query};
use crate::kinds::{ContentByKind, Transcripts};
use crate::problem::Problem;
use crate::{App, kinds};

/// Maximum number of runs per page of the list.
const MAX_LIMIT: usize = 200;

/// Number of runs per page of the list if the client does not set a limit.
const DEFAULT_LIMIT: usize = 50;

/// Number, token usage and cost of the model calls of a run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct UsageView {
    calls: u64,
    input_tokens: u64,
    cached_input_tokens: u64,
    output_tokens: u64,
    /// Cost of the model calls in dollars; null if the price of the model is unknown
    cost_usd: Option<f64>,
    /// `local` if the cost is zero because the model ran on the user's own server; null for other models
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_note: Option<&'static str>,
    /// Number of model calls that were in flight when the process that executed the run died. The calls are repeated,
    /// and the provider may have charged for the lost calls
    lost_calls: u64,
    /// Upper bound of what the calls counted in `lost_calls` cost, in dollars
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
    /// Time of creation, in milliseconds since 1970
    created: u64,
    /// Time of the last change, in milliseconds since 1970
    updated: u64,
    /// Why the run failed or was stopped; null otherwise
    error: Option<String>,
    /// Notice that clients show with a run that used the rehearsal model; null for other runs
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
            label: run_json::is_rehearsal(run).then_some(REHEARSAL_LABEL),
        }
    }
}

/// Summary of a run, with the run's input and result.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunDetails {
    #[serde(flatten)]
    summary: RunSummary,
    #[serde(flatten)]
    #[schemars(with = "ContentByKind")]
    content: Content,
    /// Whether this server process, and not another process, is executing the run
    executed_here: bool,
}

/// Input and result of a run, in the form in which they are stored.
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
            executed_here: run.status == RunStatus::Running && app.supervisor.is_active(&run.id),
        }
    }
}

/// Current state of a run, with the usage of its model calls.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunView {
    #[serde(flatten)]
    shown: RunDetails,
    /// Usage of the model calls so far, including the calls made before the run was resumed
    spent: UsageView,
}

impl RunView {
    pub(crate) async fn new(app: &App, run: &Run) -> Result<RunView, Problem> {
        Ok(RunView { shown: RunDetails::new(app, run), spent: app.spent(run).await? })
    }

    /// Builds the view of a run whose usage cannot be read from the store; all counters of the usage are 0.
    pub(crate) fn unspent(app: &App, run: &Run) -> RunView {
        RunView { shown: RunDetails::new(app, run), spent: BudgetTotals::default().into() }
    }
}

impl App {
    /// Loads a run from the store by its id; an unknown id is a 404 problem.
    pub(crate) async fn run(&self, id: &str) -> Result<Run, Problem> {
        let unknown = || Problem::not_found("unknown run: no stored run has this id");
        let id: RunId = id.parse().map_err(|_| unknown())?;
        Ok(self.store.run(&id).await?)
    }

    /// Usage of the model calls of a run. Answers that a fork reuses from its parent run are not counted.
    pub(crate) async fn spent(&self, run: &Run) -> Result<UsageView, Problem> {
        let own = self.store.records(&run.id).await?;
        let inherited = parent_records(&*self.store, run).await?;
        Ok(totals_of_answered_calls(&own, &inherited).into())
    }

    /// Returns an error if this server is executing the run, or if another process holds the lease of the run. With
    /// `take_over`, the lease of another process is ignored.
    pub(crate) fn refuse_held(&self, run: &Run, take_over: bool) -> Result<(), Problem> {
        if self.supervisor.is_active(&run.id) {
            let problem = Problem::conflict(format!("`{}` is running on this server", run.id));
            return Err(problem.hint("cancel the run first"));
        }
        match LeaseHolder::of(run) {
            Some(holder) if !take_over => {
                let problem = Problem::conflict(format!("{holder} is executing `{}`", run.id));
                let hint = "wait until the run ends, cancel it, or resume it with `take_over`";
                Err(problem.hint(hint))
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
    /// Return only runs whose title contains this text; upper and lower case are not distinguished
    title: Option<String>,
    /// Return only runs before this cursor: `next` of the previous page
    before: Option<u64>,
    /// Maximum number of runs per page; default: 50
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
    let limit = pagination::limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT)?;
    let mut before = query.before;
    let mut runs: Vec<Run> = Vec::new();
    // The state of a run depends on whether its lease holder is alive, which the store cannot check. So the states are
    // filtered here, and the loop reads from the store until the page is full.
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
    let next = pagination::cut(&mut runs, limit, |run| run.number);
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
/// If another process executes the run, that process stops the run before the next step. A cancelled run can be
/// resumed.
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
        let status = RunState::of(&run).name();
        let detail =
            format!("cannot cancel `{}`: the status of the run is {status}, not running", run.id);
        return Err(Problem::conflict(detail));
    }
    if !app.supervisor.cancel(&run.id) {
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
    responses((status = 200, description = "JSON document with the run, its files, records and events", body = Object)),
)]
pub(crate) async fn export(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    let mut whole = run_json::export(&*app.store, &run).await?;
    whole["run"]["input"] = kinds::input(&app, &run);
    let bytes = serde_json::to_vec_pretty(&whole).unwrap_or_default();
    Ok(attachment(&format!("{}.json", run.id), bytes))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TranscriptQuery {
    /// Return only the debate on the proposed business move with this id, such as `m3`; only for a consultation
    r#move: Option<String>,
}

/// Show the transcripts of a run
///
/// The transcripts of a debate or consultation are conversations. The transcripts of a code run are attempts, with code
/// and output. The transcripts of any other run are its journal records.
#[utoipa::path(
    get, path = "/api/runs/{id}/transcripts", tag = "runs", params(("id" = String, Path, description = "Id of the run"), TranscriptQuery),
    responses((status = 200, description = "Transcripts written so far", body = Transcripts)),
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
    /// Final scores, one entry per proposed business move; empty until the run is done
    scores: Vec<Score>,
    /// Scores of the debates that have ended so far: the data of their `sandbox_scored` events; empty once the run is
    /// done
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    so_far: Vec<Value>,
}

/// Scores of one proposed business move. The transcripts of the debate contain the reasons for the scores.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Score {
    move_id: String,
    ticker: Option<String>,
    total_score: u32,
    out_of: u32,
    rounds: u32,
    /// Names of the judges, by role such as `D1`
    agents: BTreeMap<String, String>,
    /// Final score that each judge gave, by the judge's role
    #[schemars(with = "BTreeMap<String, JudgeScore>")]
    scores_by_agent: BTreeMap<String, Value>,
    /// Score that each judge gave before the debate, by the judge's role; empty unless `blind_scores` was requested
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, JudgeScore>")]
    blind_scores: BTreeMap<String, Value>,
}

/// Show the scores of a debate or of the moves of a consultation
#[utoipa::path(
    get, path = "/api/runs/{id}/scores", tag = "runs", params(("id" = String, Path, description = "Id of the run")),
    responses((status = 200, description = "Scores of each proposed business move by each judge", body = Scores)),
)]
pub(crate) async fn scores(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Scores>, Problem> {
    let run = app.run(&id).await?;
    if let Some(scores) = kinds::scores(&run)? {
        let scores = serde_json::from_value(scores).map_err(|error| {
            Problem::conflict(format!(
                "cannot read the scores, because a different version of assize wrote the scores: \
                 {error}"
            ))
        })?;
        return Ok(Json(Scores { scores, so_far: Vec::new() }));
    }
    let events = app.store.events(EventQuery::of_run(&run)).await?.into_iter();
    let scored =
        events.filter(|event| event.name == RunEvent::SANDBOX_SCORED).map(|event| event.payload);
    Ok(Json(Scores { scores: Vec::new(), so_far: scored.collect() }))
}
