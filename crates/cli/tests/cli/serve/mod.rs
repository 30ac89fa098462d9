//! Tests of `assize serve` with the built binary and a real HTTP client.

mod access;
mod drafts;
mod events;
mod restarts;
mod routes;
mod run_events;
mod tokens;
pub(crate) mod warm_pool;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, Method, Response};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Home;
pub(crate) use crate::exec::home;

/// Limits the warm pool of a command to one sandbox, unless the test sets the size of the pool. Refilling larger pools
/// would slow down the tests that run in parallel.
pub(crate) fn shrink_pool(home: &Home, command: &mut std::process::Command) {
    const POOL: &str = "ASSIZE_SANDBOX_POOL";
    if !home.variables.iter().any(|(name, _)| name == POOL) {
        command.env(POOL, "1");
    }
}

/// A running `assize serve` process, and an HTTP client with the token of the server.
pub(crate) struct TestServer<'a> {
    home: &'a Home,
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) login_link: String,
    pub(crate) token: String,
    pub(crate) client: Client,
    runtime: Runtime,
}

/// HTTP response with its body.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl HttpResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|_| panic!("the response is not JSON: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts a 2xx status and returns the JSON body.
    pub(crate) fn success_json(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }

    /// Asserts that the response has this status and a complete error body (`application/problem+json`). Returns the
    /// body.
    pub(crate) fn problem_document(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        for name in ["type", "title", "detail"] {
            assert!(problem[name].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        problem
    }
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamEvent {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// Open stream of server-sent events.
pub(crate) struct EventStream {
    response: Response,
    read: Vec<u8>,
    pub(crate) heartbeats: usize,
    pub(crate) retry: Option<u64>,
}

impl EventStream {
    /// Returns the next event, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            while let Some(end) = self.read.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.read.drain(..end + 2).collect();
                let block = String::from_utf8(block).unwrap();
                let (mut id, mut name, mut data) = (None, None, None);
                for line in block.lines().filter(|line| !line.is_empty()) {
                    match line.split_once(": ").unwrap_or((line, "")) {
                        ("id", number) => id = Some(number.parse().unwrap()),
                        ("event", text) => name = Some(text.to_owned()),
                        ("data", text) => data = Some(serde_json::from_str(text).unwrap()),
                        ("retry", number) => self.retry = Some(number.parse().unwrap()),
                        (":", _) => self.heartbeats += 1,
                        other => panic!("unknown line in the event stream: {other:?}"),
                    }
                }
                if let (Some(name), Some(data)) = (name, data) {
                    return Some(StreamEvent { id, name, data });
                }
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.read.extend_from_slice(&bytes),
                _ => return None,
            }
        }
    }

    /// Waits for a heartbeat, which is an empty comment line in the stream.
    pub(crate) async fn heartbeat(&mut self) {
        let before = self.heartbeats;
        while self.heartbeats == before {
            let bytes = self.response.chunk().await.unwrap().unwrap();
            assert_eq!(&*bytes, b":\n\n");
            self.heartbeats += 1;
        }
    }

    /// Returns all events up to the end of the stream.
    pub(crate) async fn remaining_events(mut self) -> Vec<StreamEvent> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

impl<'a> TestServer<'a> {
    /// Starts a server on a free port and waits until it listens.
    pub(crate) fn start(home: &'a Home, more: &[&str]) -> TestServer<'a> {
        let mut args = vec!["serve", "--json"];
        if !more.contains(&"--listen") {
            args.extend(["--listen", "127.0.0.1:0"]);
        }
        args.extend(more);
        let mut command = home.command(&args);
        shrink_pool(home, &mut command);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut report = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        while !report.ends_with("}\n") {
            assert!(
                output.read_line(&mut report).unwrap() > 0,
                "the server exited before it was ready: {report}"
            );
        }
        let report: Value = serde_json::from_str(&report).unwrap();
        // Connect to the local address, even if the server has another public host name.
        let secure = more.contains(&"--tls-cert");
        let scheme = if secure { "https" } else { "http" };
        let address = format!("{scheme}://{}", report["listen"].as_str().unwrap());
        let token = report["token_file"].as_str();
        let token = token.map(|file| std::fs::read_to_string(file).unwrap().trim().to_owned());
        let _ = rustls::crypto::ring::default_provider().install_default();
        TestServer {
            home,
            child,
            address,
            login_link: report["link"].as_str().unwrap_or_default().to_owned(),
            token: token.unwrap_or_default(),
            client: client().build().unwrap(),
            runtime: Runtime::new().unwrap(),
        }
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    /// Sends a request with exactly these headers, without the token of the server.
    pub(crate) fn request_without_token(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> HttpResponse {
        let mut request = self.client.request(method, format!("{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.runtime.block_on(async {
            let response = request.body(body).send().await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let text = String::from_utf8_lossy(&response.bytes().await.unwrap()).into_owned();
            HttpResponse { status, headers, text }
        })
    }

    /// Sends a request with the token of the server and an optional JSON body.
    pub(crate) fn send(&self, method: Method, path: &str, body: Option<Value>) -> HttpResponse {
        let token = format!("Bearer {}", self.token);
        let json = ("content-type", "application/json");
        match body {
            Some(body) => self.request_without_token(
                method,
                path,
                &[("authorization", &token), json],
                body.to_string(),
            ),
            None => self.request_without_token(method, path, &[("authorization", &token)], ""),
        }
    }

    pub(crate) fn get(&self, path: &str) -> HttpResponse {
        self.send(Method::GET, path, None)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> HttpResponse {
        self.send(Method::POST, path, Some(body))
    }

    /// Starts a run and returns its id.
    pub(crate) fn start_run(&self, request: Value) -> String {
        let answer = self.post("/api/runs", request);
        assert_eq!(answer.status, 201, "{answer:?}");
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(answer.header("location"), format!("/api/runs/{id}"));
        id
    }

    /// Sends a GET request with the token and returns the body of the response.
    pub(crate) async fn get_text(&self, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", self.address)).bearer_auth(&self.token);
        request.send().await.unwrap().text().await.unwrap()
    }

    /// Opens an event stream. If `last` is given, the stream begins after the event with that id.
    pub(crate) async fn open_event_stream(&self, path: &str, last: Option<u64>) -> EventStream {
        let mut request = self.client.get(format!("{}{path}", self.address));
        request = request.bearer_auth(&self.token);
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        EventStream { response, read: Vec::new(), heartbeats: 0, retry: None }
    }

    /// Waits until a run ends and returns its events. If `last` is given, returns only the events after that id.
    pub(crate) fn wait_for_events(&self, run: &str, last: Option<u64>) -> Vec<StreamEvent> {
        self.runtime.block_on(async {
            self.open_event_stream(&format!("/api/runs/{run}/events"), last)
                .await
                .remaining_events()
                .await
        })
    }

    /// Waits until a run has ended. Returns the JSON object with which the API describes the run.
    pub(crate) fn wait_for_end(&self, run: &str) -> Value {
        self.wait_for_events(run, None);
        self.get(&format!("/api/runs/{run}")).success_json()
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Stops the server with SIGTERM and returns its exit code.
    pub(crate) fn stop(mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for TestServer<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The next assize process in the same home cleans up the sandboxes of the killed server.
        let _ = self.home;
    }
}

/// HTTP client without a proxy and with a timeout of 60 s.
pub(crate) fn client() -> ClientBuilder {
    Client::builder().no_proxy().timeout(Duration::from_secs(60))
}

/// Value of `PATH` with the folders of the interpreters.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Names of events in order, without `execution_output`, because the number of these events varies.
pub(crate) fn event_names(events: &[StreamEvent]) -> Vec<&str> {
    let names = events.iter().map(|event| event.name.as_str());
    names.filter(|name| *name != "execution_output").collect()
}

/// Request body that starts a small consultation.
pub(crate) fn consult_body() -> Value {
    json!({"kind": "consult", "ticker": "NVDA", "rounds": 2, "moves": 1})
}

/// Request body that starts a code run with a task of the rehearsal model.
pub(crate) fn fibonacci_body() -> Value {
    json!({"kind": "run", "task": "Calculate fibonacci(10)"})
}

/// Request body that starts a debate of two rounds.
pub(crate) fn debate_body() -> Value {
    json!({"kind": "debate", "document": crate::debate::MOVE, "rounds": 2})
}
