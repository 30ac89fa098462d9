//! One attempt over HTTP, with a bound on everything that a server could draw out.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use assize_config::Provider;
use assize_llm::{ErrorKind, ModelError, Request};
use assize_types::Failure;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::catalog::ModelFacts;
use crate::dialect::{self, Encoded, Growth, Manner, Outgoing, Reply};
use crate::failure::{self, one_line, presentable};
use crate::frames::{BadFrame, Frames};
use crate::local::is_loopback;
use crate::provider::Endpoint;
use crate::ratelimit;
use crate::wire::{OnText, Sending, Wire};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An answer larger than this is none.
const LARGEST_ANSWER: usize = 32 * 1024 * 1024;

/// An error page is read this far.
const LARGEST_ERROR: usize = 64 * 1024;

/// The longest description of a server or its models that is read: Ollama's holds the whole vocabulary.
const LARGEST_DESCRIPTION: usize = 16 * 1024 * 1024;

/// How long an error page is read.
const ERROR_PATIENCE: Duration = Duration::from_secs(5);

/// The clients that all calls of a process share, set up when they are first needed.
#[derive(Debug, Clone, Default)]
pub struct HttpClient(Arc<Clients>);

#[derive(Debug, Default)]
struct Clients {
    /// By way of the environment's proxy, if there is one.
    outside: OnceLock<reqwest::Client>,
    /// For this machine itself: what is said here is no business of a proxy's.
    inside: OnceLock<reqwest::Client>,
}

impl HttpClient {
    pub fn new() -> HttpClient {
        HttpClient::default()
    }

    /// The client for an address. Fails only where the system has no usable store of certificates.
    fn to(&self, url: &str) -> Result<&reqwest::Client, ModelError> {
        let is_inside = is_loopback(url);
        let place = if is_inside { &self.0.inside } else { &self.0.outside };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        // Someone else in the process may have chosen a provider of cryptography before us.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect would carry the key to whoever it points at.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("assize/", env!("CARGO_PKG_VERSION")));
        if is_inside {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| {
            let cause = one_line(&Failure::innermost(&error));
            let message = format!("the HTTP client could not be set up: {cause}");
            ModelError::new(ErrorKind::Internal, message)
                .with_hint("install your system's certificates (Debian: `ca-certificates`)")
        })?;
        Ok(place.get_or_init(|| client))
    }
}

/// Reaches one model of one provider.
#[derive(Debug)]
pub(crate) struct HttpWire {
    client: HttpClient,
    endpoint: Endpoint,
    facts: ModelFacts,
}

impl HttpWire {
    pub(crate) fn new(client: HttpClient, endpoint: Endpoint, facts: ModelFacts) -> HttpWire {
        HttpWire { client, endpoint, facts }
    }

