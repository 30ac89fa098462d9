//! The emulator's own control channel, in its JSON: used to freeze a machine and to thaw one.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;

use crate::jail::keeper::send_with;

/// The most that an answer may be.
const MOST: u64 = 1 << 20;

/// The most that the state of a machine may be, without its memory: far more than it ever is.
const MOST_STATE: u64 = 64 << 20;

/// Why QEMU does not do what it is told over QMP.
#[derive(Debug, thiserror::Error)]
pub(super) enum QmpError {
    /// By its own error message.
    #[error("QEMU refused: {0}")]
    Refused(String),
    /// Its last status, where that is not `completed`.
    #[error("QEMU did not complete the migration: {0}")]
    Incomplete(Value),
    #[error("QEMU closed its QMP socket")]
    Closed,
    #[error("QMP socket failed: {0}")]
    Socket(#[from] io::Error),
    #[error("QEMU sent an invalid QMP message: {0}")]
    Invalid(#[from] serde_json::Error),
    #[error("QEMU timed out after {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// What must be agreed on before anything else.
const BEGIN: &str = r#"{"execute":"qmp_capabilities"}"#;

/// Has the memory stay where it is: only what is beside it is frozen and thawed.
const LEAVE_MEMORY: &str = r#"{"execute":"migrate-set-capabilities","arguments":{"capabilities":[{"capability":"x-ignore-shared","state":true}]}}"#;

/// Says all that a machine has to be told to be thawed from a descriptor, before it even runs.
pub(super) async fn thaw(line: &mut UnixStream, descriptor: i32) -> io::Result<()> {
    let thaw =
        json!({"execute": "migrate-incoming", "arguments": {"uri": format!("fd:{descriptor}")}});
    line.write_all(format!("{BEGIN}{LEAVE_MEMORY}{thaw}").as_bytes()).await
}

/// Waits for a microVM to run on from its snapshot, for so long at most.
pub(super) async fn thawed(line: &mut UnixStream, limit: Duration) -> Result<(), QmpError> {
    let mut line = BufReader::new(line);
    let resumed = async {
        while read(&mut line).await?["event"] != "RESUME" {}
        Ok(())
    };
    tokio::time::timeout(limit, resumed).await.unwrap_or(Err(QmpError::TimedOut(limit)))
}

/// Stops a microVM within so long, and gives its state without its memory.
pub(super) async fn freeze(line: UnixStream, limit: Duration) -> Result<Vec<u8>, QmpError> {
    tokio::time::timeout(limit, migrate(line)).await.unwrap_or(Err(QmpError::TimedOut(limit)))
}

async fn migrate(line: UnixStream) -> Result<Vec<u8>, QmpError> {
    let mut line = BufReader::new(line);
    read(&mut line).await?;
    ask(&mut line, BEGIN).await?;
    ask(&mut line, LEAVE_MEMORY).await?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let hand = r#"{"execute":"getfd","arguments":{"fdname":"state"}}"#;
    let socket = line.get_ref();
    let send = || send_with(socket, hand.as_bytes(), &[theirs.as_fd()]);
    let sent = socket.async_io(Interest::WRITABLE, send).await?;
    ask(&mut line, &hand[sent..]).await?;
    drop(theirs);
    ask(&mut line, r#"{"execute":"migrate","arguments":{"uri":"fd:state"}}"#).await?;
    let mut state = Vec::new();
    UnixStream::from_std(ours)?.take(MOST_STATE).read_to_end(&mut state).await?;
    let answer = ask(&mut line, r#"{"execute":"query-migrate"}"#).await?;
    match answer["status"].as_str() {
        Some("completed") if !state.is_empty() => Ok(state),
        _ => Err(QmpError::Incomplete(answer)),
    }
}

/// Reads one message that is no error.
async fn read(line: &mut (impl AsyncBufRead + Unpin)) -> Result<Value, QmpError> {
    let mut text = String::new();
    if line.take(MOST).read_line(&mut text).await? == 0 {
        return Err(QmpError::Closed);
    }
    let message: Value = serde_json::from_str(&text)?;
    match message.get("error") {
        Some(error) => Err(QmpError::Refused(error["desc"].to_string())),
        None => Ok(message),
    }
}

/// Asks, and hears the answer; what happens meanwhile is passed over.
async fn ask(line: &mut BufReader<UnixStream>, command: &str) -> Result<Value, QmpError> {
    line.write_all(command.as_bytes()).await?;
    loop {
        let mut heard = read(line).await?;
        if let Some(answer) = heard.get_mut("return") {
            return Ok(answer.take());
        }
    }
}
