//! State of a consultation and its updates.

use std::sync::Arc;

use assize_debate::DebateVerdict;
use assize_graph::State;
use assize_llm::CallTotals;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Inference;
use crate::documents::MoveSuggestion;
use crate::name::CompanyName;
use crate::rank::Ranking;
use crate::sources::GatheredData;
use crate::ticker::Ticker;

/// Company of a consultation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConsultCompany {
    /// Stock ticker; null for a private company, which has a name instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticker: Option<Ticker>,
    /// Name of the company, from the SEC's list or given by the user.
    pub name: Option<String>,
}

impl ConsultCompany {
    /// Creates a listed company whose name is not known yet.
    pub fn listed(ticker: Ticker) -> ConsultCompany {
        ConsultCompany { ticker: Some(ticker), name: None }
    }

    /// Creates a private company, which has a name and no ticker.
    pub fn private(name: CompanyName) -> ConsultCompany {
        ConsultCompany { ticker: None, name: Some(name.into()) }
    }

    /// Name and ticker for display, as far as they are known.
    pub fn display_name(&self) -> String {
        match (&self.name, &self.ticker) {
            (Some(name), Some(ticker)) => format!("{name} ({ticker})"),
            (Some(name), None) => name.clone(),
            (None, Some(ticker)) => ticker.to_string(),
            (None, None) => "an unnamed company".to_owned(),
        }
    }
}

/// One of the two inferences about a company: F1 or F2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InferenceSide {
    /// Inference F1, about the financial data.
    Financial,
    /// Inference F2, about trends in the news.
    Trend,
}

impl InferenceSide {
    pub const BOTH: [InferenceSide; 2] = [InferenceSide::Financial, InferenceSide::Trend];

    /// Name of the inference's document: `F1` or `F2`.
    pub fn document(self) -> &'static str {
        match self {
            InferenceSide::Financial => "F1",
            InferenceSide::Trend => "F2",
        }
    }

    /// Returns the agent that gathers the company data for this inference in layer 0, the first stage of the
    /// consultation: the id and the name of the agent, and the file name of the data.
    pub(crate) fn gatherer(self) -> (&'static str, &'static str, &'static str) {
        match self {
            InferenceSide::Financial => {
                ("gather_financial", "Financial data", "financial_data_raw.md")
            }
            InferenceSide::Trend => ("gather_news", "News and sentiment", "news_data_raw.md"),
        }
    }

    /// Id of the agent that writes the inference.
    pub fn agent(self) -> &'static str {
        match self {
            InferenceSide::Financial => "financial",
            InferenceSide::Trend => "trend",
        }
    }
}

/// Work item of one branch in the consultation graph: one inference, one analyst or one debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsultItem {
    Inference(InferenceSide),
    /// Proposal of moves by the analyst with this index.
    Analyst(usize),
    /// Debate of the move with this index.
    Debate(usize),
}

/// Caveat about a report or about one of its moves, shown to readers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flag {
    pub kind: FlagKind,
    /// Id of the move that the caveat applies to; null for the whole report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_id: Option<String>,
    pub message: String,
}

/// Kind of a caveat about a report.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FlagKind {
    CompanyNotVerified,
    Synthetic,
    Rehearsal,
    /// Source data is old, incomplete or left out.
    Source,
    /// An analyst proposed no moves, or a wrong number of moves.
    Moves,
    /// A conversation of a debate ended early, or a judge gave no scores before the debate.
    Partial,
    /// Scores were extracted from an answer that was not in the requested format.
    Repaired,
    Tie,
    UnsupportedFigure,
    UnresolvedCitation,
    /// A debate ran without a sandbox.
    NoIsolation,
    /// Debates ran with weaker isolation than a microVM, because no microVM was available.
    WeakerIsolation,
    /// The run is a fork of another run.
    Forked,
    /// A move was not debated, because the opening critique of its debate failed.
    NotDebated,
    /// Scores are missing or could not be parsed, so 5 is assumed.
    Assumed,
}

/// State of a consultation.
#[derive(Debug, Clone, Default)]
pub struct ConsultState {
    pub company: ConsultCompany,
    pub gathered: Arc<GatheredData>,
    pub financial_data_raw: Arc<str>,
    pub news_data_raw: Arc<str>,
    pub inferences: [Option<Arc<Inference>>; 2],
    pub f1_financial_inference: Arc<str>,
    pub f2_trend_inference: Arc<str>,
    pub move_suggestions: Vec<Arc<MoveSuggestion>>,
    pub policy_scores: Vec<Arc<DebateVerdict>>,
    pub ranked: Option<Arc<Ranking>>,
    pub flags: Vec<Flag>,
    pub spent: CallTotals,
    /// Number of moves that were never proposed, because calls of analysts failed permanently.
    pub moves_lost: usize,
}

impl ConsultState {
    pub fn new(company: ConsultCompany) -> ConsultState {
        ConsultState { company, ..ConsultState::default() }
    }

    pub fn inference(&self, side: InferenceSide) -> Option<&Arc<Inference>> {
        self.inferences[side as usize].as_ref()
    }
}

/// One change of a consultation's state.
#[derive(Debug, Clone)]
pub enum ConsultUpdate {
    Gathered {
        gathered: Arc<GatheredData>,
        financial: Arc<str>,
        news: Arc<str>,
    },
    Inferred {
        side: InferenceSide,
        inference: Arc<Inference>,
        document: Arc<str>,
    },
    Suggested(Arc<MoveSuggestion>),
    Debated(Arc<DebateVerdict>),
    Ranked(Arc<Ranking>),
    Flagged(Flag),
    Spent(CallTotals),
    /// Number of moves that an analyst did not propose, because its calls failed permanently.
    MovesLost(usize),
}

impl State for ConsultState {
    type Update = ConsultUpdate;
    type Item = ConsultItem;

    fn apply(&mut self, update: ConsultUpdate) {
        match update {
            ConsultUpdate::Gathered { gathered, financial, news } => {
                self.gathered = gathered;
                self.financial_data_raw = financial;
                self.news_data_raw = news;
            }
            ConsultUpdate::Inferred { side, inference, document } => {
                self.inferences[side as usize] = Some(inference);
                match side {
                    InferenceSide::Financial => self.f1_financial_inference = document,
                    InferenceSide::Trend => self.f2_trend_inference = document,
                }
            }
            ConsultUpdate::Suggested(suggestion) => self.move_suggestions.push(suggestion),
            ConsultUpdate::Debated(verdict) => self.policy_scores.push(verdict),
            ConsultUpdate::Ranked(ranked) => self.ranked = Some(ranked),
            // The debates of several moves can add the same flag for the whole report. It is recorded once.
            ConsultUpdate::Flagged(flag) if self.flags.contains(&flag) => {}
            ConsultUpdate::Flagged(flag) => self.flags.push(flag),
            ConsultUpdate::Spent(spent) => self.spent = self.spent.plus(spent),
            ConsultUpdate::MovesLost(count) => self.moves_lost += count,
        }
    }
}
