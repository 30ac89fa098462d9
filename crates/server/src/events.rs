//! Event streams in the format of server-sent events. This module contains the handlers for the events of runs, and the
//! type [`EventStream`], which the handler for the events of workspaces also uses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assize_run::{EventQuery, LiveOutput, Run, RunId, RunStatus, StoreError};
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use utoipa::IntoParams;

use crate::api::runs::RunDetails;
use crate::extract::{Path, Query};
use crate::hub::{EncodedEvent, Subscriber, frame, joined};
use crate::problem::Problem;
use crate::{App, kinds};

/// Interval of the keep-alive comments that are sent on an idle event stream, so that proxies and clients do not close
/// the connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Number of milliseconds that a client waits before it reconnects to an event stream.
const RETRY: u64 = 1000;

/// Minimum interval between two messages with program output in an event stream.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of runs that a client can name for one event stream.
const MAX_RUNS: usize = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AfterQuery {
    /// Send only events whose id is larger than this value; a `Last-Event-ID` header takes precedence
    pub(crate) after: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunEventsQuery {
    /// Ids of the runs whose events are sent, separated by commas; default: all runs
    runs: Option<String>,
    /// Send only events whose id is larger than this value; a `Last-Event-ID` header takes precedence
    after: Option<u64>,
}

/// Reads the id of the last event that a reconnecting client has received, from the `Last-Event-ID` header.
pub(crate) fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let invalid = || Problem::new(StatusCode::BAD_REQUEST, "invalid `Last-Event-ID`: not a number");
    number.ok_or_else(invalid).map(Some)
}

/// Stream the events of a run
///
/// A stream of server-sent events. The first event, `snapshot`, contains the current state of the run. Then the past
/// events of the run follow, each with its id: all of them, or those after `Last-Event-ID`. Then new events follow as
/// they happen. Live output of programs is sent in `execution_output` events without an id, because the output is not
/// stored as an event. The stream ends when the run ends. A client that reconnects after that receives status 204,
/// which makes browsers stop reconnecting.
#[utoipa::path(
    get, path = "/api/runs/{id}/events", tag = "events",
    params(("id" = String, Path, description = "Id of the run"), AfterQuery,
           ("Last-Event-ID" = Option<u64>, Header, description = "Id of the last event that the client received")),
    responses((status = 200, description = "Event stream", content_type = "text/event-stream", body = String),
              (status = 204, description = "The run has ended, and the client has received all of its events")),
)]
pub(crate) async fn of_run(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<AfterQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    let newest = app.store.last_event().await?;
    // An id above that of the newest event comes from another store and is ignored.
    let seen = last_seen(&headers)?.or(query.after).filter(|seen| *seen <= newest);
    let after = seen.unwrap_or_default();
    let follower = app.events.subscribe(Some(BTreeSet::from([id])), after);
    let snapshot = json!({"run": RunDetails::new(&app, &run), "last_event_id": newest});
    let mut stream = EventStream::new(app.clone(), follower, snapshot);
    stream.run = Some(run.id.clone());
    stream.live = app.watch(&run);
    if seen.is_some() && run.status != RunStatus::Running {
        let rest = EventQuery { runs: vec![run.id], after, limit: 1 };
        if app.store.events(rest).await?.is_empty() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    Ok(stream.into_response())
}

/// Stream the events of several runs
///
/// A stream of server-sent events in the same format as the event stream of one run, but this stream ends only when
/// the client disconnects. With `runs`, the stream starts with the first event of the listed runs, and the snapshot
/// lists unknown runs in `missing`. Without `runs`, the stream contains the events of all runs: the snapshot lists the
/// runs that are being executed, and only new events follow. With `after` or `Last-Event-ID`, the stream starts after
/// the event with that id.
#[utoipa::path(
    get, path = "/api/events", tag = "events",
    params(RunEventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "Id of the last event that the client received")),
    responses((status = 200, description = "Event stream", content_type = "text/event-stream", body = String)),
)]
pub(crate) async fn of_runs(
    State(app): State<App>,
    Query(query): Query<RunEventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let named: Option<BTreeSet<String>> =
        query.runs.map(|runs| runs.split(',').map(|run| run.trim().to_owned()).collect());
    let (mut runs, mut missing) = (Vec::new(), Vec::new());
    match &named {
        Some(named) if named.len() > MAX_RUNS => {
            return Err(Problem::unprocessable(format!(
                "too many runs in `runs`: at most {MAX_RUNS} are allowed"
            )));
        }
        Some(named) => {
            for id in named {
                match app.run(id).await {
                    Ok(run) => runs.push(run),
                    // The run may have been removed since the client last connected. The events of the other runs are
                    // still sent.
                    Err(problem) if problem.status() == StatusCode::NOT_FOUND => {
                        missing.push(id.clone());
                    }
                    Err(problem) => return Err(problem),
                }
            }
            if runs.is_empty() {
                return Err(Problem::not_found("none of the runs named in `runs` exists"));
            }
        }
        None => {
            let status = Some(RunStatus::Running);
            let filter = assize_run::RunFilter { status, limit: MAX_RUNS, ..Default::default() };
            runs = app.store.runs(filter).await?;
        }
    }
    let newest = app.store.last_event().await?;
    // Named runs are replayed from their first event. Replaying all runs would send all events of the store.
    let start = if named.is_some() { 0 } else { newest };
    let seen = last_seen(&headers)?.or(query.after).filter(|seen| *seen <= newest);
    let after = seen.unwrap_or(start);
    let described: Vec<RunDetails> = runs.iter().map(|run| RunDetails::new(&app, run)).collect();
    let subjects = named.map(|_| runs.iter().map(|run| run.id.to_string()).collect());
    let follower = app.events.subscribe(subjects, after);
    let snapshot = json!({"runs": described, "missing": missing, "last_event_id": newest});
    Ok(EventStream::new(app.clone(), follower, snapshot).into_response())
}

