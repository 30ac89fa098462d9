//! Proxy that answers the model calls of one debate. Each call is identified by its key within the debate.
//!
//! The proxy caches every answer and every failure. If a sandbox fails, its debate is restarted, repeats all its calls
//! and gets the same answers. The [`ModelSource`] provides the answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assize_debate::{AllowedCalls, DebateSpec};
use assize_llm::{CallOptions, ErrorKind, Model, ModelError, ModelRequest, ModelResponse};
use assize_types::Fingerprint;
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Source of the model answers for one debate.
#[async_trait]
pub trait ModelSource: Send + Sync {
    /// Answers one model call, which is identified by its key within the debate.
    async fn answer_call(
        &self,
        key: &str,
        request: &ModelRequest,
    ) -> Result<ModelResponse, ModelError>;
}

/// Answers the model calls of one debate, and caches the answers.
pub struct ModelProxy {
    source: Arc<dyn ModelSource>,
    /// Calls that this debate is allowed to make.
    allowed_calls: AllowedCalls,
    /// Cached answers by call key, each with the fingerprint of its request.
    answers: Mutex<HashMap<String, (Fingerprint, PendingAnswer)>>,
    activity: Mutex<Activity>,
}

/// Number of calls in progress, and the time at which the debate was last active: it started, or a call ended.
#[derive(Debug)]
struct Activity {
    calls: usize,
    since: Instant,
}

/// Answer to a call that may still be in progress. All callers with the same key wait for the same answer, so the call
/// is made only once.
type PendingAnswer = Shared<BoxFuture<'static, Result<ModelResponse, (ErrorKind, String)>>>;

/// Guard that counts a call as in progress until it is dropped.
struct ActiveCall<'a>(&'a ModelProxy);

impl ActiveCall<'_> {
    fn begin(proxy: &ModelProxy) -> ActiveCall<'_> {
        proxy.activity().calls += 1;
        ActiveCall(proxy)
    }
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.calls -= 1;
        activity.since = Instant::now();
    }
}

/// Model that replays the cached answers of a proxy and makes no call.
pub(crate) struct ReplayedAnswers(pub(crate) Arc<ModelProxy>);

#[async_trait]
impl Model for ReplayedAnswers {
    async fn generate(
        &self,
        request: &ModelRequest,
        call: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let key = call.key.unwrap_or_default();
        match self.0.cached_answer(key, request) {
            Some(answer) => answer.await.map_err(|(kind, message)| ModelError::new(kind, message)),
            None => {
                Err(ModelError::new(ErrorKind::Internal, format!("no recorded answer for `{key}`")))
            }
        }
    }
}

impl std::fmt::Debug for ModelProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelProxy").finish_non_exhaustive()
    }
}

impl ModelProxy {
    pub fn new(source: Arc<dyn ModelSource>, job: &DebateSpec) -> ModelProxy {
        let activity = Mutex::new(Activity { calls: 0, since: Instant::now() });
        ModelProxy {
            source,
            allowed_calls: AllowedCalls::of(job),
            answers: Mutex::default(),
            activity,
        }
    }

    /// Answers one model call, which is identified by its key within the debate.
    ///
    /// # Errors
    /// When the call is not allowed, or when it failed. The debate decides whether it can continue without the answer.
    /// If the error ends the whole run, the [`ModelSource`] has also stored the error.
    pub async fn answer(
        &self,
        key: &str,
        request: &ModelRequest,
    ) -> Result<ModelResponse, ModelError> {
        let _active = ActiveCall::begin(self);
        if let Some(complaint) = self.allowed_calls.rejection_reason(key, request) {
            return Err(ModelError::new(ErrorKind::Internal, complaint));
        }
        let answer = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = || {
                let asked = request.fingerprint();
                let (source, key, request) = (self.source.clone(), key.to_owned(), request.clone());
                // The call runs in a separate task, because its caller may be dropped while other callers wait for
                // the same answer. The task is aborted when the last reference to the answer is dropped.
                let task = AbortOnDropHandle::new(tokio::spawn(async move {
                    let answer = source.answer_call(&key, &request).await;
                    answer.map_err(|error| (error.kind(), error.message().to_owned()))
                }));
                let lost = |error| {
                    (ErrorKind::Internal, format!("the task of a model call failed: {error}"))
                };
                (asked, task.map(move |answer| answer.map_err(lost)?).boxed().shared())
            };
            answers.entry(key.to_owned()).or_insert_with(begin).1.clone()
        };
        answer.await.map_err(|(kind, message)| ModelError::new(kind, message))
    }

    /// Resets the idle timer when a debate starts or restarts. Returns the number of model calls of the debate so far.
    pub fn start_attempt(&self) -> usize {
        self.activity().since = Instant::now();
        self.answers()
    }

    /// Returns the number of answers that the debate has requested so far: one for each model call.
    pub fn answers(&self) -> usize {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Time since the last call ended or the debate started; zero while a call is in progress. If this time is long,
    /// the debate no longer makes progress.
    pub(crate) fn idle_time(&self) -> Duration {
        let activity = self.activity();
        if activity.calls > 0 { Duration::ZERO } else { activity.since.elapsed() }
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cached answer to an earlier call with the same key and request, if there was one.
    fn cached_answer(&self, key: &str, request: &ModelRequest) -> Option<PendingAnswer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, answer) = answers.get(key)?;
        (*asked == request.fingerprint()).then(|| answer.clone())
    }
}

/// Lets debates in this process use the proxy directly as their model.
#[async_trait]
impl Model for ModelProxy {
    async fn generate(
        &self,
        request: &ModelRequest,
        call: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        self.answer(call.key.unwrap_or_default(), request).await
    }
}
