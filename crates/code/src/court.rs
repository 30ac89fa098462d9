//! Where trials are held: the model that writes, and the sandboxes that its programs run in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use assize_llm::{Model, Request};
use assize_sandbox::{
    Command, Finished, Harvest, Language, Layer, Output, Pool, Sandbox, SandboxError, Spec,
    WORKSPACE,
};
use assize_types::{Failure, FailureKind, Fingerprint, trail};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::execution::{CodeFailure, Execution, LeftFile, TestReport, judge, judge_tests};
use crate::harness;
use crate::packages::{self, NotHad, Packages, Python, Requirement};
use crate::session::{self, Session, SessionError};
use crate::task::Task;
use assize_run::{LiveOutput, OutputStream, ProgramId};

/// How often the same code is run when the sandbox around it breaks.
const TRIES: u32 = 3;

/// The most packages of a sandbox that are known.
const MOST_MODULES: usize = 2000;

/// What runs tests that are written for it.
const PYTEST: &str = "pytest";

/// How the model is asked, and what programs may use.
#[derive(Debug, Clone)]
pub struct Options {
    pub temperature: f32,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// The model's context window, in tokens, where it is known: prompts are shortened to fit it.
    pub context_window: Option<u64>,
    /// The sandboxes: their limits, and their image if it is not the usual one.
    pub spec: Spec,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            temperature: Request::TEMPERATURE,
            max_tokens: Request::MAX_TOKENS,
            context_window: None,
            spec: Spec::default(),
        }
    }
}

/// Where the files that programs leave are kept.
#[async_trait]
pub trait Keep: Send + Sync {
    /// Keeps a file of an attempt, and says by which hash it is found again.
    async fn keep(&self, name: &str, bytes: Vec<u8>) -> Result<Fingerprint, CannotKeep>;

    /// The bytes that were kept.
    async fn fetch(&self, sha256: Fingerprint) -> Result<Vec<u8>, CannotKeep>;
}

/// A file that could not be kept.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("what the program left cannot be kept: {0}")]
pub struct CannotKeep(pub String);

/// Where trials are held.
pub struct Court {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) options: Options,
    /// Who answers, for the log.
    pub(crate) provider: String,
    pool: Arc<Pool>,
    keep: Option<Arc<dyn Keep>>,
    pub(crate) packages: Option<Packages>,
    pub(crate) session: Option<Session>,
    /// Told what programs write while they run.
    live: Arc<LiveOutput>,
    /// What was found out about the sandboxes, by language.
    facts: Mutex<BTreeMap<Language, Facts>>,
}

impl std::fmt::Debug for Court {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Court").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What a program finds in its sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Of the interpreter.
    pub version: String,
    /// Packages besides the standard library, such as `numpy==1.26.4`; for Bash, programs.
    pub modules: Vec<String>,
    /// Files that earlier runs of the session left, as they were when this one began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Why there is no execution to speak of: no fault of the code.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Keep(#[from] CannotKeep),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("{0}")]
    Packages(String),
}

impl Trouble {
    /// Whether it would be the same however often the run is taken up again.
    pub fn is_final(&self) -> bool {
        matches!(self, Trouble::Session(SessionError::Changed))
    }
}

impl Court {
    pub fn new(model: Arc<dyn Model>, provider: &str, pool: Arc<Pool>, options: Options) -> Court {
        Court {
            model,
            provider: provider.to_owned(),
            options,
            pool,
            keep: None,
            packages: None,
            session: None,
            live: Arc::default(),
            facts: Mutex::default(),
        }
    }

    /// Keeps the files that programs leave, where a task wants them.
    #[must_use]
    pub fn keeping(mut self, keep: Arc<dyn Keep>) -> Court {
        self.keep = Some(keep);
        self
    }

    /// Lets programs have packages besides what the sandbox has.
    #[must_use]
    pub fn with_packages(mut self, packages: impl Into<Option<Packages>>) -> Court {
        self.packages = packages.into();
        self
    }

    /// Tells what programs write while they run.
    #[must_use]
    pub fn watched(mut self, live: Arc<LiveOutput>) -> Court {
        self.live = live;
        self
    }

