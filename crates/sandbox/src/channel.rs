//! Host side of the channel to a guest agent: many streams multiplexed on one connection.
//!
//! Input from the guest agent is untrusted. Invalid frames, malformed replies, and data beyond the granted credit close
//! the connection. Frames of unknown streams are dropped. Flow-control windows limit the size of receive buffers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assize_protocol::{
    Frame, FrameDecoder, FrameKind, GuestReply, GuestRequest, Hello, StreamId, VERSION, WINDOW,
    Welcome, port,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Timeout for requests that the guest agent should answer at once.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Error of an operation on a closed channel. The text is the reason why the channel was closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ChannelClosed(pub(crate) String);

/// Received chunk of a program's output or of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamChunk {
    pub(crate) port: u8,
    pub(crate) bytes: Vec<u8>,
}

/// Connection to one guest agent. Clones share the connection, which is closed when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    /// Stops the send task and the receive task when the last clone of the channel is dropped.
    _open: Arc<tokio_util::sync::DropGuard>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    last_id: StreamId,
    streams: HashMap<StreamId, Inbox>,
    welcome: Option<Welcome>,
    gone: Option<ChannelClosed>,
}

/// State of one stream: received data, flow control, and the reply.
#[derive(Debug)]
struct Inbox {
    /// Port (such as standard output or standard error) and length of each received chunk, in order of arrival. If a
    /// program writes alternately to two ports, chunks may have a length of one byte.
    order: VecDeque<(u8, u32)>,
    bytes: [VecDeque<u8>; port::COUNT],
    /// Number of bytes that the guest agent is still allowed to send to the host on each port of the stream.
    windows: [u32; port::COUNT],
    /// Number of bytes that the host is still allowed to send to the guest agent on each port of the stream.
    credit: [u32; port::COUNT],
    reply: Option<GuestReply>,
    wakers: Arc<Wakers>,
}

/// Notifications of a stream: `arrived` wakes the receiver when data arrives, `room` wakes the sender when it has
/// credit.
#[derive(Debug, Default)]
struct Wakers {
    arrived: Notify,
    room: Notify,
}

