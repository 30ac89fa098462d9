//! Code on trial.

mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use assize_code::packages::Packages;
use assize_code::{
    CannotKeep, CodeState, Court, Keep, Live, NoLayers, Options, Session, Task, Verdict, graph,
};
use assize_config::{Environment, Settings};
use assize_gateway::Gateway;
use assize_graph::{Observer, RunOptions};
use assize_run::{ArtifactId, Run, RunId, RunJournal, RunKind, Store, StoreError};
use assize_sandbox::{Language, Layer, Spec};
use assize_types::{Cancel, Failure, FailureKind, Fingerprint, trail};
use async_trait::async_trait;
use serde_json::json;

use crate::choose::{self, Tape};
use crate::cluster::elsewhere::{Seat, came_to};
use crate::ended::{self, Broke, Held};
use crate::kept::{self, Begin};
use crate::walls::{self, RunPool};
use crate::{Clerk, cluster};

pub use plan::{Ask, INPUTS, Input, Plan, check_inputs, check_names};

/// The most sandboxes that wait for one run, besides those for programs that run side by side.
const MOST_WAITING: u32 = 1;

/// One trial, in one of its lives.
pub struct Trial {
    pub run: Run,
    pub input: Input,
    pub gateway: Arc<Gateway>,
    /// Which walls were taken, and why.
    pub why: String,
    pub max_attempts: u32,
    store: Arc<dyn Store>,
    /// What its programs write while they run.
    pub(crate) live: Arc<Live>,
    held: Seat<Here>,
}

/// What it takes to hold it here.
struct Here {
    task: Task,
    pool: RunPool,
    packages: Option<Packages>,
    session: Option<Session>,
    journal: Arc<RunJournal>,
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial").field("run", &self.run.id).finish_non_exhaustive()
    }
}

impl Trial {
    /// Chooses who is asked and which walls are built, and claims the run.
    pub async fn open(
        plan: Plan,
        clerk: &Clerk,
        store: Arc<dyn Store>,
        tape: &Tape,
    ) -> Result<Trial, Failure> {
        let Clerk { config, around, .. } = clerk;
        let already = kept::spent(&store, plan.resumed.as_ref(), &[]).await?;
        let account = already.account.clone();
        let gateway = choose::gateway(clerk, tape, already).await?;
        let Task { task, language, .. } = &plan.task;
        if gateway.name().0 == "rehearsal" && !assize_code::rehearsal::knows(task, *language) {
            let mut unknown = Failure::from(assize_code::rehearsal::unknown());
            unknown.kind = FailureKind::Settings;
            return Err(unknown);
        }
        let input = plan.input(tape, config, &gateway)?;
        let (gateway, max_attempts) = (Arc::new(gateway), plan.task.max_attempts);
        let begin = Begin {
            store: store.clone(),
            resumed: plan.resumed.clone(),
            take_over: plan.take_over,
            account,
            new: || plan.new_run(&input),
        };
        let (run, why, held) = match clerk.others() {
            Some(member) => {
                refuse_what_is_here(&input, tape)?;
                let (run, elsewhere) = kept::put(clerk, member, begin).await?;
                (run, cluster::HELD.to_owned(), Seat::Elsewhere(elsewhere))
            }
            None => {
                let packages = packages(&input.packages, config, around)?;
                let session = match &input.session {
                    Some(name) => Some(open_session(clerk, name)?),
                    None => None,
                };
                let most = MOST_WAITING + input.candidates;
                let opened = RunPool::open(clerk, *language, spec(&input), most);
                let (pool, why) = opened.await?;
                let (run, journal) = kept::begin(clerk, begin).await?;
                let task = plan.task.clone();
                let here = Here { task, pool, packages, session, journal };
                (run, why, Seat::Here(Box::new(here)))
            }
        };
        Ok(Trial { run, gateway, why, max_attempts, store, live: Arc::default(), held, input })
    }

    /// Runs it to its end, and writes that down.
    pub async fn hold(
        &mut self,
        observer: Option<Observer>,
        cancel: Cancel,
    ) -> Result<Held<Verdict>, Broke> {
        let here = match &mut self.held {
            Seat::Here(here) => here,
            Seat::Elsewhere(elsewhere) => {
                let ledger = self.gateway.ledger();
                let run = elsewhere.follow(observer, &**ledger, cancel).await?;
                return Ok(Held { came_to: came_to(&run)?, kept: Ok(()) });
            }
        };
        trail::workflow_started(&here.task.task, self.gateway.name().0);
        let court = here.court(&self.input, &self.gateway, &self.live);
        let court = court
            .keeping(Arc::new(WithTheRun { store: self.store.clone(), run: self.run.id.clone() }));
        let graph = graph(Arc::new(court))?;
        let options = RunOptions {
            journal: Some(here.journal.clone()),
            observer,
            cancel,
            ..RunOptions::default()
        };
        let outcome = graph.run(CodeState::new(here.task.clone()), options).await;
        here.pool.finish().await;
        match outcome {
            Ok(state) => {
                let verdict = Verdict::from(&state);
                trail::workflow_completed(verdict.success, verdict.attempts);
                let kept = ended::done(&here.journal, json!(verdict)).await;
                Ok(Held { came_to: verdict, kept })
            }
            Err(error) => {
                trail::workflow_completed(false, 0);
                Err(ended::broke(&here.journal, error, (RunKind::Code, &self.run.id), Vec::new())
                    .await)
            }
        }
    }
}

