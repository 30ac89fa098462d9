//! Cost estimate of a consultation before its first call.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use assize_debate::LogName;
use assize_gateway::{Estimate, Gateway};
use assize_graph::{EffectKey, EffectOutcome, EffectRecord};
use assize_types::{Failure, Fingerprint};

use crate::ConsultContext;

/// Assumed number of tokens that the rules and the persona take in a prompt.
const RULES: u64 = 900;

/// Assumed number of tokens that the inferences F1 and F2 take in a prompt.
const INFERENCES_TOKENS: u64 = 3000;

/// Assumed number of tokens that the document of a move takes in a prompt.
const MOVE: u64 = 700;

/// Assumed number of tokens of an answer that is a whole document, such as an inference.
const DOCUMENT: u64 = 1350;

/// Assumed number of tokens of one entry in a debate.
const ENTRY: u64 = 350;

/// Number of calls, and total numbers of their input tokens and their output tokens.
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

/// Estimates the cost of the calls of all roles, each at the price of its model. `answered` is the number of calls
/// that already have a recorded answer. `None` if a gateway only replays a cassette.
pub(super) fn estimate(
    context: &ConsultContext,
    gateway: &Gateway,
    others: &BTreeMap<String, Arc<Gateway>>,
    answered: u64,
) -> Option<Estimate> {
    let total = context.calls();
    let left = total.saturating_sub(answered);
    // The estimate assumes that the same share of calls is left for every role.
    let part =
        |figure: u64| (u128::from(figure) * u128::from(left)).div_ceil(u128::from(total)) as u64;
    let mut sum: Option<Estimate> = None;
    for (role, load) in loads(context) {
        let facts = others.get(&role).map_or_else(|| gateway.facts(), |other| other.facts())?;
        let one = Estimate::of_calls(facts, load.calls, part(load.input), part(load.output));
        sum = Some(sum.map_or(one, |sum| sum.plus(one)));
    }
    sum.map(|sum| Estimate { calls: left, ..sum })
}

/// Returns an error if the price of the model of any role is unknown.
pub(super) fn check_prices(
    context: &ConsultContext,
    gateway: &Gateway,
    others: &BTreeMap<String, Arc<Gateway>>,
) -> Result<(), Failure> {
    loads(context)
        .iter()
        .map(|(role, _)| others.get(role).map_or(gateway, Arc::as_ref))
        .try_for_each(Gateway::check_price)
}

/// Number of planned calls whose answers a fork reuses.
///
/// Two kinds of recorded calls do not count. Repeated requests, with keys such as `score-2`, were not planned. Requests
/// for the scores of a partial conversation, with keys such as `after-3/score`, are made again when the conversation is
/// complete.
pub(super) fn reused_planned_calls(inherited: &[EffectRecord]) -> u64 {
    let keys: HashSet<&str> = inherited.iter().map(|record| record.key.as_str()).collect();
    let is_planned = |key: &EffectKey| {
        let is_repeated = key
            .as_str()
            .rsplit_once('-')
            .is_some_and(|(first, number)| number.parse::<u32>().is_ok() && keys.contains(first));
        !is_repeated && !key.segments().any(|part| part.starts_with("after-"))
    };
    let answers = inherited.iter().filter(|record| {
        let answered = matches!(record.outcome, EffectOutcome::Done(_));
        answered && record.request != Fingerprint::NONE && is_planned(&record.key)
    });
    answers.count() as u64
}

/// Number of calls in the longest chain of sequential calls of a consultation.
pub(super) fn longest_call_chain(context: &ConsultContext) -> u64 {
    let debates = context.personas.analysts.len() * context.moves;
    let waves = debates.div_ceil(context.max_concurrent_debates.max(1)) as u64;
    3 + waves * assize_debate::longest_call_chain(context.rounds)
}

fn loads(context: &ConsultContext) -> Vec<(String, Load)> {
    let gathered = context.gathered.likely_tokens().max(2000);
    let mut loads = Vec::new();
    if context.generates_synthetic_data() {
        loads.push(("synthesizer".to_owned(), Load::of(2, RULES, DOCUMENT)));
    }
    for role in ["financial", "trend"] {
        loads.push((role.to_owned(), Load::of(1, RULES + gathered, DOCUMENT)));
    }
    let analysts = context.personas.analysts.len();
    loads.extend((1..=analysts).map(|number| {
        (format!("analyst_{number}"), Load::of(1, RULES + INFERENCES_TOKENS, DOCUMENT))
    }));
    let debates = (analysts * context.moves) as u64;
    let makers = context.personas.decision_makers.len();
    // The prompt of a critique contains two entries per earlier round. The prompt of an answer contains one more.
    let base = RULES + INFERENCES_TOKENS + MOVE;
    let input = |round: u32| base + u64::from(2 * (round - 1)) * ENTRY;
    let rounds = 1..=context.rounds;
    let critic = rounds.clone().map(|round| {
        let logs = if round == 1 { 1 } else { makers as u64 };
        Load::of(logs * debates, input(round), ENTRY)
    });
    loads.push(("critic".to_owned(), critic.fold(Load::default(), Load::plus)));
    let blind = if context.debate_options.blind_scores { debates } else { 0 };
    let maker = rounds
        .map(|round| Load::of(debates, input(round) + ENTRY, ENTRY))
        .chain([Load::of(debates, input(context.rounds + 1), ENTRY), Load::of(blind, base, ENTRY)])
        .fold(Load::default(), Load::plus);
    loads.extend(LogName::first(makers).map(|log| (log.decision_maker_id(), maker)));
    loads
}

#[cfg(test)]
mod tests {
    use assize_gateway::Rehearsal;

    use super::*;
    use crate::negotiation::RoleModels;

    #[test]
    fn estimate_counts_only_planned_calls_as_reused() {
        let record = |key: &str| EffectRecord {
            key: EffectKey::new(key).unwrap(),
            request: Fingerprint::of(key),
            outcome: EffectOutcome::Done("{}".to_owned()),
        };
        let planned = ["financial", "m1/i1/round-1/critic", "m1/i2/round-2/critic", "m1/i1/score"];
        let extra = ["m1/i1/score-2", "financial-2", "financial-3", "m1/i2/after-3/score"];
        let mut records: Vec<EffectRecord> = planned.into_iter().chain(extra).map(record).collect();
        records.push(EffectRecord { request: Fingerprint::NONE, ..record("lost-calls/2") });
        assert_eq!(reused_planned_calls(&records), planned.len() as u64);
    }

    #[test]
    fn estimate_has_the_same_number_of_calls_as_the_consultation() {
        let rehearsal = Arc::new(Gateway::to_rehearsal(
            Rehearsal::default(),
            assize_gateway::GatewayOptions::default(),
        ));
        for blind_scores in [false, true] {
            let context = ConsultContext {
                max_concurrent_debates: 15,
                debate_options: assize_debate::DebateOptions {
                    blind_scores,
                    ..assize_debate::DebateOptions::default()
                },
                ..ConsultContext::new(RoleModels::new(rehearsal.clone()))
            };
            let calls: u64 = loads(&context).iter().map(|(_, load)| load.calls).sum();
            assert_eq!(calls, context.calls());
            assert_eq!(longest_call_chain(&context), 24);
            let all = estimate(&context, &rehearsal, &BTreeMap::new(), 0).unwrap();
            let half = estimate(&context, &rehearsal, &BTreeMap::new(), calls / 2).unwrap();
            assert_eq!(half.calls, calls - calls / 2);
            let apart = half.input_tokens.abs_diff(all.input_tokens / 2);
            assert!(apart < all.input_tokens / 100, "{half:?}");
        }
    }
}
