//! The fake provider: scripted replies, captured requests, and recorded violations.

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

pub use cache::{BilledTokens, PromptCache, WrittenPrefixes};

/// The provider that a fake imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeKind {
    Anthropic,
    OpenAi,
    Groq,
    OpenRouter,
    Google,
    Ollama,
}

impl FakeKind {
    /// Path in the provider's base URL, such as `/v1`.
    fn base_path(self) -> &'static str {
        match self {
            FakeKind::Anthropic | FakeKind::Ollama => "",
            FakeKind::OpenAi => "/v1",
            FakeKind::Groq => "/openai/v1",
            FakeKind::OpenRouter => "/api/v1",
            FakeKind::Google => "/v1beta",
        }
    }
}

/// A successful answer, to be sent in the provider's format.
#[derive(Debug, Clone)]
pub struct FakeAnswer {
    pub text: String,
    /// Reasoning that is streamed before the text.
    pub reasoning: String,
    /// Name and arguments of each tool call.
    pub tool_calls: Vec<(String, Value)>,
    pub stop: FakeStop,
    /// Number of input tokens that the answer reports, including cached tokens.
    pub input: u64,
    /// Number of input tokens that the answer reports as read from the prompt cache.
    pub cached: u64,
    /// Number of input tokens that the answer reports as written to the prompt cache.
    pub written: u64,
    /// Number of output tokens that the answer reports.
    pub output: u64,
}

/// Stop reason of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeStop {
    Done,
    Tools,
    Length,
    Refusal,
}

