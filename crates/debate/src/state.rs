//! What a debate knows, and how it changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use assize_graph::State;
use assize_llm::{Block, PrefixHasher, Provenance, Response, Spent, Stop, Turn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::personas::{Persona, Personas};
use crate::prompt;
use crate::score::ScoreCard;

/// The move that is debated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveDocument {
    /// `m1` to `m15` in a consultation.
    pub move_id: String,
    pub content: String,
}

/// What everybody in a debate knows of the company.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Company {
    pub ticker: Option<String>,
    /// What it is called, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What there is to read about it, besides the move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<String>,
}

/// A conversation between the critic and one decision maker, by its place: `i1` is that of `D1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String")]
pub struct LogName(usize);

assize_types::serde_as_text!(LogName);

impl LogName {
    pub const I1: LogName = LogName(0);
    pub const I2: LogName = LogName(1);
    pub const I3: LogName = LogName(2);

    /// So many conversations, in order.
    pub fn first(count: usize) -> impl Iterator<Item = LogName> + Clone {
        (0..count).map(LogName)
    }

    pub fn index(self) -> usize {
        self.0
    }

    /// The conversation of the decision maker with this id.
    pub(crate) fn of_maker(id: &str) -> Option<LogName> {
        numbered(id, 'D')
    }

    /// The id of the decision maker whose conversation it is.
    pub fn maker(self) -> String {
        format!("D{}", self.0 + 1)
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0 + 1)
    }
}

/// Text that names no conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a conversation, as `i1` is")]
pub struct NoLogName(String);

impl FromStr for LogName {
    type Err = NoLogName;

    fn from_str(text: &str) -> Result<LogName, NoLogName> {
        numbered(text, 'i').ok_or_else(|| NoLogName(text.to_owned()))
    }
}

/// The conversation with the number behind a letter, counted from 1.
fn numbered(text: &str, letter: char) -> Option<LogName> {
    let digits = text.strip_prefix(letter).filter(|digits| !digits.starts_with(['0', '+']))?;
    digits.parse::<usize>().ok()?.checked_sub(1).map(LogName)
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationEntry {
    /// `critic`, `D1`, `D2` and so on.
    pub role: Cow<'static, str>,
    pub content: Arc<str>,
    pub round: u32,
    /// It was cut off at the longest answer allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
}

/// A response as something that was said.
pub(crate) fn said(role: Cow<'static, str>, round: u32, response: &Response) -> ConversationEntry {
    ConversationEntry {
        role,
        content: response.text.trim().into(),
        round,
        cut_off: response.stop == Stop::MaxTokens,
    }
}

/// A conversation that ended early, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PartialConversation")]
pub struct Partial {
    /// The rounds in which both spoke.
    pub completed_rounds: u32,
    pub error: String,
}

/// What stands in a prompt for rounds that are left out of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SummarizedRounds")]
pub struct Summary {
    /// Rounds 2 to this one are summed up.
    pub up_to_round: u32,
    pub text: String,
    /// No model summed them up: these are their opening words.
    pub extracted: bool,
}

/// A decision maker's scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeScore {
    #[serde(flatten)]
    pub card: ScoreCard,
    /// How the scores were read; where no model gave them in so many words, this says so.
    pub provenance: Provenance,
    /// The metrics that could not be read, for which 5 is assumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Why the judge could not be asked, where that is why 5 is assumed for every metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl JudgeScore {
    /// What must be known of them, where no model gave them in so many words.
    pub fn doubt(&self) -> Option<String> {
        if let Some(error) = &self.failed {
            return Some(format!(
                "NEUTRAL, 5 for each metric: the judge could not be asked: {error}"
            ));
        }
        let how = self.provenance.is_doubtful().then(|| self.provenance.to_string())?;
        Some(match self.assumed.as_slice() {
            [] => how,
            assumed => format!("{how}; 5 is assumed for {}", assumed.join(", ")),
        })
    }
}

/// Who takes part in another way from a round on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PersonaChange")]
pub struct Change {
    pub from_round: u32,
    /// What they are told to be, by `critic`, `D1` and so on.
    pub personas: BTreeMap<String, String>,
}

