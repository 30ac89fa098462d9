//! Tests of access to the server: authentication, host and origin checks, TLS, invalid requests, rate limits, web page.

use reqwest::Method;
use serde_json::{Value, json};

use super::{TestServer, fibonacci_body, home};
use crate::CommandOutput;

#[test]
fn requests_without_a_valid_token_get_401() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let token = format!("Bearer {}", serving.token);
    let paths = [
        "/api/runs",
        "/api/openapi.json",
        "/api/docs",
        "/",
        "/metrics",
        "/api/doctor",
        "/nowhere",
        "/mcp/code",
    ];
    for path in paths {
        let refused = serving.request_without_token(Method::GET, path, &[], "");
        assert_eq!(refused.header("www-authenticate"), "Bearer realm=\"assize\"");
        refused.problem_document(401);
        for wrong in ["Bearer", "Bearer x", "Basic abc", &token[..token.len() - 1], &serving.token]
        {
            serving
                .request_without_token(Method::GET, path, &[("authorization", wrong)], "")
                .problem_document(401);
        }
        serving
            .request_without_token(Method::GET, path, &[("cookie", "assize=x; other=y")], "")
            .problem_document(401);
    }
    // Health checks need no token.
    for path in ["/healthz", "/readyz"] {
        assert_eq!(
            serving.request_without_token(Method::GET, path, &[("host", "anything")], "").status,
            200
        );
    }
    assert_eq!(
        serving
            .request_without_token(Method::GET, "/api/runs", &[("authorization", &token)], "")
            .status,
        200
    );
    // The token stays the same after a restart.
    let before = serving.token.clone();
    assert_eq!(serving.stop(), 0);
    let serving = TestServer::start(&home, &[]);
    assert_eq!(serving.token, before);
    use std::os::unix::fs::MetadataExt;
    let file = home.folder.path().join(".local/state/assize/serve.token");
    assert_eq!(std::fs::metadata(file).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn login_link_works_once_and_its_cookie_is_protected_against_csrf() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let path = serving.login_link.strip_prefix(&serving.address).unwrap().to_owned();
    let entered = serving.request_without_token(Method::GET, &path, &[], "");
    assert_eq!(entered.status, 200);
    let cookie = entered.header("set-cookie").to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(cookie.contains("; Max-Age=2592000;"), "{cookie}");
    assert!(!cookie.contains(&serving.token) && !entered.text.contains(&serving.token));
    let cookie = cookie.split(';').next().unwrap();
    let listed = serving.request_without_token(Method::GET, "/api/runs", &[("cookie", cookie)], "");
    assert_eq!(listed.status, 200);
    // Requests from other origins are refused, even with the cookie.
    let origin = format!("http://127.0.0.1:{}", serving.port());
    let json = ("content-type", "application/json");
    for (name, value, status) in [
        ("origin", origin.as_str(), 201),
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 201),
    ] {
        let headers = [("cookie", cookie), json, (name, value)];
        let answer = serving.request_without_token(
            Method::POST,
            "/api/runs",
            &headers,
            fibonacci_body().to_string(),
        );
        assert_eq!(answer.status, status, "{name}: {value}: {answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    // HTML forms can send only these content types. The server refuses all of them.
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    {
        let headers = [("cookie", cookie), ("content-type", kind)];
        serving
            .request_without_token(
                Method::POST,
                "/api/runs",
                &headers,
                fibonacci_body().to_string(),
            )
            .problem_document(415);
    }
    let again = serving.request_without_token(Method::GET, &path, &[], "");
    assert_eq!((again.status, again.header("set-cookie")), (410, ""));
    assert_eq!(
        serving.request_without_token(Method::GET, "/enter?ticket=guessed", &[], "").status,
        410
    );
    // A new login link logs another browser in.
    let link = serving.post("/api/links", json!({})).success_json();
    let entered =
        serving.request_without_token(Method::GET, link["path"].as_str().unwrap(), &[], "");
    assert_eq!(entered.status, 200);
}

#[test]
fn unknown_host_header_is_refused() {
    let home = home();
    let serving = TestServer::start(&home, &["--host", "assize.example"]);
    let (token, port) = (format!("Bearer {}", serving.token), serving.port());
    for (host, status) in [
        (format!("localhost:{port}"), 200),
        (format!("assize.example:{port}"), 200),
        ("assize.example".to_owned(), 421),
        (format!("evil.example:{port}"), 421),
        ("evil.example".to_owned(), 421),
    ] {
        let headers = [("authorization", token.as_str()), ("host", host.as_str())];
        let answer = serving.request_without_token(Method::GET, "/api/version", &headers, "");
        assert_eq!(answer.status, status, "{host}: {answer:?}");
    }
    // Even a valid login link is refused under another host name.
    let path = serving.login_link.strip_prefix(&serving.address).unwrap().to_owned();
    serving
        .request_without_token(Method::GET, &path, &[("host", "evil.example")], "")
        .problem_document(421);
    assert_eq!(serving.request_without_token(Method::GET, &path, &[], "").status, 200);
}

#[test]
fn responses_have_security_headers() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    for path in ["/", "/api/docs", "/api/runs", "/nowhere"] {
        let answer = serving.get(path);
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), value, "{path}: {name}");
        }
    }
    let page = serving.get("/api/docs").text;
    assert!(page.contains("/api/runs/{id}/events") && !page.contains("<script"), "{page}");
}

