//! Client of a cluster: connects this process to the cluster's store and queue, and determines what a run requires of
//! the worker that executes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::{Environment, RequestedIsolation, SettingKey, Settings};
use assize_run::{Dispatch, LeaseHolder, Run, RunId, RunInput, RunKind, Store, StoreError};
use assize_types::{Failure, FailureKind};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    Cluster, ClusterCredentials, ClusterNode, ClusterOptions, ClusterStore, ClusterTimes, NodeRole,
    Queue, QueuedJob, Requirements, SlotKind,
};

/// Maximum time that a command waits for NATS servers that do not reply. `assize serve` and `assize worker` wait
/// without a limit.
pub fn command_timeout(config: &Settings) -> Duration {
    times(config).command()
}

fn times(config: &Settings) -> ClusterTimes {
    ClusterTimes::of_lease(*config.cluster.lease_seconds)
}

/// Kind of the job that executes a run.
pub const RUN: &str = "run";

/// Kind of the job that executes one debate of a run.
pub const DEBATE: &str = "debate";

/// Kind of the job that enforces the rate limits of a provider for the whole cluster.
pub const LIMITS: &str = "limits";

/// Client of a cluster that this process has joined.
#[derive(Debug, Clone)]
pub struct ClusterClient {
    pub cluster: Cluster,
    pub queue: Queue,
    pub store: Arc<ClusterStore>,
    /// Unique node id of this process.
    pub id: String,
}

impl ClusterClient {
    /// Joins the cluster that is configured in the settings. Waits up to `patience` for the NATS servers; `None` waits
    /// without a limit.
    pub async fn join(
        config: &Settings,
        around: &Environment,
        patience: Option<Duration>,
    ) -> Result<(Arc<ClusterClient>, Arc<dyn Store>), Failure> {
        let mut options = options(config, around)?;
        options.timeout = patience;
        let cluster = Cluster::connect(options).await?;
        let store = Arc::new(cluster.store().await.map_err(|error| match error {
            error @ StoreError::Failed { .. } => Failure::from(error).hint(
                "check that a NATS server runs at the address, with JetStream enabled (`nats-server -js`)",
            ),
            error => error.into(),
        })?);
        let queue = cluster.queue().await?;
        let member =
            ClusterClient { cluster, queue, store: store.clone(), id: ClusterNode::new_id() };
        Ok((Arc::new(member), store))
    }