    /// Lets programs find the files of those before them. They are only handed on where they are kept.
    #[must_use]
    pub fn in_session(mut self, session: impl Into<Option<Session>>) -> Court {
        self.session = session.into();
        self
    }

    /// Hands the files that a program left on to those after it.
    pub(crate) async fn hand_on(&self, execution: &Execution) -> Result<(), Trouble> {
        let (Some(session), Some(keep)) = (&self.session, &self.keep) else { return Ok(()) };
        let there = session.files(u64::MAX)?;
        let there = session::fingerprint_of(&there);
        let handed_on = execution.files.iter().map(|file| (&file.name, file.sha256));
        // Whoever was killed at the last moment has done it already.
        if there == session::fingerprint(handed_on) {
            return Ok(());
        }
        if execution.found.is_some_and(|found| found != there) {
            return Err(SessionError::Changed.into());
        }
        let mut files = Vec::new();
        for file in &execution.files {
            files.push((file.name.clone(), keep.fetch(file.sha256).await?));
        }
        Ok(session.commit(&files)?)
    }

    /// What earlier runs of the session left, by name.
    pub(crate) fn carried(&self) -> Result<Vec<String>, Trouble> {
        let Some(session) = &self.session else { return Ok(Vec::new()) };
        let files = session.files(self.options.spec.limits.disk)?;
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }

    /// What a program finds in its sandbox.
    pub async fn facts(&self, language: Language) -> Result<Facts, SandboxError> {
        // Held all the while: whoever else asks waits for the same answer.
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
            self.throw_away(sandbox);
            match found {
                Err(error) if tries.again(&error) => {}
                found => break found?,
            }
        };
        facts.insert(language, found.clone());
        Ok(found)
    }

    /// Runs a program and judges how it went. A sandbox that breaks is not the program's fault: it is
    /// run again in another.
    pub(crate) async fn run(
        &self,
        task: &Task,
        place: ProgramId,
        program: Program<'_>,
    ) -> Result<Execution, Trouble> {
        let mut spec = self.options.spec.clone();
        match self.layers(task, program).await? {
            Ok(layers) => spec.layers.extend(layers),
            Err(failure) => return Ok(Execution::not_run(failure)),
        }
        let carried = match &self.session {
            Some(session) => session.files(spec.limits.disk)?,
            None => Vec::new(),
        };
        let takes = task.wants_files || self.session.is_some();
        let mut tries = Tries::default();
        let Ran { finished, failure, tests, mut harvest } = loop {
            let sandbox = self.pool.take(&spec).await;
            let ran = match &sandbox {
                Ok(sandbox) => {
                    trail::execution_started(sandbox.id());
                    self.live.begin(place);
                    let tell = |output, bytes: &[u8]| {
                        let stream = match output {
                            Output::Stdout => OutputStream::Stdout,
                            Output::Stderr => OutputStream::Stderr,
                        };
                        self.live.wrote(place, stream, bytes);
                    };
                    run_in(sandbox, task, program.code, &carried, takes, tell).await
                }
                Err(error) => Err(error.clone()),
            };
            self.throw_away(sandbox);
            match ran {
                Err(error) if tries.again(&error) => {}
                ran => break ran?,
            }
        };
        let Finished { stdout, stderr, outcome } = finished;
        trail::execution_complete(outcome.status(), outcome.duration);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(stdout), text(stderr));
        let not_taken = harvest.left();
        let found = self.session.as_ref().map(|_| session::fingerprint_of(&carried));
        // What was hidden by a file that was given is still theirs who come after; and so is what may
        // only have been out of reach, unless something else is in its place.
        let kept = carried.into_iter().filter(|(name, _)| {
            let is_there = harvest.files.iter().any(|(other, _)| in_the_way(name, other));
            !is_there && (!not_taken.is_empty() || is_hidden(task, name))
        });
        let kept: Vec<_> = kept.collect();
        harvest.files.extend(kept);
        harvest.files.sort();
        let mut files = Vec::new();
        // What a program left that failed is of use to nobody but those who come after it.
        let keep = self.keep.as_ref().filter(|_| failure.is_none() || self.session.is_some());
        if let Some(keep) = keep {
            for (name, bytes) in harvest.files {
                let size = bytes.len() as u64;
                let kept = format!("{place}/{name}");
                let sha256 = keep.keep(&kept, bytes).await?;
                files.push(LeftFile { name, bytes: size, sha256 });
            }
        }
        Ok(Execution { failure, outcome, stdout, stderr, tests, files, not_taken, found })
    }

    /// What a program needs besides what the sandbox has.
    /// The inner failure is one that another program may do without.
    async fn layers(
        &self,
        task: &Task,
        program: Program<'_>,
    ) -> Result<Result<Vec<Layer>, CodeFailure>, Trouble> {
        let python = Python::of(&program.facts.version);
        let is_there = |text: &str| {
            let read = python.as_ref().map(|python| Requirement::read(text, python, &[]));
            let Some(Ok(Some(wanted))) = read else { return false };
            program.facts.modules.iter().any(|installed| wanted.is_met_by(installed))
        };
        let missing: Vec<String> =
            program.dependencies.iter().filter(|text| !is_there(text)).cloned().collect();
        let needs_pytest = task.language == Language::Python
            && task.tests.as_deref().is_some_and(harness::wants_pytest)
            && !is_there(PYTEST);
        if missing.is_empty() && !needs_pytest {
            return Ok(Ok(Vec::new()));
        }
        let not_had = |reason: String| CodeFailure::PackagesNotHad {
            names: packages::shown(&missing.join(", ")),
            reason,
        };
        if task.language != Language::Python {
            return Ok(Err(not_had("there are packages for Python alone".to_owned())));
        }
        let Some(packages) = &self.packages else {
            return Ok(Err(not_had("none can be added here".to_owned())));
        };
        let Some(python) = &python else {
            return Ok(Err(not_had("nobody knows for which Python".to_owned())));
        };
        let mut wanted = match packages.allow(&missing, python) {
            Ok(wanted) => wanted,
            Err(failure) => return Ok(Err(failure)),
        };
        if needs_pytest {
            // The user's own tests say so: it need not be on any list.
            wanted.extend(Requirement::read(PYTEST, python, &[]).ok().flatten());
        }
        if wanted.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        match packages.layer(&wanted, python, &self.pool, &self.options.spec).await {
            Ok(layer) => Ok(Ok(vec![layer])),
            Err(error @ (NotHad::Refused(_) | NotHad::Unreachable)) => {
                Ok(Err(not_had(error.to_string())))
            }
            Err(error @ NotHad::Trouble(_)) => Err(Trouble::Packages(error.to_string())),
        }
    }

    fn throw_away(&self, sandbox: Result<Sandbox, SandboxError>) {
        if let Ok(sandbox) = sandbox {
            self.pool.discard(sandbox);
        }
    }
}

