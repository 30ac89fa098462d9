//! Fake of Ollama's chat endpoint: checks requests and formats answers.

use serde::Deserialize;
use serde_json::{Value, json};

use super::rules::{ensure, parse_strict};
use super::{CapturedRequest, FakeAnswer, FakeStop, RequestFault, split_in_three};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    model: String,
    messages: Vec<Message>,
    #[serde(rename = "stream")]
    _stream: bool,
    options: Options,
    format: Option<Value>,
    #[serde(default)]
    tools: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    num_ctx: u64,
    num_predict: u64,
    temperature: Option<f64>,
}

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
enum Message {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        content: String,
        #[serde(default)]
        tool_calls: Vec<Call>,
    },
    Tool {
        content: String,
        tool_name: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    function: Function,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    arguments: Value,
}

/// Path at which Ollama describes a model.
pub(super) const SHOW: &str = "/api/show";

/// Checks a request for the description of a model.
pub(super) fn check_show(method: &str, body: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Show {
        model: String,
    }
    let show: Show = serde_json::from_slice(body).map_err(|error| format!("{SHOW}: {error}"))?;
    ensure(
        method == "POST" && !show.model.is_empty(),
        format!("{method} {SHOW}: expected POST with a model name"),
    )
}

pub(super) fn check(captured: &CapturedRequest) -> Result<(), RequestFault> {
    ensure(captured.path == "/api/chat", format!("unknown path {}", captured.path))?;
    let body: Body = parse_strict(&captured.body)?;
    if body.model == "missing" {
        return Err(RequestFault::Refuse(404, json!({"error": "model 'missing' not found"})));
    }
    // The real Ollama server silently truncates a prompt that is larger than its context window.
    let bytes: usize = body
        .messages
        .iter()
        .map(|message| match message {
            Message::System { content } | Message::User { content } => content.len(),
            Message::Assistant { content, .. } | Message::Tool { content, .. } => content.len(),
        })
        .sum();
    let Options { num_ctx, num_predict, temperature } = body.options;
    let needed = bytes as u64 / 4 + num_predict;
    ensure(num_ctx >= needed, format!("num_ctx {num_ctx} is too small for {needed} tokens"))?;
    ensure(num_predict > 0, "num_predict is 0")?;
    ensure(temperature.is_none_or(|t| t >= 0.0), "temperature is negative")?;
    ensure(body.format.as_ref().is_none_or(Value::is_object), "`format` is not a JSON schema")?;
    let mut called: Vec<&str> = Vec::new();
    for message in &body.messages {
        match message {
            Message::Assistant { tool_calls, .. } => {
                let objects = tool_calls.iter().all(|call| call.function.arguments.is_object());
                ensure(objects, "the arguments of a tool call are not an object")?;
                called = tool_calls.iter().map(|call| call.function.name.as_str()).collect();
            }
            Message::Tool { tool_name, .. } => {
                ensure(
                    called.contains(&tool_name.as_str()),
                    "a tool result has no matching tool call",
                )?;
            }
            Message::System { .. } | Message::User { .. } => {}
        }
    }
    let functions = body
        .tools
        .iter()
        .all(|tool| tool["type"] == "function" && tool["function"]["name"].is_string());
    Ok(ensure(functions, "a tool is not a function with a name")?)
}

fn last(answer: &FakeAnswer, content: &str) -> Value {
    let reason = if answer.stop == FakeStop::Length { "length" } else { "stop" };
    let mut message = json!({"role": "assistant", "content": content});
    if !answer.tool_calls.is_empty() {
        let call = |(name, arguments): &(String, Value)| json!({"function": {"name": name, "arguments": arguments}});
        message["tool_calls"] = answer.tool_calls.iter().map(call).collect();
    }
    json!({"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": true,
           "done_reason": reason, "total_duration": 5, "prompt_eval_count": answer.input, "eval_count": answer.output})
}

pub(super) fn whole(answer: &FakeAnswer) -> Value {
    last(answer, &answer.text)
}

pub(super) fn pieces(answer: &FakeAnswer) -> Vec<String> {
    let line = |key: &str, words: String| {
        let mut message = json!({"role": "assistant", "content": ""});
        message[key] = json!(words);
        json!({"model": "qwen3", "message": message, "done": false}).to_string() + "\n"
    };
    let reasoning =
        split_in_three(&answer.reasoning).into_iter().map(|words| line("thinking", words));
    let text = split_in_three(&answer.text).into_iter().map(|text| line("content", text));
    let mut pieces: Vec<String> = reasoning.chain(text).collect();
    pieces.push(last(answer, "").to_string() + "\n");
    pieces
}
