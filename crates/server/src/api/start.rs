//! Handlers that start a run and that estimate the cost of a run.

use std::sync::Arc;

use assize_code::{CodeJob, CodePlan, EvalJob, EvalPlan};
use assize_consult::{ConsultJob, ConsultPlan, DebateJob, DebatePlan, Estimate};
use assize_draft::work::{WorkJob, WorkPlan};
use assize_run::{AnyTrial, IdempotencyKey, Run, RunId, RunOrigin};
use assize_service::{PARALLEL, Services};
use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::runs::RunView;
use super::start_bodies::{
    ConsultStart, StartBody, code_request, consult_request, debate_request, eval_request, within,
    work_options,
};
use crate::App;
use crate::extract::JsonBody;
use crate::problem::Problem;

/// Start a run
///
/// When the response arrives, the run is stored and running. Its events can be read from `/api/runs/{id}/events`. A
/// request with an `Idempotency-Key` can be repeated safely: the response to the repetition has status 200 and contains
/// the run that the first request started.
#[utoipa::path(
    post, path = "/api/runs", tag = "runs", request_body = StartBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Unique key of the request; repeating a request with the same key starts no second run", min_length = 1, max_length = 200, pattern = "^[!-~]([ -~]*[!-~])?$")),
    responses((status = 201, description = "The run has started", body = RunView, headers(("Location" = String, description = "URL path of the run"))),
              (status = 200, description = "An earlier request with the same key started this run", body = RunView, headers(("Location" = String, description = "URL path of the run")))),
)]
pub(crate) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    JsonBody { body, fingerprint }: JsonBody<StartBody>,
) -> Result<Response, Problem> {
    let key = idempotency_key(&headers, fingerprint)?;
    let own = app.clone();
    app.begin(key, None, move |services| async move { open(&own, body, services).await }).await
}

/// Reads the idempotency key from the headers of a request; `None` if the request has no key.
pub(super) fn idempotency_key(
    headers: &HeaderMap,
    request: assize_types::Fingerprint,
) -> Result<Option<IdempotencyKey>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().map(str::trim).filter(|key| !key.is_empty() && key.len() <= 200);
    let invalid = "invalid `Idempotency-Key`: must be 1 to 200 printable ASCII characters";
    let key = key.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, invalid))?.to_owned();
    Ok(Some(IdempotencyKey { key, request }))
}

impl App {
    /// Executes the run that `open` creates or resumes; `resumed` is the id of the run to resume, if any. Fails if no
    /// execution slot is free or the rate limit is reached. If an earlier request with the same idempotency key started
    /// a run, returns that run.
    pub(super) async fn begin<F>(
        &self,
        key: Option<IdempotencyKey>,
        resumed: Option<&RunId>,
        open: impl FnOnce(Services) -> F,
    ) -> Result<Response, Problem>
    where
        F: Future<Output = Result<Box<dyn AnyTrial>, Problem>> + Send + 'static,
    {
        if let Some(run) = self.run_of_key(key.as_ref()).await? {
            return self.run_response(StatusCode::OK, &run).await;
        }
        self.check_start_limit()?;
        let slot = self.supervisor.reserve_slot(resumed)?;
        let mut services = self.services.clone();
        services.idempotency_key.clone_from(&key);
        let (supervisor, opening) = (self.supervisor.clone(), open(services));
        // In a separate task: if the client disconnects, the creation of the run must not be aborted.
        let started = self.supervisor.spawn(async move {
            let trial = opening.await?;
            Ok::<_, Problem>(supervisor.execute_in_background(trial, slot))
        });
        match started.await? {
            Ok(run) => self.run_response(StatusCode::CREATED, &run).await,
            // A concurrent request with the same key may have started the run first.
            Err(problem) => match self.run_of_key(key.as_ref()).await? {
                Some(run) => self.run_response(StatusCode::OK, &run).await,
                None => Err(problem),
            },
        }
    }

    /// Builds a response that contains a run, with the path of the run in the `Location` header.
    async fn run_response(&self, status: StatusCode, run: &Run) -> Result<Response, Problem> {
        let location = [(LOCATION, format!("/api/runs/{}", run.id))];
        // The run has started, so the request succeeds even if the usage of the run cannot be read.
        let view = RunView::new(self, run).await.unwrap_or_else(|_| RunView::unspent(self, run));
        Ok((status, location, Json(view)).into_response())
    }

    /// Returns the run that an earlier request with the same idempotency key started, if any. Fails if the earlier
    /// request was different from this request.
    async fn run_of_key(&self, key: Option<&IdempotencyKey>) -> Result<Option<Run>, Problem> {
        let Some(key) = key else { return Ok(None) };
        match self.store.find_by_idempotency_key(key).await? {
            None => Ok(None),
            Some((run, true)) => Ok(Some(self.store.run(&run).await?)),
            Some((run, false)) => {
                let detail = format!(
                    "a different request with this `Idempotency-Key` has already started `{run}`"
                );
                Err(Problem::unprocessable(detail).hint("use a different idempotency key"))
            }
        }
    }
}

