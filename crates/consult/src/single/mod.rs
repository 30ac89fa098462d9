//! Job of a single debate: planned, executed and reported.

mod estimate;
mod plan;

use std::sync::Arc;

use crate::negotiation::{DebateOutcome, Debates, Models, Negotiated, negotiate};
use assize_debate::{Company, MoveDocument, Options, Personas, Place, Verdict, conversation_logs};
use assize_gateway::Gateway;
use assize_graph::{Context, END, Graph, InvalidGraph, Key, NodeError, Record, State};
use assize_run::{
    ExecuteError, Execution, Job, NewRun, NodeFailure, NodeSource, Origin, REMOTE, Run, RunKind,
    read_result,
};
use assize_types::{Failure, FailureKind, trail};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::job::ground::Ground;
use crate::job::{Request, explain};
use crate::{Flag, FlagKind};

pub use estimate::estimate;
pub use plan::{DebateAsk, DebateInput, DebatePlan};

/// What a debate came to, and behind which boundary it ran.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DebateReport {
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Where it ran.
    #[serde(default)]
    pub isolation: String,
    /// What a reader must know besides the verdict.
    #[serde(default)]
    pub flags: Vec<Flag>,
}

/// One move, debated and scored.
#[derive(Debug)]
pub struct DebateJob {
    pub input: DebateInput,
    pub gateway: Arc<Gateway>,
    /// Where it runs, and why there.
    pub why: String,
    request: Request<DebatePlan>,
}

#[async_trait]
impl Job for DebateJob {
    const KIND: RunKind = RunKind::Debate;
    type Request = Request<DebatePlan>;
    type Local = Ground;
    type Report = DebateReport;

    async fn plan(
        request: Request<DebatePlan>,
        with: &assize_run::Plan<'_>,
    ) -> Result<(DebateJob, NewRun), Failure> {
        let Request { plan, providers, sandboxes, .. } = &request;
        let gateway = Arc::new(providers.gateway(with.ledger.clone()).await?);
        let input = plan.input(with.origin, providers, sandboxes, &gateway)?;
        let new = plan.new_run(&input);
        Ok((DebateJob { input, gateway, why: REMOTE.to_owned(), request }, new))
    }

    fn inherits(request: &Request<DebatePlan>, _: &Origin, key: &Key) -> bool {
        let before = |at| Place::of(key).is_some_and(|place| place.is_before(at));
        request.plan.at.is_none_or(before)
    }

    fn check_remote(&self) -> Result<(), Failure> {
        self.request.providers.refuse_tape()
    }

    async fn prepare(&mut self) -> Result<Ground, Failure> {
        self.request.ground(&self.input.spec(), self.request.plan.allow_in_process).await
    }

    async fn execute(
        &mut self,
        ground: Ground,
        execution: Execution<'_>,
    ) -> Result<DebateReport, ExecuteError> {
        let run = execution.run;
        let debates = ground.of_run(self.input.spec(), run);
        trail::workflow_started(&run.title, self.gateway.name().0);
        let models = Models::new(self.gateway.clone());
        let graph = single_debate(self.debate(), models, debates.clone())?;
        let outcome = graph.run(SingleDebate::default(), execution.options).await;
        // Nothing of its sandbox is left, however it ended.
        debates.close().await;
        self.why = debates.isolation();
        trail::workflow_completed(outcome.is_ok(), 1);
        let lost = || Failure::new(FailureKind::Internal, "the debate has no verdict");
        let outcome = outcome?.outcome.ok_or_else(lost)?;
        Ok(report(Arc::unwrap_or_clone(outcome), self.why.clone()))
    }

    fn result(report: &DebateReport) -> Value {
        let mut result = json!(report);
        if let Some(result) = result.as_object_mut() {
            // What was said is in the journal.
            result.remove("conversation_logs");
        }
        result
    }

    fn report(&mut self, run: &Run, records: &[Record]) -> Result<DebateReport, Failure> {
        let mut result = run.result.clone().unwrap_or_default();
        result["conversation_logs"] = json!(conversation_logs(records));
        let report: DebateReport = read_result(result)?;
        self.why.clone_from(&report.isolation);
        Ok(report)
    }

    fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        explain(source)
    }
}

impl DebateJob {
    /// The debate, as its graph takes it.
    fn debate(&self) -> assize_debate::Job {
        let input = &self.input;
        let options = Options {
            temperature: input.temperature as f32,
            max_tokens: input.max_output_tokens,
            context_window: input.context_window,
            blind_scores: false,
        };
        let (move_id, content) = (input.move_id.clone(), self.request.plan.content.clone());
        assize_debate::Job {
            move_document: MoveDocument { move_id, content },
            company: Company { ticker: input.ticker.clone(), ..Company::default() },
            personas: Personas::default(),
            max_rounds: input.rounds,
            options,
            changes: input.changes.clone(),
        }
    }
}

/// The verdict, with what must be known of how it came about.
fn report(outcome: DebateOutcome, isolation: String) -> DebateReport {
    let DebateOutcome { verdict, not_isolated, weaker, .. } = outcome;
    let flag = |kind, message| Flag { kind, move_id: None, message };
    let flags = (not_isolated.map(|message| flag(FlagKind::NoIsolation, message)).into_iter())
        .chain(weaker.map(|message| flag(FlagKind::WeakerIsolation, message)))
        .collect();
    DebateReport { verdict, isolation, flags }
}

/// State of a run that is one debate.
#[derive(Debug, Clone, Default)]
struct SingleDebate {
    outcome: Option<Arc<DebateOutcome>>,
}

impl State for SingleDebate {
    type Update = Arc<DebateOutcome>;
    type Item = ();

    fn apply(&mut self, outcome: Arc<DebateOutcome>) {
        self.outcome = Some(outcome);
    }
}

/// The graph of a run that is one debate.
fn single_debate(
    job: assize_debate::Job,
    models: Models,
    debates: Arc<dyn Debates>,
) -> Result<Graph<SingleDebate>, InvalidGraph> {
    let inside = assize_debate::graph(models.of("critic").clone(), job.options)?;
    let shared = Arc::new((job, models, debates));
    Graph::builder("debate")
        .elsewhere("negotiation", &inside, move |context| hold(context, shared.clone()))
        .start("negotiation")
        .edge("negotiation", END)
        .compile()
}

async fn hold(
    context: Context<SingleDebate>,
    shared: Arc<(assize_debate::Job, Models, Arc<dyn Debates>)>,
) -> Result<Vec<Arc<DebateOutcome>>, NodeError> {
    let (job, models, debates) = &*shared;
    match negotiate(&context, &**debates, models, job, None).await? {
        Negotiated::Outcome(outcome) => Ok(vec![Arc::from(outcome)]),
        Negotiated::Unopened(error) => Err(error.into()),
    }
}
