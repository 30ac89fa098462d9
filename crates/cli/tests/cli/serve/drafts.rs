//! Tests of drafts over the HTTP API: work runs, reviews, the audit log, open drafts.

use serde_json::{Value, json};

use super::{PATH, TestServer, event_names};
use crate::Home;
use crate::drafts::{WATCHDOG, home_with_project};

/// Starts a work run and returns its id.
fn begin(serving: &TestServer<'_>) -> String {
    serving.start_run(
        json!({"kind": "work", "workspace": "mine", "task": "Add --version flag to watchdog.py"}),
    )
}

/// Submissions of the workspace `mine` that wait for a review.
fn waiting(serving: &TestServer<'_>) -> Vec<Value> {
    let listed = serving.get("/api/workspaces/mine/submissions").success_json();
    listed["submissions"].as_array().unwrap().clone()
}

#[test]
fn work_run_streams_its_events_and_its_change_can_be_undone() {
    let home = home_with_project().set("PATH", PATH);
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    let run = begin(&serving);
    let events = serving.wait_for_events(&run, None);
    for name in ["tool_called", "DRAFT_READY", "DRAFT_ACCEPTED", "work_finished", "run_ended"] {
        assert!(event_names(&events).contains(&name), "{name}: {events:?}");
    }
    let shown = serving.get(&format!("/api/runs/{run}")).success_json();
    assert_eq!(shown["result"]["outcome"], "accepted", "{shown}");
    assert_ne!(home.file_text("src/watchdog.py"), WATCHDOG);
    let settled = serving.get("/api/workspaces/mine/submissions?all=true").success_json();
    let accepted =
        settled["submissions"].as_array().unwrap().iter().find(|one| one["stage"] == "accepted");
    let id = accepted.unwrap_or_else(|| panic!("{settled}"))["id"].as_u64().unwrap();
    let one = serving.get(&format!("/api/workspaces/mine/submissions/msg_{id}")).success_json();
    assert!(one["diffs"][0]["diff"].as_str().unwrap().contains("+++"), "{one}");
    serving.block_on(async {
        let mut stream = serving.open_event_stream("/api/workspaces/mine/events", None).await;
        assert_eq!(stream.next().await.unwrap().name, "snapshot");
        let undo = format!("/api/workspaces/mine/submissions/{id}/undo");
        let request = serving.client.post(format!("{}{undo}", serving.address));
        let undone = request.bearer_auth(&serving.token).send().await.unwrap();
        let undone: Value = serde_json::from_str(&undone.text().await.unwrap()).unwrap();
        assert_eq!(undone["stage"], "undone");
        while stream.next().await.unwrap().name != "DRAFT_UNDONE" {}
    });
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
    serving
        .post(&format!("/api/workspaces/mine/submissions/{id}/undo"), json!({}))
        .problem_document(409);
    let whole = serving.get("/api/workspaces/mine/audit/verify").success_json();
    assert_eq!((&whole["intact"], &whole["problems"]), (&json!(true), &json!([])));
}

#[test]
fn reviewer_accepts_and_rejects_submissions_and_reads_the_audit_log() {
    let home = home_with_project().set("PATH", PATH).set("ASSIZE_DRAFT_REVIEW", "always");
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    serving.block_on(async {
        let mut stream = serving.open_event_stream("/api/workspaces/mine/events", None).await;
        assert_eq!(stream.next().await.unwrap().name, "snapshot");
        tokio::task::block_in_place(|| escalate_a_draft(&home));
        let mut received = Vec::new();
        while !received.iter().any(|name| name == "DRAFT_ESCALATED") {
            received.push(stream.next().await.unwrap().name);
        }
        assert!(received.contains(&"DRAFT_READY".to_owned()), "{received:?}");
    });
    let escalated = waiting(&serving);
    assert_eq!(escalated.len(), 1, "{escalated:?}");
    let id = escalated[0]["id"].as_u64().unwrap();
    let at = format!("/api/workspaces/mine/submissions/{id}");
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
    // The file has changed since the draft was requested, so accepting needs `force`.
    home.write("src/watchdog.py", &format!("# mine\n{WATCHDOG}"));
    let problem = serving.post(&format!("{at}/accept"), json!({})).problem_document(409);
    assert!(problem["hint"].as_str().unwrap().contains("force"), "{problem}");
    let shown = serving.get(&at).success_json();
    assert!(shown["diffs"][0]["changed_meanwhile"].as_str().unwrap().contains("# mine"), "{shown}");
    let accepted = serving.post(&format!("{at}/accept"), json!({"force": true})).success_json();
    assert_eq!(accepted["stage"], "accepted");
    assert!(!home.file_text("src/watchdog.py").contains("# mine"));
    serving.post(&format!("{at}/accept"), json!({})).problem_document(409);
    serving.post(&format!("{at}/reject"), json!({"reason": "late"})).problem_document(409);
    serving.post("/api/workspaces/mine/submissions/999/accept", json!({})).problem_document(404);

    escalate_a_draft(&home);
    let id = waiting(&serving)[0]["id"].as_u64().unwrap();
    let at = format!("/api/workspaces/mine/submissions/{id}");
    let rejected =
        serving.post(&format!("{at}/reject"), json!({"reason": "not like this"})).success_json();
    assert_eq!(rejected["stage"], "rejected", "{rejected}");
    assert!(rejected.to_string().contains("not like this"), "{rejected}");

    let log = serving.get("/api/workspaces/mine/audit?limit=2").success_json();
    assert_eq!(log["entries"].as_array().unwrap().len(), 2, "{log}");
    let next = format!("/api/workspaces/mine/audit?after={}", log["next"]);
    assert!(serving.get(&next).success_json()["entries"].as_array().unwrap().len() > 2);
    let about = |query: &str| {
        let log = serving.get(&format!("/api/workspaces/mine/audit?{query}")).success_json();
        log["entries"].as_array().unwrap().clone()
    };
    let task = accepted["task"].as_str().unwrap();
    let own = about(&format!("task={task}"));
    assert!(own.iter().any(|entry| entry["action"] == "applied"), "{own:?}");
    assert!(own.len() < about("").len(), "{own:?}");
    assert_eq!(about("refused=true"), Vec::<Value>::new());
    let whole = serving.get("/api/workspaces/mine/audit/verify").success_json();
    let verified =
        |since: &str| serving.get(&format!("/api/workspaces/mine/audit/verify?since={since}"));
    let head = whole["head"].as_str().unwrap();
    assert_eq!(verified(head).success_json()["intact"], true);
    let (id, hash) = head.split_once(':').unwrap();
    let other = format!("{id}:{}", "0".repeat(hash.len()));
    assert_eq!(verified(&other).success_json()["intact"], false);
    verified("yesterday").problem_document(422);
    let workspaces = serving.get("/api/workspaces").success_json();
    assert_eq!(workspaces["workspaces"][0]["name"], "mine", "{workspaces}");
    let off = serving.send(
        reqwest::Method::PUT,
        "/api/workspaces/mine/tools",
        Some(json!({"on": false})),
    );
    assert_eq!(off.status, 204);
    assert_eq!(serving.get("/api/workspaces").success_json()["workspaces"][0]["tools_on"], false);
    let body =
        json!({"kind": "work", "workspace": "mine", "task": "Add --version flag to watchdog.py"});
    serving.post("/api/runs", body).problem_document(422);
    assert!(serving.post("/api/workspaces/mine/clean", json!({})).success_json().is_object());
}

