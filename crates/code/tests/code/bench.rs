//! A court with real sandboxes and a model that reads its answers off.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_code::{CodeState, Court, Options, Task, Verdict, graph};
use assize_config::{Isolation, Limits};
use assize_graph::{Journal, RunError, RunOptions, Signal};
use assize_llm::{Call, ErrorKind, Model, ModelError, Request, Response, Stop};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Backend, Enforcement, Identity, Interpreter, Language, Manager, PoolOptions, SandboxError,
    Spec, Started,
};
use assize_types::Cost;
use async_trait::async_trait;
use serde_json::{Value, json};

/// What the model says next.
#[derive(Debug, Clone)]
pub(crate) enum Line {
    Text(String),
    Fail(ErrorKind),
    Refuse,
}

/// A program, in the shape that is asked for.
pub(crate) fn code(code: &str) -> Line {
    Line::Text(
        json!({"code": code, "dependencies": [], "reasoning": "so", "confidence": 0.9}).to_string(),
    )
}

pub(crate) fn critique(issue: &str, fix: &str) -> Line {
    Line::Text(json!({"issues": [issue], "suggested_fixes": [fix]}).to_string())
}

/// A model that reads its answers off, and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Script {
    lines: Mutex<VecDeque<Line>>,
    pub(crate) asked: Mutex<Vec<Request>>,
}

impl Script {
    pub(crate) fn new(lines: impl IntoIterator<Item = Line>) -> Arc<Script> {
        Arc::new(Script { lines: Mutex::new(lines.into_iter().collect()), asked: Mutex::default() })
    }

    pub(crate) fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// All that was said to it in one call, but for what never changes.
    pub(crate) fn told(&self, call: usize) -> String {
        let asked = self.asked.lock().unwrap();
        let mut text = String::new();
        asked[call].prompt.each_text(&mut |piece| {
            text.push_str(piece);
            text.push('\n');
        });
        text
    }
}

#[async_trait]
impl Model for Script {
    async fn generate(&self, request: &Request, _: Call<'_>) -> Result<Response, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        let line = self.lines.lock().unwrap().pop_front();
        let (text, stop) = match line.unwrap() {
            Line::Text(text) => (text, Stop::End),
            Line::Refuse => (String::new(), Stop::Refused),
            Line::Fail(kind) => return Err(ModelError::new(kind, "the provider is down")),
        };
        Ok(Response {
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

/// A jail that breaks as often as it is told to.
#[derive(Debug)]
pub(crate) struct Brittle {
    jail: Jail,
    breaks: AtomicU32,
    compiling_breaks: AtomicBool,
    /// How many sandboxes were asked for to compile packages.
    compilations: AtomicU32,
}

/// Only compiling packages may take so long.
const COMPILING: Duration = Duration::from_secs(180);

#[async_trait]
impl Backend for Brittle {
    fn isolation(&self) -> Isolation {
        self.jail.isolation()
    }

    async fn start(&self, identity: &Identity, spec: &Spec) -> Result<Started, SandboxError> {
        let left =
            self.breaks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_ok() {
            return Err(SandboxError::Broke("it was told to".to_owned()));
        }
        if spec.limits.wall == COMPILING {
            self.compilations.fetch_add(1, Ordering::SeqCst);
            if self.compiling_breaks.load(Ordering::SeqCst) {
                return Err(SandboxError::Broke("it was told to".to_owned()));
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

/// Sandboxes, and all that a trial needs besides.
pub(crate) struct Bench {
    _folder: tempfile::TempDir,
    manager: Manager,
    brittle: Arc<Brittle>,
    limits: Limits,
}

/// A trial that is over.
pub(crate) struct Tried {
    pub(crate) verdict: Result<Verdict, RunError>,
    /// The names of the events, and the attempts they are about.
    pub(crate) events: Vec<String>,
}

impl Bench {
    pub(crate) async fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var_os("PATH");
        let find = |language| Interpreter::find(language, None, path.as_deref()).ok();
        let jail = Jail::new(Language::ALL.into_iter().filter_map(find).collect());
        let brittle = Arc::new(Brittle {
            jail,
            breaks: AtomicU32::new(0),
            compiling_breaks: AtomicBool::new(false),
            compilations: AtomicU32::new(0),
        });
        let backend: Arc<dyn Backend> = brittle.clone();
        let manager = Manager::open(folder.path().to_owned(), backend, &[]).await.unwrap();
        let limits =
            Limits { cpu_millis: 1000, wall: Duration::from_secs(20), ..Limits::default() };
        Bench { _folder: folder, manager, brittle, limits }
    }

    pub(crate) fn limited(mut self, change: impl FnOnce(&mut Limits)) -> Bench {
        change(&mut self.limits);
        self
    }

    /// Has so many sandboxes break before they are made.
    pub(crate) fn breaks(&self, times: u32) {
        self.brittle.breaks.store(times, Ordering::SeqCst);
    }

    /// Has sandboxes that compile packages break, or not any more.
    pub(crate) fn break_compiling(&self, breaks: bool) {
        self.brittle.compiling_breaks.store(breaks, Ordering::SeqCst);
    }

    /// How many sandboxes were asked for to compile packages.
    pub(crate) fn compilations(&self) -> u32 {
        self.brittle.compilations.load(Ordering::SeqCst)
    }

    pub(crate) fn court(&self, model: Arc<Script>) -> Court {
        let spec = Spec { limits: self.limits.clone(), ..Spec::default() };
        // None wait, so that it is known how many are made.
        let waiting = PoolOptions { size: 0, ..PoolOptions::default() };
        let pool = Arc::new(self.manager.pool(spec.clone(), waiting));
        Court::new(model, "test", pool, Options { spec, ..Options::default() })
    }

    pub(crate) async fn try_task(&self, model: &Arc<Script>, task: Task) -> Tried {
        self.try_with(Arc::new(self.court(model.clone())), task, RunOptions::default()).await
    }

    pub(crate) async fn try_on(
        &self,
        model: &Arc<Script>,
        task: Task,
        journal: Arc<dyn Journal>,
    ) -> Tried {
        let court = Arc::new(self.court(model.clone()));
        self.try_with(court, task, RunOptions::with_journal(journal)).await
    }

    pub(crate) async fn try_with(
        &self,
        court: Arc<Court>,
        task: Task,
        options: RunOptions,
    ) -> Tried {
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
        let outcome = graph(court).unwrap().run(CodeState::new(task), options).await;
        let verdict = outcome.map(|state| Verdict::from(&state));
        let events = events.lock().unwrap().clone();
        Tried { verdict, events }
    }
}

/// Runs one program, which gets one attempt.
pub(crate) async fn run_once(bench: &Bench, program: &str) -> Verdict {
    let model = Script::new([code(program), critique("x", "y")]);
    let task = Task { max_attempts: 1, ..Task::new("do it") };
    bench.try_task(&model, task).await.verdict.unwrap()
}