impl Wakers {
    fn wake_both(&self) {
        self.arrived.notify_one();
        self.room.notify_waiters();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the channel as closed for this reason and wakes all waiting tasks.
    fn fail(&self, reason: String) {
        let mut state = self.lock();
        state.gone.get_or_insert(ChannelClosed(reason));
        for inbox in state.streams.values() {
            inbox.wakers.wake_both();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn handle(&self, frame: Frame) -> Result<(), String> {
        let mut state = self.lock();
        if frame.kind == FrameKind::Hello {
            let welcome: Welcome = frame.message().map_err(|error| error.to_string())?;
            if welcome.version != VERSION {
                let theirs = welcome.version;
                return Err(format!("unsupported protocol version {theirs} (expected {VERSION})"));
            }
            state.welcome = Some(welcome);
            drop(state);
            self.changed.notify_waiters();
            return Ok(());
        }
        // Frames of a stream that was dropped or never opened are ignored.
        let Some(inbox) = state.streams.get_mut(&frame.stream) else { return Ok(()) };
        match frame.kind {
            FrameKind::Data => {
                let (port, bytes) = frame.on_port().map_err(|error| error.to_string())?;
                inbox.push(port, bytes)?;
                inbox.wakers.arrived.notify_one();
            }
            FrameKind::Credit => {
                let (port, bytes) = frame.credit().map_err(|error| error.to_string())?;
                if let Some(credit) = inbox.credit.get_mut(usize::from(port)) {
                    *credit = credit.saturating_add(bytes).min(WINDOW);
                    inbox.wakers.room.notify_waiters();
                }
            }
            FrameKind::Done => {
                inbox.reply = Some(frame.message().map_err(|error| error.to_string())?);
                inbox.wakers.wake_both();
            }
            // Frames of all other kinds are ignored, because a guest agent never sends them.
            FrameKind::Hello
            | FrameKind::Open
            | FrameKind::Close
            | FrameKind::Cancel
            | FrameKind::Call
            | FrameKind::Answer
            | FrameKind::Event => {}
        }
        Ok(())
    }
}

impl Inbox {
    fn push(&mut self, port: u8, bytes: &[u8]) -> Result<(), String> {
        let window = self
            .windows
            .get_mut(usize::from(port))
            .ok_or("data for an unknown port of a stream")?;
        if bytes.is_empty() {
            return Ok(());
        }
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        *window =
            window.checked_sub(size).ok_or("more data than the flow-control window allows")?;
        self.bytes[usize::from(port)].extend(bytes);
        match self.order.back_mut() {
            // Consecutive chunks of one port are merged, so that many small frames need no more memory than one large
            // frame.
            Some((last, count)) if *last == port => *count += size,
            _ => self.order.push_back((port, size)),
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<StreamChunk> {
        let (port, count) = self.order.pop_front()?;
        let queue = &mut self.bytes[usize::from(port)];
        let (front, back) = queue.as_slices();
        let mut bytes = Vec::with_capacity(count as usize);
        bytes.extend_from_slice(&front[..front.len().min(count as usize)]);
        bytes.extend_from_slice(&back[..count as usize - bytes.len()]);
        queue.drain(..count as usize);
        self.windows[usize::from(port)] += count;
        Some(StreamChunk { port, bytes })
    }
}

impl Channel {
    /// Opens a channel on a connection: sends `Hello` and starts the background tasks that send and receive frames.
    pub(crate) fn over<C>(connection: C, hello: &Hello) -> Channel
    where
        C: AsyncRead + AsyncWrite + Send + 'static,
    {
        let shared = Arc::new(Shared::default());
        let (outgoing, to_send) = mpsc::unbounded_channel();
        let open = CancellationToken::new();
        let (input, output) = tokio::io::split(connection);
        let mut first = Vec::new();
        // Encoding fails only for a message above the maximum frame size, and `Hello` is far smaller.
        let _ = Frame::put_message(&mut first, FrameKind::Hello, 0, hello);
        let _ = outgoing.send(first);
        tokio::spawn(receive(input, Arc::clone(&shared), open.clone()));
        tokio::spawn(send(output, to_send, Arc::clone(&shared), open.clone()));
        Channel { shared, outgoing, _open: Arc::new(open.drop_guard()) }
    }

    /// Waits for the guest agent's reply to `Hello`.
    pub(crate) async fn welcome(&self) -> Result<Welcome, ChannelClosed> {
        let answer = || {
            let state = self.shared.lock();
            let gone = || state.gone.clone().map(Err);
            state.welcome.clone().map(Ok).or_else(gone)
        };
        until(&self.shared.changed, answer).await
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.lock().gone.is_some()
    }

    /// Waits until the connection ends and returns the reason. The future does not keep the connection open.
    pub(crate) fn closed(&self) -> impl Future<Output = ChannelClosed> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move { until(&shared.changed, || shared.lock().gone.clone()).await }
    }

    pub(crate) fn open(&self, request: &GuestRequest) -> Result<RequestStream, ChannelClosed> {
        let mut state = self.shared.lock();
        if let Some(gone) = &state.gone {
            return Err(gone.clone());
        }
        state.last_id += 1;
        let id = state.last_id;
        let wakers = Arc::new(Wakers::default());
        let inbox = Inbox {
            order: VecDeque::new(),
            bytes: Default::default(),
            windows: [0, WINDOW, WINDOW, WINDOW],
            credit: [WINDOW, 0, 0, WINDOW],
            reply: None,
            wakers: Arc::clone(&wakers),
        };
        state.streams.insert(id, inbox);
        drop(state);
        let mut bytes = Vec::new();
        if let Err(error) = Frame::put_message(&mut bytes, FrameKind::Open, id, request) {
            self.shared.lock().streams.remove(&id);
            return Err(ChannelClosed(error.to_string()));
        }
        let _ = self.outgoing.send(bytes);
        Ok(RequestStream { endpoint: Arc::new(Endpoint { channel: self.clone(), id, wakers }) })
    }
}

/// Calls `check` now and after each notification of `changed`, until `check` returns a value.
pub(crate) async fn until<T>(changed: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        let next = changed.notified();
        tokio::pin!(next);
        // Subscribe to notifications before the check, so that no change after the check is missed.
        next.as_mut().enable();
        if let Some(found) = check() {
            return found;
        }
        next.await;
    }
}

async fn receive<R: AsyncRead>(input: R, shared: Arc<Shared>, open: CancellationToken) {
    tokio::pin!(input);
    let mut decoder = FrameDecoder::new();
    let mut buffer = vec![0; 64 * 1024];
    let reason = 'receive: loop {
        let count = tokio::select! {
            () = open.cancelled() => break "the host has closed the channel".to_owned(),
            read = input.read(&mut buffer) => match read {
                Ok(0) => break CONNECTION_LOST.to_owned(),
                Ok(count) => count,
                Err(error) => break io_failure(&error),
            },
        };
        decoder.push(&buffer[..count]);
        loop {
            let handled = match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => shared.handle(frame),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = handled {
                break 'receive format!("the guest agent sent an invalid frame: {error}");
            }
        }
    };
    shared.fail(reason);
    open.cancel();
}

const CONNECTION_LOST: &str = "lost the connection to the guest agent";

fn io_failure(error: &std::io::Error) -> String {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    // The guest agent closed the connection before it had read all data.
    if matches!(error.kind(), BrokenPipe | ConnectionReset) {
        return CONNECTION_LOST.to_owned();
    }
    format!("the channel to the guest agent failed: {error}")
}

async fn send<W: AsyncWrite>(
    output: W,
    mut to_send: mpsc::UnboundedReceiver<Vec<u8>>,
    shared: Arc<Shared>,
    open: CancellationToken,
) {
    tokio::pin!(output);
    loop {
        let next = tokio::select! {
            () = open.cancelled() => break,
            next = to_send.recv() => next,
        };
        let Some(mut bytes) = next else { break };
        while let Ok(more) = to_send.try_recv() {
            bytes.extend_from_slice(&more);
        }
        let written = tokio::select! {
            () = open.cancelled() => break,
            written = async { output.write_all(&bytes).await?; output.flush().await } => written,
        };
        if let Err(error) = written {
            shared.fail(io_failure(&error));
            break;
        }
    }
    let _ = output.shutdown().await;
}

/// Stream of a request in progress. Dropping the stream before the reply arrives cancels the request.
#[derive(Debug)]
pub(crate) struct RequestStream {
    endpoint: Arc<Endpoint>,
}

/// Sender for one port of a stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamSender {
    endpoint: Arc<Endpoint>,
    port: u8,
}

#[derive(Debug)]
struct Endpoint {
    channel: Channel,
    id: StreamId,
    wakers: Arc<Wakers>,
}

impl Drop for RequestStream {
    fn drop(&mut self) {
        let inbox = self.endpoint.channel.shared.lock().streams.remove(&self.endpoint.id);
        if inbox.is_some_and(|inbox| inbox.reply.is_none()) {
            self.cancel();
        }
        self.endpoint.wakers.room.notify_waiters();
    }
}

impl Endpoint {
    fn send(&self, put: impl FnOnce(&mut Vec<u8>, StreamId)) {
        let mut bytes = Vec::new();
        put(&mut bytes, self.id);
        let _ = self.channel.outgoing.send(bytes);
    }
}

/// Item received on a stream: a chunk of data, or the final reply.
#[derive(Debug)]
pub(crate) enum StreamItem {
    Chunk(StreamChunk),
    Reply(GuestReply),
}

impl RequestStream {
    pub(crate) fn id(&self) -> StreamId {
        self.endpoint.id
    }

