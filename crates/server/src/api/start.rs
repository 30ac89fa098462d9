//! Trials are begun, and what they would take is said.

use std::sync::Arc;

use assize_code::{CodeJob, CodePlan, EvalJob, EvalPlan};
use assize_consult::{ConsultJob, ConsultPlan, DebateJob, DebatePlan, Estimate};
use assize_draft::work::{WorkJob, WorkPlan};
use assize_run::{AnyTrial, IdempotencyKey, Origin, Run, RunId};
use assize_service::{PARALLEL, Services};
use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::asks::{
    ConsultStart, Start, code_ask, consult_ask, debate_ask, eval_ask, within, work_ask,
};
use super::runs::RunView;
use crate::App;
use crate::extract::Sent;
use crate::problem::Problem;

/// Begin a trial
///
/// The run is kept and under way when the answer comes; `/api/runs/{id}/events` follows it. With an `Idempotency-Key`
/// the same request can be sent again, and begins nothing twice: the answer is then the run of the first time, with
/// status 200.
#[utoipa::path(
    post, path = "/api/runs", tag = "runs", request_body = Start,
    params(("Idempotency-Key" = Option<String>, Header, description = "A text that is used for nothing else", min_length = 1, max_length = 200, pattern = "^[!-~]([ -~]*[!-~])?$")),
    responses((status = 201, description = "It has begun", body = RunView, headers(("Location" = String, description = "The run"))),
              (status = 200, description = "It was begun before", body = RunView, headers(("Location" = String, description = "The run")))),
)]
pub(crate) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    Sent { body, fingerprint }: Sent<Start>,
) -> Result<Response, Problem> {
    let once = once(&headers, fingerprint)?;
    let own = app.clone();
    app.begin(once, None, move |services| async move { open(&own, body, services).await }).await
}

/// What a request was asked for under.
pub(super) fn once(
    headers: &HeaderMap,
    request: assize_types::Fingerprint,
) -> Result<Option<IdempotencyKey>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().map(str::trim).filter(|key| !key.is_empty() && key.len() <= 200);
    let bad = "`Idempotency-Key` is 1 to 200 letters, digits and signs";
    let key = key.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, bad))?.to_owned();
    Ok(Some(IdempotencyKey { key, request }))
}

impl App {
    /// Begins a trial, if there is a place for one.
    pub(super) async fn begin<F>(
        &self,
        once: Option<IdempotencyKey>,
        again: Option<&RunId>,
        open: impl FnOnce(Services) -> F,
    ) -> Result<Response, Problem>
    where
        F: Future<Output = Result<Box<dyn AnyTrial>, Problem>> + Send + 'static,
    {
        if let Some(run) = self.asked_before(once.as_ref()).await? {
            return self.begun(StatusCode::OK, &run).await;
        }
        self.pace()?;
        let place = self.docket.place(again)?;
        let mut services = self.services.clone();
        services.idempotency_key.clone_from(&once);
        let (docket, opening) = (self.docket.clone(), open(services));
        // Whoever asked may hang up: what was begun is held all the same.
        let begun = self.docket.spawn(async move {
            let trial = opening.await?;
            Ok::<_, Problem>(docket.enter(trial, place))
        });
        match begun.await? {
            Ok(run) => self.begun(StatusCode::CREATED, &run).await,
            // Somebody may have been faster with the same.
            Err(problem) => match self.asked_before(once.as_ref()).await? {
                Some(run) => self.begun(StatusCode::OK, &run).await,
                None => Err(problem),
            },
        }
    }

    /// Says where a run is, and how it stands.
    async fn begun(&self, status: StatusCode, run: &Run) -> Result<Response, Problem> {
        let at = [(LOCATION, format!("/api/runs/{}", run.id))];
        // It is begun, whatever is known of it.
        let view = RunView::new(self, run).await.unwrap_or_else(|_| RunView::unspent(self, run));
        Ok((status, at, Json(view)).into_response())
    }

    /// The run that the same was asked for with before.
    async fn asked_before(&self, once: Option<&IdempotencyKey>) -> Result<Option<Run>, Problem> {
        let Some(once) = once else { return Ok(None) };
        match self.store.asked_before(once).await? {
            None => Ok(None),
            Some((run, true)) => Ok(Some(self.store.run(&run).await?)),
            Some((run, false)) => {
                let detail =
                    format!("`{run}` was asked for under this `Idempotency-Key`, in other words");
                Err(Problem::unusable(detail).hint("use another key"))
            }
        }
    }
}

