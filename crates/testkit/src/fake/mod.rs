//! The fake provider: what it is asked, what it answers, what it complains of.

mod anthropic;
mod cache;
mod google;
mod ollama;
mod openai;
mod rules;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::{self, Action, RawRequest, StreamEnd, Turnstile};

pub use cache::{Billed, PromptCache, Written};

/// Which provider is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Anthropic,
    OpenAi,
    Groq,
    OpenRouter,
    Google,
    Ollama,
}

impl Kind {
    /// The path of its base URL.
    fn base_path(self) -> &'static str {
        match self {
            Kind::Anthropic | Kind::Ollama => "",
            Kind::OpenAi => "/v1",
            Kind::Groq => "/openai/v1",
            Kind::OpenRouter => "/api/v1",
            Kind::Google => "/v1beta",
        }
    }
}

/// A good answer, to be given in the provider's own shape.
#[derive(Debug, Clone)]
pub struct Answer {
    pub text: String,
    /// Reasoning that is streamed before the text.
    pub reasoning: String,
    /// Name and arguments of tool calls.
    pub tool_calls: Vec<(String, Value)>,
    pub stop: AnswerStop,
    /// Input tokens in all, cached ones included.
    pub input: u64,
    pub cached: u64,
    pub written: u64,
    pub output: u64,
}

/// Why the fake model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerStop {
    Done,
    Tools,
    Length,
    Refusal,
}

