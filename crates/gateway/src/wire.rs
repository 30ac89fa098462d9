//! The [`Transport`] trait: transport for one attempt of a call, over HTTP or to the rehearsal model.

use std::time::Duration;

use assize_llm::{ModelError, ModelRequest};
use async_trait::async_trait;

use crate::catalog::ModelFacts;
use crate::dialect::{EncodeOptions, EncodedRequest, ProviderReply};
use crate::pace::RemainingLimits;

/// Callback for the text pieces of a streamed answer.
pub(crate) type OnText<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Callback for progress of an answer without text to show.
pub(crate) type OnProgress<'a> = &'a (dyn Fn() + Send + Sync);

/// Callback for the remaining rate limits that a provider reports in its headers.
pub(crate) type OnRemaining<'a> = &'a (dyn Fn(RemainingLimits) + Send + Sync);

/// Callbacks and timeouts of one attempt.
#[derive(Clone, Copy)]
pub(crate) struct SendOptions<'a> {
    /// Callback for text; set if the answer is streamed.
    pub(crate) on_text: Option<OnText<'a>>,
    /// Called when a stream makes progress without text: reasoning, or a part of a tool call.
    pub(crate) on_progress: OnProgress<'a>,
    pub(crate) learn: OnRemaining<'a>,
    /// Timeout until the first text or other progress of a stream.
    pub(crate) start_timeout: Duration,
    /// Maximum silence of a stream after that. For answers that are not streamed, the gateway sets the timeout.
    pub(crate) patience: Duration,
}

/// Transport to a model. It makes one attempt per call and never retries.
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
        manner: EncodeOptions,
    ) -> Result<EncodedRequest, ModelError>;

    async fn send(
        &self,
        encoded: &EncodedRequest,
        request: &ModelRequest,
        sending: SendOptions<'_>,
    ) -> Result<ProviderReply, ModelError>;
}
