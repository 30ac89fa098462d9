//! How many tokens a request may take, before it is sent.
//!
//! Three figures for three purposes: a likely one to show, a generous one to size a window by, and
//! one that cannot be exceeded to reserve money by.

use assize_llm::Request;
use assize_types::Cost;

use crate::catalog::ModelFacts;

/// What providers add of their own (instructions for tools and schemas), and we for a schema that
/// the provider cannot enforce.
const HIDDEN_TOKENS: u64 = 1024;

/// What frames each message.
const TURN_TOKENS: u64 = 32;

/// Tokens of ordinary English text, about one for four bytes.
pub(crate) fn likely_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

/// More tokens than a request's input is at all likely to have. Figures are counted digit by digit,
/// as some tokenizers do, and other scripts at more than a token for a character.
pub(crate) fn generous_input_tokens(request: &Request) -> u64 {
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

/// The most tokens that a request's input can be: no tokenizer makes more than one of a byte.
pub(crate) fn most_input_tokens(request: &Request) -> u64 {
    let turns = request.prompt.blocks.len() + request.prompt.transcript.len() + request.tools.len();
    text_bytes(request) + TURN_TOKENS * turns as u64 + HIDDEN_TOKENS
}

/// Tokens that a request's input is likely to have.
pub(crate) fn likely_input_tokens(request: &Request) -> u64 {
    likely_tokens(text_bytes(request))
}

/// The bytes of all the text in a request.
pub(crate) fn text_bytes(request: &Request) -> u64 {
    let mut bytes = 0;
    each_text(request, &mut |text| bytes += text.len() as u64);
    bytes
}

/// Shows `look` every piece of text that a request sends.
fn each_text(request: &Request, look: &mut dyn FnMut(&str)) {
    request.prompt.each_text(look);
    for tool in &request.tools {
        look(&tool.description);
        look(&tool.parameters.to_string());
    }
    if let Some(schema) = &request.schema {
        look(&schema.value.to_string());
    }
}

/// What a piece of work will take, told before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost: Cost,
    /// The most it can cost if nothing is asked twice.
    pub at_most: Cost,
    /// What it costs where nine tenths of the input are read from the provider's cache.
    pub cached: Cost,
}

impl Estimate {
    /// The estimate for one request: output is likely to be a quarter of what is allowed.
    pub fn of_request(facts: &ModelFacts, request: &Request) -> Estimate {
        let output = u64::from(request.max_tokens);
        let likely = Estimate::of_calls(facts, 1, likely_input_tokens(request), output / 4);
        likely.bounded(facts, most_input_tokens(request), output)
    }

    /// The estimate for `calls` calls with so many tokens in all.
    pub fn of_calls(facts: &ModelFacts, calls: u64, input: u64, output: u64) -> Estimate {
        let usage = assize_types::Usage { input, output, ..assize_types::Usage::default() };
        let cost = facts.cost(&usage);
        let (cached_input, cache_write) = (input / 10 * 9, input / 20);
        let cached = facts.cost(&assize_types::Usage { input, cached_input, cache_write, output });
        Estimate { calls, input_tokens: input, output_tokens: output, cost, at_most: cost, cached }
    }

    /// Both together.
    pub fn plus(self, other: Estimate) -> Estimate {
        Estimate {
            calls: self.calls + other.calls,
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            cost: self.cost + other.cost,
            at_most: self.at_most + other.at_most,
            cached: self.cached + other.cached,
        }
    }

    fn bounded(mut self, facts: &ModelFacts, input: u64, output: u64) -> Estimate {
        self.at_most =
            facts.price.map_or(Cost::Unknown, |price| Cost::Known(price.at_most(input, output)));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Endpoint, Provider};

    #[test]
    fn an_estimate_never_exceeds_its_own_bound() {
        let facts = ModelFacts::of(&Endpoint::new(Provider::Anthropic));
        for length in [0, 10, 10_000, 1_000_000] {
            let estimate = Estimate::of_request(&facts, &Request::question("x".repeat(length)));
            let (Cost::Known(likely), Cost::Known(most)) = (estimate.cost, estimate.at_most) else {
                panic!("the price is known");
            };
            assert!(likely <= most, "{length}: {likely} > {most}");
        }
    }

    #[test]
    fn an_unknown_price_gives_no_figure() {
        let endpoint = Endpoint { model: "mine".into(), ..Endpoint::new(Provider::OpenAi) };
        let estimate = Estimate::of_request(&ModelFacts::of(&endpoint), &Request::question("hi"));
        assert_eq!((estimate.cost, estimate.at_most), (Cost::Unknown, Cost::Unknown));
    }
}
