//! The code runner: the services that a code run needs (model, sandbox pool, packages, session, file storage), and the
//! execution of programs in sandboxes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use assize_llm::{Model, ModelRequest};
use assize_sandbox::{
    CollectedFiles, FinishedProgram, Language, ProgramCommand, ProgramStream, Sandbox,
    SandboxError, SandboxLayer, SandboxPool, SandboxSpec, WORKSPACE,
};
use assize_types::{Failure, FailureKind, Fingerprint, workflow_log};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::execution::{CodeExecution, CodeFailure, OutputFile, TestReport, judge, judge_tests};
use crate::harness;
use crate::packages::{self, PackageError, PackageSource, PythonVersion, Requirement};
use crate::session::{self, Session, SessionError};
use crate::task::CodeTask;
use assize_run::{LiveOutput, OutputStream, ProgramId};

/// Maximum number of sandboxes in which the same program is run if sandboxes fail.
const MAX_TRIES: u32 = 3;

/// Maximum number of installed packages that are detected in a sandbox.
const MAX_MODULES: usize = 2000;

/// Name of the package that is added if the user's tests import it.
const PYTEST: &str = "pytest";

/// Options of the code runner for model requests and sandboxes.
#[derive(Debug, Clone)]
pub struct CodeOptions {
    pub temperature: f32,
    /// Maximum length of a model's answer, in tokens.
    pub max_tokens: u32,
    /// Context window of the model in tokens, if known; prompts are shortened to fit it.
    pub context_window: Option<u64>,
    /// Limits and image of the sandboxes.
    pub spec: SandboxSpec,
}

impl Default for CodeOptions {
    fn default() -> CodeOptions {
        CodeOptions {
            temperature: ModelRequest::TEMPERATURE,
            max_tokens: ModelRequest::MAX_TOKENS,
            context_window: None,
            spec: SandboxSpec::default(),
        }
    }
}

/// Storage of the files that programs create.
#[async_trait]
pub trait FileStorage: Send + Sync {
    /// Stores a file that a program created, and returns its hash.
    async fn store(&self, name: &str, bytes: Vec<u8>) -> Result<Fingerprint, FileStorageError>;

    /// Reads a stored file by its hash.
    async fn fetch(&self, sha256: Fingerprint) -> Result<Vec<u8>, FileStorageError>;
}

/// Error of storing or reading a file that a program created.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("cannot store or read the files that the program created: {0}")]
pub struct FileStorageError(pub String);

/// Runs the steps of a code run: calls the model, which writes programs, and executes the programs in sandboxes.
pub struct CodeRunner {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) options: CodeOptions,
    /// Name of the model's provider, for the log.
    pub(crate) provider: String,
    pool: Arc<SandboxPool>,
    file_storage: Option<Arc<dyn FileStorage>>,
    pub(crate) packages: Option<PackageSource>,
    pub(crate) session: Option<Session>,
    /// Receives the output of programs while they run.
    live: Arc<LiveOutput>,
    /// Interpreter version and installed packages that were detected in the sandbox, cached by language.
    facts: Mutex<BTreeMap<Language, SandboxFacts>>,
}

impl std::fmt::Debug for CodeRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeRunner").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What programs can use in the sandbox without adding packages: interpreter, installed packages and session files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxFacts {
    /// Version of the language's interpreter.
    pub version: String,
    /// Installed packages, such as `numpy==1.26.4`, without the standard library. For Bash: available programs.
    pub modules: Vec<String>,
    /// Names of the session's files at the start of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Infrastructure error that prevented the execution of a program. The error is not a failure of the program.
#[derive(Debug, thiserror::Error)]
pub enum CodeRunnerError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    FileStorage(#[from] FileStorageError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("{0}")]
    Packages(String),
}

impl CodeRunnerError {
    /// Whether the run would fail with the same error again if it was resumed.
    pub fn is_final(&self) -> bool {
        matches!(self, CodeRunnerError::Session(SessionError::Changed))
    }
}

