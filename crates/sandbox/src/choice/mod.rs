//! Selects the sandbox backend and its limits according to the settings.

mod limits;
mod shared;
mod shim;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::{
    Environment, Isolation, RequestedIsolation, SettingKey, SettingValue, Settings,
};
use assize_protocol::GuestFailureCause;
use assize_types::{Failure, FailureKind};

use crate::docker::Docker;
use crate::jail::Jail;
use crate::microvm::{self, Microvm};
use crate::{
    Backend, Interpreter, Language, PoolOptions, ProgramCommand, Sandbox, SandboxError,
    SandboxManager, SandboxPool, SandboxSpec,
};

pub use shared::{SharedBackend, SharedBackends};

/// The selected backend, and why it was selected.
#[expect(missing_debug_implementations, reason = "a backend has no useful debug output")]
pub struct SelectedBackend {
    pub backend: Arc<dyn Backend>,
    pub why: String,
    /// Warning, shown to users, that debates run with weaker isolation than a microVM. It is set only if the isolation
    /// setting is `auto` and no microVM is available.
    pub weaker_isolation_warning: Option<String>,
}

/// Reason that is shown to users if the isolation setting `auto` selects the jail.
const AUTO: &str = "auto: the jail needs no daemon and is the fastest backend";

/// Reason that is shown to users if the isolation setting `auto` selects microVMs for debates.
const AUTO_DEBATE: &str =
    "auto: a microVM is the strongest isolation, and a debate needs little CPU time";

/// Order in which the isolation setting `auto` tries the backends for debates.
const DEBATES: [Isolation; 3] = [Isolation::Microvm, Isolation::Jail, Isolation::Docker];

/// Creates backends, managers and sandboxes of this process according to the settings.
#[derive(Debug, Clone)]
pub struct SandboxFactory {
    pub settings: Arc<Settings>,
    pub environment: Arc<Environment>,
    /// Backends and warm pools shared by all runs of a server or a worker.
    pub shared: Option<Arc<SharedBackends>>,
}

impl SandboxFactory {
    /// Creates a factory for one command, without shared backends and warm pools.
    pub fn new(settings: &Settings, environment: &Environment) -> SandboxFactory {
        let (settings, environment) = (Arc::new(settings.clone()), Arc::new(environment.clone()));
        SandboxFactory { settings, environment, shared: None }
    }

    /// Selects the configured backend, or fails with the reason why the backend is unavailable.
    pub async fn choose(&self, languages: &[Language]) -> Result<SelectedBackend, Failure> {
        let spec = SandboxSpec { limits: self.limits(), ..SandboxSpec::default() };
        self.choose_of((&Isolation::ALL, AUTO), languages, &spec).await
    }

    /// Selects the backend for debates. Debates mostly wait for model responses, so strong isolation is preferred to
    /// speed.
    pub async fn choose_for_debates(&self, spec: &SandboxSpec) -> Result<SelectedBackend, Failure> {
        let mut chosen = self.choose_of((&DEBATES, AUTO_DEBATE), &[], spec).await?;
        if *self.settings.sandbox.isolation == RequestedIsolation::Auto {
            let used = chosen.backend.isolation();
            chosen.weaker_isolation_warning = weaker_isolation(used, &chosen.why);
        }
        Ok(chosen)
    }

