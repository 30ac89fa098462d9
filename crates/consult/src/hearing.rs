//! The host's side of a debate: whoever debates asks here for each answer, under its name in the run. Where the
//! answers come from is for the desk: of the run in this process, or of one elsewhere.
//!
//! What was answered before is answered from the journal, and again within one life from memory: a debate
//! that begins anew because its sandbox died asks for everything once more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assize_calls::Asking;
use assize_debate::{Bounds, Job, Part, Place, Round, is_bearable};
use assize_graph::{Context, Event, Key, NodeError};
use assize_llm::{Call, ErrorKind, Model, ModelError, Request, Response, Stop};
use assize_types::Fingerprint;
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use crate::models::Models;
use crate::state::ConsultState;

/// The longest answer that is passed on, in bytes.
const LONGEST: usize = 32 << 10;

/// Where the questions of one debate are answered.
#[async_trait]
pub trait Desk: Send + Sync {
    /// Answers one call, by its key within the debate.
    ///
    /// # Errors
    /// When there is no answer.
    async fn ask(&self, key: &str, request: &Request) -> Result<Response, ModelError>;
}

/// Answers the calls of one debate.
pub struct Hearing {
    desk: Arc<dyn Desk>,
    /// What may be asked.
    bounds: Bounds,
    /// By key, with what was asked.
    answers: Mutex<HashMap<String, (Fingerprint, Answered)>>,
    waiting: Mutex<Waiting>,
}

/// Who waits for an answer, and since when nobody does.
#[derive(Debug)]
struct Waiting {
    calls: usize,
    since: Instant,
}

/// An answer that may still be on its way. Whoever asked may be gone by then; it is not begun again.
/// Why there is none is kept in so many words.
type Answered = Shared<BoxFuture<'static, Result<Response, (ErrorKind, String)>>>;

/// Somebody waits for an answer.
struct Waits<'a>(&'a Hearing);

impl Waits<'_> {
    fn begin(hearing: &Hearing) -> Waits<'_> {
        hearing.waiting().calls += 1;
        Waits(hearing)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.calls -= 1;
        waiting.since = Instant::now();
    }
}

/// A question that is being asked; it is dropped with whoever waits for it.
struct Asked(JoinHandle<Result<Response, (ErrorKind, String)>>);

impl Asked {
    async fn answer(mut self) -> Result<Response, (ErrorKind, String)> {
        let lost =
            |error: JoinError| (ErrorKind::Internal, format!("the question was lost: {error}"));
        (&mut self.0).await.unwrap_or_else(|error| Err(lost(error)))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers from what was answered before, and asks nobody.
pub(crate) struct Minutes(pub(crate) Arc<Hearing>);

#[async_trait]
impl Model for Minutes {
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        let key = call.key.unwrap_or_default();
        match self.0.answered(key, request) {
            Some(answer) => answer.await.map_err(|(kind, message)| ModelError::new(kind, message)),
            None => Err(ModelError::new(ErrorKind::Internal, format!("nobody was asked `{key}`"))),
        }
    }
}

/// The desk of a run in this process: what is answered is in its journal.
pub(crate) struct OwnDesk {
    context: Context<ConsultState>,
    models: Models,
    move_id: String,
    rounds: u32,
    /// Why the run is over, if it is.
    stopped: Mutex<Option<NodeError>>,
    /// Why this debate could not be opened, if it could not.
    unopened: Mutex<Option<String>>,
}

impl std::fmt::Debug for Hearing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hearing").finish_non_exhaustive()
    }
}

impl Hearing {
    pub fn new(desk: Arc<dyn Desk>, job: &Job) -> Hearing {
        let waiting = Mutex::new(Waiting { calls: 0, since: Instant::now() });
        Hearing { desk, bounds: Bounds::of(job), answers: Mutex::default(), waiting }
    }

    /// Answers one call of the debate, by its key within it.
    ///
    /// # Errors
    /// When there is no answer. Whether the debate can go on without one is for it to decide; where it
    /// cannot, the run is over, and the hearing knows why.
    pub async fn answer(&self, key: &str, request: &Request) -> Result<Response, ModelError> {
        let _waits = Waits::begin(self);
        if let Some(complaint) = self.bounds.complaint(key, request) {
            return Err(ModelError::new(ErrorKind::Internal, complaint));
        }
        let answer = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = || {
                let asked = request.fingerprint();
                let (desk, key, request) = (self.desk.clone(), key.to_owned(), request.clone());
                // By itself: whoever asked may be gone, and it holds what others wait for.
                let asking = Asked(tokio::spawn(async move {
                    let answer = desk.ask(&key, &request).await;
                    answer.map_err(|error| (error.kind(), error.message().to_owned()))
                }));
                (asked, asking.answer().boxed().shared())
            };
            answers.entry(key.to_owned()).or_insert_with(begin).1.clone()
        };
        answer.await.map_err(|(kind, message)| ModelError::new(kind, message))
    }

    /// A debate begins, or begins anew; how many answers there are by then.
    pub fn begin(&self) -> usize {
        self.waiting().since = Instant::now();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How long nobody has waited for an answer: a debate that goes on asks.
    pub(crate) fn silence(&self) -> Duration {
        let waiting = self.waiting();
        if waiting.calls > 0 { Duration::ZERO } else { waiting.since.elapsed() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was answered to the very same call before.
    fn answered(&self, key: &str, request: &Request) -> Option<Answered> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, answer) = answers.get(key)?;
        (*asked == request.fingerprint()).then(|| answer.clone())
    }
}