impl FakeAnswer {
    pub fn text(text: impl Into<String>) -> FakeAnswer {
        FakeAnswer {
            text: text.into(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            stop: FakeStop::Done,
            input: 1000,
            cached: 600,
            written: 0,
            output: 50,
        }
    }

    pub fn calling(name: &str, arguments: Value) -> FakeAnswer {
        FakeAnswer {
            tool_calls: vec![(name.to_owned(), arguments)],
            stop: FakeStop::Tools,
            ..FakeAnswer::text("")
        }
    }

    pub fn stopped(self, stop: FakeStop) -> FakeAnswer {
        FakeAnswer { stop, ..self }
    }
}

/// How the fake replies to a request.
#[derive(Debug, Clone)]
pub enum FakeReply {
    Answer(FakeAnswer),
    /// A successful answer with additional headers.
    WithHeaders(FakeAnswer, Vec<(&'static str, String)>),
    /// An HTTP response with this status, these headers and this body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// An answer whose body is truncated after this many bytes. The `content-length` header matches the truncated body.
    CutBody(FakeAnswer, usize),
    /// An answer during which the connection is reset. In a streamed answer, the reset follows after this many chunks,
    /// once the test has called [`FakeProvider::reset_now`]. In an answer that is not streamed, the reset comes at once
    /// in the middle of the body.
    ResetAfter(FakeAnswer, usize),
    /// A streamed answer that stops after this many chunks, with the connection left open.
    SilentAfter(FakeAnswer, usize),
    /// A streamed answer. Each chunk is sent when the test calls [`FakeProvider::drip`].
    Dripping(FakeAnswer),
    /// A streamed answer that lacks its last chunks: the HTTP body ends properly, but after only this many chunks.
    EndAfter(FakeAnswer, usize),
    /// A complete streamed answer after which the server closes the connection without notice, as a llama.cpp server
    /// does. The fake closes the connection only when the next request arrives on it, so the request of a client that
    /// reuses the connection fails.
    LastOnConnection(FakeAnswer),
    /// A response whose body never ends.
    Endless,
    /// The fake never answers.
    Hang,
    /// The connection is closed without an answer.
    Close,
}

impl FakeReply {
    pub fn text(text: impl Into<String>) -> FakeReply {
        FakeReply::Answer(FakeAnswer::text(text))
    }

    /// An error response with this status, in a generic format.
    pub fn status(status: u16) -> FakeReply {
        FakeReply::Status(
            status,
            vec![],
            format!(r#"{{"error":{{"message":"scripted status {status}"}}}}"#),
        )
    }
}

/// A request that the fake received.
#[derive(Debug, Clone)]
pub struct CapturedRequest {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl CapturedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The API key that every fake requires.
const KEY: &str = "sk-test-0123456789abcdef";

/// Function that computes the reply to a request. Its arguments are the number of earlier requests, and the request.
type Respond = dyn Fn(usize, &CapturedRequest) -> FakeReply + Send + Sync;

/// Simulated latency of an answer: time until the answer starts, and time from its start to its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Latency {
    pub to_first_byte: Duration,
    pub to_last_byte: Duration,
}

#[derive(Default)]
struct State {
    script: VecDeque<FakeReply>,
    /// Computes the replies to the requests that come after the last reply of `script`. If `None`, these requests are
    /// violations.
    responder: Option<Arc<Respond>>,
    captured: Vec<CapturedRequest>,
    violations: Vec<String>,
    /// Simulated prompt cache. It determines the input tokens that answers report.
    cache: Option<PromptCache>,
    billed: BilledTokens,
    /// Path and reply of each query about the model server itself, such as a query for its context window.
    descriptions: Vec<(String, Value)>,
    /// Latency of each successful answer.
    latency: Option<Latency>,
    /// Current and maximum number of concurrent requests. They are counted only if the fake has a latency.
    concurrent_requests: (usize, usize),
}

/// Fake provider on loopback. It runs on its own threads, so that a test's paused clock does not affect it.
pub struct FakeProvider {
    kind: FakeKind,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    received: Condvar,
    reset: Arc<Turnstile>,
    drip: Arc<Turnstile>,
}

impl FakeProvider {
    /// Starts a fake that sends the replies of `script` in order. A request after the last reply is a violation.
    pub fn scripted(kind: FakeKind, script: impl IntoIterator<Item = FakeReply>) -> FakeProvider {
        FakeProvider::start(
            kind,
            State { script: script.into_iter().collect(), ..State::default() },
        )
    }

    /// Starts a fake that sends the same reply to every request.
    pub fn always(kind: FakeKind, reply: FakeReply) -> FakeProvider {
        FakeProvider::with_responder(kind, move |_, _| reply.clone())
    }

    /// Starts a fake whose replies are computed by `respond`, from the number of earlier requests and the current
    /// request.
    pub fn with_responder(
        kind: FakeKind,
        respond: impl Fn(usize, &CapturedRequest) -> FakeReply + Send + Sync + 'static,
    ) -> FakeProvider {
        FakeProvider::start(kind, State { responder: Some(Arc::new(respond)), ..State::default() })
    }

    /// Starts a fake whose replies are computed by `respond`, with this latency for each successful answer.
    pub fn with_latency(
        kind: FakeKind,
        latency: Duration,
        respond: impl Fn(usize, &CapturedRequest) -> FakeReply + Send + Sync + 'static,
    ) -> FakeProvider {
        let always: Option<Arc<Respond>> = Some(Arc::new(respond));
        let latency = Some(Latency { to_first_byte: latency, to_last_byte: Duration::ZERO });
        FakeProvider::start(kind, State { responder: always, latency, ..State::default() })
    }

    /// Starts a fake of Anthropic whose replies are computed by `respond`. The fake simulates a prompt cache and
    /// reports cached tokens.
    pub fn with_prompt_cache(
        latency: Latency,
        respond: impl Fn(usize, &CapturedRequest) -> FakeReply + Send + Sync + 'static,
    ) -> FakeProvider {
        let (cache, latency) = (Some(PromptCache::default()), Some(latency));
        let always: Option<Arc<Respond>> = Some(Arc::new(respond));
        FakeProvider::start(
            FakeKind::Anthropic,
            State { responder: always, cache, latency, ..State::default() },
        )
    }

    /// Sets the reply to queries about the server itself at this path: `/props`, `/v1/models` or `/api/show`.
    #[must_use]
    pub fn with_description(self, path: &str, description: Value) -> FakeProvider {
        self.shared.state.lock().unwrap().descriptions.push((path.to_owned(), description));
        self
    }

    /// Total input tokens that a fake with a prompt cache has charged.
    pub fn billed_tokens(&self) -> BilledTokens {
        self.shared.state.lock().unwrap().billed
    }

    /// Maximum number of requests that were in flight at the same time. It is counted only if the fake has a latency.
    pub fn max_concurrent_requests(&self) -> usize {
        self.shared.state.lock().unwrap().concurrent_requests.1
    }

    fn start(kind: FakeKind, state: State) -> FakeProvider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { state: Mutex::new(state), ..Shared::default() });
        let served = Arc::clone(&shared);
        // The thread ends with the test process; there is nothing to clean up.
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

    /// Base URL of the fake, with the same path as the base URL of the real provider.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.kind.base_path())
    }

    /// All requests received so far.
    pub fn captured_requests(&self) -> Vec<CapturedRequest> {
        self.shared.state.lock().unwrap().captured.clone()
    }

    /// Waits until the fake has received this many requests.
    pub fn wait_for_requests(&self, count: usize) {
        let (state, timeout) = (self.shared.state.lock().unwrap(), Duration::from_secs(120));
        let few = |state: &mut State| state.captured.len() < count;
        let (state, waited) = self.shared.received.wait_timeout_while(state, timeout, few).unwrap();
        assert!(
            !waited.timed_out(),
            "timed out: the fake received {} of {count} requests",
            state.captured.len()
        );
    }

    /// Resets the connection of an answer that is sent with [`FakeReply::ResetAfter`].
    pub fn reset_now(&self) {
        self.shared.reset.open();
    }

    /// Sends the next chunk of an answer that is sent with [`FakeReply::Dripping`].
    pub fn drip(&self) {
        self.shared.drip.admit(1);
    }

    /// Sends all further chunks of an answer that is sent with [`FakeReply::Dripping`].
    pub fn drip_all(&self) {
        self.shared.drip.open();
    }

    /// The only request that the fake received.
    pub fn only_request(&self) -> CapturedRequest {
        let mut captured = self.captured_requests();
        assert_eq!(captured.len(), 1, "the fake must have received exactly one request");
        captured.remove(0)
    }

    /// Removes and returns the recorded violations, for tests that expect them.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state.lock().unwrap().violations)
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
            let complaints = self.take_violations();
            assert!(
                complaints.is_empty(),
                "the fake of {:?} received invalid requests: {complaints:#?}",
                self.kind
            );
        }
    }
}

