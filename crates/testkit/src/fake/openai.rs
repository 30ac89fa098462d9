//! Fake of OpenAI's chat completions API and of its variants at Groq and OpenRouter: checks requests and formats
//! answers.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rules::{closed_schema, ensure, expect_header, parse_strict};
use super::{
    CapturedRequest, FakeAnswer, FakeKind, FakeStop, KEY, RequestFault, event, split_in_three,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    model: String,
    messages: Vec<Message>,
    max_completion_tokens: Option<u64>,
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    #[serde(default)]
    tools: Vec<Tool>,
    response_format: Option<Format>,
    stream: Option<bool>,
    stream_options: Option<Value>,
    reasoning_effort: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Format {
    JsonObject,
    JsonSchema { json_schema: NamedSchema },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedSchema {
    name: String,
    schema: Value,
    strict: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    r#type: String,
    function: Function,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    description: String,
    parameters: Value,
}

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
enum Message {
    System { content: Value },
    User { content: Value },
    Assistant { content: Option<String>, tool_calls: Option<Vec<Call>> },
    Tool { tool_call_id: String, content: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: String,
    r#type: String,
    function: Called,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Called {
    name: String,
    arguments: String,
}

pub(super) fn check(kind: FakeKind, captured: &CapturedRequest) -> Result<(), RequestFault> {
    let path = format!("{}/chat/completions", kind.base_path());
    ensure(captured.path == path, format!("unknown path {}", captured.path))?;
    expect_header(captured, "authorization", &format!("Bearer {KEY}"))?;
    ensure(captured.header("x-api-key").is_none(), "the request has two kinds of authorization")?;
    let body: Body = parse_strict(&captured.body)?;
    let (limit, other) = match kind {
        FakeKind::OpenRouter => (body.max_tokens, body.max_completion_tokens),
        _ => (body.max_completion_tokens, body.max_tokens),
    };
    ensure(
        limit > Some(0) && other.is_none(),
        "the output limit is missing or in the wrong field",
    )?;
    if let Some(refusal) = provider_refusal(kind, &body) {
        return Err(RequestFault::Refuse(400, refusal));
    }
    ensure(body.stream != Some(false), "`stream` is false instead of omitted")?;
    let options = body.stream.map(|_| json!({"include_usage": true}));
    ensure(body.stream_options == options, "`stream_options` does not match `stream`")?;
    check_messages(kind, &body)?;
    for Tool { r#type, function: Function { name, description, parameters } } in &body.tools {
        ensure(
            r#type == "function" && parameters["type"] == "object",
            "a tool is not a function with an object schema",
        )?;
        ensure(
            !name.is_empty() && !description.is_empty(),
            "a tool has no name or no description",
        )?;
    }
    match &body.response_format {
        Some(Format::JsonSchema { json_schema }) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            ensure(
                json_schema.strict && json_schema.name.chars().all(plain),
                "a schema is not strict or has an invalid name",
            )?;
            closed_schema(&json_schema.schema, "minLength maxLength default $schema", true)?;
            let served = kind != FakeKind::Groq || body.model.starts_with("openai/gpt-oss");
            ensure(served, "the model does not support json_schema")?;
        }
        Some(Format::JsonObject) => {
            // The real provider rejects JSON mode unless the prompt contains the word JSON.
            let mentioned = captured.body["messages"].to_string().contains("JSON");
            ensure(mentioned, "the request uses JSON mode, but its prompt lacks the word JSON")?;
        }
        None => {}
    }
    Ok(())
}

/// Error body of a request that the real provider would answer with 400.
fn provider_refusal(kind: FakeKind, body: &Body) -> Option<Value> {
    if kind != FakeKind::OpenAi {
        return None;
    }
    let reasons = body.model.starts_with("gpt-5") || body.model.starts_with("gpt-6");
    if reasons && body.temperature.is_some() {
        let message = "Unsupported value: 'temperature' does not support 0.7 with this model.";
        return Some(
            json!({"error": {"message": message, "type": "invalid_request_error", "param": "temperature", "code": "unsupported_value"}}),
        );
    }
    let needs_none = body.model.starts_with("gpt-6") && !body.tools.is_empty();
    if needs_none && body.reasoning_effort.as_deref() != Some("none") {
        let message = "Function tools with reasoning_effort are not supported";
        return Some(
            json!({"error": {"message": message, "param": "reasoning_effort", "code": null}}),
        );
    }
    None
}

fn check_messages(kind: FakeKind, body: &Body) -> Result<(), String> {
    let marks = kind == FakeKind::OpenRouter && body.model.starts_with("anthropic/");
    let mut open_calls: Vec<&str> = Vec::new();
    let mut breakpoints = 0;
    for (index, message) in body.messages.iter().enumerate() {
        match message {
            Message::System { content } | Message::User { content } => {
                ensure(open_calls.is_empty(), "a tool call has no result")?;
                let system = matches!(message, Message::System { .. });
                ensure(!system || index == 0, "a system message is not the first message")?;
                breakpoints += check_content(content, marks)?;
            }
            Message::Assistant { content, tool_calls } => {
                let calls = tool_calls.iter().flatten();
                open_calls = calls.clone().map(|call| call.id.as_str()).collect();
                let empty = content.as_ref().is_none_or(String::is_empty);
                ensure(!empty || !open_calls.is_empty(), "an assistant message is empty")?;
                for Call { r#type, function: Called { name, arguments }, .. } in calls {
                    let read = serde_json::from_str(arguments).unwrap_or_default();
                    parse_strict::<Map<String, Value>>(&read)?;
                    let valid = r#type == "function" && !name.is_empty();
                    ensure(valid, format!("invalid tool call with the arguments {arguments}"))?;
                }
            }
            Message::Tool { tool_call_id, content } => {
                let at = open_calls.iter().position(|id| id == tool_call_id);
                let at = at.ok_or_else(|| {
                    format!("the tool result for `{tool_call_id}` matches no unanswered tool call")
                })?;
                open_calls.remove(at);
                ensure(!content.is_empty(), "a tool result is empty")?;
            }
        }
    }
    ensure(open_calls.is_empty(), "a tool call has no result")?;
    let ends = matches!(body.messages.last(), Some(Message::User { .. } | Message::Tool { .. }));
    ensure(ends, "the last message is not from the user or a tool")?;
    ensure(
        breakpoints <= 4,
        format!("the request has {breakpoints} cache breakpoints; at most 4 are allowed"),
    )
}

fn check_content(content: &Value, marks: bool) -> Result<usize, String> {
    match content {
        Value::String(text) => ensure(
            !text.is_empty() && !marks,
            "the content of a message is an empty text, or a text instead of a list of parts",
        )
        .map(|()| 0),
        Value::Array(parts) => {
            ensure(
                marks && !parts.is_empty(),
                "the content of a message is a list of parts instead of one text",
            )?;
            let texts = parts.iter().all(|part| part["type"] == "text" && part["text"].is_string());
            ensure(texts, "a part of the content of a message is not a text")?;
            let marked = |part: &&Value| part["cache_control"] == json!({"type": "ephemeral"});
            Ok(parts.iter().filter(marked).count())
        }
        _ => Err("the content of a message is neither a text nor a list of parts".to_owned()),
    }
}

fn finish_reason(answer: &FakeAnswer) -> &'static str {
    match answer.stop {
        FakeStop::Done | FakeStop::Refusal => "stop",
        FakeStop::Tools => "tool_calls",
        FakeStop::Length => "length",
    }
}

fn usage(kind: FakeKind, answer: &FakeAnswer) -> Value {
    let mut usage = json!({
        "prompt_tokens": answer.input, "completion_tokens": answer.output,
        "total_tokens": answer.input + answer.output,
        "prompt_tokens_details": {"cached_tokens": answer.cached, "cache_write_tokens": answer.written},
        "completion_tokens_details": {"reasoning_tokens": 0},
    });
    if kind == FakeKind::OpenRouter {
        usage["cost"] = json!(0.00123);
    }
    usage
}

fn calls(answer: &FakeAnswer) -> Vec<Value> {
    let call = |(index, (name, arguments)): (usize, &(String, Value))| {
        json!({"index": index, "id": format!("call_{index}"), "type": "function",
               "function": {"name": name, "arguments": arguments.to_string()}})
    };
    answer.tool_calls.iter().enumerate().map(call).collect()
}

pub(super) fn whole(kind: FakeKind, answer: &FakeAnswer) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text, "refusal": null});
    if answer.stop == FakeStop::Refusal {
        message["content"] = Value::Null;
        message["refusal"] = json!(answer.text);
    }
    if !answer.tool_calls.is_empty() {
        message["content"] = Value::Null;
        message["tool_calls"] = Value::Array(calls(answer));
    }
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "served-model",
           "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(answer)}],
           "usage": usage(kind, answer)})
}

