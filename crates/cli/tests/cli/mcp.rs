//! The Model Context Protocol over standard input and output, from the built binary: errors and declared capabilities.

use serde_json::{Value, json};

use crate::drafts::{Client, project};

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
