//! Connection to a container engine (Docker or Podman), and the classification of its errors.

use std::future::Future;
use std::io;
use std::time::Duration;

use assize_config::Isolation;
use serde::Deserialize;
use tokio::sync::OnceCell;

use super::api::{EngineApi, EngineError};
use crate::error::SandboxError;

/// Default socket of Docker.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// Newest version of the engine's API that assize uses. Engines since 2024 support it.
const API_VERSION: (u32, u32) = (1, 44);

/// Timeout of requests that transfer whole images.
const IMAGE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Pauses before the first, second and third retry of a request to the engine.
const RETRY_PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(800), Duration::from_secs(2)];

/// A container engine, connected on first use.
#[derive(Debug)]
pub(crate) struct ContainerEngine {
    hosts: Vec<String>,
    client: OnceCell<EngineClient>,
}

/// Connection to one engine, with an API version that assize and the engine support.
#[derive(Debug, Clone)]
pub(crate) struct EngineClient {
    pub(crate) api: EngineApi,
    pub(crate) host: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl ContainerEngine {
    pub(crate) fn new(mut hosts: Vec<String>) -> ContainerEngine {
        if hosts.is_empty() {
            hosts.push(DEFAULT_SOCKET.to_owned());
        }
        ContainerEngine { hosts, client: OnceCell::new() }
    }

    /// Returns the client of the first engine that responds; connects on first use.
    pub(crate) async fn client(&self) -> Result<&EngineClient, SandboxError> {
        self.client.get_or_try_init(|| self.connect()).await
    }

    /// Returns the client of the connected engine, or `None` before the first connection.
    pub(crate) fn known(&self) -> Option<&EngineClient> {
        self.client.get()
    }

    async fn connect(&self) -> Result<EngineClient, SandboxError> {
        let mut first = None;
        for host in &self.hosts {
            match EngineClient::connect(host).await {
                Ok(client) => return Ok(client),
                Err(error) => {
                    first.get_or_insert(explain(host, "querying the engine's version", &error));
                }
            }
        }
        let none = || {
            SandboxError::failed(
                "connecting to the container engine",
                "no engine socket is configured",
            )
        };
        Err(first.unwrap_or_else(none))
    }
}

/// Response of the engine about itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct EngineVersion {
    version: String,
    api_version: String,
    #[serde(rename = "MinAPIVersion")]
    min_api_version: String,
    components: Option<Vec<Component>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Component {
    name: String,
}

impl EngineClient {
    async fn connect(host: &str) -> Result<EngineClient, EngineError> {
        let api = EngineApi::new(host);
        let about: EngineVersion = api.get("/version", &[]).await?;
        let podman = about.components.iter().flatten().any(|part| part.name.contains("Podman"));
        Ok(EngineClient {
            api: api.with_version(&about.usable_api_version()),
            host: host.to_owned(),
            name: if podman { "Podman" } else { "Docker" }.to_owned(),
            version: about.version,
        })
    }

    /// Returns an API client whose timeout is long enough for transfers of whole images.
    pub(crate) fn with_image_timeout(&self) -> EngineApi {
        self.api.clone().with_timeout(IMAGE_TIMEOUT)
    }

    pub(crate) fn is_podman(&self) -> bool {
        self.name == "Podman"
    }

    /// Converts an engine error into a sandbox error. `what` names the failed operation.
    pub(crate) fn explain(&self, what: &str, error: &EngineError) -> SandboxError {
        explain(&self.host, what, error)
    }

    /// Runs an operation and retries it after transient errors, for example while the engine restarts.
    pub(crate) async fn retry<T, F>(
        &self,
        what: &str,
        attempt: impl Fn() -> F,
    ) -> Result<T, SandboxError>
    where
        F: Future<Output = Result<T, EngineError>>,
    {
        let mut pauses = RETRY_PAUSES.into_iter();
        loop {
            let error = match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match pauses.next().filter(|_| EngineFault::of(&error).is_transient()) {
                Some(pause) => {
                    tracing::debug!(%what, %error, "a request to the container engine failed, retrying");
                    tokio::time::sleep(pause).await;
                }
                None => return Err(self.explain(what, &error)),
            }
        }
    }
}

impl EngineVersion {
    /// Returns the API version to use: [`API_VERSION`], or the nearest version that the engine supports.
    fn usable_api_version(&self) -> String {
        let newest = read_version(&self.api_version).unwrap_or(API_VERSION);
        let oldest = read_version(&self.min_api_version).unwrap_or((0, 0));
        let (major, minor) = API_VERSION.min(newest).max(oldest);
        format!("{major}.{minor}")
    }
}

fn read_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Kind of an engine error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineFault {
    /// No engine listens at the configured address.
    Absent,
    /// This user has no permission to use the engine's socket.
    Forbidden,
    /// The connection to the engine was lost.
    Lost,
    /// The request to the engine timed out.
    Slow,
    /// The engine's disk is full.
    Full,
    /// The container or image does not exist (HTTP 404).
    Missing,
    /// The container or image already exists or is busy (HTTP 409).
    Conflict,
    /// The engine itself failed (HTTP 500 or above).
    Engine,
    Other,
}

impl EngineFault {
    pub(crate) fn of(error: &EngineError) -> EngineFault {
        match error {
            EngineError::Response { message, .. }
                if message.contains("no space left on device") =>
            {
                EngineFault::Full
            }
            EngineError::Response { status: 404, .. } => EngineFault::Missing,
            EngineError::Response { status: 409, .. } => EngineFault::Conflict,
            EngineError::Response { status: 500.., .. } => EngineFault::Engine,
            EngineError::Response { .. } | EngineError::Unexpected(_) => EngineFault::Other,
            EngineError::TimedOut => EngineFault::Slow,
            EngineError::Connect(error) => match error.kind() {
                io::ErrorKind::NotFound => EngineFault::Absent,
                io::ErrorKind::PermissionDenied => EngineFault::Forbidden,
                _ => EngineFault::Lost,
            },
            EngineError::Transfer(_) => EngineFault::Lost,
        }
    }