    async fn choose_of(
        &self,
        (order, auto): (&[Isolation], &str),
        languages: &[Language],
        spec: &SandboxSpec,
    ) -> Result<SelectedBackend, Failure> {
        self.settings.reject_untrusted_values()?;
        let wanted = *self.settings.sandbox.isolation;
        let requested = format!("requested: {wanted}");
        let (isolation, why) = match wanted {
            RequestedIsolation::Auto => self.first_available(order, spec, auto).await?,
            RequestedIsolation::Exactly(isolation) => {
                // The backend is checked now, so that a run fails before it pays for model calls.
                match isolation {
                    Isolation::Jail => {}
                    Isolation::Docker => self.docker().is_ready().await?,
                    Isolation::Microvm => self.microvm().is_ready()?,
                }
                (isolation, requested)
            }
            RequestedIsolation::AtLeast(floor) => {
                let enough = Isolation::ALL.into_iter().filter(|isolation| *isolation >= floor);
                self.first_available(&enough.collect::<Vec<_>>(), spec, &requested).await?
            }
        };
        if isolation == Isolation::Jail {
            self.check_interpreter_setting(languages)?;
        }
        let backend = self.backend_for(languages, isolation)?;
        let how = backend.test_host().await?;
        let why = how.into_iter().fold(why, |why, how| format!("{why}; {how}"));
        Ok(SelectedBackend { backend, why, weaker_isolation_warning: None })
    }

    /// Creates a sandbox with the requested backend. Returns the manager of the backend, the sandbox, and the reason
    /// why the backend was selected.
    ///
    /// Like [`SandboxFactory::choose`] followed by [`SandboxManager::create`], but `auto` does not first test whether a
    /// jail is available, because the test would take as long as creating the sandbox.
    pub async fn create_sandbox(
        &self,
        languages: &[Language],
        spec: &SandboxSpec,
    ) -> Result<(SandboxManager, Sandbox, String), Failure> {
        self.settings.reject_untrusted_values()?;
        let chosen = match *self.settings.sandbox.isolation {
            RequestedIsolation::Auto => {
                self.check_interpreter_setting(languages)?;
                let backend = self.backend_for(languages, Isolation::Jail)?;
                let manager = self.manager(backend).await?;
                match manager.create(spec.clone()).await {
                    Ok(sandbox) => return Ok((manager, sandbox, AUTO.to_owned())),
                    Err(SandboxError::Unavailable { .. }) => self.choose(languages).await?,
                    Err(error) => return Err(error.into()),
                }
            }
            RequestedIsolation::Exactly(_) | RequestedIsolation::AtLeast(_) => {
                self.choose(languages).await?
            }
        };
        let manager = self.manager(chosen.backend).await?;
        let sandbox = manager.create(spec.clone()).await?;
        Ok((manager, sandbox, chosen.why))
    }

    /// Returns the first available backend of `order`, and the reason for the selection. The reason is `why` for the
    /// first backend of `order`; for a later backend, it contains the errors of the backends before it.
    async fn first_available(
        &self,
        order: &[Isolation],
        spec: &SandboxSpec,
        why: &str,
    ) -> Result<(Isolation, String), SandboxError> {
        let mut first = None;
        let mut why = why.to_owned();
        for isolation in order.iter().copied() {
            match self.check_available(isolation, spec).await {
                Ok(()) => return Ok((isolation, why)),
                Err(error) => {
                    // The reason to prefer the first backend is replaced by the reason why it is unavailable.
                    why = if first.is_none() && why.starts_with("auto: ") {
                        format!("auto: {error}")
                    } else {
                        format!("{why}; {error}")
                    };
                    first.get_or_insert(error);
                }
            }
        }
        let no_backend =
            || SandboxError::failed("selecting a sandbox backend", "the list of backends is empty");
        Err(first.unwrap_or_else(no_backend))
    }

    /// Returns the available backends among those that the settings allow.
    pub async fn available(&self) -> Result<Vec<Isolation>, Failure> {
        self.settings.reject_untrusted_values()?;
        let wanted = *self.settings.sandbox.isolation;
        let allowed = Isolation::ALL.into_iter().filter(|isolation| match wanted {
            RequestedIsolation::Auto => true,
            RequestedIsolation::Exactly(only) => *isolation == only,
            RequestedIsolation::AtLeast(floor) => *isolation >= floor,
        });
        let (mut available, mut why) = (Vec::new(), Vec::new());
        for isolation in allowed {
            match self.check_available(isolation, &SandboxSpec::default()).await {
                Ok(()) => available.push(isolation),
                Err(error) => why.push(format!("{isolation}: {error}")),
            }
        }
        if available.is_empty() {
            let message = format!("no sandbox backend is available: {}", why.join("; "));
            return Err(Failure::new(FailureKind::Sandbox, message)
                .hint("run `assize doctor` to see what is missing"));
        }
        Ok(available)
    }

