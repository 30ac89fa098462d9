//! Runs debates in sandboxes: one sandbox per debate, whose only connection is to the model proxy.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assize_debate::{DebateSpec, DebateVerdict};
use assize_graph::{NodeError, RunError};
use assize_llm::ModelRequest;
use assize_sandbox::{
    FinishedProgram, HostCallHandler, HostCallLimits, KILL_AFTER, ProgramCommand, Sandbox,
    SandboxError, SandboxKey, SandboxLayer, SandboxManager, SandboxSpec,
};
use assize_types::{Cancel, Fingerprint};
use async_trait::async_trait;
use libdeflater::Decompressor;
use serde_json::{Value, json};

use crate::negotiation::proxy::{ModelProxy, ReplayedAnswers};
use crate::negotiation::{DebateOutcome, DebateRunner, InProcessDebates};

/// Binary of the negotiator, the program that runs a debate inside a sandbox, compressed with gzip.
static NEGOTIATOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/assize-negotiator.gz"));

/// Decompresses the binary of the negotiator.
pub fn negotiator_program() -> Vec<u8> {
    // The last 4 bytes of a gzip file are the size of its content.
    let size = NEGOTIATOR.last_chunk().map_or(0, |size| u32::from_le_bytes(*size));
    let mut program = vec![0; size as usize];
    let decompressed = Decompressor::new().gzip_decompress(NEGOTIATOR, &mut program);
    decompressed
        .unwrap_or_else(|error| unreachable!("cannot decompress the embedded negotiator: {error}"));
    program
}

const NAME: &str = "negotiator";

/// Maximum number of consecutive attempts to run a debate that bring no new model answer. Each attempt uses a new
/// sandbox.
const MAX_ATTEMPTS: u32 = 3;

/// Time limit of one debate. It is long, because models are slow and calls wait for each other.
pub(crate) const DEBATE_TIME_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum time for which a debate in a sandbox makes no model call. After this time, the attempt to run the debate has
/// failed. A debate computes almost nothing between two calls.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Maximum size of a model request from a sandbox, in bytes.
const MAX_REQUEST: usize = 1 << 20;

/// Installs the negotiator into a folder, and returns the folder as a layer for sandboxes.
pub fn install(folder: &Path) -> std::io::Result<SandboxLayer> {
    let binary = negotiator_program();
    let place = folder.join(format!("{NAME}-{}", &Fingerprint::of(&binary).to_string()[..16]));
    let program = place.join(NAME);
    // A file with other content is replaced, so that sandboxes run only the embedded binary.
    let is_ours = || std::fs::read(&program).is_ok_and(|bytes| bytes == binary);
    if !is_ours() {
        std::fs::create_dir_all(folder)?;
        if place.symlink_metadata().is_ok() {
            std::fs::remove_dir_all(&place)?;
        }
        let unfinished = tempfile::tempdir_in(folder)?;
        std::fs::write(unfinished.path().join(NAME), &binary)?;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(unfinished.path().join(NAME), executable.clone())?;
        std::fs::set_permissions(unfinished.path(), executable)?;
        let unfinished = unfinished.keep();
        if let Err(error) = std::fs::rename(&unfinished, &place) {
            let _ = std::fs::remove_dir_all(&unfinished);
            // Another process may have installed the same binary in the meantime.
            if !is_ours() {
                return Err(error);
            }
        }
    }
    SandboxLayer::of(&place)
}

/// Runs debates in sandboxes.
#[derive(Debug)]
pub struct SandboxedDebates {
    pub manager: Arc<SandboxManager>,
    /// Limits, image and region of the sandboxes. The layer of the negotiator is added when a sandbox is created.
    pub spec: SandboxSpec,
    /// Layer with the negotiator.
    pub layer: SandboxLayer,
    /// Name of the run in the keys of its sandboxes. The name differs for each lease of a run: two processes can
    /// execute the same run for a moment, and must not share sandboxes.
    pub run: String,
    /// Whether a debate is allowed to run in this process if no sandbox can be created.
    pub allow_in_process: bool,
    /// Warning for the report if no microVM is available and debates run with weaker isolation than a microVM.
    pub weaker: Option<String>,
    /// Isolation of the sandboxes, and why it was chosen.
    pub isolation: String,
}

