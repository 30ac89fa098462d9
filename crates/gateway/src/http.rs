//! HTTP transport: makes one attempt of a model call, with limits on the size and duration of every response.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use assize_config::Provider;
use assize_llm::{ErrorKind, ModelError, ModelRequest};
use assize_types::Failure;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use reqwest::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};

use crate::adapter::{
    self, EncodeOptions, EncodedRequest, OutgoingRequest, ProviderReply, StreamDelta,
};
use crate::catalog::ModelFacts;
use crate::error_response::{self, one_line, redact_and_shorten};
use crate::frames::{Frames, MAX_FRAME, StreamFrameError};
use crate::local_server::is_loopback;
use crate::provider::Endpoint;
use crate::rate_limit_headers;
use crate::transport::{OnText, SendOptions, Transport};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a model's answer in bytes.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// Maximum number of bytes that are read from an error response.
const MAX_ERROR: usize = 64 * 1024;

/// Maximum size in bytes of the reply to a query for a server's properties or models. Ollama's reply contains the whole
/// vocabulary of the model.
const MAX_DESCRIPTION: usize = 16 * 1024 * 1024;

/// Timeout for reading the body of an error response.
const ERROR_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP clients, shared by all clones of this value. Each client is created when it is first needed.
#[derive(Debug, Clone, Default)]
pub struct HttpClient(Arc<Clients>);

#[derive(Debug, Default)]
struct Clients {
    /// Client for remote addresses. It uses the proxy that the environment variables configure.
    remote: OnceLock<reqwest::Client>,
    /// Client for loopback addresses. It never uses a proxy.
    loopback: OnceLock<reqwest::Client>,
}

impl HttpClient {
    pub fn new() -> HttpClient {
        HttpClient::default()
    }

    /// Returns the client for a URL. Fails only if the system has no usable certificate store.
    fn to(&self, url: &str) -> Result<&reqwest::Client, ModelError> {
        let is_loopback = is_loopback(url);
        let cell = if is_loopback { &self.0.loopback } else { &self.0.remote };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        // The error is ignored: it means that another part of the process has already installed a crypto provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect could send the API key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("assize/", env!("CARGO_PKG_VERSION")));
        if is_loopback {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| {
            let cause = one_line(&Failure::root_cause_message(&error));
            let message = format!("cannot create the HTTP client: {cause}");
            ModelError::new(ErrorKind::Internal, message)
                .with_hint("install your system's certificates (Debian: `ca-certificates`)")
        })?;
        Ok(cell.get_or_init(|| client))
    }
}

/// HTTP transport to one model of one provider.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    client: HttpClient,
    endpoint: Endpoint,
    facts: ModelFacts,
}

impl HttpTransport {
    pub(crate) fn new(client: HttpClient, endpoint: Endpoint, facts: ModelFacts) -> HttpTransport {
        HttpTransport { client, endpoint, facts }
    }

    async fn exchange(
        &self,
        encoded: &EncodedRequest,
        sending: SendOptions<'_>,
    ) -> Result<ProviderReply, ModelError> {
        let url = format!("{}{}", self.endpoint.base_url, encoded.path);
        let request = self
            .client
            .to(&url)?
            .post(url)
            .headers(header_map(&encoded.headers)?)
            .headers(connection_headers(&self.endpoint))
            .header("content-type", "application/json")
            .body(encoded.body.clone());
        let sent = async { request.send().await.map_err(|error| self.send_error(error)) };
        let response = match sending.on_text {
            Some(_) => {
                with_timeout(sending.start_timeout, sent, "the start of the answer").await??
            }
            None => sent.await?,
        };
        (sending.on_remaining)(rate_limit_headers::read(response.headers()));
        if !response.status().is_success() {
            return Err(self.error_of(response).await);
        }
        // The provider has accepted the call and may charge for it, even if the answer is lost.
        let answer = match sending.on_text {
            Some(on_text) => self.read_stream(response, on_text, sending).await,
            None => read(response, MAX_ANSWER, Excess::Error)
                .await
                .and_then(|body| adapter::decode(self.endpoint.provider, &body)),
        };
        answer.map_err(|mut error| {
            error.may_be_charged = true;
            error
        })
    }

