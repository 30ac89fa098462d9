//! Consultation: models propose strategic moves for a company, then debate, score and rank these moves.
//!
//! Sources provide data on the company. Two agents analyze the data and write the inferences F1 (financial data) and
//! F2 (trends). Analysts propose moves (m1, m2 and so on). A critic and decision makers debate each move, and the
//! decision makers score it. The consultation recommends the best three moves.
//!
//! The whole consultation is one [`Graph`]. Every model call is an effect under a stable key such as
//! `m3/i1/round-4/critic`, so that a resumed consultation repeats no finished call.
//! [`DebateRunner`] decides where debates run: in sandboxes, in this process or on other nodes of a cluster.

mod answer;
mod debate_job;
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
pub mod rehearsal;
mod report;
pub mod sources;
mod state;
mod stored_consultations;
mod ticker;

use std::sync::Arc;

use assize_graph::{Branch, END, FanOut, Graph, InvalidGraph};
use assize_run::ConsultLayer;
use negotiation::AffectedMoves;

pub use assize_debate::{
    CallPosition, CallPurpose, ConversationEntry, DebatePersonas, DebateVerdict, JudgeScore,
    LogName, METRICS, Persona, ROUNDS, calls, conversation_logs,
};
pub use assize_gateway::Estimate;

pub use answer::{Inference, InferenceFinding, Move, MoveProposal};
pub use debate_job::{DebateInput, DebateJob, DebatePlan, DebateReport, DebateRequest, estimate};
pub use documents::{CitedFinding, MoveSuggestion, SYNTHETIC};
pub use drift::{RoundDrift, drift};
pub use figures::GroundedFigure;
pub use fork::{ConsultFork, ForkPoint, ForkRequest, InvalidForkPoint};
pub use job::placement::{DebateSandboxes, RemoteDebateError, RemoteDebates};
pub use job::{
    ConsultInput, ConsultJob, ConsultPlan, ConsultRequest, DOCUMENTS, DataSource, DocumentStore,
    JobRequest,
};
pub use mermaid::{debate_mermaid, mermaid};
pub use name::{CompanyName, InvalidCompanyName};
pub use negotiation::{
    DebateError, DebateOutcome, DebateRunner, InProcessDebates, ModelProxy, ModelSource,
    RoleModels, SandboxedDebates, TooManyMovesAffected, install, negotiator_program,
};
pub use nodes::ConsultError;
pub use personas::{ConsultPersonas, InvalidPersonas};
pub use rank::{RECOMMENDED, Ranking, TIE_RULE, rank};
pub use report::{
    ConsultReport, REHEARSAL_BANNER, RankedMove, ReportOrigin, flag_label, label_synthetic_parts,
};
pub use state::{
    ConsultCompany, ConsultItem, ConsultState, ConsultUpdate, Flag, FlagKind, InferenceSide,
};
pub use stored_consultations::{
    Conversations, consultation_json, conversations_by_move, conversations_json, document_files,
    stored_report,
};
pub use ticker::{InvalidTicker, Ticker};

use sources::GatheredData;

/// Default number of moves per analyst.
pub const MOVES: usize = 3;

/// Error: a document of a consultation could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot store document `{name}`: {why}")]
pub struct DocumentNotStored {
    pub name: String,
    pub why: String,
}

/// Services and parameters that a consultation needs to run.
#[derive(Clone)]
pub struct ConsultContext {
    pub models: RoleModels,
    pub personas: ConsultPersonas,
    /// Number of moves that each analyst proposes.
    pub moves: usize,
    pub rounds: u32,
    /// Maximum number of concurrent debates.
    pub max_concurrent_debates: usize,
    /// Model parameters of all calls, in debates and before the debates.
    pub debate_options: assize_debate::DebateOptions,
    /// Company data from the sources.
    pub gathered: Arc<GatheredData>,
    /// Whether the user requested synthetic data, which a model generates in addition to the source data.
    pub synthetic: bool,
    pub debates: Arc<dyn DebateRunner>,
    /// Forks that led to this run: how each differs from its parent run. A later fork overrides an earlier fork.
    pub forks: Vec<ConsultFork>,
    /// Store for documents that users can read while the consultation is still running.
    pub document_store: Option<DocumentStore>,
}

