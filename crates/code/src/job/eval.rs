//! Job that evaluates a model on a set of programming problems (`assize eval`).

use std::sync::Arc;

use assize_gateway::{Gateway, Providers};
use assize_llm::{CallOptions, ErrorKind, Model, ModelError, ModelResponse};
use assize_run::{
    EXECUTED_BY_WORKER, ExecuteError, ExecutionContext, Job, NewRun, NodeFailure, NodeSource, Run,
    RunKind, Store,
};
use assize_sandbox::{Language, RunPool, RunSettings, SandboxFactory};
use assize_types::text::replace_control_chars;
use assize_types::{Cancel, Failure, FailureKind};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::CodeJobRequest;
use crate::eval::{self, EvalProblem, EvalReport, EvalState};
use crate::{CodeFailure, CodeOptions, CodeRunner};

/// Name of the run artifact that contains the problems.
const PROBLEMS: &str = "problems.jsonl";

/// Request for an evaluation.
#[derive(Debug, Clone)]
pub struct EvalRequest {
    /// Name of the problem set.
    pub name: String,
    pub problems: Vec<EvalProblem>,
    /// Number of samples per problem: how many times the model tries to solve each problem.
    pub samples: u32,
    /// Maximum number of attempts per sample.
    pub max_attempts: u32,
    /// Image of the sandboxes; the backend's default image if `None`.
    pub image: Option<String>,
}

/// Stored input of an evaluation; the run can be resumed from this input. The problems are an artifact of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalInput {
    /// Number of samples per problem: how many times the model tries to solve each problem.
    pub samples: u32,
    /// Maximum number of attempts per sample.
    pub max_attempts: u32,
    #[serde(flatten)]
    pub settings: RunSettings,
}

/// Plan of an evaluation to start or resume.
#[derive(Debug)]
pub struct EvalPlan {
    problems: Vec<EvalProblem>,
    source: Source,
    /// Maximum number of samples that are processed in parallel.
    pub parallel: u32,
}

/// Origin of an evaluation: a new request, or a stored run.
#[derive(Debug)]
enum Source {
    Asked(EvalRequest),
    Stored(Box<EvalInput>),
}

impl EvalPlan {
    pub fn fresh(mut ask: EvalRequest, parallel: u32) -> EvalPlan {
        let problems = std::mem::take(&mut ask.problems);
        EvalPlan { problems, source: Source::Asked(ask), parallel }
    }

    /// Loads the plan of a stored evaluation run.
    pub async fn restored(
        run: &Run,
        store: &dyn Store,
        parallel: u32,
    ) -> Result<EvalPlan, Failure> {
        let lost = |what: &str| {
            let message = format!("cannot read {what} of run `{}`", run.id);
            let failure = Failure::new(FailureKind::Environment, message);
            failure.hint("start a new run with `assize eval FILE`")
        };
        let before = serde_json::from_value(run.input.clone()).map_err(|_| lost("the settings"))?;
        let artifacts = store.artifacts(&run.id).await?;
        let artifact = artifacts.iter().find(|artifact| artifact.name == PROBLEMS);
        let bytes = store.artifact(artifact.ok_or_else(|| lost("the problems"))?.id).await?;
        let text = String::from_utf8(bytes).map_err(|_| lost("the problems"))?;
        Ok(EvalPlan { problems: read_problems(&text)?, source: Source::Stored(before), parallel })
    }
}

/// Parses a problem file in JSON Lines.
pub fn read_problems(text: &str) -> Result<Vec<EvalProblem>, Failure> {
    eval::read(text).map_err(|error| {
        Failure::from_error(FailureKind::Usage, &error).hint(
            "each line must be an object with task_id, prompt, entry_point, test and \
             canonical_solution",
        )
    })
}

/// Job that evaluates a model on a set of programming problems.
#[derive(Debug)]
pub struct EvalJob {
    pub input: EvalInput,
    pub gateway: Arc<Gateway>,
    /// Name of the chosen sandbox backend, and why it was chosen.
    pub why: String,
    providers: Providers,
    sandboxes: SandboxFactory,
    problems: Vec<EvalProblem>,
    parallel: u32,
}

impl EvalJob {
    /// Number of problems.
    pub fn problems(&self) -> usize {
        self.problems.len()
    }
}