    async fn exchange(&self, encoded: &Encoded, sending: Sending<'_>) -> Result<Reply, ModelError> {
        let url = format!("{}{}", self.endpoint.base_url, encoded.path);
        let request = self
            .client
            .to(&url)?
            .post(url)
            .headers(header_map(&encoded.headers)?)
            .header("content-type", "application/json")
            .body(encoded.body.clone());
        let sent = async { request.send().await.map_err(|error| self.unreachable(error)) };
        let response = match sending.on_text {
            Some(_) => {
                patiently(sending.start_timeout, sent, "the beginning of the answer").await??
            }
            None => sent.await?,
        };
        (sending.learn)(ratelimit::read(response.headers()));
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        // From here on the provider is at work, and may charge for it whatever becomes of the answer.
        let answer = match sending.on_text {
            Some(on_text) => self.read_stream(response, on_text, sending).await,
            None => read(response, LARGEST_ANSWER, Excess::Refuse)
                .await
                .and_then(|body| dialect::decode(self.endpoint.provider, &body)),
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
        sending: Sending<'_>,
    ) -> Result<Reply, ModelError> {
        let mut patience = sending.start_timeout;
        let (framing, mut decoder) = dialect::decoder(self.endpoint.provider);
        let mut frames = Frames::new(framing);
        let mut received = 0;
        let mut chunks = response.bytes_stream();
        let bad_frame = |bad| match bad {
            BadFrame::TooLong => too_large(),
            BadFrame::NotUtf8 => ModelError::new(ErrorKind::Malformed, "the stream is not text"),
        };
        while let Some(chunk) =
            patiently(patience, next_chunk(&mut chunks), "more of the answer").await??
        {
            received += chunk.len();
            if received > LARGEST_ANSWER {
                return Err(too_large());
            }
            for piece in frames.push(&chunk).map_err(bad_frame)? {
                match decoder.push(&piece)? {
                    Growth::Nothing => continue,
                    Growth::Hidden => (sending.on_progress)(),
                    Growth::Text(text) => on_text(&text),
                }
                patience = sending.patience;
            }
        }
        if let Some(piece) = frames.finish().map_err(bad_frame)?
            && let Growth::Text(text) = decoder.push(&piece)?
        {
            on_text(&text);
        }
        decoder.finish()
    }

    fn unreachable(&self, error: reqwest::Error) -> ModelError {
        let cause = one_line(&Failure::innermost(&error));
        if error.is_builder() {
            let message =
                format!("the address `{}` cannot be used: {cause}", self.endpoint.base_url);
            return ModelError::new(ErrorKind::NotFound, message)
                .with_hint(format!("set `{}.base_url` right", self.endpoint.provider));
        }
        if !error.is_connect() {
            let message = format!("the connection broke before an answer came: {cause}");
            return ModelError::new(ErrorKind::Connection, message);
        }
        let message = format!("cannot be reached: {cause}");
        let error = ModelError::new(ErrorKind::Unreachable, message);
        let address = &self.endpoint.base_url;
        error.with_hint(match self.endpoint.provider {
            Provider::Ollama => format!(
                "start it with `ollama serve`, or set `OLLAMA_HOST` if it is not at `{address}`"
            ),
            _ => format!("check the network and the address `{address}`"),
        })
    }

    /// The error for an answer that is none.
    async fn refused(&self, response: reqwest::Response) -> ModelError {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        if (300..400).contains(&status) {
            return self.redirected(status, &headers);
        }
        // The status says most of it; the words are waited for a little.
        let words = read(response, LARGEST_ERROR, Excess::Cut);
        let body = tokio::time::timeout(ERROR_PATIENCE, words).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        failure::from_status(&self.endpoint, status, &headers, &body)
    }

    fn redirected(&self, status: u16, headers: &HeaderMap) -> ModelError {
        let target = headers.get("location").and_then(|target| target.to_str().ok()).unwrap_or("?");
        let message = format!("answered {status}: moved to `{}`", one_line(target));
        let mut error = ModelError::new(ErrorKind::BadRequest, message);
        error.status = Some(status);
        error.with_hint(format!(
            "redirects are not followed, they could carry the key elsewhere; if that address is \
                 right, set `{}.base_url` to it",
            self.endpoint.provider
        ))
    }
}

#[async_trait]
impl Wire for HttpWire {
    fn provider(&self) -> &str {
        self.endpoint.provider.name()
    }

    fn model(&self) -> &str {
        &self.endpoint.model
    }

    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode(&self, request: &Request, manner: Manner) -> Result<Encoded, ModelError> {
        let (endpoint, facts) = (&self.endpoint, &self.facts);
        dialect::encode(Outgoing { endpoint, facts, request, manner })
    }