fn serve(kind: FakeKind, stream: TcpStream, shared: &Shared) {
    http::serve(stream, |raw| {
        if raw.method == "GET" || raw.path == ollama::SHOW {
            return match describe(kind, &raw, shared) {
                Ok(Some(description)) => respond(200, vec![], description.to_string()),
                Ok(None) => probe(kind, &raw),
                Err(complaint) => {
                    shared.state.lock().unwrap().violations.push(complaint);
                    respond(400, vec![], String::new())
                }
            };
        }
        let body = serde_json::from_slice(&raw.body).unwrap_or(Value::Null);
        let captured =
            CapturedRequest { path: raw.path.clone(), headers: raw.headers.clone(), body };
        let mut state = shared.state.lock().unwrap();
        state.captured.push(captured.clone());
        shared.received.notify_all();
        match check(kind, &raw, &captured) {
            Ok(()) => {}
            Err(RequestFault::Refuse(status, body)) => {
                return respond(status, vec![], body.to_string());
            }
            Err(RequestFault::Violation(complaint)) => {
                let body = serde_json::json!({"error": {"message": format!("fake: {complaint}")}});
                state.violations.push(complaint);
                return respond(400, vec![], body.to_string());
            }
        }
        let before = state.captured.len() - 1;
        let answer = state.responder.clone();
        let always = || answer.map(|answer| answer(before, &captured));
        let reply = state.script.pop_front().or_else(always);
        match reply {
            Some(FakeReply::Answer(answer)) if let Some(latency) = state.latency => {
                drop(state);
                answer_slowly(kind, &captured, answer, latency, shared)
            }
            Some(FakeReply::Dripping(answer)) => {
                let mut action = action(kind, &captured, FakeReply::Answer(answer), &shared.reset);
                match &mut action {
                    Action::Stream { turnstile: by, .. } => *by = Some(Arc::clone(&shared.drip)),
                    _ => state
                        .violations
                        .push("`FakeReply::Dripping` needs a streaming request".into()),
                }
                action
            }
            Some(reply) => action(kind, &captured, reply, &shared.reset),
            None => {
                state
                    .violations
                    .push("the fake received more requests than its script has replies".to_owned());
                respond(500, vec![], String::new())
            }
        }
    });
}

