//! One move on trial.
//!
//! A critic opens with one critique, which goes into every log: `i1`, `i2` and `i3`, where there are three
//! decision makers. In each of them one decision maker answers, and critic and decision maker go on by
//! themselves until the last round: no conversation waits for another. Then each decision maker scores the
//! move on four metrics of ten, 120 in all. With ten rounds that is 61 calls.
//!
//! The debate is a [`Graph`] that needs nothing but a [`Model`]: it can run in this process, or in a
//! sandbox whose only way out is a channel to the model. Every call is an effect under a stable key,
//! such as `i1/round-4/critic`, so that a debate that is run again on its journal pays for nothing
//! twice.
//!
//! Every failure has its rule (`docs/failures.md` has the table). A call that fails for good ends its
//! conversation, which is scored with the rounds completed and marked partial. A judge whose call fails
//! for good, or whose scores cannot be read, gives a neutral 5 for each metric, marked as such. A
//! conversation that grows out of the context window keeps its first round, its last three, and a
//! summary of those between.

mod bounds;
mod job;
mod nodes;
mod personas;
mod place;
mod prompt;
mod score;
mod state;
mod verdict;

use std::sync::Arc;

use assize_graph::{Branch, END, FanOut, Graph, InvalidGraph};
use assize_llm::{Model, Request};
use serde::{Deserialize, Serialize};

pub use bounds::Bounds;
pub use job::{HOST_IS_GONE, Job, step_limit};
use nodes::Room;
pub use personas::{Persona, Personas};
pub use place::{Minutes, Part, Place, Round, conversation_logs, ends_the_run};
pub use score::{BEST, METRICS, ScoreCard};
pub use state::{
    Change, Company, ConversationEntry, DebateState, JudgeScore, LogName, MoveDocument, NoLogName,
    Partial, Summary, Update,
};
pub use verdict::{NoVerdict, Verdict};

/// Rounds of a debate, where nothing else is asked for.
pub const ROUNDS: u32 = 10;

/// How the model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Options {
    pub temperature: f32,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// What fits the model, in tokens; where it is not known, the provider says when it is full.
    pub context_window: Option<u64>,
    /// Whether each decision maker also scores before the debate, to show what it changed.
    #[serde(default)]
    pub blind_scores: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            temperature: Request::TEMPERATURE,
            max_tokens: Request::MAX_TOKENS,
            context_window: None,
            blind_scores: false,
        }
    }
}

/// The calls that a debate with so many decision makers takes when nothing fails, without blind scores.
pub fn calls(rounds: u32, makers: usize) -> u64 {
    // One critique, an answer of each; then a critique and an answer for each; then their scores.
    let (rounds, makers) = (u64::from(rounds), makers as u64);
    1 + makers + rounds.saturating_sub(1) * 2 * makers + makers
}

/// The calls of a debate that have to be waited for, one after the other.
pub fn in_a_row(rounds: u32) -> u64 {
    2 * u64::from(rounds) + 1
}

/// The debate as a graph.
pub fn graph(model: Arc<dyn Model>, options: Options) -> Result<Graph<DebateState>, InvalidGraph> {
    let room = Arc::new(Room { model, options });
    let [opens, responds, presses, scores] = std::array::from_fn(|_| room.clone());
    Graph::builder("debate")
        .node("critic_round_1", move |context| opens.clone().critic_round_1(context))
        .node("dm_respond", move |context| responds.clone().dm_respond(context))
        .node("critic_individual", move |context| presses.clone().critic_individual(context))
        .node("score_move", move |context| scores.clone().score_move(context))
        .start("critic_round_1")
        .fan_out("critic_round_1", ["dm_respond"], "score_move", |state: &DebateState| {
            let branch = |log: LogName| Branch::new("dm_respond", log.to_string(), log);
            FanOut::from(state.log_names().map(branch).collect::<Vec<_>>())
        })
        .route("dm_respond", ["critic_individual", "score_move"], |state, log| match log {
            Some(log) if goes_on(state, *log) && state.round_of(*log) < state.max_rounds => {
                "critic_individual"
            }
            _ => "score_move",
        })
        .route("critic_individual", ["dm_respond", "score_move"], |state, log| match log {
            Some(log) if goes_on(state, *log) => "dm_respond",
            _ => "score_move",
        })
        .edge("score_move", END)
        .compile()
}

fn goes_on(state: &DebateState, log: LogName) -> bool {
    !state.partial.contains_key(&log)
}