/// A task that the rehearsal model can solve.
const FIB: &str = "Calculate fibonacci(10)";

#[test]
fn invalid_api_requests_are_refused_with_a_reason() {
    let home = home().set("ASSIZE_SERVE_MAX_REQUEST_SIZE", "64K");
    let serving = TestServer::start(&home, &[]);
    let token = format!("Bearer {}", serving.token);
    let send = |kind: &str, body: String| {
        let headers = [("authorization", token.as_str()), ("content-type", kind)];
        serving.request_without_token(Method::POST, "/api/runs", &headers, body)
    };
    let json = "application/json";
    send(json, "{".to_owned()).problem_document(400);
    send(json, "[]".to_owned()).problem_document(422);
    send(json, "{}".to_owned()).problem_document(422);
    send("text/plain", fibonacci_body().to_string()).problem_document(415);
    let large = json!({"kind": "run", "task": "x".repeat(100 << 10)}).to_string();
    let problem = send(json, large).problem_document(413);
    assert!(problem["detail"].as_str().unwrap().contains("bytes exceed"), "{problem}");
    let many: Vec<Value> =
        (0..201).map(|n| json!({"name": format!("{n}.md"), "text": ""})).collect();
    for (body, word) in [
        (json!({"kind": "run", "task": FIB, "files": many}), "at most 200"),
        (json!({"kind": "consult", "ticker": "NVDA", "files": many}), "at most 200"),
        (json!({"kind": "walk"}), "`kind`"),
        (json!({"kind": "run"}), "task"),
        (json!({"kind": "run", "task": 5}), "`task`"),
        (json!({"kind": "run", "task": FIB, "settings": {"cpus": "a"}}), "cpus"),
        (json!({"kind": "run", "task": FIB, "files": [{"name": 1}]}), "name"),
        (json!({"kind": "run", "task": "x", "tsak": 1}), "tsak"),
        (json!({"kind": "run", "task": "  "}), "empty"),
        (json!({"kind": "run", "task": "x", "max_attempts": 0}), "max_attempts"),
        (json!({"kind": "run", "task": "x", "max_attempts": 1_000_000}), "max_attempts"),
        (json!({"kind": "run", "task": "x", "language": "cobol"}), "cobol"),
        (json!({"kind": "run", "task": FIB, "files": [{"name": "../x", "text": ""}]}), "name"),
        (
            json!({"kind": "run", "task": FIB, "files": [{"name": "/etc/passwd", "text": ""}]}),
            "name",
        ),
        (json!({"kind": "run", "task": FIB, "files": [{"name": "x"}]}), "base64"),
        (json!({"kind": "run", "task": FIB, "files": [{"name": "x", "base64": "?"}]}), "base64"),
        (json!({"kind": "run", "task": FIB, "session": "../../x"}), "x"),
        (json!({"kind": "run", "task": FIB, "settings": {"memory": "lots"}}), "size"),
        (json!({"kind": "run", "task": FIB, "settings": {"isolation": "paper"}}), "paper"),
        (json!({"kind": "run", "task": FIB, "settings": {"provider": "acme"}}), "acme"),
        (json!({"kind": "consult", "ticker": "../etc"}), "ticker"),
        (json!({"kind": "consult", "name": "A\u{1b}[2J"}), "invalid company name"),
        (
            json!({"kind": "consult", "name": "Larkspur", "ticker": "NVDA"}),
            "a ticker and a company name",
        ),
        (json!({"kind": "consult"}), "no company given"),
        (json!({"kind": "consult", "ticker": "NVDA", "personas": "]["}), "personas"),
        (json!({"kind": "debate", "document": ""}), "empty"),
        (json!({"kind": "eval", "name": "x", "problems": "no"}), "1"),
    ] {
        let problem = send(json, body.to_string()).problem_document(422);
        assert!(problem["detail"].as_str().unwrap().contains(word), "{body}: {problem}");
    }
    for (body, status) in [
        (json!({"kind": "work", "workspace": "../etc"}), 404),
        (json!({"kind": "consult", "ticker": "NVDA", "root": "/etc"}), 404),
        (json!({"kind": "run", "task": "x", "settings": {"provider": "openai"}}), 409),
    ] {
        send(json, body.to_string()).problem_document(status);
    }
    for (method, path, status) in [
        (Method::PUT, "/api/runs", 405),
        (Method::GET, "/api/nothing", 404),
        (Method::GET, "/api/runs/run-aaaaaaaa", 404),
        (Method::GET, "/api/runs/%00", 404),
        (Method::GET, "/api/runs/..%2f..%2fetc", 404),
        (Method::GET, "/api/runs?limit=0", 400),
        (Method::GET, "/api/runs?limit=x", 400),
        (Method::GET, "/api/runs?colour=red", 400),
        (Method::GET, "/api/runs?status=asleep", 400),
        (Method::GET, "/api/runs?before=run-aaaaaaaa", 400),
        (Method::DELETE, "/api/runs/run-aaaaaaaa", 404),
        (Method::POST, "/api/runs/run-aaaaaaaa/cancel", 404),
        (Method::POST, "/api/runs/run-aaaaaaaa/resume", 404),
        (Method::POST, "/api/runs/run-aaaaaaaa/fork", 404),
        (Method::GET, "/api/workspaces/none/drafts", 404),
        (Method::GET, "/api/sandboxes/none/files?path=x", 404),
        (Method::DELETE, "/api/sandboxes/none", 404),
        (Method::DELETE, "/api/sessions/..%2f..", 404),
    ] {
        serving.send(method.clone(), path, None).problem_document(status);
    }
    assert_eq!(serving.get("/api/runs").success_json()["runs"], json!([]));
    assert_eq!(serving.stop(), 0);
}

