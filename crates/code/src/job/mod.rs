//! Job of a program: planned, executed in sandboxes, and reported.

mod eval;
mod plan;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use assize_config::Environment;
use assize_gateway::{Gateway, Providers};
use assize_run::{
    ExecuteError, Job, LiveOutput, NewRun, NodeFailure, NodeSource, REMOTE, RunId, RunKind, Store,
    StoreError,
};
use assize_sandbox::{Language, Layer, RunPool, RunSettings, Sandboxes, Spec};
use assize_types::{Failure, FailureKind, Fingerprint, trail};
use async_trait::async_trait;

use crate::packages::{self, Packages};
use crate::{
    CannotKeep, CodeState, Court, Keep, Options, Session, Task, Trouble, Verdict, graph, rehearsal,
};

pub use eval::{EvalAsk, EvalInput, EvalJob, EvalPlan, read_problems, run_reference};
pub use plan::{CodeAsk, CodeInput, CodePlan, INPUTS, check_inputs, check_names};

/// A plan, with the services that its job needs.
#[derive(Debug)]
pub struct Request<P> {
    pub plan: P,
    pub providers: Providers,
    pub sandboxes: Sandboxes,
}

/// The most sandboxes that wait for one run, besides those for programs that run side by side.
const MOST_WAITING: u32 = 1;

/// A program that a model writes, and that is run, criticised and retried.
#[derive(Debug)]
pub struct CodeJob {
    pub input: CodeInput,
    pub gateway: Arc<Gateway>,
    /// Which isolation was chosen, and why.
    pub why: String,
    providers: Providers,
    sandboxes: Sandboxes,
    task: Task,
    live: Arc<LiveOutput>,
}

/// What a program needs in this process.
#[derive(Debug)]
pub struct Local {
    pool: RunPool,
    packages: Option<Packages>,
    session: Option<Session>,
}

#[async_trait]
impl Job for CodeJob {
    const KIND: RunKind = RunKind::Code;
    type Request = Request<CodePlan>;
    type Local = Local;
    type Report = Verdict;

    async fn plan(
        request: Request<CodePlan>,
        with: &assize_run::Plan<'_>,
    ) -> Result<(CodeJob, NewRun), Failure> {
        let Request { plan, providers, sandboxes } = request;
        let gateway = providers.gateway(with.ledger.clone()).await?;
        let Task { task, language, .. } = &plan.task;
        if gateway.is_rehearsal() && !rehearsal::knows(task, *language) {
            let mut unknown = Failure::from(rehearsal::unknown());
            unknown.kind = FailureKind::Settings;
            return Err(unknown);
        }
        let input = plan.input(with.origin, &providers, &gateway)?;
        let new = plan.new_run(&input);
        let (gateway, why) = (Arc::new(gateway), REMOTE.to_owned());
        let (task, live) = (plan.task, Arc::default());
        Ok((CodeJob { input, gateway, why, providers, sandboxes, task, live }, new))
    }

    fn check_remote(&self) -> Result<(), Failure> {
        self.providers.refuse_tape()?;
        let Some(name) = &self.input.session else { return Ok(()) };
        let message =
            format!("the files of session `{name}` are on one machine, and not in a cluster");
        Err(Failure::new(FailureKind::Usage, message)
            .hint("run it here, without `--cluster`; or give it files with `--file`"))
    }

    async fn prepare(&mut self) -> Result<Local, Failure> {
        let CodeJob { input, sandboxes, .. } = self;
        let packages = packages(&input.packages, sandboxes)?;
        let session = match &input.session {
            Some(name) => Some(open_session(&sandboxes.environment, name, &self.providers)?),
            None => None,
        };
        let most = MOST_WAITING + input.candidates;
        let (pool, why) =
            RunPool::open(sandboxes, input.language, input.settings.spec(), most).await?;
        self.why = why;
        Ok(Local { pool, packages, session })
    }

    async fn execute(
        &mut self,
        local: Local,
        execution: assize_run::Execution<'_>,
    ) -> Result<Verdict, ExecuteError> {
        trail::workflow_started(&self.task.task, self.gateway.name().0);
        let store = WithTheRun { store: execution.store.clone(), run: execution.run.id.clone() };
        let court = court(&self.input.settings, &self.gateway, &local.pool)
            .keeping(Arc::new(store))
            .with_packages(local.packages)
            .in_session(local.session)
            .watched(self.live.clone());
        let graph = graph(Arc::new(court))?;
        let outcome = graph.run(CodeState::new(self.task.clone()), execution.options).await;
        local.pool.finish().await;
        let verdict = outcome.map(|state| Verdict::from(&state));
        let (success, attempts) =
            verdict.as_ref().map_or((false, 0), |verdict| (verdict.success, verdict.attempts));
        trail::workflow_completed(success, attempts);
        Ok(verdict?)
    }

    fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        explain(source)
    }

    fn live_output(&self) -> Option<&Arc<LiveOutput>> {
        Some(&self.live)
    }
}

impl CodeJob {
    pub fn max_attempts(&self) -> u32 {
        self.task.max_attempts
    }
}

/// Where the programs of a run are tried.
fn court(settings: &RunSettings, gateway: &Arc<Gateway>, pool: &RunPool) -> Court {
    let options = Options {
        temperature: settings.temperature as f32,
        max_tokens: settings.max_output_tokens,
        context_window: gateway.facts().map(|facts| facts.context_window),
        spec: settings.spec(),
    };
    Court::new(gateway.clone(), gateway.name().0, pool.pool.clone(), options)
}

/// Explains why code could not be tried.
fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
    source.downcast::<Trouble>().map(|trouble| {
        let is_final = trouble.is_final();
        NodeFailure { failure: (*trouble).into(), is_final }
    })
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        match trouble {
            Trouble::Sandbox(error) => error.into(),
            Trouble::Session(error) => error.into(),
            error @ Trouble::Keep(_) => Failure::from_error(FailureKind::Environment, &error),
            error @ Trouble::Packages(_) => Failure::from_error(FailureKind::Environment, &error)
                .hint("the settings `packages.pip` and `packages.wheels` say where they come from"),
        }
    }
}

fn open_session(
    environment: &Environment,
    name: &str,
    providers: &Providers,
) -> Result<Session, Failure> {
    let root = sessions(environment);
    let before = Session::look(&root, name)?;
    let session = Session::open(&root, name)?;
    // A user who mistypes a name should see it.
    providers.reporter.note(&match before.map(|files| files.len()) {
        None => format!("session `{name}`, which begins with this run"),
        Some(1) => format!("session `{name}`, with 1 file"),
        Some(files) => format!("session `{name}`, with {files} files"),
    });
    Ok(session)
}

/// The folder of all sessions.
pub fn sessions(environment: &Environment) -> PathBuf {
    environment.state_folder.join("sessions")
}

/// The layers with the packages that a command names, for a sandbox of this kind.
pub async fn package_layers(
    names: &[String],
    sandboxes: &Sandboxes,
    spec: &Spec,
) -> Result<Vec<Layer>, Failure> {
    let allowed = packages::allowed(&sandboxes.settings.packages.allow);
    let hint = format!(
        "allowed are: {}; the setting `packages.allow` adds to them (`+NAME`)",
        if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") }
    );
    let Some(packages) = packages(&allowed, sandboxes)? else {
        let message = "no packages are allowed here".to_owned();
        return Err(Failure::new(FailureKind::Settings, message).hint(hint));
    };
    let (pool, _) = sandboxes.pool(Language::Python, spec.clone(), 0).await?;
    let layers = crate::court::layers(&packages, names, &pool, spec, &hint).await;
    pool.close().await;
    layers
}

/// Where programs get their packages, if they may have any.
fn packages(allowed: &[String], sandboxes: &Sandboxes) -> Result<Option<Packages>, Failure> {
    let Sandboxes { settings: config, environment: around, .. } = sandboxes;
    let allowed: BTreeSet<String> = allowed.iter().cloned().collect();
    let pip = match &*config.packages.pip {
        Some(words) => words.split_whitespace().map(str::to_owned).collect(),
        None => {
            let python = sandboxes.interpreter(Language::Python).ok();
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
    let wheels = wheels.map(|path| around.typed(path.as_ref()));
    if let Some(folder) = wheels.as_ref().filter(|folder| !folder.is_dir()) {
        let message = format!("`packages.wheels` is no folder: `{}`", folder.display());
        return Err(Failure::new(FailureKind::Settings, message));
    }
    let folder = around.cache_folder.join("packages");
    Ok((!allowed.is_empty()).then_some(Packages { folder, allowed, pip, wheels, env }))
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
        self.store.put_artifact(&self.run, name, bytes).await.map_err(failed)
    }

    async fn fetch(&self, sha256: Fingerprint) -> Result<Vec<u8>, CannotKeep> {
        let failed = |error: StoreError| CannotKeep(error.to_string());
        self.store.artifact(sha256).await.map_err(failed)
    }
}
