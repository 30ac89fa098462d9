//! The place in the network, and how callers are spoken to.

use std::net::SocketAddr;
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
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::framing::Framing;

/// How long somebody may leave what was sent to them unread before the line is cut.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long it may take to agree on a cipher.
const GREETING: Duration = Duration::from_secs(10);

/// How the server is reached.
#[derive(Debug, Clone)]
pub enum Exposure {
    /// In clear, on this machine alone.
    Local,
    /// Encrypted by us.
    Tls(Certificate),
    /// Encrypted by whoever stands before us.
    Proxy,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(…)")
    }
}

impl Certificate {
    /// Reads both from files in PEM.
    pub fn read(certificate: &Path, key: &Path) -> Result<Certificate, Failure> {
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
        Ok(Certificate(Arc::new(config)))
    }
}

/// Where callers come in.
#[derive(Debug)]
pub(crate) enum Door {
    Clear(TcpListener),
    /// Greetings happen aside: whoever is slow keeps nobody else waiting.
    Tls {
        greeted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
        address: SocketAddr,
    },
}

impl Door {
    pub(crate) fn new(listener: TcpListener, address: SocketAddr, exposure: &Exposure) -> Door {
        let Exposure::Tls(Certificate(config)) = exposure else { return Door::Clear(listener) };
        let acceptor = TlsAcceptor::from(config.clone());
        let (send, greeted) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut listener = listener;
            loop {
                let came = tokio::select! {
                    came = Listener::accept(&mut listener) => came,
                    // The door is closed.
                    () = send.closed() => return,
                };
                let (stream, from) = came;
                patient(&stream);
                let (acceptor, send) = (acceptor.clone(), send.clone());
                tokio::spawn(async move {
                    let greeting = tokio::time::timeout(GREETING, acceptor.accept(stream)).await;
                    if let Ok(Ok(stream)) = greeting {
                        let _ = send.send((stream, from)).await;
                    }
                });
            }
        });
        Door::Tls { greeted, address }
    }
}

/// How long somebody may take to say what they want, and those who are being answered may take when the server stops.
const HEADERS: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(3);

/// The most that is held for one line, in and out, besides what is being sent.
const LINE: usize = 32 << 10;

/// Serves whoever comes until it is told to stop; those who are being answered then have a moment.
pub(crate) async fn serve(mut door: Door, router: Router, stop: CancellationToken) {
    let lines = GracefulShutdown::new();
    loop {
        let line = tokio::select! {
            (line, _) = door.accept() => line,
            () = stop.cancelled() => break,
        };
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(LINE);
        let service = TowerToHyperService::new(router.clone());
        let line = lines.watch(http.serve_connection(TokioIo::new(line), service));
        tokio::spawn(async move {
            // Whoever hangs up does so.
            let _ = line.await;
        });
    }
    let _ = tokio::time::timeout(GRACE, lines.shutdown()).await;
}

/// Cuts the line of those who are gone or stuck, in the end.
fn patient(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let _ = socket.set_tcp_user_timeout(Some(PATIENCE));
    // Events are short, and somebody waits for each.
    let _ = socket.set_tcp_nodelay(true);
}

impl Listener for Door {
    type Io = Line;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Line, SocketAddr) {
        match self {
            Door::Clear(listener) => {
                // It goes on after failures, such as too many open files.
                let (stream, from) = Listener::accept(listener).await;
                patient(&stream);
                (Line::new(Stream::Clear(stream)), from)
            }
            Door::Tls { greeted, .. } => match greeted.recv().await {
                Some((stream, from)) => (Line::new(Stream::Tls(Box::new(stream))), from),
                // Its task lives as long as we do.
                None => std::future::pending().await,
            },
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Door::Clear(listener) => listener.local_addr(),
            Door::Tls { address, .. } => Ok(*address),
        }
    }
}

/// A line to one caller, whose requests are checked for ambiguous lengths as they come in.
pub(crate) struct Line {
    stream: Stream,
    framing: Framing,
}

impl Line {
    fn new(stream: Stream) -> Line {
        Line { stream, framing: Framing::default() }
    }
}

/// The connection, encrypted or not.
enum Stream {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let Line { stream, framing } = self.get_mut();
        let polled = match stream {
            Stream::Clear(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, into),
        };
        framing.read(&mut into.filled_mut()[before..]);
        polled
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Clear(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Clear(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Clear(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Clear(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Clear(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
