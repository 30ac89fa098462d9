//! Adapters for the four wire formats of the six providers. Each adapter has its own file.
//!
//! An adapter encodes a [`ModelRequest`] as the body of an HTTP request, and decodes the provider's response, complete
//! or streamed, into a [`ProviderReply`]. Adapters do no I/O. Other modules of the crate handle retries, limits and
//! costs.

mod anthropic;
mod google;
mod ollama;
mod openai;
mod schema;

use std::borrow::Cow;

use assize_config::{ApiKey, Provider};
use assize_llm::{
    ErrorKind, ModelError, ModelRequest, Schema, SchemaDelivery, StopReason, ToolCall,
    ToolDefinition, ToolResult,
};
use assize_types::{Money, Usage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::catalog::ModelFacts;
use crate::error_response;
use crate::estimate::PromptTooLong;
use crate::provider::Endpoint;

/// A model request, encoded as an HTTP request for one provider.
#[derive(Debug, Clone)]
pub(crate) struct EncodedRequest {
    /// Path relative to the base URL, with a leading slash.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Body of the HTTP request, as JSON.
    pub(crate) body: Vec<u8>,
    /// Whether the HTTP request contains the schema as a parameter, so that the provider enforces the schema.
    pub(crate) schema_enforced: bool,
}

impl EncodedRequest {
    fn new(
        endpoint: &Endpoint,
        path: String,
        body: &impl Serialize,
        schema_enforced: bool,
    ) -> Result<EncodedRequest, ModelError> {
        let mut bytes = Vec::with_capacity(16 * 1024);
        serde_json::to_writer(&mut bytes, body).map_err(|error| {
            let message = "cannot encode the request as JSON";
            ModelError::new(ErrorKind::Internal, message).with_source(error)
        })?;
        Ok(EncodedRequest { path, headers: auth_headers(endpoint), body: bytes, schema_enforced })
    }
}

/// Options for encoding the request of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodeOptions {
    pub(crate) stream: bool,
    /// Whether to send the `temperature` parameter.
    pub(crate) temperature: bool,
    /// Whether a schema with [`SchemaDelivery::Native`] is sent in the provider's schema parameter. If not, it is sent
    /// in the prompt.
    pub(crate) native_schema: bool,
}

/// A request with all data that an adapter needs to encode it.
#[derive(Clone, Copy)]
pub(crate) struct OutgoingRequest<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) facts: &'a ModelFacts,
    pub(crate) request: &'a ModelRequest,
    pub(crate) options: EncodeOptions,
}

/// Decoded response of a provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProviderReply {
    pub(crate) text: String,
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) stop: StopReason,
    /// Token counts, if the provider reported them.
    pub(crate) usage: Option<Usage>,
    /// Name of the model in the provider's response.
    pub(crate) model: Option<String>,
    /// Cost of the call, if the provider reported it.
    pub(crate) cost: Option<Money>,
}

impl ProviderReply {
    /// Removes the API key from every field in which a provider can echo the key.
    pub(crate) fn remove_key(&mut self, key: &ApiKey) {
        self.text = key.scrub(&self.text);
        self.model = self.model.as_deref().map(|model| key.scrub(model));
        for call in &mut self.tool_calls {
            let arguments = call.arguments.to_string();
            let clean = key.scrub(&arguments);
            if clean != arguments {
                call.arguments = arguments_from_text(&clean);
            }
        }
    }
}

/// Maximum number of tool calls in one answer.
const MAX_TOOL_CALLS: usize = 256;

fn too_many_calls() -> ModelError {
    malformed("the answer contains too many tool calls")
}

/// How a stream is divided into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The stream consists of server-sent events.
    Events,
    /// The stream has one JSON document per line.
    Lines,
}

/// What one frame of a stream adds to the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamDelta {
    /// The frame adds nothing to the answer: a keep-alive, a start event or a token count.
    Nothing,
    /// The frame adds content that is not shown as text: reasoning, or a part of a tool call.
    Hidden,
    /// The frame adds this text to the answer.
    Text(String),
}

impl StreamDelta {
    /// Returns what a frame adds to the answer. `text` is the frame's text and may be empty. `hidden` is whether the
    /// frame contains reasoning or a part of a tool call.
    fn of(text: String, hidden: bool) -> StreamDelta {
        match (text.is_empty(), hidden) {
            (false, _) => StreamDelta::Text(text),
            (true, true) => StreamDelta::Hidden,
            (true, false) => StreamDelta::Nothing,
        }
    }
}

/// Assembles a streamed answer from its frames.
pub(crate) trait Decoder: Send {
    /// Decodes the next frame of the stream, and returns what the frame adds to the answer.
    fn push(&mut self, data: &str) -> Result<StreamDelta, ModelError>;

    /// Returns the complete answer after the end of the stream, or an error if the stream ended too early.
    fn finish(self: Box<Self>) -> Result<ProviderReply, ModelError>;
}