    /// Checks whether a backend is available; for the jail and microVM by starting a sandbox.
    async fn check_available(
        &self,
        isolation: Isolation,
        spec: &SandboxSpec,
    ) -> Result<(), SandboxError> {
        let backend = self.backend_for(&[], isolation)?;
        backend.check(spec)?;
        match isolation {
            Isolation::Jail => self.test_backend(backend, SandboxSpec::default()).await.map(drop),
            Isolation::Docker => self.docker().is_ready().await,
            Isolation::Microvm => {
                self.microvm().is_ready()?;
                self.test_backend(backend, spec.clone()).await.map(drop)
            }
        }
    }

    /// Creates a backend with the interpreters of all languages.
    pub fn backend(&self, isolation: Isolation) -> Result<Arc<dyn Backend>, SandboxError> {
        self.backend_for(&Language::ALL, isolation)
    }

    /// Creates a backend with the interpreters of these languages only, because finding an interpreter may be slow.
    fn backend_for(
        &self,
        languages: &[Language],
        isolation: Isolation,
    ) -> Result<Arc<dyn Backend>, SandboxError> {
        let interpreters = || {
            let find = |language: &Language| self.interpreter(*language).ok();
            languages.iter().filter_map(find).collect()
        };
        match isolation {
            Isolation::Jail => Ok(Arc::new(Jail::new(interpreters()))),
            Isolation::Docker => Ok(Arc::new(self.docker())),
            Isolation::Microvm => Ok(Arc::new(self.microvm())),
        }
    }

    /// Creates the microVM backend, with images and snapshots in the cache folder.
    pub fn microvm(&self) -> Microvm {
        Microvm::new(microvm::MicrovmOptions {
            cache: self.environment.cache_folder.clone(),
            search: self.environment.variables.get("PATH").map(Into::into),
            notify_user: Some(self.environment.show_message),
            ..microvm::MicrovmOptions::default()
        })
    }

    /// Creates the Docker backend, with the configured engine or the usual sockets of Docker and Podman.
    pub fn docker(&self) -> Docker {
        let mut hosts = Vec::new();
        match self.settings.docker.host.as_deref() {
            Some(host) => hosts.push(host.strip_prefix("unix://").unwrap_or(host).to_owned()),
            None => {
                hosts.push("/var/run/docker.sock".to_owned());
                if let Some(folder) = self.environment.variables.get("XDG_RUNTIME_DIR") {
                    hosts.extend(
                        ["docker.sock", "podman/podman.sock"]
                            .map(|name| format!("{folder}/{name}")),
                    );
                }
                hosts.push("/run/podman/podman.sock".to_owned());
            }
        }
        Docker::new(hosts)
    }

    /// Checks the configured interpreter if exactly one language is requested. Fails if this interpreter cannot be
    /// used.
    fn check_interpreter_setting(&self, languages: &[Language]) -> Result<(), Failure> {
        let [language] = languages else { return Ok(()) };
        let (key, value) = self.interpreter_setting(*language);
        if value.is_none() {
            return Ok(());
        }
        self.interpreter(*language).map(drop).map_err(|why| {
            let message = format!("invalid setting `{key}` ({}): {why}", value.source());
            Failure::new(FailureKind::Settings, message)
                .hint("set the path of the interpreter, such as `/usr/bin/python3`, or remove the setting")
        })
    }

    fn interpreter_setting(
        &self,
        language: Language,
    ) -> (SettingKey, &SettingValue<Option<String>>) {
        match language {
            Language::Python => (SettingKey::SandboxPython, &self.settings.interpreters.python),
            Language::Bash => (SettingKey::SandboxBash, &self.settings.interpreters.bash),
            Language::JavaScript => (SettingKey::SandboxNode, &self.settings.interpreters.node),
        }
    }

