//! Scores: four metrics of ten each, and what to do when they cannot be read.

use std::sync::LazyLock;

use assize_llm::answer::AnswerReader;
use assize_llm::{Delivery, Schema};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most that one decision maker can give.
pub const BEST: u32 = 40;

/// The metrics, in the order in which they are shown.
pub const METRICS: [&str; 4] =
    ["impact", "feasibility", "risk_adjusted_return", "strategic_alignment"];

/// What one decision maker thinks of a move after the debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreCard {
    /// One or two sentences: what decided the scores.
    #[schemars(
        example = &"The doubt about the second year was not met; the rest was.",
        example = &"What it asks of two teams at once was never priced.",
        example = &"The first stage is small enough to stop, which settled it."
    )]
    pub reasoning: String,
    /// The critic's strongest point that nobody could answer, in one sentence; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(
        example = &"What happens if the second year brings no volume was asked, and never answered.",
        example = &"Nobody could say who would run it.",
        example = &"That a rival would answer with its price was granted, without a reply to it."
    )]
    pub unanswered: String,
    /// How much it would change the company's growth, revenue or position in its market.
    #[schemars(range(min = 1, max = 10))]
    pub impact: u8,
    /// How realistic it is with the people, money and time there are.
    #[schemars(range(min = 1, max = 10))]
    pub feasibility: u8,
    /// How the upside compares with what can be lost.
    #[schemars(range(min = 1, max = 10))]
    pub risk_adjusted_return: u8,
    /// How well it fits where the company is going.
    #[schemars(range(min = 1, max = 10))]
    pub strategic_alignment: u8,
}

/// The reasoning of scores that were found by their names.
const FOUND: &str = "Read from an answer that was not the JSON that was asked for.";

/// The score of a metric that stayed unreadable.
const NEUTRAL: u8 = 5;

impl ScoreCard {
    /// A card with these scores, in the order of [`METRICS`], and nothing unanswered.
    fn of(
        reasoning: &str,
        [impact, feasibility, risk_adjusted_return, strategic_alignment]: [u8; 4],
    ) -> ScoreCard {
        ScoreCard {
            reasoning: reasoning.to_owned(),
            unanswered: String::new(),
            impact,
            feasibility,
            risk_adjusted_return,
            strategic_alignment,
        }
    }

    /// The four scores, in the order of [`METRICS`].
    pub fn scores(&self) -> [u8; 4] {
        [self.impact, self.feasibility, self.risk_adjusted_return, self.strategic_alignment]
    }

    /// Of 40.
    pub fn total(&self) -> u32 {
        self.scores().into_iter().map(u32::from).sum()
    }

    /// The shape that is asked for, in words: a native schema would come before everything that the
    /// provider has cached, and make it useless.
    pub(crate) fn schema() -> &'static Schema {
        static SCHEMA: LazyLock<Schema> =
            LazyLock::new(|| Schema { delivery: Delivery::Prompt, ..Schema::of::<ScoreCard>() });
        &SCHEMA
    }

    pub(crate) fn reader() -> Option<&'static AnswerReader> {
        static READER: LazyLock<Option<AnswerReader>> =
            LazyLock::new(|| AnswerReader::new(ScoreCard::schema()));
        READER.as_ref()
    }

    /// The scores of a judge that could not be asked.
    pub(crate) fn unasked() -> ScoreCard {
        ScoreCard::of("The judge could not be asked: 5 is assumed for each.", [NEUTRAL; 4])
    }

    /// What is assumed of a judge whose scores cannot be read.
    pub(crate) fn neutral() -> ScoreCard {
        ScoreCard::of("The scores could not be read: 5 is assumed for each.", [NEUTRAL; 4])
    }

    /// What can be read of the scores in some answers, the later first, where not all can: 5 is assumed for
    /// the rest, which are named. `None` if nothing can be read.
    pub(crate) fn find_some<'a>(
        texts: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<(ScoreCard, Vec<String>)> {
        let found = PATTERNS
            .each_ref()
            .map(|pattern| texts.clone().find_map(|text| only_value(pattern, text)));
        found.iter().any(Option::is_some).then_some(())?;
        let unread = found.iter().zip(METRICS).filter(|(found, _)| found.is_none());
        let assumed = unread.map(|(_, metric)| metric.to_owned()).collect();
        Some((ScoreCard::of(FOUND, found.map(|score| score.unwrap_or(NEUTRAL))), assumed))
    }

    /// Looks for the scores in text that is not the JSON that was asked for. All four must be
    /// there, each beside its name, as whole numbers from 1 to 10, and none twice with different
    /// values: a guess is no score.
    pub(crate) fn find(text: &str) -> Option<ScoreCard> {
        let found = ScoreCard::find_some(std::iter::once(text));
        found.filter(|(_, assumed)| assumed.is_empty()).map(|(card, _)| card)
    }
}

