//! Tests of scoped tokens and MCP sessions (quotas, request ids, listing, expiry, revocation), and of request limits.

use std::io::{Read, Write};
use std::net::TcpStream;

use reqwest::Method;
use serde_json::{Value, json};

use super::{HttpResponse, TestServer, home};
use crate::exec::wait_for;

/// Maximum number of MCP sessions per token and path.
const MAX_SESSIONS: usize = 64;

/// MCP client over HTTP that uses one token and one path.
struct McpClient<'a> {
    serving: &'a TestServer<'a>,
    token: String,
    path: String,
}

impl McpClient<'_> {
    fn headers(&self, session: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.token)),
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
        ];
        if !session.is_empty() {
            headers.push(("mcp-session-id", session.to_owned()));
        }
        headers
    }

    fn send(&self, session: &str, body: &Value) -> HttpResponse {
        let headers = self.headers(session);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        self.serving.request_without_token(Method::POST, &self.path, &headers, body.to_string())
    }

    fn initialize(&self) -> HttpResponse {
        let client = json!({"name": "tester", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        self.send("", &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    }

    /// Opens an MCP session and returns its id.
    fn open_session(&self) -> String {
        let answer = self.initialize();
        assert_eq!(answer.status, 200, "{answer:?}");
        let session = answer.header("mcp-session-id").to_owned();
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.send(&session, &done).status, 202);
        session
    }
}

/// Creates an MCP client with a new token of the given scope.
fn client_with_scoped_token<'a>(serving: &'a TestServer<'_>, scope: &str) -> McpClient<'a> {
    let made = serving.post("/api/tokens", json!({"scope": scope})).success_json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    McpClient { serving, token: text("token"), path: text("path") }
}

/// JSON-RPC request that calls `run_code` with a time limit of 3 s.
fn run_code_request(id: &Value, code: &str) -> Value {
    let arguments = json!({"code": code, "timeout_seconds": 3});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": "run_code", "arguments": arguments}})
}

#[test]
fn mcp_sessions_and_their_quota_are_separate_for_each_token() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let greedy = client_with_scoped_token(&serving, "code");
    let first = greedy.open_session();
    for _ in 1..MAX_SESSIONS {
        assert_eq!(greedy.initialize().status, 200);
    }
    let problem = greedy.initialize().problem_document(429);
    assert!(problem["hint"].as_str().unwrap().contains("DELETE"), "{problem}");
    // The owner's token and each scoped token have separate quotas of sessions.
    let owner =
        McpClient { serving: &serving, token: serving.token.clone(), path: "/mcp/code".to_owned() };
    owner.open_session();
    let other = client_with_scoped_token(&serving, "code");
    other.open_session();
    // A session can be used only with the token that opened it.
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    other.send(&first, &ping).problem_document(404);
    owner.send(&first, &ping).problem_document(404);
    assert_eq!(greedy.send(&first, &ping).status, 200);
    // After a session is closed, the token can open another one.
    let headers = greedy.headers(&first);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let ended = serving.request_without_token(Method::DELETE, "/mcp/code", &headers, "");
    assert!((200..300).contains(&ended.status), "{ended:?}");
    greedy.open_session();
}

#[test]
fn mcp_request_id_can_be_reused_only_after_the_response_to_its_first_request() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let client = client_with_scoped_token(&serving, "code");
    let session = client.open_session();
    for id in [json!(7), json!("seven")] {
        // The program runs, and the request is in flight, until the time limit of 3 s.
        let slow =
            run_code_request(&id, "import signal\nprint('first', flush=True)\nsignal.pause()");
        let quick = run_code_request(&id, "print('second')");
        let mut request = serving.client.post(format!("{}{}", serving.address, client.path));
        for (name, value) in client.headers(&session) {
            request = request.header(name, value);
        }
        let first = serving.block_on(async {
            let first = request.body(slow.to_string()).send().await.unwrap();
            assert_eq!(first.status(), 200);
            first
        });
        let problem = client.send(&session, &quick).problem_document(409);
        assert!(problem["hint"].as_str().unwrap().contains("a unique id"), "{problem}");
        let text = serving.block_on(async { first.text().await.unwrap() });
        assert!(text.contains("first") && !text.contains("second"), "{text}");
        let again = client.send(&session, &quick);
        assert_eq!(again.status, 200, "{again:?}");
        assert!(again.text.contains("second"), "{again:?}");
    }
}

