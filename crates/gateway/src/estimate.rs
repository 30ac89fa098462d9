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

/// The shortest answer that is worth a call, in tokens.
const SMALLEST_ANSWER: u64 = 128;

/// What a server does with a prompt that is longer than its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// It cuts the prompt without a word.
    Cuts,
    /// It refuses the request.
    Refuses,
}

/// A prompt that does not fit a context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub(crate) needed: u64,
    pub(crate) window: u64,
}

/// How long the answer may be so that prompt and answer fit `window` together.
///
/// Before a server that cuts, a prompt must fit by the generous estimate. One that refuses knows the exact
/// number, so that only a prompt is turned down here that cannot fit by any count.
pub(crate) fn answer_room(
    request: &Request,
    window: u64,
    overflow: Overflow,
) -> Result<u32, TooLong> {
    let wanted = u64::from(request.max_tokens);
    let smallest = wanted.min(SMALLEST_ANSWER);
    let generous = generous_input_tokens(request);
    let (least, room) = match overflow {
        Overflow::Cuts => (generous, window.saturating_sub(generous)),
        Overflow::Refuses => {
            let likely = window.saturating_sub(likely_input_tokens(request));
            // No input is at all likely to have fewer: eight bytes for a token.
            let least = text_bytes(request) / 8;
            // Rather a short answer than a request that the server turns down for its length.
            (least, window.saturating_sub(generous).max(likely.min(window / 4)))
        }
    };
    if least + smallest > window {
        return Err(TooLong { needed: least + smallest, window });
    }
    Ok(wanted.min(room.max(smallest)) as u32)
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
    /// The cost in words that follow a number of calls: `at about $1.20`, or `at an unknown cost`.
    pub fn cost_phrase(&self) -> String {
        match self.cost.known() {
            Some(_) => format!("at about {}", self.cost),
            None => "at an unknown cost".to_owned(),
        }
    }

    /// The estimate for one request: output is likely to be a quarter of what is allowed.
    pub fn of_request(facts: &ModelFacts, request: &Request) -> Estimate {
        let output = u64::from(request.max_tokens);
        let likely = Estimate::of_calls(facts, 1, likely_input_tokens(request), output / 4);
        Estimate { at_most: facts.cost_at_most(most_input_tokens(request), output), ..likely }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Endpoint;
    use assize_config::Provider;

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
    fn answers_are_shortened_to_what_the_window_leaves() {
        let asked = |bytes: usize, max_tokens: u32| Request {
            max_tokens,
            ..Request::question("x".repeat(bytes))
        };
        for overflow in [Overflow::Cuts, Overflow::Refuses] {
            assert_eq!(answer_room(&asked(300, 500), 100_000, overflow), Ok(500));
            assert_eq!(answer_room(&asked(300, 4096), 2048, overflow), Ok(2048 - 100 - 256));
            assert_eq!(answer_room(&asked(300, 10), 2048, overflow), Ok(10));
            let long = answer_room(&asked(40_000, 4096), 2048, overflow).unwrap_err();
            assert!(long.needed > 2048 && long.window == 2048, "{long:?}");
        }
        // Three bytes a token would be too long, four are not: only the server knows.
        let near = asked(6_000, 4096);
        assert!(answer_room(&near, 2048, Overflow::Cuts).is_err());
        let room = answer_room(&near, 2048, Overflow::Refuses).unwrap();
        assert!((128..=512).contains(&room), "{room}");
    }

    #[test]
    fn an_unknown_price_gives_no_figure() {
        let endpoint = Endpoint { model: "mine".into(), ..Endpoint::new(Provider::OpenAi) };
        let estimate = Estimate::of_request(&ModelFacts::of(&endpoint), &Request::question("hi"));
        assert_eq!((estimate.cost, estimate.at_most), (Cost::Unknown, Cost::Unknown));
    }
}
