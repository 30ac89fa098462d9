//! Estimates the tokens and the cost of a request before it is sent.
//!
//! There are three estimates of the number of input tokens: a likely number for display, a high number to choose the
//! size of context windows, and an upper bound to reserve money.

use assize_llm::ModelRequest;
use assize_types::Cost;

use crate::catalog::ModelFacts;

/// Number of tokens added for input that is not in the request: the instructions of providers for tools and schemas,
/// and an adapter's instruction for a schema that the provider cannot enforce.
const HIDDEN_TOKENS: u64 = 1024;

/// Number of tokens added for the framing of each message.
const TURN_TOKENS: u64 = 32;

/// Likely number of tokens of an English text: one token per four bytes.
pub(crate) fn likely_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

/// High estimate of a request's input tokens. It counts one token for three ASCII letters or spaces, one token for each
/// digit or other ASCII character, and one token for two bytes of other scripts.
pub(crate) fn high_input_tokens(request: &ModelRequest) -> u64 {
    let (mut letters, mut others, mut foreign) = (0, 0, 0);
    each_text(request, &mut |text| {
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b' ' => letters += 1u64,
                128.. => foreign += 1u64,
                _ => others += 1u64,
            }
        }
    });
    letters.div_ceil(3) + others + foreign.div_ceil(2) + 256
}

/// Minimum number of tokens that must remain for the answer. If fewer remain, the prompt counts as too long.
const MIN_ANSWER: u64 = 128;

/// How a server handles a prompt that is longer than its context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The server silently truncates the prompt.
    Truncates,
    /// The server rejects the request.
    Rejects,
}

/// Error of a prompt that does not fit the context window, with the needed and the available number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromptTooLong {
    pub(crate) needed: u64,
    pub(crate) window: u64,
}

/// Returns the maximum length of the answer in tokens, so that prompt and answer together fit the context window
/// `window`.
///
/// Returns an error if the prompt is too long. For a server that truncates long prompts, this function uses the high
/// estimate of the prompt's tokens. For a server that rejects long prompts, it uses a lower bound (one token per eight
/// bytes), because that server counts the tokens exactly and reports an error itself.
pub(crate) fn max_answer_tokens(
    request: &ModelRequest,
    window: u64,
    overflow: Overflow,
) -> Result<u32, PromptTooLong> {
    let requested = u64::from(request.max_tokens);
    let min_answer = requested.min(MIN_ANSWER);
    let generous = high_input_tokens(request);
    let (least, room) = match overflow {
        Overflow::Truncates => (generous, window.saturating_sub(generous)),
        Overflow::Rejects => {
            let likely = window.saturating_sub(likely_input_tokens(request));
            // Lower bound of the input tokens: texts rarely have fewer than one token per eight bytes.
            let least = text_bytes(request) / 8;
            // A small answer limit is better than a request that the server rejects as too long.
            (least, window.saturating_sub(generous).max(likely.min(window / 4)))
        }
    };
    if least + min_answer > window {
        return Err(PromptTooLong { needed: least + min_answer, window });
    }
    Ok(requested.min(room.max(min_answer)) as u32)
}

/// Upper bound of a request's input tokens: no tokenizer produces more than one token per byte.
pub(crate) fn max_input_tokens(request: &ModelRequest) -> u64 {
    let turns = request.prompt.blocks.len() + request.prompt.transcript.len() + request.tools.len();
    text_bytes(request) + TURN_TOKENS * turns as u64 + HIDDEN_TOKENS
}

/// Likely number of a request's input tokens.
pub(crate) fn likely_input_tokens(request: &ModelRequest) -> u64 {
    likely_tokens(text_bytes(request))
}

/// Size of all texts in a request, in bytes.
pub(crate) fn text_bytes(request: &ModelRequest) -> u64 {
    let mut bytes = 0;
    each_text(request, &mut |text| bytes += text.len() as u64);
    bytes
}

/// Calls `visit` with every text of a request.
fn each_text(request: &ModelRequest, visit: &mut dyn FnMut(&str)) {
    request.prompt.each_text(visit);
    for tool in &request.tools {
        visit(&tool.description);
        visit(&tool.parameters.to_string());
    }
    if let Some(schema) = &request.schema {
        visit(&schema.value.to_string());
    }
}

