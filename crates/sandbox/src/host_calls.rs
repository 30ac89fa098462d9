//! Programs in a sandbox that call the host, as a debate does to get model responses.
//!
//! API keys and network access are never available in a sandbox. Instead, the program sends events and calls to the
//! host. Each call has a stable journal key, and the host answers the call from its journal or by a model call.
//! Messages from the program are untrusted: the host accepts only journal keys with a fixed prefix, and limits the
//! number and size of calls. A program that exceeds these limits is killed.

use std::sync::Arc;
use std::time::Duration;

use assize_protocol::{Frame, FrameDecoder, FrameKind, HostAnswer, HostCall};
use assize_types::Cancel;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::command::{ProgramCommand, ProgramStream};
use crate::error::SandboxError;
use crate::sandbox::{FinishedProgram, ProgramEvent, Sandbox};

/// Limits on the calls and events of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCallLimits {
    /// Required prefix of every journal key, such as `m3/`.
    pub key_prefix: String,
    pub max_calls: usize,
    /// Maximum number of concurrent calls from the program to the host.
    pub max_concurrent_calls: usize,
    /// Maximum size of one call from the program to the host, in bytes.
    pub max_call_bytes: usize,
    pub max_events: usize,
    /// Time after a cancellation until a program that has not ended is killed.
    pub kill_after: Duration,
}

/// Default of [`HostCallLimits::kill_after`].
pub const KILL_AFTER: Duration = Duration::from_secs(5);

/// Time that the host waits for the guest agent's report that a program was killed. If no report arrives, the host ends
/// the sandbox.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// Maximum length of a journal key in bytes.
const MAX_KEY_LENGTH: usize = 200;

impl HostCallLimits {
    /// Returns why a call is rejected, or `None` if the call is allowed.
    fn violation(&self, call: &HostCall, size: usize) -> Option<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        if !call.key.starts_with(&self.key_prefix)
            || call.key.len() > MAX_KEY_LENGTH
            || !call.key.chars().all(plain)
        {
            return Some(format!(
                "the journal key of a call is invalid or does not begin with `{}`",
                self.key_prefix
            ));
        }
        (size > self.max_call_bytes).then(|| {
            format!("a call of {size} bytes exceeds the limit of {} bytes", self.max_call_bytes)
        })
    }
}

/// Handler of the calls and events that a program sends to the host.
#[async_trait]
pub trait HostCallHandler: Send + Sync + 'static {
    /// Answers a call of the program. The program receives the returned value, also if it is an error.
    async fn call(&self, key: &str, request: Value) -> Result<Value, Value>;

    /// Handles an event from the program.
    async fn event(&self, event: Value);
}

impl Sandbox {
    /// Runs a program that is allowed to call the host, and answers the calls of the program until the program ends.
    ///
    /// On cancellation, the program is notified. If it has not ended after [`HostCallLimits::kill_after`], it is
    /// killed.
    ///
    /// # Errors
    /// When the program exceeds a limit, when it was killed because it ignored its cancellation, or when the sandbox
    /// failed.
    pub async fn run_with_host_calls(
        &self,
        mut command: ProgramCommand,
        work: HostCallLimits,
        answers: Arc<dyn HostCallHandler>,
        cancel: &Cancel,
    ) -> Result<FinishedProgram, SandboxError> {
        command.may_call_host = true;
        let mut running = self.exec(command).await?;
        let sender = running.message_sender();
        // A background task sends the answers, so that a program that does not read them cannot block the host.
        let (outgoing, mut to_send) =
            mpsc::channel::<Vec<u8>>(work.max_concurrent_calls.max(1) + 1);
        let mut senders = JoinSet::new();
        senders.spawn(async move {
            while let Some(bytes) = to_send.recv().await {
                if !matches!(sender.send(&bytes).await, Ok(true)) {
                    return;
                }
            }
        });
        let mut calls = JoinSet::new();
        let mut inbound =
            Inbound { work, answers, decoder: FrameDecoder::new(), calls: 0, events: 0 };
        let mut finished = FinishedProgram::default();
        let mut stopping = Stopping::No;
        loop {
            let event = tokio::select! {
                event = running.next() => event?,
                () = stopping.deadline() => {
                    if let Stopping::Killed { .. } = stopping {
                        self.end().await;
                        let reason = "the guest agent did not end a cancelled program";
                        return Err(SandboxError::SandboxFailed(reason.to_owned()));
                    }
                    tracing::warn!("killing a cancelled program that did not end in time");
                    running.kill();
                    stopping = Stopping::Killed { at: Instant::now() };
                    continue;
                }
                reason = cancel.cancelled(), if matches!(stopping, Stopping::No) => {
                    stopping = Stopping::Notified { kill_at: Instant::now() + inbound.work.kill_after };
                    let mut bytes = Vec::new();
                    let _ = Frame::put(&mut bytes, FrameKind::Cancel, 0, &[reason.to_string().as_bytes()]);
                    let outgoing = outgoing.clone();
                    senders.spawn(async move { drop(outgoing.send(bytes).await) });
                    continue;
                }
            };
            match event {
                ProgramEvent::Output(ProgramStream::Stdout, bytes) => finished.stdout.extend(bytes),
                ProgramEvent::Output(ProgramStream::Stderr, bytes) => finished.stderr.extend(bytes),
                ProgramEvent::HostMessage(bytes) => {
                    if let Err(violation) = inbound.handle(&bytes, &mut calls, &outgoing).await {
                        running.kill();
                        return Err(SandboxError::ProtocolViolation(violation));
                    }
                }
                ProgramEvent::Ended(outcome) => {
                    if let Stopping::Killed { .. } = stopping {
                        return Err(SandboxError::IgnoredCancellation(inbound.work.kill_after));
                    }
                    finished.outcome = outcome;
                    return Ok(finished);
                }
            }
        }
    }
}

