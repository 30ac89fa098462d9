//! Taking part in a cluster: what is asked for here is put where all can see it, and done by whoever can.
//!
//! Whoever asks for a trial writes the run down and puts it on the queue, then `elsewhere` follows it to its end. A
//! [`worker`] takes it and holds it as it would be held in one process; but for its debates, which it puts on the
//! queue in their turn, so that each is held wherever there is a sandbox for it (`debates`). All questions to models
//! are asked by whoever holds the run, so that one claim guards all that is spent on it.

pub(crate) mod debates;
pub(crate) mod elsewhere;
mod grounds;
pub(crate) mod limits;
pub mod live;
pub mod status;
pub mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_cluster::{
    Cluster, ClusterStore, Identification, Needs, Node, NodeRole, Options, Place, Queue, Times,
    Work,
};
use assize_config::{Environment, Limits, SettingKey, Settings, Wanted};
use assize_run::{Run, RunId, RunKind, Store, StoreError};
use assize_types::{Failure, FailureKind};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::choose::Tape;
use crate::kept::Holder;
use crate::walls;

/// The longest that a command waits for servers that do not answer. Servers and workers wait for good.
pub fn patience(config: &Settings) -> Duration {
    times(config).command()
}

fn times(config: &Settings) -> Times {
    Times::of_lease(*config.cluster.lease_seconds)
}

/// The work of holding a run.
pub(crate) const RUN: &str = "run";

/// The work of holding one debate of a run.
pub(crate) const DEBATE: &str = "debate";

/// The work of keeping the limits of a provider.
pub(crate) const LIMITS: &str = "limits";

/// Where the input of a run says what it needs of whoever does it.
const NEEDS: &str = "needs";

/// Where a trial is held that others hold.
pub(crate) const HELD: &str = "by a worker of the cluster";

/// This process as a part of a cluster.
#[derive(Debug, Clone)]
pub struct Member {
    pub cluster: Cluster,
    pub(crate) queue: Queue,
    pub(crate) store: Arc<ClusterStore>,
    /// Like that of no other.
    pub id: String,
}

/// Whether runs are kept and done in a cluster, by the settings.
pub fn is_set(config: &Settings) -> bool {
    config.cluster.servers.is_some()
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

    /// Has a run held by whoever can, once in each of its lives.
    pub(crate) async fn put(&self, run: &Run) -> Result<(), StoreError> {
        let work = Work {
            kind: RUN.to_owned(),
            about: run.id.to_string(),
            turn: run.epoch,
            body: json!(RunWork { run: run.id.clone() }),
        };
        self.queue.put(&needs_of(run), &work).await
    }

    /// Whether there are no workers who fit besides these, and none are about to be back.
    pub(crate) async fn nobody_for(
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
    pub(crate) async fn others_for(
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

/// A run that is to be held.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunWork {
    run: RunId,
}

/// How the servers are reached, by the settings.
pub fn options(config: &Settings, around: &Environment) -> Result<Options, Failure> {
    let wrong = |message: String| Failure::new(FailureKind::Settings, message);
    let settings = &config.cluster;
    let address = (*settings.servers).clone();
    let address = address.ok_or_else(|| wrong("`cluster.servers` is not set".to_owned()))?;
    let file = |key: SettingKey, path: &Option<String>| match path
        .as_ref()
        .map(|path| walls::typed(around, path.as_ref()))
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

/// Refuses a tape: it is here, and whoever holds the trial is not.
pub(crate) fn refuse_tape(tape: &Tape) -> Result<(), Failure> {
    match tape {
        Tape::None => Ok(()),
        Tape::Record(_) | Tape::Replay(_) => {
            let message = "calls are recorded and replayed on one machine, and not in a cluster";
            Err(Failure::new(FailureKind::Usage, message).hint("do it here, without `--cluster`"))
        }
    }
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

/// Writes down with a run what it needs of whoever does it, by the settings.
pub(crate) fn note_needs(input: &mut serde_json::Value, config: &Settings) -> Result<(), Failure> {
    let labels = config.cluster.needs.as_deref().map(labels).transpose()?.unwrap_or_default();
    if !labels.is_empty() {
        input[NEEDS] = json!(labels);
    }
    Ok(())
}

/// What a run needs of whoever holds it.
pub(crate) fn needs_of(run: &Run) -> Needs {
    let labels = serde_json::from_value(run.input[NEEDS].clone()).unwrap_or_default();
    let region = run.input["region"].as_str().map(str::to_owned);
    let here = Needs { labels, region, ..Needs::default() };
    // Programs are run where the run is held; debates wherever there is room for one.
    match run.kind {
        RunKind::Code | RunKind::Eval => in_a_sandbox(here, run),
        _ => here,
    }
}

/// The same for what is done in a sandbox.
pub(crate) fn in_a_sandbox(needs: Needs, run: &Run) -> Needs {
    let limits: Option<Limits> = serde_json::from_value(run.input["limits"].clone()).ok();
    let wanted = isolation_of(run).and_then(|walls| walls.parse::<Wanted>().ok());
    let isolation =
        wanted.filter(|wanted| *wanted != Wanted::Auto).map(|wanted| wanted.to_string());
    Needs {
        place: Place::Sandbox,
        isolation,
        // In steps, so that not every number has a line of its own.
        memory: limits.map_or(0, |limits| (limits.memory >> 20).next_multiple_of(64)),
        ..needs
    }
}

/// The walls that were asked for, now or when the run was made.
pub(crate) fn isolation_of(run: &Run) -> Option<String> {
    let now = Holder::last(run)
        .and_then(|mut last| last.asked.remove(SettingKey::SandboxIsolation.name()));
    now.or_else(|| run.input["isolation"].as_str().map(str::to_owned))
}

/// The walls that somebody can build, as they are asked for.
pub(crate) fn isolations(available: &[assize_config::Isolation]) -> Vec<String> {
    use assize_config::Isolation;
    let exactly = available.iter().map(|isolation| Wanted::Exactly(*isolation));
    let strongest = available.iter().max().copied();
    let at_least = Isolation::ALL.into_iter().filter(|floor| Some(*floor) <= strongest);
    exactly.chain(at_least.map(Wanted::AtLeast)).map(|wanted| wanted.to_string()).collect()
}