#[async_trait]
impl Job for EvalJob {
    const KIND: RunKind = RunKind::Eval;
    type Request = CodeJobRequest<EvalPlan>;
    type Local = RunPool;
    type Report = EvalReport;

    async fn plan(
        request: CodeJobRequest<EvalPlan>,
        with: &assize_run::PlanContext<'_>,
    ) -> Result<(EvalJob, NewRun), Failure> {
        let CodeJobRequest { plan: EvalPlan { problems, source, parallel }, providers, sandboxes } =
            request;
        let gateway = providers.gateway(with.ledger.clone()).await?;
        if gateway.is_rehearsal() {
            let message = "no model is configured for the evaluation";
            return Err(Failure::new(FailureKind::Settings, message)
                .hint("set a provider's API key or start Ollama; an evaluation with `--reference` needs no model"));
        }
        let (input, name) = match source {
            Source::Asked(ask) => {
                let EvalRequest { name, samples, max_attempts, image, .. } = ask;
                let sandbox = (sandboxes.spec(None)?.limits, image);
                let settings = RunSettings::new(&sandboxes.settings, sandbox, gateway.name());
                (EvalInput { samples, max_attempts, settings }, name)
            }
            Source::Stored(before) => {
                providers.check_same_model("the run", before.settings.model(), &gateway)?;
                (*before, String::new())
            }
        };
        let lines: Vec<String> =
            problems.iter().map(|problem| json!(problem).to_string()).collect();
        let new = NewRun {
            kind: RunKind::Eval,
            title: replace_control_chars(&match problems.len() {
                1 => format!("{name}, 1 problem"),
                count => format!("{name}, {count} problems"),
            }),
            parent: None,
            input: json!(input),
            artifacts: vec![(PROBLEMS.to_owned(), lines.join("\n").into_bytes())],
            idempotency_key: None,
        };
        let (gateway, why) = (Arc::new(gateway), EXECUTED_BY_WORKER.to_owned());
        Ok((EvalJob { input, gateway, why, providers, sandboxes, problems, parallel }, new))
    }

    fn check_remote(&self) -> Result<(), Failure> {
        self.providers.reject_cassette()
    }

    async fn prepare(&mut self) -> Result<RunPool, Failure> {
        let spec = self.input.settings.spec();
        let opened = RunPool::open(&self.sandboxes, Language::Python, spec, self.parallel);
        let (pool, why) = opened.await?;
        self.why = why;
        Ok(pool)
    }

    async fn execute(
        &mut self,
        pool: RunPool,
        execution: ExecutionContext<'_>,
    ) -> Result<EvalReport, ExecuteError> {
        let EvalInput { samples, max_attempts, settings } = &self.input;
        let runner = super::code_runner(settings, &self.gateway, &pool);
        let graph = eval::graph(Arc::new(runner), self.parallel as usize)?;
        let state = EvalState::new(self.problems.clone(), *samples, *max_attempts);
        let outcome = graph.run(state, execution.options).await;
        pool.finish().await;
        Ok(EvalReport::new(&format!("{} {}", settings.provider, settings.model), &outcome?))
    }

    fn to_node_failure(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        super::explain(source)
    }
}

/// Model whose calls all fail, for running reference solutions, which need no model.
struct NoModel;

#[async_trait]
impl Model for NoModel {
    async fn generate(
        &self,
        _: &assize_llm::ModelRequest,
        _: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        Err(ModelError::new(ErrorKind::Internal, "a reference run must not call a model"))
    }
}

/// Runs the reference solution of each problem, without a model. Returns the failure of each solution (`None` if the
/// tests passed), in the order of the problems.
pub async fn run_reference(
    problems: &[EvalProblem],
    sandboxes: &SandboxFactory,
    image: Option<String>,
    parallel: u32,
    cancel: Cancel,
) -> Result<Vec<Option<CodeFailure>>, Failure> {
    let spec = sandboxes.spec(image)?;
    let (pool, _) = sandboxes.pool(Language::Python, spec.clone(), parallel).await?;
    let options = CodeOptions { spec, ..CodeOptions::default() };
    let runner = CodeRunner::new(Arc::new(NoModel), "none", pool.clone(), options);
    let failures = tokio::select! {
        failures = eval::reference(&runner, problems, parallel as usize) => {
            failures.map_err(Failure::from)
        }
        reason = cancel.cancelled() => Err(Failure::new(FailureKind::Interrupted, reason)),
    };
    pool.close().await;
    failures
}
