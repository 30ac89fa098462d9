//! Ranking of moves by their scores.

use std::cmp::Reverse;

use assize_debate::DebateVerdict;
use serde::{Deserialize, Serialize};

/// Number of recommended moves.
pub const RECOMMENDED: usize = 3;

/// Rule for the order of moves with equal total scores, as shown in reports.
pub const TIE_RULE: &str = "equal totals are ordered by the total of the lowest-scoring judge, then by \
    risk-adjusted return, then by feasibility, then by the number of the move";

/// Ids of the moves in ranked order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranking {
    pub recommended_moves: Vec<String>,
    pub other_moves: Vec<String>,
    /// Groups of moves with equal total scores, in ranked order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ties: Vec<Vec<String>>,
}

/// Ranks moves by their total scores. Moves with equal totals are ordered by [`TIE_RULE`].
pub fn rank<'a>(verdicts: impl IntoIterator<Item = &'a DebateVerdict>) -> Ranking {
    let mut all: Vec<(usize, &DebateVerdict)> = verdicts.into_iter().enumerate().collect();
    all.sort_by_key(|(place, verdict)| {
        let totals = verdict.scores_by_agent.values().map(|score| score.card.total());
        let lowest = totals.min().unwrap_or_default();
        let sum = |metric: usize| -> u32 {
            let scores = verdict.scores_by_agent.values();
            scores.map(|score| u32::from(score.card.scores()[metric])).sum()
        };
        (Reverse(verdict.total_score), Reverse(lowest), Reverse(sum(2)), Reverse(sum(1)), *place)
    });
    let ids = |part: &[(usize, &DebateVerdict)]| -> Vec<String> {
        part.iter().map(|(_, verdict)| verdict.move_id.clone()).collect()
    };
    let (top, others) = all.split_at(all.len().min(RECOMMENDED));
    let ties = all
        .chunk_by(|(_, one), (_, other)| one.total_score == other.total_score)
        .filter(|tie| tie.len() > 1)
        .map(ids);
    Ranking { recommended_moves: ids(top), other_moves: ids(others), ties: ties.collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use assize_debate::{JudgeScore, ScoreCard};
    use assize_llm::Provenance;

    use super::*;

    fn verdict(id: &str, cards: &[[u8; 4]]) -> DebateVerdict {
        let score = |(index, scores): (usize, &[u8; 4])| {
            let [impact, feasibility, risk_adjusted_return, strategic_alignment] = *scores;
            let card = ScoreCard {
                reasoning: String::new(),
                unanswered: String::new(),
                impact,
                feasibility,
                risk_adjusted_return,
                strategic_alignment,
            };
            let (provenance, assumed) = (Provenance::Parsed, Vec::new());
            let score = JudgeScore { card, provenance, assumed, failed: None };
            (format!("D{}", index + 1), score)
        };
        let scores_by_agent: BTreeMap<String, JudgeScore> =
            cards.iter().enumerate().map(score).collect();
        DebateVerdict {
            move_id: id.to_owned(),
            total_score: scores_by_agent.values().map(|score| score.card.total()).sum(),
            scores_by_agent,
            ..DebateVerdict::default()
        }
    }

    #[test]
    fn rank_recommends_the_best_three_moves_and_orders_ties_by_the_tie_rule() {
        let verdicts = [
            verdict("m1", &[[5, 5, 5, 5], [5, 5, 5, 5]]),
            verdict("m2", &[[9, 9, 9, 9], [9, 9, 9, 9]]),
            // m3 has the same total as m4 and m5, but the lowest total of a single judge.
            verdict("m3", &[[9, 9, 9, 9], [4, 4, 4, 4]]),
            verdict("m4", &[[7, 7, 6, 6], [6, 7, 7, 6]]),
            // m5 has the same total as m4, but a higher risk-adjusted return.
            verdict("m5", &[[7, 6, 7, 6], [6, 7, 7, 6]]),
        ];
        let ranked = rank(&verdicts);
        assert_eq!(ranked.recommended_moves, ["m2", "m5", "m4"]);
        assert_eq!(ranked.other_moves, ["m3", "m1"]);
        assert_eq!(ranked.ties, [["m5", "m4", "m3"]]);
        let two = [9, 8, 9, 7, 8].map(|score| verdict(&format!("m{score}"), &[[score; 4]]));
        assert_eq!(rank(&two).ties, [["m9", "m9"], ["m8", "m8"]]);
        assert_eq!(rank(&[]), Ranking::default());
    }
}