impl Answer {
    pub fn text(text: impl Into<String>) -> Answer {
        Answer {
            text: text.into(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            stop: AnswerStop::Done,
            input: 1000,
            cached: 600,
            written: 0,
            output: 50,
        }
    }

    pub fn calling(name: &str, arguments: Value) -> Answer {
        Answer {
            tool_calls: vec![(name.to_owned(), arguments)],
            stop: AnswerStop::Tools,
            ..Answer::text("")
        }
    }

    pub fn stopped(self, stop: AnswerStop) -> Answer {
        Answer { stop, ..self }
    }
}

/// What the fake does with the next request.
#[derive(Debug, Clone)]
pub enum Reply {
    Answer(Answer),
    /// A good answer with more headers.
    WithHeaders(Answer, Vec<(&'static str, String)>),
    /// A status with headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// A good answer, of which only so many bytes of the body are sent, as if it were all.
    CutBody(Answer, usize),
    /// An answer that is reset in its middle; a streamed one after so many pieces, and only when
    /// the test says [`FakeProvider::reset_now`].
    ResetAfter(Answer, usize),
    /// A streamed answer that falls silent after so many pieces.
    SilentAfter(Answer, usize),
    /// A streamed answer whose pieces are sent one by one, as the test says [`FakeProvider::drip`].
    Dripping(Answer),
    /// A streamed answer that ends, politely but too early, after so many pieces.
    EndAfter(Answer, usize),
    /// A body that never ends.
    Endless,
    /// No answer, ever.
    Hang,
    /// The connection is closed instead of an answer.
    Close,
}

impl Reply {
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Answer(Answer::text(text))
    }

    /// An error in no particular provider's shape.
    pub fn status(status: u16) -> Reply {
        Reply::Status(
            status,
            vec![],
            format!(r#"{{"error":{{"message":"told to answer {status}"}}}}"#),
        )
    }
}

/// A request that the fake got.
#[derive(Debug, Clone)]
pub struct Captured {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Captured {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The key that every fake wants to see.
const KEY: &str = "sk-test-0123456789abcdef";

/// Answers a request: how many came before it, and what it says.
type Respond = dyn Fn(usize, &Captured) -> Reply + Send + Sync;

/// How long an answer takes to begin, and from there to its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Latency {
    pub to_begin: Duration,
    pub to_end: Duration,
}

#[derive(Default)]
struct State {
    script: VecDeque<Reply>,
    /// What is answered when the script is at its end.
    always: Option<Arc<Respond>>,
    captured: Vec<Captured>,
    complaints: Vec<String>,
    /// Decides what good answers say of their input.
    cache: Option<PromptCache>,
    billed: Billed,
    /// What is answered to questions about the server itself, by path.
    descriptions: Vec<(String, Value)>,
    /// How long each good answer takes.
    latency: Option<Latency>,
    /// Requests that one with a latency is answering, and the most that it ever was.
    at_once: (usize, usize),
}

/// A provider on loopback, served by threads of its own so that a test's paused clock cannot touch
/// it.
pub struct FakeProvider {
    kind: Kind,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    asked: Condvar,
    reset: Arc<Turnstile>,
    drip: Arc<Turnstile>,
}

impl FakeProvider {
    /// A provider that answers by this script, and complains of any request beyond it.
    pub fn scripted(kind: Kind, script: impl IntoIterator<Item = Reply>) -> FakeProvider {
        FakeProvider::start(
            kind,
            State { script: script.into_iter().collect(), ..State::default() },
        )
    }

    /// A provider that always answers the same.
    pub fn always(kind: Kind, reply: Reply) -> FakeProvider {
        FakeProvider::answering(kind, move |_, _| reply.clone())
    }

    /// A provider that answers as it is asked; the number tells how many requests came before.
    pub fn answering(
        kind: Kind,
        respond: impl Fn(usize, &Captured) -> Reply + Send + Sync + 'static,
    ) -> FakeProvider {
        FakeProvider::start(kind, State { always: Some(Arc::new(respond)), ..State::default() })
    }

    /// A provider that answers as it is asked, and takes so long for each good answer.
    pub fn slow(
        kind: Kind,
        latency: Duration,
        respond: impl Fn(usize, &Captured) -> Reply + Send + Sync + 'static,
    ) -> FakeProvider {
        let always: Option<Arc<Respond>> = Some(Arc::new(respond));
        let latency = Some(Latency { to_begin: latency, to_end: Duration::ZERO });
        FakeProvider::start(kind, State { always, latency, ..State::default() })
    }

    /// Anthropic with a cache of prompts, which answers as it is asked and says what it has charged.
    pub fn caching(
        latency: Latency,
        respond: impl Fn(usize, &Captured) -> Reply + Send + Sync + 'static,
    ) -> FakeProvider {
        let (cache, latency) = (Some(PromptCache::default()), Some(latency));
        let always: Option<Arc<Respond>> = Some(Arc::new(respond));
        FakeProvider::start(Kind::Anthropic, State { always, cache, latency, ..State::default() })
    }

    /// Answers questions about the server itself at this path: `/props`, `/v1/models` or `/api/show`.
    #[must_use]
    pub fn describing(self, path: &str, description: Value) -> FakeProvider {
        self.shared.state.lock().unwrap().descriptions.push((path.to_owned(), description));
        self
    }

    /// The input tokens of all good answers of one that caches.
    pub fn billed(&self) -> Billed {
        self.shared.state.lock().unwrap().billed
    }

    /// The most requests that one with a latency was answering at once.
    pub fn most_at_once(&self) -> usize {
        self.shared.state.lock().unwrap().at_once.1
    }

    fn start(kind: Kind, state: State) -> FakeProvider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { state: Mutex::new(state), ..Shared::default() });
        let served = Arc::clone(&shared);
        // The thread ends with the test's process; there is nothing to clean up.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                thread::spawn(move || serve(kind, stream, &served));
            }
        });
        FakeProvider { kind, address, shared }
    }

    pub fn key(&self) -> &'static str {
        KEY
    }

    /// The base URL, in the form that this provider's has.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.kind.base_path())
    }

    /// What the fake was asked so far.
    pub fn captured(&self) -> Vec<Captured> {
        self.shared.state.lock().unwrap().captured.clone()
    }

    /// Waits until the fake was asked so often.
    pub fn wait_for_requests(&self, count: usize) {
        let (state, most) = (self.shared.state.lock().unwrap(), Duration::from_secs(120));
        let few = |state: &mut State| state.captured.len() < count;
        let (state, waited) = self.shared.asked.wait_timeout_while(state, most, few).unwrap();
        assert!(!waited.timed_out(), "{} of {count} requests came", state.captured.len());
    }

    /// Lets the reset of [`Reply::ResetAfter`] happen.
    pub fn reset_now(&self) {
        self.shared.reset.open();
    }

    /// Lets the next piece of [`Reply::Dripping`] be sent.
    pub fn drip(&self) {
        self.shared.drip.admit(1);
    }

    /// Lets all further pieces of [`Reply::Dripping`] be sent.
    pub fn drip_all(&self) {
        self.shared.drip.open();
    }

    /// The one request that the fake was asked.
    pub fn only_request(&self) -> Captured {
        let mut captured = self.captured();
        assert_eq!(captured.len(), 1, "expected one request");
        captured.remove(0)
    }

    /// Takes what the fake complains of, for tests that expect it to.
    pub fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state.lock().unwrap().complaints)
    }
}

