//! Job of a consultation: planned, executed and reported.

mod estimate;
pub(crate) mod ground;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::negotiation::{DebateError, Models, MostMovesAffected};
use assize_gateway::choice::caps;
use assize_gateway::{Estimate, Gateway, Providers};
use assize_graph::{Key, Record};
use assize_run::{
    ExecuteError, Execution, Job, NewRun, NodeFailure, NodeSource, Origin, REMOTE, Run, RunId,
    RunKind, Store,
};
use assize_sandbox::Sandboxes;
use assize_types::text::grouped;
use assize_types::{Failure, FailureKind, trail};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::reading::consulted;
use crate::sources::Gathered;
use crate::sources::edgar::day_of;
use crate::{
    Chamber, ConsultState, Made, NotKept, REHEARSED, Report, Trouble, graph, label_made_up_parts,
};
use ground::{Ground, RemoteDebateError, RemoteDebates};

pub use plan::{ConsultInput, ConsultPlan};

/// A plan, with the services that its job needs.
#[derive(Debug)]
pub struct Request<P> {
    pub plan: P,
    pub providers: Providers,
    pub sandboxes: Sandboxes,
    /// Runs debates in the cluster, if this process is a member of one.
    pub remote: Option<Arc<dyn RemoteDebates>>,
}

/// Where what is known of a company comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceName {
    /// Filed with the SEC.
    Edgar,
    /// The user's own files.
    Files,
    /// Made up, and labelled so.
    Synthetic,
}

/// What can be asked for.
#[derive(Debug, Clone, Default)]
pub struct ConsultAsk {
    /// A listed company; this or `name`.
    pub ticker: Option<String>,
    /// A private company.
    pub name: Option<String>,
    /// Made up, if none is named and there are no files.
    pub sources: Vec<SourceName>,
    /// What was read in the user's own files.
    pub files: Option<Gathered>,
    /// Who takes part, as a file says it.
    pub personas: Option<String>,
    pub rounds: u32,
    /// That each analyst proposes.
    pub moves: u32,
    pub blind_scores: bool,
    pub image: Option<String>,
    /// Other models of the same provider, by role.
    pub models: BTreeMap<String, String>,
}

/// A company's options, debated and ranked.
#[derive(Debug)]
pub struct ConsultJob {
    pub input: ConsultInput,
    pub gateway: Arc<Gateway>,
    /// What it is likely to take.
    pub estimate: Option<Estimate>,
    /// How many calls have to be waited for, one after the other.
    pub in_a_row: u64,
    /// Where debates run, and why there.
    pub why: String,
    request: Request<ConsultPlan>,
    chamber: Chamber,
}

impl ConsultJob {
    /// How many calls it takes in all.
    pub fn calls(&self) -> u64 {
        self.chamber.calls()
    }

    /// What a consultation is likely to take, if that is more than may be spent without confirmation.
    pub fn to_be_confirmed(&self) -> Option<&Estimate> {
        let settings = &self.request.providers.settings;
        let estimate = self.estimate.as_ref()?;
        let most = *settings.consult.ask_above;
        let within = estimate.cost.known().is_some_and(|cost| cost <= most);
        // What cannot be passed need not be confirmed.
        let capped = caps(settings).cost.is_some_and(|cap| cap <= most);
        (!within && !capped).then_some(estimate)
    }
}

#[async_trait]
impl Job for ConsultJob {
    const KIND: RunKind = RunKind::Consult;
    type Request = Request<ConsultPlan>;
    type Local = Ground;
    type Report = Report;

    async fn plan(
        request: Request<ConsultPlan>,
        with: &assize_run::Plan<'_>,
    ) -> Result<(ConsultJob, NewRun), Failure> {
        let Request { plan, providers, sandboxes, remote } = &request;
        let roles = plan.roles(with.origin)?;
        let (gateway, others) = providers.gateways(with.ledger.clone(), &roles).await?;
        let gateway = Arc::new(gateway);
        let others: BTreeMap<String, Arc<Gateway>> =
            others.into_iter().map(|(role, other)| (role, Arc::new(other))).collect();
        let mut models = Models::new(gateway.clone());
        for (role, other) in &others {
            models = models.with(role, other.clone());
        }
        let mut input = plan.input(with.origin, providers, sandboxes, &gateway)?;
        refuse_too_much(plan, &input)?;
        refuse_region(remote.is_some(), &input)?;
        input.parallel_moves = plan.parallel_moves.or(input.parallel_moves);
        let at_once = ground::at_once(input.parallel_moves, remote.is_some(), &gateway);
        let chamber = chamber(plan, &input, models, at_once);
        let answered = estimate::taken_over(with.inherited);
        let estimate = estimate::estimate(&chamber, &gateway, &others, answered);
        let in_a_row = estimate::in_a_row(&chamber);
        let new = plan.new_run(&input);
        let why = REMOTE.to_owned();
        Ok((ConsultJob { input, gateway, estimate, in_a_row, why, request, chamber }, new))
    }

    fn inherits(request: &Request<ConsultPlan>, origin: &Origin, key: &Key) -> bool {
        request.plan.turning(origin).is_none_or(|turning| turning.at.spares(key))
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
    ) -> Result<Report, ExecuteError> {
        let Execution { run, store, options } = execution;
        let debates = ground.of_run(self.input.spec(), run);
        let banner = if self.gateway.is_rehearsal() { REHEARSED } else { "" };
        let shelf = Shelf { store: store.clone(), run: run.id.clone(), banner };
        let chamber =
            Chamber { debates: debates.clone(), shelf: Some(shelf), ..self.chamber.clone() };
        trail::workflow_started(&run.title, self.gateway.name().0);
        let graph = graph(Arc::new(chamber))?;
        let outcome = graph.run(ConsultState::new(self.input.company.clone()), options).await;
        // Nothing of their sandboxes is left, however it ended.
        debates.close().await;
        self.why = debates.isolation();
        trail::workflow_completed(outcome.is_ok(), 1);
        let mut report = Report::from(&outcome?);
        report.made = Some(Made {
            run: run.id.to_string(),
            on: day_of(plan::now()).to_string(),
            provider: self.input.settings.provider.clone(),
            model: self.input.settings.model.clone(),
            models: self.input.models.clone(),
            isolation: self.why.clone(),
        });
        Ok(report)
    }

