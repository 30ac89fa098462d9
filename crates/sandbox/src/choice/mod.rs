//! Choice of sandboxes: the backend by name or least isolation, and the limits, by the settings.

mod limits;
mod shared;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::{Environment, Isolation, SettingKey, Settings, Value, Wanted};
use assize_types::{Failure, FailureKind};

use crate::docker::Docker;
use crate::jail::Jail;
use crate::microvm::{self, Microvm};
use crate::{
    Backend, Command, Interpreter, Language, Manager, Pool, PoolOptions, Sandbox, SandboxError,
    Spec,
};

pub use shared::{SharedBackend, SharedBackends};

/// The backend that was taken, and why.
#[expect(missing_debug_implementations, reason = "a backend has nothing to show")]
pub struct Chosen {
    pub backend: Arc<dyn Backend>,
    pub why: String,
    /// That `auto` fell back from microVMs for debates, in a sentence for users.
    pub weaker: Option<String>,
}

/// Why the jail is taken where nothing was asked for.
const AUTO: &str = "auto: the jail needs no daemon and is the fastest here";

/// Why a debate is held in a machine of its own where nothing was asked for.
const AUTO_DEBATE: &str =
    "auto: a machine is the thickest wall, and a debate needs little of a processor";

/// What is tried for debates where nothing was asked for.
const DEBATES: [Isolation; 3] = [Isolation::Microvm, Isolation::Jail, Isolation::Docker];

/// Where a process gets its sandboxes from: backends and limits, by the settings.
#[derive(Debug, Clone)]
pub struct Sandboxes {
    pub settings: Arc<Settings>,
    pub environment: Arc<Environment>,
    /// Backends and warm pools that all runs of a server or a worker share.
    pub shared: Option<Arc<SharedBackends>>,
}

impl Sandboxes {
    /// Sandboxes of one command.
    pub fn new(settings: &Settings, environment: &Environment) -> Sandboxes {
        let (settings, environment) = (Arc::new(settings.clone()), Arc::new(environment.clone()));
        Sandboxes { settings, environment, shared: None }
    }

    /// Takes the backend that the settings ask for, or says why it is not to be had.
    pub async fn choose(&self, languages: &[Language]) -> Result<Chosen, Failure> {
        let spec = Spec { limits: self.limits(), ..Spec::default() };
        self.choose_of((&Isolation::ALL, AUTO), languages, &spec).await
    }

    /// The same for what waits for a model most of the time, in such sandboxes.
    pub async fn choose_for_debates(&self, spec: &Spec) -> Result<Chosen, Failure> {
        let mut chosen = self.choose_of((&DEBATES, AUTO_DEBATE), &[], spec).await?;
        if *self.settings.sandbox.isolation == Wanted::Auto {
            let used = chosen.backend.isolation();
            chosen.weaker = weaker_isolation(used, &chosen.why);
        }
        Ok(chosen)
    }

    async fn choose_of(
        &self,
        (order, auto): (&[Isolation], &str),
        languages: &[Language],
        spec: &Spec,
    ) -> Result<Chosen, Failure> {
        self.settings.refuse_withheld()?;
        let wanted = *self.settings.sandbox.isolation;
        let asked = format!("asked for: {wanted}");
        let (isolation, why) = match wanted {
            Wanted::Auto => self.first_of(order, spec, auto).await?,
            Wanted::Exactly(isolation) => {
                // Better now than after a model was asked.
                match isolation {
                    Isolation::Jail => {}
                    Isolation::Docker => self.docker().is_ready().await?,
                    Isolation::Microvm => self.microvm().is_ready()?,
                }
                (isolation, asked)
            }
            Wanted::AtLeast(floor) => {
                let enough = Isolation::ALL.into_iter().filter(|isolation| *isolation >= floor);
                self.first_of(&enough.collect::<Vec<_>>(), spec, &asked).await?
            }
        };
        if isolation == Isolation::Jail {
            self.check_named(languages)?;
        }
        let backend = self.backend_for(languages, isolation)?;
        let how = backend.settle().await?;
        let why = how.into_iter().fold(why, |why, how| format!("{why}; {how}"));
        Ok(Chosen { backend, why, weaker: None })
    }

    /// A sandbox such as the settings ask for, who made it, and why it is of that kind.
    ///
    /// The same as to [`Sandboxes::choose`] and to make one, but for a jail that nobody asked for by name: that it
    /// can be had is not tried before, as the try would cost as much.
    pub async fn make(
        &self,
        languages: &[Language],
        spec: &Spec,
    ) -> Result<(Manager, Sandbox, String), Failure> {
        self.settings.refuse_withheld()?;
        let chosen = match *self.settings.sandbox.isolation {
            Wanted::Auto => {
                self.check_named(languages)?;
                let backend = self.backend_for(languages, Isolation::Jail)?;
                let manager = self.manager(backend).await?;
                match manager.make(spec.clone()).await {
                    Ok(sandbox) => return Ok((manager, sandbox, AUTO.to_owned())),
                    Err(SandboxError::Unavailable { .. }) => self.choose(languages).await?,
                    Err(error) => return Err(error.into()),
                }
            }
            Wanted::Exactly(_) | Wanted::AtLeast(_) => self.choose(languages).await?,
        };
        let manager = self.manager(chosen.backend).await?;
        let sandbox = manager.make(spec.clone()).await?;
        Ok((manager, sandbox, chosen.why))
    }