/// Body of one event stream.
pub(crate) struct EventStream {
    app: App,
    pub(crate) subscriber: Subscriber,
    /// First message of the stream, with the reconnection delay and the snapshot; `None` once it was sent.
    first: Option<Bytes>,
    /// Run whose end also ends the stream; `None` for a stream of several runs or of a workspace.
    run: Option<RunId>,
    live: Option<WatchedOutput>,
    /// Whether the status of the run was checked since the last `run_ended` event or keep-alive comment was sent.
    status_checked: bool,
    /// Time at which a keep-alive comment is sent, unless an event is sent earlier.
    heartbeat_at: Instant,
}

impl EventStream {
    pub(crate) fn new(app: App, subscriber: Subscriber, snapshot: Value) -> EventStream {
        let mut first = format!("retry: {RETRY}\n\n").into_bytes();
        first.extend_from_slice(&frame(None, "snapshot", &snapshot));
        EventStream {
            app,
            subscriber,
            first: Some(first.into()),
            run: None,
            live: None,
            status_checked: false,
            heartbeat_at: Instant::now(),
        }
    }

    /// Next piece of the response body; `None` at the end of the stream. An error breaks the connection: the client
    /// then reconnects with its last event id, instead of mistaking the failure for the end of the run.
    async fn next(&mut self) -> Option<Result<Bytes, StoreError>> {
        let next = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => self.later().await,
        };
        self.heartbeat_at = Instant::now() + HEARTBEAT;
        next
    }

    async fn later(&mut self) -> Option<Result<Bytes, StoreError>> {
        loop {
            let events = match self.available().await {
                Ok(Some(events)) => events,
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            };
            if let [.., last] = events.as_slice() {
                // After a `run_ended` event the status must be checked again, because the run may have been resumed.
                self.status_checked &= !last.ends;
                return Some(Ok(joined(&events)));
            }
            tokio::select! {
                () = self.subscriber.more() => {}
                output = written(self.live.as_mut(), self.run.as_ref()) => return Some(Ok(output)),
                () = tokio::time::sleep_until(self.heartbeat_at) => {
                    // Check the status again: the run may have been removed, and a removal sends no event.
                    self.status_checked = false;
                    return Some(Ok(Bytes::from_static(b":\n\n")));
                }
                () = self.app.closing.cancelled() => return None,
            }
        }
    }

    /// Next events that are already available; empty if there are none yet, and `None` after the last event of a run
    /// that has ended.
    async fn available(&mut self) -> Result<Option<Vec<EncodedEvent>>, StoreError> {
        let events = self.subscriber.next().await?;
        if !events.is_empty() || std::mem::replace(&mut self.status_checked, true) {
            return Ok(Some(events));
        }
        let Some(run) = &self.run else { return Ok(Some(events)) };
        if !has_ended(self.app.store.run(run).await)? {
            return Ok(Some(events));
        }
        // The run may have ended after the events were read: read the last events from the store.
        let last = self.subscriber.next_stored().await?;
        if last.is_empty() {
            return Ok(None);
        }
        self.status_checked = false;
        Ok(Some(last))
    }
}

