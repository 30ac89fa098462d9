//! The host's end of the channel to a guest: many streams on one connection.
//!
//! Whatever comes from the guest is hostile. Bytes become frames or an error; data beyond the credit
//! that was given, or replies that cannot be read, end the connection; frames for streams that nobody
//! listens to are dropped. No stream ever buffers more than its windows.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assize_protocol::{
    Decoder, Frame, Hello, Kind, Reply, Request, StreamId, VERSION, WINDOW, Welcome, port,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// How long the guest may take to do what should take no time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Why a channel is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Gone(pub(crate) String);

/// A piece of what a program wrote or a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) port: u8,
    pub(crate) bytes: Vec<u8>,
}

/// The connection to one guest; clones are the same connection. It closes with the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    /// Ends both tasks when the last of us is dropped.
    _open: Arc<tokio_util::sync::DropGuard>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: StreamId,
    streams: HashMap<StreamId, Inbox>,
    welcome: Option<Welcome>,
    gone: Option<Gone>,
}

/// What has come for one stream and was not taken yet.
#[derive(Debug)]
struct Inbox {
    /// From which port it is, and how many bytes: written in turns on two ports, each may be one.
    order: VecDeque<(u8, u32)>,
    bytes: [VecDeque<u8>; port::COUNT],
    /// What may still come on each port.
    windows: [u32; port::COUNT],
    /// What may still be sent on each port.
    credit: [u32; port::COUNT],
    reply: Option<Reply>,
    told: Arc<Told>,
}

/// Where the two sides of a stream are woken: who takes, and who sends.
#[derive(Debug, Default)]
struct Told {
    arrived: Notify,
    room: Notify,
}