impl std::fmt::Debug for FakeProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeProvider").field("kind", &self.kind).field("at", &self.address).finish()
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        if !thread::panicking() {
            let complaints = self.take_complaints();
            assert!(complaints.is_empty(), "the fake {:?} complains: {complaints:#?}", self.kind);
        }
    }
}

fn serve(kind: Kind, stream: TcpStream, shared: &Shared) {
    http::serve(stream, |raw| {
        if raw.method == "GET" || raw.path == ollama::SHOW {
            return match describe(kind, &raw, shared) {
                Ok(Some(description)) => respond(200, vec![], description.to_string()),
                Ok(None) => probe(kind, &raw),
                Err(complaint) => {
                    shared.state.lock().unwrap().complaints.push(complaint);
                    respond(400, vec![], String::new())
                }
            };
        }
        let body = serde_json::from_slice(&raw.body).unwrap_or(Value::Null);
        let captured = Captured { path: raw.path.clone(), headers: raw.headers.clone(), body };
        let mut state = shared.state.lock().unwrap();
        state.captured.push(captured.clone());
        shared.asked.notify_all();
        match check(kind, &raw, &captured) {
            Ok(()) => {}
            Err(Verdict::Refuse(status, body)) => return respond(status, vec![], body.to_string()),
            Err(Verdict::Complain(complaint)) => {
                let body = serde_json::json!({"error": {"message": format!("fake: {complaint}")}});
                state.complaints.push(complaint);
                return respond(400, vec![], body.to_string());
            }
        }
        let before = state.captured.len() - 1;
        let answer = state.always.clone();
        let always = || answer.map(|answer| answer(before, &captured));
        let reply = state.script.pop_front().or_else(always);
        match reply {
            Some(Reply::Answer(answer)) if let Some(latency) = state.latency => {
                drop(state);
                answer_slowly(kind, &captured, answer, latency, shared)
            }
            Some(Reply::Dripping(answer)) => {
                let mut action = action(kind, &captured, Reply::Answer(answer), &shared.reset);
                match &mut action {
                    Action::Stream { by, .. } => *by = Some(Arc::clone(&shared.drip)),
                    _ => state.complaints.push("a dripping answer is asked for as a stream".into()),
                }
                action
            }
            Some(reply) => action(kind, &captured, reply, &shared.reset),
            None => {
                state.complaints.push("asked more often than the script allows".to_owned());
                respond(500, vec![], String::new())
            }
        }
    });
}

