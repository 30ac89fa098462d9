//! New words as a share of all words in a debate, round by round.
//!
//! A word of an entry is new if it occurs neither in the document of the debated move nor in an earlier entry of the
//! same conversation. The share of new words approaches 0 when a debate repeats itself. The calculation counts words
//! and does not judge their meaning.

use std::collections::HashSet;

use assize_debate::DebateVerdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Minimum length of a counted word, in characters. Shorter words are ignored, because they occur in every text.
const MIN_LENGTH: usize = 4;

/// New words as a share of the words in a round of a debate, from 0 to 1, over all conversations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundDrift {
    pub round: u32,
    /// New words as a share of the words in the critic's entries; null if the critic has no entry in this round.
    pub critic: Option<f64>,
    pub decision_makers: Option<f64>,
}

/// Computes the share of new words in each round of a move's debate. A word is new if it occurs neither in `document`
/// nor in an earlier entry of the same conversation.
pub fn drift(document: &str, verdict: &DebateVerdict) -> Vec<RoundDrift> {
    let known: HashSet<String> = words(document).collect();
    // For each round: number of new words and of all words, first for the critic, then for the decision makers.
    let mut counts = vec![[(0, 0); 2]; verdict.rounds as usize];
    for entries in verdict.conversation_logs.values() {
        let mut known = known.clone();
        for entry in entries {
            let used: HashSet<String> = words(&entry.content).collect();
            let new = used.iter().filter(|word| !known.contains(*word)).count();
            let side = usize::from(entry.role != "critic");
            if let Some(round) = counts.get_mut(entry.round.saturating_sub(1) as usize) {
                round[side].0 += new;
                round[side].1 += used.len();
            }
            known.extend(used);
        }
    }
    let share = |(new, all): (usize, usize)| (all > 0).then(|| new as f64 / all as f64);
    let rounds = counts.into_iter().zip(1..).map(|([critic, makers], round)| RoundDrift {
        round,
        critic: share(critic),
        decision_makers: share(makers),
    });
    rounds.filter(|round| round.critic.or(round.decision_makers).is_some()).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.chars().count() >= MIN_LENGTH).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use assize_debate::{ConversationEntry, LogName};

    use super::*;

    #[test]
    fn share_of_new_words_does_not_count_repeated_words() {
        let entry = |role: &'static str, round: u32, content: &str| ConversationEntry {
            role: role.into(),
            content: content.into(),
            round,
            cut_off: false,
        };
        let log = vec![
            entry("critic", 1, "The bakery has rivals, and no oven."),
            entry("D1", 1, "Rivals have no flour."),
            entry("critic", 2, "No oven, and rivals."),
        ];
        let verdict = DebateVerdict {
            rounds: 3,
            conversation_logs: BTreeMap::from([(LogName::I1, log)]),
            ..DebateVerdict::default()
        };
        let drift = drift("Open a bakery.", &verdict);
        let round = |round, critic, decision_makers| RoundDrift { round, critic, decision_makers };
        // In round 1, 2 of 3 words are new on each side. In round 2, no word is new.
        assert_eq!(drift, [round(1, Some(2.0 / 3.0), Some(2.0 / 3.0)), round(2, Some(0.0), None)]);
    }
}
