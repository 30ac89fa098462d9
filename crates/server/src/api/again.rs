//! Earlier runs: taken up again, or started from.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_consult::{At, ConsultJob, ConsultPlan, DebateAsk, DebateJob, DebatePlan, ForkRequest};
use assize_run::{AnyTrial, Origin, ResumeRequest, Run, RunKind, RunStatus};
use assize_service::{PARALLEL, Services, settings_of_run};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;

use super::asks::within;
use super::runs::RunView;
use super::start::{once, refuse_dear};
use super::wishes::Wishes;
use crate::App;
use crate::docket::allowed;
use crate::extract::{Path, Sent, object};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resume {
    /// Even if another process works on it, or may
    take_over: bool,
    #[serde(deserialize_with = "object")]
    settings: Wishes,
}

/// Go on with a run that was stopped
///
/// What was answered is not asked again.
#[utoipa::path(
    post, path = "/api/runs/{id}/resume", tag = "runs", request_body = Option<Resume>,
    params(("id" = String, Path, description = "The run")),
    responses((status = 201, description = "It goes on", body = RunView)),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    Path(id): Path<String>,
    Sent { body, .. }: Sent<Resume>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    app.refuse_held(&run, body.take_over)?;
    let roots: Vec<&std::path::Path> = app.desks.folders().collect();
    allowed(&run, &roots).map_err(|why| Problem::new(StatusCode::FORBIDDEN, why))?;
    if run.status == RunStatus::Done {
        return Err(Problem::conflict(format!("`{}` is done", run.id)));
    }
    let (store, id) = (app.store.clone(), run.id.clone());
    app.begin(None, Some(&id), move |mut services| async move {
        services.settings = Arc::new(body.settings.applied(&services.settings)?);
        let again = ResumeRequest { run: run.id.to_string(), take_over: body.take_over };
        Ok(services.resume(&again, &store, PARALLEL).await?)
    })
    .await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Fork {
    /// From where on everything is asked again: a round, such as `round-4`; in a consultation also of one move, such as
    /// `m3/round-4`. Without it only what is asked in other words, or failed
    at: Option<String>,
    /// What some are told to be from there on, by `critic`, `D1` and so on
    told: BTreeMap<String, String>,
    /// Of a debate: another wording of the move
    document: Option<String>,
    /// Of a debate: other rounds
    #[schema(minimum = 1, maximum = 50)]
    rounds: Option<u32>,
    /// Of a consultation: other models for some roles
    models: BTreeMap<String, String>,
    /// Spend more than may be spent unasked
    yes: bool,
    #[serde(deserialize_with = "object")]
    settings: Wishes,
}

/// Start from an earlier run
///
/// A new run that takes over what was answered there, and asks only what differs. Debates and consultations can be
/// forked.
#[utoipa::path(
    post, path = "/api/runs/{id}/fork", tag = "runs", request_body = Option<Fork>,
    params(("id" = String, Path, description = "The run"),
           ("Idempotency-Key" = Option<String>, Header, description = "A text that is used for nothing else", min_length = 1, max_length = 200, pattern = "^[!-~]([ -~]*[!-~])?$")),
    responses((status = 201, description = "It has begun", body = RunView),
              (status = 200, description = "It was begun before", body = RunView)),
)]
pub(crate) async fn fork(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Sent { body, fingerprint }: Sent<Fork>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    let once = once(&headers, fingerprint)?;
    let own = app.clone();
    app.begin(
        once,
        None,
        move |services| async move { open_fork(&own, &run, body, services).await },
    )
    .await
}

async fn open_fork(
    app: &App,
    run: &Run,
    body: Fork,
    mut services: Services,
) -> Result<Box<dyn AnyTrial>, Problem> {
    let at = body.at.map(|at| at.parse::<At>()).transpose();
    let at = at.map_err(|error| Problem::unusable(error.to_string()))?;
    if at.is_none() && !body.told.is_empty() {
        return Err(Problem::unusable("`told` goes with `at`"));
    }
    let settings = body.settings.applied(&services.settings)?;
    services.settings = Arc::new(settings_of_run(&settings, run)?);
    let runner = services.runner(&app.store)?;
    let from = ForkRequest { at, told: body.told };
    let origin = Origin::Fork { parent: Box::new(run.clone()) };
    Ok(match run.kind {
        RunKind::Debate => {
            if !body.models.is_empty() {
                return Err(Problem::unusable("`models` can be changed in a consultation alone"));
            }
            let rounds = body.rounds.map(|rounds| within("rounds", rounds, 50)).transpose()?;
            let ask = DebateAsk { document: body.document, rounds, ..DebateAsk::default() };
            let plan = DebatePlan::forked(run, &from, &ask, &*app.store).await?;
            Box::new(runner.start::<DebateJob>(services.consult(plan), origin).await?)
        }
        RunKind::Consult => {
            if body.document.is_some() || body.rounds.is_some() {
                let detail = "`document` and `rounds` can be changed in a debate alone";
                return Err(Problem::unusable(detail));
            }
            let plan = ConsultPlan::forked(run, &from, body.models, &*app.store).await?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), origin).await?;
            refuse_dear(&planned.job, body.yes)?;
            Box::new(planned.open().await?)
        }
        other => {
            let detail = format!("a run of the kind `{other}` cannot be forked");
            return Err(Problem::unusable(detail).hint("debates and consultations can be"));
        }
    })
}