impl Told {
    fn both(&self) {
        self.arrived.notify_one();
        self.room.notify_waiters();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends everything that waits.
    fn fail(&self, reason: String) {
        let mut state = self.lock();
        state.gone.get_or_insert(Gone(reason));
        for inbox in state.streams.values() {
            inbox.told.both();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn hear(&self, frame: Frame) -> Result<(), String> {
        let mut state = self.lock();
        if frame.kind == Kind::Hello {
            let welcome: Welcome = frame.message().map_err(|error| error.to_string())?;
            if welcome.version != VERSION {
                let theirs = welcome.version;
                return Err(format!("the guest speaks version {theirs}, and we speak {VERSION}"));
            }
            state.welcome = Some(welcome);
            drop(state);
            self.changed.notify_waiters();
            return Ok(());
        }
        // Nobody listens any more, or nobody ever did.
        let Some(inbox) = state.streams.get_mut(&frame.stream) else { return Ok(()) };
        match frame.kind {
            Kind::Data => {
                let (port, bytes) = frame.on_port().map_err(|error| error.to_string())?;
                inbox.take(port, bytes)?;
                inbox.told.arrived.notify_one();
            }
            Kind::Credit => {
                let (port, bytes) = frame.credit().map_err(|error| error.to_string())?;
                if let Some(credit) = inbox.credit.get_mut(usize::from(port)) {
                    *credit = credit.saturating_add(bytes).min(WINDOW);
                    inbox.told.room.notify_waiters();
                }
            }
            Kind::Done => {
                inbox.reply = Some(frame.message().map_err(|error| error.to_string())?);
                inbox.told.both();
            }
            // A guest has no need to say these.
            Kind::Hello
            | Kind::Open
            | Kind::Close
            | Kind::Cancel
            | Kind::Call
            | Kind::Answer
            | Kind::Event => {}
        }
        Ok(())
    }
}

impl Inbox {
    fn take(&mut self, port: u8, bytes: &[u8]) -> Result<(), String> {
        let window = self.windows.get_mut(usize::from(port)).ok_or("data for an unknown port")?;
        if bytes.is_empty() {
            return Ok(());
        }
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        *window = window.checked_sub(size).ok_or("more data than there was room for")?;
        self.bytes[usize::from(port)].extend(bytes);
        match self.order.back_mut() {
            // Many small frames take no more room than one large one.
            Some((last, count)) if *last == port => *count += size,
            _ => self.order.push_back((port, size)),
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Piece> {
        let (port, count) = self.order.pop_front()?;
        let bytes = self.bytes[usize::from(port)].drain(..count as usize).collect();
        self.windows[usize::from(port)] += count;
        Some(Piece { port, bytes })
    }
}

impl Channel {
    /// Says hello over a connection, and from then on hears and sends in the background.
    pub(crate) fn over<C>(connection: C, hello: &Hello) -> Channel
    where
        C: AsyncRead + AsyncWrite + Send + 'static,
    {
        let shared = Arc::new(Shared::default());
        let (outgoing, to_send) = mpsc::unbounded_channel();
        let open = CancellationToken::new();
        let (input, output) = tokio::io::split(connection);
        let mut first = Vec::new();
        // It is short.
        let _ = Frame::put_message(&mut first, Kind::Hello, 0, hello);
        let _ = outgoing.send(first);
        tokio::spawn(receive(input, Arc::clone(&shared), open.clone()));
        tokio::spawn(send(output, to_send, Arc::clone(&shared), open.clone()));
        Channel { shared, outgoing, _open: Arc::new(open.drop_guard()) }
    }

    /// Waits for the guest's answer to our hello.
    pub(crate) async fn welcome(&self) -> Result<Welcome, Gone> {
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

    /// Waits until the connection ended, and says why. The future does not keep the connection open.
    pub(crate) fn closed(&self) -> impl Future<Output = Gone> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move { until(&shared.changed, || shared.lock().gone.clone()).await }
    }

    pub(crate) fn open(&self, request: &Request) -> Result<Stream, Gone> {
        let mut state = self.shared.lock();
        if let Some(gone) = &state.gone {
            return Err(gone.clone());
        }
        state.last += 1;
        let id = state.last;
        let told = Arc::new(Told::default());
        let inbox = Inbox {
            order: VecDeque::new(),
            bytes: Default::default(),
            windows: [0, WINDOW, WINDOW, WINDOW],
            credit: [WINDOW, 0, 0, WINDOW],
            reply: None,
            told: Arc::clone(&told),
        };
        state.streams.insert(id, inbox);
        drop(state);
        let mut bytes = Vec::new();
        if let Err(error) = Frame::put_message(&mut bytes, Kind::Open, id, request) {
            self.shared.lock().streams.remove(&id);
            return Err(Gone(error.to_string()));
        }
        let _ = self.outgoing.send(bytes);
        Ok(Stream { end: Arc::new(End { channel: self.clone(), id, told }) })
    }
}

/// Waits until a check gives something. It is made now and after each change.
pub(crate) async fn until<T>(changed: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        let next = changed.notified();
        tokio::pin!(next);
        // Before the check, so that no change falls between.
        next.as_mut().enable();
        if let Some(found) = check() {
            return found;
        }
        next.await;
    }
}

async fn receive<R: AsyncRead>(input: R, shared: Arc<Shared>, open: CancellationToken) {
    tokio::pin!(input);
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; 64 * 1024];
    let reason = 'heard: loop {
        let count = tokio::select! {
            () = open.cancelled() => break "closed".to_owned(),
            read = input.read(&mut buffer) => match read {
                Ok(0) => break "the guest is gone".to_owned(),
                Ok(count) => count,
                Err(error) => break why_broken(&error),
            },
        };
        decoder.push(&buffer[..count]);
        loop {
            let heard = match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => shared.hear(frame),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = heard {
                break 'heard format!("the guest sent {error}");
            }
        }
    };
    shared.fail(reason);
    open.cancel();
}

fn why_broken(error: &std::io::Error) -> String {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    // How one hears that it went with something left to read.
    if matches!(error.kind(), BrokenPipe | ConnectionReset) {
        return "the guest is gone".to_owned();
    }
    format!("the channel broke: {error}")
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
            shared.fail(why_broken(&error));
            break;
        }
    }
    let _ = output.shutdown().await;
}