impl CodeRunner {
    pub fn new(
        model: Arc<dyn Model>,
        provider: &str,
        pool: Arc<SandboxPool>,
        options: CodeOptions,
    ) -> CodeRunner {
        CodeRunner {
            model,
            provider: provider.to_owned(),
            options,
            pool,
            file_storage: None,
            packages: None,
            session: None,
            live: Arc::default(),
            facts: Mutex::default(),
        }
    }

    /// Sets the storage for the files that programs create. The files are collected only if the task sets
    /// `collect_files` or the runner has a session.
    #[must_use]
    pub fn with_file_storage(mut self, keep: Arc<dyn FileStorage>) -> CodeRunner {
        self.file_storage = Some(keep);
        self
    }

    /// Sets the source of packages that programs may use besides those installed in the sandbox.
    #[must_use]
    pub fn with_packages(mut self, packages: impl Into<Option<PackageSource>>) -> CodeRunner {
        self.packages = packages.into();
        self
    }

    /// Sets the receiver of the output that programs write while they run.
    #[must_use]
    pub fn with_live_output(mut self, live: Arc<LiveOutput>) -> CodeRunner {
        self.live = live;
        self
    }

    /// Sets the session whose files are copied into the sandboxes. Changes to these files are saved only if
    /// [`CodeRunner::with_file_storage`] is also set.
    #[must_use]
    pub fn with_session(mut self, session: impl Into<Option<Session>>) -> CodeRunner {
        self.session = session.into();
        self
    }

    /// Replaces the files of the session with the files of an execution.
    pub(crate) async fn save_to_session(
        &self,
        execution: &CodeExecution,
    ) -> Result<(), CodeRunnerError> {
        let (Some(session), Some(keep)) = (&self.session, &self.file_storage) else {
            return Ok(());
        };
        let current = session.files(u64::MAX)?;
        let current = session::fingerprint_of(&current);
        let new = execution.files.iter().map(|file| (&file.name, file.sha256));
        // The files are already saved: the process was killed between the commit and its journal record.
        if current == session::fingerprint(new) {
            return Ok(());
        }
        if execution.found.is_some_and(|found| found != current) {
            return Err(SessionError::Changed.into());
        }
        let mut files = Vec::new();
        for file in &execution.files {
            files.push((file.name.clone(), keep.fetch(file.sha256).await?));
        }
        Ok(session.commit(&files)?)
    }

    /// Returns the names of the session's files.
    pub(crate) fn session_file_names(&self) -> Result<Vec<String>, CodeRunnerError> {
        let Some(session) = &self.session else { return Ok(Vec::new()) };
        let files = session.files(self.options.spec.limits.disk)?;
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }

    /// Detects the version and the installed packages of a language in the sandbox. The result is cached.
    pub async fn facts(&self, language: Language) -> Result<SandboxFacts, SandboxError> {
        // The lock is held during the detection, so that concurrent callers wait for the same result.
        let mut facts = self.facts.lock().await;
        if let Some(known) = facts.get(&language) {
            return Ok(known.clone());
        }
        let mut tries = Tries::default();
        let found = loop {
            let sandbox = self.pool.take(&self.options.spec).await;
            let found = match &sandbox {
                Ok(sandbox) => find_facts(sandbox, language).await,
                Err(error) => Err(error.clone()),
            };
            self.discard(sandbox);
            match found {
                Err(error) if tries.again(&error) => {}
                found => break found?,
            }
        };
        facts.insert(language, found.clone());
        Ok(found)
    }

