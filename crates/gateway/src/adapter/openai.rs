//! Adapter for OpenAI's chat completions API, which Groq, OpenRouter and many local servers also support.

use std::borrow::Cow;

use assize_config::Provider;
use assize_llm::{ModelError, ModelRequest, PromptMessage, StopReason, ToolCall, ToolResult};
use assize_types::{Money, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Decoder, EncodedRequest, MAX_TOOL_CALLS, OutgoingRequest, ProviderReply, StreamDelta,
    arguments_from_text, arguments_object, breakpoint, function_tools, is_false, malformed,
    native_schema, overflow, parse, schema, stream_truncated, too_many_calls, tool_content,
    with_schema_in_prompt,
};
use crate::error_response;
use crate::estimate::{self, Overflow};
use crate::provider::Endpoint;

#[derive(Serialize)]
struct RequestBody<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "is_false")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
}

/// A message of a request. Ollama uses the same format.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(super) enum ChatMessage<'a> {
    System {
        content: Content<'a>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Value>,
    },
    Tool {
        #[serde(flatten)]
        call: CallName<'a>,
        content: Cow<'a, str>,
    },
}

/// Reference from a tool result to its tool call, by the id of the call or the name of the tool.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallName<'a> {
    ToolCallId(&'a str),
    ToolName(&'a str),
}

/// Content of a message: one text, or several parts if cache breakpoints are marked.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
pub(super) struct Part<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

pub(super) fn encode(outgoing: OutgoingRequest<'_>) -> Result<EncodedRequest, ModelError> {
    let OutgoingRequest { endpoint, facts, request, options } = outgoing;
    let format = native_schema(request, options).and_then(|schema| match endpoint.provider {
        // For this model, Groq guarantees only valid JSON. So the prompt also contains the schema.
        Provider::Groq if !facts.native_schema => Some(json!({"type": "json_object"})),
        _ => schema::convert_for_provider(&schema.value, &schema::OPENAI).map(|fitted| {
            json!({"type": "json_schema",
                   "json_schema": {"name": schema.name, "schema": fitted, "strict": true}})
        }),
    });
    let schema_enforced = facts.native_schema && format.is_some();
    let request = with_schema_in_prompt(request, schema_enforced);
    let max_tokens = match endpoint.context_window {
        Some(window) => estimate::max_answer_tokens(&request, window, Overflow::Rejects)
            .map_err(|too_long| overflow(endpoint, too_long))?,
        None => request.max_tokens,
    };
    let messages = request.prompt.messages();
    let old_limit = endpoint.provider == Provider::OpenRouter;
    let no_reasoning = facts.tools_need_no_reasoning && !request.tools.is_empty();
    let body = RequestBody {
        model: &endpoint.model,
        messages: turns(
            &request,
            &messages,
            needs_cache_breakpoints(endpoint),
            tool_result,
            assistant_call,
        ),
        max_completion_tokens: (!old_limit).then_some(max_tokens),
        max_tokens: old_limit.then_some(max_tokens),
        temperature: options.temperature.then_some(request.temperature),
        tools: function_tools(&request),
        reasoning_effort: no_reasoning.then_some("none"),
        response_format: format,
        stream: options.stream,
        stream_options: options.stream.then(|| json!({"include_usage": true})),
    };
    EncodedRequest::new(endpoint, "/chat/completions".into(), &body, schema_enforced)
}

/// Whether cache breakpoints must be marked. Only Anthropic's models behind OpenRouter need marked breakpoints.
fn needs_cache_breakpoints(endpoint: &Endpoint) -> bool {
    endpoint.provider == Provider::OpenRouter && endpoint.model.starts_with("anthropic/")
}

fn tool_result(result: &ToolResult) -> CallName<'_> {
    CallName::ToolCallId(&result.call_id)
}

fn assistant_call(call: &ToolCall) -> Value {
    let arguments = arguments_object(&call.arguments).to_string();
    json!({"id": call.id, "type": "function",
           "function": {"name": call.name, "arguments": arguments}})
}