/// Estimated calls, tokens and cost of a run or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost: Cost,
    /// Highest possible cost of a request without retries. In an estimate by [`Estimate::of_calls`], equal to `cost`.
    pub max_cost: Cost,
    /// Cost if nine tenths of the input tokens are read from the provider's cache.
    pub cached: Cost,
}

impl Estimate {
    /// Formats the cost as a phrase that follows a number of calls: `at about $1.20` or `at an unknown cost`.
    pub fn cost_phrase(&self) -> String {
        match self.cost.known() {
            Some(_) => format!("at about {}", self.cost),
            None => "at an unknown cost".to_owned(),
        }
    }

    /// Estimates one request. The output is assumed to be a quarter of its maximum length.
    pub fn of_request(facts: &ModelFacts, request: &ModelRequest) -> Estimate {
        let output = u64::from(request.max_tokens);
        let likely = Estimate::of_calls(facts, 1, likely_input_tokens(request), output / 4);
        Estimate { max_cost: facts.cost_at_most(max_input_tokens(request), output), ..likely }
    }

    /// Estimates `calls` calls with this many input and output tokens in total.
    pub fn of_calls(facts: &ModelFacts, calls: u64, input: u64, output: u64) -> Estimate {
        let usage = assize_types::Usage { input, output, ..assize_types::Usage::default() };
        let cost = facts.cost(&usage);
        let (cached_input, cache_write) = (input / 10 * 9, input / 20);
        let cached = facts.cost(&assize_types::Usage { input, cached_input, cache_write, output });
        Estimate { calls, input_tokens: input, output_tokens: output, cost, max_cost: cost, cached }
    }

    /// Sum of two estimates.
    pub fn plus(self, other: Estimate) -> Estimate {
        Estimate {
            calls: self.calls + other.calls,
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            cost: self.cost + other.cost,
            max_cost: self.max_cost + other.max_cost,
            cached: self.cached + other.cached,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Endpoint;
    use assize_config::Provider;

    #[test]
    fn estimated_cost_never_exceeds_the_maximum_cost() {
        let facts = ModelFacts::of(&Endpoint::new(Provider::Anthropic));
        for length in [0, 10, 10_000, 1_000_000] {
            let estimate =
                Estimate::of_request(&facts, &ModelRequest::question("x".repeat(length)));
            let (Cost::Known(likely), Cost::Known(max)) = (estimate.cost, estimate.max_cost) else {
                panic!("the price of the default model must be known");
            };
            assert!(likely <= max, "{length} B: likely cost {likely} > maximum {max}");
        }
    }

    #[test]
    fn max_answer_tokens_is_reduced_to_the_remaining_context_window() {
        let request = |bytes: usize, max_tokens: u32| ModelRequest {
            max_tokens,
            ..ModelRequest::question("x".repeat(bytes))
        };
        for overflow in [Overflow::Truncates, Overflow::Rejects] {
            assert_eq!(max_answer_tokens(&request(300, 500), 100_000, overflow), Ok(500));
            assert_eq!(
                max_answer_tokens(&request(300, 4096), 2048, overflow),
                Ok(2048 - 100 - 256)
            );
            assert_eq!(max_answer_tokens(&request(300, 10), 2048, overflow), Ok(10));
            let long = max_answer_tokens(&request(40_000, 4096), 2048, overflow).unwrap_err();
            assert!(long.needed > 2048 && long.window == 2048, "{long:?}");
        }
        // At three bytes per token the prompt is too long, and at four bytes per token it fits. So the estimates
        // differ.
        let near = request(6_000, 4096);
        assert!(max_answer_tokens(&near, 2048, Overflow::Truncates).is_err());
        let room = max_answer_tokens(&near, 2048, Overflow::Rejects).unwrap();
        assert!((128..=512).contains(&room), "{room}");
    }

    #[test]
    fn estimated_cost_is_unknown_if_the_price_is_unknown() {
        let endpoint = Endpoint { model: "mine".into(), ..Endpoint::new(Provider::OpenAi) };
        let estimate =
            Estimate::of_request(&ModelFacts::of(&endpoint), &ModelRequest::question("hi"));
        assert_eq!((estimate.cost, estimate.max_cost), (Cost::Unknown, Cost::Unknown));
    }
}