/// State of a program with regard to cancellation: not cancelled, notified, or killed.
enum Stopping {
    No,
    Notified { kill_at: Instant },
    Killed { at: Instant },
}

impl Stopping {
    /// Waits for the next deadline after a cancellation: the time to kill the program or, if it was already killed, the
    /// time to end the sandbox. Waits forever if the program is not cancelled.
    async fn deadline(&self) {
        match self {
            Stopping::No => std::future::pending().await,
            Stopping::Notified { kill_at } => tokio::time::sleep_until(*kill_at).await,
            Stopping::Killed { at } => tokio::time::sleep_until(*at + KILL_GRACE).await,
        }
    }
}

/// Decodes, checks and counts the messages from a program to the host.
struct Inbound {
    work: HostCallLimits,
    answers: Arc<dyn HostCallHandler>,
    decoder: FrameDecoder,
    calls: usize,
    events: usize,
}

impl Inbound {
    async fn handle(
        &mut self,
        bytes: &[u8],
        calls: &mut JoinSet<()>,
        outgoing: &mpsc::Sender<Vec<u8>>,
    ) -> Result<(), String> {
        self.decoder.push(bytes);
        while let Some(frame) = self.decoder.next_frame().map_err(|error| error.to_string())? {
            match frame.kind {
                FrameKind::Call => self.call(&frame, calls, outgoing)?,
                FrameKind::Event => {
                    self.events += 1;
                    if self.events > self.work.max_events {
                        return Err(format!(
                            "the program sent more than {} events",
                            self.work.max_events
                        ));
                    }
                    let event = frame.message().map_err(|error| error.to_string())?;
                    self.answers.event(event).await;
                }
                _ => {
                    let what = "the program sent a frame that only the host is allowed to send";
                    return Err(what.to_owned());
                }
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        frame: &Frame,
        calls: &mut JoinSet<()>,
        outgoing: &mpsc::Sender<Vec<u8>>,
    ) -> Result<(), String> {
        let call: HostCall = frame.message().map_err(|error| error.to_string())?;
        if let Some(violation) = self.work.violation(&call, frame.payload.len()) {
            return Err(violation);
        }
        self.calls += 1;
        if self.calls > self.work.max_calls {
            return Err(format!("the program made more than {} calls", self.work.max_calls));
        }
        while calls.try_join_next().is_some() {}
        if calls.len() >= self.work.max_concurrent_calls {
            return Err(format!(
                "the program made more than {} concurrent calls",
                self.work.max_concurrent_calls
            ));
        }
        let (answers, outgoing, number) =
            (Arc::clone(&self.answers), outgoing.clone(), frame.stream);
        calls.spawn(async move {
            let answer = match answers.call(&call.key, call.request).await {
                Ok(value) => HostAnswer::Done(value),
                Err(value) => HostAnswer::Failed(value),
            };
            let mut bytes = Vec::new();
            let put = Frame::put_message(&mut bytes, FrameKind::Answer, number, &answer);
            if let Err(error) = put {
                let why = json!({"kind": "too_large", "message": error.to_string()});
                let answer = HostAnswer::Failed(why);
                let _ = Frame::put_message(&mut bytes, FrameKind::Answer, number, &answer);
            }
            let _ = outgoing.send(bytes).await;
        });
        Ok(())
    }
}
