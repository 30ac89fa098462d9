//! Debates in sandboxes: each in one of its own, with no way out but to the proxy.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assize_debate::{Job, Verdict};
use assize_graph::{NodeError, RunError};
use assize_llm::Request;
use assize_sandbox::{
    Answers, Command, Finished, KILL_AFTER, Key, Layer, Manager, Sandbox, SandboxError, Spec, Work,
};
use assize_types::{Cancel, Fingerprint};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::negotiation::proxy::{ModelProxy, ReplayedAnswers};
use crate::negotiation::{DebateOutcome, Debates, InProcess};

/// The program that debates, as it is put into sandboxes.
static NEGOTIATOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/assize-negotiator"));

const NAME: &str = "negotiator";

/// How often a sandbox that breaks is made anew.
const TRIES: u32 = 3;

/// The longest that one debate may take: models are slow, and wait for each other.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a debate may do nothing but think by itself, which takes no time to speak of.
const SILENCE: Duration = Duration::from_secs(60);

/// The largest request, in bytes.
const LARGEST: usize = 1 << 20;

/// Puts the program that debates into a folder, from which sandboxes see it.
pub fn install(folder: &Path) -> std::io::Result<Layer> {
    let place = folder.join(format!("{NAME}-{}", &Fingerprint::of(NEGOTIATOR).to_string()[..16]));
    let program = place.join(NAME);
    // What others have put there is not what we run.
    let is_ours = || std::fs::read(&program).is_ok_and(|bytes| bytes == NEGOTIATOR);
    if !is_ours() {
        std::fs::create_dir_all(folder)?;
        if place.symlink_metadata().is_ok() {
            std::fs::remove_dir_all(&place)?;
        }
        let unfinished = tempfile::tempdir_in(folder)?;
        std::fs::write(unfinished.path().join(NAME), NEGOTIATOR)?;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(unfinished.path().join(NAME), executable.clone())?;
        std::fs::set_permissions(unfinished.path(), executable)?;
        let unfinished = unfinished.keep();
        if let Err(error) = std::fs::rename(&unfinished, &place) {
            let _ = std::fs::remove_dir_all(&unfinished);
            // Another process was faster with the same.
            if !is_ours() {
                return Err(error);
            }
        }
    }
    Layer::of(&place)
}

/// Debates in sandboxes.
#[derive(Debug)]
pub struct InSandboxes {
    pub manager: Arc<Manager>,
    /// Their limits, their image and where they should be; with the layer that has the program.
    pub spec: Spec,
    pub layer: Layer,
    /// The run that they belong to. Two lives of one may overlap for a moment, and share no sandbox.
    pub run: String,
    /// Whether a debate may be held in this process where no sandbox can be made.
    pub may_do_without: bool,
    /// That these sandboxes are a weaker boundary than was meant.
    pub weaker: Option<String>,
    /// Which isolation it is, and why that one.
    pub isolation: String,
}

/// A debate that went wrong where it was held.
#[derive(Debug, thiserror::Error)]
pub enum DebateError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the debate in the sandbox failed: {0}")]
    Failed(String),
    #[error("the program that debates was ended in the sandbox: {0}")]
    Died(String),
    #[error("what the debate came to cannot be read: {0}")]
    Unreadable(String),
}

impl DebateError {
    /// Whether another sandbox may well do.
    pub fn is_infrastructure(&self) -> bool {
        match self {
            DebateError::Sandbox(error) => error.is_infrastructure(),
            DebateError::Died(_) => true,
            DebateError::Failed(_) | DebateError::Unreadable(_) => false,
        }
    }
}

impl InSandboxes {
    async fn make(&self, job: &Job) -> Result<(Key, Sandbox), SandboxError> {
        let move_id = &job.move_document.move_id;
        let ticker = job.company.ticker.as_deref();
        let name = match ticker {
            Some(ticker) => {
                format!("negotiate-{}-{move_id}", ticker.to_lowercase().replace('.', "-"))
            }
            None => format!("negotiate-{move_id}"),
        };
        let key = Key { run: Some(self.run.clone()), name };
        let labels = [("move", move_id.as_str()), ("layer", "sandbox"), ("project", "assize")];
        let labels: BTreeMap<String, String> = (labels.into_iter())
            .chain(ticker.map(|ticker| ("ticker", ticker)))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut spec = Spec { labels, time_to_live: Some(LONGEST), ..self.spec.clone() };
        spec.layers.push(self.layer.clone());
        let sandbox = self.manager.create_if_not_exists(&key, spec).await?;
        Ok((key, sandbox))
    }

