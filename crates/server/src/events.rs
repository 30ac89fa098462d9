//! Live events, as browsers and programs follow them: server-sent events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assize_run::{EventQuery, LiveOutput, Run, RunId, RunStatus};
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

use crate::api::runs::Shown;
use crate::extract::{Path, Query};
use crate::hub::{Follower, frame, joined};
use crate::problem::Problem;
use crate::{App, kinds};

/// How often something is sent though there is nothing to tell, so that nobody takes the line for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How soon somebody whose line broke is to call again, in milliseconds.
const RETRY: u64 = 1000;

/// The most often that is told what a program writes.
const PACE: Duration = Duration::from_millis(100);

/// The most runs that can be named for one stream.
const MOST_RUNS: usize = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// Only what has an id above this one; a `Last-Event-ID` header wins over it.
    pub(crate) after: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfRuns {
    /// The runs that are wanted, with commas between them; all, if none is named.
    runs: Option<String>,
    /// Only what has an id above this one; a `Last-Event-ID` header wins over it.
    after: Option<u64>,
}

/// The last event that whoever calls again has seen.
pub(crate) fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let bad = || Problem::new(StatusCode::BAD_REQUEST, "`Last-Event-ID` is no id of an event");
    number.ok_or_else(bad).map(Some)
}

/// Follow a run
///
/// A stream of server-sent events. The first, `snapshot`, is the run as it stands. After it come all events of the run,
/// or those after the last that was seen, each with its id; then those that happen. What a program writes is told while
/// it runs, as `execution_output`, without an id: it is not kept, but as part of the outcome. The stream ends with the
/// run. To whoever then calls again the answer is 204, at which browsers stop calling.
#[utoipa::path(
    get, path = "/api/runs/{id}/events", tag = "events",
    params(("id" = String, Path, description = "The run"), After,
           ("Last-Event-ID" = Option<u64>, Header, description = "The last event that was seen")),
    responses((status = 200, description = "Events as they happen", content_type = "text/event-stream", body = String),
              (status = 204, description = "The run is over, and all of it was seen")),
)]
pub(crate) async fn of_run(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    let newest = app.store.last_event().await?;
    // An id that there never was is of another store.
    let seen = last_seen(&headers)?.or(query.after).filter(|seen| *seen <= newest);
    let after = seen.unwrap_or_default();
    let follower = app.events.follow(Some(BTreeSet::from([id])), after);
    let snapshot = json!({"run": Shown::new(&app, &run), "last_event_id": newest});
    let mut stream = Stream::new(app.clone(), follower, snapshot);
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

/// Follow several runs
///
/// A stream of server-sent events as for one run, which goes on until whoever follows it leaves. Runs that are named are
/// told of from their beginning; those among them that are not there are said to be `missing`, and left out. If none is
/// named the stream is about all runs: the first event has those that are under way, and what follows happens from now
/// on. In both cases an id to begin after can be given.
#[utoipa::path(
    get, path = "/api/events", tag = "events",
    params(OfRuns, ("Last-Event-ID" = Option<u64>, Header, description = "The last event that was seen")),
    responses((status = 200, description = "Events as they happen", content_type = "text/event-stream", body = String)),
)]
pub(crate) async fn of_runs(
    State(app): State<App>,
    Query(query): Query<OfRuns>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let named: Option<BTreeSet<String>> =
        query.runs.map(|runs| runs.split(',').map(|run| run.trim().to_owned()).collect());
    let (mut runs, mut missing) = (Vec::new(), Vec::new());
    match &named {
        Some(named) if named.len() > MOST_RUNS => {
            return Err(Problem::unusable(format!("at most {MOST_RUNS} runs can be named")));
        }
        Some(named) => {
            for id in named {
                match app.run(id).await {
                    Ok(run) => runs.push(run),
                    // Perhaps removed since it was last followed: the others are told of all the same.
                    Err(problem) if problem.status() == StatusCode::NOT_FOUND => {
                        missing.push(id.clone());
                    }
                    Err(problem) => return Err(problem),
                }
            }
            if runs.is_empty() {
                return Err(Problem::not_found("there is none of these runs"));
            }
        }
        None => {
            let status = Some(RunStatus::Running);
            let filter = assize_run::RunFilter { status, limit: MOST_RUNS, ..Default::default() };
            runs = app.store.runs(filter).await?;
        }
    }
    let newest = app.store.last_event().await?;
    // Named runs are told from their beginning; of all that ever happened nobody wants to hear.
    let begin = if named.is_some() { 0 } else { newest };
    let seen = last_seen(&headers)?.or(query.after).filter(|seen| *seen <= newest);
    let after = seen.unwrap_or(begin);
    let described: Vec<Shown> = runs.iter().map(|run| Shown::new(&app, run)).collect();
    let there = named.map(|_| runs.iter().map(|run| run.id.to_string()).collect());
    let follower = app.events.follow(there, after);
    let snapshot = json!({"runs": described, "missing": missing, "last_event_id": newest});
    Ok(Stream::new(app.clone(), follower, snapshot).into_response())
}

