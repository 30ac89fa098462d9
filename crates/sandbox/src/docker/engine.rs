//! The connection to an engine, Docker's or Podman's, and what its failures mean.

use std::future::Future;
use std::time::Duration;

use assize_config::Isolation;
use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, ClientVersion};
use tokio::sync::OnceCell;

use crate::error::SandboxError;

/// Where Docker listens unless it is told otherwise.
const USUAL: &str = "/var/run/docker.sock";

/// How long the engine may take to answer: it may be busy with many others.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it may take for whole images.
const IMAGE_PATIENCE: Duration = Duration::from_secs(15 * 60);

/// How long we wait before each further try.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(800), Duration::from_secs(2)];

/// An engine that is spoken to once somebody needs it.
#[derive(Debug)]
pub(crate) struct Engine {
    hosts: Vec<String>,
    client: OnceCell<Client>,
}

/// The connection to one engine, in words that both sides know.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) api: bollard::Docker,
    pub(crate) host: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Engine {
    pub(crate) fn new(mut hosts: Vec<String>) -> Engine {
        if hosts.is_empty() {
            hosts.push(USUAL.to_owned());
        }
        Engine { hosts, client: OnceCell::new() }
    }

    /// The first engine that answers.
    pub(crate) async fn client(&self) -> Result<&Client, SandboxError> {
        self.client.get_or_try_init(|| self.connect()).await
    }

    /// The engine that answered, if one was asked yet.
    pub(crate) fn known(&self) -> Option<&Client> {
        self.client.get()
    }

    async fn connect(&self) -> Result<Client, SandboxError> {
        let mut first = None;
        for host in &self.hosts {
            match Client::connect(host).await {
                Ok(client) => return Ok(client),
                Err(error) => {
                    first.get_or_insert(explain(host, "asking the engine for its version", &error));
                }
            }
        }
        Err(first.unwrap_or_else(|| SandboxError::failed("asking the engine", "none is named")))
    }
}

impl Client {
    async fn connect(host: &str) -> Result<Client, Error> {
        let api = open(host, API_DEFAULT_VERSION)?;
        let about = api.version().await?;
        // An older engine refuses words that are newer than itself.
        let theirs = about.api_version.as_deref().and_then(read_version);
        let api = match theirs.filter(|theirs| theirs < API_DEFAULT_VERSION) {
            Some(theirs) => open(host, &theirs)?,
            None => api,
        };
        let parts = about.components.unwrap_or_default();
        let podman = parts.iter().any(|part| part.name.contains("Podman"));
        Ok(Client {
            api,
            host: host.to_owned(),
            name: if podman { "Podman" } else { "Docker" }.to_owned(),
            version: about.version.unwrap_or_default(),
        })
    }

    /// The same, with the patience that moving an image takes.
    pub(crate) fn patient(&self) -> bollard::Docker {
        self.api.clone().with_timeout(IMAGE_PATIENCE)
    }

    pub(crate) fn is_podman(&self) -> bool {
        self.name == "Podman"
    }

    pub(crate) fn explain(&self, what: &str, error: &Error) -> SandboxError {
        explain(&self.host, what, error)
    }

    /// Tries again for as long as that may help: an engine that is just being restarted is there
    /// again in a moment.
    pub(crate) async fn retry<T, F>(
        &self,
        what: &str,
        attempt: impl Fn() -> F,
    ) -> Result<T, SandboxError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut pauses = PAUSES.into_iter();
        loop {
            let error = match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match pauses.next().filter(|_| Fault::of(&error).may_pass()) {
                Some(pause) => {
                    tracing::debug!(%what, %error, "the engine failed; trying again");
                    tokio::time::sleep(pause).await;
                }
                None => return Err(self.explain(what, &error)),
            }
        }
    }
}

fn open(host: &str, version: &ClientVersion) -> Result<bollard::Docker, Error> {
    let patience = PATIENCE.as_secs();
    if host.starts_with("tcp://") || host.starts_with("http://") {
        bollard::Docker::connect_with_http(host, patience, version)
    } else {
        bollard::Docker::connect_with_unix(host, patience, version)
    }
}

