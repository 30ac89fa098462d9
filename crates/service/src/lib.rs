//! Services of a process: builds stores, models, sandboxes and runners from the settings, and starts runs of any kind.
//!
//! The doors (command line, HTTP and MCP) parse a request, call [`Services`] or a job's own crate, and render. Nothing
//! here prints or reads the environment: both are passed in.

pub mod ask;
pub mod attack;
pub mod doctor;
pub mod files;
pub mod images;
pub mod reading;
mod runs;
pub mod sandboxes;
mod stores;

use std::fmt;
use std::sync::Arc;

use assize_cluster::{Abilities, Member, NodeRole, needed_labels};
use assize_config::{Environment, SettingKey, Settings};
use assize_draft::work::WorkRequest;
use assize_draft::work::rehearsal::Line;
use assize_gateway::choice::caps;
use assize_gateway::{Pacers, Providers, Recital, Script};
use assize_llm::ModelError;
use assize_run::{IdempotencyKey, Placement, Role, Runner, Store};
use assize_sandbox::{Sandboxes, SharedBackends};
use assize_types::{Failure, FailureKind, Reporter};
use assize_worker::{ClusterDebates, FarPacer, node};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub use assize_cluster::labels;
pub use assize_gateway::Tape;
pub use assize_worker::{Offer, PARALLEL, Worker, live, status};
pub use runs::settings_of_run;

/// What a process starts runs with: the settings, what is shared between its runs, and the cluster it is a member of.
#[derive(Clone)]
pub struct Services {
    pub settings: Arc<Settings>,
    pub environment: Arc<Environment>,
    pub reporter: Arc<dyn Reporter>,
    pub role: Role,
    /// The cluster that this process is a member of.
    pub member: Option<Arc<Member>>,
    /// Pacers of all calls of this process.
    pacers: Pacers,
    /// Backends and warm pools that all runs of a server or a worker share.
    pub shared: Option<Arc<SharedBackends>>,
    /// Calls that are recorded or replayed.
    pub tape: Tape,
    /// Key under which a client asked for the run.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Nothing is sent, only estimated: no key is needed.
    pub estimate_only: bool,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("role", &self.role).finish_non_exhaustive()
    }
}

/// Settings that can be changed when a run is resumed.
const CHANGEABLE: [SettingKey; 3] =
    [SettingKey::BudgetMaxCost, SettingKey::BudgetMaxTokens, SettingKey::SandboxIsolation];

impl Services {
    /// Services of a command.
    pub fn new(
        settings: Settings,
        environment: Environment,
        reporter: Arc<dyn Reporter>,
    ) -> Services {
        Services {
            settings: Arc::new(settings),
            environment: Arc::new(environment),
            reporter,
            role: Role::Command,
            member: None,
            pacers: Pacers::default(),
            shared: None,
            tape: Tape::None,
            idempotency_key: None,
            estimate_only: false,
        }
    }

