//! A company's options on trial.
//!
//! What is known of a company is gathered, two read it (F1 and F2), analysts propose moves (m1, m2 and so
//! on), each move is debated by a critic and decision makers and scored, and the best three are recommended.
//!
//! All of it is one [`Graph`]. Every call to a model is an effect under a stable key, such as
//! `m3/i1/round-4/critic`, so that a consultation that is run again on its journal pays for nothing twice.
//! The debates run wherever [`Debates`] says: in sandboxes, in this process or on other nodes of a cluster.

mod answer;
mod documents;
mod drift;
mod figures;
mod fork;
mod html;
mod job;
mod mermaid;
mod name;
mod negotiation;
mod nodes;
mod personas;
mod prompt;
mod rank;
mod reading;
pub mod rehearsal;
mod report;
mod single;
pub mod sources;
mod state;
mod ticker;

use std::sync::Arc;

use assize_graph::{Branch, END, FanOut, Graph, InvalidGraph};
use assize_run::Layer;
use negotiation::AffectedMoves;

pub use assize_debate::{
    ConversationEntry, JudgeScore, LogName, METRICS, Part, Persona, Personas as DebatePersonas,
    Place, ROUNDS, Verdict, calls, conversation_logs,
};
pub use assize_gateway::Estimate;

pub use answer::{Finding, Inference, Move, Proposal};
pub use documents::{Cited, SYNTHETIC, Suggestion};
pub use drift::{Round, drift};
pub use figures::Grounded;
pub use fork::{At, ForkRequest, NoPlace, Turning};
pub use job::ground::{Prepared, RemoteDebateError, RemoteDebates};
pub use job::{
    ConsultAsk, ConsultInput, ConsultJob, ConsultPlan, DOCUMENTS, Request, Shelf, SourceName,
};
pub use mermaid::{debate_mermaid, mermaid};
pub use name::{CompanyName, InvalidName};
pub use negotiation::{
    DebateError, DebateOutcome, Debates, InProcess, InSandboxes, ModelProxy, ModelSource, Models,
    MostMovesAffected, install,
};
pub use nodes::Trouble;
pub use personas::{BadPersonas, Personas};
pub use rank::{RECOMMENDED, Ranked, TIE_RULE, rank};
pub use reading::{Conversations, consultation, consulted, documents, logs, moves_logs};
pub use report::{Made, Placed, REHEARSED, Report, label_made_up_parts, short};
pub use single::{DebateAsk, DebateInput, DebateJob, DebatePlan, DebateReport, estimate};
pub use state::{Company, ConsultState, Flag, FlagKind, Item, Side, Update};
pub use ticker::{NoTicker, Ticker};

use sources::Gathered;

/// Moves of each analyst, where nothing else is asked for.
pub const MOVES: usize = 3;

/// A document that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` cannot be kept: {why}")]
pub struct NotKept {
    pub name: String,
    pub why: String,
}

/// All that a consultation is held with.
#[derive(Clone)]
pub struct Chamber {
    pub models: Models,
    pub personas: Personas,
    /// How many moves each analyst proposes.
    pub moves: usize,
    pub rounds: u32,
    /// How many debates are held at once.
    pub at_once: usize,
    /// How models are asked, in debates and before.
    pub debate_options: assize_debate::Options,
    /// What the sources had to say.
    pub gathered: Arc<Gathered>,
    /// Whether more is to be made up, besides.
    pub synthetic: bool,
    pub debates: Arc<dyn Debates>,
    /// How it differs from an earlier one, where it starts from one; the last one counts most.
    pub turnings: Vec<Turning>,
    /// Where documents can be read before all is over.
    pub shelf: Option<Shelf>,
}

impl std::fmt::Debug for Chamber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chamber").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

