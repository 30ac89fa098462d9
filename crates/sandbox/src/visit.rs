//! Sandboxes of other processes: each is reached through the one that made it.
//!
//! A visitor knocks at the maker's door and says in one line of JSON what it wants. To use a sandbox
//! it then speaks the guest's own protocol, and the maker passes each stream on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_protocol::{
    Decoder, Exec, Frame, Hello, Kind, Request, StreamId, VERSION, WINDOW, Welcome, port,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backend::{Account, Cell, Started};
use crate::channel::{Channel, Next, Sender};
use crate::error::SandboxError;
use crate::registry::ShortPath;
use crate::sandbox::Sandbox;

/// What a visitor wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wish {
    /// To use a sandbox from now on.
    Use { id: String },
    /// To know what it has used.
    Account { id: String },
    /// To end it.
    End { id: String },
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Yes,
    Account(Account),
    No(String),
}

/// Who answers at the door.
#[async_trait]
pub(crate) trait Host: Send + Sync + 'static {
    /// The sandbox, once it is ready.
    async fn sandbox(&self, id: &str) -> Option<Sandbox>;
    async fn end(&self, id: &str);
}

/// The longest line that is read from a visitor.
const LONGEST: u64 = 64 * 1024;

/// Answers one visitor. When it is time to stop, what was understood is still answered, as it may be
/// the reason to stop.
pub(crate) async fn answer(host: Arc<dyn Host>, connection: UnixStream, stop: CancellationToken) {
    let (input, mut output) = connection.into_split();
    let mut input = BufReader::new(input);
    let mut line = String::new();
    let heard = tokio::select! {
        () = stop.cancelled() => return,
        heard = async { (&mut input).take(LONGEST).read_line(&mut line).await } => heard,
    };
    if heard.is_err() {
        return;
    }
    let wish = serde_json::from_str::<Wish>(&line);
    let id = match &wish {
        Ok(Wish::Use { id } | Wish::Account { id } | Wish::End { id }) => id.clone(),
        Err(_) => String::new(),
    };
    let sandbox = host.sandbox(&id).await;
    let answer = match (&wish, &sandbox) {
        (Err(error), _) => Answer::No(format!("this cannot be understood: {error}")),
        (Ok(_), None) => Answer::No("the sandbox is gone".to_owned()),
        (Ok(Wish::Use { .. }), Some(_)) => Answer::Yes,
        (Ok(Wish::Account { .. }), Some(sandbox)) => Answer::Account(sandbox.account().await),
        (Ok(Wish::End { .. }), Some(_)) => {
            host.end(&id).await;
            Answer::Yes
        }
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    if output.write_all(&text).await.is_err() {
        return;
    }
    if let (Ok(Wish::Use { .. }), Some(sandbox)) = (wish, sandbox) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = sandbox.gone() => {}
            () = relay(&sandbox, input, output) => {}
        }
    }
}

/// A stream of a visitor's that is passed on.
struct Passed {
    guests: StreamId,
    /// What is to be passed on, and after the last of it that no more comes. Never more than a
    /// window of it: the visitor has credit for no more.
    input: mpsc::UnboundedSender<Option<Vec<u8>>>,
    /// What the visitor still has room for, by port.
    room: [Arc<Semaphore>; port::COUNT],
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
    let mut passed: HashMap<StreamId, Passed> = HashMap::new();
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; 64 * 1024];
    // Whatever the visitor left under way ends with the tasks, which are dropped here.
    while let Ok(count @ 1..) = input.read(&mut buffer).await {
        decoder.push(&buffer[..count]);
        while let Ok(Some(frame)) = decoder.next_frame() {
            let heard = hear(sandbox, frame, &mut passed, &outgoing, &mut tasks).await;
            if heard.is_none() {
                return;
            }
        }
    }
}

