//! Containers, by Docker or by Podman through the same interface of its own.
//!
//! Each sandbox is one container whose first process is the guest; what it is made with is in
//! `container.rs`. The channel is the container's standard input and output, so when we are gone,
//! however that came about, the engine closes it, the guest ends, and the container is removed.

mod attached;
mod cell;
mod container;
mod derive;
mod engine;
mod image;

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use assize_config::Isolation;
use assize_protocol::{GuestLimits, Hello, VERSION};
use async_trait::async_trait;
use bollard::container::AttachContainerResults;
use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, ListContainersOptionsBuilder,
    StartContainerOptions,
};
use serde::Serialize;
use tokio_util::task::TaskTracker;

use crate::backend::{Backend, Cell, Enforcement, Identity, Started};
use crate::channel::Channel;
use crate::error::SandboxError;
use crate::sandbox::environment;
use crate::spec::Spec;
use crate::words::Words;
use cell::DockerCell;
use engine::{Client, Engine, Fault};
pub use image::ImageInfo;

/// How long a guest may take to answer once its container runs.
const WELCOME: Duration = Duration::from_secs(20);

/// How long an engine that is only asked how it is may take.
const PROBE: Duration = Duration::from_secs(10);

/// A container that has not run for so long never will.
const FORGOTTEN: Duration = Duration::from_secs(15 * 60);

/// Makes containers.
#[derive(Debug)]
pub struct Docker {
    engine: Engine,
    /// Held while an image is made, so that the next who needs it finds it.
    deriving: tokio::sync::Mutex<()>,
    /// Whether the kernel's account of containers can be read; known after the first.
    counted: OnceLock<bool>,
    /// Containers on their way.
    launching: TaskTracker,
}

/// What is known about the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeInfo {
    /// `Docker` or `Podman`.
    pub engine: String,
    pub version: String,
    pub host: String,
    /// It runs without the rights of root.
    pub rootless: bool,
    /// The image that sandboxes are made from, or why there is none.
    pub image: Result<String, String>,
}

impl Docker {
    /// With an engine that is looked for when it is first needed: the first that answers of these sockets (or `tcp://`
    /// addresses), or Docker's usual one if none is named.
    pub fn new(hosts: Vec<String>) -> Docker {
        Docker {
            engine: Engine::new(hosts),
            deriving: tokio::sync::Mutex::default(),
            counted: OnceLock::new(),
            launching: TaskTracker::new(),
        }
    }

    /// Asks the engine who it is, and whether the image is there.
    pub async fn probe(&self) -> Result<ProbeInfo, SandboxError> {
        match tokio::time::timeout(PROBE, self.ask()).await {
            Ok(answer) => answer,
            Err(_) => Err(SandboxError::Unavailable {
                isolation: Isolation::Docker,
                reason: format!("the engine did not answer within {} seconds", PROBE.as_secs()),
                hint: Some("see whether it is well: `docker info`".to_owned()),
            }),
        }
    }

    /// Whether sandboxes can be made: the engine answers, and the image is there.
    ///
    /// # Errors
    /// When not, and what to do about it.
    pub async fn is_ready(&self) -> Result<(), SandboxError> {
        match self.probe().await?.image {
            Ok(_) => Ok(()),
            Err(_) => Err(image::not_built()),
        }
    }

    async fn ask(&self) -> Result<ProbeInfo, SandboxError> {
        let client = self.engine.client().await?;
        let info =
            client.api.info().await.map_err(|error| client.explain("asking the engine", &error))?;
        let options = info.security_options.unwrap_or_default();
        Ok(ProbeInfo {
            engine: client.name.clone(),
            version: client.version.clone(),
            host: client.host.clone(),
            rootless: options.iter().any(|option| option.contains("rootless")),
            image: self.find_base(client).await?,
        })
    }

    /// Lets a container run. Given up in the middle it goes on to its end, where nobody takes the
    /// streams, and the container goes with them: the engine would have gone on in any case.
    async fn launch(
        &self,
        client: &Client,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<Launched, Error> {
        let launching = launch(client.api.clone(), name.to_owned(), body);
        match self.launching.spawn(launching).await {
            Ok(launched) => launched,
            Err(error) => Err(std::io::Error::other(error).into()),
        }
    }
}

/// A container that runs, and its streams.
struct Launched {
    id: String,
    attached: AttachContainerResults,
}

async fn launch(
    api: bollard::Docker,
    name: String,
    body: ContainerCreateBody,
) -> Result<Launched, Error> {
    let options = CreateContainerOptionsBuilder::new().name(&name).build();
    let mut made = api.create_container(Some(options.clone()), body.clone()).await;
    if made.as_ref().is_err_and(|error| Fault::of(error) == Fault::Conflict) {
        // Made by an attempt whose answer we did not hear.
        cell::remove(&api, &name).await;
        made = api.create_container(Some(options), body).await;
    }
    let id = made?.id;
    let run = async {
        let streams =
            AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true);
        let attached = api.attach_container(&id, Some(streams.build())).await?;
        api.start_container(&id, None::<StartContainerOptions>).await?;
        Ok(attached)
    };
    match run.await {
        Ok(attached) => Ok(Launched { id, attached }),
        Err(error) => {
            cell::remove(&api, &id).await;
            Err(error)
        }
    }
}

