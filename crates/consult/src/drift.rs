//! How far a debate still moved, round by round.
//!
//! What each side says is compared with the move and with all that was said in that conversation before: the
//! share of its words that are new. A debate that goes in circles falls towards nothing; one that is still
//! finding something does not. It is a count of words, and no judgement.

use std::collections::HashSet;

use assize_debate::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shorter words are in every text.
const SHORTEST: usize = 4;

/// The share of words that were new, from 0 to 1, over all conversations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RoundDrift")]
pub struct Round {
    pub round: u32,
    /// `None` where nobody spoke.
    pub critic: Option<f64>,
    pub decision_makers: Option<f64>,
}

/// What was new in the debate of a move, round by round.
pub fn drift(document: &str, verdict: &Verdict) -> Vec<Round> {
    let known: HashSet<String> = words(document).collect();
    // How many words were new, of how many: the critic's and the decision makers'.
    let mut counts = vec![[(0, 0); 2]; verdict.rounds as usize];
    for entries in verdict.conversation_logs.values() {
        let mut known = known.clone();
        for entry in entries {
            let said: HashSet<String> = words(&entry.content).collect();
            let new = said.iter().filter(|word| !known.contains(*word)).count();
            let side = usize::from(entry.role != "critic");
            if let Some(round) = counts.get_mut(entry.round.saturating_sub(1) as usize) {
                round[side].0 += new;
                round[side].1 += said.len();
            }
            known.extend(said);
        }
    }
    let share = |(new, all): (usize, usize)| (all > 0).then(|| new as f64 / all as f64);
    let rounds = counts.into_iter().zip(1..).map(|([critic, makers], round)| Round {
        round,
        critic: share(critic),
        decision_makers: share(makers),
    });
    rounds.filter(|round| round.critic.or(round.decision_makers).is_some()).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.chars().count() >= SHORTEST).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use assize_debate::{ConversationEntry, LogName};

    use super::*;

    #[test]
    fn what_was_said_before_is_not_new() {
        let said = |role: &'static str, round: u32, content: &str| ConversationEntry {
            role: role.into(),
            content: content.into(),
            round,
            cut_off: false,
        };
        let log = vec![
            said("critic", 1, "The bakery has rivals, and no oven."),
            said("D1", 1, "Rivals have no flour."),
            said("critic", 2, "No oven, and rivals."),
        ];
        let verdict = Verdict {
            rounds: 3,
            conversation_logs: BTreeMap::from([(LogName::I1, log)]),
            ..Verdict::default()
        };
        let drift = drift("Open a bakery.", &verdict);
        let round = |round, critic, decision_makers| Round { round, critic, decision_makers };
        // Of bakery, rivals and oven one is known; of rivals, have and flour one; then all are.
        assert_eq!(drift, [round(1, Some(2.0 / 3.0), Some(2.0 / 3.0)), round(2, Some(0.0), None)]);
    }
}
