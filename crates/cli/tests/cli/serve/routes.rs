//! Tests of the HTTP API: runs, consultations, code execution, sandboxes, system information, MCP.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::{TestServer, consult_body, debate_body, fibonacci_body, home};
use crate::exec::wait_for;

#[test]
fn runs_are_listed_page_by_page() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let runs: Vec<String> = (0..5).map(|_| serving.start_run(fibonacci_body())).collect();
    let other = serving.start_run(debate_body());
    runs.iter().chain([&other]).for_each(|run| drop(serving.wait_for_end(run)));
    let (mut found, mut path) = (Vec::new(), "/api/runs?kind=run&limit=2&status=done".to_owned());
    loop {
        let page = serving.get(&path).success_json();
        let own = page["runs"].as_array().unwrap();
        assert!(own.len() <= 2);
        found.extend(own.iter().map(|run| run["id"].as_str().unwrap().to_owned()));
        match page["next"].as_u64() {
            Some(next) => path = format!("/api/runs?kind=run&limit=2&status=done&before={next}"),
            None => break,
        }
        // Removing a run that was already listed does not change the following pages.
        let last = found.last().unwrap();
        assert_eq!(serving.send(Method::DELETE, &format!("/api/runs/{last}"), None).status, 204);
    }
    found.reverse();
    assert_eq!(found, runs);
    let titled = serving.get("/api/runs?title=BAKERY").success_json();
    assert_eq!(titled["runs"][0]["id"], json!(other), "{titled}");
    assert_eq!(serving.get("/api/runs?status=running").success_json()["runs"], json!([]));
    assert_eq!(serving.get("/api/runs?before=18446744073709551615").status, 200);
    for wrong in ["kind=nothing", "status=nothing", "limit=0", "limit=201", "before=x", "other=1"] {
        serving.get(&format!("/api/runs?{wrong}")).problem_document(400);
    }
}

#[test]
fn run_is_cancelled_resumed_forked_exported_and_removed() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "50");
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(debate_body());
    let path = format!("/api/runs/{run}");
    serving.send(Method::DELETE, &path, None).problem_document(409);
    serving.post(&format!("{path}/resume"), json!({})).problem_document(409);
    let stopped = serving.post(&format!("{path}/cancel"), json!({}));
    assert_eq!(stopped.status, 202);
    let shown = serving.wait_for_end(&run);
    assert_eq!(
        (&shown["status"], &shown["error"]),
        (&json!("cancelled"), &json!("cancelled by a user"))
    );
    serving.post(&format!("{path}/cancel"), json!({})).problem_document(409);
    assert_eq!(serving.post(&format!("{path}/resume"), json!({})).status, 201);
    let shown = serving.wait_for_end(&run);
    assert_eq!(shown["status"], "done", "{shown}");
    serving.post(&format!("{path}/resume"), json!({})).problem_document(409);

    let fork = json!({"at": "round-2", "personas": {"critic": "You are kind."}});
    let fork = serving.post(&format!("{path}/fork"), fork).success_json();
    assert_eq!(fork["parent"], json!(run), "{fork}");
    let fork = fork["id"].as_str().unwrap().to_owned();
    assert_eq!(serving.wait_for_end(&fork)["status"], "done");
    for (body, word) in [
        (json!({"at": "round-9"}), "round 9"),
        (json!({"at": "lunch"}), "lunch"),
        (json!({"personas": {"critic": "x"}}), "at"),
        (json!({"at": "round-1", "personas": {"stranger": "x"}}), "stranger"),
        (json!({"at": "m1/round-1"}), "one move"),
        (json!({"models": {"critic": "x"}}), "models"),
    ] {
        let problem = serving.post(&format!("{path}/fork"), body).problem_document(422);
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    let code = serving.start_run(fibonacci_body());
    serving.wait_for_end(&code);
    serving.post(&format!("/api/runs/{code}/fork"), json!({})).problem_document(422);

    let export = serving.get(&format!("{path}/export"));
    assert_eq!(export.header("content-disposition").split(';').next(), Some("attachment"));
    assert_eq!(export.json()["format"], "assize-run-1");
    assert_eq!(serving.send(Method::DELETE, &format!("/api/runs/{code}"), None).status, 204);
    serving.get(&format!("/api/runs/{code}")).problem_document(404);
}