    /// Waits for the next chunk, or for the reply after the last chunk. Cancel-safe: no data is lost if the future is
    /// dropped.
    pub(crate) async fn next(&mut self) -> Result<StreamItem, ChannelClosed> {
        loop {
            {
                let mut state = self.endpoint.channel.shared.lock();
                let gone = state.gone.clone();
                let Some(inbox) = state.streams.get_mut(&self.endpoint.id) else {
                    return Err(
                        gone.unwrap_or_else(|| ChannelClosed("the request has ended".to_owned()))
                    );
                };
                if let Some(piece) = inbox.pop() {
                    let size = u32::try_from(piece.bytes.len()).unwrap_or(0);
                    drop(state);
                    self.endpoint.send(|out, id| Frame::put_credit(out, id, piece.port, size));
                    return Ok(StreamItem::Chunk(piece));
                }
                if let Some(reply) = inbox.reply.clone() {
                    return Ok(StreamItem::Reply(reply));
                }
                if let Some(gone) = gone {
                    return Err(gone);
                }
            }
            self.endpoint.wakers.arrived.notified().await;
        }
    }

    /// Waits at most [`REPLY_TIMEOUT`] for the reply to a request that returns no data.
    pub(crate) async fn reply(&mut self) -> Result<GuestReply, ChannelClosed> {
        match tokio::time::timeout(REPLY_TIMEOUT, self.next()).await {
            Ok(Ok(StreamItem::Reply(reply))) => Ok(reply),
            Ok(Ok(StreamItem::Chunk(_))) => {
                Err(ChannelClosed("the guest agent sent data instead of a reply".to_owned()))
            }
            Ok(Err(gone)) => Err(gone),
            Err(_) => Err(ChannelClosed("the guest agent does not respond".to_owned())),
        }
    }

