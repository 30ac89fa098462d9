//! What a debate knows, and how it changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use assize_graph::State;
use assize_llm::{Block, Provenance, Spent, Turn};
use serde::{Deserialize, Serialize};

use crate::personas::{DECISION_MAKERS, DecisionMaker};
use crate::prompt;
use crate::score::ScoreCard;

/// The move that is debated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveDocument {
    /// `m1` to `m15` in a consultation.
    pub move_id: String,
    pub content: String,
}

/// One of the three conversations, each between the critic and one decision maker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogName {
    I1,
    I2,
    I3,
}

impl LogName {
    pub const ALL: [LogName; 3] = [LogName::I1, LogName::I2, LogName::I3];

    pub fn name(self) -> &'static str {
        ["i1", "i2", "i3"][self as usize]
    }

    pub fn decision_maker(self) -> &'static DecisionMaker {
        &DECISION_MAKERS[self as usize]
    }
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationEntry {
    /// `critic`, `D1`, `D2` or `D3`.
    pub role: Cow<'static, str>,
    pub content: Arc<str>,
    pub round: u32,
    /// It was cut off at the longest answer allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
}

/// A conversation that ended early, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// The rounds in which both spoke.
    pub completed_rounds: u32,
    pub error: String,
}

/// What stands in a prompt for rounds that are left out of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Rounds 2 to this one are summed up.
    pub up_to_round: u32,
    pub text: String,
    /// No model summed them up: these are their opening words.
    pub extracted: bool,
}

/// A decision maker's scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeScore {
    #[serde(flatten)]
    pub card: ScoreCard,
    /// How the scores were read; where no model gave them in so many words, this says so.
    pub provenance: Provenance,
}

/// What a debate has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct DebateState {
    move_document: MoveDocument,
    ticker: Option<String>,
    pub i1: Vec<ConversationEntry>,
    pub i2: Vec<ConversationEntry>,
    pub i3: Vec<ConversationEntry>,
    /// The latest round in which someone spoke.
    pub current_round: u32,
    pub max_rounds: u32,
    pub scores: BTreeMap<&'static str, JudgeScore>,
    /// The sum of all scores, of 120.
    pub total_score: u32,
    /// Conversations that ended early.
    pub partial: BTreeMap<LogName, Partial>,
    /// What stands for rounds that no longer fit a prompt.
    pub summaries: BTreeMap<LogName, Summary>,
    pub spent: Spent,
    /// What every prompt begins with, worded once.
    pub(crate) blocks: Vec<Block>,
    /// The logs as prompts have them, each entry worded once.
    pub(crate) turns: [Vec<Turn>; 3],
}

impl DebateState {
    pub fn new(
        move_document: MoveDocument,
        ticker: Option<String>,
        max_rounds: u32,
    ) -> DebateState {
        let blocks = prompt::blocks(&move_document, ticker.as_deref());
        DebateState {
            blocks,
            turns: Default::default(),
            move_document,
            ticker,
            i1: Vec::new(),
            i2: Vec::new(),
            i3: Vec::new(),
            current_round: 0,
            max_rounds,
            scores: BTreeMap::new(),
            total_score: 0,
            partial: BTreeMap::new(),
            summaries: BTreeMap::new(),
            spent: Spent::default(),
        }
    }

    pub fn move_document(&self) -> &MoveDocument {
        &self.move_document
    }

    pub fn ticker(&self) -> Option<&str> {
        self.ticker.as_deref()
    }

    pub fn log(&self, name: LogName) -> &[ConversationEntry] {
        match name {
            LogName::I1 => &self.i1,
            LogName::I2 => &self.i2,
            LogName::I3 => &self.i3,
        }
    }

    /// The round that this conversation is in.
    pub(crate) fn round_of(&self, name: LogName) -> u32 {
        self.log(name).last().map_or(0, |entry| entry.round)
    }
}

/// One change of a debate.
#[derive(Debug, Clone)]
pub enum Update {
    Said { log: LogName, entry: ConversationEntry },
    Stopped { log: LogName, error: String },
    Summarised { log: LogName, summary: Summary },
    Scored { log: LogName, score: JudgeScore },
    Spent(Spent),
}

impl State for DebateState {
    type Update = Update;
    type Item = LogName;

    fn apply(&mut self, update: Update) {
        match update {
            Update::Said { log, entry } => {
                self.current_round = self.current_round.max(entry.round);
                self.turns[log as usize].push(prompt::turn(&entry));
                match log {
                    LogName::I1 => self.i1.push(entry),
                    LogName::I2 => self.i2.push(entry),
                    LogName::I3 => self.i3.push(entry),
                }
            }
            Update::Stopped { log, error } => {
                let id = log.decision_maker().id;
                let answered = self.log(log).iter().rev().find(|entry| entry.role == id);
                let completed_rounds = answered.map_or(0, |entry| entry.round);
                self.partial.insert(log, Partial { completed_rounds, error });
            }
            Update::Summarised { log, summary } => {
                self.summaries.insert(log, summary);
            }
            Update::Scored { log, score } => {
                self.total_score += score.card.total();
                self.scores.insert(log.decision_maker().id, score);
            }
            Update::Spent(spent) => self.spent = self.spent.plus(spent),
        }
    }
}