impl Chamber {
    /// A consultation in this process, of the usual size and with nothing known.
    pub fn new(models: Models) -> Chamber {
        Chamber {
            models,
            personas: Personas::default(),
            moves: MOVES,
            rounds: ROUNDS,
            at_once: 1,
            debate_options: assize_debate::Options::default(),
            gathered: Arc::default(),
            synthetic: false,
            debates: Arc::new(InProcess::default()),
            turnings: Vec::new(),
            shelf: None,
        }
    }

    /// Whether a model makes up what could be known: where that was asked for, or nothing is known.
    pub fn makes_up(&self) -> bool {
        self.synthetic || self.gathered.is_empty()
    }

    /// The calls that a consultation takes when nothing fails.
    pub fn calls(&self) -> u64 {
        let synthetic = if self.makes_up() { 2 } else { 0 };
        let analysts = self.personas.analysts.len() as u64;
        let makers = self.personas.decision_makers.len();
        let blind = if self.debate_options.blind_scores { makers as u64 } else { 0 };
        let debate = assize_debate::calls(self.rounds, makers) + blind;
        synthetic + 2 + analysts + analysts * self.moves as u64 * debate
    }
}

/// The consultation as a graph.
pub fn graph(chamber: Arc<Chamber>) -> Result<Graph<ConsultState>, InvalidGraph> {
    let [a, b, c, d, e, f] = std::array::from_fn(|_| chamber.clone());
    let affected = Arc::new(AffectedMoves::default());
    let (analysts, at_once) = (chamber.personas.analysts.len(), chamber.at_once);
    let debate = assize_debate::graph(chamber.models.of("critic").clone(), chamber.debate_options)?;
    Graph::builder("consult")
        .node("layer_0_gather", move |context| a.clone().layer_0_gather(context))
        .node("layer_1_dispatch", |context| nodes::start_layer(context, 1.into()))
        .node("inference_agent", move |context| b.clone().inference_agent(context))
        .node("layer_1_reduce", nodes::layer_1_reduce)
        .node("layer_2_dispatch", |context| nodes::start_layer(context, 2.into()))
        .node("analyst_agent", move |context| c.clone().analyst_agent(context))
        .node("layer_2_reduce", move |context| d.clone().layer_2_reduce(context))
        .node("sandbox_orchestrator", |context| nodes::start_layer(context, Layer::DEBATES))
        .elsewhere("negotiation", &debate, move |context| {
            e.clone().negotiation(context, affected.clone())
        })
        .node("rank_and_output", move |context| f.clone().rank_and_output(context))
        .start("layer_0_gather")
        .edge("layer_0_gather", "layer_1_dispatch")
        .fan_out("layer_1_dispatch", ["inference_agent"], "layer_1_reduce", |_| {
            let branch =
                |side: Side| Branch::new("inference_agent", side.document(), Item::Inference(side));
            FanOut::from(Side::BOTH.map(branch))
        })
        .edge("inference_agent", "layer_1_reduce")
        .edge("layer_1_reduce", "layer_2_dispatch")
        .fan_out("layer_2_dispatch", ["analyst_agent"], "layer_2_reduce", move |_| {
            let branch = |index: usize| {
                Branch::new("analyst_agent", format!("analyst_{}", index + 1), Item::Analyst(index))
            };
            FanOut::from((0..analysts).map(branch).collect::<Vec<_>>())
        })
        .edge("analyst_agent", "layer_2_reduce")
        .edge("layer_2_reduce", "sandbox_orchestrator")
        .fan_out(
            "sandbox_orchestrator",
            ["negotiation"],
            "rank_and_output",
            move |state: &ConsultState| {
                let branch = |(index, one): (usize, &Arc<Suggestion>)| {
                    Branch::new("negotiation", one.move_id.clone(), Item::Debate(index))
                };
                let all = state.move_suggestions.iter().enumerate().map(branch);
                FanOut::from(all.collect::<Vec<_>>()).at_once(at_once)
            },
        )
        .edge("negotiation", "rank_and_output")
        .edge("rank_and_output", END)
        .compile()
}