#[async_trait]
impl Backend for Docker {
    fn isolation(&self) -> Isolation {
        Isolation::Docker
    }

    async fn start(&self, identity: &Identity, spec: &Spec) -> Result<Started, SandboxError> {
        let client = self.engine.client().await?;
        let image = self.image(client, spec.image.as_deref()).await?;
        let name = container::name(identity);
        let body = container::body(client, identity, spec, &image);
        let launched =
            client.retry("making a container", || self.launch(client, &name, body.clone())).await?;
        let limits = GuestLimits { file_bytes: spec.limits.disk, ..GuestLimits::default() };
        let words = Words::default();
        let connection = attached::connection(launched.attached, words.clone());
        let hello = Hello { version: VERSION, limits, env: environment(&[]), machine: None };
        let channel = Channel::over(connection, &hello);
        let (made, welcome) = tokio::join!(
            cell::look_at(&client.api, &launched.id),
            tokio::time::timeout(WELCOME, channel.welcome()),
        );
        // It may be gone already, and then says why by its last words.
        let made = made.ok();
        if let Some(made) = &made {
            let _ = self.counted.set(made.memory.is_some());
        }
        let (memory, unlimited) =
            made.map(|made| (made.memory, made.unlimited)).unwrap_or_default();
        if let Some(memory) = &memory {
            memory.limit_connections(&spec.limits);
        }
        let cell = DockerCell::new(client.api.clone(), launched.id, memory, words);
        if !unlimited.is_empty() {
            cell.end().await;
            let reason = format!("the engine holds no limit of {}", unlimited.join(", "));
            let hint = "it cannot make control groups, as without root on a machine with those of the \
                        first version; use one that can, or the jail";
            return Err(SandboxError::Unavailable {
                isolation: Isolation::Docker,
                reason,
                hint: Some(hint.to_owned()),
            });
        }
        let why = match welcome {
            Ok(Ok(_)) => return Ok(Started { channel, cell: Box::new(cell) }),
            Ok(Err(gone)) => gone.0,
            Err(_) => "the guest does not answer".to_owned(),
        };
        cell.end().await;
        let words = cell.last_words().await.map(|words| format!(": {words}")).unwrap_or_default();
        Err(SandboxError::Broke(format!("{why}{words}")))
    }

    fn enforcement(&self) -> Enforcement {
        const GROUP: &str = "control group of the engine";
        Enforcement {
            memory: match self.counted.get() {
                Some(false) => format!(
                    "{GROUP}; that memory ran out cannot be told from a crash (the account is not on this machine)"
                ),
                _ => GROUP.to_owned(),
            },
            cpu: GROUP.to_owned(),
            processes: GROUP.to_owned(),
            disk: match self.engine.known().is_some_and(Client::is_podman) {
                true => "size of the memory disk; not the number of files (Podman)".to_owned(),
                false => "size of the memory disk".to_owned(),
            },
            output: "guest".to_owned(),
            wall: "guest, and the host after it".to_owned(),
            network: "network namespace with nothing in it".to_owned(),
            system_calls: "seccomp: the engine's list, and the guest's within it".to_owned(),
            files: "read-only image, and Landlock where the kernel and the engine allow it"
                .to_owned(),
        }
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        let client = self.engine.client().await?;
        let theirs = HashMap::from([("label", vec![format!("{}={maker}", container::MAKER)])]);
        let old = SystemTime::now() - FORGOTTEN;
        let old = old.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let created = |label: &str| {
            HashMap::from([
                ("label", vec![label.to_owned()]),
                ("status", vec!["created".to_owned()]),
            ])
        };
        // Whoever adds the guest to an image has it done long before.
        let (never_run, never_begun) = (created(derive::KIND), created(container::MAKER));
        let (all, old) = (i64::MAX, old.cast_signed());
        for (filters, latest) in [(theirs, all), (never_run, old), (never_begun, old)] {
            let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
            let list = || client.api.list_containers(Some(options.clone()));
            let mut found = client.retry("listing containers", list).await?;
            found.retain(|container| container.created.is_some_and(|created| created < latest));
            for id in found.into_iter().filter_map(|container| container.id) {
                cell::remove(&client.api, &id).await;
            }
        }
        Ok(())
    }
}
