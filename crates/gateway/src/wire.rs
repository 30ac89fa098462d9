//! One attempt at one call: the seam between the gateway, which decides, and what carries out.

use std::time::Duration;

use assize_llm::{ModelError, Request};
use async_trait::async_trait;

use crate::catalog::ModelFacts;
use crate::dialect::{Encoded, Manner, Reply};
use crate::pace::Left;

/// Takes an answer piece by piece.
pub(crate) type OnText<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Notes that an answer grows without text to show.
pub(crate) type OnProgress<'a> = &'a (dyn Fn() + Send + Sync);

/// Takes what a provider says is left of its limits, as soon as it says so.
pub(crate) type Learn<'a> = &'a (dyn Fn(Left) + Send + Sync);

/// The circumstances of one attempt.
#[derive(Clone, Copy)]
pub(crate) struct Sending<'a> {
    /// Set where a stream was asked for.
    pub(crate) on_text: Option<OnText<'a>>,
    /// Called when a stream goes on without text: reasoning, or a part of a tool call.
    pub(crate) on_progress: OnProgress<'a>,
    pub(crate) learn: Learn<'a>,
    /// How long a stream may take to its first text or other progress.
    pub(crate) start_timeout: Duration,
    /// How long a stream may be silent from then on. What is not streamed is timed by whoever waits for it.
    pub(crate) patience: Duration,
}

/// Carries requests to something that answers. It makes one attempt and never waits to make another.
#[async_trait]
pub(crate) trait Wire: Send + Sync + std::fmt::Debug {
    fn provider(&self) -> &str;

    fn model(&self) -> &str;

    fn facts(&self) -> &ModelFacts;

    fn is_rehearsal(&self) -> bool {
        false
    }

    /// The request as it will be sent.
    fn encode(&self, request: &Request, manner: Manner) -> Result<Encoded, ModelError>;

    async fn send(
        &self,
        encoded: &Encoded,
        request: &Request,
        sending: Sending<'_>,
    ) -> Result<Reply, ModelError>;
}
