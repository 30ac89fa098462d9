//! How good a model is at problems whose answers are known.

use std::sync::Arc;

use assize_code::eval::{self, EvalState, Problem, Report};
use assize_code::{Court, Options};
use assize_config::{Limits, Settings};
use assize_gateway::Gateway;
use assize_graph::{Observer, RunOptions};
use assize_run::{NewRun, Run, RunJournal, RunKind, Store};
use assize_sandbox::{Language, Spec};
use assize_types::text::harmless;
use assize_types::{Cancel, Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::choose::{self, Tape};
use crate::cluster::elsewhere::{Seat, came_to};
use crate::ended::{self, Broke, Held};
use crate::kept::{self, Begin};
use crate::walls::{self, RunPool};
use crate::{Clerk, GoOn, cluster};

/// The name of the problems among a run's artifacts.
const PROBLEMS: &str = "problems.jsonl";

/// What can be asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What the problems are called.
    pub name: String,
    pub problems: Vec<Problem>,
    pub samples: u32,
    pub max_attempts: u32,
    pub image: Option<String>,
}

/// What a run needs to be run again; the problems are kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EvalInput")]
pub struct Input {
    pub samples: u32,
    pub max_attempts: u32,
    pub limits: Limits,
    pub image: Option<String>,
    /// The walls that were asked for: they count when it goes on, too, unless others are asked for then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    temperature: f64,
    max_output_tokens: u32,
    pub provider: String,
    pub model: String,
}

/// An evaluation that is about to begin, or to go on.
#[derive(Debug)]
pub struct Plan {
    problems: Vec<Problem>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Fresh(Ask),
    Resumed { run: Box<Run>, before: Box<Input>, take_over: bool },
}

impl Plan {
    pub fn fresh(mut ask: Ask) -> Plan {
        Plan { problems: std::mem::take(&mut ask.problems), way: Way::Fresh(ask) }
    }

    /// A run that goes on.
    pub async fn resumed(again: &GoOn, store: &dyn Store) -> Result<Plan, Failure> {
        let run = kept::to_go_on(store, again, RunKind::Eval).await?;
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
        let way = Way::Resumed { run: Box::new(run), before, take_over: again.take_over };
        Ok(Plan { problems: read(&text)?, way })
    }
}

/// The problems of a file, one in each line.
pub fn read(text: &str) -> Result<Vec<Problem>, Failure> {
    eval::read(text).map_err(|error| {
        Failure::from_error(FailureKind::Usage, &error).hint(
            "each line is an object with task_id, prompt, entry_point, test and canonical_solution",
        )
    })
}

/// One evaluation, in one of its lives.
pub struct Trial {
    pub run: Run,
    pub input: Input,
    pub gateway: Arc<Gateway>,
    /// Which walls were taken, and why.
    pub why: String,
    problems: Vec<Problem>,
    held: Seat<Here>,
}

/// What it takes to hold it here.
struct Here {
    parallel: u32,
    pool: RunPool,
    journal: Arc<RunJournal>,
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial").field("run", &self.run.id).finish_non_exhaustive()
    }
}

