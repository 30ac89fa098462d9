//! Job that plans, executes and reports a single debate.

mod estimate;
mod plan;

use std::sync::Arc;

use crate::negotiation::{DebateOutcome, DebateResult, DebateRunner, RoleModels, negotiate};
use assize_debate::{
    CallPosition, DebateCompany, DebateOptions, DebatePersonas, DebateVerdict, MoveDocument,
    conversation_logs,
};
use assize_gateway::Gateway;
use assize_graph::{Context, END, EffectKey, EffectRecord, Graph, InvalidGraph, NodeError, State};
use assize_run::{
    EXECUTED_BY_WORKER, ExecuteError, ExecutionContext, Job, NewRun, NodeFailure, NodeSource, Run,
    RunKind, RunOrigin, read_result,
};
use assize_types::{Failure, FailureKind, workflow_log};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::job::placement::DebatePlacement;
use crate::job::{JobRequest, to_node_failure};
use crate::{Flag, FlagKind};

pub use estimate::estimate;
pub use plan::{DebateInput, DebatePlan, DebateRequest};

/// Verdict of a single debate, with the isolation of the debate and caveats about the verdict.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DebateReport {
    #[serde(flatten)]
    pub verdict: DebateVerdict,
    /// Isolation of the debate, and why it was chosen.
    #[serde(default)]
    pub isolation: String,
    /// Caveats about the verdict.
    #[serde(default)]
    pub flags: Vec<Flag>,
}

/// Job of a single debate about one move.
#[derive(Debug)]
pub struct DebateJob {
    pub input: DebateInput,
    pub gateway: Arc<Gateway>,
    /// Isolation of the debate, and why it was chosen; [`EXECUTED_BY_WORKER`] until the isolation is known.
    pub isolation: String,
    request: JobRequest<DebatePlan>,
}

#[async_trait]
impl Job for DebateJob {
    const KIND: RunKind = RunKind::Debate;
    type Request = JobRequest<DebatePlan>;
    type Local = DebatePlacement;
    type Report = DebateReport;

    async fn plan(
        request: JobRequest<DebatePlan>,
        with: &assize_run::PlanContext<'_>,
    ) -> Result<(DebateJob, NewRun), Failure> {
        let JobRequest { plan, providers, sandboxes, .. } = &request;
        let gateway = Arc::new(providers.gateway(with.ledger.clone()).await?);
        let input = plan.input(with.origin, providers, sandboxes, &gateway)?;
        let new = plan.new_run(&input);
        Ok((DebateJob { input, gateway, isolation: EXECUTED_BY_WORKER.to_owned(), request }, new))
    }

    fn inherits(request: &JobRequest<DebatePlan>, _: &RunOrigin, key: &EffectKey) -> bool {
        let before = |at| CallPosition::of(key).is_some_and(|place| place.is_before(at));
        request.plan.at.is_none_or(before)
    }

    fn check_remote(&self) -> Result<(), Failure> {
        self.request.providers.reject_cassette()
    }

    async fn prepare(&mut self) -> Result<DebatePlacement, Failure> {
        self.request.choose_placement(&self.input.spec(), self.request.plan.allow_in_process).await
    }

    async fn execute(
        &mut self,
        placement: DebatePlacement,
        execution: ExecutionContext<'_>,
    ) -> Result<DebateReport, ExecuteError> {
        let run = execution.run;
        let debates = placement.of_run(self.input.spec(), run);
        workflow_log::workflow_started(&run.title, self.gateway.name().0);
        let models = RoleModels::new(self.gateway.clone());
        let graph = single_debate(self.debate_node(), models, debates.clone())?;
        let outcome = graph.run(SingleDebate::default(), execution.options).await;
        // Remove the sandbox, whether or not the debate succeeded.
        debates.close().await;
        self.isolation = debates.isolation();
        workflow_log::workflow_completed(outcome.is_ok(), 1);
        let missing = || Failure::new(FailureKind::Internal, "the debate ended without a verdict");
        let outcome = outcome?.outcome.ok_or_else(missing)?;
        Ok(report(Arc::unwrap_or_clone(outcome), self.isolation.clone()))
    }

    fn result(report: &DebateReport) -> Value {
        let mut result = json!(report);
        if let Some(result) = result.as_object_mut() {
            // The stored result does not contain the conversations, because the journal contains them.
            result.remove("conversation_logs");
        }
        result
    }

    fn report(&mut self, run: &Run, records: &[EffectRecord]) -> Result<DebateReport, Failure> {
        let mut result = run.result.clone().unwrap_or_default();
        result["conversation_logs"] = json!(conversation_logs(records));
        let report: DebateReport = read_result(result)?;
        self.isolation.clone_from(&report.isolation);
        Ok(report)
    }

    fn to_node_failure(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        to_node_failure(source)
    }
}

impl DebateJob {
    /// Builds the specification of the debate from the input of the run.
    fn debate_node(&self) -> assize_debate::DebateSpec {
        let input = &self.input;
        let options = DebateOptions {
            temperature: input.temperature as f32,
            max_tokens: input.max_output_tokens,
            context_window: input.context_window,
            blind_scores: false,
        };
        let (move_id, content) = (input.move_id.clone(), self.request.plan.content.clone());
        assize_debate::DebateSpec {
            move_document: MoveDocument { move_id, content },
            company: DebateCompany { ticker: input.ticker.clone(), ..DebateCompany::default() },
            personas: DebatePersonas::default(),
            max_rounds: input.rounds,
            options,
            changes: input.changes.clone(),
        }
    }
}

/// Builds the report of a debate, with caveats about its isolation.
fn report(outcome: DebateOutcome, isolation: String) -> DebateReport {
    let DebateOutcome { verdict, not_isolated, weaker, .. } = outcome;
    let flag = |kind, message| Flag { kind, move_id: None, message };
    let flags = (not_isolated.map(|message| flag(FlagKind::NoIsolation, message)).into_iter())
        .chain(weaker.map(|message| flag(FlagKind::WeakerIsolation, message)))
        .collect();
    DebateReport { verdict, isolation, flags }
}

/// State of a run that consists of one debate.
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

/// Graph of a run that consists of one debate.
fn single_debate(
    job: assize_debate::DebateSpec,
    models: RoleModels,
    debates: Arc<dyn DebateRunner>,
) -> Result<Graph<SingleDebate>, InvalidGraph> {
    let inside = assize_debate::graph(models.of("critic").clone(), job.options)?;
    let shared = Arc::new((job, models, debates));
    Graph::builder("debate")
        .external_graph("negotiation", &inside, move |context| debate_node(context, shared.clone()))
        .start("negotiation")
        .edge("negotiation", END)
        .compile()
}

async fn debate_node(
    context: Context<SingleDebate>,
    shared: Arc<(assize_debate::DebateSpec, RoleModels, Arc<dyn DebateRunner>)>,
) -> Result<Vec<Arc<DebateOutcome>>, NodeError> {
    let (job, models, debates) = &*shared;
    match negotiate(&context, &**debates, models, job, None).await? {
        DebateResult::Outcome(outcome) => Ok(vec![Arc::from(outcome)]),
        DebateResult::OpeningFailed(error) => Err(error.into()),
    }
}