    /// The first that can be had, and why not those before it.
    async fn first_of(
        &self,
        order: &[Isolation],
        spec: &Spec,
        why: &str,
    ) -> Result<(Isolation, String), SandboxError> {
        let mut first = None;
        let mut why = why.to_owned();
        for isolation in order.iter().copied() {
            match self.is_there(isolation, spec).await {
                Ok(()) => return Ok((isolation, why)),
                Err(error) => {
                    // Not the reason for the first any more, but the reason against it.
                    why = if first.is_none() && why.starts_with("auto: ") {
                        format!("auto: {error}")
                    } else {
                        format!("{why}; {error}")
                    };
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.unwrap_or_else(|| SandboxError::Name("nothing".to_owned())))
    }

    /// The walls that can be built here, of those that the settings allow.
    pub async fn available(&self) -> Result<Vec<Isolation>, Failure> {
        self.settings.refuse_withheld()?;
        let wanted = *self.settings.sandbox.isolation;
        let allowed = Isolation::ALL.into_iter().filter(|isolation| match wanted {
            Wanted::Auto => true,
            Wanted::Exactly(only) => *isolation == only,
            Wanted::AtLeast(floor) => *isolation >= floor,
        });
        let (mut available, mut why) = (Vec::new(), Vec::new());
        for isolation in allowed {
            match self.is_there(isolation, &Spec::default()).await {
                Ok(()) => available.push(isolation),
                Err(error) => why.push(format!("{isolation}: {error}")),
            }
        }
        if available.is_empty() {
            let message = format!("no sandbox can be made here: {}", why.join("; "));
            return Err(Failure::new(FailureKind::Sandbox, message)
                .hint("`assize doctor` says what is missing"));
        }
        Ok(available)
    }

    /// Whether such sandboxes can be made here: shown by making one, where that costs little.
    async fn is_there(&self, isolation: Isolation, spec: &Spec) -> Result<(), SandboxError> {
        let backend = self.backend_for(&[], isolation)?;
        backend.check(spec)?;
        match isolation {
            Isolation::Jail => self.attempt(backend, Spec::default()).await.map(drop),
            Isolation::Docker => self.docker().is_ready().await,
            Isolation::Microvm => {
                self.microvm().is_ready()?;
                self.attempt(backend, spec.clone()).await.map(drop)
            }
        }
    }

    /// One backend, with all interpreters that are found.
    pub fn backend(&self, isolation: Isolation) -> Result<Arc<dyn Backend>, SandboxError> {
        self.backend_for(&Language::ALL, isolation)
    }

    /// One backend, with the interpreters of these languages: some take their time to be found.
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

    /// Machines, made from what is in the cache.
    pub fn microvm(&self) -> Microvm {
        Microvm::new(microvm::Options {
            cache: self.environment.cache_folder.clone(),
            search: self.environment.environment.get("PATH").map(Into::into),
            say: Some(self.environment.say),
            ..microvm::Options::default()
        })
    }

    /// Docker or Podman, wherever it listens.
    pub fn docker(&self) -> Docker {
        let mut hosts = Vec::new();
        match self.settings.docker.host.as_deref() {
            Some(host) => hosts.push(host.strip_prefix("unix://").unwrap_or(host).to_owned()),
            None => {
                hosts.push("/var/run/docker.sock".to_owned());
                if let Some(folder) = self.environment.environment.get("XDG_RUNTIME_DIR") {
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

    /// Fails if a setting names an interpreter that cannot be used, and a program needs that one.
    fn check_named(&self, languages: &[Language]) -> Result<(), Failure> {
        let [language] = languages else { return Ok(()) };
        let (key, value) = self.interpreter_setting(*language);
        if value.is_none() {
            return Ok(());
        }
        self.interpreter(*language).map(drop).map_err(|why| {
            let message = format!("invalid setting `{key}` ({}): {why}", value.source());
            Failure::new(FailureKind::Settings, message)
                .hint("name the program itself, such as `/usr/bin/python3`, or remove the setting")
        })
    }

    fn interpreter_setting(&self, language: Language) -> (SettingKey, &Value<Option<String>>) {
        match language {
            Language::Python => (SettingKey::SandboxPython, &self.settings.interpreters.python),
            Language::Bash => (SettingKey::SandboxBash, &self.settings.interpreters.bash),
            Language::JavaScript => (SettingKey::SandboxNode, &self.settings.interpreters.node),
        }
    }

    /// The interpreter of a language on this machine.
    pub fn interpreter(&self, language: Language) -> Result<Interpreter, String> {
        let (_, value) = self.interpreter_setting(language);
        let named = value.as_ref().map(|path| self.environment.working_folder.join(path));
        let search = self.environment.environment.get("PATH").map(AsRef::as_ref);
        Interpreter::find(language, named.as_deref(), search)
    }

    /// Where the processes of this user that make sandboxes know of each other.
    pub fn folder(&self) -> PathBuf {
        self.environment.state_folder.join("sandboxes")
    }

    /// Joins those who make sandboxes on this machine, and cleans up after those who are gone.
    pub async fn manager(&self, backend: Arc<dyn Backend>) -> Result<Manager, Failure> {
        self.open(backend).await.map_err(|error| {
            let failure = Failure::from(error);
            failure.hint(
                "assize keeps a note of its sandboxes there; name another place with XDG_STATE_HOME",
            )
        })
    }

    pub async fn open(&self, backend: Arc<dyn Backend>) -> Result<Manager, SandboxError> {
        // Nobody is spoken to unless somebody left something there.
        let others: [Arc<dyn Backend>; 3] =
            [Arc::new(Jail::new(Vec::new())), Arc::new(self.docker()), Arc::new(self.microvm())];
        Manager::open(self.folder(), backend, &others).await
    }

    /// Sandboxes that wait, such as the settings ask for, at most so many; and which walls were taken and
    /// why.
    pub async fn pool(
        &self,
        language: Language,
        spec: Spec,
        most: u32,
    ) -> Result<(Arc<Pool>, String), Failure> {
        let chosen = self.choose(&[language]).await?;
        chosen.backend.check(&spec)?;
        // Better now than after a model was asked.
        chosen.backend.interpreter(language)?;
        let why = format!("{} ({})", chosen.backend.isolation(), chosen.why);
        let manager = self.manager(chosen.backend).await?;
        let options = PoolOptions {
            size: self.settings.sandbox.pool.min(most as usize),
            idle: *self.settings.sandbox.pool_idle_seconds,
            ..PoolOptions::default()
        };
        Ok((Arc::new(manager.pool(spec, options)), why))
    }

    /// Makes a sandbox and runs something in it: nothing less shows that it can be done.
    pub async fn attempt(
        &self,
        backend: Arc<dyn Backend>,
        spec: Spec,
    ) -> Result<Duration, SandboxError> {
        let begun = Instant::now();
        let manager = self.open(backend).await?;
        let sandbox = manager.make(spec).await?;
        let done = sandbox.exec(Command::new("/bin/true")).await?.finish().await;
        let took = begun.elapsed();
        sandbox.end().await;
        let outcome = done?.outcome;
        if outcome.success() {
            Ok(took)
        } else {
            Err(SandboxError::Broke(format!("`/bin/true` ended with {}", outcome.status())))
        }
    }
}

/// What users read when `auto` fell back from microVMs; `None` for a microVM.
///
/// Report, JSON flags, page and command line all show this sentence.
fn weaker_isolation(used: Isolation, why: &str) -> Option<String> {
    let weaker = match used {
        Isolation::Microvm => return None,
        Isolation::Jail => "in a jail, which shares the kernel of this machine",
        Isolation::Docker => "in a container, which shares the kernel of this machine",
    };
    let why = why.strip_prefix("auto: ").unwrap_or(why);
    Some(format!(
        "debates ran {weaker}, not in a microVM ({why}); `assize image build microvm` prepares microVMs, and \
         `--isolation microvm` insists on them"
    ))
}

/// The pool that a run takes its sandboxes from.
#[derive(Debug)]
pub struct RunPool {
    pub pool: Arc<Pool>,
    /// Whether it belongs to this run alone.
    own: bool,
}

impl RunPool {
    /// The shared pool of this process, or one for this run alone, of at most so many sandboxes; and which backend was
    /// chosen and why.
    pub async fn open(
        sandboxes: &Sandboxes,
        language: Language,
        spec: Spec,
        most: u32,
    ) -> Result<(RunPool, String), Failure> {
        let ((pool, why), own) = match &sandboxes.shared {
            Some(shared) => (shared.pool_for_run(sandboxes, language, &spec).await?, false),
            None => (sandboxes.pool(language, spec, most).await?, true),
        };
        Ok((RunPool { pool, own }, why))
    }

    /// Ends the pool, if it belongs to this run alone.
    pub async fn finish(&self) {
        if self.own {
            self.pool.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weaker_isolation_names_the_boundary_the_reason_and_the_command() {
        assert_eq!(weaker_isolation(Isolation::Microvm, "auto: whatever"), None);
        let jail = weaker_isolation(Isolation::Jail, "auto: no image").unwrap();
        assert!(jail.contains("in a jail") && jail.contains("(no image)"), "{jail}");
        assert!(jail.contains("`assize image build microvm`"), "{jail}");
        assert!(weaker_isolation(Isolation::Docker, "x").unwrap().contains("in a container"));
    }
}
