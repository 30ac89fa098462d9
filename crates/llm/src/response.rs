//! Responses of models, with token usage and cost.

use assize_types::{Cost, Money, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prompt::ToolCall;

/// The answer to one request.
///
/// All fields stay the same when the answer is replayed from a cassette or a journal. A run stores thousands of
/// responses, so fields with their default value are not serialized.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "StopReason::is_end")]
    pub stop: StopReason,
    /// Token counts, if the provider reported them.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "four_figures")]
    pub usage: Option<Usage>,
    pub cost: Cost,
    pub provider: String,
    /// Name of the model that answered, as stated in the provider's response.
    pub model: String,
    /// Whether the provider enforced the schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub schema_enforced: bool,
    /// Whether the rehearsal model answered instead of a real model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// Number of times the request was sent until the provider answered it.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub attempts: u32,
    /// Duration of the original call in milliseconds, including waits and retries. A replayed response has the same
    /// value.
    pub duration_ms: u64,
}

impl ModelResponse {
    /// Sum of the token counts of all responses, or `None` if any response does not report them.
    pub fn total_usage(responses: &[ModelResponse]) -> Option<Usage> {
        responses.iter().try_fold(Usage::default(), |sum, response| Some(sum + response.usage?))
    }

    pub fn total_cost(responses: &[ModelResponse]) -> Cost {
        responses.iter().fold(Cost::Known(Money::ZERO), |sum, response| sum + response.cost)
    }

    pub fn total_attempts(responses: &[ModelResponse]) -> u32 {
        responses.iter().map(|response| response.attempts).sum()
    }

    pub fn total_milliseconds(responses: &[ModelResponse]) -> u64 {
        responses.iter().map(|response| response.duration_ms).sum()
    }
}

/// Totals of several model calls: number of calls, tokens and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTotals {
    pub calls: u64,
    /// Number of calls that were not planned: repeated requests and summaries.
    #[serde(default)]
    pub extra: u64,
    /// Sum of the token counts that the responses report.
    pub usage: Usage,
    pub cost: Cost,
    /// Whether the rehearsal model answered any of the calls.
    pub rehearsal: bool,
}

impl Default for CallTotals {
    fn default() -> CallTotals {
        CallTotals {
            calls: 0,
            extra: 0,
            usage: Usage::default(),
            cost: Cost::Known(Money::ZERO),
            rehearsal: false,
        }
    }
}

impl CallTotals {
    pub fn add(&mut self, response: &ModelResponse) {
        *self = self.plus(CallTotals {
            calls: 1,
            extra: 0,
            usage: response.usage.unwrap_or_default(),
            cost: response.cost,
            rehearsal: response.rehearsal,
        });
    }

    pub fn plus(mut self, other: CallTotals) -> CallTotals {
        self.calls += other.calls;
        self.extra += other.extra;
        self.usage += other.usage;
        self.cost = self.cost + other.cost;
        self.rehearsal |= other.rehearsal;
        self
    }
}

fn once() -> u32 {
    1
}

fn is_once(attempts: &u32) -> bool {
    *attempts == 1
}

impl StopReason {
    fn is_end(&self) -> bool {
        *self == StopReason::End
    }
}

/// Serializes token usage as an array of four numbers: input, cached input, cache write and output tokens.
mod four_figures {
    use assize_types::Usage;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        usage: &Option<Usage>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let figures =
            |usage: Usage| [usage.input, usage.cached_input, usage.cache_write, usage.output];
        usage.map(figures).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Usage>, D::Error> {
        let figures: Option<[u64; 4]> = Option::deserialize(deserializer)?;
        Ok(figures.map(|[input, cached_input, cache_write, output]| Usage {
            input,
            cached_input,
            cache_write,
            output,
        }))
    }
}

/// Why a model stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete.
    #[default]
    End,
    /// The model requests tool calls.
    ToolUse,
    /// The answer reached `max_tokens` and is cut off.
    MaxTokens,
    /// The model, or its provider's filter, declined to answer.
    Refused,
}
