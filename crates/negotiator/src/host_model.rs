//! Model client inside the sandbox. It sends each model request to the host, over the only channel out of the
//! sandbox.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_debate::{HOST_CONNECTION_LOST, Transcript};
use assize_graph::EffectKey;
use assize_llm::{CallOptions, ErrorKind, Model, ModelError, ModelRequest, ModelResponse};
use assize_protocol::{Frame, FrameDecoder, FrameKind, HostAnswer, HostCall, StreamId};
use assize_types::Cancel;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Folder for the conversation logs, which are updated after every model response.
const LOGS: &str = "/workspace/logs";

/// Model that forwards requests to the host and logs the conversations.
pub(crate) struct HostModel {
    out: Mutex<File>,
    /// Senders for the answers to calls in progress, by the stream id of the call.
    pending: Arc<Mutex<HashMap<StreamId, oneshot::Sender<HostAnswer>>>>,
    next_number: AtomicU32,
    transcript: Mutex<Transcript>,
}

impl HostModel {
    /// Opens the channel to the host and starts a thread that reads the host's answers. The thread triggers `cancel`
    /// when the host cancels the debate or disconnects.
    pub(crate) fn open(
        channel: OwnedFd,
        minutes: Transcript,
        cancel: Cancel,
    ) -> std::io::Result<HostModel> {
        let out = File::from(channel);
        let mut input = out.try_clone()?;
        let pending: Arc<Mutex<HashMap<StreamId, oneshot::Sender<HostAnswer>>>> = Arc::default();
        let calls = pending.clone();
        std::thread::spawn(move || {
            let mut decoder = FrameDecoder::new();
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = input.read(&mut buffer) {
                decoder.push(&buffer[..count]);
                while let Ok(Some(frame)) = decoder.next_frame() {
                    match frame.kind {
                        FrameKind::Answer => {
                            let sender = calls
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .remove(&frame.stream);
                            if let (Some(sender), Ok(answer)) = (sender, frame.message()) {
                                let _ = sender.send(answer);
                            }
                        }
                        FrameKind::Cancel => cancel.cancel("cancelled by the host"),
                        _ => {}
                    }
                }
            }
            // Dropping the senders makes the pending calls fail.
            calls.lock().unwrap_or_else(PoisonError::into_inner).clear();
            cancel.cancel(HOST_CONNECTION_LOST);
        });
        std::fs::create_dir_all(LOGS)?;
        let (out, minutes) = (Mutex::new(out), Mutex::new(minutes));
        Ok(HostModel { out, pending, next_number: AtomicU32::new(1), transcript: minutes })
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<StreamId, oneshot::Sender<HostAnswer>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_call(&self, call: &HostCall) -> Result<oneshot::Receiver<HostAnswer>, ModelError> {
        let not_sent = |why: String| {
            ModelError::new(
                ErrorKind::Internal,
                format!("cannot send a request to the host: {why}"),
            )
        };
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.pending().insert(number, sender);
        let mut bytes = Vec::new();
        // A request that exceeds the maximum frame size is reported like a request that exceeds the model's limit.
        Frame::put_message(&mut bytes, FrameKind::Call, number, call)
            .map_err(|error| ModelError::new(ErrorKind::TooLarge, error.to_string()))?;
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&bytes).map_err(|error| not_sent(error.to_string()))?;
        Ok(answer)
    }

    /// Adds a model response to the logs of the conversations that it belongs to.
    fn write_logs(&self, key: &str, response: &ModelResponse) -> std::io::Result<()> {
        let Ok(key) = EffectKey::new(key) else { return Ok(()) };
        let mut minutes = self.transcript.lock().unwrap_or_else(PoisonError::into_inner);
        for log in minutes.add_answer(&key, response) {
            let path = Path::new(LOGS).join(format!("{log}.json"));
            let temporary = path.with_extension("new");
            std::fs::write(&temporary, serde_json::to_vec_pretty(&minutes.log(log))?)?;
            std::fs::rename(temporary, path)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Model for HostModel {
    async fn generate(
        &self,
        request: &ModelRequest,
        call: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let internal = |why: String| ModelError::new(ErrorKind::Internal, why);
        let key = call.key.unwrap_or_default().to_owned();
        let host_call = HostCall { key: key.clone(), request: json!(request) };
        let answer = self
            .send_call(&host_call)?
            .await
            .map_err(|_| internal(HOST_CONNECTION_LOST.to_owned()))?;
        match answer {
            HostAnswer::Done(value) => {
                let response: ModelResponse = serde_json::from_value(value).map_err(|error| {
                    internal(format!("the host sent an invalid model response: {error}"))
                })?;
                self.write_logs(&key, &response).map_err(|error| {
                    internal(format!("cannot write a log in `{LOGS}`: {error}"))
                })?;
                Ok(response)
            }
            HostAnswer::Failed(value) => Err(to_model_error(&value)),
        }
    }
}

/// Returns the [`ModelError`] that the host has sent as JSON.
fn to_model_error(value: &Value) -> ModelError {
    let kind = serde_json::from_value(value["kind"].clone()).unwrap_or(ErrorKind::Internal);
    ModelError::new(
        kind,
        value["message"].as_str().unwrap_or("the host sent an error without a message").to_owned(),
    )
}