async fn open(
    app: &App,
    start: StartBody,
    mut services: Services,
) -> Result<Box<dyn AnyTrial>, Problem> {
    services.settings = Arc::new(start.applied(&services.settings)?);
    let runner = services.runner(&app.store)?;
    Ok(match start {
        StartBody::Run(start) => {
            let plan = CodePlan::fresh(code_request(start)?, &services.sandboxes())?;
            Box::new(runner.start::<CodeJob>(services.code(plan), RunOrigin::New).await?)
        }
        StartBody::Consult(start) => {
            let yes = start.yes;
            let plan = consult_plan(app, start, &services).await?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), RunOrigin::New).await?;
            refuse_unconfirmed_cost(&planned.job, yes)?;
            Box::new(planned.open().await?)
        }
        StartBody::Debate(start) => {
            let plan = DebatePlan::fresh(&debate_request(start)?)?;
            Box::new(runner.start::<DebateJob>(services.consult(plan), RunOrigin::New).await?)
        }
        StartBody::Work(start) => {
            let plan = WorkPlan::fresh(work_options(app, start)?)?;
            Box::new(
                runner.start::<WorkJob>(services.work(plan, &app.store), RunOrigin::New).await?,
            )
        }
        StartBody::Eval(start) => {
            let parallel = within("parallel", start.parallel.unwrap_or(PARALLEL), 64)?;
            let plan = EvalPlan::fresh(eval_request(start)?, parallel);
            Box::new(runner.start::<EvalJob>(services.code(plan), RunOrigin::New).await?)
        }
    })
}

async fn consult_plan(
    app: &App,
    start: ConsultStart,
    services: &Services,
) -> Result<ConsultPlan, Problem> {
    let parallel = start.parallel_moves;
    let parallel = parallel.map(|n| within("parallel_moves", n, 100)).transpose()?;
    let (settings, environment) = (&services.settings, &services.environment);
    let ask = consult_request(app, start).await?;
    let mut plan = ConsultPlan::fresh(ask, settings, environment).await?;
    plan.parallel_moves = parallel;
    Ok(plan)
}

/// Returns an error if the estimated cost of a consultation needs confirmation and `yes` is false.
pub(crate) fn refuse_unconfirmed_cost(job: &ConsultJob, yes: bool) -> Result<(), Problem> {
    let Some(estimate) = job.estimate_to_confirm().filter(|_| !yes) else { return Ok(()) };
    let (calls, cost) = (estimate.calls, estimate.cost_phrase());
    let detail = format!(
        "the consultation was not started, because its estimated cost must be confirmed: {calls} model \
         calls {cost}"
    );
    let hint = "confirm the cost with `\"yes\": true`, or limit it with `max_cost`";
    Err(Problem::new(StatusCode::PAYMENT_REQUIRED, detail).hint(hint))
}

/// Estimated usage and cost of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EstimateView {
    calls: u64,
    /// Length of the longest chain of model calls in which each call needs the answer of the previous call
    calls_in_a_row: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// Estimated cost in dollars without prompt caching; null if the price of the model is unknown
    cost_usd: Option<f64>,
    /// Estimated cost in dollars if the provider caches prompts; null if the price of the model is unknown
    cost_cached_usd: Option<f64>,
    /// `local` if the cost is zero because the model runs on the user's own server; null for other models
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_note: Option<&'static str>,
    rehearsal: bool,
}

impl EstimateView {
    fn new(estimate: &Estimate, calls_in_a_row: u64, rehearsal: bool) -> EstimateView {
        EstimateView {
            calls: estimate.calls,
            calls_in_a_row,
            input_tokens: estimate.input_tokens,
            output_tokens: estimate.output_tokens,
            cost_usd: estimate.cost.dollars(),
            cost_cached_usd: estimate.cached.dollars(),
            cost_note: estimate.cost.note(),
            rehearsal,
        }
    }
}

/// Estimate the cost of a run
///
/// Calls no model and stores nothing. For a consultation, the data sources are queried.
#[utoipa::path(
    post, path = "/api/estimates", tag = "runs", request_body = StartBody,
    responses((status = 200, description = "Estimated usage and cost", body = EstimateView)),
)]
pub(crate) async fn estimate(
    State(app): State<App>,
    JsonBody { body, .. }: JsonBody<StartBody>,
) -> Result<Json<EstimateView>, Problem> {
    app.check_start_limit()?;
    let mut services = app.services.clone();
    services.estimate_only = true;
    services.settings = Arc::new(body.applied(&services.settings)?);
    let unknown = || {
        Problem::conflict(
            "cannot estimate the cost: the server replays a cassette and calls no model",
        )
    };
    let likely = match body {
        StartBody::Consult(start) => {
            let plan = consult_plan(&app, start, &services).await?;
            let runner = services.runner(&app.store)?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), RunOrigin::New).await?;
            let job = &planned.job;
            let estimate = job.estimate.as_ref().ok_or_else(unknown)?;
            EstimateView::new(estimate, job.longest_call_chain, job.gateway.is_rehearsal())
        }
        StartBody::Debate(start) => {
            let ask = debate_request(start)?;
            let plan = DebatePlan::fresh(&ask)?;
            let gateway = services.providers().gateway_outside_runs().await?;
            let likely = assize_consult::estimate(&gateway, &plan.content, ask.rounds);
            let (estimate, in_a_row) = likely.ok_or_else(unknown)?;
            EstimateView::new(&estimate, in_a_row, gateway.is_rehearsal())
        }
        StartBody::Run(_) | StartBody::Work(_) | StartBody::Eval(_) => {
            let detail = "cannot estimate the cost of this kind of run: its number of model calls \
                          is not known in advance";
            return Err(Problem::unprocessable(detail).hint("limit the cost with `max_cost`"));
        }
    };
    Ok(Json(likely))
}
