//! Cost estimate of a single debate before its first call.

use assize_debate::{DebatePersonas, ROUNDS, calls, in_a_row};
use assize_gateway::{Estimate, Gateway};

/// Tokens of an answer of 120 to 250 words.
const ANSWER: u64 = 350;

/// Tokens of rules and persona.
const RULES: u64 = 900;

/// Estimates the cost, and the length of the longest chain of sequential calls. `None` if the model is unknown.
pub fn estimate(gateway: &Gateway, content: &str, rounds: Option<u32>) -> Option<(Estimate, u64)> {
    let rounds = rounds.unwrap_or(ROUNDS);
    let facts = gateway.facts()?;
    let makers = DebatePersonas::default().decision_makers.len();
    let calls = calls(rounds, makers);
    // In each conversation, a call reads 0, 1, 2 … earlier entries, and the scores read all.
    let turns = u64::from(2 * rounds);
    let read_again = makers as u64 * turns * (turns + 1) / 2;
    let prefix = RULES + content.len() as u64 / 4;
    let input = calls * prefix + read_again * ANSWER;
    Some((Estimate::of_calls(facts, calls, input, calls * ANSWER), in_a_row(rounds)))
}