/// Error of a debate in a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum DebateError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the debate in the sandbox failed: {0}")]
    Failed(String),
    #[error("the negotiator in the sandbox died or stopped responding: {0}")]
    NegotiatorDied(String),
    #[error("invalid verdict from the sandbox: {0}")]
    InvalidVerdict(String),
}

impl DebateError {
    /// Whether the cause of this error is the sandbox, so that the debate may succeed in a new sandbox.
    pub fn is_infrastructure(&self) -> bool {
        match self {
            DebateError::Sandbox(error) => error.is_infrastructure(),
            DebateError::NegotiatorDied(_) => true,
            DebateError::Failed(_) | DebateError::InvalidVerdict(_) => false,
        }
    }
}

impl SandboxedDebates {
    async fn make(&self, job: &DebateSpec) -> Result<(SandboxKey, Sandbox), SandboxError> {
        let move_id = &job.move_document.move_id;
        let ticker = job.company.ticker.as_deref();
        let name = match ticker {
            Some(ticker) => {
                format!("negotiate-{}-{move_id}", ticker.to_lowercase().replace('.', "-"))
            }
            None => format!("negotiate-{move_id}"),
        };
        let key = SandboxKey { run: Some(self.run.clone()), name };
        let labels = [("move", move_id.as_str()), ("layer", "sandbox"), ("project", "assize")];
        let labels: BTreeMap<String, String> = (labels.into_iter())
            .chain(ticker.map(|ticker| ("ticker", ticker)))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut spec =
            SandboxSpec { labels, time_to_live: Some(DEBATE_TIME_LIMIT), ..self.spec.clone() };
        spec.layers.push(self.layer.clone());
        let sandbox = self.manager.create_if_not_exists(&key, spec).await?;
        Ok((key, sandbox))
    }

