//! QMP, QEMU's control protocol: creates snapshots of microVMs and restores them.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;

use crate::jail::supervisor::send_with;

/// Maximum size of a QMP message in bytes.
const MAX_MESSAGE: u64 = 1 << 20;

/// Maximum size of a microVM's device state (without its memory) in bytes; far above the actual size.
const MAX_STATE: u64 = 64 << 20;

/// Error of a QMP command.
#[derive(Debug, thiserror::Error)]
pub(super) enum QmpError {
    /// QEMU rejected a command with this error message.
    #[error("QEMU rejected a QMP command: {0}")]
    Refused(String),
    /// A migration ended with this status, which is not `completed`.
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

/// First command of every QMP session.
const NEGOTIATE: &str = r#"{"execute":"qmp_capabilities"}"#;

/// Excludes the memory from the migration stream: the memory stays in the memory file, and only the device state is
/// transferred.
const IGNORE_SHARED: &str = r#"{"execute":"migrate-set-capabilities","arguments":{"capabilities":[{"capability":"x-ignore-shared","state":true}]}}"#;

/// Sends the QMP commands that restore a microVM. QEMU reads the device state from its file descriptor `descriptor`.
/// The commands wait in the socket until QEMU has started.
pub(super) async fn restore(qmp: &mut UnixStream, descriptor: i32) -> io::Result<()> {
    let restore =
        json!({"execute": "migrate-incoming", "arguments": {"uri": format!("fd:{descriptor}")}});
    qmp.write_all(format!("{NEGOTIATE}{IGNORE_SHARED}{restore}").as_bytes()).await
}

/// Waits until a restored microVM runs, for at most `limit`.
pub(super) async fn wait_until_restored(
    qmp: &mut UnixStream,
    limit: Duration,
) -> Result<(), QmpError> {
    let mut qmp = BufReader::new(qmp);
    let resumed = async {
        while read(&mut qmp).await?["event"] != "RESUME" {}
        Ok(())
    };
    tokio::time::timeout(limit, resumed).await.unwrap_or(Err(QmpError::TimedOut(limit)))
}

/// Stops a microVM within `limit` and returns its device state (without its memory).
pub(super) async fn save_state(qmp: UnixStream, limit: Duration) -> Result<Vec<u8>, QmpError> {
    tokio::time::timeout(limit, migrate(qmp)).await.unwrap_or(Err(QmpError::TimedOut(limit)))
}

async fn migrate(qmp: UnixStream) -> Result<Vec<u8>, QmpError> {
    let mut qmp = BufReader::new(qmp);
    // The first message is QEMU's greeting.
    read(&mut qmp).await?;
    execute(&mut qmp, NEGOTIATE).await?;
    execute(&mut qmp, IGNORE_SHARED).await?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let getfd = r#"{"execute":"getfd","arguments":{"fdname":"state"}}"#;
    let socket = qmp.get_ref();
    let send = || send_with(socket, getfd.as_bytes(), &[theirs.as_fd()]);
    let sent = socket.async_io(Interest::WRITABLE, send).await?;
    execute(&mut qmp, &getfd[sent..]).await?;
    drop(theirs);
    execute(&mut qmp, r#"{"execute":"migrate","arguments":{"uri":"fd:state"}}"#).await?;
    let mut state = Vec::new();
    UnixStream::from_std(ours)?.take(MAX_STATE).read_to_end(&mut state).await?;
    let reply = execute(&mut qmp, r#"{"execute":"query-migrate"}"#).await?;
    match reply["status"].as_str() {
        Some("completed") if !state.is_empty() => Ok(state),
        _ => Err(QmpError::Incomplete(reply)),
    }
}

/// Reads one QMP message; an error message becomes [`QmpError::Refused`].
async fn read(qmp: &mut (impl AsyncBufRead + Unpin)) -> Result<Value, QmpError> {
    let mut text = String::new();
    if qmp.take(MAX_MESSAGE).read_line(&mut text).await? == 0 {
        return Err(QmpError::Closed);
    }
    let message: Value = serde_json::from_str(&text)?;
    match message.get("error") {
        Some(error) => Err(QmpError::Refused(error["desc"].to_string())),
        None => Ok(message),
    }
}

/// Executes a QMP command and returns its reply. Events that arrive before the reply are ignored.
async fn execute(qmp: &mut BufReader<UnixStream>, command: &str) -> Result<Value, QmpError> {
    qmp.write_all(command.as_bytes()).await?;
    loop {
        let mut message = read(qmp).await?;
        if let Some(reply) = message.get_mut("return") {
            return Ok(reply.take());
        }
    }
}
