//! The four languages that the six providers speak, one file each.
//!
//! A dialect turns a [`Request`] into the body that its provider wants and the provider's answer,
//! whole or streamed, into a [`Reply`]. It does no input or output and decides nothing: what is
//! sent when, how often and at whose cost is for the rest of the crate.

mod anthropic;
mod google;
mod ollama;
mod openai;
mod schema;

use std::borrow::Cow;

use assize_config::{Provider, Secret};
use assize_llm::{
    Delivery, ErrorKind, ModelError, Request, Schema, Stop, Tool, ToolCall, ToolResult,
};
use assize_types::{Money, Usage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::catalog::ModelFacts;
use crate::estimate::TooLong;
use crate::failure;
use crate::provider::Endpoint;

/// An HTTP request, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    /// Relative to the base URL, with a slash at its start.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// JSON.
    pub(crate) body: Vec<u8>,
    /// Whether the provider was asked to hold the answer to the schema.
    pub(crate) schema_enforced: bool,
}

impl Encoded {
    fn new(
        endpoint: &Endpoint,
        path: String,
        body: &impl Serialize,
        schema_enforced: bool,
    ) -> Result<Encoded, ModelError> {
        let mut bytes = Vec::with_capacity(16 * 1024);
        serde_json::to_writer(&mut bytes, body).map_err(|error| {
            let message = "the request could not be written as JSON";
            ModelError::new(ErrorKind::Internal, message).with_source(error)
        })?;
        Ok(Encoded { path, headers: auth_headers(endpoint), body: bytes, schema_enforced })
    }
}

/// What is decided for one call beside the request itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) stream: bool,
    /// Whether to send the temperature.
    pub(crate) temperature: bool,
    /// Whether to send the schema in the provider's own parameter, where the request wants it so.
    pub(crate) native_schema: bool,
}

/// A request on its way to a model.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) facts: &'a ModelFacts,
    pub(crate) request: &'a Request,
    pub(crate) manner: Manner,
}

/// What a provider answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) stop: Stop,
    /// The tokens, where the provider said how many there were.
    pub(crate) usage: Option<Usage>,
    /// The model as the provider names it.
    pub(crate) model: Option<String>,
    /// The price of the call, where the provider states it.
    pub(crate) cost: Option<Money>,
}

impl Reply {
    /// Takes the key out of whatever a provider may have put it into.
    pub(crate) fn blot_out(&mut self, key: &Secret) {
        self.text = key.scrub(&self.text);
        self.model = self.model.as_deref().map(|model| key.scrub(model));
        for call in &mut self.tool_calls {
            let written = call.arguments.to_string();
            let clean = key.scrub(&written);
            if clean != written {
                call.arguments = arguments_from_text(&clean);
            }
        }
    }
}

/// No answer has more tool calls.
const MOST_CALLS: usize = 256;

fn too_many_calls() -> ModelError {
    malformed("the answer has more tool calls than any real one")
}

/// How the pieces of a stream are set apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON document a line.
    Lines,
}

/// What one piece of a stream adds to the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Nothing: a keep-alive, an opening or a figure.
    Nothing,
    /// Reasoning or a part of a tool call: the model is at work, and there is nothing to show.
    Hidden,
    Text(String),
}

impl Growth {
    /// The growth by this text, which may be empty.
    fn of(text: String, hidden: bool) -> Growth {
        match (text.is_empty(), hidden) {
            (false, _) => Growth::Text(text),
            (true, true) => Growth::Hidden,
            (true, false) => Growth::Nothing,
        }
    }
}

/// Puts a streamed answer together.
pub(crate) trait Decoder: Send {
    /// Takes the next piece.
    fn push(&mut self, data: &str) -> Result<Growth, ModelError>;

    /// The whole answer, once the stream has ended; an error if it broke off before its end.
    fn finish(self: Box<Self>) -> Result<Reply, ModelError>;
}

pub(crate) fn encode(outgoing: Outgoing<'_>) -> Result<Encoded, ModelError> {
    match outgoing.endpoint.provider {
        Provider::Anthropic => anthropic::encode(outgoing),
        Provider::OpenAi | Provider::Groq | Provider::OpenRouter => openai::encode(outgoing),
        Provider::Google => google::encode(outgoing),
        Provider::Ollama => ollama::encode(outgoing),
    }
}

pub(crate) fn decode(provider: Provider, body: &[u8]) -> Result<Reply, ModelError> {
    match provider {
        Provider::Anthropic => anthropic::decode(body),
        Provider::OpenAi | Provider::Groq | Provider::OpenRouter => openai::decode(body),
        Provider::Google => google::decode(body),
        Provider::Ollama => ollama::decode(body),
    }
}