    async fn send(
        &self,
        encoded: &Encoded,
        _request: &Request,
        sending: Sending<'_>,
    ) -> Result<Reply, ModelError> {
        let mut outcome = self.exchange(encoded, sending).await;
        // Only this provider's word on its prices is taken; a server that merely speaks the dialect could say anything.
        if let Ok(reply) = &mut outcome
            && self.endpoint.provider != Provider::OpenRouter
        {
            reply.cost = None;
        }
        // Who was sent the key could send it back, into a log or onto a cassette.
        if let (Ok(reply), Some(key)) = (&mut outcome, &self.endpoint.key) {
            reply.blot_out(key);
        }
        outcome.map_err(|error| {
            let named = if error.message().starts_with(self.provider()) {
                error
            } else {
                error.context(self.provider())
            };
            named.map_message(|message| presentable(message, self.endpoint.key.as_ref()))
        })
    }
}

/// Whether a provider is there, and what it says to a free question.
pub async fn probe(
    client: &HttpClient,
    endpoint: &Endpoint,
    patience: Duration,
) -> Result<(), ModelError> {
    let url = format!("{}{}", endpoint.base_url, dialect::probe_path(endpoint.provider));
    let asked = tokio::time::timeout(patience, ask(client, endpoint, &url, None)).await;
    let outcome = asked.unwrap_or_else(|_| {
        let seconds = patience.as_secs();
        Err(ModelError::new(ErrorKind::Timeout, format!("no answer within {seconds} s")))
    });
    outcome
        .map(drop)
        .map_err(|error| error.map_message(|message| presentable(message, endpoint.key.as_ref())))
}

/// Reads a JSON document from a provider.
pub(crate) async fn read_json(
    client: &HttpClient,
    endpoint: &Endpoint,
    url: &str,
    body: Option<&serde_json::Value>,
) -> Result<serde_json::Value, ModelError> {
    let response = ask(client, endpoint, url, body).await?;
    let body = read(response, LARGEST_DESCRIPTION, Excess::Refuse).await?;
    serde_json::from_slice(&body).map_err(|error| {
        ModelError::new(ErrorKind::Malformed, "the answer is not JSON").with_source(error)
    })
}

/// Sends a request that is no call to a model: by GET, or by POST where there is a body.
async fn ask(
    client: &HttpClient,
    endpoint: &Endpoint,
    url: &str,
    body: Option<&serde_json::Value>,
) -> Result<reqwest::Response, ModelError> {
    let wire = HttpWire::new(client.clone(), endpoint.clone(), ModelFacts::of(endpoint));
    let headers = header_map(&dialect::auth_headers(endpoint))?;
    let client = client.to(url)?;
    let request = match body {
        Some(body) => {
            client.post(url).header("content-type", "application/json").body(body.to_string())
        }
        None => client.get(url),
    };
    let response = request.headers(headers).send().await.map_err(|e| wire.unreachable(e))?;
    if response.status().is_success() { Ok(response) } else { Err(wire.refused(response).await) }
}

fn header_map(pairs: &[(&'static str, String)]) -> Result<HeaderMap, ModelError> {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            ModelError::new(ErrorKind::Unauthorized, "the key has characters that no key has")
                .with_hint("check the key for line breaks and quotes")
        })?;
        value.set_sensitive(true);
        map.insert(HeaderName::from_static(name), value);
    }
    Ok(map)
}

/// What to do with a body that is longer than wanted.
enum Excess {
    Refuse,
    Cut,
}

async fn read(
    response: reqwest::Response,
    most: usize,
    excess: Excess,
) -> Result<Bytes, ModelError> {
    let mut body = BytesMut::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = next_chunk(&mut chunks).await? {
        if body.len() + chunk.len() > most {
            match excess {
                Excess::Refuse => return Err(too_large()),
                Excess::Cut => break,
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
        let cause = one_line(&Failure::innermost(&error));
        let message = format!("the connection broke in the middle of the answer: {cause}");
        ModelError::new(ErrorKind::Connection, message)
    })
}

/// Waits so long and no longer. A stream lives as long as it speaks.
async fn patiently<T>(
    patience: Duration,
    work: impl Future<Output = T>,
    what: &str,
) -> Result<T, ModelError> {
    tokio::time::timeout(patience, work).await.map_err(|_| {
        let message = format!("{what} did not come within {} s", patience.as_secs());
        ModelError::new(ErrorKind::Timeout, message)
            .with_hint("allow more time with `gateway.timeout_seconds`")
    })
}

fn too_large() -> ModelError {
    let mib = LARGEST_ANSWER / 1024 / 1024;
    ModelError::new(ErrorKind::Malformed, format!("the answer is larger than {mib} MiB"))
}