#[test]
fn requests_with_the_same_idempotency_key_start_one_run() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let token = format!("Bearer {}", serving.token);
    let send = |path: &str, key: &str, body: &Value| {
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ];
        serving.request_without_token(Method::POST, path, &headers, body.to_string())
    };
    let first = send("/api/runs", "one", &fibonacci_body());
    assert_eq!(first.status, 201);
    let id = first.json()["id"].clone();
    let again = send("/api/runs", "one", &fibonacci_body());
    assert_eq!((again.status, &again.json()["id"]), (200, &id));
    assert_eq!(again.header("location"), first.header("location"));
    send("/api/runs", "one", &debate_body()).problem_document(422);
    assert_eq!(send("/api/runs", "two", &fibonacci_body()).status, 201);
    send("/api/runs", "", &fibonacci_body()).problem_document(400);
    // Concurrent requests with the same key start one run, and all get its id.
    let ids: BTreeSet<String> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..6)
            .map(|_| {
                let (address, token) = (serving.address.clone(), token.clone());
                scope.spawn(move || {
                    let runtime = tokio::runtime::Runtime::new().unwrap();
                    runtime.block_on(async {
                        let client = reqwest::Client::builder().no_proxy().build().unwrap();
                        let request = client
                            .post(format!("{address}/api/runs"))
                            .header("authorization", token)
                            .header("content-type", "application/json")
                            .header("idempotency-key", "three")
                            .body(fibonacci_body().to_string());
                        let text = request.send().await.unwrap().text().await.unwrap();
                        let run: Value = serde_json::from_str(&text).unwrap();
                        run["id"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
                    })
                })
            })
            .collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(serving.get("/api/runs").success_json()["runs"].as_array().unwrap().len(), 3);
    // The idempotency key is still valid after the server was killed and restarted.
    serving.kill();
    let serving = TestServer::start(&home, &[]);
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "one"),
    ];
    let again = serving.request_without_token(
        Method::POST,
        "/api/runs",
        &headers,
        fibonacci_body().to_string(),
    );
    assert_eq!((again.status, &again.json()["id"]), (200, &id));
}