pub(crate) fn encode(outgoing: OutgoingRequest<'_>) -> Result<EncodedRequest, ModelError> {
    match outgoing.endpoint.provider {
        Provider::Anthropic => anthropic::encode(outgoing),
        Provider::OpenAi | Provider::Groq | Provider::OpenRouter => openai::encode(outgoing),
        Provider::Google => google::encode(outgoing),
        Provider::Ollama => ollama::encode(outgoing),
    }
}

pub(crate) fn decode(provider: Provider, body: &[u8]) -> Result<ProviderReply, ModelError> {
    match provider {
        Provider::Anthropic => anthropic::decode(body),
        Provider::OpenAi | Provider::Groq | Provider::OpenRouter => openai::decode(body),
        Provider::Google => google::decode(body),
        Provider::Ollama => ollama::decode(body),
    }
}

pub(crate) fn decoder(provider: Provider) -> (Framing, Box<dyn Decoder>) {
    match provider {
        Provider::Anthropic => (Framing::Events, Box::<anthropic::AnthropicStream>::default()),
        Provider::OpenAi | Provider::Groq | Provider::OpenRouter => {
            (Framing::Events, Box::<openai::OpenAiStream>::default())
        }
        Provider::Google => (Framing::Events, Box::<google::GoogleStream>::default()),
        Provider::Ollama => (Framing::Lines, Box::<ollama::OllamaStream>::default()),
    }
}

/// Path of a free request that tests whether the provider is reachable and accepts the API key.
pub(crate) fn probe_path(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "/v1/models?limit=1",
        Provider::OpenAi | Provider::Groq => "/models",
        Provider::Google => "/models?pageSize=1",
        // OpenRouter's list of models is public. The path `/key` requires the API key.
        Provider::OpenRouter => "/key",
        Provider::Ollama => "/api/tags",
    }
}

/// Returns the headers that authenticate a request.
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

/// Returns the tool definitions of a request in the format of OpenAI and Ollama.
fn function_tools(request: &ModelRequest) -> Vec<Value> {
    let tools = request.tools.iter();
    tools
        .map(|tool| json!({"type": "function", "function": described(tool, "parameters")}))
        .collect()
}

/// Returns a tool definition as JSON. `schema` is the name of the field in which the provider expects the
/// schema of the tool's parameters.
fn described(tool: &ToolDefinition, schema: &str) -> Value {
    json!({"name": tool.name, "description": tool.description, schema: tool.parameters})
}

/// Content of a tool result. The content of a failed call is prefixed with `error:`.
fn tool_content(result: &ToolResult) -> Cow<'_, str> {
    if result.failed {
        Cow::Owned(format!("error: {}", result.content))
    } else {
        Cow::Borrowed(&result.content)
    }
}

/// Converts the arguments of an earlier tool call to an object. Providers require an object, even if the model wrote
/// another value.
fn arguments_object(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        Value::Null => Cow::Owned(json!({})),
        other => Cow::Owned(json!({"not_an_object": other})),
    }
}

/// JSON value that marks a cache breakpoint for Anthropic's models.
fn breakpoint() -> Value {
    json!({"type": "ephemeral"})
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ModelError> {
    serde_json::from_slice(body).map_err(|error| {
        let message = if error.is_eof() {
            "the answer is truncated"
        } else {
            "the answer does not have the format of the provider's API"
        };
        malformed(message).with_source(error)
    })
}

fn malformed(message: &str) -> ModelError {
    ModelError::new(ErrorKind::Malformed, message)
}

fn stream_truncated() -> ModelError {
    malformed("the stream ended before the answer was complete")
}

/// Parses the arguments of a tool call, which some providers send as JSON in a string. If `text` is not valid JSON,
/// returns it as a JSON string. The validation of the tool's arguments then rejects this string.
fn arguments_from_text(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Returns the request's schema if the schema is sent in the provider's schema parameter. Returns `None` if the schema
/// is sent in the prompt, or if the request has no schema.
fn native_schema(request: &ModelRequest, options: EncodeOptions) -> Option<&Schema> {
    let native =
        |schema: &&Schema| options.native_schema && schema.delivery == SchemaDelivery::Native;
    request.schema.as_ref().filter(native)
}

/// Error for a prompt that was not sent because it does not fit the model's context window.
fn overflow(endpoint: &Endpoint, PromptTooLong { needed, window }: PromptTooLong) -> ModelError {
    let message = format!(
        "the call needs about {needed} tokens of context, but the context window of `{}` has {window}",
        endpoint.model
    );
    ModelError::new(ErrorKind::ContextOverflow, message)
        .with_hint(error_response::overflow_hint(endpoint, Some(window)))
}

/// If the request has a schema that the provider does not enforce, returns a copy of the request with an instruction
/// about the schema at the end of the prompt. Returns any other request unchanged.
fn with_schema_in_prompt(request: &ModelRequest, enforced: bool) -> Cow<'_, ModelRequest> {
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
