//! Starting runs, and estimating their cost.

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

use super::asks::{
    ConsultStart, StartBody, code_ask, consult_ask, debate_ask, eval_ask, within, work_ask,
};
use super::runs::RunView;
use crate::App;
use crate::extract::JsonBody;
use crate::problem::Problem;

/// Start a run
///
/// When the response arrives, the run is stored and running; follow it with `/api/runs/{id}/events`. A request with an
/// `Idempotency-Key` can be repeated safely: the response is then the run of the first request, with status 200.
#[utoipa::path(
    post, path = "/api/runs", tag = "runs", request_body = StartBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Unique key of the request; a repeated request starts nothing twice", min_length = 1, max_length = 200, pattern = "^[!-~]([ -~]*[!-~])?$")),
    responses((status = 201, description = "The run has started", body = RunView, headers(("Location" = String, description = "Path of the run"))),
              (status = 200, description = "The run was started by an earlier request with the same key", body = RunView, headers(("Location" = String, description = "Path of the run")))),
)]
pub(crate) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    JsonBody { body, fingerprint }: JsonBody<StartBody>,
) -> Result<Response, Problem> {
    let key = once(&headers, fingerprint)?;
    let own = app.clone();
    app.begin(key, None, move |services| async move { open(&own, body, services).await }).await
}

/// Idempotency key of a request, from its header.
pub(super) fn once(
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
    /// Starts a run, or resumes `resumed`, if a slot is free and the rate limit allows it.
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
        self.pace()?;
        let slot = self.docket.place(resumed)?;
        let mut services = self.services.clone();
        services.idempotency_key.clone_from(&key);
        let (docket, opening) = (self.docket.clone(), open(services));
        // In a separate task: a client that disconnects must not stop a run that is being created.
        let started = self.docket.spawn(async move {
            let trial = opening.await?;
            Ok::<_, Problem>(docket.enter(trial, slot))
        });
        match started.await? {
            Ok(run) => self.run_response(StatusCode::CREATED, &run).await,
            // A concurrent request with the same key may have been faster.
            Err(problem) => match self.run_of_key(key.as_ref()).await? {
                Some(run) => self.run_response(StatusCode::OK, &run).await,
                None => Err(problem),
            },
        }
    }

    /// Response with a run and its location.
    async fn run_response(&self, status: StatusCode, run: &Run) -> Result<Response, Problem> {
        let location = [(LOCATION, format!("/api/runs/{}", run.id))];
        // The run has started, so the request succeeds even if its usage cannot be read.
        let view = RunView::new(self, run).await.unwrap_or_else(|_| RunView::unspent(self, run));
        Ok((status, location, Json(view)).into_response())
    }

    /// Run that an earlier request with the same idempotency key started.
    async fn run_of_key(&self, key: Option<&IdempotencyKey>) -> Result<Option<Run>, Problem> {
        let Some(key) = key else { return Ok(None) };
        match self.store.asked_before(key).await? {
            None => Ok(None),
            Some((run, true)) => Ok(Some(self.store.run(&run).await?)),
            Some((run, false)) => {
                let detail = format!(
                    "a different request with this `Idempotency-Key` has already started `{run}`"
                );
                Err(Problem::unusable(detail).hint("use another key"))
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
            let plan = CodePlan::fresh(code_ask(start)?, &services.sandboxes())?;
            Box::new(runner.start::<CodeJob>(services.code(plan), RunOrigin::New).await?)
        }
        StartBody::Consult(start) => {
            let yes = start.yes;
            let plan = consult_plan(app, start, &services).await?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), RunOrigin::New).await?;
            refuse_dear(&planned.job, yes)?;
            Box::new(planned.open().await?)
        }
        StartBody::Debate(start) => {
            let plan = DebatePlan::fresh(&debate_ask(start)?)?;
            Box::new(runner.start::<DebateJob>(services.consult(plan), RunOrigin::New).await?)
        }
        StartBody::Work(start) => {
            let plan = WorkPlan::fresh(work_ask(app, start)?)?;
            Box::new(
                runner.start::<WorkJob>(services.work(plan, &app.store), RunOrigin::New).await?,
            )
        }
        StartBody::Eval(start) => {
            let parallel = within("parallel", start.parallel.unwrap_or(PARALLEL), 64)?;
            let plan = EvalPlan::fresh(eval_ask(start)?, parallel);
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
    let ask = consult_ask(app, start).await?;
    let mut plan = ConsultPlan::fresh(ask, settings, environment).await?;
    plan.parallel_moves = parallel;
    Ok(plan)
}

/// Refuses a consultation whose estimated cost needs confirmation, unless the request has `yes`.
pub(crate) fn refuse_dear(job: &ConsultJob, yes: bool) -> Result<(), Problem> {
    let Some(estimate) = job.to_be_confirmed().filter(|_| !yes) else { return Ok(()) };
    let (calls, cost) = (estimate.calls, estimate.cost_phrase());
    let detail = format!("the estimate of {calls} calls, {cost}, needs confirmation");
    let hint = "confirm with `\"yes\": true`, or set a `max_cost`";
    Err(Problem::new(StatusCode::PAYMENT_REQUIRED, detail).hint(hint))
}

/// Estimated usage and cost of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EstimateView {
    calls: u64,
    /// Length of the longest chain of sequential calls
    calls_in_a_row: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// In dollars; null if the price is unknown
    cost_usd: Option<f64>,
    /// Cost in dollars if the provider caches prompts
    cost_cached_usd: Option<f64>,
    /// `local` if the model runs on the user's own server at no cost
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
/// Calls no model and stores nothing; for a consultation, its sources are queried.
#[utoipa::path(
    post, path = "/api/estimates", tag = "runs", request_body = StartBody,
    responses((status = 200, description = "Estimated usage and cost", body = EstimateView)),
)]
pub(crate) async fn estimate(
    State(app): State<App>,
    JsonBody { body, .. }: JsonBody<StartBody>,
) -> Result<Json<EstimateView>, Problem> {
    app.pace()?;
    let mut services = app.services.clone();
    services.estimate_only = true;
    services.settings = Arc::new(body.applied(&services.settings)?);
    let unknown = || Problem::conflict("cannot estimate: no data about the model");
    let likely = match body {
        StartBody::Consult(start) => {
            let plan = consult_plan(&app, start, &services).await?;
            let runner = services.runner(&app.store)?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), RunOrigin::New).await?;
            let job = &planned.job;
            let estimate = job.estimate.as_ref().ok_or_else(unknown)?;
            EstimateView::new(estimate, job.in_a_row, job.gateway.is_rehearsal())
        }
        StartBody::Debate(start) => {
            let ask = debate_ask(start)?;
            let plan = DebatePlan::fresh(&ask)?;
            let gateway = services.providers().gateway_of_no_run().await?;
            let likely = assize_consult::estimate(&gateway, &plan.content, ask.rounds);
            let (estimate, in_a_row) = likely.ok_or_else(unknown)?;
            EstimateView::new(&estimate, in_a_row, gateway.is_rehearsal())
        }
        StartBody::Run(_) | StartBody::Work(_) | StartBody::Eval(_) => {
            let detail = "cannot estimate this kind of run: the number of attempts is unknown";
            return Err(Problem::unusable(detail).hint("set a `max_cost`"));
        }
    };
    Ok(Json(likely))
}