fn read_version(text: &str) -> Option<ClientVersion> {
    let (major, minor) = text.split_once('.')?;
    Some(ClientVersion { major_version: major.parse().ok()?, minor_version: minor.parse().ok()? })
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nobody listens there.
    Absent,
    /// We may not speak to it.
    Forbidden,
    /// The connection broke.
    Lost,
    /// No answer came in time.
    Slow,
    /// It has no room left on its disk.
    Full,
    /// What was named is not there.
    Missing,
    /// It is there already, or in the middle of something else.
    Conflict,
    /// The engine itself failed.
    Engine,
    Other,
}

impl Fault {
    pub(crate) fn of(error: &Error) -> Fault {
        match error {
            Error::SocketNotFoundError(_) => Fault::Absent,
            Error::RequestTimeoutError => Fault::Slow,
            Error::DockerResponseServerError { message, .. }
            | Error::DockerStreamError { error: message }
                if message.contains("no space left on device") =>
            {
                Fault::Full
            }
            Error::DockerResponseServerError { status_code: 404, .. } => Fault::Missing,
            Error::DockerResponseServerError { status_code: 409, .. } => Fault::Conflict,
            Error::DockerResponseServerError { status_code: 500.., .. } => Fault::Engine,
            error => match io_kind(error) {
                Some(std::io::ErrorKind::NotFound) => Fault::Absent,
                Some(std::io::ErrorKind::PermissionDenied) => Fault::Forbidden,
                Some(_) => Fault::Lost,
                None if matches!(
                    error,
                    Error::HyperLegacyError { .. } | Error::HyperResponseError { .. }
                ) =>
                {
                    Fault::Lost
                }
                None => Fault::Other,
            },
        }
    }

    /// Whether it may be over in a moment.
    fn may_pass(self) -> bool {
        matches!(self, Fault::Absent | Fault::Lost | Fault::Engine)
    }
}

fn io_kind(error: &Error) -> Option<std::io::ErrorKind> {
    // It shows what is behind the failure in its place.
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
    match Fault::of(error) {
        Fault::Absent => unavailable(
            format!("no engine listens at `{host}`"),
            "start Docker (`sudo systemctl start docker`) or Podman (`systemctl --user start \
             podman.socket`), or name the socket of the one that runs",
        ),
        Fault::Lost => unavailable(
            format!("the engine at `{host}` is gone: {}", innermost(error)),
            "see whether it runs: `docker info`",
        ),
        Fault::Forbidden => unavailable(
            format!("this user may not use the engine at `{host}`"),
            "join its group (`sudo usermod -aG docker $USER`, then log in again), which is as good as \
             being root; or run Docker or Podman rootless",
        ),
        Fault::Full => unavailable(
            "the engine has no room left on its disk".to_owned(),
            "`docker system df` shows what takes it, and `docker system prune` frees some",
        ),
        Fault::Slow => {
            SandboxError::failed(what, format!("the engine at `{host}` did not answer in time"))
        }
        Fault::Missing | Fault::Conflict | Fault::Engine | Fault::Other => {
            SandboxError::failed(what, innermost(error))
        }
    }
}

/// The engine's own words, without those around them.
fn innermost(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        return message.trim().to_owned();
    }
    assize_types::Failure::innermost(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status_code: u16, message: &str) -> Error {
        Error::DockerResponseServerError { status_code, message: message.to_owned() }
    }

    #[test]
    fn failures_are_told_apart() {
        let io = |kind| Error::IOError { err: std::io::Error::from(kind) };
        for (error, fault) in [
            (answered(404, "No such image: x"), Fault::Missing),
            (answered(409, "Conflict"), Fault::Conflict),
            (answered(500, "server error"), Fault::Engine),
            (answered(500, "write /x: no space left on device"), Fault::Full),
            (answered(400, "bad parameter"), Fault::Other),
            (io(std::io::ErrorKind::NotFound), Fault::Absent),
            (io(std::io::ErrorKind::PermissionDenied), Fault::Forbidden),
            (io(std::io::ErrorKind::ConnectionReset), Fault::Lost),
            (Error::RequestTimeoutError, Fault::Slow),
        ] {
            assert_eq!(Fault::of(&error), fault, "{error}");
        }
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_named() {
        let engine = Engine::new(vec!["/nonexistent/docker.sock".to_owned()]);
        let error = engine.client().await.unwrap_err();
        assert!(
            error.to_string().contains("no engine listens at `/nonexistent/docker.sock`"),
            "{error}"
        );
        assert!(error.hint().is_some());
    }
}