impl std::fmt::Debug for ConsultContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsultContext").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

impl ConsultContext {
    /// Context of a consultation of default size that has no source data and runs its debates in this process.
    pub fn new(models: RoleModels) -> ConsultContext {
        ConsultContext {
            models,
            personas: ConsultPersonas::default(),
            moves: MOVES,
            rounds: ROUNDS,
            max_concurrent_debates: 1,
            debate_options: assize_debate::DebateOptions::default(),
            gathered: Arc::default(),
            synthetic: false,
            debates: Arc::new(InProcessDebates::default()),
            forks: Vec::new(),
            document_store: None,
        }
    }

    /// Whether a model makes up company data, either because the user requested synthetic data, or because there is no
    /// other data.
    pub fn generates_synthetic_data(&self) -> bool {
        self.synthetic || self.gathered.is_empty()
    }

    /// Number of model calls in a consultation in which no call fails.
    pub fn calls(&self) -> u64 {
        let synthetic = if self.generates_synthetic_data() { 2 } else { 0 };
        let analysts = self.personas.analysts.len() as u64;
        let makers = self.personas.decision_makers.len();
        let blind = if self.debate_options.blind_scores { makers as u64 } else { 0 };
        let debate = assize_debate::calls(self.rounds, makers) + blind;
        synthetic + 2 + analysts + analysts * self.moves as u64 * debate
    }
}

/// Builds the graph of a consultation.
pub fn graph(context: Arc<ConsultContext>) -> Result<Graph<ConsultState>, InvalidGraph> {
    let [a, b, c, d, e, f] = std::array::from_fn(|_| context.clone());
    let affected = Arc::new(AffectedMoves::default());
    let (analysts, at_once) = (context.personas.analysts.len(), context.max_concurrent_debates);
    let debate = assize_debate::graph(context.models.of("critic").clone(), context.debate_options)?;
    Graph::builder("consult")
        .node("layer_0_gather", move |context| a.clone().layer_0_gather(context))
        .node("layer_1_dispatch", |context| nodes::start_layer(context, 1.into()))
        .node("inference_agent", move |context| b.clone().inference_agent(context))
        .node("layer_1_reduce", nodes::layer_1_reduce)
        .node("layer_2_dispatch", |context| nodes::start_layer(context, 2.into()))
        .node("analyst_agent", move |context| c.clone().analyst_agent(context))
        .node("layer_2_reduce", move |context| d.clone().layer_2_reduce(context))
        .node("sandbox_orchestrator", |context| nodes::start_layer(context, ConsultLayer::DEBATES))
        .external_graph("negotiation", &debate, move |context| {
            e.clone().negotiation(context, affected.clone())
        })
        .node("rank_and_output", move |context| f.clone().rank_and_output(context))
        .start("layer_0_gather")
        .edge("layer_0_gather", "layer_1_dispatch")
        .fan_out("layer_1_dispatch", ["inference_agent"], "layer_1_reduce", |_| {
            let branch = |side: InferenceSide| {
                Branch::new("inference_agent", side.document(), ConsultItem::Inference(side))
            };
            FanOut::from(InferenceSide::BOTH.map(branch))
        })
        .edge("inference_agent", "layer_1_reduce")
        .edge("layer_1_reduce", "layer_2_dispatch")
        .fan_out("layer_2_dispatch", ["analyst_agent"], "layer_2_reduce", move |_| {
            let branch = |index: usize| {
                Branch::new(
                    "analyst_agent",
                    format!("analyst_{}", index + 1),
                    ConsultItem::Analyst(index),
                )
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
                let branch = |(index, suggestion): (usize, &Arc<MoveSuggestion>)| {
                    Branch::new(
                        "negotiation",
                        suggestion.move_id.clone(),
                        ConsultItem::Debate(index),
                    )
                };
                let all = state.move_suggestions.iter().enumerate().map(branch);
                FanOut::from(all.collect::<Vec<_>>()).max_concurrency(at_once)
            },
        )
        .edge("negotiation", "rank_and_output")
        .edge("rank_and_output", END)
        .compile()
}
