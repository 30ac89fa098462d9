//! Cost estimate of a single debate before its first call.

use assize_debate::{DebatePersonas, ROUNDS, calls, longest_call_chain};
use assize_gateway::{Estimate, Gateway};

/// Assumed number of tokens of an answer, which has 120 to 250 words.
const ANSWER: u64 = 350;

/// Assumed number of tokens that the rules and the persona take in a prompt.
const RULES: u64 = 900;

/// Estimates the cost of a debate, and the number of calls in its longest chain of sequential calls. `None` if the
/// gateway only replays a cassette.
pub fn estimate(gateway: &Gateway, content: &str, rounds: Option<u32>) -> Option<(Estimate, u64)> {
    let rounds = rounds.unwrap_or(ROUNDS);
    let facts = gateway.facts()?;
    let makers = DebatePersonas::default().decision_makers.len();
    let calls = calls(rounds, makers);
    // In each conversation, the prompts contain 0, 1, 2 and so on earlier entries. The last prompt, for the scores,
    // contains all entries.
    let turns = u64::from(2 * rounds);
    let read_again = makers as u64 * turns * (turns + 1) / 2;
    let prefix = RULES + content.len() as u64 / 4;
    let input = calls * prefix + read_again * ANSWER;
    Some((Estimate::of_calls(facts, calls, input, calls * ANSWER), longest_call_chain(rounds)))
}