    /// Finds the interpreter of a language on this machine: at the configured path, or in `PATH` if no path is
    /// configured.
    pub fn interpreter(&self, language: Language) -> Result<Interpreter, String> {
        let (_, value) = self.interpreter_setting(language);
        let named = value.as_ref().map(|path| self.environment.working_folder.join(path));
        let search = self.environment.variables.get("PATH").map(AsRef::as_ref);
        let program = Interpreter::locate(language, named.as_deref(), search)?;
        let started = shim::interpreter_of_shim(language, &program, &self.environment);
        Interpreter::at(language, started.unwrap_or(program))
    }

    /// Folder of the sandbox registry, shared by all processes of this user.
    pub fn folder(&self) -> PathBuf {
        self.environment.state_folder.join("sandboxes")
    }

    /// Opens a sandbox manager for a backend, and removes the sandboxes that dead processes left behind.
    pub async fn manager(&self, backend: Arc<dyn Backend>) -> Result<SandboxManager, Failure> {
        self.open(backend).await.map_err(|error| {
            let failure = Failure::from(error);
            failure.hint(
                "assize keeps its sandbox registry in the state folder; set XDG_STATE_HOME to use another state folder",
            )
        })
    }

    /// Like [`SandboxFactory::manager`], but returns the original error without a hint.
    pub async fn open(&self, backend: Arc<dyn Backend>) -> Result<SandboxManager, SandboxError> {
        // These backends are used only to clean up after dead processes. A container engine is contacted only if a dead
        // process has used it.
        let others: [Arc<dyn Backend>; 3] =
            [Arc::new(Jail::new(Vec::new())), Arc::new(self.docker()), Arc::new(self.microvm())];
        SandboxManager::open(self.folder(), backend, &others).await
    }

    /// Starts a warm pool with at most `most` idle sandboxes. Also returns the name of the selected backend and the
    /// reason why it was selected.
    pub async fn pool(
        &self,
        language: Language,
        spec: SandboxSpec,
        most: u32,
    ) -> Result<(Arc<SandboxPool>, String), Failure> {
        let chosen = self.choose(&[language]).await?;
        check_spec(&*chosen.backend, language, &spec)?;
        let why = format!("{} ({})", chosen.backend.isolation(), chosen.why);
        let manager = self.manager(chosen.backend).await?;
        let options = PoolOptions {
            size: self.settings.sandbox.pool.min(most as usize),
            idle: *self.settings.sandbox.pool_idle_seconds,
            ..PoolOptions::default()
        };
        Ok((Arc::new(manager.pool(spec, options)), why))
    }

    /// Tests a backend: starts a sandbox and runs `/bin/true` in it. Returns the duration of the test.
    pub async fn test_backend(
        &self,
        backend: Arc<dyn Backend>,
        spec: SandboxSpec,
    ) -> Result<Duration, SandboxError> {
        let begun = Instant::now();
        let manager = self.open(backend).await?;
        let sandbox = manager.create(spec).await?;
        let finished = match sandbox.exec(ProgramCommand::new("/bin/true")).await {
            Ok(running) => running.finish().await,
            Err(error) => Err(error),
        };
        let took = begun.elapsed();
        sandbox.end().await;
        let outcome = match finished {
            Ok(finished) => finished.outcome,
            // Not every system has this program. A sandbox that reports its absence works.
            Err(error) if error.cause() == Some(GuestFailureCause::NotFound) => return Ok(took),
            Err(error) => return Err(error),
        };
        if outcome.success() {
            Ok(took)
        } else {
            let status = outcome.status();
            Err(SandboxError::SandboxFailed(format!("`/bin/true` ended with exit status {status}")))
        }
    }
}

