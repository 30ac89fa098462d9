//! Debate of one move: a critic against decision makers, who score the move at the end.
//!
//! The critic opens with one critique, which is the first entry of every conversation: `i1`, `i2` and `i3` for three
//! decision makers. In each conversation one decision maker and the critic take turns until the last round; the
//! conversations are independent of each other. Then each decision maker scores the move on four metrics of ten points
//! each, which is a maximum of 120 points for three decision makers. A debate of ten rounds takes 61 model calls.
//!
//! The debate is a [`Graph`] that needs only a [`Model`]: it can run in this process, or in a sandbox whose only
//! connection is a channel to the model. Every call is an effect under a stable key such as `i1/round-4/critic`, so
//! that a resumed debate repeats no finished call.
//!
//! There is a rule for every failure (table in `docs/explanation/durability.md`). A call fails permanently if all its
//! retries fail. If a call for an entry of one conversation fails permanently, the conversation ends; it is scored with
//! the entries so far and marked as partial. A judge is a decision maker that scores the move. If the judge's call
//! fails permanently, or its scores cannot be parsed, its score is a neutral 5 for each metric, marked as neutral. If a
//! conversation exceeds the context window, prompts contain its first round, its last three rounds, and a summary of
//! the rounds between.

mod allowed_calls;
mod call_position;
mod nodes;
mod personas;
mod prompt;
mod score;
mod spec;
mod state;
mod verdict;

use std::sync::Arc;

use assize_graph::{Branch, END, FanOut, Graph, InvalidGraph};
use assize_llm::{Model, ModelRequest};
use serde::{Deserialize, Serialize};

pub use allowed_calls::AllowedCalls;
pub use call_position::{
    CallPosition, CallPurpose, RoundEvents, Transcript, conversation_logs, ends_the_run,
};
use nodes::DebateNodes;
pub use personas::{DebatePersonas, Persona};
pub use score::{BEST, METRICS, ScoreCard};
pub use spec::{DebateSpec, HOST_CONNECTION_LOST, step_limit};
pub use state::{
    ConversationEntry, DebateCompany, DebateState, DebateUpdate, InvalidLogName, JudgeScore,
    LogName, MoveDocument, PartialConversation, PersonaChange, RoundSummary,
};
pub use verdict::{DebateVerdict, NoVerdict};

/// Default number of rounds of a debate.
pub const ROUNDS: u32 = 10;

/// Model parameters of a debate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DebateOptions {
    pub temperature: f32,
    /// Maximum length of an answer, in tokens.
    pub max_tokens: u32,
    /// Context window of the model, in tokens. If unknown, the provider's overflow error is the only limit.
    pub context_window: Option<u64>,
    /// Whether each decision maker also scores the move before the debate, to show what the debate changed.
    #[serde(default)]
    pub blind_scores: bool,
}

impl Default for DebateOptions {
    fn default() -> DebateOptions {
        DebateOptions {
            temperature: ModelRequest::TEMPERATURE,
            max_tokens: ModelRequest::MAX_TOKENS,
            context_window: None,
            blind_scores: false,
        }
    }
}

/// Number of model calls of a debate in which no call fails, without the calls for blind scores.
pub fn calls(rounds: u32, makers: usize) -> u64 {
    // Round 1 has one opening critique and an answer of each decision maker. Each later round has a critique and an
    // answer in each conversation. The scores take one call of each decision maker.
    let (rounds, makers) = (u64::from(rounds), makers as u64);
    1 + makers + rounds.saturating_sub(1) * 2 * makers + makers
}

/// Number of calls in the longest chain of sequential calls of a debate.
pub fn longest_call_chain(rounds: u32) -> u64 {
    2 * u64::from(rounds) + 1
}

/// Builds the graph of a debate.
pub fn graph(
    model: Arc<dyn Model>,
    options: DebateOptions,
) -> Result<Graph<DebateState>, InvalidGraph> {
    let debate = Arc::new(DebateNodes { model, options });
    let [opening, answers, critiques, scores] = std::array::from_fn(|_| debate.clone());
    Graph::builder("debate")
        .node("critic_round_1", move |context| opening.clone().critic_round_1(context))
        .node("dm_respond", move |context| answers.clone().dm_respond(context))
        .node("critic_individual", move |context| critiques.clone().critic_individual(context))
        .node("score_move", move |context| scores.clone().score_move(context))
        .start("critic_round_1")
        .fan_out("critic_round_1", ["dm_respond"], "score_move", |state: &DebateState| {
            let branch = |log: LogName| Branch::new("dm_respond", log.to_string(), log);
            FanOut::from(state.log_names().map(branch).collect::<Vec<_>>())
        })
        .route("dm_respond", ["critic_individual", "score_move"], |state, log| match log {
            Some(log) if is_active(state, *log) && state.round_of(*log) < state.max_rounds => {
                "critic_individual"
            }
            _ => "score_move",
        })
        .route("critic_individual", ["dm_respond", "score_move"], |state, log| match log {
            Some(log) if is_active(state, *log) => "dm_respond",
            _ => "score_move",
        })
        .edge("score_move", END)
        .compile()
}

fn is_active(state: &DebateState, log: LogName) -> bool {
    !state.partial.contains_key(&log)
}
