//! What a debate came to, in the shape in which it leaves the house.

use std::collections::BTreeMap;

use assize_llm::{Provenance, Spent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::score::BEST;
use crate::state::{ConversationEntry, DebateState, JudgeScore, LogName, Partial, Summary};

/// The outcome of a debate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DebateVerdict")]
pub struct Verdict {
    pub move_id: String,
    pub ticker: Option<String>,
    /// Of `out_of`.
    pub total_score: u32,
    pub out_of: u32,
    pub scores_by_agent: BTreeMap<String, JudgeScore>,
    /// What they thought of the move before it was debated, where that was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blind_scores: BTreeMap<String, JudgeScore>,
    /// What those who scored are called, by their ids.
    #[serde(default)]
    pub agents: BTreeMap<String, String>,
    /// The rounds that were to be debated.
    pub rounds: u32,
    /// Conversations that ended before that.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partial: BTreeMap<LogName, Partial>,
    /// Conversations whose middle was summed up for the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub summaries: BTreeMap<LogName, Summary>,
    pub spent: Spent,
    /// Not part of stored results: the journal has them, and the API answers them as transcripts.
    #[schemars(skip)]
    pub conversation_logs: BTreeMap<LogName, Vec<ConversationEntry>>,
}

/// A debate on its own that calls which failed for good left without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoVerdict {
    #[error("no conversation completed a round, so there is no verdict: {error}")]
    NoRound { error: String },
    #[error("{unasked} of {judges} judges could not be asked, so there is no verdict: {error}")]
    NoJudges { unasked: usize, judges: usize, error: String },
}

impl From<DebateState> for Verdict {
    fn from(state: DebateState) -> Verdict {
        let makers = state.personas.decision_makers.len();
        Verdict {
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

impl Verdict {
    /// What was given in all before the debate, where that was asked for, and could be read.
    pub fn blind_total(&self) -> Option<u32> {
        let totals = self.blind_scores.values().map(|score| score.card.total());
        let given =
            self.blind_scores.values().all(|score| score.provenance != Provenance::Defaulted);
        (self.blind_scores.len() == self.agents.len() && given).then(|| totals.sum())
    }

    /// Judges that could not be asked, and whose scores are neutral for it.
    pub fn unasked(&self) -> impl Iterator<Item = &String> {
        self.scores_by_agent.iter().filter(|(_, score)| score.failed.is_some()).map(|(id, _)| id)
    }

    /// The error of a call that failed for good, if one has affected the verdict: a conversation is partial, or a
    /// judge's scores are neutral.
    pub fn affected_by(&self) -> Option<&str> {
        let scores = self.scores_by_agent.values().filter_map(|score| score.failed.as_deref());
        self.partial.values().map(|partial| partial.error.as_str()).chain(scores).next()
    }

    /// Why this verdict must not stand by itself, if so: no conversation completed a round, or more than half of the
    /// judges could not be asked.
    pub fn is_no_verdict(&self) -> Option<NoVerdict> {
        let error = self.affected_by()?.to_owned();
        let nothing = self.partial.len() == self.agents.len()
            && self.partial.values().all(|partial| partial.completed_rounds == 0);
        let (unasked, judges) = (self.unasked().count(), self.scores_by_agent.len());
        match () {
            () if nothing => Some(NoVerdict::NoRound { error }),
            () if 2 * unasked > judges => Some(NoVerdict::NoJudges { unasked, judges, error }),
            () => None,
        }
    }

    /// Decision makers whose scores no model gave in so many words.
    pub fn doubtful(&self) -> impl Iterator<Item = &str> {
        let scores = self.scores_by_agent.iter();
        scores.filter(|(_, score)| score.provenance.is_doubtful()).map(|(id, _)| id.as_str())
    }
}
