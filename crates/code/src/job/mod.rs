//! Job of a code run (`assize run`): plans the run, executes it and reports its result.

mod eval;
mod plan;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use assize_config::Environment;
use assize_gateway::{Gateway, Providers};
use assize_run::{
    EXECUTED_BY_WORKER, ExecuteError, Job, LiveOutput, NewRun, NodeFailure, NodeSource, RunId,
    RunKind, Store, StoreError,
};
use assize_sandbox::{Language, RunPool, RunSettings, SandboxFactory, SandboxLayer, SandboxSpec};
use assize_types::{Failure, FailureKind, Fingerprint, workflow_log};
use async_trait::async_trait;

use crate::packages::{self, PackageSource};
use crate::{
    CodeOptions, CodeRunner, CodeRunnerError, CodeState, CodeTask, CodeVerdict, FileStorage,
    FileStorageError, Session, graph, rehearsal,
};

pub use eval::{EvalInput, EvalJob, EvalPlan, EvalRequest, read_problems, run_reference};
pub use plan::{CodeInput, CodePlan, CodeRequest, INPUTS, check_inputs, check_names};

/// Request to run a code or evaluation job: the job's plan, and the providers and sandboxes that the job uses.
#[derive(Debug)]
pub struct CodeJobRequest<P> {
    pub plan: P,
    pub providers: Providers,
    pub sandboxes: SandboxFactory,
}

/// Number of idle sandboxes in the pool of one run, in addition to one sandbox for each candidate program.
const SPARE_SANDBOXES: u32 = 1;

/// Job of a code run: a model writes a program, a sandbox runs it, a critic reviews failures, and the model retries.
#[derive(Debug)]
pub struct CodeJob {
    pub input: CodeInput,
    pub gateway: Arc<Gateway>,
    /// Name of the chosen sandbox backend, and why it was chosen.
    pub why: String,
    providers: Providers,
    sandboxes: SandboxFactory,
    task: CodeTask,
    live: Arc<LiveOutput>,
}

/// Resources that a code job needs in the process that executes it.
#[derive(Debug)]
pub struct CodeResources {
    pool: RunPool,
    packages: Option<PackageSource>,
    session: Option<Session>,
}

#[async_trait]
impl Job for CodeJob {
    const KIND: RunKind = RunKind::Code;
    type Request = CodeJobRequest<CodePlan>;
    type Local = CodeResources;
    type Report = CodeVerdict;

    async fn plan(
        request: CodeJobRequest<CodePlan>,
        with: &assize_run::PlanContext<'_>,
    ) -> Result<(CodeJob, NewRun), Failure> {
        let CodeJobRequest { plan, providers, sandboxes } = request;
        let gateway = providers.gateway(with.ledger.clone()).await?;
        let CodeTask { task, language, .. } = &plan.task;
        if gateway.is_rehearsal() && !rehearsal::supports(task, *language) {
            let mut unknown = Failure::from(rehearsal::unsupported_task());
            unknown.kind = FailureKind::Settings;
            return Err(unknown);
        }
        let input = plan.input(with.origin, &providers, &gateway)?;
        let new = plan.new_run(&input);
        let (gateway, why) = (Arc::new(gateway), EXECUTED_BY_WORKER.to_owned());
        let (task, live) = (plan.task, Arc::default());
        Ok((CodeJob { input, gateway, why, providers, sandboxes, task, live }, new))
    }

    fn check_remote(&self) -> Result<(), Failure> {
        self.providers.reject_cassette()?;
        let Some(name) = &self.input.session else { return Ok(()) };
        let message =
            format!("session `{name}` is stored on this machine and unavailable in a cluster");
        Err(Failure::new(FailureKind::Usage, message)
            .hint("run without `--cluster`, or pass files with `--file`"))
    }

    async fn prepare(&mut self) -> Result<CodeResources, Failure> {
        let CodeJob { input, sandboxes, .. } = self;
        let packages = packages(&input.packages, sandboxes)?;
        let session = match &input.session {
            Some(name) => Some(open_session(&sandboxes.environment, name, &self.providers)?),
            None => None,
        };
        let size = SPARE_SANDBOXES + input.candidates;
        let (pool, why) =
            RunPool::open(sandboxes, input.language, input.settings.spec(), size).await?;
        self.why = why;
        Ok(CodeResources { pool, packages, session })
    }

    async fn execute(
        &mut self,
        local: CodeResources,
        execution: assize_run::ExecutionContext<'_>,
    ) -> Result<CodeVerdict, ExecuteError> {
        workflow_log::workflow_started(&self.task.task, self.gateway.name().0);
        let store =
            ArtifactStorage { store: execution.store.clone(), run: execution.run.id.clone() };
        let runner = code_runner(&self.input.settings, &self.gateway, &local.pool)
            .with_file_storage(Arc::new(store))
            .with_packages(local.packages)
            .with_session(local.session)
            .with_live_output(self.live.clone());
        let graph = graph(Arc::new(runner))?;
        let outcome = graph.run(CodeState::new(self.task.clone()), execution.options).await;
        local.pool.finish().await;
        let verdict = outcome.map(|state| CodeVerdict::from(&state));
        let (success, attempts) =
            verdict.as_ref().map_or((false, 0), |verdict| (verdict.success, verdict.attempts));
        workflow_log::workflow_completed(success, attempts);
        Ok(verdict?)
    }

