//! What a debate is likely to take, before anyone is asked.

use assize_debate::{Personas, ROUNDS, calls, in_a_row};
use assize_gateway::{Estimate, Gateway};

use crate::account::show_estimate;
use crate::failure::{Failure, FailureKind};

/// Tokens of an answer of 120 to 250 words.
const ANSWER: u64 = 350;

/// Tokens of rules and persona.
const RULES: u64 = 900;

pub(super) fn show(
    gateway: &Gateway,
    content: &str,
    rounds: Option<u32>,
    json: bool,
) -> Result<(), Failure> {
    let rounds = rounds.unwrap_or(ROUNDS);
    let Some(facts) = gateway.facts() else {
        return Err(Failure::new(FailureKind::Usage, "there is nothing to estimate"));
    };
    let makers = Personas::default().decision_makers.len();
    let calls = calls(rounds, makers);
    // In each conversation the answers before a call are 0, 1, 2 … and all of them for the scores.
    let turns = u64::from(2 * rounds);
    let read_again = makers as u64 * turns * (turns + 1) / 2;
    let prefix = RULES + content.len() as u64 / 4;
    let input = calls * prefix + read_again * ANSWER;
    let estimate = Estimate::of_calls(facts, calls, input, calls * ANSWER);
    show_estimate(&estimate, in_a_row(rounds), gateway.is_rehearsal(), json)
}
