//! Handlers that resume a stopped run and that fork an earlier run.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_run::{ResumeRequest, RunStatus};
use assize_service::PARALLEL;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;

use super::request_parts::RequestSettings;
use super::runs::RunView;
use super::start::idempotency_key;
use crate::extract::{JsonBody, Path, object};
use crate::problem::Problem;
use crate::run_supervisor::check_workspace_allowed;
use crate::{App, kinds};

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ResumeBody {
    /// Resume the run even if another process holds its lease
    take_over: bool,
    #[serde(deserialize_with = "object")]
    settings: RequestSettings,
}

/// Resume a stopped run
///
/// Recorded model answers are replayed, not requested again.
#[utoipa::path(
    post, path = "/api/runs/{id}/resume", tag = "runs", request_body = Option<ResumeBody>,
    params(("id" = String, Path, description = "Id of the run")),
    responses((status = 201, description = "The run was resumed", body = RunView)),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    Path(id): Path<String>,
    JsonBody { body, .. }: JsonBody<ResumeBody>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    app.refuse_held(&run, body.take_over)?;
    let roots: Vec<&std::path::Path> = app.workspaces.folders().collect();
    check_workspace_allowed(&run, &roots)
        .map_err(|why| Problem::new(StatusCode::FORBIDDEN, why))?;
    if run.status == RunStatus::Done {
        return Err(Problem::conflict(format!("cannot resume `{}`: the run is done", run.id)));
    }
    let (store, id) = (app.store.clone(), run.id.clone());
    app.begin(None, Some(&id), move |mut services| async move {
        services.settings = Arc::new(body.settings.applied(&services.settings)?);
        let request = ResumeRequest { run: run.id.to_string(), take_over: body.take_over };
        Ok(services.resume(&request, &store, PARALLEL).await?)
    })
    .await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ForkBody {
    /// Point from which the fork repeats all model calls. For a debate: a round, such as `round-4`. For a consultation:
    /// a proposed business move and a round of the debate on it, such as `m3/round-4`. If omitted, every unchanged
    /// prompt reuses its recorded answer
    pub(crate) at: Option<String>,
    /// New personas by role (`critic`, `D1` and so on), used from the point `at` on; requires `at`
    pub(crate) personas: BTreeMap<String, String>,
    /// New text of the proposed business move; only for the fork of a debate
    pub(crate) document: Option<String>,
    /// New number of rounds of the debate; only for the fork of a debate
    #[schema(minimum = 1, maximum = 50)]
    pub(crate) rounds: Option<u32>,
    /// New models, by role; only for the fork of a consultation
    pub(crate) models: BTreeMap<String, String>,
    /// Start the fork even if its estimated cost exceeds the setting `consult.confirm_above`
    pub(crate) yes: bool,
    #[serde(deserialize_with = "object")]
    pub(crate) settings: RequestSettings,
}

/// Fork a run
///
/// Creates a run that reuses the recorded model answers of an earlier run. Only changed prompts are sent to the model.
/// Debates and consultations can be forked.
#[utoipa::path(
    post, path = "/api/runs/{id}/fork", tag = "runs", request_body = Option<ForkBody>,
    params(("id" = String, Path, description = "Id of the run"),
           ("Idempotency-Key" = Option<String>, Header, description = "Unique key of the request; repeating a request with the same key starts no second run", min_length = 1, max_length = 200, pattern = "^[!-~]([ -~]*[!-~])?$")),
    responses((status = 201, description = "The fork has started", body = RunView),
              (status = 200, description = "An earlier request with the same key started this run", body = RunView)),
)]
pub(crate) async fn fork(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody { body, fingerprint }: JsonBody<ForkBody>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    let key = idempotency_key(&headers, fingerprint)?;
    let own = app.clone();
    let open = move |services| async move { kinds::fork(&own, &run, body, services).await };
    app.begin(key, None, open).await
}