/// What is sent to one follower.
pub(crate) struct Stream {
    app: App,
    pub(crate) follower: Follower,
    /// Sent before all else.
    first: Option<Bytes>,
    /// With whose end it ends.
    run: Option<RunId>,
    live: Option<Watched>,
    /// Whether it was looked whether that is over, since there was reason to.
    looked: bool,
    /// When something is sent though there is nothing to tell.
    quiet_until: Instant,
}

impl Stream {
    pub(crate) fn new(app: App, follower: Follower, snapshot: Value) -> Stream {
        let mut first = format!("retry: {RETRY}\n\n").into_bytes();
        first.extend_from_slice(&frame(None, "snapshot", &snapshot));
        Stream {
            app,
            follower,
            first: Some(first.into()),
            run: None,
            live: None,
            looked: false,
            quiet_until: Instant::now(),
        }
    }

    /// What is sent next; nothing, if that is all.
    async fn next(&mut self) -> Option<Result<Bytes, Problem>> {
        let next = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => self.later().await,
        };
        self.quiet_until = Instant::now() + HEARTBEAT;
        next
    }

    async fn later(&mut self) -> Option<Result<Bytes, Problem>> {
        loop {
            let mut told = match self.follower.next().await {
                Ok(told) => told,
                // The line is cut, and whoever calls again goes on where they were.
                Err(error) => return Some(Err(error.into())),
            };
            if told.is_empty() && !std::mem::replace(&mut self.looked, true) && self.is_over().await
            {
                // It ended after it was looked for more, perhaps, and told so.
                told = match self.follower.next_kept().await {
                    Ok(told) => told,
                    Err(error) => return Some(Err(error.into())),
                };
                if told.is_empty() {
                    return None;
                }
                self.looked = false;
            }
            if let [.., last] = told.as_slice() {
                // It may have been taken up again since.
                self.looked &= !last.ends;
                return Some(Ok(joined(&told)));
            }
            tokio::select! {
                () = self.follower.more() => {}
                told = written(self.live.as_mut(), self.run.as_ref()) => return Some(Ok(told)),
                () = tokio::time::sleep_until(self.quiet_until) => {
                    // It may be gone without a word.
                    self.looked = false;
                    return Some(Ok(Bytes::from_static(b":\n\n")));
                }
                () = self.app.closing.cancelled() => return None,
            }
        }
    }

    /// Whether the run that is followed has come to an end.
    async fn is_over(&self) -> bool {
        let Some(run) = &self.run else { return false };
        match self.app.store.run(run).await {
            Ok(run) => run.status != RunStatus::Running,
            // Removed in the meantime.
            Err(_) => true,
        }
    }
}

/// The programs of a run, as somebody watches them.
struct Watched {
    live: Arc<LiveOutput>,
    last: watch::Receiver<u64>,
    seen: u64,
    /// Nothing is told before.
    next: Instant,
    /// Asks whoever runs them, where that is elsewhere.
    _asking: Option<AbortOnDropHandle<()>>,
}

impl Watched {
    fn new(live: Arc<LiveOutput>) -> Watched {
        let last = live.last();
        Watched { live, last, seen: 0, next: Instant::now(), _asking: None }
    }
}

impl App {
    /// The programs of a run, here or wherever in the cluster they run.
    fn watch(&self, run: &Run) -> Option<Watched> {
        match &self.services.member {
            Some(member) if kinds::runs_programs(run) => {
                let (live, asking) = assize_service::live::watch(member, &run.id);
                Some(Watched { _asking: Some(asking), ..Watched::new(live) })
            }
            _ => self.docket.live(&run.id).map(Watched::new),
        }
    }
}

/// What programs have written since it was last told, once there is something.
async fn written(watched: Option<&mut Watched>, run: Option<&RunId>) -> Bytes {
    let Some(watched) = watched else { return std::future::pending().await };
    if watched.last.wait_for(|last| *last > watched.seen).await.is_err() {
        return std::future::pending().await;
    }
    // What comes in many pieces is told in few.
    tokio::time::sleep_until(watched.next).await;
    watched.next = Instant::now() + PACE;
    let mut frames = Vec::new();
    for wrote in watched.live.after(watched.seen) {
        watched.seen = wrote.number;
        let mut data = json!(wrote);
        data["run"] = json!(run);
        frames.extend_from_slice(&frame(None, "execution_output", &data));
    }
    frames.into()
}

impl IntoResponse for Stream {
    fn into_response(self) -> Response {
        let pieces = stream::unfold(self, |mut stream| async move {
            let piece = stream.next().await?;
            Some((
                piece.map_err(|problem| std::io::Error::other(problem.status().to_string())),
                stream,
            ))
        });
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            // Some who stand before us would wait until there is more to pass on.
            (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        ];
        (headers, Body::from_stream(pieces)).into_response()
    }
}