    /// Whether a retry of the request can succeed.
    fn is_transient(self) -> bool {
        matches!(self, EngineFault::Absent | EngineFault::Lost | EngineFault::Engine)
    }
}

fn explain(host: &str, what: &str, error: &EngineError) -> SandboxError {
    let unavailable = |reason: String, hint: &str| SandboxError::Unavailable {
        isolation: Isolation::Docker,
        reason,
        hint: Some(hint.to_owned()),
    };
    match EngineFault::of(error) {
        EngineFault::Absent => unavailable(
            format!("no container engine listens at `{host}`"),
            "start Docker (`sudo systemctl start docker`) or Podman (`systemctl --user start \
             podman.socket`), or set the socket with `docker.host`",
        ),
        EngineFault::Lost => unavailable(
            format!(
                "lost the connection to the container engine at `{host}`: {}",
                assize_types::Failure::root_cause_message(error)
            ),
            "check with `docker info` that the engine runs",
        ),
        EngineFault::Forbidden => unavailable(
            format!("this user has no permission to use the container engine at `{host}`"),
            "add this user to the group `docker` (`sudo usermod -aG docker $USER`, then log in again), which is \
             equivalent to root access; or run Docker or Podman rootless",
        ),
        EngineFault::Full => unavailable(
            "the disk of the container engine is full".to_owned(),
            "run `docker system df` to see the usage and `docker system prune` to free space",
        ),
        EngineFault::Slow => {
            SandboxError::failed(what, format!("the container engine at `{host}` timed out"))
        }
        EngineFault::Missing | EngineFault::Conflict | EngineFault::Engine | EngineFault::Other => {
            SandboxError::failed(what, assize_types::Failure::root_cause_message(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, message: &str) -> EngineError {
        EngineError::Response { status, message: message.to_owned() }
    }

    #[test]
    fn engine_errors_are_classified() {
        let io = |kind| EngineError::Connect(io::Error::from(kind));
        for (error, fault) in [
            (response(404, "No such image: x"), EngineFault::Missing),
            (response(409, "Conflict"), EngineFault::Conflict),
            (response(500, "server error"), EngineFault::Engine),
            (response(500, "write /x: no space left on device"), EngineFault::Full),
            (response(400, "bad parameter"), EngineFault::Other),
            (io(io::ErrorKind::NotFound), EngineFault::Absent),
            (io(io::ErrorKind::PermissionDenied), EngineFault::Forbidden),
            (io(io::ErrorKind::ConnectionReset), EngineFault::Lost),
            (EngineError::TimedOut, EngineFault::Slow),
        ] {
            assert_eq!(EngineFault::of(&error), fault, "{error}");
        }
    }

    #[test]
    fn api_version_is_one_that_the_engine_supports() {
        for (oldest, newest, used) in [
            ("1.24", "1.52", "1.44"),
            ("1.12", "1.41", "1.41"),
            ("1.48", "1.60", "1.48"),
            ("", "", "1.44"),
        ] {
            let about = EngineVersion {
                api_version: newest.to_owned(),
                min_api_version: oldest.to_owned(),
                ..EngineVersion::default()
            };
            assert_eq!(about.usable_api_version(), used);
        }
    }

    #[tokio::test]
    async fn error_for_a_missing_engine_contains_the_socket_path() {
        let engine = ContainerEngine::new(vec!["/nonexistent/docker.sock".to_owned()]);
        let error = engine.client().await.unwrap_err();
        assert!(
            error.to_string().contains("no container engine listens at `/nonexistent/docker.sock`"),
            "{error}"
        );
        assert!(error.hint().is_some());
    }
}