/// A good answer that takes its time. A provider that caches prompts says what it charges for it.
fn answer_slowly(
    kind: Kind,
    captured: &Captured,
    mut answer: Answer,
    latency: Latency,
    shared: &Shared,
) -> Action {
    let mut written = Written::default();
    let mut state = shared.state.lock().unwrap();
    state.at_once.0 += 1;
    state.at_once.1 = state.at_once.1.max(state.at_once.0);
    if let Some(cache) = &mut state.cache {
        let bill;
        (bill, written) = cache.bill(&captured.body, Instant::now());
        Billed { input: answer.input, cached: answer.cached, written: answer.written } = bill;
        state.billed += bill;
    }
    drop(state);
    thread::sleep(latency.to_begin);
    if let Some(cache) = &mut shared.state.lock().unwrap().cache {
        cache.begun(&written, Instant::now());
    }
    let mut action = action(kind, captured, Reply::Answer(answer), &shared.reset);
    match &mut action {
        Action::Stream { pause, .. } => *pause = latency.to_end,
        _ => thread::sleep(latency.to_end),
    }
    shared.state.lock().unwrap().at_once.0 -= 1;
    action
}

/// Whether a request is as it should be.
enum Verdict {
    /// The real provider would answer so, too.
    Refuse(u16, Value),
    /// Nothing that we send may look like this.
    Complain(String),
}

impl From<String> for Verdict {
    fn from(complaint: String) -> Verdict {
        Verdict::Complain(complaint)
    }
}

fn check(kind: Kind, raw: &RawRequest, captured: &Captured) -> Result<(), Verdict> {
    if raw.method != "POST" {
        return Err(format!("method {}", raw.method).into());
    }
    if captured.header("content-type") != Some("application/json") {
        return Err("no JSON content type".to_owned().into());
    }
    match kind {
        Kind::Anthropic => anthropic::check(captured),
        Kind::OpenAi | Kind::Groq | Kind::OpenRouter => openai::check(kind, captured),
        Kind::Google => google::check(captured),
        Kind::Ollama => ollama::check(captured),
    }
}

/// What the server says about itself at this path; the error is something that we must not ask.
fn describe(kind: Kind, raw: &RawRequest, shared: &Shared) -> Result<Option<Value>, String> {
    if raw.path == ollama::SHOW {
        ollama::check_show(&raw.method, &raw.body)?;
    } else if !raw.body.is_empty() {
        return Err(format!("GET {} with a body", raw.path));
    }
    let keyed = ("authorization".to_owned(), format!("Bearer {KEY}"));
    if kind == Kind::OpenAi && raw.path == "/props" && !raw.headers.contains(&keyed) {
        return Err("/props without the key".to_owned());
    }
    let state = shared.state.lock().unwrap();
    let known = state.descriptions.iter().find(|(path, _)| *path == raw.path);
    Ok(known.map(|(_, description)| description.clone()))
}