/// Converts the messages of a request. Two functions handle what differs between OpenAI and Ollama: `call_name` returns
/// the reference from a tool result to its tool call, and `assistant_call` encodes a tool call.
pub(super) fn turns<'a>(
    request: &'a ModelRequest,
    messages: &'a [PromptMessage<'a>],
    marks_cache: bool,
    call_name: fn(&'a ToolResult) -> CallName<'a>,
    assistant_call: fn(&ToolCall) -> Value,
) -> Vec<ChatMessage<'a>> {
    let mut turns = Vec::new();
    let blocks: Vec<&str> = request.prompt.blocks.iter().map(|block| &*block.text).collect();
    if !blocks.is_empty() {
        turns.push(ChatMessage::System { content: content(&blocks, blocks.len(), marks_cache) });
    }
    for message in messages {
        match message {
            PromptMessage::User { results, parts, stable } => {
                turns.extend(results.iter().map(|result| ChatMessage::Tool {
                    call: call_name(result),
                    content: tool_content(result),
                }));
                if !parts.is_empty() {
                    turns.push(ChatMessage::User { content: content(parts, *stable, marks_cache) });
                }
            }
            PromptMessage::Assistant { text, calls } => {
                let tool_calls = calls.iter().map(|call| assistant_call(call)).collect();
                turns.push(ChatMessage::Assistant { content: text, tool_calls });
            }
        }
    }
    turns
}

/// Joins text parts to one text. If cache breakpoints are marked, returns separate parts instead, with a breakpoint
/// after the first `stable` parts.
fn content<'a>(parts: &[&'a str], stable: usize, marks_cache: bool) -> Content<'a> {
    if !marks_cache {
        return Content::Text(parts.join("\n\n"));
    }
    let part = |(index, text): (usize, &&'a str)| Part {
        r#type: "text",
        text,
        cache_control: (index + 1 == stable).then(breakpoint),
    };
    Content::Parts(parts.iter().enumerate().map(part).collect())
}

#[derive(Deserialize)]
struct Choice {
    #[serde(alias = "delta")]
    message: Option<ReplyMessage>,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct ReplyMessage {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallPart>>,
    /// Reasoning text. llama.cpp, vLLM and DeepSeek use this field name.
    reasoning_content: Option<String>,
    /// Reasoning text. Groq, OpenRouter and later versions of vLLM use this field name.
    reasoning: Option<String>,
}

#[derive(Deserialize)]
struct CallPart {
    #[serde(default)]
    index: u64,
    id: Option<String>,
    #[serde(default)]
    function: FunctionPart,
}

#[derive(Deserialize, Default)]
struct FunctionPart {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    /// Cost of the call in dollars, reported by OpenRouter.
    cost: Option<f64>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl Tokens {
    fn usage(self) -> Option<Usage> {
        let details = self.prompt_tokens_details.unwrap_or_default();
        let input = self.prompt_tokens?;
        Some(Usage {
            input,
            cached_input: details.cached_tokens.unwrap_or(0).min(input),
            cache_write: details.cache_write_tokens.unwrap_or(0).min(input),
            output: self.completion_tokens?,
        })
    }

    fn price(self) -> Option<Money> {
        self.cost.and_then(Money::from_dollars)
    }
}

fn stop(reason: Option<&str>, refused: bool) -> StopReason {
    match reason {
        _ if refused => StopReason::Refused,
        Some("length") => StopReason::MaxTokens,
        Some("tool_calls" | "function_call") => StopReason::ToolUse,
        Some("content_filter") => StopReason::Refused,
        _ => StopReason::End,
    }
}

fn tool_call(index: usize, part: CallPart) -> ToolCall {
    ToolCall {
        id: part.id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{index}")),
        name: part.function.name.unwrap_or_default(),
        arguments: arguments_from_text(&part.function.arguments.unwrap_or_default()),
        signature: None,
    }
}

pub(super) fn decode(body: &[u8]) -> Result<ProviderReply, ModelError> {
    let mut body: Chunk = parse(body)?;
    let choice = body.choices.first_mut().and_then(|choice| choice.message.as_mut());
    // In a response that is not streamed, every tool call is complete, and its index has no meaning.
    let calls = choice.and_then(|message| message.tool_calls.take()).unwrap_or_default();
    let answered = !body.choices.is_empty();
    let mut stream = Box::new(OpenAiStream { calls, done: true, ..OpenAiStream::default() });
    stream.add(body)?;
    if answered { stream.finish() } else { Err(malformed("the answer contains no choices")) }
}

/// A complete response, or one chunk of a streamed response.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Tokens>,
    model: Option<String>,
    /// Error in a response with status 200, as sent by OpenRouter.
    error: Option<Value>,
    /// Token usage and errors in a stream, as sent by Groq.
    x_groq: Option<GroqPart>,
}

#[derive(Deserialize)]
struct GroqPart {
    usage: Option<Tokens>,
    error: Option<Value>,
}

#[derive(Default)]
pub(super) struct OpenAiStream {
    reply: ProviderReply,
    refused: bool,
    calls: Vec<CallPart>,
    tokens: Option<Tokens>,
    finish_reason: Option<String>,
    done: bool,
}

impl OpenAiStream {
    /// Adds a part of a tool call. A part with a new id or a new index starts a new tool call. Any other part continues
    /// the last tool call with the same index or, if the server sends no indexes, the last tool call.
    fn add_call(&mut self, part: CallPart) {
        let known = |id: &String| self.calls.iter().any(|call| call.id.as_ref() == Some(id));
        let begins = part.id.as_ref().is_some_and(|id| !id.is_empty() && !known(id));
        let at = self.calls.iter().rposition(|call| call.index == part.index);
        match at.filter(|_| !begins).and_then(|at| self.calls.get_mut(at)) {
            Some(call) => {
                let more = part.function.arguments.unwrap_or_default();
                call.function.arguments.get_or_insert_default().push_str(&more);
            }
            None => self.calls.push(part),
        }
    }