#[test]
fn scoped_tokens_can_be_listed_and_revoked_one_by_one_and_expire() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let (kept, revoked) =
        (client_with_scoped_token(&serving, "code"), client_with_scoped_token(&serving, "code"));
    assert_ne!(kept.token, revoked.token);
    let listed = serving.get("/api/tokens").success_json();
    let listed = listed["tokens"].as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    for one in listed {
        let lifetime = one["expires"].as_u64().unwrap() - one["created"].as_u64().unwrap();
        assert_eq!((&one["scope"], lifetime), (&json!("code"), 30 * 24 * 60 * 60 * 1000), "{one}");
        assert_eq!(one.as_object().unwrap().len(), 4, "{one}");
    }
    let id = listed[1]["id"].as_str().unwrap();
    assert!(revoked.token.starts_with(id));
    let path = format!("/api/tokens/{id}");
    assert_eq!(serving.send(Method::DELETE, &path, None).status, 204);
    serving.send(Method::DELETE, &path, None).problem_document(404);
    revoked.initialize().problem_document(401);
    kept.open_session();
    // The command `assize tokens` manages the same tokens as the API.
    let out = home.run(&["tokens", "list", "--json"]).out;
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    let made = home.run(&["tokens", "create", "code", "--expires-in", "1h"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let own = McpClient {
        serving: &serving,
        token: made.out.trim().to_owned(),
        path: "/mcp/code".to_owned(),
    };
    own.open_session();
    let (id, _) = own.token.split_once('.').unwrap();
    assert!(home.run(&["tokens", "ls"]).out.contains(id));
    assert_eq!(home.run(&["tokens", "revoke", id]).code, 0);
    own.initialize().problem_document(401);
    let unknown = home.run(&["tokens", "revoke", id]);
    assert_eq!(
        (unknown.code, unknown.err.contains("assize tokens list")),
        (2, true),
        "{}",
        unknown.err
    );
    for scope in ["everything", "drafts/../x"] {
        let refused = home.run(&["tokens", "create", scope]);
        assert_eq!(
            (refused.code, refused.err.contains("drafts/NAME")),
            (2, true),
            "{}",
            refused.err
        );
    }
    assert_eq!(home.run(&["tokens", "create", "code", "--expires-in", "3650d"]).code, 2);
    for ttl in [json!(0), json!(31_536_001), json!("x")] {
        serving
            .post("/api/tokens", json!({"scope": "code", "ttl_seconds": ttl}))
            .problem_document(422);
    }
    let short =
        serving.post("/api/tokens", json!({"scope": "code", "ttl_seconds": 1})).success_json();
    let short = McpClient {
        serving: &serving,
        token: short["token"].as_str().unwrap().to_owned(),
        path: "/mcp/code".to_owned(),
    };
    wait_for("the token to expire", || short.initialize().status == 401);
    // Replacing the owner's token revokes all scoped tokens.
    let file = home.folder.path().join(".local/state/assize/serve.token");
    let token = kept.token.clone();
    assert_eq!(serving.stop(), 0);
    std::fs::remove_file(file).unwrap();
    let anew = TestServer::start(&home, &[]);
    assert_eq!(anew.get("/api/tokens").success_json(), json!({"tokens": []}));
    let old = McpClient { serving: &anew, token, path: "/mcp/code".to_owned() };
    old.initialize().problem_document(401);
}

#[test]
fn request_with_content_length_and_chunked_encoding_is_refused() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let address = serving.address.strip_prefix("http://").unwrap().to_owned();
    let head = format!(
        "POST /api/links HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n",
        serving.token
    );
    let json = "Content-Type: application/json\r\n";
    let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
    let close = "Connection: close\r\n";
    let body = "0\r\n\r\n";
    let fine = format!("{head}{json}{chunked}\r\n{body}");
    for (request, status) in [
        (format!("{head}{json}{chunked}{close}\r\n{body}"), "201"),
        (format!("{head}{json}Content-Length: 2\r\n{close}\r\n{{}}"), "201"),
        (format!("{head}{json}{length}{chunked}\r\n{body}"), "400"),
        (format!("{head}{json}{chunked}{length}\r\n{body}"), "400"),
        // The second request on a connection is checked, too.
        (format!("{fine}{head}{chunked}{length}\r\n{body}"), "400"),
    ] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let last = answer.rfind("HTTP/1.1 ").unwrap();
        assert_eq!(&answer[last + 9..last + 12], status, "{request}: {answer}");
    }
}

#[test]
fn requests_cannot_exceed_the_servers_sandbox_limits() {
    let home =
        home().set("ASSIZE_SERVE_MAX_TIMEOUT_SECONDS", "60").set("ASSIZE_SERVE_MAX_MEMORY", "128M");
    let serving = TestServer::start(&home, &[]);
    // The default memory limit exceeds the maximum of the server, so the maximum applies.
    let big = json!({"code": "print(len(b'x' * (180 << 20)))"});
    assert_eq!(serving.post("/api/exec", big).success_json()["out_of_memory"], true);
    for (settings, ceiling) in [
        (json!({"memory": "5G"}), "serve.max_memory"),
        (json!({"disk": "5G"}), "serve.max_disk"),
        (json!({"timeout_seconds": 61}), "serve.max_timeout_seconds"),
    ] {
        for (path, body) in [
            ("/api/exec", json!({"code": "1", "settings": settings})),
            ("/api/sandboxes", json!({"name": "big", "settings": settings})),
            ("/api/runs", json!({"kind": "run", "task": "x", "settings": settings})),
        ] {
            let problem = serving.post(path, body).problem_document(422);
            assert!(problem["detail"].as_str().unwrap().contains("must be at most"), "{problem}");
            assert!(problem["hint"].as_str().unwrap().contains(ceiling), "{problem}");
        }
    }
    let fine = json!({"code": "print(1)", "settings": {"timeout_seconds": 60, "disk": "65M"}});
    assert_eq!(serving.post("/api/exec", fine).success_json()["stdout"], "1\n");
    let client = client_with_scoped_token(&serving, "code");
    let session = client.open_session();
    let mut long = run_code_request(&json!(1), "print(1)");
    long["params"]["arguments"]["timeout_seconds"] = json!(61);
    let answer = client.send(&session, &long);
    assert!(answer.text.contains("serve.max_timeout_seconds"), "{answer:?}");
    assert!(answer.text.contains("\"isError\":true"), "{answer:?}");
}