#[test]
fn invalid_serve_options_are_refused() {
    let home = home();
    home.write("short.token", "x\n");
    home.write("open.token", &"t".repeat(40));
    let mut refusals = Vec::new();
    for args in [
        &["--listen", "0.0.0.0:0"][..],
        &["--listen", "0.0.0.0:0", "--no-auth"],
        &["--no-auth", "--behind-proxy"],
        &["--no-auth", "--host", "assize.example"],
        &["--listen", "0.0.0.0:0", "--behind-proxy"],
        &["--host", "https://assize.example/"],
        &["--listen", "nowhere"],
        &["--root", "here"],
        &["--root", "../x=."],
        &["--root", "here=nowhere"],
        &["--token-file", "short.token"],
        &["--token-file", "open.token"],
        &["--tls-cert", "none.pem", "--tls-key", "none.pem"],
    ] {
        std::process::Command::new("chmod")
            .args(["600", "short.token"])
            .current_dir(home.work_folder())
            .status()
            .unwrap();
        let CommandOutput { code, err, .. } = home.run(&[&["serve"][..], args].concat());
        refusals.push(format!("{code} {}", err.trim_end()));
    }
    insta::assert_snapshot!(refusals.join("\n\n"));
}

#[test]
fn server_without_authentication_still_checks_origin_and_host() {
    let home = home();
    let serving = TestServer::start(&home, &["--no-auth"]);
    assert_eq!(serving.request_without_token(Method::GET, "/api/runs", &[], "").status, 200);
    serving
        .request_without_token(Method::GET, "/api/runs", &[("origin", "http://evil.example")], "")
        .problem_document(403);
    serving
        .request_without_token(Method::GET, "/api/runs", &[("host", "evil.example")], "")
        .problem_document(421);
    serving
        .request_without_token(Method::GET, "/api/doctor", &[("sec-fetch-site", "cross-site")], "")
        .problem_document(403);
    serving.post("/api/tokens", json!({"scope": "code"})).problem_document(409);
}