impl OwnDesk {
    pub(crate) fn new(context: Context<ConsultState>, models: Models, job: &Job) -> OwnDesk {
        let (move_id, rounds) = (job.move_document.move_id.clone(), job.max_rounds);
        let (stopped, unopened) = (Mutex::default(), Mutex::default());
        OwnDesk { context, models, move_id, rounds, stopped, unopened }
    }

    /// Why this debate could not be opened, if it could not: others can be held all the same.
    pub(crate) fn unopened(&self) -> Option<String> {
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Why the run is over, if it is.
    pub(crate) fn stopped(&self) -> Option<NodeError> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What is told once there is an answer.
    fn told(&self, place: Place) -> Option<Event> {
        let status = match place.part {
            Part::Critic => "critic_responded",
            Part::Answer => "dm_responded",
            Part::Score | Part::ScoreAgain | Part::Summary => return None,
        };
        let round = Round { move_id: &self.move_id, rounds: self.rounds };
        Some(round.event(place.log, place.round?, status))
    }
}

#[async_trait]
impl Desk for OwnDesk {
    async fn ask(&self, key: &str, request: &Request) -> Result<Response, ModelError> {
        let place = Key::new(key).ok().and_then(|key| Place::of(&key));
        let Some(place) = place else {
            return Err(ModelError::new(
                ErrorKind::Internal,
                format!("`{key}` is no call of a debate"),
            ));
        };
        let model = self.models.of(&role_of(place));
        let over = |error: NodeError| {
            let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            stopped.get_or_insert(error);
            ModelError::new(ErrorKind::Cancelled, "the run is over")
        };
        for life in 1.. {
            let key = if life == 1 { key.to_owned() } else { format!("{key}-anew-{life}") };
            let mut asking = Asking::new(&self.context, &**model, key).telling(self.told(place));
            if place.log.is_none() {
                // Without the opening there is nothing to debate.
                asking = asking.insisting();
            }
            let error = match asking.answer(request).await {
                Err(error) => return Err(over(error)),
                Ok(Ok(response)) => return Ok(cut(response)),
                Ok(Err(error)) => error,
            };
            let unopened = is_unopened(place, &error);
            if !unopened && !place.can_do_without(&error) {
                let told = ModelError::new(error.kind(), error.message().to_owned());
                over(error.into());
                return Err(told);
            }
            // What the debate does without stays so when the run is taken up again; but for the opening, which
            // is then asked for anew.
            if let Err(stop) = asking.go_on().await {
                return Err(over(stop.into()));
            }
            if !unopened || asking.asked() {
                if unopened {
                    let mut why = self.unopened.lock().unwrap_or_else(PoisonError::into_inner);
                    *why = Some(error.message().to_owned());
                }
                return Err(error);
            }
        }
        Err(ModelError::new(ErrorKind::Internal, "there is no end to it"))
    }
}

/// An answer as a debate bears it: many times what was asked for is still no book.
fn cut(mut response: Response) -> Response {
    if response.text.len() > LONGEST {
        let end = response.text.floor_char_boundary(LONGEST);
        response.text.truncate(end);
        response.stop = Stop::MaxTokens;
    }
    response
}

/// Whether the critic cannot open this debate, but may open others.
fn is_unopened(place: Place, error: &ModelError) -> bool {
    let declined = error.kind() == ErrorKind::Declined;
    place.part == Part::Critic && place.log.is_none() && (declined || is_bearable(error))
}

/// Who speaks at this place.
fn role_of(place: Place) -> String {
    match (place.part, place.log) {
        (Part::Answer | Part::Score | Part::ScoreAgain, Some(log)) => log.maker(),
        _ => "critic".to_owned(),
    }
}

/// A debate in this process asks directly.
#[async_trait]
impl Model for Hearing {
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        self.answer(call.key.unwrap_or_default(), request).await
    }
}
