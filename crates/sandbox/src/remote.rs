//! Access to a named sandbox from a process (the *client*) that did not create it. The process that created the sandbox
//! is its *owner*.
//!
//! A client connects to the owner's socket and sends its request as one line of JSON. After a request to use a sandbox,
//! the client speaks the guest agent's protocol on the same connection, and the owner relays each stream.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_protocol::{
    ExecRequest, Frame, FrameDecoder, FrameKind, GuestRequest, Hello, StreamId, VERSION, WINDOW,
    Welcome, port,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backend::{ResourceUsage, SandboxHandle, StartedSandbox};
use crate::channel::{Channel, StreamItem, StreamSender};
use crate::error::SandboxError;
use crate::registry::ShortSocketPath;
use crate::sandbox::Sandbox;

/// Request from a client to the owner of a sandbox.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RemoteRequest {
    /// Use a sandbox: the connection becomes a channel to its guest agent.
    Use { id: String },
    /// Report the resource usage of a sandbox.
    Account { id: String },
    /// End a sandbox.
    End { id: String },
}

/// Reply from the owner of a sandbox to a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Yes,
    Account(ResourceUsage),
    No(String),
}

/// Access to the named sandboxes that this process owns.
#[async_trait]
pub(crate) trait SandboxOwner: Send + Sync + 'static {
    /// Waits until a sandbox is ready and returns it; `None` if it has ended or could not be created.
    async fn sandbox(&self, id: &str) -> Option<Sandbox>;
    async fn end(&self, id: &str);
}

/// Maximum length of a request line or reply line, in bytes.
const MAX_LINE: u64 = 64 * 1024;

/// Serves one client. If `stop` is cancelled after a request was read, the request is still answered, because the
/// request itself may have caused the cancellation.
pub(crate) async fn answer(
    host: Arc<dyn SandboxOwner>,
    connection: UnixStream,
    stop: CancellationToken,
) {
    let (input, mut output) = connection.into_split();
    let mut input = BufReader::new(input);
    let mut line = String::new();
    let read = tokio::select! {
        () = stop.cancelled() => return,
        read = async { (&mut input).take(MAX_LINE).read_line(&mut line).await } => read,
    };
    if read.is_err() {
        return;
    }
    let request = serde_json::from_str::<RemoteRequest>(&line);
    let id = match &request {
        Ok(
            RemoteRequest::Use { id } | RemoteRequest::Account { id } | RemoteRequest::End { id },
        ) => id.clone(),
        Err(_) => String::new(),
    };
    let sandbox = host.sandbox(&id).await;
    let answer = match (&request, &sandbox) {
        (Err(error), _) => Answer::No(format!("invalid request: {error}")),
        (Ok(_), None) => Answer::No("the sandbox has ended".to_owned()),
        (Ok(RemoteRequest::Use { .. }), Some(_)) => Answer::Yes,
        (Ok(RemoteRequest::Account { .. }), Some(sandbox)) => {
            Answer::Account(sandbox.usage().await)
        }
        (Ok(RemoteRequest::End { .. }), Some(_)) => {
            host.end(&id).await;
            Answer::Yes
        }
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    if output.write_all(&text).await.is_err() {
        return;
    }
    if let (Ok(RemoteRequest::Use { .. }), Some(sandbox)) = (request, sandbox) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = sandbox.ended() => {}
            () = relay(&sandbox, input, output) => {}
        }
    }
}

/// Stream of a client that the owner relays to the guest agent.
struct Relayed {
    /// Id of the stream on the channel to the guest agent.
    guest_stream: StreamId,
    /// Queue of input to relay; `None` marks the end of the input. The queue never contains more bytes than one
    /// flow-control window, because the client has no credit to send more.
    input: mpsc::UnboundedSender<Option<Vec<u8>>>,
    /// Number of bytes that the client can still receive on each port.
    credit: [Arc<Semaphore>; port::COUNT],
    stop: CancellationToken,
}

