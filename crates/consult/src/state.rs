//! What a consultation knows, and how it changes.

use std::sync::Arc;

use assize_debate::Verdict;
use assize_graph::State;
use assize_llm::Spent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Inference;
use crate::documents::Suggestion;
use crate::name::CompanyName;
use crate::rank::Ranked;
use crate::sources::Gathered;
use crate::ticker::Ticker;

/// The company that is consulted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Company {
    /// None for a private company, which has a name instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticker: Option<Ticker>,
    /// Its name: from the SEC's list, or as the user gave it.
    pub name: Option<String>,
}

impl Company {
    /// A listed company; its name is not known yet.
    pub fn listed(ticker: Ticker) -> Company {
        Company { ticker: Some(ticker), name: None }
    }

    /// A private company, by its name.
    pub fn private(name: CompanyName) -> Company {
        Company { ticker: None, name: Some(name.into()) }
    }

    /// Its name with its ticker, as far as they are known.
    pub fn called(&self) -> String {
        match (&self.name, &self.ticker) {
            (Some(name), Some(ticker)) => format!("{name} ({ticker})"),
            (Some(name), None) => name.clone(),
            (None, Some(ticker)) => ticker.to_string(),
            (None, None) => "an unnamed company".to_owned(),
        }
    }
}

/// Which of the two inferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Side {
    /// F1, of the figures.
    Financial,
    /// F2, of the news.
    Trend,
}

impl Side {
    pub const BOTH: [Side; 2] = [Side::Financial, Side::Trend];

    /// `F1` or `F2`.
    pub fn document(self) -> &'static str {
        match self {
            Side::Financial => "F1",
            Side::Trend => "F2",
        }
    }

    /// The layer-0 agent that gathers its data: id, name and document.
    pub(crate) fn gatherer(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Side::Financial => ("gather_financial", "Financial data", "financial_data_raw.md"),
            Side::Trend => ("gather_news", "News and sentiment", "news_data_raw.md"),
        }
    }

    /// The id of who writes it.
    pub fn agent(self) -> &'static str {
        match self {
            Side::Financial => "financial",
            Side::Trend => "trend",
        }
    }
}

/// What a branch works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    Inference(Side),
    /// By their place among the personas.
    Analyst(usize),
    /// By its place among the moves.
    Debate(usize),
}

/// Something that whoever reads the report must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flag {
    pub kind: FlagKind,
    /// The move that it is about; else it is about all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_id: Option<String>,
    pub message: String,
}

/// What a flag is about.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FlagKind {
    CompanyNotVerified,
    Synthetic,
    Rehearsal,
    /// Old, partial or left out.
    Source,
    /// An analyst gave none, or not as many as asked for.
    Moves,
    /// A conversation ended early.
    Partial,
    /// Scores that no model gave in so many words.
    Repaired,
    Tie,
    UnsupportedFigure,
    UnresolvedCitation,
    /// The debate was held without a sandbox.
    NoIsolation,
    /// Debates ran behind a weaker boundary than a microVM, because none could be had.
    WeakerIsolation,
    /// It starts from another run.
    Forked,
    /// Nobody could open the debate of a move.
    NotDebated,
    /// Scores that nobody gave at all.
    Assumed,
}

/// What a consultation has come to.
#[derive(Debug, Clone, Default)]
pub struct ConsultState {
    pub company: Company,
    pub gathered: Arc<Gathered>,
    pub financial_data_raw: Arc<str>,
    pub news_data_raw: Arc<str>,
    pub inferences: [Option<Arc<Inference>>; 2],
    pub f1_financial_inference: Arc<str>,
    pub f2_trend_inference: Arc<str>,
    pub move_suggestions: Vec<Arc<Suggestion>>,
    pub policy_scores: Vec<Arc<Verdict>>,
    pub ranked: Option<Arc<Ranked>>,
    pub flags: Vec<Flag>,
    pub spent: Spent,
    /// Moves that were never proposed, because the calls to their analysts failed for good.
    pub moves_lost: usize,
}

impl ConsultState {
    pub fn new(company: Company) -> ConsultState {
        ConsultState { company, ..ConsultState::default() }
    }

    pub fn inference(&self, side: Side) -> Option<&Arc<Inference>> {
        self.inferences[side as usize].as_ref()
    }
}

/// One change of it.
#[derive(Debug, Clone)]
pub enum Update {
    Gathered {
        gathered: Arc<Gathered>,
        financial: Arc<str>,
        news: Arc<str>,
    },
    Inferred {
        side: Side,
        inference: Arc<Inference>,
        document: Arc<str>,
    },
    Suggested(Arc<Suggestion>),
    Debated(Arc<Verdict>),
    Ranked(Arc<Ranked>),
    Flagged(Flag),
    Spent(Spent),
    /// So many moves were never proposed, because calls failed for good.
    MovesLost(usize),
}

impl State for ConsultState {
    type Update = Update;
    type Item = Item;

    fn apply(&mut self, update: Update) {
        match update {
            Update::Gathered { gathered, financial, news } => {
                self.gathered = gathered;
                self.financial_data_raw = financial;
                self.news_data_raw = news;
            }
            Update::Inferred { side, inference, document } => {
                self.inferences[side as usize] = Some(inference);
                match side {
                    Side::Financial => self.f1_financial_inference = document,
                    Side::Trend => self.f2_trend_inference = document,
                }
            }
            Update::Suggested(suggestion) => self.move_suggestions.push(suggestion),
            Update::Debated(verdict) => self.policy_scores.push(verdict),
            Update::Ranked(ranked) => self.ranked = Some(ranked),
            // What is said of all moves is said once.
            Update::Flagged(flag) if self.flags.contains(&flag) => {}
            Update::Flagged(flag) => self.flags.push(flag),
            Update::Spent(spent) => self.spent = self.spent.plus(spent),
            Update::MovesLost(count) => self.moves_lost += count,
        }
    }
}