/// Passes on one frame of a visitor's. `None` when it makes no sense.
async fn hear(
    sandbox: &Sandbox,
    frame: Frame,
    passed: &mut HashMap<StreamId, Passed>,
    outgoing: &mpsc::Sender<Vec<u8>>,
    tasks: &mut JoinSet<()>,
) -> Option<()> {
    let id = frame.stream;
    match frame.kind {
        Kind::Hello => {
            sandbox.channel().welcome().await.ok()?;
            let mut bytes = Vec::new();
            Frame::put_message(&mut bytes, Kind::Hello, 0, &Welcome { version: VERSION }).ok()?;
            outgoing.send(bytes).await.ok()?;
        }
        Kind::Open => {
            let request: Request = frame.message().ok()?;
            let request = match request {
                // Only a maker answers for what is said to it.
                Request::Exec(exec) => Request::Exec(Exec { talk: false, ..exec }),
                // A signal names its program by the visitor's own number.
                Request::Signal { exec, signal } => {
                    let exec = passed.get(&exec).map_or(0, |passed| passed.guests);
                    Request::Signal { exec, signal }
                }
                request => request,
            };
            passed.retain(|_, passed| !passed.input.is_closed());
            let stream = sandbox.channel().open(&request).ok()?;
            let room = [(); port::COUNT].map(|()| Arc::new(Semaphore::new(WINDOW as usize)));
            let stop = CancellationToken::new();
            let (input, to_pass) = mpsc::unbounded_channel();
            passed.insert(
                id,
                Passed { guests: stream.id(), input, room: room.clone(), stop: stop.clone() },
            );
            let over = CancellationToken::new();
            tasks.spawn(pass_on(stream.sender(), id, to_pass, outgoing.clone(), over.clone()));
            tasks.spawn(pass_back(stream, id, room, stop, outgoing.clone(), over.drop_guard()));
        }
        Kind::Data => {
            let (_, bytes) = frame.on_port().ok()?;
            // Not waited for: what is behind it may be what the guest waits for.
            if let Some(passed) = passed.get(&id) {
                let _ = passed.input.send(Some(bytes.to_vec()));
            }
        }
        Kind::Close => {
            if let Some(passed) = passed.get(&id) {
                let _ = passed.input.send(None);
            }
        }
        Kind::Credit => {
            let (port, bytes) = frame.credit().ok()?;
            let room = passed.get(&id).and_then(|passed| passed.room.get(usize::from(port)));
            if let Some(room) = room {
                room.add_permits(bytes.min(WINDOW) as usize);
            }
        }
        Kind::Cancel => passed.get(&id).into_iter().for_each(|passed| passed.stop.cancel()),
        Kind::Done | Kind::Call | Kind::Answer | Kind::Event => {}
    }
    Some(())
}

/// Passes on what a visitor sends on a stream, and gives it credit for more.
async fn pass_on(
    sender: Sender,
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

/// Passes back what the guest says on a stream.
async fn pass_back(
    mut stream: crate::channel::Stream,
    id: StreamId,
    room: [Arc<Semaphore>; port::COUNT],
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
            Ok(Next::Piece(piece)) => {
                let size = u32::try_from(piece.bytes.len()).unwrap_or(0);
                let room = &room[usize::from(piece.port)];
                match room.acquire_many(size).await {
                    Ok(permits) => permits.forget(),
                    Err(_) => return,
                }
                Frame::put_data(&mut bytes, id, piece.port, &piece.bytes);
            }
            Ok(Next::Reply(reply)) => {
                let _ = Frame::put_message(&mut bytes, Kind::Done, id, &reply);
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

async fn knock(door: &Path, wish: &Wish) -> Result<(UnixStream, Answer), SandboxError> {
    let failed =
        |error: std::io::Error| SandboxError::failed("reaching the maker of the sandbox", error);
    let short = ShortPath::of(door).map_err(failed)?;
    let mut connection = UnixStream::connect(short.get()).await.map_err(failed)?;
    let mut line = serde_json::to_vec(wish).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    connection.write_all(&line).await.map_err(failed)?;
    // A byte at a time, as what follows the line is not ours to read.
    let mut answer = Vec::new();
    while answer.last() != Some(&b'\n') && (answer.len() as u64) < LONGEST {
        answer.push(connection.read_u8().await.map_err(failed)?);
    }
    let answer = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
    match answer {
        Answer::No(reason) => Err(SandboxError::Broke(reason)),
        answer => Ok((connection, answer)),
    }
}

/// Visits a sandbox of another process.
pub(crate) async fn visit(door: &Path, id: &str, hello: &Hello) -> Result<Started, SandboxError> {
    let (connection, _) = knock(door, &Wish::Use { id: id.to_owned() }).await?;
    let channel = Channel::over(connection, hello);
    let cell = Visited { door: door.to_owned(), id: id.to_owned() };
    Ok(Started { channel, cell: Box::new(cell) })
}

/// Ends a sandbox of another process.
pub(crate) async fn end(door: &Path, id: &str) -> Result<(), SandboxError> {
    knock(door, &Wish::End { id: id.to_owned() }).await.map(drop)
}

/// The walls of a sandbox that another process holds.
#[derive(Debug)]
struct Visited {
    door: PathBuf,
    id: String,
}

#[async_trait]
impl Cell for Visited {
    async fn account(&self) -> Account {
        match knock(&self.door, &Wish::Account { id: self.id.clone() }).await {
            Ok((_, Answer::Account(account))) => account,
            _ => Account::default(),
        }
    }

    async fn end(&self) {
        // Gone is gone.
        let _ = end(&self.door, &self.id).await;
    }

    async fn last_words(&self) -> Option<String> {
        None
    }
}
