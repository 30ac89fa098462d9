//! Job that plans, executes and reports a consultation.

mod estimate;
pub(crate) mod placement;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::negotiation::{DebateError, RoleModels, TooManyMovesAffected};
use assize_gateway::choice::budget_limits;
use assize_gateway::{Estimate, Gateway, Providers};
use assize_graph::{EffectKey, EffectRecord};
use assize_run::{
    EXECUTED_BY_WORKER, ExecuteError, ExecutionContext, Job, NewRun, NodeFailure, NodeSource, Run,
    RunId, RunKind, RunOrigin, Store,
};
use assize_sandbox::SandboxFactory;
use assize_types::text::grouped;
use assize_types::{Failure, FailureKind, workflow_log};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::sources::GatheredData;
use crate::sources::edgar::day_of;
use crate::stored_consultations::stored_report;
use crate::{
    ConsultContext, ConsultError, ConsultReport, ConsultState, DocumentNotStored, REHEARSAL_BANNER,
    ReportOrigin, graph, label_synthetic_parts,
};
use placement::{DebatePlacement, RemoteDebateError, RemoteDebates};

pub use plan::{ConsultInput, ConsultPlan};

/// Request for the job of a consultation or debate: the plan, and the services that the job needs.
#[derive(Debug)]
pub struct JobRequest<P> {
    pub plan: P,
    pub providers: Providers,
    pub sandboxes: SandboxFactory,
    /// Runs debates in the cluster; `None` if this process belongs to no cluster.
    pub remote: Option<Arc<dyn RemoteDebates>>,
}

/// Source of company data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSource {
    /// Filings with the SEC, from EDGAR.
    Edgar,
    /// Files that the user passes.
    Files,
    /// Data that a model generates, labelled as synthetic.
    Synthetic,
}

/// Request for a consultation.
#[derive(Debug, Clone, Default)]
pub struct ConsultRequest {
    /// Ticker of a listed company. A request has either a ticker or a name.
    pub ticker: Option<String>,
    /// Name of a private company, which has no ticker.
    pub name: Option<String>,
    /// Requested data sources. If there are neither sources nor files, a model generates synthetic data.
    pub sources: Vec<DataSource>,
    /// Contents of the user's files.
    pub files: Option<GatheredData>,
    /// Text of the personas file; `None` for the default personas.
    pub personas: Option<String>,
    pub rounds: u32,
    /// Number of moves that each analyst proposes.
    pub moves: u32,
    pub blind_scores: bool,
    pub image: Option<String>,
    /// Models of roles that do not use the default model, by role. All models belong to the same provider.
    pub models: BTreeMap<String, String>,
}

/// Job of one consultation.
#[derive(Debug)]
pub struct ConsultJob {
    pub input: ConsultInput,
    pub gateway: Arc<Gateway>,
    /// Gateways to the models of roles that do not use the default model, by role.
    others: BTreeMap<String, Arc<Gateway>>,
    /// Estimated cost of the calls; `None` if a gateway only replays a cassette.
    pub estimate: Option<Estimate>,
    /// Number of calls in the longest chain of sequential calls.
    pub longest_call_chain: u64,
    /// Isolation of the debates, and why it was chosen; [`EXECUTED_BY_WORKER`] until the isolation is known.
    pub isolation: String,
    request: JobRequest<ConsultPlan>,
    context: ConsultContext,
}

impl ConsultJob {
    /// Number of model calls in this consultation if no call fails.
    pub fn calls(&self) -> u64 {
        self.context.calls()
    }

    /// Returns an error if the price of the model of any role is unknown.
    pub fn check_prices(&self) -> Result<(), Failure> {
        estimate::check_prices(&self.context, &self.gateway, &self.others)
    }

    /// Returns the estimate if the user must confirm it: if the estimated cost is unknown or exceeds
    /// `consult.confirm_above`, and the budget allows a cost above `consult.confirm_above`.
    pub fn estimate_to_confirm(&self) -> Option<&Estimate> {
        let settings = &self.request.providers.settings;
        let estimate = self.estimate.as_ref()?;
        let most = *settings.consult.confirm_above;
        let within = estimate.cost.known().is_some_and(|cost| cost <= most);
        // Spending that is capped below the threshold needs no confirmation.
        let capped = budget_limits(settings).cost.is_some_and(|cap| cap <= most);
        (!within && !capped).then_some(estimate)
    }
}

#[async_trait]
impl Job for ConsultJob {
    const KIND: RunKind = RunKind::Consult;
    type Request = JobRequest<ConsultPlan>;
    type Local = DebatePlacement;
    type Report = ConsultReport;