/// Runs `assize work` in a separate process, not in the server. The gate escalates the draft of this work run.
fn escalate_a_draft(home: &Home) {
    let ran = home.run(&["work", "Add --version flag to watchdog.py"]);
    assert_eq!(ran.code, 6, "{}", ran.err);
}

#[test]
fn open_drafts_are_listed_and_shown() {
    let home = home_with_project().set("PATH", PATH);
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    let token = serving.post("/api/tokens", json!({"scope": "drafts/mine"})).success_json();
    let token = format!("Bearer {}", token["token"].as_str().unwrap());
    let session = std::cell::RefCell::new(String::new());
    let call = |method: &str, params: Value| {
        let session = session.borrow().clone();
        let mut headers = vec![
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        if !session.is_empty() {
            headers.push(("mcp-session-id", session.as_str()));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        serving.request_without_token(
            reqwest::Method::POST,
            "/mcp/drafts/mine",
            &headers,
            body.to_string(),
        )
    };
    let hello = call(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "tester", "version": "1"}}),
    );
    *session.borrow_mut() = hello.header("mcp-session-id").to_owned();
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", &*session.borrow().clone()),
    ];
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    serving.request_without_token(
        reqwest::Method::POST,
        "/mcp/drafts/mine",
        &headers,
        ready.to_string(),
    );
    let answer = call(
        "tools/call",
        json!({"name": "ollama_request_draft",
        "arguments": {"source_path": "src/watchdog.py", "task_id": "t1"}}),
    );
    assert!(answer.text.contains("watchdog.py.t1.draft"), "{answer:?}");
    let open = serving.get("/api/workspaces/mine/drafts").success_json();
    assert_eq!(open["drafts"][0]["path"], "src/watchdog.py", "{open}");
    let name = open["drafts"][0]["name"].as_str().unwrap();
    let one = serving.get(&format!("/api/workspaces/mine/drafts/{name}")).success_json();
    assert_eq!((&one["content"], &one["diff"]), (&json!(WATCHDOG), &json!("")), "{one}");
    serving.get("/api/workspaces/mine/drafts/none.draft").problem_document(404);
}

#[test]
fn work_request_can_make_the_gate_stricter_but_not_looser() {
    let home = home_with_project().set("PATH", PATH);
    let work = |more: Value| {
        let mut body = json!({"kind": "work", "workspace": "mine", "task": "Add --version flag to watchdog.py"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    let run = serving.start_run(work(json!({"review": "always"})));
    assert_eq!(serving.wait_for_end(&run)["result"]["outcome"], "escalated");
    let id = waiting(&serving)[0]["id"].as_u64().unwrap();
    serving
        .post(&format!("/api/workspaces/mine/submissions/{id}/reject"), json!({}))
        .success_json();
    let run = serving.start_run(work(json!({"verify": "false", "max_rejections": 1})));
    let ended = serving.wait_for_end(&run);
    assert_eq!(ended["result"]["outcome"], "rejected", "{ended}");
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
    serving.post("/api/runs", work(json!({"review": "sometimes"}))).problem_document(422);
    drop(serving);
    let home = home.set("ASSIZE_DRAFT_REVIEW", "escalated").set("ASSIZE_DRAFT_VERIFY", "true");
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    for looser in [json!({"review": "never"}), json!({"verify": "echo fine"})] {
        let problem = serving.post("/api/runs", work(looser)).problem_document(422);
        assert!(problem["hint"].as_str().unwrap().contains("operator"), "{problem}");
    }
    let run = serving.start_run(work(json!({"review": "always"})));
    assert_eq!(serving.wait_for_end(&run)["result"]["outcome"], "escalated");
    drop(serving);
    // With the review policy `never`, the gate rejects doubtful drafts. A reviewer could accept them, so the policy
    // `always` would be looser.
    let home = home.set("ASSIZE_DRAFT_REVIEW", "never");
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    serving.post("/api/runs", work(json!({"review": "always"}))).problem_document(422);
}
