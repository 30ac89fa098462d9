//! Model calls as effects of a run: each call is made once and recorded in the journal, and a
//! resumed run replays the recorded answer.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use assize_graph::{
    Context, EffectError, EffectKey, FailedEffect, GraphEvent, NodeError, RunError, State,
};
use assize_llm::{
    AnswerError, CallOptions, CallTotals, ErrorKind, JsonRequest, Model, ModelError, ModelExt,
    ModelRequest, ModelResponse, PrefixHasher, StopReason, TypedAnswer,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Error of a failed model call, in the form that the journal stores.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
struct CallFailure {
    kind: ErrorKind,
    message: String,
}

/// Model that one step of a run calls. Every call is recorded as an effect: the first call under the key of the step,
/// and each further call under that key with a number appended.
pub struct JournaledModel<'a, S: State> {
    context: &'a Context<S>,
    model: &'a dyn Model,
    key: String,
    /// Callback that creates the event that is emitted with the first answer of the model.
    make_event: Option<MakeEvent<'a>>,
    /// Caches the hash of the common prefix of the requests in one conversation.
    hasher: Option<&'a PrefixHasher>,
    /// Whether a model's refusal to answer counts as a failed call, which can be retried.
    refusal_is_failure: bool,
    /// Whether calls count as extra calls in the totals, that is, in addition to the planned calls.
    is_extra: bool,
    progress: Mutex<Progress>,
}

type MakeEvent<'a> = Box<dyn Fn() -> Option<GraphEvent> + Send + Sync + 'a>;

#[derive(Default)]
struct Progress {
    calls: u32,
    /// Whether at least one call was sent to the model and not answered from the journal.
    sent_any_call: bool,
    spent: CallTotals,
    /// Error that stops the run. It is stored here because a `ModelError` cannot contain a `RunError`.
    stop: Option<RunError>,
    /// The last model call, if it failed and its failure is not in the journal yet.
    failed: Option<FailedEffect<CallFailure>>,
}