    /// Runs a program and determines whether it succeeded. If the sandbox fails, the program runs again in a new
    /// sandbox.
    pub(crate) async fn run(
        &self,
        task: &CodeTask,
        place: ProgramId,
        program: CodeProgram<'_>,
    ) -> Result<CodeExecution, CodeRunnerError> {
        let mut spec = self.options.spec.clone();
        match self.layers(task, program).await? {
            Ok(layers) => spec.layers.extend(layers),
            Err(failure) => return Ok(CodeExecution::not_run(failure)),
        }
        let carried = match &self.session {
            Some(session) => session.files(spec.limits.disk)?,
            None => Vec::new(),
        };
        let collects = task.collect_files || self.session.is_some();
        let mut tries = Tries::default();
        let RunResult { finished, failure, tests, mut harvest } = loop {
            let sandbox = self.pool.take(&spec).await;
            let ran = match &sandbox {
                Ok(sandbox) => {
                    workflow_log::execution_started(sandbox.id());
                    self.live.begin(place);
                    let on_output = |output, bytes: &[u8]| {
                        let stream = match output {
                            ProgramStream::Stdout => OutputStream::Stdout,
                            ProgramStream::Stderr => OutputStream::Stderr,
                        };
                        self.live.append(place, stream, bytes);
                    };
                    run_in(sandbox, task, program.code, &carried, collects, on_output).await
                }
                Err(error) => Err(error.clone()),
            };
            self.discard(sandbox);
            match ran {
                Err(error) if tries.again(&error) => {}
                ran => break ran?,
            }
        };
        let FinishedProgram { stdout, stderr, outcome } = finished;
        workflow_log::execution_complete(outcome.status(), outcome.duration);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(stdout), text(stderr));
        let not_collected = harvest.skipped_messages();
        let found = self.session.as_ref().map(|_| session::fingerprint_of(&carried));
        // Keep session files that were shadowed by an input file. Also keep missing session files if some files could
        // not be collected: they may exist but be unreadable. A new file at the same path replaces a session file.
        let kept = carried.into_iter().filter(|(name, _)| {
            let replaced = harvest.files.iter().any(|(other, _)| conflicts(name, other));
            !replaced && (!not_collected.is_empty() || is_shadowed(task, name))
        });
        let kept: Vec<_> = kept.collect();
        harvest.files.extend(kept);
        harvest.files.sort();
        let mut files = Vec::new();
        // Without a session, the files of a failed program are not stored, because no later program uses them.
        let keep =
            self.file_storage.as_ref().filter(|_| failure.is_none() || self.session.is_some());
        if let Some(keep) = keep {
            for (name, bytes) in harvest.files {
                let size = bytes.len() as u64;
                let kept = format!("{place}/{name}");
                let sha256 = keep.store(&kept, bytes).await?;
                files.push(OutputFile { name, bytes: size, sha256 });
            }
        }
        Ok(CodeExecution { failure, outcome, stdout, stderr, tests, files, not_collected, found })
    }

    /// Returns layers with the packages that a program needs and that the sandbox does not contain. The outer error is
    /// an infrastructure error. The inner error is a failure of the program: another program may work without these
    /// packages.
    async fn layers(
        &self,
        task: &CodeTask,
        program: CodeProgram<'_>,
    ) -> Result<Result<Vec<SandboxLayer>, CodeFailure>, CodeRunnerError> {
        let python = PythonVersion::of(&program.facts.version);
        let is_installed = |text: &str| {
            let read = python.as_ref().map(|python| Requirement::read(text, python, &[]));
            let Some(Ok(Some(wanted))) = read else { return false };
            program.facts.modules.iter().any(|installed| wanted.is_met_by(installed))
        };
        let missing: Vec<String> =
            program.dependencies.iter().filter(|text| !is_installed(text)).cloned().collect();
        let needs_pytest = task.language == Language::Python
            && task.tests.as_deref().is_some_and(harness::imports_pytest)
            && !is_installed(PYTEST);
        if missing.is_empty() && !needs_pytest {
            return Ok(Ok(Vec::new()));
        }
        let not_had = |reason: String| CodeFailure::PackagesNotHad {
            names: packages::shown(&missing.join(", ")),
            reason,
        };
        if task.language != Language::Python {
            return Ok(Err(not_had("packages are supported only for Python".to_owned())));
        }
        let Some(packages) = &self.packages else {
            return Ok(Err(not_had("no additional packages are allowed".to_owned())));
        };
        let Some(python) = &python else {
            return Ok(Err(not_had("the Python version of the sandbox is unknown".to_owned())));
        };
        let mut wanted = match packages.allow(&missing, python) {
            Ok(wanted) => wanted,
            Err(failure) => return Ok(Err(failure)),
        };
        if needs_pytest {
            // The user's tests need pytest, so it is added even if it is not on the list of allowed packages.
            wanted.extend(Requirement::read(PYTEST, python, &[]).ok().flatten());
        }
        if wanted.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        match packages.layer(&wanted, python, &self.pool, &self.options.spec).await {
            Ok(layer) => Ok(Ok(vec![layer])),
            Err(error @ (PackageError::Refused(_) | PackageError::Unreachable)) => {
                Ok(Err(not_had(error.to_string())))
            }
            Err(error @ PackageError::Infrastructure(_)) => {
                Err(CodeRunnerError::Packages(error.to_string()))
            }
        }
    }

    fn discard(&self, sandbox: Result<Sandbox, SandboxError>) {
        if let Ok(sandbox) = sandbox {
            self.pool.discard(sandbox);
        }
    }
}