    /// The same, with other settings.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Services {
        Services { settings: Arc::new(settings), ..self.clone() }
    }

    /// Makes this process a member of a cluster: its workers execute runs, and all keep the limits of providers
    /// together.
    pub fn join(&mut self, member: Arc<Member>) {
        let own = member.clone();
        self.pacers = Pacers::new(Arc::new(move |provider, limits| {
            Arc::new(FarPacer::new(&own, provider, limits.concurrency))
        }));
        self.member = Some(member);
    }

    /// Makes all runs of this process share backends and warm pools, of at most so many idle sandboxes.
    pub fn share_backends(&mut self, most: usize) -> Result<Arc<SharedBackends>, Failure> {
        let shared = Arc::new(SharedBackends::new(&self.sandboxes(), most)?);
        self.shared = Some(shared.clone());
        Ok(shared)
    }

    pub fn sandboxes(&self) -> Sandboxes {
        Sandboxes {
            settings: self.settings.clone(),
            environment: self.environment.clone(),
            shared: self.shared.clone(),
        }
    }

    pub fn providers(&self) -> Providers {
        Providers {
            settings: self.settings.clone(),
            tape: self.tape.clone(),
            reporter: self.reporter.clone(),
            pacers: self.pacers.clone(),
            script: Some(script()),
            estimate_only: self.estimate_only,
        }
    }

    /// The runner of all runs in a store.
    pub fn runner(&self, store: &Arc<dyn Store>) -> Result<Runner, Failure> {
        let placement = match &self.member {
            Some(member) if self.role != Role::Worker => Placement::Cluster(member.clone()),
            member => Placement::Local { node: member.as_ref().map(|member| member.id.clone()) },
        };
        let labels = match &self.member {
            Some(_) => needed_labels(&self.settings)?,
            None => Default::default(),
        };
        let requested = |key: SettingKey| {
            Some((key.to_string(), self.settings.written(key)?.requested()?.clone()))
        };
        Ok(Runner {
            store: store.clone(),
            placement,
            role: self.role,
            reporter: self.reporter.clone(),
            budget: caps(&self.settings),
            idempotency_key: self.idempotency_key.clone(),
            labels,
            overrides: CHANGEABLE.into_iter().filter_map(requested).collect(),
        })
    }

    /// What the job of a program or an evaluation is planned with.
    pub fn code<P>(&self, plan: P) -> assize_code::Request<P> {
        let (providers, sandboxes) = (self.providers(), self.sandboxes());
        assize_code::Request { plan, providers, sandboxes }
    }

    /// What the job of a consultation or a debate is planned with.
    pub fn consult<P>(&self, plan: P) -> assize_consult::Request<P> {
        let (providers, sandboxes) = (self.providers(), self.sandboxes());
        let remote = self.member.as_ref().map(|member| {
            let remote: Arc<dyn assize_consult::RemoteDebates> =
                Arc::new(ClusterDebates(member.clone()));
            remote
        });
        assize_consult::Request { plan, providers, sandboxes, remote }
    }

    /// What the job of file edits is planned with.
    pub fn work(&self, plan: assize_draft::work::WorkPlan, store: &Arc<dyn Store>) -> WorkRequest {
        let (providers, sandboxes) = (self.providers(), self.sandboxes());
        WorkRequest { plan, providers, sandboxes, store: store.clone() }
    }

    /// Joins a cluster as a worker, and finds out what can be done here.
    pub async fn worker(mut self, offer: &Offer) -> Result<Worker, Failure> {
        self.settings.refuse_withheld()?;
        if self.settings.cluster.servers.is_none() {
            let message = "a worker works for a cluster, and none is named";
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("name its servers: `--cluster nats://a,b,c`"));
        }
        let isolations = self.sandboxes().available().await?;
        let (member, _) = Member::join(&self.settings, &self.environment, None).await?;
        self.role = Role::Worker;
        self.join(member.clone());
        self.share_backends(offer.slots as usize)?;
        let (sandboxes, reporter) = (self.sandboxes(), self.reporter.clone());
        Ok(Worker::new(member, sandboxes, &isolations, reporter, Arc::new(self), offer))
    }
}

impl Services {
    /// Tells the other members of the cluster that this process is a server, until the handle is dropped.
    pub async fn announce_server(&self) -> Result<Option<AbortOnDropHandle<()>>, Failure> {
        let Some(member) = &self.member else { return Ok(None) };
        let node = node(member, NodeRole::Server, 0, Abilities::default());
        let announced = member.cluster.announce(watch::Sender::new(node).subscribe()).await?;
        Ok(Some(announced))
    }
}

/// What the rehearsal model knows by heart.
fn script() -> Script {
    Arc::new(|request| {
        let words = |known: Result<String, ModelError>| known.map(Recital::from);
        assize_code::rehearsal::answer(request)
            .or_else(|| assize_consult::rehearsal::answer(request))
            .map(words)
            .or_else(|| assize_draft::work::rehearsal::answer(request).map(recited))
    })
}

/// What the rehearsal model knows of drafting.
fn recited(known: Result<Line, ModelError>) -> Result<Recital, ModelError> {
    known.map(|line| match line {
        Line::Words(text) => text.into(),
        Line::Call(name, arguments) => {
            Recital { text: String::new(), calls: vec![(name.to_owned(), arguments)] }
        }
    })
}