async fn relay(
    sandbox: &Sandbox,
    mut input: impl tokio::io::AsyncRead + Unpin,
    mut output: impl tokio::io::AsyncWrite + Unpin + Send + 'static,
) {
    let (outgoing, mut to_send) = mpsc::channel::<Vec<u8>>(16);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(bytes) = to_send.recv().await {
            if output.write_all(&bytes).await.is_err() {
                break;
            }
        }
    });
    let mut streams: HashMap<StreamId, Relayed> = HashMap::new();
    let mut decoder = FrameDecoder::new();
    let mut buffer = vec![0; 64 * 1024];
    // Requests that are still in progress are cancelled when this function returns and drops the tasks.
    while let Ok(count @ 1..) = input.read(&mut buffer).await {
        decoder.push(&buffer[..count]);
        loop {
            let frame = match decoder.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return,
            };
            let relayed = relay_frame(sandbox, frame, &mut streams, &outgoing, &mut tasks).await;
            if relayed.is_none() {
                return;
            }
        }
    }
}

/// Relays one frame of a client. Returns `None` if the frame is invalid or the connection is closed.
async fn relay_frame(
    sandbox: &Sandbox,
    frame: Frame,
    streams: &mut HashMap<StreamId, Relayed>,
    outgoing: &mpsc::Sender<Vec<u8>>,
    tasks: &mut JoinSet<()>,
) -> Option<()> {
    let id = frame.stream;
    match frame.kind {
        FrameKind::Hello => {
            sandbox.channel().welcome().await.ok()?;
            let mut bytes = Vec::new();
            Frame::put_message(&mut bytes, FrameKind::Hello, 0, &Welcome { version: VERSION })
                .ok()?;
            outgoing.send(bytes).await.ok()?;
        }
        FrameKind::Open => {
            let request: GuestRequest = frame.message().ok()?;
            let request = match request {
                // Only the owner can answer calls of a program to the host.
                GuestRequest::Exec(exec) => GuestRequest::Exec(ExecRequest { talk: false, ..exec }),
                // A signal request contains the client's stream id of the program, which is translated here.
                GuestRequest::Signal { exec, signal } => {
                    let exec = streams.get(&exec).map_or(0, |stream| stream.guest_stream);
                    GuestRequest::Signal { exec, signal }
                }
                request => request,
            };
            streams.retain(|_, stream| !stream.input.is_closed());
            let stream = sandbox.channel().open(&request).ok()?;
            let credit = [(); port::COUNT].map(|()| Arc::new(Semaphore::new(WINDOW as usize)));
            let stop = CancellationToken::new();
            let (input, to_send) = mpsc::unbounded_channel();
            let guest_stream = stream.id();
            streams.insert(
                id,
                Relayed { guest_stream, input, credit: credit.clone(), stop: stop.clone() },
            );
            let over = CancellationToken::new();
            tasks.spawn(relay_input(stream.sender(), id, to_send, outgoing.clone(), over.clone()));
            tasks.spawn(relay_output(
                stream,
                id,
                credit,
                stop,
                outgoing.clone(),
                over.drop_guard(),
            ));
        }
        FrameKind::Data => {
            let (_, bytes) = frame.on_port().ok()?;
            // The data is queued without waiting, because the guest agent may need a later frame first.
            if let Some(stream) = streams.get(&id) {
                let _ = stream.input.send(Some(bytes.to_vec()));
            }
        }
        FrameKind::Close => {
            if let Some(stream) = streams.get(&id) {
                let _ = stream.input.send(None);
            }
        }
        FrameKind::Credit => {
            let (port, bytes) = frame.credit().ok()?;
            let credit = streams.get(&id).and_then(|stream| stream.credit.get(usize::from(port)));
            if let Some(credit) = credit {
                credit.add_permits(bytes.min(WINDOW) as usize);
            }
        }
        FrameKind::Cancel => streams.get(&id).into_iter().for_each(|stream| stream.stop.cancel()),
        FrameKind::Done | FrameKind::Call | FrameKind::Answer | FrameKind::Event => {}
    }
    Some(())
}