    /// Runs the debate in an existing sandbox.
    async fn debate(
        &self,
        sandbox: &Sandbox,
        job: &DebateSpec,
        proxy: &Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateVerdict, DebateError> {
        let text =
            serde_json::to_vec(job).map_err(|error| DebateError::Failed(error.to_string()))?;
        sandbox.write("/workspace/job.json", &text).await?;
        let program = format!("{}/{NAME}", self.layer.at);
        let command = ProgramCommand::new(program)
            .args(["/workspace/job.json"])
            .time_limit(DEBATE_TIME_LIMIT);
        let makers = job.personas.decision_makers.len();
        let calls =
            usize::try_from(assize_debate::calls(job.max_rounds, makers)).unwrap_or(usize::MAX);
        let work = HostCallLimits {
            key_prefix: String::new(),
            // Each planned call may be repeated once and may need a summary before it.
            max_calls: calls.saturating_mul(3),
            // The opening critique and the blind scores of all decision makers run concurrently.
            max_concurrent_calls: makers + 1,
            max_call_bytes: MAX_REQUEST,
            max_events: 0,
            kill_after: KILL_AFTER,
        };
        let answers = Arc::new(ProxyAnswers(proxy.clone()));
        proxy.start_attempt();
        let finished = tokio::select! {
            finished = sandbox.run_with_host_calls(command, work, answers, cancel) => finished?,
            () = wait_until_idle(proxy) => {
                return Err(DebateError::NegotiatorDied(format!("the debate made no model call for {} s", IDLE_LIMIT.as_secs())));
            }
        };
        let FinishedProgram { stdout, stderr, outcome } = finished;
        if !outcome.success() {
            let message = String::from_utf8_lossy(&stderr).trim().to_owned();
            let message = assize_types::text::shorten(&message, 300);
            // A signal killed the negotiator, or it lost the connection to the host. Another sandbox may succeed.
            let died =
                outcome.signal.is_some() || message.contains(assize_debate::HOST_CONNECTION_LOST);
            return Err(match () {
                () if outcome.timed_out => DebateError::Failed("timed out".to_owned()),
                () if outcome.out_of_memory => DebateError::Failed(
                    "the sandbox ran out of memory: raise `consult.memory`".to_owned(),
                ),
                () if died => DebateError::NegotiatorDied(format!(
                    "the negotiator exited with status {}",
                    outcome.status()
                )),
                () => DebateError::Failed(message),
            });
        }
        let verdict: DebateVerdict = serde_json::from_slice(&stdout)
            .map_err(|error| DebateError::InvalidVerdict(error.to_string()))?;
        // The sandbox is untrusted, so this process runs the debate again with the recorded answers. The verdict must
        // be the same.
        let answers = Arc::new(ReplayedAnswers(proxy.clone()));
        let ours = job.run(answers, cancel.clone()).await.map_err(|error| match error {
            NodeError::Stop(error) => DebateError::InvalidVerdict(error.to_string()),
            NodeError::Failed(error) => DebateError::InvalidVerdict(error.to_string()),
        })?;
        if ours != verdict {
            return Err(DebateError::InvalidVerdict(
                "the verdict does not match the recorded model answers".to_owned(),
            ));
        }
        // The conversation files in the sandbox must also match the verdict.
        for (log, entries) in &verdict.conversation_logs {
            if entries.is_empty() {
                continue;
            }
            let path = format!("/workspace/logs/{log}.json");
            let bytes = sandbox.read(&path, 64 << 20).await?;
            let written: Vec<assize_debate::ConversationEntry> = serde_json::from_slice(&bytes)
                .map_err(|error| DebateError::InvalidVerdict(format!("`{path}`: {error}")))?;
            if written != *entries {
                return Err(DebateError::InvalidVerdict(format!(
                    "the conversation in `{path}` differs from the verdict"
                )));
            }
        }
        Ok(verdict)
    }
}

#[async_trait]
impl DebateRunner for SandboxedDebates {
    async fn run_debate(
        &self,
        job: &DebateSpec,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError> {
        let mut tried = 0;
        let mut remade = Vec::new();
        loop {
            if cancel.is_cancelled() {
                return Err(RunError::Cancelled { reason: cancel.reason() }.into());
            }
            tried += 1;
            let answers_before = proxy.start_attempt();
            let (key, sandbox) = match self.make(job).await {
                Ok(made) => made,
                Err(error) if error.is_infrastructure() && tried < MAX_ATTEMPTS => continue,
                Err(error) if self.allow_in_process => {
                    let why = format!(
                        "no sandbox could be created, so the debate ran without a sandbox: {error}"
                    );
                    tracing::warn!(%error, "cannot create a sandbox; the debate runs in this process");
                    return InProcessDebates { why: Some(why) }
                        .run_debate(job, proxy, cancel)
                        .await;
                }
                Err(error) => return Err(DebateError::from(error).into()),
            };
            let debated = self.debate(&sandbox, job, &proxy, cancel).await;
            if let Err(error) = self.manager.delete(&key).await {
                tracing::warn!(%error, %tried, "cannot remove the sandbox of a debate; the sandbox will expire");
            }
            // Each new answer resets the number of attempts: a debate that makes progress may fail any number of times.
            if proxy.answers() > answers_before {
                tried = 0;
            }
            match debated {
                Ok(verdict) => {
                    let weaker = self.weaker.clone();
                    return Ok(DebateOutcome { verdict, not_isolated: None, weaker, remade });
                }
                // A cancelled debate counts as cancelled, even if its guest agent or its sandbox failed first.
                Err(_) if cancel.is_cancelled() => {
                    return Err(RunError::Cancelled { reason: cancel.reason() }.into());
                }
                // The next attempt replays the answers that the proxy has cached.
                Err(error) if error.is_infrastructure() && tried < MAX_ATTEMPTS => {
                    tracing::info!(%error, tried, "sandbox failed; the debate continues in a new sandbox");
                    remade.push(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn isolation(&self) -> String {
        self.isolation.clone()
    }

    async fn close(&self) {
        self.manager.close().await;
    }
}

/// Waits until the debate has made no model call for the duration [`IDLE_LIMIT`].
async fn wait_until_idle(proxy: &ModelProxy) {
    loop {
        let silence = proxy.idle_time();
        if silence >= IDLE_LIMIT {
            return;
        }
        tokio::time::sleep(IDLE_LIMIT - silence).await;
    }
}

/// Forwards the model calls of a sandbox to the proxy.
struct ProxyAnswers(Arc<ModelProxy>);

#[async_trait]
impl HostCallHandler for ProxyAnswers {
    async fn call(&self, key: &str, request: Value) -> Result<Value, Value> {
        let request: ModelRequest = serde_json::from_value(request)
            .map_err(|error| json!({"kind": "internal", "message": error.to_string()}))?;
        match self.0.answer(key, &request).await {
            Ok(response) => Ok(json!(response)),
            Err(error) => Err(json!({"kind": error.kind(), "message": error.message()})),
        }
    }

    async fn event(&self, _: Value) {}
}