    async fn plan(
        request: JobRequest<ConsultPlan>,
        with: &assize_run::PlanContext<'_>,
    ) -> Result<(ConsultJob, NewRun), Failure> {
        let JobRequest { plan, providers, sandboxes, remote } = &request;
        let roles = plan.roles(with.origin)?;
        let (gateway, others) = providers.gateways(with.ledger.clone(), &roles).await?;
        let gateway = Arc::new(gateway);
        let others: BTreeMap<String, Arc<Gateway>> =
            others.into_iter().map(|(role, other)| (role, Arc::new(other))).collect();
        let mut models = RoleModels::new(gateway.clone());
        for (role, other) in &others {
            models = models.with(role, other.clone());
        }
        let mut input = plan.input(with.origin, providers, sandboxes, &gateway)?;
        refuse_too_much(plan, &input)?;
        refuse_region(remote.is_some(), &input)?;
        input.parallel_moves = plan.parallel_moves.or(input.parallel_moves);
        let at_once =
            placement::concurrent_debates(input.parallel_moves, remote.is_some(), &gateway);
        let context = build_context(plan, &input, models, at_once);
        let answered = estimate::reused_planned_calls(with.inherited);
        let estimate = estimate::estimate(&context, &gateway, &others, answered);
        let longest_call_chain = estimate::longest_call_chain(&context);
        let new = plan.new_run(&input);
        let isolation = EXECUTED_BY_WORKER.to_owned();
        Ok((
            ConsultJob {
                input,
                gateway,
                others,
                estimate,
                longest_call_chain,
                isolation,
                request,
                context,
            },
            new,
        ))
    }

    fn inherits(request: &JobRequest<ConsultPlan>, origin: &RunOrigin, key: &EffectKey) -> bool {
        request.plan.fork_change(origin).is_none_or(|turning| turning.at.reuses_call(key))
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
    ) -> Result<ConsultReport, ExecuteError> {
        let ExecutionContext { run, store, options } = execution;
        let debates = placement.of_run(self.input.spec(), run);
        let banner = if self.gateway.is_rehearsal() { REHEARSAL_BANNER } else { "" };
        let document_store = DocumentStore { store: store.clone(), run: run.id.clone(), banner };
        let context = ConsultContext {
            debates: debates.clone(),
            document_store: Some(document_store),
            ..self.context.clone()
        };
        workflow_log::workflow_started(&run.title, self.gateway.name().0);
        let graph = graph(Arc::new(context))?;
        let outcome = graph.run(ConsultState::new(self.input.company.clone()), options).await;
        // Remove all sandboxes of the debates, whether or not the run succeeded.
        debates.close().await;
        self.isolation = debates.isolation();
        workflow_log::workflow_completed(outcome.is_ok(), 1);
        let mut report = ConsultReport::from(&outcome?);
        report.origin = Some(ReportOrigin {
            run: run.id.to_string(),
            on: day_of(plan::now()).to_string(),
            provider: self.input.settings.provider.clone(),
            model: self.input.settings.model.clone(),
            models: self.input.models.clone(),
            isolation: self.isolation.clone(),
        });
        Ok(report)
    }

    fn result(report: &ConsultReport) -> Value {
        let mut result = json!(report);
        for verdict in result["policy_scores"].as_array_mut().into_iter().flatten() {
            if let Some(verdict) = verdict.as_object_mut() {
                // The stored result does not contain the conversations, because the journal contains them.
                verdict.remove("conversation_logs");
            }
        }
        result
    }

    fn report(&mut self, run: &Run, records: &[EffectRecord]) -> Result<ConsultReport, Failure> {
        let missing = || {
            let message = format!("run `{}` has no stored report", run.id);
            Failure::new(FailureKind::Environment, message)
        };
        let report = stored_report(run, records)?.ok_or_else(missing)?;
        if let Some(origin) = &report.origin {
            self.isolation.clone_from(&origin.isolation);
        }
        Ok(report)
    }

    fn to_node_failure(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        to_node_failure(source)
    }
}

/// Hint for a run that failed because model calls failed permanently.
const RETRY: &str = "resume the run when the provider is available again: only the failed calls, and those that \
     depend on them, are repeated";