pub(super) fn pieces(kind: FakeKind, answer: &FakeAnswer) -> Vec<String> {
    let chunk = |delta: Value, reason: Option<&str>| {
        event(
            &json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "served-model",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}),
        )
    };
    let mut pieces = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    if kind == FakeKind::OpenRouter {
        pieces.push(": OPENROUTER PROCESSING\n\n".to_owned());
    }
    let key = if kind == FakeKind::OpenAi { "reasoning_content" } else { "reasoning" };
    let reasoning = split_in_three(&answer.reasoning).into_iter();
    pieces.extend(reasoning.map(|words| chunk(json!({key: words}), None)));
    let key = if answer.stop == FakeStop::Refusal { "refusal" } else { "content" };
    pieces.extend(
        split_in_three(&answer.text).into_iter().map(|text| chunk(json!({key: text}), None)),
    );
    for call in calls(answer) {
        let arguments = call["function"]["arguments"].as_str().unwrap().to_owned();
        let mut opening = call.clone();
        opening["function"]["arguments"] = json!("");
        pieces.push(chunk(json!({"tool_calls": [opening]}), None));
        for part in split_in_three(&arguments) {
            let part = json!({"index": call["index"], "function": {"arguments": part}});
            pieces.push(chunk(json!({"tool_calls": [part]}), None));
        }
    }
    pieces.push(chunk(json!({}), Some(finish_reason(answer))));
    let usage = usage(kind, answer);
    let last = match kind {
        FakeKind::Groq => {
            json!({"id": "1", "choices": [], "x_groq": {"id": "req", "usage": usage}})
        }
        _ => json!({"id": "1", "choices": [], "usage": usage}),
    };
    pieces.push(event(&last));
    pieces.push("data: [DONE]\n\n".to_owned());
    pieces
}