    /// Whether no worker meets the requirements, not counting the workers whose ids are in `besides`. Returns true only
    /// after it has searched for as long as a worker may need to reconnect.
    pub async fn no_worker_for(
        &self,
        needs: &Requirements,
        besides: &BTreeSet<String>,
    ) -> Result<bool, StoreError> {
        let begun = Instant::now();
        while !self.others_for(needs, besides).await? {
            if begun.elapsed() >= self.cluster.times().reconnect() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a worker whose id is not in `besides` replies to a status request and meets the requirements.
    pub async fn others_for(
        &self,
        needs: &Requirements,
        besides: &BTreeSet<String>,
    ) -> Result<bool, StoreError> {
        let nodes = self.cluster.nodes().await?;
        Ok(nodes.iter().any(|node| {
            let fits = node.role == NodeRole::Worker && node.capabilities.meet(needs);
            fits && !besides.contains(&node.id)
        }))
    }
}

#[async_trait]
impl Dispatch for ClusterClient {
    async fn enqueue(&self, run: &Run) -> Result<(), StoreError> {
        let work = QueuedJob {
            kind: RUN.to_owned(),
            about: run.id.to_string(),
            turn: run.epoch,
            body: json!(RunJobBody { run: run.id.clone() }),
        };
        self.queue.add(&requirements_of(run), &work).await
    }

    fn node(&self) -> &str {
        &self.id
    }

    fn servers(&self) -> String {
        self.cluster.address()
    }
}

/// Body of the queued job that executes a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunJobBody {
    pub run: RunId,
}

/// Builds the connection options of the cluster from the settings.
pub fn options(config: &Settings, around: &Environment) -> Result<ClusterOptions, Failure> {
    let wrong = |message: String| Failure::new(FailureKind::Settings, message);
    let settings = &config.cluster;
    let address = (*settings.servers).clone();
    let address = address.ok_or_else(|| wrong("`cluster.servers` is not set".to_owned()))?;
    let file = |key: SettingKey, path: &Option<String>| match path
        .as_ref()
        .map(|path| around.resolve_path(path.as_ref()))
    {
        Some(path) if !path.is_file() => {
            Err(wrong(format!("`{key}`: file not found: `{}`", path.display())))
        }
        path => Ok(path),
    };
    let secret = |variable: &String| {
        let value = around.variables.get(variable)?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let user = match (&*settings.user, secret(&settings.password_env)) {
        (Some(user), Some(password)) => Some((user.clone(), password)),
        (Some(_), None) => {
            let variable = &*settings.password_env;
            return Err(wrong("`cluster.user` is set without a password".to_owned())
                .hint(format!("set the password in the environment variable `{variable}`")));
        }
        (None, _) => None,
    };
    if settings.cert_file.is_some() != settings.cert_key_file.is_some() {
        let message = "`cluster.cert_file` and `cluster.cert_key_file` must be set together";
        return Err(wrong(message.to_owned()));
    }
    let certificate = file(SettingKey::ClusterCertFile, &settings.cert_file)?
        .zip(file(SettingKey::ClusterCertKeyFile, &settings.cert_key_file)?);
    let name = settings.name.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > 60 || !name.chars().all(plain) {
        let message =
            format!("invalid `cluster.name` `{name}`: use up to 60 letters, digits, `-` and `_`");
        return Err(wrong(message));
    }
    let default_replicas = if address.servers().len() >= 3 { 3 } else { 1 };
    let identification = ClusterCredentials {
        credentials: file(SettingKey::ClusterCredentialsFile, &settings.credentials_file)?,
        token: secret(&settings.token_env),
        authority: file(SettingKey::ClusterCaFile, &settings.ca_file)?,
        user,
        certificate,
    };
    let replicas = settings.replicas.unwrap_or(default_replicas);
    let times = times(config);
    Ok(ClusterOptions {
        address,
        credentials: identification,
        name,
        replicas,
        timeout: None,
        times,
    })
}

/// Parses labels such as `disk=fast, site=north`.
pub fn labels(typed: &str) -> Result<BTreeMap<String, String>, Failure> {
    let label = |text: &str| {
        let (name, value) = text.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty() && !value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    let wrong = || {
        let message = format!("invalid labels `{typed}`: expected NAME=VALUE, separated by commas");
        Failure::new(FailureKind::Usage, message)
    };
    typed.split(',').map(|text| label(text).ok_or_else(wrong)).collect()
}

/// Returns the labels that a worker must have to execute runs, from the setting `cluster.require_labels`.
pub fn needed_labels(config: &Settings) -> Result<BTreeMap<String, String>, Failure> {
    Ok(config.cluster.require_labels.as_deref().map(labels).transpose()?.unwrap_or_default())
}

/// Returns the requirements that a worker must meet to execute a run.
pub fn requirements_of(run: &Run) -> Requirements {
    let RunInput { needs: labels, region, .. } = RunInput::of(run).unwrap_or_default();
    let needs = Requirements { labels, region, ..Requirements::default() };
    // The worker that executes the run also runs its programs, in its sandboxes. Debates are queued as separate jobs.
    match run.kind {
        RunKind::Code | RunKind::Eval => with_sandbox_requirements(needs, run),
        RunKind::Consult | RunKind::Debate | RunKind::Work => needs,
    }
}

/// Adds the requirements of the run's sandbox to `needs`: a sandbox slot, isolation and memory.
pub fn with_sandbox_requirements(needs: Requirements, run: &Run) -> Requirements {
    let memory = RunInput::of(run).ok().and_then(|input| input.limits);
    let wanted = isolation_of(run).and_then(|wanted| wanted.parse::<RequestedIsolation>().ok());
    let isolation = wanted
        .filter(|wanted| *wanted != RequestedIsolation::Auto)
        .map(|wanted| wanted.to_string());
    Requirements {
        place: SlotKind::Sandbox,
        isolation,
        // Round the memory up to a multiple of 64 MB, so that jobs with similar limits share a consumer.
        memory: memory.map_or(0, |limits| (limits.memory >> 20).next_multiple_of(64)),
        ..needs
    }
}

/// Returns the isolation that the user requested when the run was last resumed. If the user requested no isolation
/// then, returns the isolation that the user requested when the run was started, if any.
pub fn isolation_of(run: &Run) -> Option<String> {
    let now = LeaseHolder::last(run)
        .and_then(|mut last| last.asked.remove(SettingKey::SandboxIsolation.name()));
    now.or_else(|| RunInput::of(run).ok()?.isolation)
}