/// What a debate has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct DebateState {
    pub move_document: MoveDocument,
    pub company: Company,
    pub personas: Arc<Personas>,
    /// Who takes part in another way; the later counts where two speak of the same.
    pub changes: Vec<Change>,
    /// What was said, conversation by conversation: `i1`, `i2` and so on.
    pub logs: Vec<Vec<ConversationEntry>>,
    /// The latest round in which someone spoke.
    pub current_round: u32,
    pub max_rounds: u32,
    pub scores: BTreeMap<String, JudgeScore>,
    /// What was thought of the move before it was debated, where that was asked for.
    pub blind_scores: BTreeMap<String, JudgeScore>,
    /// The sum of all scores, of 40 for each decision maker.
    pub total_score: u32,
    /// Conversations that ended early.
    pub partial: BTreeMap<LogName, Partial>,
    /// What stands for rounds that no longer fit a prompt.
    pub summaries: BTreeMap<LogName, Summary>,
    pub spent: Spent,
    /// What every prompt begins with, worded once.
    pub(crate) blocks: Vec<Block>,
    /// The logs as prompts have them.
    pub(crate) turns: Vec<Vec<Turn>>,
    /// Hash the requests of each log.
    pub(crate) hashers: Arc<[PrefixHasher]>,
}

impl DebateState {
    pub fn new(
        move_document: MoveDocument,
        company: Company,
        personas: Arc<Personas>,
        max_rounds: u32,
    ) -> DebateState {
        let blocks = prompt::blocks(&move_document, &company);
        let count = personas.decision_makers.len();
        DebateState {
            blocks,
            turns: vec![Vec::new(); count],
            hashers: (0..count).map(|_| PrefixHasher::default()).collect(),
            move_document,
            company,
            personas,
            changes: Vec::new(),
            logs: vec![Vec::new(); count],
            current_round: 0,
            max_rounds,
            scores: BTreeMap::new(),
            blind_scores: BTreeMap::new(),
            total_score: 0,
            partial: BTreeMap::new(),
            summaries: BTreeMap::new(),
            spent: Spent::default(),
        }
    }

    /// All conversations.
    pub fn log_names(&self) -> impl Iterator<Item = LogName> + Clone + use<> {
        LogName::first(self.logs.len())
    }

    pub fn log(&self, name: LogName) -> &[ConversationEntry] {
        self.logs.get(name.index()).map_or(&[], Vec::as_slice)
    }

    /// Who answers the critic in it.
    pub(crate) fn decision_maker(&self, log: LogName) -> &Persona {
        &self.personas.decision_makers[log.index()]
    }

    /// What somebody is told to be in a round: `critic`, `D1` and so on.
    pub(crate) fn persona(&self, role: &str, round: u32) -> &str {
        let mut changes = self.changes.iter().rev().filter(|change| change.from_round <= round);
        let changed = changes.find_map(|change| change.personas.get(role));
        changed.map_or_else(|| self.personas.persona(role).unwrap_or_default(), String::as_str)
    }

    /// The round that this conversation is in.
    pub(crate) fn round_of(&self, name: LogName) -> u32 {
        self.log(name).last().map_or(0, |entry| entry.round)
    }
}

/// One change of a debate. What is said comes with its turn in prompts, worded once for its branch and the join.
#[derive(Debug, Clone)]
pub enum Update {
    Said { log: LogName, entry: ConversationEntry, turn: Turn },
    Stopped { log: LogName, error: String },
    Summarised { log: LogName, summary: Summary },
    BlindScored { log: LogName, score: JudgeScore },
    Scored { log: LogName, score: JudgeScore },
    Spent(Spent),
}

impl State for DebateState {
    type Update = Update;
    type Item = LogName;

    fn apply(&mut self, update: Update) {
        match update {
            Update::Said { log, entry, turn } => {
                self.current_round = self.current_round.max(entry.round);
                self.turns[log.index()].push(turn);
                self.logs[log.index()].push(entry);
            }
            Update::Stopped { log, error } => {
                let id = log.maker();
                let answered = self.log(log).iter().rev().find(|entry| entry.role == id);
                let completed_rounds = answered.map_or(0, |entry| entry.round);
                self.partial.insert(log, Partial { completed_rounds, error });
            }
            Update::Summarised { log, summary } => {
                self.summaries.insert(log, summary);
            }
            Update::BlindScored { log, score } => {
                self.blind_scores.insert(log.maker(), score);
            }
            Update::Scored { log, score } => {
                self.total_score += score.card.total();
                self.scores.insert(log.maker(), score);
            }
            Update::Spent(spent) => self.spent = self.spent.plus(spent),
        }
    }
}
