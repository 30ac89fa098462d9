//! Runs: listed, shown, stopped, exported, removed.

use std::collections::BTreeMap;

use assize_config::REHEARSAL_LABEL;
use assize_consult::JudgeScore;
use assize_run::{
    EventQuery, Lease, LeaseHolder, Run, RunEvent, RunFilter, RunId, RunKind, RunState, RunStatus,
    Totals, answered, cancel as cancel_run, inherited,
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

/// The most runs of one page, and how many there are unless somebody says.
const MOST: usize = 200;
const USUAL: usize = 50;

/// What was spent.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Spent {
    calls: u64,
    input_tokens: u64,
    cached_input_tokens: u64,
    output_tokens: u64,
    /// In dollars; null where the price is not known
    cost_usd: Option<f64>,
    /// `local` where the user's own server answered for nothing
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_note: Option<&'static str>,
    /// Calls that whoever held it before had under way when they died: they are made again, and may have been paid for
    lost_calls: u64,
    /// What those cost at most
    lost_usd: f64,
}

impl From<Totals> for Spent {
    fn from(totals: Totals) -> Spent {
        Spent {
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

/// A run in a list.
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
    /// Why it ended, if it failed or was stopped
    error: Option<String>,
    /// What must be known of it, such as that no model was asked
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

/// A run with what it was begun with and came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shown {
    #[serde(flatten)]
    summary: RunSummary,
    #[serde(flatten)]
    #[schemars(with = "ContentByKind")]
    content: Content,
    /// Whether this server works on it
    held_here: bool,
}

/// Input and result of a run, as the store has them.
#[derive(Debug, Serialize)]
struct Content {
    input: Value,
    result: Option<Value>,
}

impl Shown {
    pub(crate) fn new(app: &App, run: &Run) -> Shown {
        Shown {
            summary: RunSummary::new(run),
            content: Content { input: kinds::input(app, run), result: run.result.clone() },
            held_here: run.status == RunStatus::Running && app.docket.holds(&run.id),
        }
    }
}

/// A run as it stands.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunView {
    #[serde(flatten)]
    shown: Shown,
    /// What its answers took so far, in all its lives
    spent: Spent,
}

impl RunView {
    pub(crate) async fn new(app: &App, run: &Run) -> Result<RunView, Problem> {
        Ok(RunView { shown: Shown::new(app, run), spent: app.spent(run).await? })
    }

    /// One of which nothing is known to have been spent.
    pub(crate) fn unspent(app: &App, run: &Run) -> RunView {
        RunView { shown: Shown::new(app, run), spent: Totals::default().into() }
    }
}

impl App {
    /// The run of that name.
    pub(crate) async fn run(&self, id: &str) -> Result<Run, Problem> {
        let id: RunId = id.parse().map_err(|_| Problem::not_found("there is no such run"))?;
        Ok(self.store.run(&id).await?)
    }

    /// What the answers took that a run got itself.
    pub(crate) async fn spent(&self, run: &Run) -> Result<Spent, Problem> {
        let own = self.store.records(&run.id).await?;
        let inherited = inherited(&*self.store, run).await?;
        Ok(answered(&own, &inherited).into())
    }