#[test]
fn start_requests_beyond_the_rate_and_concurrency_limits_get_429() {
    let home = home().set("ASSIZE_SERVE_STARTS_PER_MINUTE", "3");
    let serving = TestServer::start(&home, &[]);
    for _ in 0..3 {
        serving.start_run(fibonacci_body());
    }
    let refused = serving.post("/api/runs", fibonacci_body());
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=20).contains(&wait), "{wait}");
    let problem = refused.problem_document(429);
    assert!(problem["hint"].as_str().unwrap().contains("serve.starts_per_minute"), "{problem}");
    assert_eq!(serving.get("/api/runs").status, 200);
    drop(serving);
    let slow = crate::exec::home()
        .set("ASSIZE_SERVE_MAX_RUNNING", "1")
        .set("ASSIZE_REHEARSAL_LATENCY_MS", "500");
    let serving = TestServer::start(&slow, &[]);
    let run = serving.start_run(super::debate_body());
    serving.post("/api/runs", super::debate_body()).problem_document(429);
    serving.post(&format!("/api/runs/{run}/cancel"), json!({})).success_json();
    serving.wait_for_end(&run);
    serving.start_run(fibonacci_body());
}

#[test]
fn api_requests_cannot_exceed_the_limits_in_the_operators_settings() {
    let home = home()
        .set("ASSIZE_SANDBOX_MEMORY", "128M")
        .set("ASSIZE_BUDGET_MAX_COST", "1")
        .set("ASSIZE_SANDBOX_ISOLATION", "docker");
    let serving = TestServer::start(&home, &[]);
    for (settings, word) in [
        (json!({"memory": "256M"}), "at most 128M"),
        (json!({"max_cost": 2}), "at most 1"),
        (json!({"isolation": "jail"}), "as strong as docker"),
        (json!({"isolation": "auto"}), "as strong as docker"),
    ] {
        let body = json!({"kind": "run", "task": "Calculate fibonacci(10)", "settings": settings});
        let problem = serving.post("/api/runs", body).problem_document(422);
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    let keys = serving.get("/api/doctor?offline=true").success_json();
    assert!(keys["providers"].as_array().is_some_and(|all| all.len() == 6), "{keys}");
}

#[test]
fn api_keys_appear_in_no_response_or_event() {
    let key = "sk-ant-REDACTED";
    let home = home().set("ANTHROPIC_API_KEY", key).set("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    let serving = TestServer::start(&home, &[]);
    let run =
        serving.start_run(json!({"kind": "debate", "document": crate::debate::MOVE, "rounds": 1}));
    let shown = serving.wait_for_end(&run);
    assert_eq!(shown["status"], "failed", "{shown}");
    let mut all = vec![shown.to_string()];
    for path in
        ["/api/doctor?offline=true", "/metrics", "/api/runs", &format!("/api/runs/{run}/export")]
    {
        all.push(serving.get(path).text);
    }
    all.extend(serving.wait_for_events(&run, None).into_iter().map(|event| event.data.to_string()));
    let found: Vec<&String> = all.iter().filter(|text| text.contains(key)).collect();
    assert!(found.is_empty(), "{found:?}");
    let failed: Value = serving.get(&format!("/api/runs/{run}")).success_json();
    assert!(failed["error"].as_str().is_some_and(|error| !error.is_empty()), "{failed}");
}

#[test]
fn tls_server_works_only_with_clients_that_trust_its_certificate() {
    let home = home();
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    home.write("cert.pem", &own.cert.pem());
    home.write("key.pem", &own.signing_key.serialize_pem());
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let mut serving = TestServer::start(&home, &tls);
    assert!(serving.login_link.starts_with("https://127.0.0.1:"), "{}", serving.login_link);
    // Requests fail if the client does not trust the certificate, and over plain HTTP.
    let (untrusted, plain) = (serving.address.clone(), serving.address.replace("https", "http"));
    serving.block_on(async {
        for address in [untrusted, plain] {
            let answer = serving.client.get(format!("{address}/healthz")).send().await;
            assert!(answer.is_err(), "{answer:?}");
        }
    });
    let trusted = reqwest::Certificate::from_pem(own.cert.pem().as_bytes()).unwrap();
    serving.client = super::client().tls_certs_only([trusted]).build().unwrap();
    let run = serving.start_run(fibonacci_body());
    let events = serving.wait_for_events(&run, None);
    assert_eq!(events.last().unwrap().name, "run_ended");
    let path = serving.login_link.strip_prefix(&serving.address).unwrap().to_owned();
    let entered = serving.request_without_token(Method::GET, &path, &[], "");
    assert!(entered.header("set-cookie").contains("; Secure"), "{entered:?}");
    assert!(entered.header("strict-transport-security").contains("max-age"), "{entered:?}");
    let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
    for (origin, status) in [("https", 200), ("http", 403)] {
        let origin = format!("{origin}://127.0.0.1:{}", serving.port());
        let headers = [("cookie", cookie.as_str()), ("origin", origin.as_str())];
        assert_eq!(
            serving.request_without_token(Method::GET, "/api/runs", &headers, "").status,
            status,
            "{origin}"
        );
    }
    assert_eq!(serving.stop(), 0);
}

#[test]
fn server_behind_a_proxy_uses_its_public_host_name() {
    let home = home();
    let serving = TestServer::start(&home, &["--behind-proxy", "--host", "assize.example"]);
    assert!(serving.login_link.starts_with("https://assize.example/"), "{}", serving.login_link);
    let path = serving.login_link.strip_prefix("https://assize.example").unwrap().to_owned();
    let host = ("host", "assize.example");
    serving
        .request_without_token(Method::GET, &path, &[("host", "evil.example")], "")
        .problem_document(421);
    let entered = serving.request_without_token(Method::GET, &path, &[host], "");
    assert!(entered.header("set-cookie").contains("; Secure"), "{entered:?}");
    let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
    for (origin, status) in [
        ("https://assize.example", 201),
        ("https://assize.example:443", 201),
        ("https://assize.example:444", 403),
        ("http://assize.example", 403),
        ("https://evil.example", 403),
    ] {
        let json = ("content-type", "application/json");
        let headers = [("cookie", cookie.as_str()), host, ("origin", origin), json];
        let answer = serving.request_without_token(
            Method::POST,
            "/api/runs",
            &headers,
            fibonacci_body().to_string(),
        );
        assert_eq!(answer.status, status, "{origin}: {answer:?}");
    }
    let with_port = [("cookie", cookie.as_str()), ("host", "assize.example:443")];
    assert_eq!(serving.request_without_token(Method::GET, "/api/runs", &with_port, "").status, 200);
    let headers = [with_port[0], with_port[1], ("origin", "https://assize.example")];
    assert_eq!(serving.request_without_token(Method::GET, "/api/runs", &headers, "").status, 200);
    // The server ignores forwarding headers such as `x-forwarded-host`.
    let token = format!("Bearer {}", serving.token);
    let headers = [
        ("authorization", token.as_str()),
        ("host", "evil.example"),
        ("x-forwarded-host", "assize.example"),
        ("forwarded", "host=assize.example"),
    ];
    serving.request_without_token(Method::GET, "/api/runs", &headers, "").problem_document(421);
}

#[test]
fn server_serves_the_embedded_web_page() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let index = serving.get("/");
    assert_eq!(index.header("content-type"), "text/html; charset=utf-8");
    if index.text.contains("built without the web page") {
        // CI checks separately that the web page is built into the binary.
        return;
    }
    // The server returns the same document for all addresses of the web page, which selects the view itself.
    for place in ["/runs/consult-aaaaaaaa", "/drafts", "/drafts/mine/3", "/system"] {
        assert_eq!(serving.get(place).text, index.text, "{place}");
    }
    let script = index.text.split('"').find(|part| part.ends_with(".js")).unwrap().to_owned();
    let plain = serving.get(&script);
    assert_eq!(plain.header("content-type"), "text/javascript; charset=utf-8");
    assert!(plain.header("cache-control").contains("immutable"), "{:?}", plain.headers);
    let token = format!("Bearer {}", serving.token);
    let takes = [("authorization", token.as_str()), ("accept-encoding", "br, gzip;q=0.5")];
    let packed = serving.request_without_token(Method::GET, &script, &takes, "");
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.text.len() < plain.text.len());
    serving.get("/assets/../Cargo.toml").problem_document(404);
    serving.get("/assets/nothing.js").problem_document(404);
    // For unknown paths, browsers get the web page with status 404, and other clients get a problem document.
    serving.get("/nowhere").problem_document(404);
    let looks = [("authorization", token.as_str()), ("accept", "text/html,*/*")];
    let nowhere = serving.request_without_token(Method::GET, "/nowhere", &looks, "");
    assert_eq!((nowhere.status, &nowhere.text), (404, &index.text));
    serving.request_without_token(Method::GET, "/api/nowhere", &looks, "").problem_document(404);
    // Without a cookie, browsers get a page with instructions, and other clients get a problem document.
    let browser =
        serving.request_without_token(Method::GET, "/", &[("accept", "text/html,*/*")], "");
    assert_eq!((browser.status, browser.text.contains("assize serve")), (401, true), "{browser:?}");
    serving.request_without_token(Method::GET, &script, &[], "").problem_document(401);
}
