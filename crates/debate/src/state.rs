//! State of a debate and its updates.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use assize_graph::State;
use assize_llm::{
    Block, CallTotals, ModelResponse, PrefixHasher, Provenance, StopReason, TranscriptTurn,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::personas::{DebatePersonas, Persona};
use crate::prompt;
use crate::score::ScoreCard;

/// The move that is debated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveDocument {
    /// Id of the move, such as `m1`.
    pub move_id: String,
    pub content: String,
}

/// Company whose move is debated. All prompts of the debate contain this data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebateCompany {
    pub ticker: Option<String>,
    /// Company name, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Material about the company in addition to the move, such as inferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<String>,
}

/// Name of the conversation between the critic and one decision maker: `i1` is the conversation with `D1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String")]
pub struct LogName(usize);

assize_types::serde_as_text!(LogName);

impl LogName {
    pub const I1: LogName = LogName(0);
    pub const I2: LogName = LogName(1);
    pub const I3: LogName = LogName(2);

    /// Names of the first `count` conversations, in order.
    pub fn first(count: usize) -> impl Iterator<Item = LogName> + Clone {
        (0..count).map(LogName)
    }

    pub fn index(self) -> usize {
        self.0
    }

    /// Name of the conversation with the decision maker that has this id, such as `D1`.
    pub(crate) fn of_maker(id: &str) -> Option<LogName> {
        numbered(id, 'D')
    }

    /// Id of the decision maker in this conversation, such as `D1`.
    pub fn decision_maker_id(self) -> String {
        format!("D{}", self.0 + 1)
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0 + 1)
    }
}

/// Error for text that is not the name of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid conversation name `{0}`: expected `i1`, `i2` and so on")]
pub struct InvalidLogName(String);

impl FromStr for LogName {
    type Err = InvalidLogName;

    fn from_str(text: &str) -> Result<LogName, InvalidLogName> {
        numbered(text, 'i').ok_or_else(|| InvalidLogName(text.to_owned()))
    }
}

/// Parses a name that consists of `letter` and the number of the conversation, counted from 1.
fn numbered(text: &str, letter: char) -> Option<LogName> {
    let digits = text.strip_prefix(letter).filter(|digits| !digits.starts_with(['0', '+']))?;
    digits.parse::<usize>().ok()?.checked_sub(1).map(LogName)
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationEntry {
    /// Role that wrote the entry: `critic`, `D1`, `D2` and so on.
    pub role: Cow<'static, str>,
    pub content: Arc<str>,
    pub round: u32,
    /// Whether the answer was truncated at the token limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
}

/// Creates a conversation entry from a model response.
pub(crate) fn entry_from_response(
    role: Cow<'static, str>,
    round: u32,
    response: &ModelResponse,
) -> ConversationEntry {
    ConversationEntry {
        role,
        content: response.text.trim().into(),
        round,
        cut_off: response.stop == StopReason::MaxTokens,
    }
}

/// A conversation that ended early: the number of its completed rounds, and the error that ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartialConversation {
    /// Number of rounds in which both the critic and the decision maker wrote an entry.
    pub completed_rounds: u32,
    pub error: String,
}

/// Summary that replaces earlier rounds of a conversation in prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SummarizedRounds")]
pub struct RoundSummary {
    /// Last round that the summary covers. The summary always starts with round 2.
    pub up_to_round: u32,
    pub text: String,
    /// Whether the text consists of the first lines of the entries, because no model could summarize them.
    pub extracted: bool,
}

/// Scores of one decision maker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeScore {
    #[serde(flatten)]
    pub card: ScoreCard,
    /// How the scores were obtained: from the requested JSON, extracted by pattern, or defaulted.
    pub provenance: Provenance,
    /// Metrics whose scores could not be parsed; a score of 5 is assumed for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Error of the judge's call, if the call failed. In that case, 5 is assumed for every metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl JudgeScore {
    /// Caveat to show with the scores; `None` if the model returned the scores as requested.
    pub fn caveat(&self) -> Option<String> {
        if let Some(error) = &self.failed {
            return Some(format!(
                "NEUTRAL (5 for each metric), because the judge's call failed: {error}"
            ));
        }
        let how = self.provenance.is_doubtful().then(|| self.provenance.to_string())?;
        Some(match self.assumed.as_slice() {
            [] => how,
            assumed => format!("{how}; 5 is assumed for {}", assumed.join(", ")),
        })
    }
}

/// New personas that replace earlier ones from a given round on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PersonaChange {
    pub from_round: u32,
    /// New personas by role: `critic`, `D1` and so on.
    pub personas: BTreeMap<String, String>,
}

