//! Work inside a sandbox that asks the host for what it needs: a debate asks for its model's answers.
//!
//! No key and no network ever enters a sandbox. A unit of work makes calls on a door of its own, each
//! under a stable key, and tells events; the host answers from its journal or makes the call. What
//! comes through the door is hostile: the host takes only the keys of the one unit it is bound to,
//! and only so many calls of such a size. Whoever asks for more is ended.

use std::sync::Arc;
use std::time::Duration;

use assize_protocol::{Answer, Call, Decoder, Frame, Kind};
use assize_types::Cancel;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::command::{Command, Output};
use crate::error::SandboxError;
use crate::sandbox::{Event, Finished, Sandbox};

/// What one unit of work may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Every key begins with this, such as `m3/`.
    pub keys: String,
    pub most_calls: usize,
    /// How many calls may be under way.
    pub at_once: usize,
    /// Bytes of one request.
    pub largest: usize,
    pub most_events: usize,
    /// How long it may go on after it was cancelled before it is killed.
    pub kill_after: Duration,
}

/// Default of [`Work::kill_after`].
pub const KILL_AFTER: Duration = Duration::from_secs(5);

/// How long the guest agent has to report the end of work that was killed before the sandbox is ended.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// The longest key.
const LONGEST_KEY: usize = 200;

impl Work {
    fn complaint(&self, call: &Call, size: usize) -> Option<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        if !call.key.starts_with(&self.keys)
            || call.key.len() > LONGEST_KEY
            || !call.key.chars().all(plain)
        {
            return Some("a call under a key that is not its own".to_owned());
        }
        (size > self.largest)
            .then(|| format!("a call of {size} bytes, and {} are allowed", self.largest))
    }
}

/// Who answers.
#[async_trait]
pub trait Answers: Send + Sync + 'static {
    /// Answers a call; the error is passed on to whoever asked.
    async fn call(&self, key: &str, request: Value) -> Result<Value, Value>;

    /// Hears of an event.
    async fn event(&self, event: Value);
}

impl Sandbox {
    /// Runs a program that may call the host, and answers it until it ends.
    ///
    /// Cancelled, the program is told so and may finish in its own way for [`Work::kill_after`]; then it is
    /// killed.
    ///
    /// # Errors
    /// When it asks for what it may not have, when it had to be killed after its cancellation, or when the
    /// sandbox broke.
    pub async fn work(
        &self,
        mut command: Command,
        work: Work,
        answers: Arc<dyn Answers>,
        cancel: &Cancel,
    ) -> Result<Finished, SandboxError> {
        command.talk = true;
        let mut running = self.exec(command).await?;
        let door = running.talk();
        // Said in the background: whoever does not listen is not waited for.
        let (answered, mut to_say) = mpsc::channel::<Vec<u8>>(work.at_once.max(1) + 1);
        let mut saying = JoinSet::new();
        saying.spawn(async move {
            while let Some(bytes) = to_say.recv().await {
                if !matches!(door.send(&bytes).await, Ok(true)) {
                    return;
                }
            }
        });
        let mut calls = JoinSet::new();
        let mut desk = Desk { work, answers, decoder: Decoder::new(), asked: 0, told: 0 };
        let mut finished = Finished::default();
        let mut stopping = Stopping::No;
        loop {
            let event = tokio::select! {
                event = running.next() => event?,
                () = stopping.deadline() => {
                    if let Stopping::Killed { .. } = stopping {
                        self.end().await;
                        let reason = "the guest agent did not end a cancelled program";
                        return Err(SandboxError::Broke(reason.to_owned()));
                    }
                    tracing::warn!("a cancelled program did not end in time and is killed");
                    running.kill();
                    stopping = Stopping::Killed { at: Instant::now() };
                    continue;
                }
                reason = cancel.cancelled(), if matches!(stopping, Stopping::No) => {
                    stopping = Stopping::Told { kill_at: Instant::now() + desk.work.kill_after };
                    let mut bytes = Vec::new();
                    let _ = Frame::put(&mut bytes, Kind::Cancel, 0, &[reason.to_string().as_bytes()]);
                    let answered = answered.clone();
                    saying.spawn(async move { drop(answered.send(bytes).await) });
                    continue;
                }
            };
            match event {
                Event::Wrote(Output::Stdout, bytes) => finished.stdout.extend(bytes),
                Event::Wrote(Output::Stderr, bytes) => finished.stderr.extend(bytes),
                Event::Said(bytes) => {
                    if let Err(complaint) = desk.hear(&bytes, &mut calls, &answered).await {
                        running.kill();
                        return Err(SandboxError::Overstepped(complaint));
                    }
                }
                Event::Ended(outcome) => {
                    if let Stopping::Killed { .. } = stopping {
                        return Err(SandboxError::IgnoredCancellation(desk.work.kill_after));
                    }
                    finished.outcome = outcome;
                    return Ok(finished);
                }
            }
        }
    }
}

