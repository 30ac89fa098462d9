//! Verdict of a debate, as stored and returned by the API.

use std::collections::BTreeMap;

use assize_llm::{CallTotals, Provenance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::score::BEST;
use crate::state::{
    ConversationEntry, DebateState, JudgeScore, LogName, PartialConversation, RoundSummary,
};

/// Verdict of a debate: the scores of all decision makers, and failures that affected them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DebateVerdict {
    pub move_id: String,
    pub ticker: Option<String>,
    /// Sum of all scores, at most `out_of`.
    pub total_score: u32,
    pub out_of: u32,
    pub scores_by_agent: BTreeMap<String, JudgeScore>,
    /// Scores that the decision makers gave before the debate; empty if they were not requested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blind_scores: BTreeMap<String, JudgeScore>,
    /// Names of the decision makers by id.
    #[serde(default)]
    pub agents: BTreeMap<String, String>,
    /// Number of rounds requested.
    pub rounds: u32,
    /// Conversations that ended early.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partial: BTreeMap<LogName, PartialConversation>,
    /// Conversations with rounds that were summarized for the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub summaries: BTreeMap<LogName, RoundSummary>,
    pub spent: CallTotals,
    /// Entries of each conversation. They are not part of stored results, because the journal contains the model
    /// answers; the API returns them as transcripts.
    #[schemars(skip)]
    pub conversation_logs: BTreeMap<LogName, Vec<ConversationEntry>>,
}

/// Error of a debate that has no verdict, because too many of its calls failed permanently. Only single debates fail
/// with this error, not the debates of a consultation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoVerdict {
    #[error("no conversation completed a round, so there is no verdict; first error: {error}")]
    NoRound { error: String },
    #[error(
        "the calls of {unasked} of {judges} judges failed, so there is no verdict; first error: {error}"
    )]
    NoJudges { unasked: usize, judges: usize, error: String },
}

impl From<DebateState> for DebateVerdict {
    fn from(state: DebateState) -> DebateVerdict {
        let makers = state.personas.decision_makers.len();
        DebateVerdict {
            move_id: state.move_document.move_id,
            ticker: state.company.ticker,
            total_score: state.total_score,
            out_of: BEST * u32::try_from(makers).unwrap_or(u32::MAX),
            agents: state.personas.agents(),
            scores_by_agent: state.scores,
            blind_scores: state.blind_scores,
            rounds: state.max_rounds,
            partial: state.partial,
            summaries: state.summaries,
            spent: state.spent,
            conversation_logs: LogName::first(state.logs.len()).zip(state.logs).collect(),
        }
    }
}

impl DebateVerdict {
    /// Total of the blind scores (given before the debate), if the scores of every decision maker could be parsed.
    pub fn blind_total(&self) -> Option<u32> {
        let totals = self.blind_scores.values().map(|score| score.card.total());
        let parsed =
            self.blind_scores.values().all(|score| score.provenance != Provenance::Defaulted);
        (self.blind_scores.len() == self.agents.len() && parsed).then(|| totals.sum())
    }

    /// Ids of judges whose call for scores failed. Their scores are neutral.
    pub fn failed_judges(&self) -> impl Iterator<Item = &String> {
        self.scores_by_agent.iter().filter(|(_, score)| score.failed.is_some()).map(|(id, _)| id)
    }

    /// First error that affected the verdict: the error that ended a conversation early or, if there is none, the error
    /// of a judge's failed call.
    pub fn first_error(&self) -> Option<&str> {
        let scores = self.scores_by_agent.values().filter_map(|score| score.failed.as_deref());
        self.partial.values().map(|partial| partial.error.as_str()).chain(scores).next()
    }

    /// Returns an error if too many calls failed for a verdict: no conversation completed a round, or the calls of more
    /// than half of the judges failed.
    pub fn no_verdict_reason(&self) -> Option<NoVerdict> {
        let error = self.first_error()?.to_owned();
        let nothing = self.partial.len() == self.agents.len()
            && self.partial.values().all(|partial| partial.completed_rounds == 0);
        let (unasked, judges) = (self.failed_judges().count(), self.scores_by_agent.len());
        match () {
            () if nothing => Some(NoVerdict::NoRound { error }),
            () if 2 * unasked > judges => Some(NoVerdict::NoJudges { unasked, judges, error }),
            () => None,
        }
    }

    /// Ids of decision makers whose scores were extracted by pattern or defaulted.
    pub fn judges_with_repaired_scores(&self) -> impl Iterator<Item = &str> {
        let scores = self.scores_by_agent.iter();
        scores.filter(|(_, score)| score.provenance.is_doubtful()).map(|(id, _)| id.as_str())
    }
}
