//! Earlier runs: taken up again, or started from.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_run::{ResumeRequest, RunStatus};
use assize_service::PARALLEL;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;

use super::runs::RunView;
use super::start::once;
use super::wishes::Wishes;
use crate::docket::allowed;
use crate::extract::{Path, Sent, object};
use crate::problem::Problem;
use crate::{App, kinds};

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
    pub(crate) at: Option<String>,
    /// What some are told to be from there on, by `critic`, `D1` and so on
    pub(crate) told: BTreeMap<String, String>,
    /// Of a debate: another wording of the move
    pub(crate) document: Option<String>,
    /// Of a debate: other rounds
    #[schema(minimum = 1, maximum = 50)]
    pub(crate) rounds: Option<u32>,
    /// Of a consultation: other models for some roles
    pub(crate) models: BTreeMap<String, String>,
    /// Spend more than may be spent unasked
    pub(crate) yes: bool,
    #[serde(deserialize_with = "object")]
    pub(crate) settings: Wishes,
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
    let open = move |services| async move { kinds::fork(&own, &run, body, services).await };
    app.begin(once, None, open).await
}
