//! Adapter for Anthropic's Messages API.

use std::borrow::Cow;

use assize_llm::{ModelError, ModelRequest, PromptMessage, StopReason, ToolCall, ToolResult};
use assize_types::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Decoder, EncodedRequest, MAX_TOOL_CALLS, OutgoingRequest, ProviderReply, StreamDelta,
    arguments_from_text, arguments_object, breakpoint, described, is_false, native_schema, parse,
    schema, stream_truncated, too_many_calls, with_schema_in_prompt,
};
use crate::error_response;

pub(super) const VERSION: &str = "2023-06-01";

/// Maximum number of cache breakpoints in the blocks of a prompt. Anthropic accepts four breakpoints per request, and
/// one of them is used for the transcript.
const BLOCK_BREAKPOINTS: usize = 3;

#[derive(Serialize)]
struct RequestBody<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(skip_serializing_if = "is_false")]
    stream: bool,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    content: PartContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartContent<'a> {
    Text { text: &'a str },
    ToolUse { id: &'a str, name: &'a str, input: Cow<'a, Value> },
    ToolResult { tool_use_id: &'a str, content: &'a str, is_error: bool },
}

impl<'a> From<PartContent<'a>> for Part<'a> {
    fn from(content: PartContent<'a>) -> Part<'a> {
        Part { content, cache_control: None }
    }
}

pub(super) fn encode(outgoing: OutgoingRequest<'_>) -> Result<EncodedRequest, ModelError> {
    let OutgoingRequest { endpoint, facts, request, options } = outgoing;
    let format = native_schema(request, options)
        .filter(|_| facts.native_schema)
        .and_then(|schema| schema::convert_for_provider(&schema.value, &schema::ANTHROPIC));
    let schema_enforced = format.is_some();
    let request = with_schema_in_prompt(request, schema_enforced);
    let messages = request.prompt.messages();
    let body = RequestBody {
        model: &endpoint.model,
        max_tokens: request.max_tokens,
        // The maximum temperature of Anthropic is 1.
        temperature: options.temperature.then_some(request.temperature.min(1.0)),
        system: system(&request),
        tools: request.tools.iter().map(|tool| described(tool, "input_schema")).collect(),
        messages: turns(&messages),
        output_config: format
            .map(|schema| json!({"format": {"type": "json_schema", "schema": schema}})),
        stream: options.stream,
    };
    EncodedRequest::new(endpoint, "/v1/messages".into(), &body, schema_enforced)
}

fn system(request: &ModelRequest) -> Vec<Part<'_>> {
    let mut parts = texts(request.prompt.blocks.iter().map(|block| &*block.text));
    for part in parts.iter_mut().rev().take(BLOCK_BREAKPOINTS) {
        part.cache_control = Some(breakpoint());
    }
    parts
}

fn turns<'a>(messages: &'a [PromptMessage<'a>]) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    // End of the transcript: index of the turn, and index of the part within that turn.
    let mut end_of_transcript = None;
    for message in messages {
        let (role, content, stable) = match message {
            PromptMessage::User { results, parts, stable } => {
                let result = |result: &&'a ToolResult| {
                    Part::from(PartContent::ToolResult {
                        tool_use_id: &result.call_id,
                        content: &result.content,
                        is_error: result.failed,
                    })
                };
                let mut content: Vec<Part<'_>> = results.iter().map(result).collect();
                content.extend(texts(parts[..*stable].iter().copied()));
                let stable_parts = content.len();
                content.extend(texts(parts[*stable..].iter().copied()));
                ("user", content, stable_parts)
            }
            PromptMessage::Assistant { text, calls } => {
                // Anthropic rejects trailing white space in an assistant turn.
                let mut content = texts([text.trim_end()].into_iter());
                content.extend(calls.iter().map(|call| {
                    let ToolCall { id, name, arguments, .. } = call;
                    Part::from(PartContent::ToolUse {
                        id,
                        name,
                        input: arguments_object(arguments),
                    })
                }));
                let stable_parts = content.len();
                ("assistant", content, stable_parts)
            }
        };
        if content.is_empty() {
            continue;
        }
        if stable > 0 {
            end_of_transcript = Some((turns.len(), stable - 1));
        }
        turns.push(Turn { role, content });
    }
    if let Some((turn, part)) = end_of_transcript {
        turns[turn].content[part].cache_control = Some(breakpoint());
    }
    turns
}

/// Converts texts to text parts. Blank texts are omitted, because Anthropic rejects them.
fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Part<'a>> {
    texts
        .filter(|text| !text.trim().is_empty())
        .map(|text| PartContent::Text { text }.into())
        .collect()
}

