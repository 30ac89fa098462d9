//! What a debate is likely to take, before anyone is asked.

use assize_debate::{Personas, ROUNDS, calls, in_a_row};
use assize_gateway::{Estimate, Gateway};

/// Tokens of an answer of 120 to 250 words.
const ANSWER: u64 = 350;

/// Tokens of rules and persona.
const RULES: u64 = 900;

/// What it is likely to take, and how many calls of that have to be waited for one after the other. Nothing, where
/// nothing is known of who would be asked.
pub fn estimate(gateway: &Gateway, content: &str, rounds: Option<u32>) -> Option<(Estimate, u64)> {
    let rounds = rounds.unwrap_or(ROUNDS);
    let facts = gateway.facts()?;
    let makers = Personas::default().decision_makers.len();
    let calls = calls(rounds, makers);
    // In each conversation the answers before a call are 0, 1, 2 … and all of them for the scores.
    let turns = u64::from(2 * rounds);
    let read_again = makers as u64 * turns * (turns + 1) / 2;
    let prefix = RULES + content.len() as u64 / 4;
    let input = calls * prefix + read_again * ANSWER;
    Some((Estimate::of_calls(facts, calls, input, calls * ANSWER), in_a_row(rounds)))
}
