//! The one trait that stands between whoever asks and whoever answers.

use std::fmt;

use assize_types::Cancel;
use async_trait::async_trait;

use crate::error::ModelError;
use crate::request::Request;
use crate::response::Response;

/// Something that answers requests: a gateway, a rehearsal, a channel out of a sandbox.
#[async_trait]
pub trait Model: Send + Sync {
    /// Answers one request, streaming it to [`Call::on_delta`] if that is set.
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError>;
}

/// The circumstances of a call, which are no part of what is asked.
#[derive(Clone, Default)]
pub struct Call<'a> {
    pub cancel: Cancel,
    /// Takes the answer piece by piece as it is written. Setting it asks for a stream.
    pub on_delta: Option<&'a (dyn Fn(Delta<'_>) + Send + Sync)>,
    /// What it is called in its run, for a model that is asked through somebody who keeps account.
    pub key: Option<&'a str>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("cancel", &self.cancel)
            .field("streams", &self.on_delta.is_some())
            .field("key", &self.key)
            .finish()
    }
}

/// A piece of an answer on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// The answer grows without text to show: reasoning, or a part of a tool call.
    Working,
    /// The stream broke and the call is sent again: what came so far does not count.
    Restart,
}
