//! A process as a member of a cluster: its store, its queue, and what runs need of the workers that execute them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::{Environment, SettingKey, Settings, Wanted};
use assize_run::{Dispatch, LeaseHolder, Run, RunId, RunInput, RunKind, Store, StoreError};
use assize_types::{Failure, FailureKind};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    Cluster, ClusterStore, Identification, Needs, Node, NodeRole, Options, Place, Queue, Times,
    Work,
};

/// The longest that a command waits for servers that do not answer. Servers and workers wait for good.
pub fn patience(config: &Settings) -> Duration {
    times(config).command()
}

fn times(config: &Settings) -> Times {
    Times::of_lease(*config.cluster.lease_seconds)
}

/// The kind of a job that executes a run.
pub const RUN: &str = "run";

/// The kind of a job that executes one debate of a run.
pub const DEBATE: &str = "debate";

/// The kind of a job that keeps the limits of a provider.
pub const LIMITS: &str = "limits";

/// This process as a part of a cluster.
#[derive(Debug, Clone)]
pub struct Member {
    pub cluster: Cluster,
    pub queue: Queue,
    pub store: Arc<ClusterStore>,
    /// Like that of no other.
    pub id: String,
}

impl Member {
    /// Joins the cluster of the settings. Without `patience` its servers are waited for however long it takes.
    pub async fn join(
        config: &Settings,
        around: &Environment,
        patience: Option<Duration>,
    ) -> Result<(Arc<Member>, Arc<dyn Store>), Failure> {
        let mut options = options(config, around)?;
        options.patience = patience;
        let cluster = Cluster::connect(options).await?;
        let store = Arc::new(cluster.store().await.map_err(|error| {
            match error {
                error @ StoreError::Failed { .. } => Failure::from(error)
                    .hint("see that NATS runs there, with JetStream: `nats-server -js`"),
                error => error.into(),
            }
        })?);
        let queue = cluster.queue().await?;
        let member = Member { cluster, queue, store: store.clone(), id: Node::new_id() };
        Ok((Arc::new(member), store))
    }

    /// Whether there are no workers who fit besides these, and none are about to be back.
    pub async fn nobody_for(
        &self,
        needs: &Needs,
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

    /// Whether workers who fit answer, besides these.
    pub async fn others_for(
        &self,
        needs: &Needs,
        besides: &BTreeSet<String>,
    ) -> Result<bool, StoreError> {
        let nodes = self.cluster.who().await?;
        Ok(nodes.iter().any(|node| {
            let fits = node.role == NodeRole::Worker && node.abilities.meet(needs);
            fits && !besides.contains(&node.id)
        }))
    }
}

#[async_trait]
impl Dispatch for Member {
    async fn enqueue(&self, run: &Run) -> Result<(), StoreError> {
        let work = Work {
            kind: RUN.to_owned(),
            about: run.id.to_string(),
            turn: run.epoch,
            body: json!(RunWork { run: run.id.clone() }),
        };
        self.queue.put(&needs_of(run), &work).await
    }

    fn node(&self) -> &str {
        &self.id
    }

    fn servers(&self) -> String {
        self.cluster.address()
    }
}

/// A job that executes a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunWork {
    pub run: RunId,
}

/// How the servers are reached, by the settings.
pub fn options(config: &Settings, around: &Environment) -> Result<Options, Failure> {
    let wrong = |message: String| Failure::new(FailureKind::Settings, message);
    let settings = &config.cluster;
    let address = (*settings.servers).clone();
    let address = address.ok_or_else(|| wrong("`cluster.servers` is not set".to_owned()))?;
    let file = |key: SettingKey, path: &Option<String>| match path
        .as_ref()
        .map(|path| around.typed(path.as_ref()))
    {
        Some(path) if !path.is_file() => {
            Err(wrong(format!("`{key}` names no file: `{}`", path.display())))
        }
        path => Ok(path),
    };
    let secret = |variable: &String| {
        let value = around.environment.get(variable)?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let user = match (&*settings.user, secret(&settings.password_env)) {
        (Some(user), Some(password)) => Some((user.clone(), password)),
        (Some(_), None) => {
            let variable = &*settings.password_env;
            return Err(wrong("`cluster.user` has no password".to_owned())
                .hint(format!("set `{variable}` in the environment")));
        }
        (None, _) => None,
    };
    if settings.cert_file.is_some() != settings.cert_key_file.is_some() {
        let message = "`cluster.cert_file` and `cluster.cert_key_file` go together";
        return Err(wrong(message.to_owned()));
    }
    let certificate = file(SettingKey::ClusterCertFile, &settings.cert_file)?
        .zip(file(SettingKey::ClusterCertKeyFile, &settings.cert_key_file)?);
    let name = settings.name.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > 60 || !name.chars().all(plain) {
        let message =
            format!("`cluster.name` is made of letters, digits, `-` and `_`, not `{name}`");
        return Err(wrong(message));
    }
    let usual = if address.servers().len() >= 3 { 3 } else { 1 };
    let identification = Identification {
        credentials: file(SettingKey::ClusterCredentialsFile, &settings.credentials_file)?,
        token: secret(&settings.token_env),
        authority: file(SettingKey::ClusterCaFile, &settings.ca_file)?,
        user,
        certificate,
    };
    let replicas = settings.replicas.unwrap_or(usual);
    let times = times(config);
    Ok(Options { address, identification, name, replicas, patience: None, times })
}

/// Labels as they are typed: `disk=fast, site=north`.
pub fn labels(typed: &str) -> Result<BTreeMap<String, String>, Failure> {
    let label = |text: &str| {
        let (name, value) = text.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty() && !value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    let wrong = || {
        let message = format!("`{typed}` is not like NAME=VALUE, with commas between them");
        Failure::new(FailureKind::Usage, message)
    };
    typed.split(',').map(|text| label(text).ok_or_else(wrong)).collect()
}

/// The labels that a worker must have to execute runs, by the settings.
pub fn needed_labels(config: &Settings) -> Result<BTreeMap<String, String>, Failure> {
    Ok(config.cluster.needs.as_deref().map(labels).transpose()?.unwrap_or_default())
}

/// What a run needs of the worker that executes it.
pub fn needs_of(run: &Run) -> Needs {
    let RunInput { needs: labels, region, .. } = RunInput::of(run).unwrap_or_default();
    let here = Needs { labels, region, ..Needs::default() };
    // Programs run where the run is executed; debates wherever there is room for one.
    match run.kind {
        RunKind::Code | RunKind::Eval => in_a_sandbox(here, run),
        RunKind::Consult | RunKind::Debate | RunKind::Work => here,
    }
}

/// The same for what runs in a sandbox.
pub fn in_a_sandbox(needs: Needs, run: &Run) -> Needs {
    let memory = RunInput::of(run).ok().and_then(|input| input.limits);
    let wanted = isolation_of(run).and_then(|wanted| wanted.parse::<Wanted>().ok());
    let isolation =
        wanted.filter(|wanted| *wanted != Wanted::Auto).map(|wanted| wanted.to_string());
    Needs {
        place: Place::Sandbox,
        isolation,
        // In steps, so that not every number has a subject of its own.
        memory: memory.map_or(0, |limits| (limits.memory >> 20).next_multiple_of(64)),
        ..needs
    }
}

/// The isolation that was asked for, now or when the run was started.
pub fn isolation_of(run: &Run) -> Option<String> {
    let now = LeaseHolder::last(run)
        .and_then(|mut last| last.asked.remove(SettingKey::SandboxIsolation.name()));
    now.or_else(|| RunInput::of(run).ok()?.isolation)
}