/// State of a debate.
#[derive(Debug, Clone, PartialEq)]
pub struct DebateState {
    pub move_document: MoveDocument,
    pub company: DebateCompany,
    pub personas: Arc<DebatePersonas>,
    /// Persona changes. If several changes apply to a role, the last one in the list is used.
    pub changes: Vec<PersonaChange>,
    /// Entries of each conversation, in the order `i1`, `i2` and so on.
    pub logs: Vec<Vec<ConversationEntry>>,
    /// Latest round in which a conversation has an entry.
    pub current_round: u32,
    pub max_rounds: u32,
    pub scores: BTreeMap<String, JudgeScore>,
    /// Scores that the decision makers gave before the debate; empty if they were not requested.
    pub blind_scores: BTreeMap<String, JudgeScore>,
    /// Sum of all scores, at most 40 for each decision maker.
    pub total_score: u32,
    /// Conversations that ended early.
    pub partial: BTreeMap<LogName, PartialConversation>,
    /// Summaries of rounds that no longer fit into a prompt.
    pub summaries: BTreeMap<LogName, RoundSummary>,
    pub spent: CallTotals,
    /// Blocks at the start of every prompt. They are built once per debate.
    pub(crate) blocks: Vec<Block>,
    /// Entries of each conversation, in the form in which prompts contain them.
    pub(crate) turns: Vec<Vec<TranscriptTurn>>,
    /// One hasher for each conversation. It computes the fingerprints of the requests of that conversation.
    pub(crate) hashers: Arc<[PrefixHasher]>,
}

impl DebateState {
    pub fn new(
        move_document: MoveDocument,
        company: DebateCompany,
        personas: Arc<DebatePersonas>,
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
            spent: CallTotals::default(),
        }
    }

    /// Names of all conversations.
    pub fn log_names(&self) -> impl Iterator<Item = LogName> + Clone + use<> {
        LogName::first(self.logs.len())
    }

    pub fn log(&self, name: LogName) -> &[ConversationEntry] {
        self.logs.get(name.index()).map_or(&[], Vec::as_slice)
    }

    /// Decision maker of a conversation.
    pub(crate) fn decision_maker(&self, log: LogName) -> &Persona {
        &self.personas.decision_makers[log.index()]
    }

    /// Persona of a role (`critic`, `D1` and so on) in a round.
    pub(crate) fn persona(&self, role: &str, round: u32) -> &str {
        let mut changes = self.changes.iter().rev().filter(|change| change.from_round <= round);
        let changed = changes.find_map(|change| change.personas.get(role));
        changed.map_or_else(|| self.personas.persona(role).unwrap_or_default(), String::as_str)
    }

    /// Round of the last entry in a conversation; 0 if there is no entry.
    pub(crate) fn round_of(&self, name: LogName) -> u32 {
        self.log(name).last().map_or(0, |entry| entry.round)
    }
}

/// One change of a debate's state. `EntryAdded` contains a new entry, and also the form of the entry in prompts
/// (`turn`), so that this form is built only once.
#[derive(Debug, Clone)]
pub enum DebateUpdate {
    EntryAdded { log: LogName, entry: ConversationEntry, turn: TranscriptTurn },
    ConversationEnded { log: LogName, error: String },
    Summarised { log: LogName, summary: RoundSummary },
    BlindScored { log: LogName, score: JudgeScore },
    Scored { log: LogName, score: JudgeScore },
    Spent(CallTotals),
}

impl State for DebateState {
    type Update = DebateUpdate;
    type Item = LogName;

    fn apply(&mut self, update: DebateUpdate) {
        match update {
            DebateUpdate::EntryAdded { log, entry, turn } => {
                self.current_round = self.current_round.max(entry.round);
                self.turns[log.index()].push(turn);
                self.logs[log.index()].push(entry);
            }
            DebateUpdate::ConversationEnded { log, error } => {
                let id = log.decision_maker_id();
                let answered = self.log(log).iter().rev().find(|entry| entry.role == id);
                let completed_rounds = answered.map_or(0, |entry| entry.round);
                self.partial.insert(log, PartialConversation { completed_rounds, error });
            }
            DebateUpdate::Summarised { log, summary } => {
                self.summaries.insert(log, summary);
            }
            DebateUpdate::BlindScored { log, score } => {
                self.blind_scores.insert(log.decision_maker_id(), score);
            }
            DebateUpdate::Scored { log, score } => {
                self.total_score += score.card.total();
                self.scores.insert(log.decision_maker_id(), score);
            }
            DebateUpdate::Spent(spent) => self.spent = self.spent.plus(spent),
        }
    }
}
