//! Docker backend: containers of Docker, or of Podman through its Docker-compatible API.
//!
//! Each sandbox is one container (configured by `container.rs`), whose first process is the guest agent. The channel is
//! the container's standard input and output: when this process dies, the engine closes the channel, the guest agent
//! exits, and the engine removes the container.

mod api;
mod attached;
mod container;
mod derive;
mod engine;
mod handle;
mod image;

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use assize_config::Isolation;
use assize_protocol::{GuestLimits, Hello, VERSION};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::backend::{Backend, Enforcement, SandboxHandle, SandboxIdentity, StartedSandbox};
use crate::channel::Channel;
use crate::diagnostics::DiagnosticOutput;
use crate::error::SandboxError;
use crate::sandbox::environment;
use crate::spec::SandboxSpec;
use api::{EngineApi, EngineError};
use engine::{ContainerEngine, EngineClient, EngineFault};
use handle::DockerHandle;
pub use image::DockerImageInfo;

/// Time in which the guest agent must reply to `Hello` after its container has started.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for querying the properties of the container engine ([`Docker::probe`]).
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Age after which a container that was created but never started counts as abandoned and is removed.
const ABANDONED_AFTER: Duration = Duration::from_secs(15 * 60);

/// The Docker backend.
#[derive(Debug)]
pub struct Docker {
    engine: ContainerEngine,
    /// Lock that is held while an image is derived, so that concurrent requests derive the image only once.
    deriving: tokio::sync::Mutex<()>,
    /// Whether the memory cgroups of containers are readable. It is set when the first container starts.
    cgroup_readable: OnceLock<bool>,
    /// Background tasks that create and start containers.
    launching: TaskTracker,
}

/// Information about the container engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineInfo {
    /// `Docker` or `Podman`.
    pub engine: String,
    pub version: String,
    pub host: String,
    /// Whether the engine runs rootless.
    pub rootless: bool,
    /// The default image of sandboxes, or why there is none.
    pub image: Result<String, String>,
}

impl Docker {
    /// Creates a backend, which connects to a container engine on first use. `hosts` are sockets or `tcp://` addresses,
    /// of which the first that responds is used. If `hosts` is empty, Docker's default socket is used.
    pub fn new(hosts: Vec<String>) -> Docker {
        Docker {
            engine: ContainerEngine::new(hosts),
            deriving: tokio::sync::Mutex::default(),
            cgroup_readable: OnceLock::new(),
            launching: TaskTracker::new(),
        }
    }

    /// Queries the engine's properties and whether the default image exists.
    pub async fn probe(&self) -> Result<EngineInfo, SandboxError> {
        match tokio::time::timeout(PROBE_TIMEOUT, self.engine_info()).await {
            Ok(info) => info,
            Err(_) => Err(SandboxError::Unavailable {
                isolation: Isolation::Docker,
                reason: format!(
                    "the container engine did not respond within {} s",
                    PROBE_TIMEOUT.as_secs()
                ),
                hint: Some("check the engine with `docker info`".to_owned()),
            }),
        }
    }

    /// Checks that sandboxes can be created: the engine responds and the default image exists.
    ///
    /// # Errors
    /// When sandboxes cannot be created. The error has a hint for users.
    pub async fn is_ready(&self) -> Result<(), SandboxError> {
        match self.probe().await?.image {
            Ok(_) => Ok(()),
            Err(_) => Err(image::not_built()),
        }
    }

    async fn engine_info(&self) -> Result<EngineInfo, SandboxError> {
        let client = self.engine.client().await?;
        let info = client.api.get("/info", &[]).await;
        let EngineProperties { security_options: options } =
            info.map_err(|error| client.explain("querying the engine", &error))?;
        Ok(EngineInfo {
            engine: client.name.clone(),
            version: client.version.clone(),
            host: client.host.clone(),
            rootless: options.iter().flatten().any(|option| option.contains("rootless")),
            image: self.find_base(client).await?,
        })
    }

    /// Creates and starts a container in a background task, because a request to the engine cannot be stopped midway.
    /// If the caller drops this future, the task still completes; then the container's streams are dropped, which ends
    /// and removes the container.
    async fn launch(
        &self,
        client: &EngineClient,
        name: &str,
        body: Value,
    ) -> Result<Launched, EngineError> {
        let launching = launch(client.api.clone(), name.to_owned(), body);
        match self.launching.spawn(launching).await {
            Ok(launched) => launched,
            Err(error) => Err(std::io::Error::other(error).into()),
        }
    }
}

/// Properties of an engine, as it reports them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct EngineProperties {
    security_options: Option<Vec<String>>,
}

/// A container, as the engine reports it when the container is created or listed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedContainer {
    id: String,
    #[serde(default)]
    created: i64,
}

/// A running container and its standard streams.
struct Launched {
    id: String,
    attached: api::Upgrade,
}