/// Answers with the given latency. If the fake has a prompt cache, the answer reports the charged tokens.
fn answer_slowly(
    kind: FakeKind,
    captured: &CapturedRequest,
    mut answer: FakeAnswer,
    latency: Latency,
    shared: &Shared,
) -> Action {
    let mut written = WrittenPrefixes::default();
    let mut state = shared.state.lock().unwrap();
    state.concurrent_requests.0 += 1;
    state.concurrent_requests.1 = state.concurrent_requests.1.max(state.concurrent_requests.0);
    if let Some(cache) = &mut state.cache {
        let bill;
        (bill, written) = cache.bill(&captured.body, Instant::now());
        BilledTokens { input: answer.input, cached: answer.cached, written: answer.written } = bill;
        state.billed += bill;
    }
    drop(state);
    thread::sleep(latency.to_first_byte);
    if let Some(cache) = &mut shared.state.lock().unwrap().cache {
        cache.mark_readable(&written, Instant::now());
    }
    let mut action = action(kind, captured, FakeReply::Answer(answer), &shared.reset);
    match &mut action {
        Action::Stream { pause, .. } => *pause = latency.to_last_byte,
        _ => thread::sleep(latency.to_last_byte),
    }
    shared.state.lock().unwrap().concurrent_requests.0 -= 1;
    action
}

/// Why the fake does not send the scripted reply to a request.
enum RequestFault {
    /// The fake refuses the request with this status and body, as the real provider would.
    Refuse(u16, Value),
    /// The request violates the documented rules of the provider, so the test fails.
    Violation(String),
}

impl From<String> for RequestFault {
    fn from(complaint: String) -> RequestFault {
        RequestFault::Violation(complaint)
    }
}

fn check(kind: FakeKind, raw: &RawRequest, captured: &CapturedRequest) -> Result<(), RequestFault> {
    if raw.method != "POST" {
        return Err(format!("the request has the method {} instead of POST", raw.method).into());
    }
    if captured.header("content-type") != Some("application/json") {
        return Err("the content type is not application/json".to_owned().into());
    }
    match kind {
        FakeKind::Anthropic => anthropic::check(captured),
        FakeKind::OpenAi | FakeKind::Groq | FakeKind::OpenRouter => openai::check(kind, captured),
        FakeKind::Google => google::check(captured),
        FakeKind::Ollama => ollama::check(captured),
    }
}

/// Reply to a query about the model server itself, if the test has set a reply. The error describes an invalid query.
fn describe(kind: FakeKind, raw: &RawRequest, shared: &Shared) -> Result<Option<Value>, String> {
    if raw.path == ollama::SHOW {
        ollama::check_show(&raw.method, &raw.body)?;
    } else if !raw.body.is_empty() {
        return Err(format!("the request GET {} has a body", raw.path));
    }
    let keyed = ("authorization".to_owned(), format!("Bearer {KEY}"));
    if kind == FakeKind::OpenAi && raw.path == "/props" && !raw.headers.contains(&keyed) {
        return Err("the request to /props lacks the API key".to_owned());
    }
    let state = shared.state.lock().unwrap();
    let known = state.descriptions.iter().find(|(path, _)| *path == raw.path);
    Ok(known.map(|(_, description)| description.clone()))
}