/// How far the end of a cancelled program has come.
enum Stopping {
    No,
    Told { kill_at: Instant },
    Killed { at: Instant },
}

impl Stopping {
    /// Waits until the next step is due.
    async fn deadline(&self) {
        match self {
            Stopping::No => std::future::pending().await,
            Stopping::Told { kill_at } => tokio::time::sleep_until(*kill_at).await,
            Stopping::Killed { at } => tokio::time::sleep_until(*at + KILL_GRACE).await,
        }
    }
}

/// Where calls come in.
struct Desk {
    work: Work,
    answers: Arc<dyn Answers>,
    decoder: Decoder,
    asked: usize,
    told: usize,
}

impl Desk {
    async fn hear(
        &mut self,
        bytes: &[u8],
        calls: &mut JoinSet<()>,
        answered: &mpsc::Sender<Vec<u8>>,
    ) -> Result<(), String> {
        self.decoder.push(bytes);
        while let Some(frame) = self.decoder.next_frame().map_err(|error| error.to_string())? {
            match frame.kind {
                Kind::Call => self.call(&frame, calls, answered)?,
                Kind::Event => {
                    self.told += 1;
                    if self.told > self.work.most_events {
                        return Err(format!("more than {} events", self.work.most_events));
                    }
                    let event = frame.message().map_err(|error| error.to_string())?;
                    self.answers.event(event).await;
                }
                _ => return Err("a frame that only the host sends".to_owned()),
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        frame: &Frame,
        calls: &mut JoinSet<()>,
        answered: &mpsc::Sender<Vec<u8>>,
    ) -> Result<(), String> {
        let call: Call = frame.message().map_err(|error| error.to_string())?;
        if let Some(complaint) = self.work.complaint(&call, frame.payload.len()) {
            return Err(complaint);
        }
        self.asked += 1;
        if self.asked > self.work.most_calls {
            return Err(format!("more than {} calls", self.work.most_calls));
        }
        while calls.try_join_next().is_some() {}
        if calls.len() >= self.work.at_once {
            return Err(format!("more than {} calls at once", self.work.at_once));
        }
        let (answers, answered, number) =
            (Arc::clone(&self.answers), answered.clone(), frame.stream);
        calls.spawn(async move {
            let answer = match answers.call(&call.key, call.request).await {
                Ok(value) => Answer::Done(value),
                Err(value) => Answer::Failed(value),
            };
            let mut bytes = Vec::new();
            let put = Frame::put_message(&mut bytes, Kind::Answer, number, &answer);
            if let Err(error) = put {
                let why = json!({"kind": "too_large", "message": error.to_string()});
                let answer = Answer::Failed(why);
                let _ = Frame::put_message(&mut bytes, Kind::Answer, number, &answer);
            }
            let _ = answered.send(bytes).await;
        });
        Ok(())
    }
}