/// Whether a run has ended or was removed. `read` is the result of reading the run from the store.
fn has_ended(read: Result<Run, StoreError>) -> Result<bool, StoreError> {
    match read {
        Ok(run) => Ok(run.status != RunStatus::Running),
        Err(StoreError::NoSuchRun(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Live output of the programs of a run, and how much of that output one event stream has sent.
struct WatchedOutput {
    live: Arc<LiveOutput>,
    last: watch::Receiver<u64>,
    seen: u64,
    /// Time before which no further message with output is sent.
    next: Instant,
    /// Task that fetches the output from a cluster worker; `None` if the programs run on this machine.
    _fetching: Option<AbortOnDropHandle<()>>,
}

impl WatchedOutput {
    fn new(live: Arc<LiveOutput>) -> WatchedOutput {
        let last = live.last();
        WatchedOutput { live, last, seen: 0, next: Instant::now(), _fetching: None }
    }
}

impl App {
    /// Returns the live output of a run's programs, from this server or from the cluster worker that executes the run.
    fn watch(&self, run: &Run) -> Option<WatchedOutput> {
        match &self.services.cluster_client {
            Some(member) if kinds::runs_programs(run) => {
                let (live, fetching) = assize_service::live::watch(member, &run.id);
                Some(WatchedOutput { _fetching: Some(fetching), ..WatchedOutput::new(live) })
            }
            _ => self.supervisor.live(&run.id).map(WatchedOutput::new),
        }
    }
}

/// Waits for new program output and encodes it as server-sent events. Never returns if there is no output to watch.
async fn written(watched: Option<&mut WatchedOutput>, run: Option<&RunId>) -> Bytes {
    let Some(watched) = watched else { return std::future::pending().await };
    if watched.last.wait_for(|last| *last > watched.seen).await.is_err() {
        return std::future::pending().await;
    }
    // Wait for the minimum interval, so that many small writes are combined into few messages.
    tokio::time::sleep_until(watched.next).await;
    watched.next = Instant::now() + OUTPUT_INTERVAL;
    let mut frames = Vec::new();
    for chunk in watched.live.after(watched.seen) {
        watched.seen = chunk.number;
        let mut data = json!(chunk);
        data["run"] = json!(run);
        frames.extend_from_slice(&frame(None, "execution_output", &data));
    }
    frames.into()
}

impl IntoResponse for EventStream {
    fn into_response(self) -> Response {
        let pieces = stream::unfold(self, |mut stream| async move {
            let piece = stream.next().await?;
            let piece = piece.inspect_err(|error| {
                tracing::warn!(%error, "cannot read events from the store; closing the stream");
            });
            Some((piece, stream))
        });
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            // This header disables response buffering in nginx.
            (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        ];
        (headers, Body::from_stream(pieces)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of an event stream tells the client that the run has ended. So if the run cannot be read from the store,
    /// [`has_ended`] must return the error, and the stream must not end.
    #[test]
    fn run_that_cannot_be_read_does_not_count_as_ended() {
        let removed = StoreError::NoSuchRun("debate-k3v9x2ma".parse().unwrap());
        assert!(has_ended(Err(removed)).unwrap());
        let busy = StoreError::Busy { path: "store.db".into() };
        assert!(matches!(has_ended(Err(busy)), Err(StoreError::Busy { .. })));
    }
}