/// A metric's name, at most a scale such as `(1-10)`, some punctuation or a little word, the number,
/// and at most `/10` behind it.
static PATTERNS: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    ["impact", "feasibility", "risk[ _-]*adjusted[ _-]*returns?", "strategic[ _-]*alignment"].map(
        |name| {
            let pattern = format!(
                r#"(?i)\b{name}\b[*_"'`]*\s*(?:\((?:1\s*[-–]\s*10|out of 10|/\s*10)\))?[*_"'`]*\s*(?:(?:score|rating)\b\s*)?(?:[:=|–—-]|\bis\b|\bat\b|\bof\b)?[\s*_"'`|]*(\d+(?:[.,]\d+)?)(\s*%)?"#
            );
            // The patterns are ours and do not depend on anything: a test compiles them.
            #[expect(clippy::expect_used, reason = "a constant pattern")]
            Regex::new(&pattern).expect("a valid pattern")
        },
    )
});

/// The one score that a pattern finds, if all it finds is the same score.
fn only_value(pattern: &Regex, text: &str) -> Option<u8> {
    let mut found = None;
    for captures in pattern.captures_iter(text) {
        let score = captures[1].parse().ok().filter(|score| (1..=10).contains(score))?;
        if captures.get(2).is_some() || found.is_some_and(|found| found != score) {
            return None;
        }
        found = Some(score);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<[u8; 4]> {
        ScoreCard::find(text).map(|card| card.scores())
    }

    #[test]
    fn scores_are_found_where_they_stand_beside_their_names() {
        let texts = [
            "Impact: 8, Feasibility: 6, Risk-Adjusted Return: 7, Strategic Alignment: 9",
            "**Impact (1-10):** 8/10\n**Feasibility (1–10):** 6/10\n**Risk-Adjusted Return:** 7/10\n\
             **Strategic Alignment:** 9/10",
            "impact=8 feasibility=6 risk_adjusted_return=7 strategic_alignment=9",
            "I would put impact at 8 and feasibility at 6. The risk adjusted return is 7 out of 10, \
             and strategic alignment is 9.",
            "| Impact | 8 |\n| Feasibility | 6 |\n| Risk-adjusted return | 7 |\n\
             | Strategic alignment | 9 |",
            "{\"impact\": 8, \"feasibility\": 6, \"risk_adjusted_return\": 7, \
             \"strategic_alignment\": 9, \"reasoning\": \"cut o",
            "Impact score: 8. Feasibility score: 6. Risk-adjusted returns – 7. Strategic alignment — 9",
        ];
        for text in texts {
            assert_eq!(found(text), Some([8, 6, 7, 9]), "{text}");
        }
    }

    #[test]
    fn what_is_no_score_is_not_taken_for_one() {
        let rest = "feasibility: 6, risk-adjusted return: 7, strategic alignment: 9";
        let texts = [
            "",
            rest,
            &format!("impact: 85, {rest}"),
            &format!("impact: 0, {rest}"),
            &format!("impact: 7.5, {rest}"),
            &format!("impact: 8%, {rest}"),
            &format!("impact: eight, {rest}"),
            // Two different scores for one thing.
            &format!("impact: 8 at first; now impact: 4, {rest}"),
            "An impact on 8 markets; feasibility, risk-adjusted return and alignment are fine.",
        ];
        for text in texts {
            assert_eq!(found(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn fuzz_no_text_breaks_the_search(text in "\\PC{0,200}") {
            if let Some(scores) = found(&text) {
                assert!(scores.iter().all(|score| (1..=10).contains(score)));
            }
        }
    }
}