    fn to_node_failure(source: NodeSource) -> Result<NodeFailure, NodeSource> {
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

/// Creates the code runner for a run with the given settings.
fn code_runner(settings: &RunSettings, gateway: &Arc<Gateway>, pool: &RunPool) -> CodeRunner {
    let options = CodeOptions {
        temperature: settings.temperature as f32,
        max_tokens: settings.max_output_tokens,
        context_window: gateway.facts().map(|facts| facts.context_window),
        spec: settings.spec(),
    };
    CodeRunner::new(gateway.clone(), gateway.name().0, pool.pool.clone(), options)
}

/// Converts an infrastructure error of a graph node to the failure that users see. Returns other errors unchanged as
/// `Err`.
fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
    source.downcast::<CodeRunnerError>().map(|trouble| {
        let is_final = trouble.is_final();
        NodeFailure { failure: (*trouble).into(), is_final }
    })
}

impl From<CodeRunnerError> for Failure {
    fn from(trouble: CodeRunnerError) -> Failure {
        match trouble {
            CodeRunnerError::Sandbox(error) => error.into(),
            CodeRunnerError::Session(error) => error.into(),
            error @ CodeRunnerError::FileStorage(_) => {
                Failure::from_error(FailureKind::Environment, &error)
            }
            error @ CodeRunnerError::Packages(_) => {
                Failure::from_error(FailureKind::Environment, &error)
                    .hint("check the settings `packages.pip` and `packages.wheels`")
            }
        }
    }
}

fn open_session(
    environment: &Environment,
    name: &str,
    providers: &Providers,
) -> Result<Session, Failure> {
    let root = sessions(environment);
    let before = Session::list_files(&root, name)?;
    let session = Session::open(&root, name)?;
    // Report whether the session is new, so that the user notices a mistyped name.
    providers.reporter.note(&match before.map(|files| files.len()) {
        None => format!("session `{name}` (new)"),
        Some(1) => format!("session `{name}` (1 file)"),
        Some(files) => format!("session `{name}` ({files} files)"),
    });
    Ok(session)
}

/// Returns the folder that contains all sessions.
pub fn sessions(environment: &Environment) -> PathBuf {
    environment.state_folder.join("sessions")
}

/// Returns layers with the packages that the user requested (`names`), for sandboxes that match `spec`.
pub async fn package_layers(
    names: &[String],
    sandboxes: &SandboxFactory,
    spec: &SandboxSpec,
) -> Result<Vec<SandboxLayer>, Failure> {
    let allowed = packages::allowed(&sandboxes.settings.packages.allow);
    let hint = format!(
        "allowed packages: {}; add more with the setting `packages.allow` (`+NAME`)",
        if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") }
    );
    let Some(packages) = packages(&allowed, sandboxes)? else {
        let message = "no packages are allowed (setting `packages.allow`)".to_owned();
        return Err(Failure::new(FailureKind::Settings, message).hint(hint));
    };
    let (pool, _) = sandboxes.pool(Language::Python, spec.clone(), 0).await?;
    let layers = crate::runner::layers(&packages, names, &pool, spec, &hint).await;
    pool.close().await;
    layers
}

/// Creates the source of packages for programs; `None` if no packages are allowed.
fn packages(
    allowed: &[String],
    sandboxes: &SandboxFactory,
) -> Result<Option<PackageSource>, Failure> {
    let SandboxFactory { settings: config, environment, .. } = sandboxes;
    let allowed: BTreeSet<String> = allowed.iter().cloned().collect();
    let pip = match &*config.packages.pip {
        Some(words) => words.split_whitespace().map(str::to_owned).collect(),
        None => {
            let python = sandboxes.interpreter(Language::Python).ok();
            let python = python.map(|python| python.program.display().to_string());
            vec![python.unwrap_or_else(|| "python3".to_owned()), "-m".to_owned(), "pip".to_owned()]
        }
    };
    // pip gets the environment variables for its package index, proxy and certificates, but no API keys.
    let env = environment.variables.iter().filter(|(name, _)| {
        let name = name.to_ascii_uppercase();
        let known = ["PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];
        name.starts_with("PIP_")
            || name.ends_with("_PROXY")
            || known.contains(&name.as_str())
            || name == "XDG_CONFIG_HOME"
    });
    let env = env.map(|(name, value)| (name.clone(), value.clone())).collect();
    let wheels = config.packages.wheels.as_ref();
    let wheels = wheels.map(|path| environment.resolve_path(path.as_ref()));
    if let Some(folder) = wheels.as_ref().filter(|folder| !folder.is_dir()) {
        let message = format!("`packages.wheels` is not a folder: `{}`", folder.display());
        return Err(Failure::new(FailureKind::Settings, message));
    }
    let folder = environment.cache_folder.join("packages");
    Ok((!allowed.is_empty()).then_some(PackageSource { folder, allowed, pip, wheels, env }))
}

/// File storage that stores each file created by a program as an artifact of the run.
struct ArtifactStorage {
    store: Arc<dyn Store>,
    run: RunId,
}

#[async_trait]
impl FileStorage for ArtifactStorage {
    async fn store(&self, name: &str, bytes: Vec<u8>) -> Result<Fingerprint, FileStorageError> {
        let failed = |error: StoreError| FileStorageError(error.to_string());
        self.store.put_artifact(&self.run, name, bytes).await.map_err(failed)
    }

    async fn fetch(&self, sha256: Fingerprint) -> Result<Vec<u8>, FileStorageError> {
        let failed = |error: StoreError| FileStorageError(error.to_string());
        self.store.artifact(sha256).await.map_err(failed)
    }
}
