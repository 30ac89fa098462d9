//! Minimal HTTP server for tests. The server can also simulate faults.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

/// Semaphore at which threads of the server wait until the test admits them.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    admitted: Mutex<usize>,
    changed: Condvar,
}

impl Turnstile {
    pub(crate) fn admit(&self, count: usize) {
        let mut admitted = self.admitted.lock().unwrap();
        *admitted = admitted.saturating_add(count);
        self.changed.notify_all();
    }

    /// Lets all threads pass from now on.
    pub(crate) fn open(&self) {
        self.admit(usize::MAX / 2);
    }

    fn pass(&self) {
        let admitted = self.admitted.lock().unwrap();
        *self.changed.wait_while(admitted, |admitted| *admitted == 0).unwrap() -= 1;
    }
}

/// A received HTTP request.
#[derive(Debug, Clone)]
pub(crate) struct RawRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// How the server responds to a request.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Sends a complete response; the connection stays open.
    Respond { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// Streams a body of unknown length in chunks.
    Stream {
        headers: Vec<(String, String)>,
        pieces: Vec<Vec<u8>>,
        /// Delay before the last chunk, to simulate the time that an answer takes.
        pause: Duration,
        /// If set, each chunk is sent only after the test has admitted it at this turnstile.
        turnstile: Option<Arc<Turnstile>>,
        end: StreamEnd,
    },
    /// Accepts the request and never answers.
    Hang,
    /// Closes the connection without an answer.
    Close,
}

/// How a streamed body ends.
#[derive(Debug, Clone)]
pub(crate) enum StreamEnd {
    /// The body is complete.
    Complete,
    /// The connection is reset after the test has admitted the reset at this turnstile.
    Reset(Arc<Turnstile>),
    /// The body never ends: the last chunk is repeated.
    Never,
    /// No more data is sent, but the connection stays open.
    Silence,
    /// The body is complete, and the connection is closed when the client sends another request over it.
    CloseOnReuse,
}

/// Serves one connection until it is closed. `decide` chooses the response to each request.
pub(crate) fn serve(mut stream: TcpStream, decide: impl Fn(RawRequest) -> Action) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Ok(Some(request)) = read_request(&mut stream, &mut buffer) {
        match decide(request) {
            Action::Respond { status, headers, body } => {
                let length = format!("content-length: {}", body.len());
                let answer = [head(status, &headers, &length).as_bytes(), &body].concat();
                if stream.write_all(&answer).is_err() {
                    return;
                }
            }
            Action::Stream { headers, pieces, pause, turnstile: by, end } => {
                let proper = matches!(end, StreamEnd::Complete);
                let head = head(200, &headers, "transfer-encoding: chunked");
                let sent = stream
                    .write_all(head.as_bytes())
                    .and_then(|()| send_pieces(&mut stream, &pieces, pause, by, end));
                if sent.is_err() || !proper {
                    return;
                }
            }
            Action::Hang => {
                wait_for_close(&mut stream);
                return;
            }
            Action::Close => return,
        }
    }
}

fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<RawRequest>> {
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some((request, used)) = parse(buffer) {
            buffer.drain(..used);
            return Ok(Some(request));
        }
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(None);
        }
        buffer.extend_from_slice(&chunk[..count]);
    }
}

/// Parses the first complete request in `bytes`. Returns the request and its length in bytes.
fn parse(bytes: &[u8]) -> Option<(RawRequest, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) =
        parsed.parse(bytes).expect("the client sent a malformed request head")
    else {
        return None;
    };
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|h| (h.name.to_lowercase(), String::from_utf8_lossy(h.value).into_owned()))
        .collect();
    let length: usize =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| {
            value.parse().expect("the client sent a content-length that is not a number")
        });
    let body = bytes.get(head..head + length)?.to_vec();
    let method = parsed.method.unwrap().to_owned();
    let path = parsed.path.unwrap().to_owned();
    Some((RawRequest { method, path, headers, body }, head + length))
}

fn head(status: u16, headers: &[(String, String)], length: &str) -> String {
    let own: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} X\r\n{own}{length}\r\n\r\n")
}

fn send_pieces(
    stream: &mut TcpStream,
    pieces: &[Vec<u8>],
    pause: Duration,
    by: Option<Arc<Turnstile>>,
    end: StreamEnd,
) -> io::Result<()> {
    for (index, piece) in pieces.iter().enumerate() {
        by.iter().for_each(|by| by.pass());
        if index + 1 == pieces.len() {
            thread::sleep(pause);
        }
        send_chunk(stream, piece)?;
    }
    match end {
        StreamEnd::Complete => stream.write_all(b"0\r\n\r\n"),
        StreamEnd::Silence => {
            wait_for_close(stream);
            Ok(())
        }
        StreamEnd::CloseOnReuse => {
            stream.write_all(b"0\r\n\r\n")?;
            // Returns when the next request arrives, or when the client closes the connection.
            stream.read(&mut [0]).map(drop)
        }
        StreamEnd::Never => loop {
            send_chunk(stream, pieces.last().map_or(b" ", |piece| piece))?;
        },
        StreamEnd::Reset(gate) => {
            // Wait for the test first: a reset discards data that the client has not read yet.
            gate.pass();
            SockRef::from(&*stream).set_linger(Some(Duration::ZERO))
        }
    }
}

fn send_chunk(stream: &mut TcpStream, piece: &[u8]) -> io::Result<()> {
    write!(stream, "{:x}\r\n", piece.len())?;
    stream.write_all(piece)?;
    stream.write_all(b"\r\n")
}

/// Reads until the client closes the connection.
fn wait_for_close(stream: &mut TcpStream) {
    let mut sink = [0; 1024];
    while stream.read(&mut sink).is_ok_and(|count| count > 0) {}
}
