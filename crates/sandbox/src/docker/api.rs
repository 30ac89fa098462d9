//! Client for the HTTP API of a container engine: requests over a Unix socket or TCP, each over its own connection.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE};
use hyper::http::uri::Authority;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Timeout of requests to the engine. It is long, because the engine may be busy with many other requests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 64 << 20;

/// Body of a request.
pub(super) type RequestBody = UnsyncBoxBody<Bytes, io::Error>;

/// Parameters in the query of a URL.
pub(super) type Parameters<'a> = [(&'a str, &'a str)];

/// Connection that was upgraded from HTTP to a plain stream of bytes.
pub(super) type Upgrade = TokioIo<Upgraded>;

/// Error of a request to the engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The engine refused or failed to do what was requested.
    #[error("{message}")]
    Response { status: u16, message: String },
    #[error("the container engine timed out")]
    TimedOut,
    #[error(transparent)]
    Connect(#[from] io::Error),
    #[error(transparent)]
    Transfer(#[from] hyper::Error),
    #[error("unexpected response from the container engine: {0}")]
    Unexpected(String),
}

/// Client for the API of one engine.
#[derive(Debug, Clone)]
pub(crate) struct EngineApi {
    address: Address,
    /// Path prefix with the API version, such as `/v1.44`; empty for the engine's newest version.
    prefix: String,
    timeout: Duration,
}

#[derive(Debug, Clone)]
enum Address {
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl EngineApi {
    /// Creates a client for an engine at the path of a Unix socket, or at a `tcp://` or `http://` address.
    pub(super) fn new(host: &str) -> EngineApi {
        let tcp = ["tcp://", "http://"].iter().find_map(|scheme| host.strip_prefix(scheme));
        let address = match tcp {
            Some(address) => {
                let address = address.split('/').next().unwrap_or_default();
                Address::Tcp(match address.parse::<Authority>() {
                    Ok(parts) => format!("{}:{}", parts.host(), parts.port_u16().unwrap_or(80)),
                    // Connecting reports the error.
                    Err(_) => address.to_owned(),
                })
            }
            None => Address::Unix(host.strip_prefix("unix://").unwrap_or(host).into()),
        };
        EngineApi { address, prefix: String::new(), timeout: TIMEOUT }
    }

    /// Uses this version of the API, such as `1.44`.
    pub(super) fn with_version(self, version: &str) -> EngineApi {
        EngineApi { prefix: format!("/v{version}"), ..self }
    }

    pub(super) fn with_timeout(self, timeout: Duration) -> EngineApi {
        EngineApi { timeout, ..self }
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Parameters<'_>,
    ) -> Result<T, EngineError> {
        parse(&self.request(Method::GET, path, query, None).await?)
    }

    /// Like [`get`](Self::get), but returns the response as it is.
    pub(super) async fn get_bytes(
        &self,
        path: &str,
        query: &Parameters<'_>,
    ) -> Result<Bytes, EngineError> {
        self.request(Method::GET, path, query, None).await
    }

    pub(super) async fn post(
        &self,
        path: &str,
        query: &Parameters<'_>,
        body: Option<RequestBody>,
    ) -> Result<Bytes, EngineError> {
        self.request(Method::POST, path, query, body).await
    }

    pub(super) async fn put(
        &self,
        path: &str,
        query: &Parameters<'_>,
        body: RequestBody,
    ) -> Result<(), EngineError> {
        self.request(Method::PUT, path, query, Some(body)).await.map(drop)
    }

    pub(super) async fn delete(
        &self,
        path: &str,
        query: &Parameters<'_>,
    ) -> Result<(), EngineError> {
        self.request(Method::DELETE, path, query, None).await.map(drop)
    }

    /// Sends a request whose connection then carries a plain stream of bytes in both directions.
    pub(super) async fn upgrade(
        &self,
        path: &str,
        query: &Parameters<'_>,
    ) -> Result<Upgrade, EngineError> {
        let upgraded = async {
            let request = self.builder(Method::POST, path, query);
            let request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "tcp");
            let response = self.send(request.body(empty())).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let reason = format!("status {} instead of an upgrade", response.status());
                return Err(EngineError::Unexpected(reason));
            }
            Ok(TokioIo::new(hyper::upgrade::on(response).await?))
        };
        tokio::time::timeout(self.timeout, upgraded).await.map_err(|_| EngineError::TimedOut)?
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        query: &Parameters<'_>,
        body: Option<RequestBody>,
    ) -> Result<Bytes, EngineError> {
        let answered = async {
            let request = self.builder(method, path, query).body(body.unwrap_or_else(empty));
            read(self.send(request).await?).await
        };
        tokio::time::timeout(self.timeout, answered).await.map_err(|_| EngineError::TimedOut)?
    }

    fn builder(
        &self,
        method: Method,
        path: &str,
        query: &Parameters<'_>,
    ) -> hyper::http::request::Builder {
        let mut target = format!("{}{path}", self.prefix);
        for (number, (name, value)) in query.iter().enumerate() {
            let separator = if number == 0 { '?' } else { '&' };
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            let _ = write!(target, "{separator}{name}={value}");
        }
        let host = match &self.address {
            Address::Unix(_) => "localhost",
            Address::Tcp(address) => address,
        };
        let request = Request::builder().method(method).uri(target).header(HOST, host);
        request.header(CONTENT_TYPE, "application/json")
    }

    /// Sends a request over a new connection. A response with an error status is an error.
    async fn send(
        &self,
        request: Result<Request<RequestBody>, hyper::http::Error>,
    ) -> Result<Response<Incoming>, EngineError> {
        let request = request.map_err(io::Error::other)?;
        let response = self.connect().await?.send_request(request).await?;
        let status = response.status();
        // The engine responds "not modified" if a container runs already.
        let other = [StatusCode::SWITCHING_PROTOCOLS, StatusCode::NOT_MODIFIED];
        if status.is_success() || other.contains(&status) {
            return Ok(response);
        }
        let text = read(response).await?;
        let json: Option<Value> = serde_json::from_slice(&text).ok();
        let message = json.as_ref().and_then(|json| json["message"].as_str());
        let message = message.map_or_else(|| String::from_utf8_lossy(&text), Into::into);
        Err(EngineError::Response { status: status.as_u16(), message: message.trim().to_owned() })
    }

    async fn connect(&self) -> Result<SendRequest<RequestBody>, EngineError> {
        let stream: Box<dyn ByteStream> = match &self.address {
            Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Address::Tcp(address) => Box::new(TcpStream::connect(address).await?),
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }
}

/// Bytes in both directions.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

async fn read(response: Response<Incoming>) -> Result<Bytes, EngineError> {
    match Limited::new(response.into_body(), MAX_RESPONSE).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let reason = format!("more than {} MiB", MAX_RESPONSE >> 20);
            Err(EngineError::Unexpected(reason))
        }
        Err(error) => Err(match error.downcast::<hyper::Error>() {
            Ok(error) => EngineError::Transfer(*error),
            Err(error) => EngineError::Unexpected(error.to_string()),
        }),
    }
}

pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(body).map_err(|error| EngineError::Unexpected(error.to_string()))
}

fn empty() -> RequestBody {
    bytes(Bytes::new())
}

pub(super) fn json(value: &Value) -> RequestBody {
    bytes(value.to_string().into())
}

pub(super) fn bytes(bytes: Bytes) -> RequestBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn stream(bytes: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> RequestBody {
    StreamBody::new(bytes.map_ok(Frame::data)).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_engines_are_sockets_or_hosts_with_a_port() {
        let address = |host: &str| match EngineApi::new(host).address {
            Address::Unix(path) => path.display().to_string(),
            Address::Tcp(address) => address,
        };
        for (host, expected) in [
            ("/run/docker.sock", "/run/docker.sock"),
            ("unix:///run/docker.sock", "/run/docker.sock"),
            ("tcp://127.0.0.1:2375", "127.0.0.1:2375"),
            ("http://engine/", "engine:80"),
            ("tcp://[::1]:2375/v1.41", "[::1]:2375"),
        ] {
            assert_eq!(address(host), expected);
        }
    }
}
