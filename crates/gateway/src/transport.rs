//! The [`Transport`] trait: sends one attempt of a model call, over HTTP or to the rehearsal model.

use std::time::Duration;

use assize_llm::{ModelError, ModelRequest};
use async_trait::async_trait;

use crate::adapter::{EncodeOptions, EncodedRequest, ProviderReply};
use crate::catalog::ModelFacts;
use crate::rate_limiter::RemainingLimits;

/// Callback for the text pieces of a streamed answer.
pub(crate) type OnText<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Callback for each piece of a streamed answer that contains no text to show, only reasoning or a part of a tool call.
pub(crate) type OnProgress<'a> = &'a (dyn Fn() + Send + Sync);

/// Callback for the remaining rate limits that a provider reports in its headers.
pub(crate) type OnRemaining<'a> = &'a (dyn Fn(RemainingLimits) + Send + Sync);

/// Callbacks and timeouts of one attempt of a model call.
#[derive(Clone, Copy)]
pub(crate) struct SendOptions<'a> {
    /// Callback for the text pieces. The answer is streamed only if this callback is set.
    pub(crate) on_text: Option<OnText<'a>>,
    /// Callback for each piece of the stream that contains no text to show, only reasoning or a part of a tool call.
    pub(crate) on_progress: OnProgress<'a>,
    /// Callback for the remaining rate limits in the response headers.
    pub(crate) on_remaining: OnRemaining<'a>,
    /// Timeout until the first text or other progress of a stream.
    pub(crate) start_timeout: Duration,
    /// Maximum time without data in a stream that has started. Applies only to streamed answers. The gateway limits the
    /// duration of all other answers.
    pub(crate) idle_timeout: Duration,
}

/// Connection to a model. [`Transport::send`] sends a request once and never retries.
#[async_trait]
pub(crate) trait Transport: Send + Sync + std::fmt::Debug {
    fn provider(&self) -> &str;

    fn model(&self) -> &str;

    fn facts(&self) -> &ModelFacts;

    fn is_rehearsal(&self) -> bool {
        false
    }

    /// Encodes the request in the provider's wire format.
    fn encode(
        &self,
        request: &ModelRequest,
        encode_options: EncodeOptions,
    ) -> Result<EncodedRequest, ModelError>;

    async fn send(
        &self,
        encoded: &EncodedRequest,
        request: &ModelRequest,
        sending: SendOptions<'_>,
    ) -> Result<ProviderReply, ModelError>;
}
