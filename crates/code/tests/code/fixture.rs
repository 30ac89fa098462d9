//! Test fixture: executes code runs with real sandboxes, injected faults and a scripted model.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_code::{CodeOptions, CodeRunner, CodeState, CodeTask, CodeVerdict, graph};
use assize_config::{Isolation, SandboxLimits};
use assize_graph::{Journal, RunError, RunOptions, Signal};
use assize_llm::{
    CallOptions, ErrorKind, Model, ModelError, ModelRequest, ModelResponse, StopReason,
};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Backend, Enforcement, Interpreter, Language, PoolOptions, SandboxError, SandboxIdentity,
    SandboxManager, SandboxSpec, StartedSandbox,
};
use assize_types::Cost;
use async_trait::async_trait;
use serde_json::{Value, json};

/// Scripted reply of the model.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Text(String),
    Fail(ErrorKind),
    Refuse,
}

/// Creates a valid answer that contains a program.
pub(crate) fn code(code: &str) -> Reply {
    Reply::Text(
        json!({"code": code, "dependencies": [], "reasoning": "so", "confidence": 0.9}).to_string(),
    )
}

pub(crate) fn critique(issue: &str, fix: &str) -> Reply {
    Reply::Text(json!({"issues": [issue], "suggested_fixes": [fix]}).to_string())
}

/// Model with scripted replies, which records the requests that it receives.
#[derive(Debug, Default)]
pub(crate) struct Script {
    replies: Mutex<VecDeque<Reply>>,
    pub(crate) requests: Mutex<Vec<ModelRequest>>,
}

impl Script {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Script> {
        let replies = Mutex::new(replies.into_iter().collect());
        Arc::new(Script { replies, requests: Mutex::default() })
    }

    pub(crate) fn calls(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Returns the text of the prompt of a call; the first call has the number 0.
    pub(crate) fn prompt(&self, call: usize) -> String {
        let requests = self.requests.lock().unwrap();
        let mut text = String::new();
        requests[call].prompt.each_text(&mut |piece| {
            text.push_str(piece);
            text.push('\n');
        });
        text
    }
}

#[async_trait]
impl Model for Script {
    async fn generate(
        &self,
        request: &ModelRequest,
        _: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        self.requests.lock().unwrap().push(request.clone());
        let reply = self.replies.lock().unwrap().pop_front();
        let (text, stop) = match reply.unwrap() {
            Reply::Text(text) => (text, StopReason::End),
            Reply::Refuse => (String::new(), StopReason::Refused),
            Reply::Fail(kind) => return Err(ModelError::new(kind, "the provider is down")),
        };
        Ok(ModelResponse {
            text,
            tool_calls: Vec::new(),
            stop,
            usage: None,
            cost: Cost::Unknown,
            provider: "test".to_owned(),
            model: "script".to_owned(),
            schema_enforced: false,
            rehearsal: false,
            attempts: 1,
            duration_ms: 0,
        })
    }
}

/// Jail backend with injected failures: a test can make sandboxes fail to start.
#[derive(Debug)]
pub(crate) struct FaultyBackend {
    jail: Jail,
    /// How many of the next sandbox starts fail.
    failures: AtomicU32,
    /// Whether the start of every sandbox for compiling packages fails.
    compilations_fail: AtomicBool,
    /// Number of sandboxes that were requested for compiling packages.
    compilations: AtomicU32,
}

/// Time limit of sandboxes for compiling packages. The fixture recognises these sandboxes by this limit.
const COMPILATION_TIMEOUT: Duration = Duration::from_secs(180);

/// Creates the error of an injected failure.
fn injected_failure() -> SandboxError {
    SandboxError::SandboxFailed("injected failure".to_owned())
}

#[async_trait]
impl Backend for FaultyBackend {
    fn isolation(&self) -> Isolation {
        self.jail.isolation()
    }

    async fn start(
        &self,
        identity: &SandboxIdentity,
        spec: &SandboxSpec,
    ) -> Result<StartedSandbox, SandboxError> {
        let left =
            self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_ok() {
            return Err(injected_failure());
        }
        if spec.limits.wall == COMPILATION_TIMEOUT {
            self.compilations.fetch_add(1, Ordering::SeqCst);
            if self.compilations_fail.load(Ordering::SeqCst) {
                return Err(injected_failure());
            }
        }
        self.jail.start(identity, spec).await
    }

    fn interpreter(&self, language: Language) -> Result<String, SandboxError> {
        self.jail.interpreter(language)
    }