    /// Asks the guest agent to cancel the request of this stream. The guest agent still sends a reply to this request.
    pub(crate) fn cancel(&self) {
        self.endpoint.send(Frame::put_cancel);
    }

    /// Returns a sender for the input port of the stream.
    pub(crate) fn sender(&self) -> StreamSender {
        self.sender_on(port::IN)
    }

    pub(crate) fn sender_on(&self, port: u8) -> StreamSender {
        StreamSender { endpoint: Arc::clone(&self.endpoint), port }
    }
}

impl StreamSender {
    /// Sends all bytes, and waits for flow-control credit when necessary. Returns `false` if the stream has ended.
    pub(crate) async fn send(&self, mut bytes: &[u8]) -> Result<bool, ChannelClosed> {
        while !bytes.is_empty() {
            // Subscribe to notifications before the check, so that no credit after the check is missed.
            let room_notice = self.endpoint.wakers.room.notified();
            tokio::pin!(room_notice);
            room_notice.as_mut().enable();
            let room = {
                let mut state = self.endpoint.channel.shared.lock();
                if let Some(gone) = &state.gone {
                    return Err(gone.clone());
                }
                match state.streams.get_mut(&self.endpoint.id) {
                    Some(inbox) if inbox.reply.is_none() => {
                        let credit = &mut inbox.credit[usize::from(self.port)];
                        let room = bytes.len().min(*credit as usize);
                        *credit -= u32::try_from(room).unwrap_or(0);
                        room
                    }
                    _ => return Ok(false),
                }
            };
            if room == 0 {
                room_notice.await;
                continue;
            }
            let (now, later) = bytes.split_at(room);
            self.endpoint.send(|out, id| Frame::put_data(out, id, self.port, now));
            bytes = later;
        }
        Ok(true)
    }

    /// Informs the guest agent that no more data follows on this port.
    pub(crate) fn close(&self) {
        self.endpoint.send(|out, id| Frame::put_close(out, id, self.port));
    }
}