#[test]
fn consultation_reads_data_from_uploaded_files_or_an_allowed_root_folder() {
    let home = home();
    home.write("facts/income.csv", "year,revenue\n2025,1234567\n");
    home.write("nothing/x.bin", "\0");
    let serving = TestServer::start(&home, &["--root", "facts=facts", "--root", "nothing=nothing"]);
    let with = |more: Value| {
        let mut body = consult_body();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let sent =
        with(json!({"files": [{"name": "income.csv", "text": "year,revenue\n2025,7654321\n"}]}));
    for (body, figure) in [(sent, "7654321"), (with(json!({"root": "facts"})), "1234567")] {
        let run = serving.start_run(body);
        serving.wait_for_end(&run);
        let raw = serving.get(&format!("/api/runs/{run}/documents/financial_data_raw.md"));
        assert!(raw.text.contains(figure), "{raw:?}");
        // A document can be requested by its file name or by its path, also with an encoded slash.
        let all = serving.get(&format!("/api/runs/{run}/documents")).success_json();
        assert!(all.to_string().contains("\"moves/m1.md\""), "{all}");
        for name in ["m1.md", "moves/m1.md", "moves%2Fm1.md"] {
            assert_eq!(serving.get(&format!("/api/runs/{run}/documents/{name}")).status, 200);
        }
        serving
            .get(&format!("/api/runs/{run}/documents/moves%2F..%2Freport.md"))
            .problem_document(404);
    }
    serving.post("/api/runs", with(json!({"root": "nothing"}))).problem_document(422);
    serving.post("/api/runs", with(json!({"sources": ["files"]}))).problem_document(422);
    let both = with(json!({"root": "facts", "files": [{"name": "a.md", "text": "a"}]}));
    serving.post("/api/runs", both).problem_document(422);
    let twice = json!({"files": [{"name": "a.md", "text": "a"}, {"name": "a.md", "text": "b"}]});
    serving.post("/api/runs", with(twice)).problem_document(422);
    let below = json!({"files": [{"name": "a", "text": "a"}, {"name": "a/b.md", "text": "b"}]});
    let problem = serving.post("/api/runs", with(below)).problem_document(422);
    assert!(problem["detail"].as_str().unwrap().contains("`a/b.md`"), "{problem}");
    // Reading data from a root folder does not create the folder for drafts in the root.
    assert!(!home.work_folder().join("facts/_handoff").exists());
    // The personas that the server returns can be sent back in a request.
    let personas = serving.get("/api/personas");
    assert_eq!(personas.header("content-type"), "text/plain; charset=utf-8");
    let run = serving.start_run(with(json!({"personas": personas.text})));
    assert_eq!(serving.wait_for_end(&run)["status"], "done");
    serving.post("/api/runs", with(json!({"personas": "stranger = 1"}))).problem_document(422);
    let estimate = serving.post("/api/estimates", consult_body()).success_json();
    assert_eq!(
        (&estimate["rehearsal"], &estimate["calls"]),
        (&json!(true), &json!(74)),
        "{estimate}"
    );
    let estimate = serving.post("/api/estimates", debate_body()).success_json();
    assert_eq!(estimate["calls"], 13, "{estimate}");
    serving.post("/api/estimates", fibonacci_body()).problem_document(422);
}

#[test]
fn expensive_consultation_needs_confirmation() {
    let home = home()
        .set("ANTHROPIC_API_KEY", "no-key-at-all")
        .set("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    let serving = TestServer::start(&home, &[]);
    let body = json!({"kind": "consult", "ticker": "NVDA"});
    let problem = serving.post("/api/runs", body).problem_document(402);
    assert!(
        problem["detail"].as_str().unwrap().contains("924 model calls at about $"),
        "{problem}"
    );
    assert_eq!(serving.get("/api/runs").success_json()["runs"], json!([]));
}

#[test]
fn api_executes_code_and_keeps_named_sandboxes_until_the_server_stops() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let ran = serving.post(
        "/api/exec",
        json!({
            "code": "import sys\nprint(sys.stdin.read() + open('in.txt').read(), sys.argv[1])\nopen('out.txt', 'w').write('left')\nsys.exit(3)",
            "stdin": "said ", "arguments": ["more"], "keep_files": true,
            "files": [{"name": "in.txt", "text": "given"}],
        }),
    );
    let ran = ran.success_json();
    assert_eq!(
        (&ran["exit_code"], &ran["stdout"]),
        (&json!(3), &json!("said given more\n")),
        "{ran}"
    );
    assert_eq!(ran["files"], json!([{"name": "out.txt", "base64": "bGVmdA=="}]), "{ran}");
    for (files, word) in [
        (json!([{"name": "a", "text": "1"}, {"name": "a/b", "text": "2"}]), "cannot contain"),
        (json!([{"name": "a", "text": "1"}, {"name": "a", "text": "2"}]), "duplicate file name"),
        (json!([{"name": "a/", "text": "1"}]), "invalid file name"),
        (json!([{"name": "a//b", "text": "1"}]), "invalid file name"),
        (json!([{"name": "../b", "text": "1"}]), "invalid file name"),
        (json!([{"name": "b"}]), "either"),
    ] {
        let run = json!({"kind": "run", "task": "Calculate fibonacci(10)", "files": files});
        for (path, body) in
            [("/api/exec", json!({"code": "1", "files": files})), ("/api/runs", run)]
        {
            let problem = serving.post(path, body).problem_document(422);
            assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
        }
    }
    let image = json!({"kind": "run", "task": "Calculate fibonacci(10)", "image": "debian"});
    serving.post("/api/runs", image).problem_document(422);
    let endless = json!({"code": "while True: pass", "settings": {"timeout_seconds": 0.5}});
    assert_eq!(serving.post("/api/exec", endless).success_json()["timed_out"], true);

    let made = serving
        .post("/api/sandboxes", json!({"name": "mine", "labels": {"a": "b"}}))
        .success_json();
    assert_eq!((&made["name"], &made["labels"]), (&json!("mine"), &json!({"a": "b"})), "{made}");
    let file = "/api/sandboxes/mine/files?path=data/x.txt";
    let token = format!("Bearer {}", serving.token);
    let put = serving.request_without_token(
        Method::PUT,
        file,
        &[("authorization", &token)],
        "some bytes",
    );
    assert_eq!(put.status, 204, "{put:?}");
    let ran = json!({"program": ["/bin/cat", "data/x.txt", "-"], "stdin": " and more"});
    let ran = serving.post("/api/sandboxes/mine/exec", ran).success_json();
    assert_eq!(ran["stdout"], "some bytes and more", "{ran}");
    let got = serving.get(file);
    assert_eq!(
        (got.text.as_str(), got.header("content-type")),
        ("some bytes", "text/plain; charset=utf-8")
    );
    serving.get("/api/sandboxes/mine/files?path=nothing").problem_document(404);
    serving.post("/api/sandboxes/mine/exec", json!({"program": []})).problem_document(422);
    for (seconds, status) in [(0.0, 422), (-1.0, 422), (31.0, 409), (1e300, 422), (30.0, 200)] {
        let ran = json!({"program": ["/bin/pwd"], "cwd": "data", "timeout_seconds": seconds});
        let answer = serving.post("/api/sandboxes/mine/exec", ran);
        assert_eq!(answer.status, status, "{seconds}: {answer:?}");
        assert!(status != 200 || answer.json()["stdout"] == "/workspace/data\n", "{answer:?}");
    }
    for (query, count) in [("", 1), ("?labels=a=b", 1), ("?labels=a=c", 0), ("?labels=a=b,c=d", 0)]
    {
        let listed = serving.get(&format!("/api/sandboxes{query}")).success_json();
        assert_eq!(listed["sandboxes"].as_array().unwrap().len(), count, "{query}: {listed}");
    }
    serving.get("/api/sandboxes?labels=a").problem_document(400);
    assert_eq!(serving.get("/api/sandboxes/mine").success_json()["name"], "mine");
    serving.get("/api/sandboxes/yours").problem_document(404);
    let again = serving.post("/api/sandboxes", json!({"name": "mine", "labels": {"a": "b"}}));
    assert_eq!(again.status, 200, "{again:?}");
    let folder = serving.get("/api/sandboxes/mine/folder").success_json();
    assert_eq!(folder["entries"][0]["name"], "data", "{folder}");
    let folder = serving.get("/api/sandboxes/mine/folder?path=data").success_json();
    let file_in_it = json!([{"name": "x.txt", "kind": "file", "bytes": 10}]);
    assert_eq!(folder["entries"], file_in_it, "{folder}");
    serving.get("/api/sandboxes/mine/folder?path=nothing").problem_document(404);
    serving.get("/api/sandboxes/mine/folder?path=data/x.txt").problem_document(422);
    let seen = home.run(&["sandbox", "ls", "--json"]).out;
    assert!(seen.contains("\"mine\""), "{seen}");
    assert_eq!(serving.send(Method::DELETE, "/api/sandboxes/mine", None).status, 204);
    serving.send(Method::DELETE, "/api/sandboxes/mine", None).problem_document(404);
    for wrong in [json!({"name": "../x"}), json!({"name": "x", "ttl_seconds": 0})] {
        serving.post("/api/sandboxes", wrong).problem_document(422);
    }
    // The server removes its sandboxes when it stops.
    serving.post("/api/sandboxes", json!({"name": "left"})).success_json();
    assert_eq!(serving.stop(), 0);
    assert_eq!(home.run(&["sandbox", "ls", "--json"]).out.trim(), "[]");
}

#[test]
fn api_serves_metrics_sessions_attack_scorecards_and_system_information() {
    let home = home();
    home.write("mine/x.py", "");
    let serving = TestServer::start(&home, &["--root", "mine=mine"]);
    let run = serving
        .start_run(json!({"kind": "run", "task": "Calculate fibonacci(10)", "session": "kept"}));
    let ended = serving.wait_for_end(&run);
    assert_eq!((&ended["spent"]["calls"], &ended["executed_here"]), (&json!(1), &json!(false)));
    let sessions = serving.get("/api/sessions").success_json();
    assert_eq!(sessions["sessions"][0]["name"], "kept", "{sessions}");
    home.write("../.local/state/assize/sessions/kept/files/notes/a.txt", "kept");
    let file = serving.get("/api/sessions/kept/files?path=notes/a.txt");
    assert_eq!((file.status, file.text.as_str()), (200, "kept"));
    for other in ["kept/files?path=notes", "kept/files?path=../lock", "none/files?path=a"] {
        serving.get(&format!("/api/sessions/{other}")).problem_document(404);
    }
    assert_eq!(serving.send(Method::DELETE, "/api/sessions/kept", None).status, 204);
    serving.send(Method::DELETE, "/api/sessions/kept", None).problem_document(404);
    // Two checks run at once, as after a reload of the web page: the second check waits for the first.
    std::thread::scope(|scope| {
        let check = || serving.get("/api/doctor?offline=true").success_json();
        let checks = [scope.spawn(check), scope.spawn(check)];
        for report in checks.map(|check| check.join().unwrap()) {
            assert_eq!(report["sandboxes"]["used"], "jail", "{report}");
        }
    });
    assert_eq!(serving.get("/api/version").success_json()["name"], "assize");
    let about = serving.get("/api/about").success_json();
    let used = ["provider", "model", "isolation"].map(|name| about[name].clone());
    assert_eq!(used, [json!("rehearsal"), Value::Null, json!("jail")], "{about}");
    assert_eq!(about["rehearsal_tasks"][0], "Calculate fibonacci(10)", "{about}");
    assert_eq!(about["warm_pools"][0]["isolation"], "jail", "{about}");
    assert_eq!(about["run_slots"]["running"], 0, "{about}");
    assert_eq!(about["cluster"], Value::Null);
    let refused = serving.get("/api/cluster").problem_document(404);
    assert!(refused.to_string().contains("--cluster"), "{refused}");
    // `/api/attacks` returns the stored scorecards of attacks. An unreadable file is an error.
    assert_eq!(serving.get("/api/attacks").success_json(), json!({"attacks": []}));
    let file = "../.local/state/assize/attacks.json";
    let group =
        json!({"title": "Files", "blocked": 9, "escaped": 0, "not_applicable": 1, "failed": 0});
    let card = json!({"isolation": "jail", "version": "0", "at": 1, "seconds": 2.5, "groups": [group], "escaped": []});
    home.write(file, &json!({"jail": card}).to_string());
    assert_eq!(serving.get("/api/attacks").success_json(), json!({"attacks": [card]}));
    home.write(file, "{");
    let problem = serving.get("/api/attacks").problem_document(503);
    assert!(problem["hint"].as_str().unwrap().contains("attack again"), "{problem}");
    wait_for("the metrics to count the run", || {
        serving
            .get("/metrics")
            .text
            .contains("assize_runs_ended_total{kind=\"run\",outcome=\"done\"} 1\n")
    });
    let metrics = serving.get("/metrics");
    assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
    for line in [
        "assize_runs_running 0",
        "assize_runs_started_total{kind=\"run\"} 1",
        "assize_model_calls_total 1",
        "assize_model_cost_dollars_total 0",
        "assize_gate_submissions{workspace=\"mine\",stage=\"escalated\"} 0",
        "assize_sandboxes{isolation=\"jail\"} 0",
        "assize_event_subscribers{of=\"runs\"} 0",
    ] {
        assert!(metrics.text.lines().any(|known| known == line), "{line}: {}", metrics.text);
    }
    for counted in [
        "assize_model_tokens_total{direction=\"input\"} ",
        "assize_model_tokens_total{direction=\"output\"} ",
    ] {
        let more = metrics.text.lines().filter_map(|line| line.strip_prefix(counted));
        let more = more.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
        assert!(more.sum::<f64>() > 0.0, "{counted}: {}", metrics.text);
    }
    let document = serving.get("/api/openapi.json").success_json();
    assert_eq!(document["openapi"].as_str().unwrap().split('.').next(), Some("3"));
    assert!(document["paths"].as_object().unwrap().len() > 30, "{document}");
}

#[test]
fn mcp_endpoints_accept_only_tokens_of_their_scope() {
    let home = crate::drafts::home_with_project().set("PATH", super::PATH);
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    let scoped = |scope: &str| {
        let made = serving.post("/api/tokens", json!({"scope": scope})).success_json();
        (made["token"].as_str().unwrap().to_owned(), made["path"].as_str().unwrap().to_owned())
    };
    let ((drafts, drafts_at), (code, code_at)) = (scoped("drafts/mine"), scoped("code"));
    serving.post("/api/tokens", json!({"scope": "everything"})).problem_document(422);
    serving.post("/api/tokens", json!({"scope": "drafts/yours"})).problem_document(404);
    let call = |path: &str, token: &str, body: Value| {
        let token = format!("Bearer {token}");
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        serving.request_without_token(Method::POST, path, &headers, body.to_string())
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}});
    for (path, good, others) in
        [(&drafts_at, &drafts, [&code, &drafts]), (&code_at, &code, [&drafts, &code])]
    {
        let answer = call(path, good, hello.clone());
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.text.contains("\"assize\""), "{answer:?}");
        call(path, others[0], hello.clone()).problem_document(401);
        // A request without a session is refused with a problem document.
        let listing = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert!((400..500).contains(&call(path, good, listing.clone()).status));
        let refused = call(path, good, listing);
        let status = refused.status;
        refused.problem_document(status);
        let mut long = hello.clone();
        long["params"]["clientInfo"]["name"] = json!("x".repeat(100_000));
        call(path, good, long).problem_document(413);
        // A scoped token gives no access to other parts of the API.
        let token = format!("Bearer {}", others[1]);
        for other_path in ["/api/runs", "/api/workspaces/mine/submissions", "/metrics"] {
            serving
                .request_without_token(Method::GET, other_path, &[("authorization", &token)], "")
                .problem_document(401);
        }
    }
}

#[test]
fn api_response_types_and_accepted_request_values_match_the_openapi_description() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let order = serving.get("/api/doctor?offline=true").success_json()["order"].clone();
    assert!(
        order.as_array().is_some_and(|steps| steps.len() > 2 && steps[0] == "--provider"),
        "{order}"
    );
    // A number such as `3500.0` counts as a whole number.
    let made = serving
        .post("/api/sandboxes", json!({"name": "whole", "ttl_seconds": 3500.0}))
        .success_json();
    assert_eq!(
        made["expires"].as_u64().unwrap() - made["created"].as_u64().unwrap(),
        3500,
        "{made}"
    );
    for wrong in [json!(3500.5), json!(-1.0), json!(1e30)] {
        serving
            .post("/api/sandboxes", json!({"name": "part", "ttl_seconds": wrong}))
            .problem_document(422);
    }
    let twice = r#"{"name": "a", "name": "b"}"#;
    let token = format!("Bearer {}", serving.token);
    let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
    serving
        .request_without_token(Method::POST, "/api/sandboxes", &headers, twice)
        .problem_document(422);
}