    fn enforcement(&self) -> Enforcement {
        self.jail.enforcement()
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        self.jail.clean_up(maker).await
    }
}

/// Fixture of a test: a sandbox manager with a faulty backend, and the limits of its sandboxes.
pub(crate) struct Fixture {
    _folder: tempfile::TempDir,
    manager: SandboxManager,
    faulty: Arc<FaultyBackend>,
    limits: SandboxLimits,
}

/// Result of a code run, and the events that it emitted.
pub(crate) struct TrialResult {
    pub(crate) verdict: Result<CodeVerdict, RunError>,
    /// Names of the emitted events, with their attempt numbers.
    pub(crate) events: Vec<String>,
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var_os("PATH");
        let find = |language| Interpreter::find(language, None, path.as_deref()).ok();
        let jail = Jail::new(Language::ALL.into_iter().filter_map(find).collect());
        let faulty = Arc::new(FaultyBackend {
            jail,
            failures: AtomicU32::new(0),
            compilations_fail: AtomicBool::new(false),
            compilations: AtomicU32::new(0),
        });
        let backend: Arc<dyn Backend> = faulty.clone();
        let manager = SandboxManager::open(folder.path().to_owned(), backend, &[]).await.unwrap();
        let limits = SandboxLimits {
            cpu_millis: 1000,
            wall: Duration::from_secs(20),
            ..SandboxLimits::default()
        };
        Fixture { _folder: folder, manager, faulty, limits }
    }

    pub(crate) fn limited(mut self, change: impl FnOnce(&mut SandboxLimits)) -> Fixture {
        change(&mut self.limits);
        self
    }

    /// Makes the next `count` sandbox starts fail.
    pub(crate) fn fail_next_sandboxes(&self, count: u32) {
        self.faulty.failures.store(count, Ordering::SeqCst);
    }

    /// Sets whether the start of every sandbox for compiling packages fails.
    pub(crate) fn fail_compilations(&self, fail: bool) {
        self.faulty.compilations_fail.store(fail, Ordering::SeqCst);
    }

    /// Returns the number of sandboxes that were requested for compiling packages.
    pub(crate) fn compilations(&self) -> u32 {
        self.faulty.compilations.load(Ordering::SeqCst)
    }

    pub(crate) fn code_runner(&self, model: Arc<Script>) -> CodeRunner {
        let spec = SandboxSpec { limits: self.limits.clone(), ..SandboxSpec::default() };
        // The pool has no idle sandboxes, so that the number of sandbox starts is deterministic.
        let options = PoolOptions { size: 0, ..PoolOptions::default() };
        let pool = Arc::new(self.manager.pool(spec.clone(), options));
        CodeRunner::new(model, "test", pool, CodeOptions { spec, ..CodeOptions::default() })
    }

    pub(crate) async fn run_task(&self, model: &Arc<Script>, task: CodeTask) -> TrialResult {
        self.run_with(Arc::new(self.code_runner(model.clone())), task, RunOptions::default()).await
    }

    pub(crate) async fn run_with_journal(
        &self,
        model: &Arc<Script>,
        task: CodeTask,
        journal: Arc<dyn Journal>,
    ) -> TrialResult {
        let runner = Arc::new(self.code_runner(model.clone()));
        self.run_with(runner, task, RunOptions::with_journal(journal)).await
    }

    pub(crate) async fn run_with(
        &self,
        runner: Arc<CodeRunner>,
        task: CodeTask,
        options: RunOptions,
    ) -> TrialResult {
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&events);
        let observer = move |signal: &Signal<'_>| {
            if let Signal::Event { event, .. } = signal {
                let attempt = match &event.payload["attempt"] {
                    Value::Null => String::new(),
                    number => format!(" {number}"),
                };
                seen.lock().unwrap().push(format!("{}{attempt}", event.name));
            }
        };
        let options = RunOptions { observer: Some(Arc::new(observer)), ..options };
        let outcome = graph(runner).unwrap().run(CodeState::new(task), options).await;
        let verdict = outcome.map(|state| CodeVerdict::from(&state));
        let events = events.lock().unwrap().clone();
        TrialResult { verdict, events }
    }
}

/// Executes a code run with a scripted program and a single attempt.
pub(crate) async fn run_once(fixture: &Fixture, program: &str) -> CodeVerdict {
    let model = Script::new([code(program), critique("x", "y")]);
    let task = CodeTask { max_attempts: 1, ..CodeTask::new("do it") };
    fixture.run_task(&model, task).await.verdict.unwrap()
}
