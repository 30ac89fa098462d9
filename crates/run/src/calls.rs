//! Calls to a model, each of them an effect of the run: made once, and answered from the journal
//! ever after.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use assize_graph::{Context, EffectError, Event, FailedEffect, Key, NodeError, RunError, State};
use assize_llm::{
    Answer, AnswerError, Call, ErrorKind, JsonAsk, Model, ModelError, ModelExt, PrefixHasher,
    Request, Response, Spent, Stop,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A call that got no answer, as it is written down.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
struct CallFailure {
    kind: ErrorKind,
    message: String,
}

/// A model as one step of a run sees it. What is asked more than once for one answer is kept under the
/// step's key and a number.
pub struct Asking<'a, S: State> {
    context: &'a Context<S>,
    model: &'a dyn Model,
    key: String,
    /// Makes what is told once the first answer is there.
    tell: Option<Tell<'a>>,
    /// Hashes what the requests of one conversation share.
    hasher: Option<&'a PrefixHasher>,
    /// Whether a model that declines has failed, so that it can be asked again.
    insists: bool,
    /// Whether nobody had planned this call.
    is_extra: bool,
    held: Mutex<Held>,
}

type Tell<'a> = Box<dyn Fn() -> Option<Event> + Send + Sync + 'a>;

#[derive(Default)]
struct Held {
    calls: u32,
    /// Whether a model was asked, and not the journal alone.
    asked: bool,
    spent: Spent,
    /// The run is over; a model has no words for that.
    stop: Option<RunError>,
    /// The last call failed, and nobody has decided yet what that means.
    failed: Option<FailedEffect<CallFailure>>,
}

impl<S: State> std::fmt::Debug for Asking<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<'a, S: State> Asking<'a, S> {
    pub fn new(context: &'a Context<S>, model: &'a dyn Model, key: impl Into<String>) -> Self {
        Asking {
            context,
            model,
            key: key.into(),
            tell: None,
            hasher: None,
            insists: false,
            is_extra: false,
            held: Mutex::default(),
        }
    }

    /// What to tell with the first answer. It is only made where it is heard.
    #[must_use]
    pub fn telling(mut self, tell: impl Fn() -> Option<Event> + Send + Sync + 'a) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Computes fingerprints of requests with a hasher that knows the turns before.
    #[must_use]
    pub fn hashed_by(mut self, hasher: &'a PrefixHasher) -> Self {
        self.hasher = Some(hasher);
        self
    }

    /// Takes no refusal for an answer.
    #[must_use]
    pub fn insisting(mut self) -> Self {
        self.insists = true;
        self
    }

    /// Counts as a call that nobody had planned.
    #[must_use]
    pub fn extra(mut self) -> Self {
        self.is_extra = true;
        self
    }

    pub fn context(&self) -> &'a Context<S> {
        self.context
    }

    /// Asks for one answer. The inner failure is one that the run may go on from.
    pub async fn answer(
        &self,
        request: &Request,
    ) -> Result<Result<Response, ModelError>, NodeError> {
        let answer = self.generate(request, self.call()).await;
        self.still_going()?;
        Ok(answer)
    }

    /// Asks for a value.
    pub async fn value<T>(
        &self,
        ask: JsonAsk<'_, T>,
    ) -> Result<Result<Answer<T>, AnswerError>, NodeError>
    where
        T: DeserializeOwned + JsonSchema + Send + Sync,
    {
        let answer = self.generate_json(ask, self.call()).await;
        self.still_going()?;
        Ok(answer)
    }

    fn call(&self) -> Call<'a> {
        Call { cancel: self.context.cancel().clone(), on_delta: None, key: None }
    }

    /// Goes on although the last call failed, which is written down.
    pub async fn go_on(&self) -> Result<(), RunError> {
        let failed = self.held().failed.take();
        if let Some(failed) = failed {
            self.context.go_on(failed).await?;
        }
        Ok(())
    }

    /// What the last call said, if it failed and its failure is not journalled.
    pub fn failure(&self) -> Option<String> {
        self.held().failed.as_ref().map(|failed| failed.error.message.clone())
    }

    /// Whether the run was over in the middle of it.
    fn still_going(&self) -> Result<(), NodeError> {
        match self.held().stop.take() {
            Some(error) => Err(NodeError::Stop(error)),
            None => Ok(()),
        }
    }

    /// Whether a model was asked by it, and not the journal alone.
    pub fn asked(&self) -> bool {
        self.held().asked
    }

    pub fn spent(&self) -> Spent {
        self.held().spent
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failure of a model that declined.
pub fn declined() -> ModelError {
    ModelError::new(ErrorKind::Declined, "the model declined to answer")
}

#[async_trait]
impl<S: State> Model for Asking<'_, S> {
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        let (key, again) = {
            let mut held = self.held();
            held.calls += 1;
            match held.calls {
                1 => (Cow::Borrowed(self.key.as_str()), false),
                number => (Cow::Owned(format!("{}-{number}", self.key)), true),
            }
        };
        let mut original = None;
        // What can be no name is refused by the effect.
        let name = self.context.key(&key).ok();
        let call = Call { key: name.as_ref().map(Key::as_str), ..call };
        let asked = async {
            self.held().asked = true;
            let answer = match self.model.generate(request, call).await {
                Ok(response) if self.insists && response.stop == Stop::Refused => Err(declined()),
                answer => answer,
            };
            answer.map_err(|error| {
                let failure =
                    CallFailure { kind: error.kind(), message: error.message().to_owned() };
                original = Some(error);
                failure
            })
        };
        let tell = |_: &Response| {
            let first = self.tell.as_ref().filter(|_| !again);
            first.and_then(|tell| tell()).into_iter().collect()
        };
        let fingerprint = || match self.hasher {
            Some(hasher) => hasher.fingerprint(request),
            None => request.fingerprint(),
        };
        let outcome = self.context.effect(&key, fingerprint, asked, tell).await;
        let mut held = self.held();
        match outcome {
            Ok(response) => {
                held.spent.add(&response);
                held.spent.extra += u64::from(again || self.is_extra);
                Ok(response)
            }
            Err(EffectError::Failed(failed)) => {
                let CallFailure { kind, message } = failed.error.clone();
                held.failed = Some(failed);
                Err(original.unwrap_or_else(|| ModelError::new(kind, message)))
            }
            Err(EffectError::Stop(error)) => {
                held.stop = Some(error);
                Err(ModelError::new(ErrorKind::Cancelled, "the run is over"))
            }
        }
    }
}