/// The layers with these packages for the Python of a pool's sandboxes: none where they are installed already.
pub(crate) async fn layers(
    packages: &Packages,
    names: &[String],
    pool: &Pool,
    spec: &Spec,
    hint: &str,
) -> Result<Vec<Layer>, Failure> {
    let refused = |why: CodeFailure| Failure::new(FailureKind::Usage, why.to_string()).hint(hint);
    let failed = |why: String| Failure::new(FailureKind::Environment, why);
    let sandbox = pool.take(spec).await?;
    let facts = find_facts(&sandbox, Language::Python).await;
    pool.discard(sandbox);
    let facts = facts?;
    let Some(python) = Python::of(&facts.version) else {
        return Err(failed(format!("unknown version of Python: {}", facts.version)));
    };
    let allowed = packages.allow(names, &python).map_err(refused)?;
    let is_there = |one: &Requirement| facts.modules.iter().any(|module| one.is_met_by(module));
    let wanted: BTreeSet<Requirement> = allowed.into_iter().filter(|one| !is_there(one)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    match packages.layer(&wanted, &python, pool, spec).await {
        Ok(layer) => Ok(vec![layer]),
        Err(NotHad::Refused(reason)) => {
            let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
            Err(refused(CodeFailure::PackagesNotHad { names: names.join(", "), reason }))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// How often something was tried in a sandbox that broke.
#[derive(Default)]
struct Tries(u32);

impl Tries {
    /// Whether it should be tried once more, in another.
    fn again(&mut self, error: &SandboxError) -> bool {
        self.0 += 1;
        let again = error.is_infrastructure() && self.0 < TRIES;
        if again {
            tracing::warn!(%error, tried = self.0, "a sandbox broke; trying again in another");
        }
        again
    }
}

/// A program to be run, and what it asks for.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) code: &'a str,
    pub(crate) dependencies: &'a [String],
    pub(crate) facts: &'a Facts,
}

/// A program that was run.
#[derive(Default)]
struct Ran {
    finished: Finished,
    failure: Option<CodeFailure>,
    tests: Option<TestReport>,
    harvest: Harvest,
}

async fn run_in(
    sandbox: &Sandbox,
    task: &Task,
    code: &str,
    carried: &[(String, Vec<u8>)],
    takes: bool,
    tell: impl FnMut(Output, &[u8]),
) -> Result<Ran, SandboxError> {
    for (name, bytes) in carried.iter().filter(|(name, _)| !is_hidden(task, name)) {
        sandbox.write(&format!("{WORKSPACE}/{name}"), bytes).await?;
    }
    for input in &task.inputs {
        let path = format!("{WORKSPACE}/{}", input.name);
        sandbox.write_with_mode(&path, &input.bytes, 0o444).await?;
    }
    let layers: Vec<&str> = sandbox.spec().layers.iter().map(|layer| layer.at.as_str()).collect();
    let mut command = Command::default();
    if !layers.is_empty() {
        command.env.insert("PYTHONPATH".to_owned(), layers.join(":"));
    }
    let limits = &sandbox.spec().limits;
    let env = command.env.clone();
    let mut ran = if task.only_tests {
        Ran::default()
    } else {
        let running = sandbox.run(task.language, code.as_bytes(), command).await?;
        let finished = running.finish_telling(tell).await?;
        let failure = judge(task.expect.as_ref(), limits, &finished);
        Ran { finished, failure, ..Ran::default() }
    };
    // What tests leave is nothing that anybody asked for.
    if takes {
        let given = task.inputs.iter().map(|input| input.name.clone()).collect();
        ran.harvest = sandbox.harvest(WORKSPACE, &given).await?;
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

/// Whether a file of the session makes way for one that was given.
fn is_hidden(task: &Task, name: &str) -> bool {
    task.inputs.iter().any(|input| in_the_way(name, &input.name))
}

/// Whether there can only be one of them: equal names, or one in a folder of the other's.
fn in_the_way(one: &str, other: &str) -> bool {
    let below = |name: &str, folder: &str| {
        name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    };
    one == other || below(one, other) || below(other, one)
}

/// What identifies an execution: the code, and all that it is judged by.
pub(crate) fn fingerprint(task: &Task, program: Program<'_>, spec: &Spec) -> Fingerprint {
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
    // Plain data: it can always be written.
    add(&serde_json::to_vec(&spec.limits).unwrap_or_default());
    Fingerprint::from_bytes(hasher.finalize().into())
}

async fn find_facts(sandbox: &Sandbox, language: Language) -> Result<Facts, SandboxError> {
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
    let running = sandbox.run(language, code.as_bytes(), Command::default()).await?;
    let finished = running.finish().await?;
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let mut lines = text.lines().map(str::trim).filter(|line| is_name(line));
    let version = lines.next().unwrap_or("an unknown version").to_owned();
    let modules: BTreeSet<String> = lines.map(str::to_owned).collect();
    let modules = modules.into_iter().take(MOST_MODULES).collect();
    Ok(Facts { version, modules, files: Vec::new() })
}

/// What comes out of a sandbox goes into prompts: only what is a name does.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '=');
    (1..=60).contains(&text.len()) && text.chars().all(plain)
}