    async fn read_stream(
        &self,
        response: reqwest::Response,
        on_text: OnText<'_>,
        sending: SendOptions<'_>,
    ) -> Result<ProviderReply, ModelError> {
        let mut timeout = sending.start_timeout;
        let (framing, mut decoder) = adapter::decoder(self.endpoint.provider);
        let mut frames = Frames::new(framing);
        let mut received = 0;
        let mut chunks = response.bytes_stream();
        let bad_frame = |bad| match bad {
            StreamFrameError::TooLong => too_large("a piece of the streamed answer", MAX_FRAME),
            StreamFrameError::NotUtf8 => {
                ModelError::new(ErrorKind::Malformed, "the stream is not UTF-8 text")
            }
        };
        while let Some(chunk) =
            with_timeout(timeout, next_chunk(&mut chunks), "more of the answer").await??
        {
            received += chunk.len();
            if received > MAX_ANSWER {
                return Err(too_large("the answer", MAX_ANSWER));
            }
            for frame in frames.push(&chunk).map_err(bad_frame)? {
                match decoder.push(&frame)? {
                    StreamDelta::Nothing => continue,
                    StreamDelta::Hidden => (sending.on_progress)(),
                    StreamDelta::Text(text) => on_text(&text),
                }
                timeout = sending.idle_timeout;
            }
        }
        if let Some(frame) = frames.finish().map_err(bad_frame)?
            && let StreamDelta::Text(text) = decoder.push(&frame)?
        {
            on_text(&text);
        }
        decoder.finish()
    }

    fn send_error(&self, error: reqwest::Error) -> ModelError {
        let cause = one_line(&Failure::root_cause_message(&error));
        if error.is_builder() {
            let message = format!("invalid base URL `{}`: {cause}", self.endpoint.base_url);
            return ModelError::new(ErrorKind::NotFound, message)
                .with_hint(format!("correct `{}.base_url`", self.endpoint.provider));
        }
        if !error.is_connect() {
            let message = format!("the connection failed before the answer started: {cause}");
            return ModelError::new(ErrorKind::Connection, message);
        }
        let message = format!("the provider cannot be reached: {cause}");
        let error = ModelError::new(ErrorKind::Unreachable, message);
        let address = &self.endpoint.base_url;
        error.with_hint(match self.endpoint.provider {
            Provider::Ollama => format!(
                "start Ollama with `ollama serve`, or set `OLLAMA_HOST` if its address is not `{address}`"
            ),
            _ => format!("check the network and the address `{address}`"),
        })
    }

    /// Converts an HTTP response with an error status to a [`ModelError`].
    async fn error_of(&self, response: reqwest::Response) -> ModelError {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        if (300..400).contains(&status) {
            return self.redirected(status, &headers);
        }
        // The body only adds details to the error, so failures to read it are ignored.
        let body = read(response, MAX_ERROR, Excess::Truncate);
        let body = tokio::time::timeout(ERROR_TIMEOUT, body).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        error_response::from_status(&self.endpoint, status, &headers, &body)
    }

    fn redirected(&self, status: u16, headers: &HeaderMap) -> ModelError {
        let target = headers.get("location").and_then(|target| target.to_str().ok()).unwrap_or("?");
        let message =
            format!("the provider answered {status}: the address moved to `{}`", one_line(target));
        let mut error = ModelError::new(ErrorKind::BadRequest, message);
        error.status = Some(status);
        error.with_hint(format!(
            "redirects are not followed, because they could send the API key to another host; if the new address \
             is correct, set `{}.base_url` to it",
            self.endpoint.provider
        ))
    }
}

#[async_trait]
impl Transport for HttpTransport {
    fn provider(&self) -> &str {
        self.endpoint.provider.name()
    }

    fn model(&self) -> &str {
        &self.endpoint.model
    }

    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode(
        &self,
        request: &ModelRequest,
        options: EncodeOptions,
    ) -> Result<EncodedRequest, ModelError> {
        let (endpoint, facts) = (&self.endpoint, &self.facts);
        adapter::encode(OutgoingRequest { endpoint, facts, request, options })
    }

    async fn send(
        &self,
        encoded: &EncodedRequest,
        _request: &ModelRequest,
        sending: SendOptions<'_>,
    ) -> Result<ProviderReply, ModelError> {
        let mut outcome = self.exchange(encoded, sending).await;
        // Only OpenRouter reports the cost of a call reliably. The cost that other servers with the same wire format
        // report is ignored.
        if let Ok(reply) = &mut outcome
            && self.endpoint.provider != Provider::OpenRouter
        {
            reply.cost = None;
        }
        // A server could echo the API key, which must not appear in a log or a cassette.
        if let (Ok(reply), Some(key)) = (&mut outcome, &self.endpoint.key) {
            reply.remove_key(key);
        }
        outcome.map_err(|error| {
            let named = if error.message().starts_with(self.provider()) {
                error
            } else {
                error.context(self.provider())
            };
            named.map_message(|message| redact_and_shorten(message, self.endpoint.key.as_ref()))
        })
    }
}