/// Reply to the request with which clients check, without cost, that the provider is reachable and that the API key is
/// valid.
fn probe(kind: FakeKind, raw: &RawRequest) -> Action {
    let bearer = format!("Bearer {KEY}");
    let (path, header, value) = match kind {
        FakeKind::Anthropic => ("/v1/models?limit=1", "x-api-key", KEY),
        FakeKind::OpenAi | FakeKind::Groq => ("/models", "authorization", &*bearer),
        FakeKind::OpenRouter => ("/key", "authorization", &*bearer),
        FakeKind::Google => ("/models?pageSize=1", "x-goog-api-key", KEY),
        FakeKind::Ollama => ("/api/tags", "", ""),
    };
    let key = (header.to_owned(), value.to_owned());
    let keyed = kind == FakeKind::Ollama || raw.headers.contains(&key);
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

/// Adds the content type to the headers.
fn with_type(content_type: &str, headers: Vec<(&str, String)>) -> Vec<(String, String)> {
    let own = [("content-type", content_type.to_owned())].into_iter();
    own.chain(headers).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A successful answer in the provider's format: as one body, or as the chunks of a stream.
enum EncodedAnswer {
    Whole(String),
    Pieces(Vec<String>),
}

fn encode(kind: FakeKind, captured: &CapturedRequest, answer: &FakeAnswer) -> EncodedAnswer {
    let stream = match kind {
        FakeKind::Google => captured.path.contains("streamGenerateContent"),
        _ => captured.body["stream"] == Value::Bool(true),
    };
    match (kind, stream) {
        (FakeKind::Anthropic, false) => EncodedAnswer::Whole(anthropic::whole(answer).to_string()),
        (FakeKind::Anthropic, true) => EncodedAnswer::Pieces(anthropic::pieces(answer)),
        (FakeKind::Google, false) => EncodedAnswer::Whole(google::whole(answer).to_string()),
        (FakeKind::Google, true) => EncodedAnswer::Pieces(google::pieces(answer)),
        (FakeKind::Ollama, false) => EncodedAnswer::Whole(ollama::whole(answer).to_string()),
        (FakeKind::Ollama, true) => EncodedAnswer::Pieces(ollama::pieces(answer)),
        (_, false) => EncodedAnswer::Whole(openai::whole(kind, answer).to_string()),
        (_, true) => EncodedAnswer::Pieces(openai::pieces(kind, answer)),
    }
}

fn action(
    kind: FakeKind,
    captured: &CapturedRequest,
    reply: FakeReply,
    reset: &Arc<Turnstile>,
) -> Action {
    let streamed =
        |pieces: Vec<String>, max: usize, end: StreamEnd, headers: Vec<(&str, String)>| {
            let kind =
                if kind == FakeKind::Ollama { "application/x-ndjson" } else { "text/event-stream" };
            let headers = with_type(kind, headers);
            let pieces = pieces.into_iter().take(max).map(String::into_bytes).collect();
            Action::Stream { headers, pieces, pause: Duration::ZERO, turnstile: None, end }
        };
    let good =
        |answer: &FakeAnswer, headers: Vec<(&str, String)>| match encode(kind, captured, answer) {
            EncodedAnswer::Whole(body) => respond(200, headers, body),
            EncodedAnswer::Pieces(pieces) => {
                streamed(pieces, usize::MAX, StreamEnd::Complete, headers)
            }
        };
    let broken =
        |answer: &FakeAnswer, max: usize, end: StreamEnd| match encode(kind, captured, answer) {
            EncodedAnswer::Pieces(pieces) => streamed(pieces, max, end, vec![]),
            // An answer that is not streamed is cut in the middle of its body.
            EncodedAnswer::Whole(body) => {
                reset.open();
                streamed(vec![body[..body.len() / 2].to_owned()], 1, end, vec![])
            }
        };
    match reply {
        FakeReply::Answer(answer) => good(&answer, vec![]),
        FakeReply::WithHeaders(answer, headers) => good(&answer, headers),
        FakeReply::Status(status, headers, body) => respond(status, headers, body),
        FakeReply::CutBody(answer, max) => match encode(kind, captured, &answer) {
            EncodedAnswer::Whole(body) => {
                respond(200, vec![], body[..max.min(body.len())].to_owned())
            }
            EncodedAnswer::Pieces(_) => panic!("CutBody is not for streamed answers: use EndAfter"),
        },
        FakeReply::ResetAfter(answer, max) => {
            broken(&answer, max, StreamEnd::Reset(Arc::clone(reset)))
        }
        FakeReply::SilentAfter(answer, max) => broken(&answer, max, StreamEnd::Silence),
        FakeReply::EndAfter(answer, max) => broken(&answer, max, StreamEnd::Complete),
        FakeReply::LastOnConnection(answer) => broken(&answer, usize::MAX, StreamEnd::CloseOnReuse),
        FakeReply::Dripping(_) => unreachable!("`serve` handles `FakeReply::Dripping`"),
        FakeReply::Endless => streamed(vec![" ".repeat(64 * 1024)], 1, StreamEnd::Never, vec![]),
        FakeReply::Hang => Action::Hang,
        FakeReply::Close => Action::Close,
    }
}

/// Splits a text into three parts for streaming.
fn split_in_three(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        return vec![];
    }
    chars.chunks(chars.len().div_ceil(3)).map(|part| part.iter().collect()).collect()
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
