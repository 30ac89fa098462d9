//! One attempt at one call: the seam between the gateway, which decides, and what carries out.

use assize_llm::{ModelError, Request, Response};
use assize_types::{Cost, Usage};
use async_trait::async_trait;

use crate::catalog::ModelFacts;
use crate::dialect::{Encoded, Manner, Reply};
use crate::pace::Left;

/// Takes an answer piece by piece.
pub(crate) type OnText<'a> = &'a (dyn Fn(&str) + Send + Sync);

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

    /// Sends it. `on_text` takes the answer piece by piece, where a stream was asked for.
    async fn send(
        &self,
        encoded: &Encoded,
        request: &Request,
        on_text: Option<OnText<'_>>,
    ) -> Result<Carried, ModelError>;
}

/// An answer, and what its headers said.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) reply: Reply,
    pub(crate) left: Left,
}

impl Carried {
    pub(crate) fn cost(&self, facts: &ModelFacts) -> Cost {
        self.reply.cost.map_or_else(|| facts.cost(&self.usage()), Cost::Known)
    }

    pub(crate) fn usage(&self) -> Usage {
        self.reply.usage
    }

    pub(crate) fn into_response(
        self,
        wire: &dyn Wire,
        schema_enforced: bool,
        attempts: u32,
        duration_ms: u64,
    ) -> Response {
        let cost = self.cost(wire.facts());
        let Reply { text, tool_calls, stop, usage, model, .. } = self.reply;
        Response {
            text,
            tool_calls,
            stop,
            usage,
            cost,
            provider: wire.provider().to_owned(),
            model: model.unwrap_or_else(|| wire.model().to_owned()),
            schema_enforced,
            rehearsal: wire.is_rehearsal(),
            attempts,
            duration_ms,
        }
    }
}