/// The answer to a free question about the provider itself.
fn probe(kind: Kind, raw: &RawRequest) -> Action {
    let bearer = format!("Bearer {KEY}");
    let (path, header, value) = match kind {
        Kind::Anthropic => ("/v1/models?limit=1", "x-api-key", KEY),
        Kind::OpenAi | Kind::Groq => ("/models", "authorization", &*bearer),
        Kind::OpenRouter => ("/key", "authorization", &*bearer),
        Kind::Google => ("/models?pageSize=1", "x-goog-api-key", KEY),
        Kind::Ollama => ("/api/tags", "", ""),
    };
    let key = (header.to_owned(), value.to_owned());
    let keyed = kind == Kind::Ollama || raw.headers.contains(&key);
    let status = match (raw.path == format!("{}{path}", kind.base_path()), keyed) {
        (false, _) => 404,
        (true, false) => 401,
        (true, true) => 200,
    };
    respond(status, vec![], r#"{"data": [], "models": []}"#.to_owned())
}

fn respond(status: u16, headers: Vec<(&str, String)>, body: String) -> Action {
    let headers = with_type("application/json", headers);
    Action::Respond { status, headers, body: body.into_bytes() }
}

/// Headers with the type of the body.
fn with_type(content_type: &str, headers: Vec<(&str, String)>) -> Vec<(String, String)> {
    let own = [("content-type", content_type.to_owned())].into_iter();
    own.chain(headers).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A good answer in the provider's shape: whole, or in the pieces of a stream.
enum Shaped {
    Whole(String),
    Pieces(Vec<String>),
}

fn shape(kind: Kind, captured: &Captured, answer: &Answer) -> Shaped {
    let stream = match kind {
        Kind::Google => captured.path.contains("streamGenerateContent"),
        _ => captured.body["stream"] == Value::Bool(true),
    };
    match (kind, stream) {
        (Kind::Anthropic, false) => Shaped::Whole(anthropic::whole(answer).to_string()),
        (Kind::Anthropic, true) => Shaped::Pieces(anthropic::pieces(answer)),
        (Kind::Google, false) => Shaped::Whole(google::whole(answer).to_string()),
        (Kind::Google, true) => Shaped::Pieces(google::pieces(answer)),
        (Kind::Ollama, false) => Shaped::Whole(ollama::whole(answer).to_string()),
        (Kind::Ollama, true) => Shaped::Pieces(ollama::pieces(answer)),
        (_, false) => Shaped::Whole(openai::whole(kind, answer).to_string()),
        (_, true) => Shaped::Pieces(openai::pieces(kind, answer)),
    }
}

fn action(kind: Kind, captured: &Captured, reply: Reply, reset: &Arc<Turnstile>) -> Action {
    let streamed =
        |pieces: Vec<String>, most: usize, end: StreamEnd, headers: Vec<(&str, String)>| {
            let kind =
                if kind == Kind::Ollama { "application/x-ndjson" } else { "text/event-stream" };
            let headers = with_type(kind, headers);
            let pieces = pieces.into_iter().take(most).map(String::into_bytes).collect();
            Action::Stream { headers, pieces, pause: Duration::ZERO, by: None, end }
        };
    let good = |answer: &Answer, headers: Vec<(&str, String)>| match shape(kind, captured, answer) {
        Shaped::Whole(body) => respond(200, headers, body),
        Shaped::Pieces(pieces) => streamed(pieces, usize::MAX, StreamEnd::Proper, headers),
    };
    let broken = |answer: &Answer, most: usize, end: StreamEnd| match shape(kind, captured, answer)
    {
        Shaped::Pieces(pieces) => streamed(pieces, most, end, vec![]),
        // A whole answer breaks in the middle of its body.
        Shaped::Whole(body) => {
            reset.open();
            streamed(vec![body[..body.len() / 2].to_owned()], 1, end, vec![])
        }
    };
    match reply {
        Reply::Answer(answer) => good(&answer, vec![]),
        Reply::WithHeaders(answer, headers) => good(&answer, headers),
        Reply::Status(status, headers, body) => respond(status, headers, body),
        Reply::CutBody(answer, most) => match shape(kind, captured, &answer) {
            Shaped::Whole(body) => respond(200, vec![], body[..most.min(body.len())].to_owned()),
            Shaped::Pieces(_) => panic!("CutBody is for whole answers; use EndAfter"),
        },
        Reply::ResetAfter(answer, most) => {
            broken(&answer, most, StreamEnd::Reset(Arc::clone(reset)))
        }
        Reply::SilentAfter(answer, most) => broken(&answer, most, StreamEnd::Silence),
        Reply::EndAfter(answer, most) => broken(&answer, most, StreamEnd::Proper),
        Reply::Dripping(_) => unreachable!("handled where it was asked for"),
        Reply::Endless => streamed(vec![" ".repeat(64 * 1024)], 1, StreamEnd::Never, vec![]),
        Reply::Hang => Action::Hang,
        Reply::Close => Action::Close,
    }
}

/// A text in three parts, to be streamed.
fn thirds(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        return vec![];
    }
    chars.chunks(chars.len().div_ceil(3)).map(|part| part.iter().collect()).collect()
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
