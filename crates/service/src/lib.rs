//! Services of a process: builds stores, models, sandboxes and runners from the settings, and starts runs of any kind.
//!
//! The front ends (command line, HTTP and MCP) parse a request, call [`Services`] or the crate of a job, and show the
//! result. This crate neither prints output nor reads the environment of the process: callers pass in a reporter and
//! the environment.

pub mod ask;
pub mod attack;
pub mod doctor;
pub mod embedded;
pub mod files;
pub mod images;
pub mod run_json;
mod runs;
pub mod sandboxes;
mod stores;

use std::fmt;
use std::sync::Arc;

use assize_cluster::{Capabilities, ClusterClient, NodeRole, needed_labels};
use assize_config::{Environment, SettingKey, Settings};
use assize_draft::work::WorkRequest;
use assize_draft::work::rehearsal::ScriptedAnswer;
use assize_gateway::choice::budget_limits;
use assize_gateway::{PreparedAnswer, PreparedAnswers, Providers, RateLimiters};
use assize_llm::ModelError;
use assize_run::{IdempotencyKey, Placement, Role, Runner, Store};
use assize_sandbox::{SandboxFactory, SharedBackends};
use assize_types::{Failure, FailureKind, Reporter};
use assize_worker::{ClusterDebates, ClusterRateLimiter, node};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub use assize_cluster::labels;
pub use assize_gateway::CassetteChoice;
pub use assize_worker::{PARALLEL, Worker, WorkerOffer, live, status};
pub use runs::settings_of_run;