impl Trial {
    pub async fn open(
        Plan { problems, way }: Plan,
        clerk: &Clerk,
        store: Arc<dyn Store>,
        tape: &Tape,
        parallel: u32,
    ) -> Result<Trial, Failure> {
        let Clerk { config, .. } = clerk;
        let earlier = match &way {
            Way::Fresh(_) => None,
            Way::Resumed { run, .. } => Some(&**run),
        };
        let already = kept::spent(&store, earlier, &[]).await?;
        let account = already.account.clone();
        let gateway = choose::gateway(clerk, tape, already).await?;
        if gateway.name().0 == "rehearsal" {
            let message = "no model is configured to be evaluated";
            return Err(Failure::new(FailureKind::Settings, message)
                .hint("set a provider's key or start Ollama; `--reference` needs no model"));
        }
        let (input, name, resumed, take_over) = match way {
            Way::Fresh(ask) => (settings(&ask, config, &gateway)?, ask.name, None, false),
            Way::Resumed { run, before, take_over } => {
                let answered = (before.provider.as_str(), before.model.as_str());
                kept::refuse_another_model("the run", answered, &gateway, tape)?;
                (*before, String::new(), Some(*run), take_over)
            }
        };
        let new_run = || {
            let lines: Vec<String> =
                problems.iter().map(|problem| json!(problem).to_string()).collect();
            NewRun {
                kind: RunKind::Eval,
                title: harmless(&format!("{name}, {} problems", problems.len())),
                parent: None,
                input: json!(input),
                artifacts: vec![(PROBLEMS.to_owned(), lines.join("\n").into_bytes())],
                once: None,
            }
        };
        let begin = Begin { store, resumed, take_over, account, new: new_run };
        let (run, why, held) = match clerk.others() {
            Some(member) => {
                cluster::refuse_tape(tape)?;
                let (run, elsewhere) = kept::put(clerk, member, begin).await?;
                (run, cluster::HELD.to_owned(), Seat::Elsewhere(elsewhere))
            }
            None => {
                let spec = spec(&input);
                let opened = RunPool::open(clerk, Language::Python, spec, parallel);
                let (pool, why) = opened.await?;
                let (run, journal) = kept::begin(clerk, begin).await?;
                (run, why, Seat::Here(Box::new(Here { parallel, pool, journal })))
            }
        };
        Ok(Trial { run, input, gateway: Arc::new(gateway), why, problems, held })
    }

    /// How many samples there are in all.
    pub fn samples(&self) -> usize {
        self.problems.len() * self.input.samples as usize
    }

    /// Runs it to its end, and writes that down.
    pub async fn hold(
        &mut self,
        observer: Option<Observer>,
        cancel: Cancel,
    ) -> Result<Held<Report>, Broke> {
        let (parallel, pool, journal) = match &self.held {
            Seat::Here(here) => (here.parallel, &here.pool, &here.journal),
            Seat::Elsewhere(elsewhere) => {
                let run = elsewhere.follow(observer, &**self.gateway.ledger(), cancel).await?;
                return Ok(Held { came_to: came_to(&run)?, kept: Ok(()) });
            }
        };
        let input = &self.input;
        let options = Options {
            temperature: input.temperature as f32,
            max_tokens: input.max_output_tokens,
            context_window: self.gateway.facts().map(|facts| facts.context_window),
            spec: spec(input),
        };
        let court =
            Court::new(self.gateway.clone(), self.gateway.name().0, pool.pool.clone(), options);
        let graph = eval::graph(Arc::new(court), parallel as usize)?;
        let options = RunOptions {
            journal: Some(journal.clone()),
            observer,
            cancel,
            ..RunOptions::default()
        };
        let state = EvalState::new(self.problems.clone(), input.samples, input.max_attempts);
        let outcome = graph.run(state, options).await;
        pool.finish().await;
        match outcome {
            Ok(state) => {
                let report = Report::new(&format!("{} {}", input.provider, input.model), &state);
                let kept = ended::done(journal, json!(report)).await;
                Ok(Held { came_to: report, kept })
            }
            Err(error) => {
                Err(ended::broke(journal, error, (RunKind::Eval, &self.run.id), Vec::new()).await)
            }
        }
    }
}

fn spec(input: &Input) -> Spec {
    Spec { image: input.image.clone(), limits: input.limits.clone(), ..Spec::default() }
}

fn settings(ask: &Ask, config: &Settings, gateway: &Gateway) -> Result<Input, Failure> {
    let (provider, model) = gateway.name();
    Ok(Input {
        samples: ask.samples,
        max_attempts: ask.max_attempts,
        limits: walls::spec(None, config)?.limits,
        image: ask.image.clone(),
        isolation: config.sandbox.isolation.requested().map(ToString::to_string),
        temperature: *config.general.temperature,
        max_output_tokens: *config.general.max_output_tokens,
        provider: provider.to_owned(),
        model: model.to_owned(),
    })
}