impl<S: State> std::fmt::Debug for JournaledModel<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournaledModel").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<'a, S: State> JournaledModel<'a, S> {
    pub fn new(context: &'a Context<S>, model: &'a dyn Model, key: impl Into<String>) -> Self {
        JournaledModel {
            context,
            model,
            key: key.into(),
            make_event: None,
            hasher: None,
            refusal_is_failure: false,
            is_extra: false,
            progress: Mutex::default(),
        }
    }

    /// Emits an event with the first answer of the model. `make_event` is called only if the run has an observer.
    #[must_use]
    pub fn with_event(
        mut self,
        make_event: impl Fn() -> Option<GraphEvent> + Send + Sync + 'a,
    ) -> Self {
        self.make_event = Some(Box::new(make_event));
        self
    }

    /// Computes the fingerprints of requests with a hasher that caches the hash of the conversation's earlier messages.
    #[must_use]
    pub fn hashed_by(mut self, hasher: &'a PrefixHasher) -> Self {
        self.hasher = Some(hasher);
        self
    }

    /// Treats a model's refusal to answer as a failed call.
    #[must_use]
    pub fn refusal_is_failure(mut self) -> Self {
        self.refusal_is_failure = true;
        self
    }

    /// Marks the calls of this model as extra calls: the totals of the run count them apart from the planned calls.
    #[must_use]
    pub fn extra(mut self) -> Self {
        self.is_extra = true;
        self
    }

    pub fn context(&self) -> &'a Context<S> {
        self.context
    }

    /// Requests one answer from the model. The inner error is a failed call, after which the run may continue. The
    /// outer error stops the run.
    pub async fn request_answer(
        &self,
        request: &ModelRequest,
    ) -> Result<Result<ModelResponse, ModelError>, NodeError> {
        let answer = self.generate(request, self.call()).await;
        self.check_stopped()?;
        Ok(answer)
    }

    /// Requests a value of type `T` from the model, as JSON. The inner error is a failed call, after which the run may
    /// continue. The outer error stops the run.
    pub async fn request_json<T>(
        &self,
        ask: JsonRequest<'_, T>,
    ) -> Result<Result<TypedAnswer<T>, AnswerError>, NodeError>
    where
        T: DeserializeOwned + JsonSchema + Send + Sync,
    {
        let answer = self.generate_json(ask, self.call()).await;
        self.check_stopped()?;
        Ok(answer)
    }

    fn call(&self) -> CallOptions<'a> {
        CallOptions { cancel: self.context.cancel().clone(), on_delta: None, key: None }
    }

    /// Records the failure of the last model call in the journal, so that the run can continue without an answer to
    /// this call.
    pub async fn record_failure(&self) -> Result<(), RunError> {
        let failed = self.progress().failed.take();
        if let Some(failed) = failed {
            self.context.record_failure(failed).await?;
        }
        Ok(())
    }

    /// Error message of the last model call, if it failed and its failure is not in the journal yet.
    pub fn failure(&self) -> Option<String> {
        self.progress().failed.as_ref().map(|failed| failed.error.message.clone())
    }

    /// Returns an error if the run was stopped during the last model call.
    fn check_stopped(&self) -> Result<(), NodeError> {
        match self.progress().stop.take() {
            Some(error) => Err(NodeError::Stop(error)),
            None => Ok(()),
        }
    }

    /// Whether at least one call was sent to the model and not answered from the journal.
    pub fn sent_any_call(&self) -> bool {
        self.progress().sent_any_call
    }

    pub fn spent(&self) -> CallTotals {
        self.progress().spent
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the error for a model that refused to answer.
pub fn refusal_error() -> ModelError {
    ModelError::new(ErrorKind::Declined, "the model declined to answer")
}

#[async_trait]
impl<S: State> Model for JournaledModel<'_, S> {
    async fn generate(
        &self,
        request: &ModelRequest,
        call: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let (key, again) = {
            let mut progress = self.progress();
            progress.calls += 1;
            match progress.calls {
                1 => (Cow::Borrowed(self.key.as_str()), false),
                number => (Cow::Owned(format!("{}-{number}", self.key)), true),
            }
        };
        let mut original = None;
        // An invalid key is ignored here: the call of `effect` below reports it.
        let name = self.context.key(&key).ok();
        let call = CallOptions { key: name.as_ref().map(EffectKey::as_str), ..call };
        let asked = async {
            self.progress().sent_any_call = true;
            let answer = match self.model.generate(request, call).await {
                Ok(response) if self.refusal_is_failure && response.stop == StopReason::Refused => {
                    Err(refusal_error())
                }
                answer => answer,
            };
            answer.map_err(|error| {
                let failure =
                    CallFailure { kind: error.kind(), message: error.message().to_owned() };
                original = Some(error);
                failure
            })
        };
        let events = |_: &ModelResponse| {
            let first = self.make_event.as_ref().filter(|_| !again);
            first.and_then(|make_event| make_event()).into_iter().collect()
        };
        let fingerprint = || match self.hasher {
            Some(hasher) => hasher.fingerprint(request),
            None => request.fingerprint(),
        };
        let outcome = self.context.effect(&key, fingerprint, asked, events).await;
        let mut progress = self.progress();
        match outcome {
            Ok(response) => {
                progress.spent.add(&response);
                progress.spent.extra += u64::from(again || self.is_extra);
                Ok(response)
            }
            Err(EffectError::Failed(failed)) => {
                let CallFailure { kind, message } = failed.error.clone();
                progress.failed = Some(failed);
                Err(original.unwrap_or_else(|| ModelError::new(kind, message)))
            }
            Err(EffectError::Stop(error)) => {
                progress.stop = Some(error);
                Err(ModelError::new(ErrorKind::Cancelled, "the run was stopped during the call"))
            }
        }
    }
}
