//! Connection to a container engine (Docker or Podman), and the classification of its errors.

use std::future::Future;
use std::time::Duration;

use assize_config::Isolation;
use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, ClientVersion};
use tokio::sync::OnceCell;

use crate::error::SandboxError;

/// Default socket of Docker.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// Timeout of requests to the engine. It is long, because the engine may be busy with many other requests.
const TIMEOUT: Duration = Duration::from_secs(60);

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
    pub(crate) api: bollard::Docker,
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

impl EngineClient {
    async fn connect(host: &str) -> Result<EngineClient, Error> {
        let api = open(host, API_DEFAULT_VERSION)?;
        let about = api.version().await?;
        // An older engine rejects requests of a newer API version.
        let theirs = about.api_version.as_deref().and_then(read_version);
        let api = match theirs.filter(|theirs| theirs < API_DEFAULT_VERSION) {
            Some(theirs) => open(host, &theirs)?,
            None => api,
        };
        let parts = about.components.unwrap_or_default();
        let podman = parts.iter().any(|part| part.name.contains("Podman"));
        Ok(EngineClient {
            api,
            host: host.to_owned(),
            name: if podman { "Podman" } else { "Docker" }.to_owned(),
            version: about.version.unwrap_or_default(),
        })
    }

    /// Returns an API client whose timeout is long enough for transfers of whole images.
    pub(crate) fn with_image_timeout(&self) -> bollard::Docker {
        self.api.clone().with_timeout(IMAGE_TIMEOUT)
    }

    pub(crate) fn is_podman(&self) -> bool {
        self.name == "Podman"
    }

    /// Converts an engine error into a sandbox error. `what` names the failed operation.
    pub(crate) fn explain(&self, what: &str, error: &Error) -> SandboxError {
        explain(&self.host, what, error)
    }

    /// Runs an operation and retries it after transient errors, for example while the engine restarts.
    pub(crate) async fn retry<T, F>(
        &self,
        what: &str,
        attempt: impl Fn() -> F,
    ) -> Result<T, SandboxError>
    where
        F: Future<Output = Result<T, Error>>,
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

fn open(host: &str, version: &ClientVersion) -> Result<bollard::Docker, Error> {
    let timeout = TIMEOUT.as_secs();
    if host.starts_with("tcp://") || host.starts_with("http://") {
        bollard::Docker::connect_with_http(host, timeout, version)
    } else {
        bollard::Docker::connect_with_unix(host, timeout, version)
    }
}

fn read_version(text: &str) -> Option<ClientVersion> {
    let (major, minor) = text.split_once('.')?;
    Some(ClientVersion { major_version: major.parse().ok()?, minor_version: minor.parse().ok()? })
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
    pub(crate) fn of(error: &Error) -> EngineFault {
        match error {
            Error::SocketNotFoundError(_) => EngineFault::Absent,
            Error::RequestTimeoutError => EngineFault::Slow,
            Error::DockerResponseServerError { message, .. }
            | Error::DockerStreamError { error: message }
                if message.contains("no space left on device") =>
            {
                EngineFault::Full
            }
            Error::DockerResponseServerError { status_code: 404, .. } => EngineFault::Missing,
            Error::DockerResponseServerError { status_code: 409, .. } => EngineFault::Conflict,
            Error::DockerResponseServerError { status_code: 500.., .. } => EngineFault::Engine,
            error => match io_kind(error) {
                Some(std::io::ErrorKind::NotFound) => EngineFault::Absent,
                Some(std::io::ErrorKind::PermissionDenied) => EngineFault::Forbidden,
                Some(_) => EngineFault::Lost,
                None if matches!(
                    error,
                    Error::HyperLegacyError { .. } | Error::HyperResponseError { .. }
                ) =>
                {
                    EngineFault::Lost
                }
                None => EngineFault::Other,
            },
        }
    }

    /// Whether a retry of the request can succeed.
    fn is_transient(self) -> bool {
        matches!(self, EngineFault::Absent | EngineFault::Lost | EngineFault::Engine)
    }
}

fn io_kind(error: &Error) -> Option<std::io::ErrorKind> {
    // The variant `IOError` is transparent: its method `source` skips the I/O error itself.
    if let Error::IOError { err } = error {
        return Some(err.kind());
    }
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return Some(error.kind());
        }
        next = error.source();
    }
    None
}

fn explain(host: &str, what: &str, error: &Error) -> SandboxError {
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
                innermost(error)
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
            SandboxError::failed(what, innermost(error))
        }
    }
}

/// Returns the innermost message of an engine error.
fn innermost(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        return message.trim().to_owned();
    }
    assize_types::Failure::root_cause_message(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status_code: u16, message: &str) -> Error {
        Error::DockerResponseServerError { status_code, message: message.to_owned() }
    }

    #[test]
    fn engine_errors_are_classified() {
        let io = |kind| Error::IOError { err: std::io::Error::from(kind) };
        for (error, fault) in [
            (response(404, "No such image: x"), EngineFault::Missing),
            (response(409, "Conflict"), EngineFault::Conflict),
            (response(500, "server error"), EngineFault::Engine),
            (response(500, "write /x: no space left on device"), EngineFault::Full),
            (response(400, "bad parameter"), EngineFault::Other),
            (io(std::io::ErrorKind::NotFound), EngineFault::Absent),
            (io(std::io::ErrorKind::PermissionDenied), EngineFault::Forbidden),
            (io(std::io::ErrorKind::ConnectionReset), EngineFault::Lost),
            (Error::RequestTimeoutError, EngineFault::Slow),
        ] {
            assert_eq!(EngineFault::of(&error), fault, "{error}");
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