    /// Debates in a sandbox that is there.
    async fn debate(
        &self,
        sandbox: &Sandbox,
        job: &Job,
        proxy: &Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<Verdict, DebateError> {
        let text =
            serde_json::to_vec(job).map_err(|error| DebateError::Failed(error.to_string()))?;
        sandbox.write("/workspace/job.json", &text).await?;
        let program = format!("{}/{NAME}", self.layer.at);
        let command = Command::new(program).args(["/workspace/job.json"]).wall(LONGEST);
        let makers = job.personas.decision_makers.len();
        let calls =
            usize::try_from(assize_debate::calls(job.max_rounds, makers)).unwrap_or(usize::MAX);
        let work = Work {
            keys: String::new(),
            // Each may be asked again, or after a summary.
            most_calls: calls.saturating_mul(3),
            // The opening, and blind scores beside it.
            at_once: makers + 1,
            largest: LARGEST,
            most_events: 0,
            kill_after: KILL_AFTER,
        };
        let door = Arc::new(Door(proxy.clone()));
        proxy.begin();
        let finished = tokio::select! {
            finished = sandbox.work(command, work, door, cancel) => finished?,
            () = fell_silent(proxy) => {
                return Err(DebateError::Died(format!("it asked nothing for {} s", SILENCE.as_secs())));
            }
        };
        let Finished { stdout, stderr, outcome } = finished;
        if !outcome.success() {
            let words = String::from_utf8_lossy(&stderr).trim().to_owned();
            let words = assize_types::text::shorten(&words, 300);
            // By a signal, or since whoever made the sandbox is gone: nothing that the debate did.
            let died = outcome.signal.is_some() || words.contains(assize_debate::HOST_IS_GONE);
            return Err(match () {
                () if outcome.timed_out => DebateError::Failed("its time was up".to_owned()),
                () if outcome.out_of_memory => {
                    DebateError::Failed("it needs more memory: set `consult.memory`".to_owned())
                }
                () if died => DebateError::Died(format!("exit status {}", outcome.status())),
                () => DebateError::Failed(words),
            });
        }
        let verdict: Verdict = serde_json::from_slice(&stdout)
            .map_err(|error| DebateError::Unreadable(error.to_string()))?;
        // A sandbox is not taken on trust: what was answered must come to the same here.
        let minutes = Arc::new(ReplayedAnswers(proxy.clone()));
        let ours = job.hold(minutes, cancel.clone()).await.map_err(|error| match error {
            NodeError::Stop(error) => DebateError::Unreadable(error.to_string()),
            NodeError::Failed(error) => DebateError::Unreadable(error.to_string()),
        })?;
        if ours != verdict {
            return Err(DebateError::Unreadable("it is not what was answered".to_owned()));
        }
        // What was said is there in files as well, as it grew: both must agree.
        for (log, entries) in &verdict.conversation_logs {
            if entries.is_empty() {
                continue;
            }
            let path = format!("/workspace/logs/{log}.json");
            let bytes = sandbox.read(&path, 64 << 20).await?;
            let written: Vec<assize_debate::ConversationEntry> = serde_json::from_slice(&bytes)
                .map_err(|error| DebateError::Unreadable(format!("`{path}`: {error}")))?;
            if written != *entries {
                return Err(DebateError::Unreadable(format!("`{path}` says otherwise")));
            }
        }
        Ok(verdict)
    }
}

#[async_trait]
impl Debates for InSandboxes {
    async fn hold(
        &self,
        job: &Job,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError> {
        let mut tried = 0;
        let mut answered = 0;
        let mut remade = Vec::new();
        loop {
            if cancel.is_cancelled() {
                return Err(RunError::Cancelled { reason: cancel.reason() }.into());
            }
            // Whoever gets on may break as often as it likes.
            let answers = proxy.begin();
            if answers > answered {
                (tried, answered) = (0, answers);
            }
            tried += 1;
            let (key, sandbox) = match self.make(job).await {
                Ok(made) => made,
                Err(error) if error.is_infrastructure() && tried < TRIES => continue,
                Err(error) if self.may_do_without => {
                    let why =
                        format!("no sandbox could be made, so it was debated without one: {error}");
                    tracing::warn!(%error, "no sandbox could be made; debating in this process");
                    return InProcess { why: Some(why) }.hold(job, proxy, cancel).await;
                }
                Err(error) => return Err(DebateError::from(error).into()),
            };
            let debated = self.debate(&sandbox, job, &proxy, cancel).await;
            if let Err(error) = self.manager.delete(&key).await {
                tracing::warn!(%error, %tried, "a sandbox could not be removed; it will go with its time");
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
                // What was answered is answered at once the next time.
                Err(error) if error.is_infrastructure() && tried < TRIES => {
                    tracing::info!(%error, tried, "a sandbox broke; the debate goes on in another");
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

/// Waits until a debate has asked nothing for too long.
async fn fell_silent(proxy: &ModelProxy) {
    loop {
        let silence = proxy.silence();
        if silence >= SILENCE {
            return;
        }
        tokio::time::sleep(SILENCE - silence).await;
    }
}

/// The proxy, as a sandbox reaches it.
struct Door(Arc<ModelProxy>);

#[async_trait]
impl Answers for Door {
    async fn call(&self, key: &str, request: Value) -> Result<Value, Value> {
        let request: Request = serde_json::from_value(request)
            .map_err(|error| json!({"kind": "internal", "message": error.to_string()}))?;
        match self.0.answer(key, &request).await {
            Ok(response) => Ok(json!(response)),
            Err(error) => Err(json!({"kind": error.kind(), "message": error.message()})),
        }
    }

    async fn event(&self, _: Value) {}
}