    /// Refuses to touch a run that somebody works on.
    pub(crate) fn refuse_held(&self, run: &Run, all_the_same: bool) -> Result<(), Problem> {
        if self.docket.holds(&run.id) {
            let problem = Problem::conflict(format!("`{}` is under way here", run.id));
            return Err(problem.hint("cancel it first"));
        }
        match LeaseHolder::of(run) {
            Some(holder) if !all_the_same => {
                let problem = Problem::conflict(format!("{holder} is working on `{}`", run.id));
                Err(problem
                    .hint("wait for it, stop it, or take the run over: resume it with `take_over`"))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    #[param(schema_with = run_kind)]
    kind: Option<RunKind>,
    #[param(schema_with = run_state)]
    status: Option<RunState>,
    /// Something in their titles, in upper or lower case
    title: Option<String>,
    /// Those made before: `next` of the page before
    before: Option<u64>,
    /// 50, if nothing is said
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

fn run_kind() -> Ref {
    Ref::from_schema_name(RunKind::schema_name())
}

fn run_state() -> Ref {
    Ref::from_schema_name(RunState::schema_name())
}

/// A page of runs, the latest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunPage")]
pub(crate) struct Page {
    runs: Vec<RunSummary>,
    /// Where the next page begins; null on the last
    next: Option<u64>,
}

/// List runs
#[utoipa::path(
    get, path = "/api/runs", tag = "runs", params(Wanted),
    responses((status = 200, description = "The latest first", body = Page)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Page>, Problem> {
    let limit = page::limit(wanted.limit, USUAL, MOST)?;
    let mut before = wanted.before;
    let mut runs: Vec<Run> = Vec::new();
    // Whether somebody is still at work the store does not know: it is asked until the page is full.
    loop {
        let filter = RunFilter {
            kind: wanted.kind,
            status: wanted.status.map(RunState::status),
            title: wanted.title.clone(),
            before,
            limit: limit + 1,
            ..RunFilter::default()
        };
        let found = app.store.runs(filter).await?;
        let all = found.len() <= limit;
        before = found.last().map(|run| run.number);
        let fits = |run: &Run| wanted.status.is_none_or(|state| RunState::of(run) == state);
        runs.extend(found.into_iter().filter(fits));
        if all || runs.len() > limit {
            break;
        }
    }
    let next = page::cut(&mut runs, limit, |run| run.number);
    Ok(Json(Page { runs: runs.iter().map(RunSummary::new).collect(), next }))
}

/// Show a run
#[utoipa::path(
    get, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "As it stands", body = RunView)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<RunView>, Problem> {
    let run = app.run(&id).await?;
    Ok(Json(RunView::new(&app, &run).await?))
}

/// Stop a run
///
/// Whoever works on it, here or in another process: there it ends with its next step. It can be taken up again.
#[utoipa::path(
    post, path = "/api/runs/{id}/cancel", tag = "runs", params(("id" = String, Path, description = "The run")),
    responses((status = 202, description = "It is being stopped", body = RunView)),
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    if run.status != RunStatus::Running {
        let detail = format!("nobody works on `{}`: it is {}", run.id, RunState::of(&run).name());
        return Err(Problem::conflict(detail));
    }
    if !app.docket.cancel(&run.id) {
        cancel_run(&*app.store, &run).await?;
    }
    let view = RunView::new(&app, &app.run(&id).await?).await?;
    Ok((StatusCode::ACCEPTED, Json(view)).into_response())
}

/// Remove a run with all that belongs to it
#[utoipa::path(
    delete, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path, description = "The run")),
    responses((status = 204, description = "It is gone")),
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

/// Export all that is kept of a run
#[utoipa::path(
    get, path = "/api/runs/{id}/export", tag = "runs", params(("id" = String, Path, description = "The run")),
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
pub(crate) struct OfMove {
    /// Of a consultation: the debate of this move alone, such as `m3`
    r#move: Option<String>,
}

/// What was said and done in a run
///
/// Of debates and consultations the conversations, of programs every attempt with its code and output, of workers
/// every step.
#[utoipa::path(
    get, path = "/api/runs/{id}/transcripts", tag = "runs", params(("id" = String, Path, description = "The run"), OfMove),
    responses((status = 200, description = "So far", body = Transcripts)),
)]
pub(crate) async fn transcripts(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(of): Query<OfMove>,
) -> Result<Json<Transcripts>, Problem> {
    let run = app.run(&id).await?;
    let records = app.store.records(&run.id).await?;
    Ok(Json(Transcripts::new(&run, &records, of.r#move.as_deref())))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Scores {
    /// Once the run is done
    scores: Vec<Score>,
    /// Until then: `sandbox_scored`, as it was told
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    so_far: Vec<Value>,
}

/// How a move was scored. What was said about it is in the transcripts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Score {
    move_id: String,
    ticker: Option<String>,
    total_score: u32,
    out_of: u32,
    rounds: u32,
    /// What the judges are called
    agents: BTreeMap<String, String>,
    /// By judge
    #[schemars(with = "BTreeMap<String, JudgeScore>")]
    scores_by_agent: BTreeMap<String, Value>,
    /// What they thought before it was debated, where that was asked for
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, JudgeScore>")]
    blind_scores: BTreeMap<String, Value>,
}

/// How a debate, or the moves of a consultation, were scored
#[utoipa::path(
    get, path = "/api/runs/{id}/scores", tag = "runs", params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "By move and by judge", body = Scores)),
)]
pub(crate) async fn scores(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Scores>, Problem> {
    let run = app.run(&id).await?;
    if let Some(scores) = kinds::scores(&run)? {
        let scores = serde_json::from_value(scores).map_err(|error| {
            Problem::conflict(format!("another version of assize wrote the scores: {error}"))
        })?;
        return Ok(Json(Scores { scores, so_far: Vec::new() }));
    }
    // Those that are there so far, as they were told.
    let told = app.store.events(EventQuery::of_run(&run)).await?.into_iter();
    let scored =
        told.filter(|event| event.name == RunEvent::SANDBOX_SCORED).map(|event| event.payload);
    Ok(Json(Scores { scores: Vec::new(), so_far: scored.collect() }))
}
