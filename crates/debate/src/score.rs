//! Score cards: four metrics of ten points each, and the fallback for scores that cannot be parsed.

use std::sync::LazyLock;

use assize_llm::answer::AnswerReader;
use assize_llm::{Schema, SchemaDelivery};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum total score that one decision maker can give.
pub const BEST: u32 = 40;

/// Names of the metrics, in display order.
pub const METRICS: [&str; 4] =
    ["impact", "feasibility", "risk_adjusted_return", "strategic_alignment"];

/// What one decision maker thinks of a move after the debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreCard {
    /// One or two sentences: what decided the scores.
    #[schemars(
        example = &"The doubts about the second year remain; the other objections were answered.",
        example = &"The cost of occupying two teams at once was not estimated.",
        example = &"The first stage is cheap and can be stopped early; this decided the scores."
    )]
    pub reasoning: String,
    /// The critic's strongest point that was not answered, in one sentence; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(
        example = &"The question of low sales in the second year was not answered.",
        example = &"The question of who would manage the project was not answered.",
        example = &"A price cut by a competitor was accepted as likely, without a plan against it."
    )]
    pub unanswered: String,
    /// How much the move would change the company's growth, revenue or position in its market.
    #[schemars(range(min = 1, max = 10))]
    pub impact: u8,
    /// How realistic the move is with the available people, money and time.
    #[schemars(range(min = 1, max = 10))]
    pub feasibility: u8,
    /// How the possible gain from the move compares with the possible loss.
    #[schemars(range(min = 1, max = 10))]
    pub risk_adjusted_return: u8,
    /// How well the move fits the direction of the company.
    #[schemars(range(min = 1, max = 10))]
    pub strategic_alignment: u8,
}

/// Text for the field `reasoning` of a score card whose scores were extracted by pattern.
const FOUND: &str = "Extracted by pattern: the answer was not the requested JSON.";

/// Score that is assumed for a metric if the score in the answer cannot be parsed.
const NEUTRAL: u8 = 5;

impl ScoreCard {
    /// Creates a score card from scores in the order of [`METRICS`], without an unanswered objection.
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

    /// Sum of the four scores, at most [`BEST`].
    pub fn total(&self) -> u32 {
        self.scores().into_iter().map(u32::from).sum()
    }

    /// JSON schema of a score card. It is part of the prompt's text, because a schema that is sent as a parameter would
    /// precede the cached prefix and invalidate the cache.
    pub(crate) fn schema() -> &'static Schema {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema {
            delivery: SchemaDelivery::Prompt,
            ..Schema::of::<ScoreCard>()
        });
        &SCHEMA
    }

    pub(crate) fn reader() -> Option<&'static AnswerReader> {
        static READER: LazyLock<Option<AnswerReader>> =
            LazyLock::new(|| AnswerReader::new(ScoreCard::schema()));
        READER.as_ref()
    }

    /// Neutral score card for a judge whose call failed.
    pub(crate) fn for_failed_call() -> ScoreCard {
        ScoreCard::of("The judge's call failed: 5 is assumed for each metric.", [NEUTRAL; 4])
    }

    /// Neutral score card for a judge whose scores cannot be parsed.
    pub(crate) fn neutral() -> ScoreCard {
        ScoreCard::of("The scores could not be parsed: 5 is assumed for each metric.", [NEUTRAL; 4])
    }

    /// Extracts as many scores as possible from `texts`. Scores in earlier texts are preferred. Returns a score card
    /// and a list of the metrics that were not found, for which the card contains a score of 5; returns `None` if no
    /// score is found.
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

    /// Extracts the scores from text that is not the requested JSON. Scores must not be guessed: all four must occur
    /// next to the names of their metrics, as whole numbers from 1 to 10, and none may occur twice with different
    /// values.
    pub(crate) fn find(text: &str) -> Option<ScoreCard> {
        let found = ScoreCard::find_some(std::iter::once(text));
        found.filter(|(_, assumed)| assumed.is_empty()).map(|(card, _)| card)
    }
}

/// Patterns that find the score of each metric in text: the metric's name, an optional scale such as `(1-10)`,
/// punctuation or a word such as `is`, and the number. The number may be followed by `/10`, but not by `%`.
static PATTERNS: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    ["impact", "feasibility", "risk[ _-]*adjusted[ _-]*returns?", "strategic[ _-]*alignment"].map(
        |name| {
            let pattern = format!(
                r#"(?i)\b{name}\b[*_"'`]*\s*(?:\((?:1\s*[-–]\s*10|out of 10|/\s*10)\))?[*_"'`]*\s*(?:(?:score|rating)\b\s*)?(?:[:=|–—-]|\bis\b|\bat\b|\bof\b)?[\s*_"'`|]*(\d+(?:[.,]\d+)?)(\s*%)?"#
            );
            // The patterns are constant; a test compiles them.
            #[expect(clippy::expect_used, reason = "constant pattern")]
            Regex::new(&pattern).expect("constant pattern is valid")
        },
    )
});

/// The score that the pattern matches; `None` if there is no match, if a match is not a whole number from 1 to 10 or is
/// a percentage, or if the matches differ.
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
    fn scores_are_extracted_next_to_the_names_of_their_metrics() {
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
    fn text_with_missing_invalid_or_conflicting_scores_is_rejected() {
        let rest = "feasibility: 6, risk-adjusted return: 7, strategic alignment: 9";
        let texts = [
            "",
            rest,
            &format!("impact: 85, {rest}"),
            &format!("impact: 0, {rest}"),
            &format!("impact: 7.5, {rest}"),
            &format!("impact: 8%, {rest}"),
            &format!("impact: eight, {rest}"),
            // Two different scores for one metric.
            &format!("impact: 8 at first; now impact: 4, {rest}"),
            "An impact on 8 markets; feasibility, risk-adjusted return and alignment are fine.",
        ];
        for text in texts {
            assert_eq!(found(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn fuzz_scores_extracted_from_any_text_are_between_1_and_10(text in "\\PC{0,200}") {
            if let Some(scores) = found(&text) {
                assert!(scores.iter().all(|score| (1..=10).contains(score)));
            }
        }
    }
}
