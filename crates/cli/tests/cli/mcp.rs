//! The Model Context Protocol over standard input and output, from the built binary: errors, declared capabilities and
//! ids of requests.

use serde_json::{Value, json};

use crate::drafts::{Client, project};
use crate::exec;

/// Tool sets of `assize mcp`, each as its arguments.
const TOOL_SETS: [&[&str]; 2] = [&["--workspace", "."], &["--tools", "code"]];

#[test]
fn unknown_tool_is_an_invalid_params_error() {
    let home = project();
    for (tools, known) in TOOL_SETS.into_iter().zip(["ollama_submit_draft", "run_code"]) {
        let mut client = Client::with(&home, tools);
        let answer = client.answer("tools/call", json!({"name": "rm", "arguments": {}}));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("`rm`") && message.contains(known), "{answer}");
        assert_eq!(client.end().code, 0);
    }
}

#[test]
fn undeclared_methods_are_method_not_found() {
    let home = project();
    let reference = json!({"type": "ref/prompt", "name": "x"});
    let argument = json!({"name": "x", "value": "y"});
    for tools in TOOL_SETS {
        let mut client = Client::with(&home, tools);
        for (method, params) in [
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "x"})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "file:///x"})),
            ("resources/subscribe", json!({"uri": "file:///x"})),
            ("completion/complete", json!({"ref": reference, "argument": argument})),
            ("logging/setLevel", json!({"level": "info"})),
        ] {
            let answer = client.answer(method, params);
            assert_eq!(answer["error"]["code"], -32601, "{tools:?} {method}: {answer}");
        }
        assert_eq!(client.answer("ping", json!({}))["result"], json!({}));
        assert_eq!(client.end().code, 0);
    }
}

#[test]
fn submit_draft_alone_declares_itself_destructive() {
    let home = project();
    let mut destructive = Vec::new();
    for tools in TOOL_SETS {
        let mut client = Client::with(&home, tools);
        let listed = client.answer("tools/list", json!({}));
        for tool in listed["result"]["tools"].as_array().unwrap() {
            if tool["annotations"]["destructiveHint"] == true {
                assert_eq!(tool["annotations"]["readOnlyHint"], false, "{tool}");
                destructive.push(tool["name"].clone());
            } else {
                assert_eq!(tool["annotations"]["destructiveHint"], false, "{tool}");
            }
        }
        client.end();
    }
    assert_eq!(destructive, [Value::from("ollama_submit_draft")]);
}

/// A request that runs a Python program.
fn run_code(id: &Value, code: &str) -> String {
    let arguments = json!({"code": code, "timeout_seconds": 2});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": "run_code", "arguments": arguments}})
    .to_string()
}

/// A program that runs until it is stopped.
const ENDLESS: &str = "import signal\nprint('first', flush=True)\nsignal.pause()";

fn assert_refused(answer: &Value, id: &Value) {
    assert_eq!((&answer["id"], &answer["error"]["code"]), (id, &json!(-32600)), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("in flight") && message.contains("id of its own"), "{answer}");
}

#[test]
fn request_id_in_flight_is_an_invalid_request_error() {
    let home = exec::home();
    let mut client = Client::with(&home, &["--tools", "code"]);
    for id in [json!(7), json!("seven")] {
        // It is stopped by its time limit, and in flight until then.
        client.say(&run_code(&id, ENDLESS));
        client.say(&run_code(&id, "print('second')"));
        assert_refused(&client.next(), &id);
        let first = client.next();
        assert_eq!(first["id"], id, "{first}");
        assert_eq!(first["result"]["structuredContent"]["stdout"], "first\n", "{first}");
        assert_eq!(first["result"]["structuredContent"]["timed_out"], true, "{first}");
        // With its response the id is free.
        client.say(&run_code(&id, "print('second')"));
        let second = client.next();
        assert_eq!(second["id"], id, "{second}");
        assert_eq!(second["result"]["structuredContent"]["stdout"], "second\n", "{second}");
    }
    assert_eq!(client.end().code, 0);
}

#[test]
fn request_id_that_was_cancelled_is_an_invalid_request_error() {
    let home = exec::home();
    let mut client = Client::with(&home, &["--tools", "code"]);
    let id = json!(7);
    client.say(&run_code(&id, ENDLESS));
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": id}});
    client.say(&cancelled.to_string());
    client.say(&run_code(&id, "print('second')"));
    assert_refused(&client.next(), &id);
    client.say(&run_code(&json!(8), "print('third')"));
    let third = client.next();
    assert_eq!(third["id"], 8, "{third}");
    assert_eq!(third["result"]["structuredContent"]["stdout"], "third\n", "{third}");
    assert_eq!(client.end().code, 0);
}

#[test]
fn linked_workspace_takes_paths_through_its_link_and_refuses_urls_and_spellings_of_git() {
    let home = project();
    home.write(".git/config", "[core]\n");
    let link = home.folder.path().join("link");
    std::os::unix::fs::symlink(home.work(), &link).unwrap();
    let link = link.display().to_string();
    let mut client = Client::with(&home, &["--workspace", &link]);
    let mut request = |path: &str| {
        client.call("ollama_request_draft", json!({"source_path": path, "task_id": "t"}))
    };
    let real = home.work().canonicalize().unwrap().display().to_string();
    for root in [&link, &real] {
        let draft = request(&format!("{root}/src/watchdog.py")).unwrap();
        assert_eq!(draft["draft_path"], "_handoff/drafts/watchdog.py.t.draft", "{draft}");
    }
    for url in [format!("file://{real}/src/watchdog.py"), "FILE:src/watchdog.py".to_owned()] {
        let refused = request(&url).unwrap_err();
        assert!(refused.contains("is a URL, not a path"), "{url}: {refused}");
    }
    for path in [".git/config", ".git./config", "GIT~1/config", ".git ./config"] {
        let refused = request(path).unwrap_err();
        assert!(refused.contains(&format!("`{path}`")), "{path}: {refused}");
    }
    assert_eq!(client.end().code, 0);
}
