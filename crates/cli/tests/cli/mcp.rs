//! Tests of `assize mcp` over standard input and output: errors, declared capabilities and request ids.

use serde_json::{Value, json};

use crate::drafts::{StdioMcpClient, home_with_project};
use crate::exec;

/// Arguments of `assize mcp` for its two tool sets: the draft tools and the code tools.
const TOOL_SETS: [&[&str]; 2] = [&["--workspace", "."], &["--tools", "code"]];

#[test]
fn mcp_call_of_an_unknown_tool_returns_invalid_params() {
    let home = home_with_project();
    for (tools, known) in TOOL_SETS.into_iter().zip(["ollama_submit_draft", "run_code"]) {
        let mut client = StdioMcpClient::start_with_args(&home, tools);
        let answer = client.send_request("tools/call", json!({"name": "rm", "arguments": {}}));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("`rm`") && message.contains(known), "{answer}");
        assert_eq!(client.close().code, 0);
    }
}

#[test]
fn mcp_methods_of_undeclared_capabilities_return_method_not_found() {
    let home = home_with_project();
    let reference = json!({"type": "ref/prompt", "name": "x"});
    let argument = json!({"name": "x", "value": "y"});
    for tools in TOOL_SETS {
        let mut client = StdioMcpClient::start_with_args(&home, tools);
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
            let answer = client.send_request(method, params);
            assert_eq!(answer["error"]["code"], -32601, "{tools:?} {method}: {answer}");
        }
        assert_eq!(client.send_request("ping", json!({}))["result"], json!({}));
        assert_eq!(client.close().code, 0);
    }
}

#[test]
fn only_the_mcp_tool_submit_draft_is_annotated_as_destructive() {
    let home = home_with_project();
    let mut destructive = Vec::new();
    for tools in TOOL_SETS {
        let mut client = StdioMcpClient::start_with_args(&home, tools);
        let listed = client.send_request("tools/list", json!({}));
        for tool in listed["result"]["tools"].as_array().unwrap() {
            if tool["annotations"]["destructiveHint"] == true {
                assert_eq!(tool["annotations"]["readOnlyHint"], false, "{tool}");
                destructive.push(tool["name"].clone());
            } else {
                assert_eq!(tool["annotations"]["destructiveHint"], false, "{tool}");
            }
        }
        client.close();
    }
    assert_eq!(destructive, [Value::from("ollama_submit_draft")]);
}

/// JSON-RPC request that runs a Python program, with a time limit of 2 s.
fn run_code(id: &Value, code: &str) -> String {
    let arguments = json!({"code": code, "timeout_seconds": 2});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": "run_code", "arguments": arguments}})
    .to_string()
}

/// Python program that prints a line and then runs until it is killed.
const ENDLESS: &str = "import signal\nprint('first', flush=True)\nsignal.pause()";

/// Asserts that the server refused a request because another request with the same id is in flight.
fn assert_refused(answer: &Value, id: &Value) {
    assert_eq!((&answer["id"], &answer["error"]["code"]), (id, &json!(-32600)), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("in flight") && message.contains("a unique id"), "{answer}");
}

#[test]
fn mcp_request_with_the_id_of_a_request_in_flight_is_refused() {
    let home = exec::home();
    let mut client = StdioMcpClient::start_with_args(&home, &["--tools", "code"]);
    for id in [json!(7), json!("seven")] {
        // The program runs, and the request is in flight, until the time limit of 2 s.
        client.send_line(&run_code(&id, ENDLESS));
        client.send_line(&run_code(&id, "print('second')"));
        assert_refused(&client.next_message(), &id);
        let first = client.next_message();
        assert_eq!(first["id"], id, "{first}");
        assert_eq!(first["result"]["structuredContent"]["stdout"], "first\n", "{first}");
        assert_eq!(first["result"]["structuredContent"]["timed_out"], true, "{first}");
        // After the response, the id can be used again.
        client.send_line(&run_code(&id, "print('second')"));
        let second = client.next_message();
        assert_eq!(second["id"], id, "{second}");
        assert_eq!(second["result"]["structuredContent"]["stdout"], "second\n", "{second}");
    }
    assert_eq!(client.close().code, 0);
}

#[test]
fn mcp_request_with_the_id_of_a_cancelled_request_is_refused() {
    let home = exec::home();
    let mut client = StdioMcpClient::start_with_args(&home, &["--tools", "code"]);
    let id = json!(7);
    client.send_line(&run_code(&id, ENDLESS));
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": id}});
    client.send_line(&cancelled.to_string());
    client.send_line(&run_code(&id, "print('second')"));
    assert_refused(&client.next_message(), &id);
    client.send_line(&run_code(&json!(8), "print('third')"));
    let third = client.next_message();
    assert_eq!(third["id"], 8, "{third}");
    assert_eq!(third["result"]["structuredContent"]["stdout"], "third\n", "{third}");
    assert_eq!(client.close().code, 0);
}

#[test]
fn draft_request_in_a_symlinked_workspace_accepts_paths_and_refuses_urls_and_git_files() {
    let home = home_with_project();
    home.write(".git/config", "[core]\n");
    let link = home.folder.path().join("link");
    std::os::unix::fs::symlink(home.work_folder(), &link).unwrap();
    let link = link.display().to_string();
    let mut client = StdioMcpClient::start_with_args(&home, &["--workspace", &link]);
    let mut request = |path: &str| {
        client.call("ollama_request_draft", json!({"source_path": path, "task_id": "t"}))
    };
    let real = home.work_folder().canonicalize().unwrap().display().to_string();
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
    assert_eq!(client.close().code, 0);
}