/// Relays the client's input on a stream to the guest agent, and grants new credit to the client.
async fn relay_input(
    sender: StreamSender,
    id: StreamId,
    mut input: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
    outgoing: mpsc::Sender<Vec<u8>>,
    over: CancellationToken,
) {
    while let Some(Some(bytes)) = over.run_until_cancelled(input.recv()).await {
        let Some(bytes) = bytes else { return sender.close() };
        if sender.send(&bytes).await.is_err() {
            return;
        }
        let mut credit = Vec::new();
        Frame::put_credit(&mut credit, id, port::IN, u32::try_from(bytes.len()).unwrap_or(0));
        if outgoing.send(credit).await.is_err() {
            return;
        }
    }
}

/// Relays the guest agent's output and reply on a stream to the client.
async fn relay_output(
    mut stream: crate::channel::RequestStream,
    id: StreamId,
    credit: [Arc<Semaphore>; port::COUNT],
    stop: CancellationToken,
    outgoing: mpsc::Sender<Vec<u8>>,
    _over: tokio_util::sync::DropGuard,
) {
    let mut stopped = false;
    loop {
        let next = tokio::select! {
            () = stop.cancelled(), if !stopped => {
                stopped = true;
                stream.cancel();
                continue;
            }
            next = stream.next() => next,
        };
        let mut bytes = Vec::new();
        match next {
            Ok(StreamItem::Chunk(piece)) => {
                let size = u32::try_from(piece.bytes.len()).unwrap_or(0);
                let credit = &credit[usize::from(piece.port)];
                match credit.acquire_many(size).await {
                    Ok(permits) => permits.forget(),
                    Err(_) => return,
                }
                Frame::put_data(&mut bytes, id, piece.port, &piece.bytes);
            }
            Ok(StreamItem::Reply(reply)) => {
                let _ = Frame::put_message(&mut bytes, FrameKind::Done, id, &reply);
                let _ = outgoing.send(bytes).await;
                return;
            }
            Err(_) => return,
        }
        if outgoing.send(bytes).await.is_err() {
            return;
        }
    }
}

/// Sends a request to the owner of a sandbox and reads the reply.
async fn request(
    socket: &Path,
    request: &RemoteRequest,
) -> Result<(UnixStream, Answer), SandboxError> {
    let failed = |error: std::io::Error| {
        SandboxError::failed("connecting to the process that owns the sandbox", error)
    };
    let short = ShortSocketPath::of(socket).map_err(failed)?;
    let mut connection = UnixStream::connect(short.get()).await.map_err(failed)?;
    let mut line = serde_json::to_vec(request).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    connection.write_all(&line).await.map_err(failed)?;
    // The reply is read byte by byte, because the bytes after its line belong to the guest agent's protocol.
    let mut answer = Vec::new();
    while answer.last() != Some(&b'\n') && (answer.len() as u64) < MAX_LINE {
        answer.push(connection.read_u8().await.map_err(failed)?);
    }
    let answer = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
    match answer {
        Answer::No(reason) => Err(SandboxError::SandboxFailed(reason)),
        answer => Ok((connection, answer)),
    }
}

/// Connects to a sandbox of another process.
pub(crate) async fn connect(
    socket: &Path,
    id: &str,
    hello: &Hello,
) -> Result<StartedSandbox, SandboxError> {
    let (connection, _) = request(socket, &RemoteRequest::Use { id: id.to_owned() }).await?;
    let channel = Channel::over(connection, hello);
    let cell = RemoteCell { socket: socket.to_owned(), id: id.to_owned() };
    Ok(StartedSandbox { channel, handle: Box::new(cell) })
}

/// Ends a sandbox of another process.
pub(crate) async fn end(socket: &Path, id: &str) -> Result<(), SandboxError> {
    request(socket, &RemoteRequest::End { id: id.to_owned() }).await.map(drop)
}

/// Handle on a sandbox of another process.
#[derive(Debug)]
struct RemoteCell {
    socket: PathBuf,
    id: String,
}

#[async_trait]
impl SandboxHandle for RemoteCell {
    async fn usage(&self) -> ResourceUsage {
        match request(&self.socket, &RemoteRequest::Account { id: self.id.clone() }).await {
            Ok((_, Answer::Account(account))) => account,
            _ => ResourceUsage::default(),
        }
    }

    async fn end(&self) {
        // An error means that the sandbox or its owner has already ended.
        let _ = end(&self.socket, &self.id).await;
    }

    async fn diagnostic_output(&self) -> Option<String> {
        None
    }
}