/// Checks that a backend can run programs in this language in sandboxes with this spec. The check takes place whenever
/// a run starts, also when a worker starts a stored run, so that an unsuitable run fails before it makes model calls
/// that cost money.
fn check_spec(
    backend: &dyn Backend,
    language: Language,
    spec: &SandboxSpec,
) -> Result<(), SandboxError> {
    if let Some(complaint) = spec.limits.validation_error() {
        return Err(SandboxError::Limits(complaint));
    }
    backend.check(spec)?;
    backend.interpreter(language).map(drop)
}

/// Returns a warning, shown to users, that debates ran with weaker isolation than a microVM; `None` for a microVM.
///
/// The report, the field `flags` of the JSON output, the web page and the command line all show this warning.
fn weaker_isolation(used: Isolation, why: &str) -> Option<String> {
    let weaker = match used {
        Isolation::Microvm => return None,
        Isolation::Jail => "in a jail, which shares the kernel of this machine",
        Isolation::Docker => "in a container, which shares the kernel of this machine",
    };
    let why = why.strip_prefix("auto: ").unwrap_or(why);
    Some(format!(
        "debates ran {weaker}, not in a microVM ({why}); `assize image build microvm` prepares microVMs, and \
         `--isolation microvm` requires them"
    ))
}

/// Warm pool from which a run takes its sandboxes.
#[derive(Debug)]
pub struct RunPool {
    pub pool: Arc<SandboxPool>,
    /// Whether the pool belongs to this run alone and is not shared with other runs.
    own: bool,
}

impl RunPool {
    /// Opens the shared pool, or, if there is none, a pool of at most `most` sandboxes for this run. Also returns the
    /// name of the selected backend and the reason why it was selected.
    pub async fn open(
        sandboxes: &SandboxFactory,
        language: Language,
        spec: SandboxSpec,
        most: u32,
    ) -> Result<(RunPool, String), Failure> {
        let ((pool, why), own) = match &sandboxes.shared {
            Some(shared) => (shared.pool_for_run(sandboxes, language, &spec).await?, false),
            None => (sandboxes.pool(language, spec, most).await?, true),
        };
        Ok((RunPool { pool, own }, why))
    }

    /// Closes the pool if it belongs to this run alone.
    pub async fn finish(&self) {
        if self.own {
            self.pool.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use assize_config::SandboxLimits;

    use super::*;

    #[test]
    fn invalid_limits_and_image_names_are_rejected_before_a_sandbox_starts() {
        let docker = Docker::new(Vec::new());
        let error = |memory: u64, image: &str| {
            let limits = SandboxLimits { memory, ..SandboxLimits::default() };
            let image = Some(image.to_owned());
            let spec = SandboxSpec { image, limits, ..SandboxSpec::default() };
            check_spec(&docker, Language::Python, &spec).err().map(|error| error.to_string())
        };
        assert_eq!(error(256 << 20, "python:3.12"), None);
        let small = error(1, "python:3.12").unwrap();
        assert!(small.starts_with("invalid sandbox limits: the memory limit"), "{small}");
        let image = error(256 << 20, "../containers").unwrap();
        assert!(image.contains("invalid image name `../containers`"), "{image}");
    }

    #[tokio::test]
    async fn selection_from_an_empty_list_of_backends_fails() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::in_folder(folder.path(), [].into());
        let settings = Settings::load(&environment, &[]).unwrap();
        let sandboxes = SandboxFactory::new(&settings, &environment);
        let error = sandboxes.first_available(&[], &SandboxSpec::default(), AUTO).await;
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "selecting a sandbox backend failed: the list of backends is empty");
    }

    #[test]
    fn weaker_isolation_warning_contains_the_backend_the_reason_and_the_image_build_command() {
        assert_eq!(weaker_isolation(Isolation::Microvm, "auto: whatever"), None);
        let jail = weaker_isolation(Isolation::Jail, "auto: no image").unwrap();
        assert!(jail.contains("in a jail") && jail.contains("(no image)"), "{jail}");
        assert!(jail.contains("`assize image build microvm`"), "{jail}");
        assert!(weaker_isolation(Isolation::Docker, "x").unwrap().contains("in a container"));
    }
}