async fn open(
    app: &App,
    start: Start,
    mut services: Services,
) -> Result<Box<dyn AnyTrial>, Problem> {
    services.settings = Arc::new(start.applied(&services.settings)?);
    let runner = services.runner(&app.store)?;
    Ok(match start {
        Start::Run(start) => {
            let plan = CodePlan::fresh(code_ask(start)?, &services.sandboxes())?;
            Box::new(runner.start::<CodeJob>(services.code(plan), Origin::New).await?)
        }
        Start::Consult(start) => {
            let yes = start.yes;
            let plan = consult_plan(app, start, &services).await?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), Origin::New).await?;
            refuse_dear(&planned.job, yes)?;
            Box::new(planned.open().await?)
        }
        Start::Debate(start) => {
            let plan = DebatePlan::fresh(&debate_ask(start)?)?;
            Box::new(runner.start::<DebateJob>(services.consult(plan), Origin::New).await?)
        }
        Start::Work(start) => {
            let plan = WorkPlan::fresh(work_ask(app, start)?)?;
            Box::new(runner.start::<WorkJob>(services.work(plan, &app.store), Origin::New).await?)
        }
        Start::Eval(start) => {
            let parallel = within("parallel", start.parallel.unwrap_or(PARALLEL), 64)?;
            let plan = EvalPlan::fresh(eval_ask(start)?, parallel);
            Box::new(runner.start::<EvalJob>(services.code(plan), Origin::New).await?)
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

/// Refuses what costs more than may be spent without confirmation.
pub(crate) fn refuse_dear(job: &ConsultJob, yes: bool) -> Result<(), Problem> {
    let Some(estimate) = job.to_be_confirmed().filter(|_| !yes) else { return Ok(()) };
    let (calls, cost) = (estimate.calls, estimate.cost_phrase());
    let detail =
        format!("this would take {calls} calls, {cost}, which is more than may be spent unasked");
    let hint = "say so with `\"yes\": true`, or set a `max_cost`";
    Err(Problem::new(StatusCode::PAYMENT_REQUIRED, detail).hint(hint))
}

/// What a trial is likely to take.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Likely {
    calls: u64,
    /// Calls that have to be waited for, one after the other
    calls_in_a_row: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// In dollars; null where the price is not known
    cost_usd: Option<f64>,
    /// The same, where the provider caches prompts
    cost_cached_usd: Option<f64>,
    /// `local` where the user's own server answers for nothing
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_note: Option<&'static str>,
    rehearsal: bool,
}

impl Likely {
    fn new(estimate: &Estimate, calls_in_a_row: u64, rehearsal: bool) -> Likely {
        Likely {
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

/// Say what a trial would take
///
/// Nobody is asked but the sources of a consultation, and nothing is kept.
#[utoipa::path(
    post, path = "/api/estimates", tag = "runs", request_body = Start,
    responses((status = 200, description = "What it is likely to take", body = Likely)),
)]
pub(crate) async fn estimate(
    State(app): State<App>,
    Sent { body, .. }: Sent<Start>,
) -> Result<Json<Likely>, Problem> {
    app.pace()?;
    let mut services = app.services.clone();
    services.estimate_only = true;
    services.settings = Arc::new(body.applied(&services.settings)?);
    let nothing = || Problem::conflict("nothing is known of who would be asked");
    let likely = match body {
        Start::Consult(start) => {
            let plan = consult_plan(&app, start, &services).await?;
            let runner = services.runner(&app.store)?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), Origin::New).await?;
            let job = &planned.job;
            let estimate = job.estimate.as_ref().ok_or_else(nothing)?;
            Likely::new(estimate, job.in_a_row, job.gateway.is_rehearsal())
        }
        Start::Debate(start) => {
            let ask = debate_ask(start)?;
            let plan = DebatePlan::fresh(&ask)?;
            let gateway = services.providers().gateway_of_no_run().await?;
            let likely = assize_consult::estimate(&gateway, &plan.content, ask.rounds);
            let (estimate, in_a_row) = likely.ok_or_else(nothing)?;
            Likely::new(&estimate, in_a_row, gateway.is_rehearsal())
        }
        Start::Run(_) | Start::Work(_) | Start::Eval(_) => {
            let detail = "how often it is tried cannot be known before";
            return Err(Problem::unusable(detail).hint("set a `max_cost`"));
        }
    };
    Ok(Json(likely))
}
