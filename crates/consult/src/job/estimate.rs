//! What a consultation is likely to take, before anyone is asked.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use assize_debate::LogName;
use assize_gateway::{Estimate, Gateway};
use assize_graph::{Key, Outcome, Record};
use assize_types::Fingerprint;

use crate::Chamber;

/// Tokens of rules and persona, of both inferences, of a move, and of answers: a document, and some words
/// in a debate.
const RULES: u64 = 900;
const PACK: u64 = 3000;
const MOVE: u64 = 700;
const DOCUMENT: u64 = 1350;
const WORDS: u64 = 350;

/// Calls with so many tokens in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    calls: u64,
    input: u64,
    output: u64,
}

impl Load {
    fn of(calls: u64, input: u64, output: u64) -> Load {
        Load { calls, input: calls * input, output: calls * output }
    }

    fn plus(self, other: Load) -> Load {
        Load {
            calls: self.calls + other.calls,
            input: self.input + other.input,
            output: self.output + other.output,
        }
    }
}

/// What everybody's calls are likely to take, each at the price of the model that answers for them. Of
/// `answered` calls the answers are there already.
pub(super) fn estimate(
    chamber: &Chamber,
    gateway: &Gateway,
    others: &BTreeMap<String, Arc<Gateway>>,
    answered: u64,
) -> Option<Estimate> {
    let total = chamber.calls();
    let left = total.saturating_sub(answered);
    // What is left of each is taken to be what is left of all.
    let part =
        |figure: u64| (u128::from(figure) * u128::from(left)).div_ceil(u128::from(total)) as u64;
    let mut sum: Option<Estimate> = None;
    for (role, load) in loads(chamber) {
        let facts = others.get(&role).map_or_else(|| gateway.facts(), |other| other.facts())?;
        let one = Estimate::of_calls(facts, load.calls, part(load.input), part(load.output));
        sum = Some(sum.map_or(one, |sum| sum.plus(one)));
    }
    sum.map(|sum| Estimate { calls: left, ..sum })
}

/// How many of the calls of a consultation a fork does not make, as it takes their answers over.
///
/// Questions that were asked again are extra calls. Scores after a failed call are asked for anew once it succeeds.
pub(super) fn taken_over(inherited: &[Record]) -> u64 {
    let keys: HashSet<&str> = inherited.iter().map(|record| record.key.as_str()).collect();
    let is_planned = |key: &Key| {
        let asked_again = key
            .as_str()
            .rsplit_once('-')
            .is_some_and(|(first, number)| number.parse::<u32>().is_ok() && keys.contains(first));
        !asked_again && !key.segments().any(|part| part.starts_with("after-"))
    };
    let answers = inherited.iter().filter(|record| {
        let answered = matches!(record.outcome, Outcome::Done(_));
        answered && record.request != Fingerprint::NONE && is_planned(&record.key)
    });
    answers.count() as u64
}

/// How many calls have to be waited for, one after the other.
pub(super) fn in_a_row(chamber: &Chamber) -> u64 {
    let debates = chamber.personas.analysts.len() * chamber.moves;
    let waves = debates.div_ceil(chamber.at_once.max(1)) as u64;
    3 + waves * assize_debate::in_a_row(chamber.rounds)
}

fn loads(chamber: &Chamber) -> Vec<(String, Load)> {
    let gathered = chamber.gathered.likely_tokens().max(2000);
    let mut loads = Vec::new();
    if chamber.makes_up() {
        loads.push(("synthesizer".to_owned(), Load::of(2, RULES, DOCUMENT)));
    }
    for role in ["financial", "trend"] {
        loads.push((role.to_owned(), Load::of(1, RULES + gathered, DOCUMENT)));
    }
    let analysts = chamber.personas.analysts.len();
    loads.extend(
        (1..=analysts)
            .map(|number| (format!("analyst_{number}"), Load::of(1, RULES + PACK, DOCUMENT))),
    );
    let debates = (analysts * chamber.moves) as u64;
    let makers = chamber.personas.decision_makers.len();
    // Before a critique of round r stand the words of the rounds before it, before an answer one more.
    let base = RULES + PACK + MOVE;
    let spoken = |round: u32| base + u64::from(2 * (round - 1)) * WORDS;
    let rounds = 1..=chamber.rounds;
    let critic = rounds.clone().map(|round| {
        let logs = if round == 1 { 1 } else { makers as u64 };
        Load::of(logs * debates, spoken(round), WORDS)
    });
    loads.push(("critic".to_owned(), critic.fold(Load::default(), Load::plus)));
    let blind = if chamber.debate_options.blind_scores { debates } else { 0 };
    let maker = rounds
        .map(|round| Load::of(debates, spoken(round) + WORDS, WORDS))
        .chain([Load::of(debates, spoken(chamber.rounds + 1), WORDS), Load::of(blind, base, WORDS)])
        .fold(Load::default(), Load::plus);
    loads.extend(LogName::first(makers).map(|log| (log.maker(), maker)));
    loads
}

#[cfg(test)]
mod tests {
    use assize_gateway::Rehearsal;

    use super::*;
    use crate::negotiation::Models;

    #[test]
    fn answers_that_a_fork_takes_over_are_planned_calls() {
        let record = |key: &str| Record {
            key: Key::new(key).unwrap(),
            request: Fingerprint::of(key),
            outcome: Outcome::Done("{}".to_owned()),
        };
        let planned = ["financial", "m1/i1/round-1/critic", "m1/i2/round-2/critic", "m1/i1/score"];
        let extra = ["m1/i1/score-2", "financial-2", "financial-3", "m1/i2/after-3/score"];
        let mut records: Vec<Record> = planned.into_iter().chain(extra).map(record).collect();
        records.push(Record { request: Fingerprint::NONE, ..record("lost-calls/2") });
        assert_eq!(taken_over(&records), planned.len() as u64);
    }

    #[test]
    fn estimate_matches_the_calls_of_a_consultation() {
        let rehearsal = Arc::new(Gateway::to_rehearsal(
            Rehearsal::default(),
            assize_gateway::Options::default(),
        ));
        for blind_scores in [false, true] {
            let chamber = Chamber {
                at_once: 15,
                debate_options: assize_debate::Options {
                    blind_scores,
                    ..assize_debate::Options::default()
                },
                ..Chamber::new(Models::new(rehearsal.clone()))
            };
            let calls: u64 = loads(&chamber).iter().map(|(_, load)| load.calls).sum();
            assert_eq!(calls, chamber.calls());
            assert_eq!(in_a_row(&chamber), 24);
            let all = estimate(&chamber, &rehearsal, &BTreeMap::new(), 0).unwrap();
            let half = estimate(&chamber, &rehearsal, &BTreeMap::new(), calls / 2).unwrap();
            assert_eq!(half.calls, calls - calls / 2);
            let apart = half.input_tokens.abs_diff(all.input_tokens / 2);
            assert!(apart < all.input_tokens / 100, "{half:?}");
        }
    }
}
