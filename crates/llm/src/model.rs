//! The [`Model`] trait, which all callers and all model backends share.

use std::fmt;

use assize_types::Cancel;
use async_trait::async_trait;

use crate::error::ModelError;
use crate::request::ModelRequest;
use crate::response::ModelResponse;

/// Answers requests: a gateway, the rehearsal model, or a channel from a sandbox to the host.
#[async_trait]
pub trait Model: Send + Sync {
    /// Answers one request, and streams the answer to [`Call::on_delta`] if that is set.
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
    /// Callback for the pieces of a streamed answer. If it is set, the answer is streamed.
    pub on_delta: Option<&'a (dyn Fn(Delta<'_>) + Send + Sync)>,
    /// Key of the call in its run, for a model proxy that journals calls under it.
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
    /// More text.
    Text(&'a str),
    /// Progress without text to show: reasoning, or a part of a tool call.
    Working,
    /// The stream broke and the call is retried: discard all pieces received so far.
    Restart,
}