async fn launch(api: EngineApi, name: String, body: Value) -> Result<Launched, EngineError> {
    let named = [("name", name.as_str())];
    let create = || api.post("/containers/create", &named, Some(api::json(&body)));
    let mut made = create().await;
    if made.as_ref().is_err_and(|error| EngineFault::of(error) == EngineFault::Conflict) {
        // The container exists already: an earlier attempt created it, but the engine's response was lost.
        handle::remove(&api, &name).await;
        made = create().await;
    }
    let ListedContainer { id, .. } = api::parse(&made?)?;
    let run = async {
        let streams = ["stream", "stdin", "stdout", "stderr"].map(|name| (name, "true"));
        let attached = api.upgrade(&format!("/containers/{id}/attach"), &streams).await?;
        api.post(&format!("/containers/{id}/start"), &[], None).await?;
        Ok(attached)
    };
    match run.await {
        Ok(attached) => Ok(Launched { id, attached }),
        Err(error) => {
            handle::remove(&api, &id).await;
            Err(error)
        }
    }
}

#[async_trait]
impl Backend for Docker {
    fn isolation(&self) -> Isolation {
        Isolation::Docker
    }

    fn check(&self, spec: &SandboxSpec) -> Result<(), SandboxError> {
        spec.image.as_deref().map_or(Ok(()), image::check_name)
    }

    async fn start(
        &self,
        identity: &SandboxIdentity,
        spec: &SandboxSpec,
    ) -> Result<StartedSandbox, SandboxError> {
        let client = self.engine.client().await?;
        let image = self.image(client, spec.image.as_deref()).await?;
        let name = container::name(identity);
        let body = container::body(client, identity, spec, &image);
        let launched = client
            .retry("starting a container", || self.launch(client, &name, body.clone()))
            .await?;
        let limits = GuestLimits { file_bytes: spec.limits.disk, ..GuestLimits::default() };
        let words = DiagnosticOutput::default();
        let connection = attached::connection(launched.attached, words.clone());
        let hello = Hello { version: VERSION, limits, env: environment(&[]), machine: None };
        let channel = Channel::over(connection, &hello);
        let (made, welcome) = tokio::join!(
            handle::inspect(&client.api, &launched.id),
            tokio::time::timeout(WELCOME_TIMEOUT, channel.welcome()),
        );
        // The inspection fails if the container has already ended. The diagnostic output below contains the reason.
        let made = made.ok();
        if let Some(made) = &made {
            let _ = self.cgroup_readable.set(made.memory.is_some());
        }
        let (memory, unlimited) =
            made.map(|made| (made.memory, made.unlimited)).unwrap_or_default();
        if let Some(memory) = &memory {
            memory.limit_connections(&spec.limits);
        }
        let cell = DockerHandle::new(client.api.clone(), launched.id, memory, words);
        if !unlimited.is_empty() {
            cell.end().await;
            let reason =
                format!("the container engine does not enforce limits on {}", unlimited.join(", "));
            let hint = "the engine cannot create cgroups (for example a rootless engine on a machine with cgroup v1); \
                        use another engine or `--isolation jail`";
            return Err(SandboxError::Unavailable {
                isolation: Isolation::Docker,
                reason,
                hint: Some(hint.to_owned()),
            });
        }
        let why = match welcome {
            Ok(Ok(_)) => return Ok(StartedSandbox { channel, handle: Box::new(cell) }),
            Ok(Err(gone)) => gone.0,
            Err(_) => "the guest agent does not respond".to_owned(),
        };
        cell.end().await;
        let output =
            cell.diagnostic_output().await.map(|output| format!(": {output}")).unwrap_or_default();
        Err(SandboxError::SandboxFailed(format!("{why}{output}")))
    }

    fn enforcement(&self) -> Enforcement {
        const GROUP: &str = "cgroup created by the container engine";
        Enforcement {
            memory: match self.cgroup_readable.get() {
                Some(false) => format!(
                    "{GROUP}; out-of-memory kills are reported as crashes (the cgroup is not on this machine)"
                ),
                _ => GROUP.to_owned(),
            },
            cpu: GROUP.to_owned(),
            processes: GROUP.to_owned(),
            disk: match self.engine.known().is_some_and(EngineClient::is_podman) {
                true => "tmpfs size; the number of files is not limited (Podman)".to_owned(),
                false => "tmpfs size".to_owned(),
            },
            output: "guest agent".to_owned(),
            time: "the guest agent kills the program; if it does not, the host ends the sandbox"
                .to_owned(),
            network: "empty network namespace".to_owned(),
            system_calls: "seccomp filters of the container engine and of the guest agent"
                .to_owned(),
            files: "read-only image, and Landlock if the kernel and the engine allow it".to_owned(),
        }
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        let client = self.engine.client().await?;
        let theirs = json!({"label": [format!("{}={maker}", container::CREATOR_LABEL)]});
        let old = SystemTime::now() - ABANDONED_AFTER;
        let old = old.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let created = |label: &str| json!({"label": [label], "status": ["created"]});
        // Containers for deriving images are removed only if they are older than `ABANDONED_AFTER`, because another
        // process may still use them. Deriving an image takes far less time.
        let (never_run, never_begun) = (created(derive::KIND), created(container::CREATOR_LABEL));
        let (all, old) = (i64::MAX, old.cast_signed());
        for (filters, latest) in [(theirs, all), (never_run, old), (never_begun, old)] {
            let filters = filters.to_string();
            let query = [("all", "true"), ("filters", filters.as_str())];
            let list = || client.api.get("/containers/json", &query);
            let mut found: Vec<ListedContainer> = client.retry("listing containers", list).await?;
            found.retain(|container| container.created < latest);
            for ListedContainer { id, .. } in found {
                handle::remove(&client.api, &id).await;
            }
        }
        Ok(())
    }
}