    fn result(report: &Report) -> Value {
        let mut result = json!(report);
        for verdict in result["policy_scores"].as_array_mut().into_iter().flatten() {
            if let Some(verdict) = verdict.as_object_mut() {
                // What was said is in the journal.
                verdict.remove("conversation_logs");
            }
        }
        result
    }

    fn report(&mut self, run: &Run, records: &[Record]) -> Result<Report, Failure> {
        let lost = || Failure::new(FailureKind::Environment, "it has no report");
        let report = consulted(run, records)?.ok_or_else(lost)?;
        if let Some(made) = &report.made {
            self.why.clone_from(&made.isolation);
        }
        Ok(report)
    }

    fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        explain(source)
    }
}

/// What to do about calls that failed for good.
const RETRY: &str = "resume the run when the provider answers again: only the calls that failed, and what follows \
     from them, are made again";

/// Explains the errors of consultations and debates.
pub(crate) fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
    let environment = |error: &dyn std::error::Error| -> NodeFailure {
        Failure::from_error(FailureKind::Environment, error).into()
    };
    let retry = |error: &dyn std::error::Error| -> NodeFailure {
        Failure::from_error(FailureKind::Environment, error).hint(RETRY).into()
    };
    let debate = |error: DebateError| match error {
        DebateError::Sandbox(error) => Failure::from(error).into(),
        error @ DebateError::Unreadable(_) => {
            Failure::from_error(FailureKind::Internal, &error).into()
        }
        error => environment(&error),
    };
    let remote = |error: RemoteDebateError| match error {
        RemoteDebateError::Store(error) => Failure::from(error).into(),
        error => environment(&error),
    };
    (source.downcast::<Trouble>().map(|error| environment(&*error)))
        .or_else(|source| source.downcast::<NotKept>().map(|error| environment(&*error)))
        .or_else(|source| source.downcast::<MostMovesAffected>().map(|error| retry(&*error)))
        .or_else(|source| source.downcast::<assize_debate::NoVerdict>().map(|error| retry(&*error)))
        .or_else(|source| source.downcast::<DebateError>().map(|error| debate(*error)))
        .or_else(|source| source.downcast::<RemoteDebateError>().map(|error| remote(*error)))
}

/// Where the documents of a consultation are, among its artifacts, as long as it is not over.
pub const DOCUMENTS: &str = "documents/";

/// Keeps documents with the run as they are written.
#[derive(Debug, Clone)]
pub struct Shelf {
    store: Arc<dyn Store>,
    run: RunId,
    /// What stands over every page, as it will in the end.
    banner: &'static str,
}

impl Shelf {
    /// Keeps a document under its name, in the place of what is there.
    pub(crate) async fn put(&self, name: &str, text: &str) -> Result<(), NotKept> {
        let text = match name {
            _ if self.banner.is_empty() => text.to_owned(),
            // What was filed, or is the user's own, is no text of a model.
            "financial_data_raw.md" | "news_data_raw.md" => label_made_up_parts(text),
            _ => format!("{}{text}", self.banner),
        };
        let bytes = text.into_bytes();
        let kept = format!("{DOCUMENTS}{name}");
        let kept = self.store.put_artifact(&self.run, &kept, bytes).await;
        kept.map(drop).map_err(|error| NotKept { name: name.to_owned(), why: error.to_string() })
    }
}

/// Refuses a region where there is no cluster: this machine is the only place there is.
fn refuse_region(is_member: bool, input: &ConsultInput) -> Result<(), Failure> {
    let Some(region) = input.region.as_ref().filter(|_| !is_member) else { return Ok(()) };
    let message = format!("`consult.region` is `{region}`, which needs a cluster");
    let hint = "name its servers with `--cluster nats://a,b,c`, or remove the setting";
    Err(Failure::new(FailureKind::Settings, message).hint(hint))
}

/// Refuses what would not fit the model that has to read all of it.
fn refuse_too_much(plan: &ConsultPlan, input: &ConsultInput) -> Result<(), Failure> {
    let Some(window) = input.context_window else { return Ok(()) };
    let known = plan.gathered.likely_tokens();
    let most = window.saturating_sub(u64::from(input.settings.max_output_tokens)) * 3 / 4;
    if known <= most {
        return Ok(());
    }
    let message = format!(
        "what is known of the company takes about {} tokens, too many for a model that holds {}",
        grouped(known),
        grouped(window)
    );
    let hint = "give it less of what you have, or name a model that holds more";
    Err(Failure::new(FailureKind::Usage, message).hint(hint))
}

/// Everything but where debates are held.
fn chamber(plan: &ConsultPlan, input: &ConsultInput, models: Models, at_once: usize) -> Chamber {
    Chamber {
        personas: plan.personas.clone(),
        moves: input.moves as usize,
        rounds: input.rounds,
        at_once,
        debate_options: assize_debate::Options {
            temperature: input.settings.temperature as f32,
            max_tokens: input.settings.max_output_tokens,
            context_window: input.context_window,
            blind_scores: input.blind_scores,
        },
        gathered: plan.gathered.clone(),
        synthetic: input.synthetic,
        turnings: input.turnings.clone(),
        ..Chamber::new(models)
    }
}
