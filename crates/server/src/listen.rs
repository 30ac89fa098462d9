//! Accepts and serves HTTP connections, plain or with TLS, with timeouts and a graceful shutdown.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use assize_types::{Failure, FailureKind};
use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::framing::RequestFraming;

/// Time after which a connection is closed if the client does not acknowledge the bytes that were sent to it.
const UNREAD: Duration = Duration::from_secs(120);

/// Maximum duration of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How clients reach the server.
#[derive(Debug, Clone)]
pub enum Exposure {
    /// Clients use plain HTTP, from this machine only.
    Local,
    /// Clients use HTTPS, and this process terminates TLS.
    Tls(TlsCertificate),
    /// Clients use HTTPS, and a reverse proxy terminates TLS.
    Proxy,
}

/// TLS certificate chain with its private key.
#[derive(Clone)]
pub struct TlsCertificate(Arc<ServerConfig>);

impl fmt::Debug for TlsCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsCertificate(…)")
    }
}

impl TlsCertificate {
    /// Reads the certificate chain and the private key from PEM files.
    pub fn read(certificate: &Path, key: &Path) -> Result<TlsCertificate, Failure> {
        let refused = |path: &Path, why: &dyn fmt::Display| {
            let message = format!("cannot use `{}` for TLS: {why}", path.display());
            Failure::new(FailureKind::Usage, message)
        };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(|chain| chain.collect::<Result<Vec<_>, _>>())
            .map_err(|error| refused(certificate, &error))?;
        let own = PrivateKeyDer::from_pem_file(key).map_err(|error| refused(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, own))
            .map_err(|error| refused(certificate, &error))?;
        Ok(TlsCertificate(Arc::new(config)))
    }
}

/// Maximum time that a client may take to send the head of a request.
const HEADERS: Duration = Duration::from_secs(20);

/// Maximum time that requests in progress have to complete when the server stops.
const GRACE: Duration = Duration::from_secs(3);

/// Maximum size in bytes of the read buffer and of the write buffer of one connection. The response body that is being
/// sent does not count.
const BUFFER: usize = 32 << 10;

/// Accepts and serves connections until `stop` is cancelled. Then waits up to [`GRACE`] for requests in progress.
pub(crate) async fn serve(
    mut listener: TcpListener,
    exposure: Exposure,
    router: Router,
    stop: CancellationToken,
) {
    let tls = match exposure {
        Exposure::Tls(TlsCertificate(config)) => Some(TlsAcceptor::from(config)),
        Exposure::Local | Exposure::Proxy => None,
    };
    let connections = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(BUFFER);
    loop {
        // axum's `accept` retries after errors such as too many open files.
        let (stream, _) = tokio::select! {
            accepted = Listener::accept(&mut listener) => accepted,
            () = stop.cancelled() => break,
        };
        set_options(&stream);
        let (http, tls, stop) = (http.clone(), tls.clone(), stop.clone());
        let (service, watcher) = (TowerToHyperService::new(router.clone()), connections.watcher());
        tokio::spawn(async move {
            let stream = match tls {
                None => Either::Left(stream),
                Some(tls) => {
                    let handshake = tokio::time::timeout(HANDSHAKE, tls.accept(stream));
                    match stop.run_until_cancelled(handshake).await {
                        Some(Ok(Ok(stream))) => Either::Right(stream),
                        _ => return,
                    }
                }
            };
            let (reader, writer) = tokio::io::split(stream);
            let reader = CheckedReader { reader, framing: RequestFraming::default() };
            let stream = TokioIo::new(tokio::io::join(reader, writer));
            // Errors are ignored, because a client may close the connection at any time.
            let _ = watcher.watch(http.serve_connection(stream, service)).await;
        });
    }
    let _ = tokio::time::timeout(GRACE, connections.shutdown()).await;
}

/// Sets the socket options of a connection: close it if the client no longer acknowledges data, and send small writes
/// at once.
fn set_options(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let _ = socket.set_tcp_user_timeout(Some(UNREAD));
    // Events are short, and clients should receive each event without delay.
    let _ = socket.set_tcp_nodelay(true);
}

/// Reader of a connection that rejects requests with both a `Content-Length` and a `Transfer-Encoding` header (see
/// [`RequestFraming`]).
struct CheckedReader<R> {
    reader: R,
    framing: RequestFraming,
}

impl<R: AsyncRead + Unpin> AsyncRead for CheckedReader<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let CheckedReader { reader, framing } = self.get_mut();
        let polled = Pin::new(reader).poll_read(context, into);
        framing.read(&mut into.filled_mut()[before..]);
        polled
    }
}
