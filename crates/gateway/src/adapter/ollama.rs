//! Adapter for Ollama's native chat endpoint. Requests to Ollama's OpenAI-compatible endpoint cannot set the context
//! size, and Ollama silently truncates prompts that do not fit.

use assize_llm::{ModelError, StopReason, ToolCall, ToolResult};
use assize_types::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::openai::{CallName, ChatMessage, turns};
use super::{
    Decoder, EncodedRequest, OutgoingRequest, ProviderReply, StreamDelta, arguments_object,
    function_tools, native_schema, overflow, parse, stream_truncated, with_schema_in_prompt,
};
use crate::error_response;
use crate::estimate::{self, Overflow};

/// Minimum context size in tokens. Larger sizes are rounded up to powers of two, because Ollama reloads the model
/// whenever the size changes.
const MIN_WINDOW: u64 = 4096;

#[derive(Serialize)]
struct RequestBody<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    stream: bool,
    options: Options,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
}

#[derive(Serialize)]
struct Options {
    num_ctx: u64,
    num_predict: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

pub(super) fn encode(outgoing: OutgoingRequest<'_>) -> Result<EncodedRequest, ModelError> {
    let OutgoingRequest { endpoint, facts, request, options } = outgoing;
    let format = native_schema(request, options).map(|schema| schema.value.clone());
    let schema_enforced = format.is_some();
    let request = with_schema_in_prompt(request, schema_enforced);

    let window = facts.context_window;
    // Ollama silently truncates a prompt that is too long.
    let num_predict = estimate::max_answer_tokens(&request, window, Overflow::Truncates)
        .map_err(|too_long| overflow(endpoint, too_long))?;
    let needed = estimate::high_input_tokens(&request) + u64::from(num_predict);
    let num_ctx = needed.next_power_of_two().max(MIN_WINDOW).min(window);

    let messages = request.prompt.messages();
    let body = RequestBody {
        model: &endpoint.model,
        messages: turns(&request, &messages, false, tool_result, assistant_call),
        stream: options.stream,
        options: Options {
            num_ctx,
            num_predict,
            temperature: options.temperature.then_some(request.temperature),
        },
        format,
        tools: function_tools(&request),
    };
    EncodedRequest::new(endpoint, "/api/chat".into(), &body, schema_enforced)
}

fn tool_result(result: &ToolResult) -> CallName<'_> {
    CallName::ToolName(&result.name)
}

fn assistant_call(call: &ToolCall) -> Value {
    json!({"function": {"name": call.name, "arguments": arguments_object(&call.arguments)}})
}

/// A complete response, or one line of a streamed response.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    message: Option<ReplyMessage>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: u64,
    #[serde(default)]
    eval_count: u64,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ReplyMessage {
    #[serde(default)]
    content: String,
    #[serde(default)]
    tool_calls: Vec<Call>,
    /// Reasoning text of the model.
    #[serde(default)]
    thinking: String,
}

#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

pub(super) fn decode(body: &[u8]) -> Result<ProviderReply, ModelError> {
    let mut stream = Box::<OllamaStream>::default();
    stream.add(parse(body)?)?;
    stream.finish()
}

#[derive(Default)]
pub(super) struct OllamaStream {
    reply: ProviderReply,
    done_reason: Option<String>,
    done: bool,
}

impl OllamaStream {
    fn add(&mut self, body: Body) -> Result<StreamDelta, ModelError> {
        if let Some(error) = body.error {
            return Err(error_response::from_stream(&error));
        }
        self.reply.model = body.model.or(self.reply.model.take());
        if body.done {
            self.done = true;
            self.done_reason = body.done_reason;
            // Ollama does not count the prompt tokens that it still has in its cache.
            let (input, output) = (body.prompt_eval_count, body.eval_count);
            self.reply.usage = Some(Usage { input, output, ..Usage::default() });
        }
        let Some(message) = body.message else {
            return Ok(StreamDelta::Nothing);
        };
        let hidden = !message.thinking.is_empty() || !message.tool_calls.is_empty();
        for call in message.tool_calls {
            let calls = &mut self.reply.tool_calls;
            let id = call.id.unwrap_or_else(|| format!("call_{}", calls.len()));
            let Function { name, arguments } = call.function;
            calls.push(ToolCall { id, name, arguments, signature: None });
        }
        self.reply.text.push_str(&message.content);
        Ok(StreamDelta::of(message.content, hidden))
    }
}

impl Decoder for OllamaStream {
    fn push(&mut self, data: &str) -> Result<StreamDelta, ModelError> {
        self.add(parse(data.as_bytes())?)
    }

    fn finish(self: Box<Self>) -> Result<ProviderReply, ModelError> {
        if !self.done {
            return Err(stream_truncated());
        }
        let stop = match self.done_reason.as_deref() {
            Some("length") => StopReason::MaxTokens,
            _ if !self.reply.tool_calls.is_empty() => StopReason::ToolUse,
            _ => StopReason::End,
        };
        Ok(ProviderReply { stop, ..self.reply })
    }
}