/// One request that is under way. Dropped before its reply, it is cancelled.
#[derive(Debug)]
pub(crate) struct Stream {
    end: Arc<End>,
}

/// Sends on a stream that somebody else listens to.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    end: Arc<End>,
    port: u8,
}

#[derive(Debug)]
struct End {
    channel: Channel,
    id: StreamId,
    told: Arc<Told>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let inbox = self.end.channel.shared.lock().streams.remove(&self.end.id);
        if inbox.is_some_and(|inbox| inbox.reply.is_none()) {
            self.cancel();
        }
        self.end.told.room.notify_waiters();
    }
}

impl End {
    fn send(&self, put: impl FnOnce(&mut Vec<u8>, StreamId)) {
        let mut bytes = Vec::new();
        put(&mut bytes, self.id);
        let _ = self.channel.outgoing.send(bytes);
    }
}

/// What happens next on a stream.
#[derive(Debug)]
pub(crate) enum Next {
    Piece(Piece),
    Reply(Reply),
}

impl Stream {
    pub(crate) fn id(&self) -> StreamId {
        self.end.id
    }

    /// The next piece, or after the last one the reply. Can be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Next, Gone> {
        loop {
            {
                let mut state = self.end.channel.shared.lock();
                let gone = state.gone.clone();
                let Some(inbox) = state.streams.get_mut(&self.end.id) else {
                    return Err(gone.unwrap_or_else(|| Gone("the stream is over".to_owned())));
                };
                if let Some(piece) = inbox.next() {
                    let size = u32::try_from(piece.bytes.len()).unwrap_or(0);
                    drop(state);
                    self.end.send(|out, id| Frame::put_credit(out, id, piece.port, size));
                    return Ok(Next::Piece(piece));
                }
                if let Some(reply) = inbox.reply.clone() {
                    return Ok(Next::Reply(reply));
                }
                if let Some(gone) = gone {
                    return Err(gone);
                }
            }
            self.end.told.arrived.notified().await;
        }
    }

    /// The reply to a request for which nothing else comes.
    pub(crate) async fn reply(&mut self) -> Result<Reply, Gone> {
        match tokio::time::timeout(PATIENCE, self.next()).await {
            Ok(Ok(Next::Reply(reply))) => Ok(reply),
            Ok(Ok(Next::Piece(_))) => Err(Gone("the guest sent what nobody asked for".to_owned())),
            Ok(Err(gone)) => Err(gone),
            Err(_) => Err(Gone("the guest does not answer".to_owned())),
        }
    }

    /// Asks the guest to give up; the reply still comes.
    pub(crate) fn cancel(&self) {
        self.end.send(Frame::put_cancel);
    }

    /// Sends on port 0.
    pub(crate) fn sender(&self) -> Sender {
        self.sender_on(port::IN)
    }

    pub(crate) fn sender_on(&self, port: u8) -> Sender {
        Sender { end: Arc::clone(&self.end), port }
    }
}

impl Sender {
    /// Sends, as fast as there is room. `false` when the stream is over.
    pub(crate) async fn send(&self, mut bytes: &[u8]) -> Result<bool, Gone> {
        while !bytes.is_empty() {
            // Listened for before it is looked, so that nothing is missed.
            let told = self.end.told.room.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            let room = {
                let mut state = self.end.channel.shared.lock();
                if let Some(gone) = &state.gone {
                    return Err(gone.clone());
                }
                match state.streams.get_mut(&self.end.id) {
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
                told.await;
                continue;
            }
            let (now, later) = bytes.split_at(room);
            self.end.send(|out, id| Frame::put_data(out, id, self.port, now));
            bytes = later;
        }
        Ok(true)
    }

    /// No more is sent.
    pub(crate) fn close(&self) {
        self.end.send(|out, id| Frame::put_close(out, id, self.port));
    }
}