/// Converts errors of consultations and debates to failures that users see.
pub(crate) fn to_node_failure(source: NodeSource) -> Result<NodeFailure, NodeSource> {
    let environment = |error: &dyn std::error::Error| -> NodeFailure {
        Failure::from_error(FailureKind::Environment, error).into()
    };
    let retry = |error: &dyn std::error::Error| -> NodeFailure {
        Failure::from_error(FailureKind::Environment, error).hint(RETRY).into()
    };
    let debate = |error: DebateError| match error {
        DebateError::Sandbox(error) => Failure::from(error).into(),
        error @ DebateError::InvalidVerdict(_) => {
            Failure::from_error(FailureKind::Internal, &error).into()
        }
        error => environment(&error),
    };
    let remote = |error: RemoteDebateError| match error {
        RemoteDebateError::Store(error) => Failure::from(error).into(),
        error => environment(&error),
    };
    (source.downcast::<ConsultError>().map(|error| environment(&*error)))
        .or_else(|source| source.downcast::<DocumentNotStored>().map(|error| environment(&*error)))
        .or_else(|source| source.downcast::<TooManyMovesAffected>().map(|error| retry(&*error)))
        .or_else(|source| source.downcast::<assize_debate::NoVerdict>().map(|error| retry(&*error)))
        .or_else(|source| source.downcast::<DebateError>().map(|error| debate(*error)))
        .or_else(|source| source.downcast::<RemoteDebateError>().map(|error| remote(*error)))
}

/// Prefix of the artifact names of documents that a consultation stores while it is running.
pub const DOCUMENTS: &str = "documents/";

/// Stores documents as artifacts of a run that is still running.
#[derive(Debug, Clone)]
pub struct DocumentStore {
    store: Arc<dyn Store>,
    run: RunId,
    /// Banner above text that a model generated, the same as in the final report; empty for no banner.
    banner: &'static str,
}

impl DocumentStore {
    /// Stores a document under its name, and replaces an earlier document with the same name.
    pub(crate) async fn put(&self, name: &str, text: &str) -> Result<(), DocumentNotStored> {
        let text = match name {
            _ if self.banner.is_empty() => text.to_owned(),
            // Filed data and the user's files are not model text, so only synthetic parts get the banner.
            "financial_data_raw.md" | "news_data_raw.md" => label_synthetic_parts(text),
            _ => format!("{}{text}", self.banner),
        };
        let bytes = text.into_bytes();
        let artifact = format!("{DOCUMENTS}{name}");
        let stored = self.store.put_artifact(&self.run, &artifact, bytes).await;
        stored
            .map(drop)
            .map_err(|error| DocumentNotStored { name: name.to_owned(), why: error.to_string() })
    }
}

/// Rejects a region if this process belongs to no cluster, because debates can then only run on this machine.
fn refuse_region(is_member: bool, input: &ConsultInput) -> Result<(), Failure> {
    let Some(region) = input.region.as_ref().filter(|_| !is_member) else { return Ok(()) };
    let message = format!("`consult.region` is `{region}`, which needs a cluster");
    let hint = "pass the addresses of the cluster's NATS servers with `--cluster nats://a,b,c`, or remove the setting `consult.region`";
    Err(Failure::new(FailureKind::Settings, message).hint(hint))
}

/// Rejects company data that is too large for the context window of the model.
fn refuse_too_much(plan: &ConsultPlan, input: &ConsultInput) -> Result<(), Failure> {
    let Some(window) = input.context_window else { return Ok(()) };
    let known = plan.gathered.likely_tokens();
    let most = window.saturating_sub(u64::from(input.settings.max_output_tokens)) * 3 / 4;
    if known <= most {
        return Ok(());
    }
    let message = format!(
        "the company data takes about {} tokens, too many for a context window of {} tokens",
        grouped(known),
        grouped(window)
    );
    let hint = "pass less data, or choose a model with a larger context window";
    Err(Failure::new(FailureKind::Usage, message).hint(hint))
}

/// Builds the context of the consultation. The debate runner is set later, when the run is executed.
fn build_context(
    plan: &ConsultPlan,
    input: &ConsultInput,
    models: RoleModels,
    at_once: usize,
) -> ConsultContext {
    ConsultContext {
        personas: plan.personas.clone(),
        moves: input.moves as usize,
        rounds: input.rounds,
        max_concurrent_debates: at_once,
        debate_options: assize_debate::DebateOptions {
            temperature: input.settings.temperature as f32,
            max_tokens: input.settings.max_output_tokens,
            context_window: input.context_window,
            blind_scores: input.blind_scores,
        },
        gathered: plan.gathered.clone(),
        synthetic: input.synthetic,
        forks: input.forks.clone(),
        ..ConsultContext::new(models)
    }
}
