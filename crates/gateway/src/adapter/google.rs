//! Adapter for Google's Gemini API.

use assize_llm::{ModelError, PromptMessage, StopReason, ToolCall};
use assize_types::Usage;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Decoder, EncodedRequest, OutgoingRequest, ProviderReply, StreamDelta, arguments_object,
    described, malformed, native_schema, parse, schema, stream_truncated, with_schema_in_prompt,
};
use crate::error_response;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    generation_config: Config,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<Value>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: Vec<RequestPart<'a>>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    parts: Vec<RequestPart<'a>>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum RequestPart<'a> {
    Text {
        text: &'a str,
    },
    Call {
        function_call: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    Result {
        function_response: Value,
    },
}

pub(super) fn encode(outgoing: OutgoingRequest<'_>) -> Result<EncodedRequest, ModelError> {
    let OutgoingRequest { endpoint, facts, request, options } = outgoing;
    let format = native_schema(request, options)
        .filter(|_| facts.native_schema)
        .and_then(|schema| schema::convert_for_provider(&schema.value, &schema::GOOGLE));
    let schema_enforced = format.is_some();
    let request = with_schema_in_prompt(request, schema_enforced);
    let messages = request.prompt.messages();
    let blocks = request.prompt.blocks.iter().filter(|block| !block.text.is_empty());
    let system: Vec<RequestPart<'_>> =
        blocks.map(|block| RequestPart::Text { text: &block.text }).collect();
    let declarations = request.tools.iter().map(|tool| described(tool, "parametersJsonSchema"));
    let declarations: Vec<Value> = declarations.collect();
    let body = RequestBody {
        system_instruction: (!system.is_empty()).then_some(Instruction { parts: system }),
        contents: messages.iter().map(turn).collect(),
        tools: match declarations.is_empty() {
            true => vec![],
            false => vec![json!({"functionDeclarations": declarations})],
        },
        generation_config: Config {
            max_output_tokens: request.max_tokens,
            temperature: options.temperature.then_some(request.temperature),
            response_mime_type: schema_enforced.then_some("application/json"),
            response_json_schema: format,
        },
    };
    let verb = if options.stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    let path = format!("/models/{}:{verb}", path_segment(&endpoint.model));
    EncodedRequest::new(endpoint, path, &body, schema_enforced)
}

/// Escapes a model name as one path segment, so that the name cannot change the path of the URL.
fn path_segment(name: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');
    const WITHOUT_DOTS: &AsciiSet = &ESCAPED.remove(b'.');
    let dots = name.bytes().all(|byte| byte == b'.');
    utf8_percent_encode(name, if dots { ESCAPED } else { WITHOUT_DOTS }).to_string()
}

fn turn<'a>(message: &'a PromptMessage<'a>) -> Turn<'a> {
    match message {
        PromptMessage::User { results, parts, .. } => {
            let results = results.iter().map(|result| {
                let key = if result.failed { "error" } else { "output" };
                let response = json!({"name": result.name, "response": {key: result.content}});
                RequestPart::Result { function_response: response }
            });
            let texts = parts.iter().map(|text| RequestPart::Text { text });
            Turn { role: "user", parts: results.chain(texts).collect() }
        }
        PromptMessage::Assistant { text, calls } => {
            let text = (!text.is_empty()).then_some(RequestPart::Text { text });
            let calls = calls.iter().map(|call| RequestPart::Call {
                function_call: json!({"name": call.name, "args": arguments_object(&call.arguments)}),
                thought_signature: call.signature.as_deref(),
            });
            Turn { role: "model", parts: text.into_iter().chain(calls).collect() }
        }
    }
}

/// A complete response, or one event of a streamed response.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Tokens>,
    model_version: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    function_call: Option<FunctionCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

/// Token counts. Thinking tokens are charged as output, but `candidates_token_count` does not include them.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase", default)]
struct Tokens {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: u64,
    cached_content_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
}

impl Tokens {
    fn usage(self) -> Option<Usage> {
        let input = self.prompt_token_count?.saturating_add(self.tool_use_prompt_token_count);
        Some(Usage {
            input,
            cached_input: self.cached_content_token_count.min(input),
            cache_write: 0,
            output: self.candidates_token_count.saturating_add(self.thoughts_token_count),
        })
    }
}

pub(super) fn decode(body: &[u8]) -> Result<ProviderReply, ModelError> {
    let mut stream = Box::<GoogleStream>::default();
    stream.add(parse(body)?)?;
    stream.finish()
}

#[derive(Default)]
pub(super) struct GoogleStream {
    reply: ProviderReply,
    tokens: Option<Tokens>,
    finish_reason: Option<String>,
    blocked: bool,
}

impl GoogleStream {
    fn add(&mut self, body: Body) -> Result<StreamDelta, ModelError> {
        if let Some(error) = body.error {
            return Err(error_response::from_stream(&error));
        }
        self.blocked |=
            body.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some());
        self.reply.model = body.model_version.or(self.reply.model.take());
        self.tokens = body.usage_metadata.or(self.tokens);
        let Some(candidate) = body.candidates.into_iter().next() else {
            return Ok(StreamDelta::Nothing);
        };
        self.finish_reason = candidate.finish_reason.or(self.finish_reason.take());
        let (mut added, mut hidden) = (String::new(), false);
        for part in candidate.content.map(|content| content.parts).unwrap_or_default() {
            hidden |= part.thought || part.function_call.is_some();
            if let Some(call) = part.function_call {
                let calls = &mut self.reply.tool_calls;
                let id = call.id.unwrap_or_else(|| format!("call_{}", calls.len()));
                let signature = part.thought_signature;
                calls.push(ToolCall { id, name: call.name, arguments: call.args, signature });
            } else if let (Some(text), false) = (part.text, part.thought) {
                added.push_str(&text);
            }
        }
        self.reply.text.push_str(&added);
        Ok(StreamDelta::of(added, hidden))
    }
}

impl Decoder for GoogleStream {
    fn push(&mut self, data: &str) -> Result<StreamDelta, ModelError> {
        self.add(parse(data.as_bytes())?)
    }

    fn finish(self: Box<Self>) -> Result<ProviderReply, ModelError> {
        let stop = match self.finish_reason.as_deref() {
            _ if self.blocked => StopReason::Refused,
            None => return Err(stream_truncated()),
            Some("STOP") if !self.reply.tool_calls.is_empty() => StopReason::ToolUse,
            Some("STOP") => StopReason::End,
            Some("MAX_TOKENS") => StopReason::MaxTokens,
            Some(
                "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
                | "IMAGE_SAFETY",
            ) => StopReason::Refused,
            Some(_) => return Err(malformed("the model stopped before its answer was complete")),
        };
        Ok(ProviderReply { stop, usage: self.tokens.and_then(Tokens::usage), ..self.reply })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn google_model_name_is_escaped_as_one_path_segment() {
        assert_eq!(path_segment("gemini-2.5-flash"), "gemini-2.5-flash");
        assert_eq!(path_segment("../../x?y="), "..%2F..%2Fx%3Fy%3D");
        assert_eq!(path_segment(".."), "%2E%2E");
    }
}
