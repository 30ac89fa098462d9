//! The [`Model`] trait: the interface through which callers send requests to a language model.

use std::fmt;

use assize_types::Cancel;
use async_trait::async_trait;

use crate::error::ModelError;
use crate::request::ModelRequest;
use crate::response::ModelResponse;

/// A language model that answers requests. Implementations are the gateway, the rehearsal model, and a channel from a
/// sandbox to the host.
#[async_trait]
pub trait Model: Send + Sync {
    /// Sends one request to the model and returns its answer. If [`CallOptions::on_delta`] is set, the answer is also
    /// streamed to that callback.
    async fn generate(
        &self,
        request: &ModelRequest,
        call: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError>;
}

/// Parameters of a call that are not part of the request.
#[derive(Clone, Default)]
pub struct CallOptions<'a> {
    pub cancel: Cancel,
    /// Callback for the pieces of a streamed answer. The answer is streamed only if this callback is set.
    pub on_delta: Option<&'a (dyn Fn(Delta<'_>) + Send + Sync)>,
    /// Key that identifies the call within its run. A model proxy records the call in the run's journal under this key.
    pub key: Option<&'a str>,
}

impl fmt::Debug for CallOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("cancel", &self.cancel)
            .field("streams", &self.on_delta.is_some())
            .field("key", &self.key)
            .finish()
    }
}

/// One piece of a streamed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// The next piece of the answer's text.
    Text(&'a str),
    /// The model is producing output that has no text to show: reasoning, or a part of a tool call.
    Working,
    /// The stream failed and the call is retried: the receiver must discard all pieces received so far.
    Restart,
}