impl Here {
    fn court(&mut self, input: &Input, gateway: &Arc<Gateway>, live: &Arc<Live>) -> Court {
        let options = Options {
            temperature: input.temperature as f32,
            max_tokens: input.max_output_tokens,
            context_window: gateway.facts().map(|facts| facts.context_window),
            spec: spec(input),
        };
        let court = Court::new(gateway.clone(), gateway.name().0, self.pool.pool.clone(), options);
        let court = court.watched(live.clone());
        let court = match &self.packages {
            Some(packages) => court.with_packages(packages.clone()),
            None => court,
        };
        match self.session.take() {
            Some(session) => court.in_session(session),
            None => court,
        }
    }
}

/// Refuses what whoever holds it elsewhere could not get at.
fn refuse_what_is_here(input: &Input, tape: &Tape) -> Result<(), Failure> {
    cluster::refuse_tape(tape)?;
    match &input.session {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("the files of session `{name}` are on one machine, and not in a cluster");
            Err(Failure::new(FailureKind::Usage, message)
                .hint("run it here, without `--cluster`; or give it files with `--file`"))
        }
    }
}

fn open_session(clerk: &Clerk, name: &str) -> Result<Session, Failure> {
    let root = sessions(&clerk.around);
    let before = Session::look(&root, name)?;
    let session = Session::open(&root, name)?;
    // Whoever mistypes a name should see it.
    clerk.listener.note(&match before.map(|files| files.len()) {
        None => format!("session `{name}`, which begins with this run"),
        Some(1) => format!("session `{name}`, with 1 file"),
        Some(files) => format!("session `{name}`, with {files} files"),
    });
    Ok(session)
}

/// Where all sessions are.
pub fn sessions(around: &Environment) -> std::path::PathBuf {
    around.state_folder.join("sessions")
}

/// The layers with the packages that a command names, for a sandbox of this kind.
///
/// # Errors
/// When one of them is not on the list, cannot be had, or no sandbox can be made.
pub async fn layers(
    names: &[String],
    config: &Settings,
    around: &Environment,
    spec: &Spec,
) -> Result<Vec<Layer>, Failure> {
    let allowed = assize_code::packages::allowed(&config.packages.allow);
    let hint = format!(
        "allowed are: {}; the setting `packages.allow` adds to them (`+NAME`)",
        if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") }
    );
    let Some(packages) = packages(&allowed, config, around)? else {
        let message = "no packages are allowed here".to_owned();
        return Err(Failure::new(FailureKind::Settings, message).hint(hint));
    };
    let (pool, _) = walls::pool(config, around, Language::Python, spec.clone(), 0).await?;
    let layers = assize_code::layers(&packages, names, &pool, spec).await;
    pool.close().await;
    layers.map_err(|error| match error {
        NoLayers::Refused(why) => Failure::new(FailureKind::Usage, why).hint(hint),
        NoLayers::Sandbox(error) => error.into(),
        NoLayers::Trouble(why) => Failure::new(FailureKind::Environment, why),
    })
}

/// Where programs get their packages, if they may have any.
fn packages(
    allowed: &[String],
    config: &Settings,
    around: &Environment,
) -> Result<Option<Packages>, Failure> {
    let allowed: BTreeSet<String> = allowed.iter().cloned().collect();
    let pip = match &*config.packages.pip {
        Some(words) => words.split_whitespace().map(str::to_owned).collect(),
        None => {
            let python = walls::interpreter(Language::Python, config, around).ok();
            let python = python.map(|python| python.program.display().to_string());
            vec![python.unwrap_or_else(|| "python3".to_owned()), "-m".to_owned(), "pip".to_owned()]
        }
    };
    // It finds its index, its proxy and its certificates, and none of anybody's keys.
    let env = around.environment.iter().filter(|(name, _)| {
        let name = name.to_ascii_uppercase();
        let known = ["PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];
        name.starts_with("PIP_")
            || name.ends_with("_PROXY")
            || known.contains(&name.as_str())
            || name == "XDG_CONFIG_HOME"
    });
    let env = env.map(|(name, value)| (name.clone(), value.clone())).collect();
    let wheels = config.packages.wheels.as_ref();
    let wheels = wheels.map(|path| walls::typed(around, path.as_ref()));
    if let Some(folder) = wheels.as_ref().filter(|folder| !folder.is_dir()) {
        let message = format!("`packages.wheels` is no folder: `{}`", folder.display());
        return Err(Failure::new(FailureKind::Settings, message));
    }
    let folder = around.cache_folder.join("packages");
    Ok((!allowed.is_empty()).then_some(Packages { folder, allowed, pip, wheels, env }))
}

fn spec(input: &Input) -> Spec {
    Spec { image: input.image.clone(), limits: input.limits.clone(), ..Spec::default() }
}

/// Keeps the files that programs leave with the run.
struct WithTheRun {
    store: Arc<dyn Store>,
    run: RunId,
}

#[async_trait]
impl Keep for WithTheRun {
    async fn keep(&self, name: &str, bytes: Vec<u8>) -> Result<Fingerprint, CannotKeep> {
        let failed = |error: StoreError| CannotKeep(error.to_string());
        let id = self.store.put_artifact(&self.run, name, bytes).await.map_err(failed)?;
        Ok(id.fingerprint())
    }

    async fn fetch(&self, sha256: Fingerprint) -> Result<Vec<u8>, CannotKeep> {
        let failed = |error: StoreError| CannotKeep(error.to_string());
        self.store.artifact(ArtifactId::from(sha256)).await.map_err(failed)
    }
}
