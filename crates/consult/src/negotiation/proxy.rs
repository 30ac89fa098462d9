//! Answers the model calls of one debate, each by its key within the debate.
//!
//! An answer is remembered for as long as the proxy lives, and so is a failure: a debate that starts again because
//! its sandbox died makes all its calls once more, and gets the same answers. Where answers come from is left to the
//! [`ModelSource`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assize_debate::{Bounds, Job};
use assize_llm::{Call, ErrorKind, Model, ModelError, Request, Response};
use assize_types::Fingerprint;
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Where the answers of one debate come from.
#[async_trait]
pub trait ModelSource: Send + Sync {
    /// Answers one call, by its key within the debate.
    async fn ask(&self, key: &str, request: &Request) -> Result<Response, ModelError>;
}

/// Answers the model calls of one debate.
pub struct ModelProxy {
    source: Arc<dyn ModelSource>,
    /// The calls this debate may make.
    bounds: Bounds,
    /// By key, with the fingerprint of the request.
    answers: Mutex<HashMap<String, (Fingerprint, PendingAnswer)>>,
    waiting: Mutex<Waiting>,
}

/// Calls under way, and since when there is none.
#[derive(Debug)]
struct Waiting {
    calls: usize,
    since: Instant,
}

/// An answer that may still be on its way. The caller may be gone by then; the call is not repeated.
type PendingAnswer = Shared<BoxFuture<'static, Result<Response, (ErrorKind, String)>>>;

/// Counts a call as under way.
struct CallUnderWay<'a>(&'a ModelProxy);

impl CallUnderWay<'_> {
    fn begin(proxy: &ModelProxy) -> CallUnderWay<'_> {
        proxy.waiting().calls += 1;
        CallUnderWay(proxy)
    }
}

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.calls -= 1;
        waiting.since = Instant::now();
    }
}

/// Replays the answers of a proxy, and makes no call.
pub(crate) struct ReplayedAnswers(pub(crate) Arc<ModelProxy>);

#[async_trait]
impl Model for ReplayedAnswers {
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        let key = call.key.unwrap_or_default();
        match self.0.answered(key, request) {
            Some(answer) => answer.await.map_err(|(kind, message)| ModelError::new(kind, message)),
            None => Err(ModelError::new(ErrorKind::Internal, format!("nobody was asked `{key}`"))),
        }
    }
}

impl std::fmt::Debug for ModelProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelProxy").finish_non_exhaustive()
    }
}

impl ModelProxy {
    pub fn new(source: Arc<dyn ModelSource>, job: &Job) -> ModelProxy {
        let waiting = Mutex::new(Waiting { calls: 0, since: Instant::now() });
        ModelProxy { source, bounds: Bounds::of(job), answers: Mutex::default(), waiting }
    }

    /// Answers one call of the debate, by its key within it.
    ///
    /// # Errors
    /// When there is no answer. The debate decides whether it can go on without one; where it cannot, the run is
    /// over, and the source knows why.
    pub async fn answer(&self, key: &str, request: &Request) -> Result<Response, ModelError> {
        let _under_way = CallUnderWay::begin(self);
        if let Some(complaint) = self.bounds.complaint(key, request) {
            return Err(ModelError::new(ErrorKind::Internal, complaint));
        }
        let answer = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = || {
                let asked = request.fingerprint();
                let (source, key, request) = (self.source.clone(), key.to_owned(), request.clone());
                // In a task of its own: the caller may be gone while others wait for the same answer. It is aborted when
                // the last of them is gone.
                let task = AbortOnDropHandle::new(tokio::spawn(async move {
                    let answer = source.ask(&key, &request).await;
                    answer.map_err(|error| (error.kind(), error.message().to_owned()))
                }));
                let lost = |error| (ErrorKind::Internal, format!("the call was lost: {error}"));
                (asked, task.map(move |answer| answer.map_err(lost)?).boxed().shared())
            };
            answers.entry(key.to_owned()).or_insert_with(begin).1.clone()
        };
        answer.await.map_err(|(kind, message)| ModelError::new(kind, message))
    }

    /// Notes that a debate starts, or starts again; returns the number of answers so far.
    pub fn begin(&self) -> usize {
        self.waiting().since = Instant::now();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How long no call has been under way: a debate that makes progress makes calls.
    pub(crate) fn silence(&self) -> Duration {
        let waiting = self.waiting();
        if waiting.calls > 0 { Duration::ZERO } else { waiting.since.elapsed() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to the very same call, if it was made before.
    fn answered(&self, key: &str, request: &Request) -> Option<PendingAnswer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, answer) = answers.get(key)?;
        (*asked == request.fingerprint()).then(|| answer.clone())
    }
}

/// A debate in this process calls the proxy directly.
#[async_trait]
impl Model for ModelProxy {
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        self.answer(call.key.unwrap_or_default(), request).await
    }
}