/// Checks with a free request whether a provider is reachable and accepts the API key.
pub async fn probe(
    client: &HttpClient,
    endpoint: &Endpoint,
    timeout: Duration,
) -> Result<(), ModelError> {
    let url = format!("{}{}", endpoint.base_url, adapter::probe_path(endpoint.provider));
    let reply = tokio::time::timeout(timeout, request(client, endpoint, &url, None)).await;
    let outcome = reply.unwrap_or_else(|_| {
        let seconds = timeout.as_secs();
        let message = format!("the provider did not answer within {seconds} s");
        Err(ModelError::new(ErrorKind::Timeout, message))
    });
    outcome.map(drop).map_err(|error| {
        error.map_message(|message| redact_and_shorten(message, endpoint.key.as_ref()))
    })
}

/// Reads a JSON document from a provider.
pub(crate) async fn read_json(
    client: &HttpClient,
    endpoint: &Endpoint,
    url: &str,
    body: Option<&serde_json::Value>,
) -> Result<serde_json::Value, ModelError> {
    let response = request(client, endpoint, url, body).await?;
    let body = read(response, MAX_DESCRIPTION, Excess::Error).await?;
    serde_json::from_slice(&body).map_err(|error| {
        ModelError::new(ErrorKind::Malformed, "the answer is not JSON").with_source(error)
    })
}

/// Sends a request that is not a model call, such as a query for the list of models: GET, or POST if there is a body.
async fn request(
    client: &HttpClient,
    endpoint: &Endpoint,
    url: &str,
    body: Option<&serde_json::Value>,
) -> Result<reqwest::Response, ModelError> {
    let wire = HttpTransport::new(client.clone(), endpoint.clone(), ModelFacts::of(endpoint));
    let headers = header_map(&adapter::auth_headers(endpoint))?;
    let client = client.to(url)?;
    let request = match body {
        Some(body) => {
            client.post(url).header("content-type", "application/json").body(body.to_string())
        }
        None => client.get(url),
    };
    let request = request.headers(headers).headers(connection_headers(endpoint));
    let response = request.send().await.map_err(|e| wire.send_error(e))?;
    if response.status().is_success() { Ok(response) } else { Err(wire.error_of(response).await) }
}

fn header_map(pairs: &[(&'static str, String)]) -> Result<HeaderMap, ModelError> {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            ModelError::new(ErrorKind::Unauthorized, "the API key contains invalid characters")
                .with_hint("check the API key for line breaks and quotes")
        })?;
        value.set_sensitive(true);
        map.insert(HeaderName::from_static(name), value);
    }
    Ok(map)
}

/// Headers that make each request to a local model server use a new connection.
///
/// A llama.cpp server closes its connection after each streamed answer, although its headers say that the
/// connection stays open. If a later request reuses the connection before this process notices the end of the
/// connection, the request fails.
fn connection_headers(endpoint: &Endpoint) -> HeaderMap {
    let mut map = HeaderMap::new();
    if endpoint.is_local_server() {
        map.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    map
}

/// What to do if a response body exceeds the size limit: fail, or use only the beginning of the body.
enum Excess {
    Error,
    Truncate,
}

async fn read(
    response: reqwest::Response,
    max: usize,
    excess: Excess,
) -> Result<Bytes, ModelError> {
    let mut body = BytesMut::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = next_chunk(&mut chunks).await? {
        if body.len() + chunk.len() > max {
            match excess {
                Excess::Error => return Err(too_large("the answer", max)),
                Excess::Truncate => break,
            }
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

async fn next_chunk(
    chunks: &mut (impl futures_util::Stream<Item = reqwest::Result<Bytes>> + Unpin),
) -> Result<Option<Bytes>, ModelError> {
    chunks.next().await.transpose().map_err(|error| {
        let cause = one_line(&Failure::root_cause_message(&error));
        let message = format!("the connection failed in the middle of the answer: {cause}");
        ModelError::new(ErrorKind::Connection, message)
    })
}

/// Waits for the next part of a streamed answer, at most for `timeout`. The duration of the whole stream is not
/// limited.
async fn with_timeout<T>(
    timeout: Duration,
    work: impl Future<Output = T>,
    what: &str,
) -> Result<T, ModelError> {
    tokio::time::timeout(timeout, work).await.map_err(|_| {
        let message = format!("timed out after {} s waiting for {what}", timeout.as_secs());
        ModelError::new(ErrorKind::Timeout, message)
            .with_hint("allow more time with `gateway.timeout_seconds`")
    })
}

fn too_large(what: &str, max: usize) -> ModelError {
    let mib = max / 1024 / 1024;
    ModelError::new(ErrorKind::Malformed, format!("{what} is larger than {mib} MiB"))
}