/// Services for starting runs: the settings, the resources that are shared by all runs of the process, and the cluster
/// that the process has joined.
#[derive(Clone)]
pub struct Services {
    pub settings: Arc<Settings>,
    pub environment: Arc<Environment>,
    pub reporter: Arc<dyn Reporter>,
    pub role: Role,
    /// Client of the cluster that this process has joined; `None` without a cluster.
    pub cluster_client: Option<Arc<ClusterClient>>,
    /// Rate limiters for all model calls of this process.
    rate_limiters: RateLimiters,
    /// Sandbox backends and warm pools that are shared by all runs of a server or a worker; `None` in a process that
    /// executes one command.
    pub shared: Option<Arc<SharedBackends>>,
    /// Cassette file that model calls are recorded to or replayed from.
    pub cassette: CassetteChoice,
    /// Idempotency key of the client's request that starts a run.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Whether model calls are only estimated and not sent, so that no API key is needed.
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
    /// Creates the services of a process that executes one command: without a cluster and without shared backends.
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
            cluster_client: None,
            rate_limiters: RateLimiters::default(),
            shared: None,
            cassette: CassetteChoice::None,
            idempotency_key: None,
            estimate_only: false,
        }
    }

    /// Returns a copy of these services with the given settings.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Services {
        Services { settings: Arc::new(settings), ..self.clone() }
    }

    /// Makes this process use a cluster. The workers of the cluster execute the runs of this process, unless this
    /// process is itself a worker. Each rate limit of a provider applies to the model calls of all processes of the
    /// cluster together.
    pub fn join(&mut self, member: Arc<ClusterClient>) {
        let limited_by = member.clone();
        self.rate_limiters = RateLimiters::new(Arc::new(move |provider, limits| {
            Arc::new(ClusterRateLimiter::new(&limited_by, provider, limits.concurrency))
        }));
        self.cluster_client = Some(member);
    }

    /// Makes all runs of this process share sandbox backends and warm pools, with at most `max_idle` idle sandboxes.
    pub fn share_backends(&mut self, max_idle: usize) -> Result<Arc<SharedBackends>, Failure> {
        let shared = Arc::new(SharedBackends::new(&self.sandboxes(), max_idle)?);
        self.shared = Some(shared.clone());
        Ok(shared)
    }

    pub fn sandboxes(&self) -> SandboxFactory {
        SandboxFactory {
            settings: self.settings.clone(),
            environment: self.environment.clone(),
            shared: self.shared.clone(),
        }
    }

    pub fn providers(&self) -> Providers {
        Providers {
            settings: self.settings.clone(),
            cassette: self.cassette.clone(),
            reporter: self.reporter.clone(),
            rate_limiters: self.rate_limiters.clone(),
            prepared_answers: Some(script()),
            estimate_only: self.estimate_only,
        }
    }

    /// Creates the runner that starts and resumes runs in a store.
    pub fn runner(&self, store: &Arc<dyn Store>) -> Result<Runner, Failure> {
        let placement = match &self.cluster_client {
            Some(member) if self.role != Role::Worker => Placement::Cluster(member.clone()),
            member => Placement::Local { node: member.as_ref().map(|member| member.id.clone()) },
        };
        let labels = match &self.cluster_client {
            Some(_) => needed_labels(&self.settings)?,
            None => Default::default(),
        };
        let requested = |key: SettingKey| {
            Some((key.to_string(), self.settings.text_of(key)?.requested()?.clone()))
        };
        Ok(Runner {
            store: store.clone(),
            placement,
            role: self.role,
            reporter: self.reporter.clone(),
            budget: budget_limits(&self.settings),
            idempotency_key: self.idempotency_key.clone(),
            labels,
            overrides: CHANGEABLE.into_iter().filter_map(requested).collect(),
        })
    }

    /// Builds the request of a code or evaluation job: the plan, and the providers and sandboxes that the job needs.
    pub fn code<P>(&self, plan: P) -> assize_code::CodeJobRequest<P> {
        let (providers, sandboxes) = (self.providers(), self.sandboxes());
        assize_code::CodeJobRequest { plan, providers, sandboxes }
    }

    /// Builds the request of a consultation or debate job: the plan, and the providers, sandboxes and cluster access
    /// that the job needs.
    pub fn consult<P>(&self, plan: P) -> assize_consult::JobRequest<P> {
        let (providers, sandboxes) = (self.providers(), self.sandboxes());
        let remote = self.cluster_client.as_ref().map(|member| {
            let remote: Arc<dyn assize_consult::RemoteDebates> =
                Arc::new(ClusterDebates(member.clone()));
            remote
        });
        assize_consult::JobRequest { plan, providers, sandboxes, remote }
    }

    /// Builds the request of a file-editing job: the plan, and the providers, sandboxes and store that the job needs.
    pub fn work(&self, plan: assize_draft::work::WorkPlan, store: &Arc<dyn Store>) -> WorkRequest {
        let (providers, sandboxes) = (self.providers(), self.sandboxes());
        WorkRequest { plan, providers, sandboxes, store: store.clone() }
    }

    /// Checks which sandbox backends work on this machine, and joins the cluster as a worker.
    pub async fn worker(mut self, offer: &WorkerOffer) -> Result<Worker, Failure> {
        self.settings.reject_untrusted_values()?;
        if self.settings.cluster.servers.is_none() {
            let message = "cannot start a worker: no cluster is configured";
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("name the NATS servers of the cluster: `--cluster nats://a,b,c`"));
        }
        let isolations = self.sandboxes().available().await?;
        let (member, _) = ClusterClient::join(&self.settings, &self.environment, None).await?;
        self.role = Role::Worker;
        self.join(member.clone());
        self.share_backends(offer.slots as usize)?;
        let (sandboxes, reporter) = (self.sandboxes(), self.reporter.clone());
        Ok(Worker::new(member, sandboxes, &isolations, reporter, Arc::new(self), offer))
    }
}

impl Services {
    /// Announces this process to the cluster as a server until the returned handle is dropped. Returns `None` if this
    /// process has not joined a cluster.
    pub async fn announce_server(&self) -> Result<Option<AbortOnDropHandle<()>>, Failure> {
        let Some(member) = &self.cluster_client else { return Ok(None) };
        let node = node(member, NodeRole::Server, 0, Capabilities::default());
        let announced = member.cluster.announce(watch::Sender::new(node).subscribe()).await?;
        Ok(Some(announced))
    }
}

/// Returns the function that looks up the rehearsal model's prepared answer to a request.
fn script() -> PreparedAnswers {
    Arc::new(|request| {
        let from_text = |answer: Result<String, ModelError>| answer.map(PreparedAnswer::from);
        assize_code::rehearsal::answer(request)
            .or_else(|| assize_consult::rehearsal::answer(request))
            .map(from_text)
            .or_else(|| assize_draft::work::rehearsal::answer(request).map(from_line))
    })
}

/// Converts a scripted answer (text or a tool call) of a file-editing job to a prepared answer of the rehearsal model.
fn from_line(answer: Result<ScriptedAnswer, ModelError>) -> Result<PreparedAnswer, ModelError> {
    answer.map(|line| match line {
        ScriptedAnswer::Words(text) => text.into(),
        ScriptedAnswer::Call(name, arguments) => {
            PreparedAnswer { text: String::new(), calls: vec![(name.to_owned(), arguments)] }
        }
    })
}
