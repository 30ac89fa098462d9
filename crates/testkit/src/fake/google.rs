//! Fake of Google's Gemini API: checks requests and formats answers.

use serde::Deserialize;
use serde_json::{Value, json};

use super::rules::{ensure, parse_strict};
use super::{CapturedRequest, FakeAnswer, FakeStop, KEY, RequestFault, event, split_in_three};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    system_instruction: Option<Content>,
    contents: Vec<Content>,
    #[serde(default)]
    tools: Vec<Tool>,
    generation_config: Config,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    max_output_tokens: u64,
    temperature: Option<f64>,
    response_mime_type: Option<String>,
    response_json_schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tool {
    function_declarations: Vec<Declaration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Declaration {
    name: String,
    description: String,
    parameters_json_schema: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    role: Option<String>,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Part {
    text: Option<String>,
    function_call: Option<FunctionCall>,
    function_response: Option<FunctionResponse>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionCall {
    name: String,
    args: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionResponse {
    name: String,
    response: Value,
}

/// Schema keywords that the provider does not support.
const UNSUPPORTED: &[&str] =
    &["pattern", "minLength", "maxLength", "const", "oneOf", "$schema", "multipleOf", "default"];

pub(super) fn check(captured: &CapturedRequest) -> Result<(), RequestFault> {
    let verb = captured.path.strip_prefix("/v1beta/models/").and_then(|rest| rest.split_once(':'));
    let verb = verb.map(|(_, verb)| verb);
    ensure(
        matches!(verb, Some("generateContent" | "streamGenerateContent?alt=sse")),
        format!("unknown path {}", captured.path),
    )?;
    ensure(
        captured.header("authorization").is_none(),
        "the request has two kinds of authorization",
    )?;
    if captured.header("x-goog-api-key") != Some(KEY) {
        let message = "API key not valid. Please pass a valid API key.";
        return Err(RequestFault::Refuse(
            400,
            json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}),
        ));
    }
    let body: Body = parse_strict(&captured.body)?;
    let config = &body.generation_config;
    ensure(config.max_output_tokens > 0, "maxOutputTokens is 0")?;
    ensure(
        config.temperature.is_none_or(|t| (0.0..=2.0).contains(&t)),
        "`temperature` is not between 0 and 2",
    )?;
    if let Some(schema) = &config.response_json_schema {
        let json = config.response_mime_type.as_deref() == Some("application/json");
        ensure(json, "a request with a response schema lacks the MIME type application/json")?;
        let text = schema.to_string();
        for keyword in UNSUPPORTED {
            ensure(
                !text.contains(&format!("\"{keyword}\":")),
                format!("unsupported keyword `{keyword}` in the schema"),
            )?;
        }
    }
    if let Some(system) = &body.system_instruction {
        ensure(
            system.role.is_none() && !system.parts.is_empty(),
            "the system instruction has a role or has no parts",
        )?;
    }
    let mut called: Vec<&str> = Vec::new();
    for (index, content) in body.contents.iter().enumerate() {
        let expected = if index % 2 == 0 { "user" } else { "model" };
        let role = content.role.as_deref();
        ensure(
            role == Some(expected),
            format!("entry {index} of `contents` has the wrong role {role:?}"),
        )?;
        ensure(!content.parts.is_empty(), "an entry of `contents` has no parts")?;
        let parts = content.parts.iter();
        let responses = parts.clone().filter_map(|part| part.function_response.as_ref());
        let responses: Vec<&str> = responses.map(|response| &*response.name).collect();
        ensure(
            responses == called,
            "function responses do not match the function calls of the previous entry",
        )?;
        let calls = parts.filter_map(|part| part.function_call.as_ref());
        called = calls.map(|call| &*call.name).collect();
        for part in &content.parts {
            let kinds = [
                part.text.is_some(),
                part.function_call.is_some(),
                part.function_response.is_some(),
            ];
            ensure(
                kinds.iter().filter(|is| **is).count() == 1,
                "a part is not exactly one of text, function call or function response",
            )?;
            if let Some(call) = &part.function_call {
                ensure(
                    call.args.is_object(),
                    "the arguments of a function call are not an object",
                )?;
                let signed = part.thought_signature.is_some();
                ensure(signed, "the thought signature of a function call was not sent back")?;
            }
            if let Some(response) = &part.function_response {
                ensure(response.response.is_object(), "a function response is not an object")?;
            }
        }
    }
    ensure(body.contents.len() % 2 == 1, "the last entry of `contents` is not from the user")?;
    for tool in body.tools.iter().flat_map(|tool| &tool.function_declarations) {
        ensure(
            !tool.name.is_empty() && !tool.description.is_empty(),
            "a tool has no name or no description",
        )?;
        ensure(tool.parameters_json_schema["type"] == "object", "a tool schema is not an object")?;
    }
    Ok(())
}

fn body(parts: Vec<Value>, reason: Option<&str>, answer: &FakeAnswer) -> Value {
    let thoughts = answer.output / 5;
    let mut body = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": answer.input, "cachedContentTokenCount": answer.cached,
            "candidatesTokenCount": answer.output - thoughts, "thoughtsTokenCount": thoughts,
            "totalTokenCount": answer.input + answer.output,
        },
        "modelVersion": "gemini-2.5-flash",
    });
    if let Some(reason) = reason {
        body["candidates"][0]["finishReason"] = json!(reason);
    }
    body
}

/// Response to a blocked prompt, which has no candidates.
fn blocked(answer: &FakeAnswer) -> Value {
    json!({"promptFeedback": {"blockReason": "SAFETY"},
           "usageMetadata": {"promptTokenCount": answer.input, "totalTokenCount": answer.input}})
}

fn call_parts(answer: &FakeAnswer) -> impl Iterator<Item = Value> {
    answer.tool_calls.iter().map(|(name, args)| {
        json!({"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2lnbmVk"})
    })
}

fn finish_reason(answer: &FakeAnswer) -> &'static str {
    if answer.stop == FakeStop::Length { "MAX_TOKENS" } else { "STOP" }
}

pub(super) fn whole(answer: &FakeAnswer) -> Value {
    if answer.stop == FakeStop::Refusal {
        return blocked(answer);
    }
    let mut parts = vec![json!({"text": "let me think", "thought": true})];
    if !answer.text.is_empty() {
        parts.push(json!({"text": answer.text}));
    }
    parts.extend(call_parts(answer));
    body(parts, Some(finish_reason(answer)), answer)
}

pub(super) fn pieces(answer: &FakeAnswer) -> Vec<String> {
    if answer.stop == FakeStop::Refusal {
        return vec![event(&blocked(answer))];
    }
    let part = |part: Value| event(&body(vec![part], None, answer));
    let thought = |words: String| part(json!({"text": words, "thought": true}));
    let mut pieces: Vec<String> =
        split_in_three(&answer.reasoning).into_iter().map(thought).collect();
    pieces.extend(split_in_three(&answer.text).into_iter().map(|text| part(json!({"text": text}))));
    let last = call_parts(answer).collect();
    pieces.push(event(&body(last, Some(finish_reason(answer)), answer)));
    pieces
}