pub(crate) fn decoder(provider: Provider) -> (Framing, Box<dyn Decoder>) {
    match provider {
        Provider::Anthropic => (Framing::Events, Box::<anthropic::Stream>::default()),
        Provider::OpenAi | Provider::Groq | Provider::OpenRouter => {
            (Framing::Events, Box::<openai::Stream>::default())
        }
        Provider::Google => (Framing::Events, Box::<google::Stream>::default()),
        Provider::Ollama => (Framing::Lines, Box::<ollama::Stream>::default()),
    }
}

/// Where a free and harmless question shows whether the provider is there and takes the key.
pub(crate) fn probe_path(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "/v1/models?limit=1",
        Provider::OpenAi | Provider::Groq => "/models",
        Provider::Google => "/models?pageSize=1",
        // Its list of models is public; this one wants the key.
        Provider::OpenRouter => "/key",
        Provider::Ollama => "/api/tags",
    }
}

/// The headers that show the key.
pub(crate) fn auth_headers(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let key = endpoint.key.as_ref().map(|key| key.expose().to_owned());
    match endpoint.provider {
        Provider::Anthropic => {
            let version = ("anthropic-version", anthropic::VERSION.to_owned());
            key.map(|key| ("x-api-key", key)).into_iter().chain([version]).collect()
        }
        Provider::Google => key.map(|key| ("x-goog-api-key", key)).into_iter().collect(),
        _ => key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect(),
    }
}

/// The tools as OpenAI's dialect and Ollama's describe them.
fn function_tools(request: &Request) -> Vec<Value> {
    let tools = request.tools.iter();
    tools
        .map(|tool| json!({"type": "function", "function": described(tool, "parameters")}))
        .collect()
}

/// A tool whose schema stands under a name of the provider's own.
fn described(tool: &Tool, schema: &str) -> Value {
    json!({"name": tool.name, "description": tool.description, schema: tool.parameters})
}

/// What a failed tool said, told apart from what one that worked said.
fn tool_content(result: &ToolResult) -> Cow<'_, str> {
    if result.failed {
        Cow::Owned(format!("error: {}", result.content))
    } else {
        Cow::Borrowed(&result.content)
    }
}

/// A call's arguments as the providers want to see them again: an object, whatever the model wrote.
fn arguments_object(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        Value::Null => Cow::Owned(json!({})),
        other => Cow::Owned(json!({"not_an_object": other})),
    }
}

/// The mark behind what Anthropic's models are to cache.
fn breakpoint() -> Value {
    json!({"type": "ephemeral"})
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ModelError> {
    serde_json::from_slice(body).map_err(|error| {
        let message = if error.is_eof() {
            "the answer breaks off in the middle"
        } else {
            "the answer is not what this provider sends"
        };
        malformed(message).with_source(error)
    })
}

fn malformed(message: &str) -> ModelError {
    ModelError::new(ErrorKind::Malformed, message)
}

fn broken_off() -> ModelError {
    malformed("the stream broke off before its end")
}

/// The arguments of a tool call, which some providers send as JSON in a string. What is no JSON is
/// handed on as it is, for the tool's own check to refuse.
fn arguments_from_text(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The schema that is to go into the provider's own parameter.
fn native_schema(request: &Request, manner: Manner) -> Option<&Schema> {
    let wanted = |schema: &&Schema| manner.native_schema && schema.delivery == Delivery::Native;
    request.schema.as_ref().filter(wanted)
}

/// The error for a prompt that does not fit the model's context window, and was not sent.
fn overflow(endpoint: &Endpoint, TooLong { needed, window }: TooLong) -> ModelError {
    let message = format!(
        "the call needs about {needed} tokens of context and `{}` has {window}",
        endpoint.model
    );
    ModelError::new(ErrorKind::ContextOverflow, message)
        .with_hint(failure::overflow_hint(endpoint, Some(window)))
}

/// The request with the schema's instruction at the end of its tail, where the provider does not
/// enforce the schema.
fn prompted(request: &Request, enforced: bool) -> Cow<'_, Request> {
    match &request.schema {
        Some(schema) if !enforced => {
            let mut request = request.clone();
            let tail = &mut request.prompt.tail;
            if !tail.is_empty() {
                tail.push_str("\n\n");
            }
            tail.push_str(&schema.instruction());
            Cow::Owned(request)
        }
        _ => Cow::Borrowed(request),
    }
}