#[derive(Deserialize)]
struct Body {
    content: Vec<Content>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Tokens,
    model: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    /// Content that is not part of the answer, such as thinking.
    #[serde(other)]
    Other,
}

/// Token counts. `input_tokens` does not include cached tokens.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct Tokens {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Tokens {
    /// Overwrites these counts with the counts of a later event of the stream. Counts that the event does not contain
    /// stay unchanged.
    fn update(&mut self, later: Tokens) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
    }

    fn usage(self) -> Option<Usage> {
        let cached_input = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write = self.cache_creation_input_tokens.unwrap_or(0);
        Some(Usage {
            input: self.input_tokens?.saturating_add(cached_input).saturating_add(cache_write),
            cached_input,
            cache_write,
            output: self.output_tokens?,
        })
    }
}

fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("tool_use") => StopReason::ToolUse,
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::MaxTokens,
        Some("refusal") => StopReason::Refused,
        _ => StopReason::End,
    }
}

pub(super) fn decode(body: &[u8]) -> Result<ProviderReply, ModelError> {
    let body: Body = parse(body)?;
    let (stop, usage) = (stop(body.stop_reason.as_deref()), body.usage.usage());
    let mut reply = ProviderReply { stop, usage, model: body.model, ..ProviderReply::default() };
    for content in body.content {
        match content {
            Content::Text { text } => reply.text.push_str(&text),
            Content::ToolUse { id, name, input } => {
                reply.tool_calls.push(ToolCall { id, name, arguments: input, signature: None });
            }
            Content::Other => {}
        }
    }
    Ok(reply)
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Content,
    },
    ContentBlockDelta {
        index: u64,
        delta: Piece,
    },
    MessageDelta {
        delta: End,
        #[serde(default)]
        usage: Tokens,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    model: Option<String>,
    #[serde(default)]
    usage: Tokens,
}

#[derive(Deserialize)]
struct End {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece {
    TextDelta {
        text: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    ThinkingDelta,
    #[serde(other)]
    Other,
}

#[derive(Default)]
pub(super) struct AnthropicStream {
    reply: ProviderReply,
    /// Tool calls: index of the content block, the call, and the JSON of its arguments received so far.
    calls: Vec<(u64, ToolCall, String)>,
    tokens: Tokens,
    stop_reason: Option<String>,
    ended: bool,
}

impl Decoder for AnthropicStream {
    fn push(&mut self, data: &str) -> Result<StreamDelta, ModelError> {
        match parse(data.as_bytes())? {
            Event::MessageStart { message } => {
                self.reply.model = message.model;
                self.tokens.update(message.usage);
            }
            Event::ContentBlockStart {
                index,
                content_block: Content::ToolUse { id, name, input },
            } => {
                let call = ToolCall { id, name, arguments: input, signature: None };
                self.calls.push((index, call, String::new()));
                if self.calls.len() > MAX_TOOL_CALLS {
                    return Err(too_many_calls());
                }
            }
            Event::ContentBlockDelta { delta: Piece::TextDelta { text }, .. } => {
                self.reply.text.push_str(&text);
                return Ok(StreamDelta::of(text, false));
            }
            Event::ContentBlockDelta { index, delta: Piece::InputJsonDelta { partial_json } } => {
                if let Some((_, _, json)) = self.calls.iter_mut().find(|(i, ..)| *i == index) {
                    json.push_str(&partial_json);
                }
                return Ok(StreamDelta::Hidden);
            }
            Event::ContentBlockDelta { delta: Piece::ThinkingDelta, .. } => {
                return Ok(StreamDelta::Hidden);
            }
            Event::MessageDelta { delta, usage } => {
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                self.tokens.update(usage);
            }
            Event::MessageStop => self.ended = true,
            Event::Error { error } => return Err(error_response::from_stream(&error)),
            Event::ContentBlockStart { .. } | Event::ContentBlockDelta { .. } | Event::Other => {}
        }
        Ok(StreamDelta::Nothing)
    }

    fn finish(self: Box<Self>) -> Result<ProviderReply, ModelError> {
        if !self.ended {
            return Err(stream_truncated());
        }
        let tool_calls = self.calls.into_iter().map(|(_, mut call, json)| {
            if !json.is_empty() {
                call.arguments = arguments_from_text(&json);
            }
            call
        });
        let stop = stop(self.stop_reason.as_deref());
        let usage = self.tokens.usage();
        Ok(ProviderReply { tool_calls: tool_calls.collect(), stop, usage, ..self.reply })
    }
}
