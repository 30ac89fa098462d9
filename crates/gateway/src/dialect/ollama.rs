//! Ollama's own chat endpoint. Its OpenAI-compatible one cannot set the context size, and Ollama
//! silently cuts what does not fit.

use assize_llm::{ModelError, Stop, ToolCall, ToolResult};
use assize_types::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::openai::{CallName, Turn, turns};
use super::{
    Decoder, Encoded, Growth, Outgoing, Reply, arguments_object, broken_off, function_tools,
    native_schema, overflow, parse, prompted,
};
use crate::estimate::{self, Overflow};
use crate::failure;

/// Windows grow by doubling from here: each new size makes Ollama load the model anew.
const SMALLEST_WINDOW: u64 = 4096;

#[derive(Serialize)]
struct Wanted<'a> {
    model: &'a str,
    messages: Vec<Turn<'a>>,
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

pub(super) fn encode(outgoing: Outgoing<'_>) -> Result<Encoded, ModelError> {
    let Outgoing { endpoint, facts, request, manner } = outgoing;
    let format = native_schema(request, manner).map(|schema| schema.value.clone());
    let schema_enforced = format.is_some();
    let request = prompted(request, schema_enforced);

    let window = facts.context_window;
    // Ollama cuts a prompt that is too long without a word.
    let num_predict = estimate::answer_room(&request, window, Overflow::Cuts)
        .map_err(|too_long| overflow(endpoint, too_long))?;
    let needed = estimate::generous_input_tokens(&request) + u64::from(num_predict);
    let num_ctx = needed.next_power_of_two().max(SMALLEST_WINDOW).min(window);

    let messages = request.prompt.messages();
    let body = Wanted {
        model: &endpoint.model,
        messages: turns(&request, &messages, false, tool_result, assistant_call),
        stream: manner.stream,
        options: Options {
            num_ctx,
            num_predict,
            temperature: manner.temperature.then_some(request.temperature),
        },
        format,
        tools: function_tools(&request),
    };
    Encoded::new(endpoint, "/api/chat".into(), &body, schema_enforced)
}

fn tool_result(result: &ToolResult) -> CallName<'_> {
    CallName::ToolName(&result.name)
}

fn assistant_call(call: &ToolCall) -> Value {
    json!({"function": {"name": call.name, "arguments": arguments_object(&call.arguments)}})
}

/// A whole answer, and each line of a streamed one.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    message: Option<Said>,
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
struct Said {
    #[serde(default)]
    content: String,
    #[serde(default)]
    tool_calls: Vec<Call>,
    /// Reasoning.
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

pub(super) fn decode(body: &[u8]) -> Result<Reply, ModelError> {
    let mut stream = Box::<Stream>::default();
    stream.take(parse(body)?)?;
    stream.finish()
}

#[derive(Default)]
pub(super) struct Stream {
    reply: Reply,
    done_reason: Option<String>,
    done: bool,
}

impl Stream {
    fn take(&mut self, body: Body) -> Result<Growth, ModelError> {
        if let Some(error) = body.error {
            return Err(failure::in_stream(&error));
        }
        self.reply.model = body.model.or(self.reply.model.take());
        if body.done {
            self.done = true;
            self.done_reason = body.done_reason;
            // A prompt that was still in memory is not counted again.
            let (input, output) = (body.prompt_eval_count, body.eval_count);
            self.reply.usage = Some(Usage { input, output, ..Usage::default() });
        }
        let Some(said) = body.message else {
            return Ok(Growth::Nothing);
        };
        let hidden = !said.thinking.is_empty() || !said.tool_calls.is_empty();
        for call in said.tool_calls {
            let calls = &mut self.reply.tool_calls;
            let id = call.id.unwrap_or_else(|| format!("call_{}", calls.len()));
            let Function { name, arguments } = call.function;
            calls.push(ToolCall { id, name, arguments, signature: None });
        }
        self.reply.text.push_str(&said.content);
        Ok(Growth::of(said.content, hidden))
    }
}

impl Decoder for Stream {
    fn push(&mut self, data: &str) -> Result<Growth, ModelError> {
        self.take(parse(data.as_bytes())?)
    }

    fn finish(self: Box<Self>) -> Result<Reply, ModelError> {
        if !self.done {
            return Err(broken_off());
        }
        let stop = match self.done_reason.as_deref() {
            Some("length") => Stop::MaxTokens,
            _ if !self.reply.tool_calls.is_empty() => Stop::ToolUse,
            _ => Stop::End,
        };
        Ok(Reply { stop, ..self.reply })
    }
}
