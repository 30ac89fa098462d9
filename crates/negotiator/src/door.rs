//! The only way out: a channel to the host, which answers for the model.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_debate::{HOST_IS_GONE, Minutes};
use assize_graph::Key;
use assize_llm::{Call, ErrorKind, Model, ModelError, Request, Response};
use assize_protocol::{Answer, Call as Question, Decoder, Frame, Kind, StreamId};
use assize_types::Cancel;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Where what is said is written down as it grows.
const LOGS: &str = "/workspace/logs";

/// The host, as a model.
pub(crate) struct Door {
    out: Mutex<File>,
    waiting: Arc<Mutex<HashMap<StreamId, oneshot::Sender<Answer>>>>,
    next: AtomicU32,
    minutes: Mutex<Minutes>,
}

impl Door {
    /// Opens the door, and hears the host until it is gone. What it wants ended ends by `cancel`.
    pub(crate) fn open(
        channel: OwnedFd,
        minutes: Minutes,
        cancel: Cancel,
    ) -> std::io::Result<Door> {
        let out = File::from(channel);
        let mut heard = out.try_clone()?;
        let waiting: Arc<Mutex<HashMap<StreamId, oneshot::Sender<Answer>>>> = Arc::default();
        let asked = waiting.clone();
        std::thread::spawn(move || {
            let mut decoder = Decoder::new();
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = heard.read(&mut buffer) {
                decoder.push(&buffer[..count]);
                while let Ok(Some(frame)) = decoder.next_frame() {
                    match frame.kind {
                        Kind::Answer => {
                            let who = asked
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .remove(&frame.stream);
                            if let (Some(who), Ok(answer)) = (who, frame.message()) {
                                let _ = who.send(answer);
                            }
                        }
                        Kind::Cancel => cancel.cancel("the host wants it ended"),
                        _ => {}
                    }
                }
            }
            // Whoever still waits waits in vain.
            asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
            cancel.cancel(HOST_IS_GONE);
        });
        std::fs::create_dir_all(LOGS)?;
        let (out, minutes) = (Mutex::new(out), Mutex::new(minutes));
        Ok(Door { out, waiting, next: AtomicU32::new(1), minutes })
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<StreamId, oneshot::Sender<Answer>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, question: &Question) -> Result<oneshot::Receiver<Answer>, ModelError> {
        let gone = |why: String| {
            ModelError::new(ErrorKind::Internal, format!("the host cannot be asked: {why}"))
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (who, answer) = oneshot::channel();
        self.waiting().insert(number, who);
        let mut bytes = Vec::new();
        // Longer than any message can be: as if it did not fit the model.
        Frame::put_message(&mut bytes, Kind::Call, number, question)
            .map_err(|error| ModelError::new(ErrorKind::TooLarge, error.to_string()))?;
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&bytes).map_err(|error| gone(error.to_string()))?;
        Ok(answer)
    }

    /// Writes down what was said, where it belongs to a conversation.
    fn note(&self, key: &str, response: &Response) -> std::io::Result<()> {
        let Ok(key) = Key::new(key) else { return Ok(()) };
        let mut minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        for log in minutes.note(&key, response) {
            let path = Path::new(LOGS).join(format!("{log}.json"));
            let unfinished = path.with_extension("new");
            std::fs::write(&unfinished, serde_json::to_vec_pretty(&minutes.log(log))?)?;
            std::fs::rename(unfinished, path)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Model for Door {
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        let internal = |why: String| ModelError::new(ErrorKind::Internal, why);
        let key = call.key.unwrap_or_default().to_owned();
        let question = Question { key: key.clone(), request: json!(request) };
        let answer =
            self.ask(&question)?.await.map_err(|_| internal("the host is gone".to_owned()))?;
        match answer {
            Answer::Done(value) => {
                let response: Response =
                    serde_json::from_value(value).map_err(|error| internal(error.to_string()))?;
                self.note(&key, &response)
                    .map_err(|error| internal(format!("`{LOGS}`: {error}")))?;
                Ok(response)
            }
            Answer::Failed(value) => Err(failure(&value)),
        }
    }
}

/// A failure as the host tells it.
fn failure(value: &Value) -> ModelError {
    let kind = serde_json::from_value(value["kind"].clone()).unwrap_or(ErrorKind::Internal);
    ModelError::new(
        kind,
        value["message"].as_str().unwrap_or("the host does not say why").to_owned(),
    )
}