/// Returns layers with the given packages for the Python version of a pool's sandboxes; empty if all packages are
/// already installed in the sandboxes.
pub(crate) async fn layers(
    packages: &PackageSource,
    names: &[String],
    pool: &SandboxPool,
    spec: &SandboxSpec,
    hint: &str,
) -> Result<Vec<SandboxLayer>, Failure> {
    let refused = |why: CodeFailure| Failure::new(FailureKind::Usage, why.to_string()).hint(hint);
    let failed = |why: String| Failure::new(FailureKind::Environment, why);
    let sandbox = pool.take(spec).await?;
    let facts = find_facts(&sandbox, Language::Python).await;
    pool.discard(sandbox);
    let facts = facts?;
    let Some(python) = PythonVersion::of(&facts.version) else {
        return Err(failed(format!("invalid Python version in the sandbox: {}", facts.version)));
    };
    let allowed = packages.allow(names, &python).map_err(refused)?;
    let is_installed = |one: &Requirement| facts.modules.iter().any(|module| one.is_met_by(module));
    let wanted: BTreeSet<Requirement> =
        allowed.into_iter().filter(|one| !is_installed(one)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    match packages.layer(&wanted, &python, pool, spec).await {
        Ok(layer) => Ok(vec![layer]),
        Err(PackageError::Refused(reason)) => {
            let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
            Err(refused(CodeFailure::PackagesNotHad { names: names.join(", "), reason }))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Number of sandboxes that failed while running the same program.
#[derive(Default)]
struct Tries(u32);

impl Tries {
    /// Counts a failed sandbox; returns whether the program should be run again in a new sandbox.
    fn again(&mut self, error: &SandboxError) -> bool {
        self.0 += 1;
        let again = error.is_infrastructure() && self.0 < MAX_TRIES;
        if again {
            tracing::warn!(%error, tried = self.0, "a sandbox failed; retrying in a new sandbox");
        }
        again
    }
}

/// Program to run, with the packages that it requires.
#[derive(Clone, Copy)]
pub(crate) struct CodeProgram<'a> {
    pub(crate) code: &'a str,
    pub(crate) dependencies: &'a [String],
    pub(crate) facts: &'a SandboxFacts,
}

/// Result of running a program and its tests in a sandbox.
#[derive(Default)]
struct RunResult {
    finished: FinishedProgram,
    failure: Option<CodeFailure>,
    tests: Option<TestReport>,
    harvest: CollectedFiles,
}

async fn run_in(
    sandbox: &Sandbox,
    task: &CodeTask,
    code: &str,
    carried: &[(String, Vec<u8>)],
    collects: bool,
    on_output: impl FnMut(ProgramStream, &[u8]),
) -> Result<RunResult, SandboxError> {
    for (name, bytes) in carried.iter().filter(|(name, _)| !is_shadowed(task, name)) {
        sandbox.write(&format!("{WORKSPACE}/{name}"), bytes).await?;
    }
    for input in &task.inputs {
        let path = format!("{WORKSPACE}/{}", input.name);
        sandbox.write_with_mode(&path, &input.bytes, 0o444).await?;
    }
    let layers: Vec<&str> = sandbox.spec().layers.iter().map(|layer| layer.at.as_str()).collect();
    let mut command = ProgramCommand::default();
    if !layers.is_empty() {
        command.env.insert("PYTHONPATH".to_owned(), layers.join(":"));
    }
    let limits = &sandbox.spec().limits;
    let env = command.env.clone();
    let mut ran = if task.only_tests {
        RunResult::default()
    } else {
        let running = sandbox.run(task.language, code.as_bytes(), command).await?;
        let finished = running.finish_with(on_output).await?;
        let failure = judge(task.expect.as_ref(), limits, &finished);
        RunResult { finished, failure, ..RunResult::default() }
    };
    // Collect files before the tests run, because files that the tests create are not part of the result.
    if collects {
        let given = task.inputs.iter().map(|input| input.name.clone()).collect();
        ran.harvest = sandbox.collect_files(WORKSPACE, &given).await?;
    }
    if let (Some(tests), None) = (&task.tests, &ran.failure) {
        let (finished, report) = harness::run(sandbox, task.language, code, tests, env).await?;
        ran.failure = judge_tests(limits, &finished.outcome, report.as_ref());
        ran.tests = report;
        if ran.failure.is_some() || task.only_tests {
            ran.finished = finished;
        }
    }
    Ok(ran)
}

/// Whether an input file of the task replaces a session file in the sandbox.
fn is_shadowed(task: &CodeTask, name: &str) -> bool {
    task.inputs.iter().any(|input| conflicts(name, &input.name))
}

/// Whether two paths cannot both be files: they are equal, or one is a parent folder of the other.
fn conflicts(one: &str, other: &str) -> bool {
    let below = |name: &str, folder: &str| {
        name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    };
    one == other || below(one, other) || below(other, one)
}

/// Computes the fingerprint of an execution from everything that determines it: the code, dependencies, language,
/// tests, expected output, input files and limits.
pub(crate) fn fingerprint(
    task: &CodeTask,
    program: CodeProgram<'_>,
    spec: &SandboxSpec,
) -> Fingerprint {
    let mut hasher = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(program.code.as_bytes());
    add(program.dependencies.join("\n").as_bytes());
    add(task.language.name().as_bytes());
    add(task.tests.as_deref().unwrap_or_default().as_bytes());
    let expected = task.expect.as_ref().map(ToString::to_string);
    add(expected.unwrap_or_default().as_bytes());
    for input in &task.inputs {
        add(input.name.as_bytes());
        add(Fingerprint::of(&input.bytes).as_bytes());
    }
    // Serializing the limits cannot fail, because they are plain data.
    add(&serde_json::to_vec(&spec.limits).unwrap_or_default());
    Fingerprint::from_bytes(hasher.finalize().into())
}

async fn find_facts(sandbox: &Sandbox, language: Language) -> Result<SandboxFacts, SandboxError> {
    let code = match language {
        Language::Python => {
            "import sys, importlib.metadata\n\
             print(sys.version.split()[0])\n\
             for one in importlib.metadata.distributions():\n\
             \x20   print(f\"{one.metadata['Name']}=={one.version}\")"
        }
        Language::Bash => {
            "echo \"${BASH_VERSION%%(*}\"\n\
             for one in awk bc curl date diff find grep gzip jq perl python3 sed sort tar xargs; do\n\
             command -v \"$one\" >/dev/null && echo \"$one\"; done; true"
        }
        Language::JavaScript => "console.log(process.version)",
    };
    let running = sandbox.run(language, code.as_bytes(), ProgramCommand::default()).await?;
    let finished = running.finish().await?;
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let mut lines = text.lines().map(str::trim).filter(|line| is_name(line));
    let version = lines.next().unwrap_or("an unknown version").to_owned();
    let modules: BTreeSet<String> = lines.map(str::to_owned).collect();
    let modules = modules.into_iter().take(MAX_MODULES).collect();
    Ok(SandboxFacts { version, modules, files: Vec::new() })
}

/// Whether a line that the sandbox printed is a plain name or version. Other text must not be included in prompts.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '=');
    (1..=60).contains(&text.len()) && text.chars().all(plain)
}