    fn add(&mut self, chunk: Chunk) -> Result<StreamDelta, ModelError> {
        let groq_error = chunk.x_groq.as_ref().and_then(|part| part.error.as_ref());
        if let Some(error) = chunk.error.as_ref().or(groq_error) {
            return Err(error_response::from_stream(error));
        }
        self.reply.model = chunk.model.or(self.reply.model.take());
        self.tokens = chunk.usage.or(chunk.x_groq.and_then(|part| part.usage)).or(self.tokens);
        let Some(choice) = chunk.choices.into_iter().next() else {
            return Ok(StreamDelta::Nothing);
        };
        self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        let message = choice.message.unwrap_or_default();
        let reasoning = message.reasoning_content.or(message.reasoning);
        let mut hidden = reasoning.is_some_and(|text| !text.is_empty());
        for part in message.tool_calls.unwrap_or_default() {
            hidden = true;
            self.add_call(part);
            if self.calls.len() > MAX_TOOL_CALLS {
                return Err(too_many_calls());
            }
        }
        let refusal = message.refusal.filter(|text| !text.is_empty());
        self.refused |= refusal.is_some();
        let text = refusal.or(message.content).unwrap_or_default();
        self.reply.text.push_str(&text);
        Ok(StreamDelta::of(text, hidden))
    }
}

impl Decoder for OpenAiStream {
    fn push(&mut self, data: &str) -> Result<StreamDelta, ModelError> {
        if data == "[DONE]" {
            self.done = true;
            return Ok(StreamDelta::Nothing);
        }
        self.add(parse(data.as_bytes())?)
    }

    fn finish(self: Box<Self>) -> Result<ProviderReply, ModelError> {
        if !self.done && self.finish_reason.is_none() {
            return Err(stream_truncated());
        }
        let calls = self.calls.into_iter().enumerate();
        Ok(ProviderReply {
            stop: stop(self.finish_reason.as_deref(), self.refused),
            tool_calls: calls.map(|(index, part)| tool_call(index, part)).collect(),
            usage: self.tokens.and_then(Tokens::usage),
            cost: self.tokens.and_then(Tokens::price),
            ..self.reply
        })
    }
}
