//! Job of an evaluation: how good a model is at problems whose answers are known.

use std::sync::Arc;

use assize_gateway::{Gateway, Providers};
use assize_llm::{Call, ErrorKind, Model, ModelError, Response};
use assize_run::{
    ExecuteError, Execution, Job, NewRun, NodeFailure, NodeSource, REMOTE, Run, RunKind, Store,
};
use assize_sandbox::{Language, RunPool, RunSettings, Sandboxes};
use assize_types::text::harmless;
use assize_types::{Cancel, Failure, FailureKind};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Request;
use crate::eval::{self, EvalState, Problem, Report};
use crate::{CodeFailure, Court, Options};

/// The name of the problems among a run's artifacts.
const PROBLEMS: &str = "problems.jsonl";

/// What can be asked for.
#[derive(Debug, Clone)]
pub struct EvalAsk {
    /// What the problems are called.
    pub name: String,
    pub problems: Vec<Problem>,
    pub samples: u32,
    pub max_attempts: u32,
    pub image: Option<String>,
}

/// What a run needs to be run again; the problems are kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalInput {
    pub samples: u32,
    pub max_attempts: u32,
    #[serde(flatten)]
    pub settings: RunSettings,
}

/// An evaluation that is to be started or resumed.
#[derive(Debug)]
pub struct EvalPlan {
    problems: Vec<Problem>,
    source: Source,
    /// How many problems are solved at once.
    pub parallel: u32,
}

/// What an evaluation is made of.
#[derive(Debug)]
enum Source {
    Asked(EvalAsk),
    Stored(Box<EvalInput>),
}

impl EvalPlan {
    pub fn fresh(mut ask: EvalAsk, parallel: u32) -> EvalPlan {
        let problems = std::mem::take(&mut ask.problems);
        EvalPlan { problems, source: Source::Asked(ask), parallel }
    }

    /// The plan of a stored run.
    pub async fn restored(
        run: &Run,
        store: &dyn Store,
        parallel: u32,
    ) -> Result<EvalPlan, Failure> {
        let lost = |what: &str| {
            let message = format!("{what} of `{}` cannot be read", run.id);
            let failure = Failure::new(FailureKind::Environment, message);
            failure.hint("start it again: `assize eval FILE`")
        };
        let before = serde_json::from_value(run.input.clone()).map_err(|_| lost("the settings"))?;
        let artifacts = store.artifacts(&run.id).await?;
        let artifact = artifacts.iter().find(|artifact| artifact.name == PROBLEMS);
        let bytes = store.artifact(artifact.ok_or_else(|| lost("the problems"))?.id).await?;
        let text = String::from_utf8(bytes).map_err(|_| lost("the problems"))?;
        Ok(EvalPlan { problems: read_problems(&text)?, source: Source::Stored(before), parallel })
    }
}

/// The problems of a file, one in each line.
pub fn read_problems(text: &str) -> Result<Vec<Problem>, Failure> {
    eval::read(text).map_err(|error| {
        Failure::from_error(FailureKind::Usage, &error).hint(
            "each line is an object with task_id, prompt, entry_point, test and canonical_solution",
        )
    })
}

/// An evaluation of a model.
#[derive(Debug)]
pub struct EvalJob {
    pub input: EvalInput,
    pub gateway: Arc<Gateway>,
    /// Which isolation was chosen, and why.
    pub why: String,
    providers: Providers,
    sandboxes: Sandboxes,
    problems: Vec<Problem>,
    parallel: u32,
}

impl EvalJob {
    /// How many samples there are in all.
    pub fn samples(&self) -> usize {
        self.problems.len() * self.input.samples as usize
    }
}

#[async_trait]
impl Job for EvalJob {
    const KIND: RunKind = RunKind::Eval;
    type Request = Request<EvalPlan>;
    type Local = RunPool;
    type Report = Report;

    async fn plan(
        request: Request<EvalPlan>,
        with: &assize_run::Plan<'_>,
    ) -> Result<(EvalJob, NewRun), Failure> {
        let Request { plan: EvalPlan { problems, source, parallel }, providers, sandboxes } =
            request;
        let gateway = providers.gateway(with.ledger.clone()).await?;
        if gateway.is_rehearsal() {
            let message = "no model is configured to be evaluated";
            return Err(Failure::new(FailureKind::Settings, message)
                .hint("set a provider's key or start Ollama; `--reference` needs no model"));
        }
        let (input, name) = match source {
            Source::Asked(ask) => {
                let EvalAsk { name, samples, max_attempts, image, .. } = ask;
                let sandbox = (sandboxes.spec(None)?.limits, image);
                let settings = RunSettings::new(&sandboxes.settings, sandbox, gateway.name());
                (EvalInput { samples, max_attempts, settings }, name)
            }
            Source::Stored(before) => {
                providers.refuse_another_model("the run", before.settings.model(), &gateway)?;
                (*before, String::new())
            }
        };
        let lines: Vec<String> =
            problems.iter().map(|problem| json!(problem).to_string()).collect();
        let new = NewRun {
            kind: RunKind::Eval,
            title: harmless(&format!("{name}, {} problems", problems.len())),
            parent: None,
            input: json!(input),
            artifacts: vec![(PROBLEMS.to_owned(), lines.join("\n").into_bytes())],
            once: None,
        };
        let (gateway, why) = (Arc::new(gateway), REMOTE.to_owned());
        Ok((EvalJob { input, gateway, why, providers, sandboxes, problems, parallel }, new))
    }

    fn check_remote(&self) -> Result<(), Failure> {
        self.providers.refuse_tape()
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
        execution: Execution<'_>,
    ) -> Result<Report, ExecuteError> {
        let EvalInput { samples, max_attempts, settings } = &self.input;
        let court = super::court(settings, &self.gateway, &pool);
        let graph = eval::graph(Arc::new(court), self.parallel as usize)?;
        let state = EvalState::new(self.problems.clone(), *samples, *max_attempts);
        let outcome = graph.run(state, execution.options).await;
        pool.finish().await;
        Ok(Report::new(&format!("{} {}", settings.provider, settings.model), &outcome?))
    }

    fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        super::explain(source)
    }
}

/// A model that is never called.
struct NoModel;

#[async_trait]
impl Model for NoModel {
    async fn generate(&self, _: &assize_llm::Request, _: Call<'_>) -> Result<Response, ModelError> {
        Err(ModelError::new(ErrorKind::Internal, "no model is asked here"))
    }
}

/// Runs the problems' own solutions, without a model. Gives why each failed, if it did, in the order of the problems.
pub async fn run_reference(
    problems: &[Problem],
    sandboxes: &Sandboxes,
    image: Option<String>,
    parallel: u32,
    cancel: Cancel,
) -> Result<Vec<Option<CodeFailure>>, Failure> {
    let spec = sandboxes.spec(image)?;
    let (pool, _) = sandboxes.pool(Language::Python, spec.clone(), parallel).await?;
    let options = Options { spec, ..Options::default() };
    let court = Court::new(Arc::new(NoModel), "none", pool.clone(), options);
    let failures = tokio::select! {
        failures = eval::reference(&court, problems, parallel as usize) => {
            failures.map_err(Failure::from)
        }
        reason = cancel.cancelled() => Err(Failure::new(FailureKind::Interrupted, reason)),
    };
    pool.close().await;
    failures
}
