//! What a model answered, with all that an honest account of it needs.

use assize_types::{Cost, Money, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prompt::ToolCall;

/// The answer to one request.
///
/// It holds nothing that differs when the same answer is played back from a cassette or a journal.
/// Thousands of them are kept, so what is as usual is left out when it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Stop::is_end")]
    pub stop: Stop,
    /// The tokens, where the provider said how many there were.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "four_figures")]
    pub usage: Option<Usage>,
    pub cost: Cost,
    pub provider: String,
    /// The model that answered, as the provider names it.
    pub model: String,
    /// Whether the provider itself held the answer to the schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub schema_enforced: bool,
    /// No model was asked: the answer is a rehearsal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// How often the call was sent until it was answered.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub attempts: u32,
    /// How long the call took, waiting and retries included, when it was first made.
    pub duration_ms: u64,
}

impl Response {
    /// The tokens of several responses, if all of them said.
    pub fn total_usage(responses: &[Response]) -> Option<Usage> {
        responses.iter().try_fold(Usage::default(), |sum, response| Some(sum + response.usage?))
    }

    pub fn total_cost(responses: &[Response]) -> Cost {
        responses.iter().fold(Cost::Known(Money::ZERO), |sum, response| sum + response.cost)
    }

    pub fn total_attempts(responses: &[Response]) -> u32 {
        responses.iter().map(|response| response.attempts).sum()
    }

    pub fn total_milliseconds(responses: &[Response]) -> u64 {
        responses.iter().map(|response| response.duration_ms).sum()
    }
}

/// What several calls took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CallTotals")]
pub struct Spent {
    pub calls: u64,
    /// Of these, those beyond the plan: what had to be asked again, and summaries.
    #[serde(default)]
    pub extra: u64,
    /// Of the calls that said.
    pub usage: Usage,
    pub cost: Cost,
    /// Whether any answer is a rehearsal.
    pub rehearsal: bool,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent {
            calls: 0,
            extra: 0,
            usage: Usage::default(),
            cost: Cost::Known(Money::ZERO),
            rehearsal: false,
        }
    }
}

impl Spent {
    pub fn add(&mut self, response: &Response) {
        *self = self.plus(Spent {
            calls: 1,
            extra: 0,
            usage: response.usage.unwrap_or_default(),
            cost: response.cost,
            rehearsal: response.rehearsal,
        });
    }

    pub fn plus(mut self, other: Spent) -> Spent {
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

impl Stop {
    fn is_end(&self) -> bool {
        *self == Stop::End
    }
}

/// Usage as input, cached input, cache write and output.
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
pub enum Stop {
    /// It was done.
    #[default]
    End,
    /// It wants its tools called.
    ToolUse,
    /// It reached `max_tokens`: the answer is cut off.
    MaxTokens,
    /// It, or its provider's filter, declined to answer.
    Refused,
}
