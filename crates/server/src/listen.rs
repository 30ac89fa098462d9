//! Connections: plain or TLS, with timeouts and graceful shutdown.

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

/// How long a client may leave sent bytes unacknowledged before the connection is closed.
const UNREAD: Duration = Duration::from_secs(120);

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How clients reach the server.
#[derive(Debug, Clone)]
pub enum Exposure {
    /// Plain HTTP, from this machine only.
    Local,
    /// HTTPS, terminated by this process.
    Tls(TlsCertificate),
    /// HTTPS, terminated by a reverse proxy.
    Proxy,
}

/// TLS certificate chain with its private key.
#[derive(Clone)]
pub struct TlsCertificate(Arc<ServerConfig>);

impl fmt::Debug for TlsCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(…)")
    }
}

impl TlsCertificate {
    /// Reads the certificate chain and the key from PEM files.
    pub fn read(certificate: &Path, key: &Path) -> Result<TlsCertificate, Failure> {
        let refused = |path: &Path, why: &dyn fmt::Display| {
            let message = format!("cannot use `{}`: {why}", path.display());
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

/// How long a client may take to send the head of a request.
const HEADERS: Duration = Duration::from_secs(20);

/// How long requests in progress may take once the server stops.
const GRACE: Duration = Duration::from_secs(3);

/// Maximum buffer of one connection in each direction, besides the response body being sent.
const BUFFER: usize = 32 << 10;

/// Serves until `stop` is cancelled; requests in progress then have [`GRACE`] to end.
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
            // An error here is normal: a client may close the connection at any time.
            let _ = watcher.watch(http.serve_connection(stream, service)).await;
        });
    }
    let _ = tokio::time::timeout(GRACE, connections.shutdown()).await;
}

/// Closes connections whose peer is gone or stuck, and sends small writes at once.
fn set_options(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let _ = socket.set_tcp_user_timeout(Some(UNREAD));
    // Events are short, and the client should get each without delay.
    let _ = socket.set_tcp_nodelay(true);
}

/// Reader of a connection that checks incoming requests for ambiguous lengths.
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
