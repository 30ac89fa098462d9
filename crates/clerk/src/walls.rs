//! Which walls are put around code: the backend by name or floor, and the limits by the settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::{Environment, Isolation, Limits, SettingKey, Settings, Source, Value, Wanted};
use assize_sandbox::docker::{Docker, Options};
use assize_sandbox::jail::Jail;
use assize_sandbox::microvm::{self, Microvm};
use assize_sandbox::{
    Backend, Command, Enforcement, Interpreter, Language, Manager, Pool, PoolOptions, Sandbox,
    SandboxError, Spec,
};
use assize_types::{Failure, FailureKind};

use crate::cluster;

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

/// Takes the backend that the settings ask for, or says why it is not to be had.
pub async fn choose(
    config: &Settings,
    around: &Environment,
    languages: &[Language],
) -> Result<Chosen, Failure> {
    let spec = Spec { limits: limits(config), ..Spec::default() };
    choose_of((&Isolation::ALL, AUTO), config, around, languages, &spec).await
}

/// The same for what waits for a model most of the time, in such sandboxes.
pub async fn choose_for_debates(
    config: &Settings,
    around: &Environment,
    spec: &Spec,
) -> Result<Chosen, Failure> {
    let mut chosen = choose_of((&DEBATES, AUTO_DEBATE), config, around, &[], spec).await?;
    if *config.sandbox.isolation == Wanted::Auto {
        let used = chosen.backend.isolation();
        chosen.weaker = assize_negotiation::weaker_isolation(used, &chosen.why);
    }
    Ok(chosen)
}

async fn choose_of(
    (order, auto): (&[Isolation], &str),
    config: &Settings,
    around: &Environment,
    languages: &[Language],
    spec: &Spec,
) -> Result<Chosen, Failure> {
    config.refuse_withheld()?;
    let wanted = *config.sandbox.isolation;
    let asked = format!("asked for: {wanted}");
    let (isolation, why) = match wanted {
        Wanted::Auto => first_of(order, config, around, spec, auto).await?,
        Wanted::Exactly(isolation) => {
            // Better now than after a model was asked.
            match isolation {
                Isolation::Jail => {}
                Isolation::Docker => docker(config, around).is_ready().await?,
                Isolation::Microvm => microvm(around).is_ready()?,
            }
            (isolation, asked)
        }
        Wanted::AtLeast(floor) => {
            let enough = Isolation::ALL.into_iter().filter(|isolation| *isolation >= floor);
            first_of(&enough.collect::<Vec<_>>(), config, around, spec, &asked).await?
        }
    };
    if isolation == Isolation::Jail {
        check_named(languages, config, around)?;
    }
    let backend = backend_for(languages, isolation, config, around)?;
    let how = backend.settle().await?;
    let why = how.into_iter().fold(why, |why, how| format!("{why}; {how}"));
    Ok(Chosen { backend, why, weaker: None })
}

/// A sandbox such as the settings ask for, who made it, and why it is of that kind.
///
/// The same as to [`choose`] and to make one, but for a jail that nobody asked for by name: that it
/// can be had is not tried before, as the try would cost as much.
pub async fn make(
    config: &Settings,
    around: &Environment,
    languages: &[Language],
    spec: &Spec,
) -> Result<(Manager, Sandbox, String), Failure> {
    config.refuse_withheld()?;
    let chosen = match *config.sandbox.isolation {
        Wanted::Auto => {
            check_named(languages, config, around)?;
            let backend = backend_for(languages, Isolation::Jail, config, around)?;
            let manager = manager(config, around, backend).await?;
            match manager.make(spec.clone()).await {
                Ok(sandbox) => return Ok((manager, sandbox, AUTO.to_owned())),
                Err(SandboxError::Unavailable { .. }) => choose(config, around, languages).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Wanted::Exactly(_) | Wanted::AtLeast(_) => choose(config, around, languages).await?,
    };
    let manager = manager(config, around, chosen.backend).await?;
    let sandbox = manager.make(spec.clone()).await?;
    Ok((manager, sandbox, chosen.why))
}

/// The first that can be had, and why not those before it.
async fn first_of(
    order: &[Isolation],
    config: &Settings,
    around: &Environment,
    spec: &Spec,
    why: &str,
) -> Result<(Isolation, String), SandboxError> {
    let mut first = None;
    let mut why = why.to_owned();
    for isolation in order.iter().copied() {
        match is_there(isolation, config, around, spec).await {
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
pub async fn available(config: &Settings, around: &Environment) -> Result<Vec<Isolation>, Failure> {
    config.refuse_withheld()?;
    let wanted = *config.sandbox.isolation;
    let allowed = Isolation::ALL.into_iter().filter(|isolation| match wanted {
        Wanted::Auto => true,
        Wanted::Exactly(only) => *isolation == only,
        Wanted::AtLeast(floor) => *isolation >= floor,
    });
    let (mut available, mut why) = (Vec::new(), Vec::new());
    for isolation in allowed {
        match is_there(isolation, config, around, &Spec::default()).await {
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
async fn is_there(
    isolation: Isolation,
    config: &Settings,
    around: &Environment,
    spec: &Spec,
) -> Result<(), SandboxError> {
    let backend = backend_for(&[], isolation, config, around)?;
    backend.check(spec)?;
    match isolation {
        Isolation::Jail => attempt(config, around, backend, Spec::default()).await.map(drop),
        Isolation::Docker => docker(config, around).is_ready().await,
        Isolation::Microvm => {
            microvm(around).is_ready()?;
            attempt(config, around, backend, spec.clone()).await.map(drop)
        }
    }
}

/// One backend, with all interpreters that are found.
pub fn backend(
    isolation: Isolation,
    config: &Settings,
    around: &Environment,
) -> Result<Arc<dyn Backend>, SandboxError> {
    backend_for(&Language::ALL, isolation, config, around)
}

/// One backend, with the interpreters of these languages: some take their time to be found.
fn backend_for(
    languages: &[Language],
    isolation: Isolation,
    config: &Settings,
    around: &Environment,
) -> Result<Arc<dyn Backend>, SandboxError> {
    let interpreters = || {
        let find = |language: &Language| interpreter(*language, config, around).ok();
        languages.iter().filter_map(find).collect()
    };
    match isolation {
        Isolation::Jail => Ok(Arc::new(Jail::new(interpreters()))),
        Isolation::Docker => Ok(Arc::new(docker(config, around))),
        Isolation::Microvm => Ok(Arc::new(microvm(around))),
    }
}

/// Machines, made from what is in the cache.
pub fn microvm(around: &Environment) -> Microvm {
    Microvm::new(microvm::Options {
        cache: around.cache_folder.clone(),
        search: around.environment.get("PATH").map(Into::into),
        say: Some(around.say),
        ..microvm::Options::default()
    })
}

/// Docker or Podman, wherever it listens.
pub fn docker(config: &Settings, around: &Environment) -> Docker {
    let mut hosts = Vec::new();
    match config.docker.host.as_deref() {
        Some(host) => hosts.push(host.strip_prefix("unix://").unwrap_or(host).to_owned()),
        None => {
            hosts.push("/var/run/docker.sock".to_owned());
            if let Some(folder) = around.environment.get("XDG_RUNTIME_DIR") {
                hosts.extend(
                    ["docker.sock", "podman/podman.sock"].map(|name| format!("{folder}/{name}")),
                );
            }
            hosts.push("/run/podman/podman.sock".to_owned());
        }
    }
    Docker::new(Options { hosts })
}

/// Fails if a setting names an interpreter that cannot be used, and a program needs that one.
fn check_named(
    languages: &[Language],
    config: &Settings,
    around: &Environment,
) -> Result<(), Failure> {
    let [language] = languages else { return Ok(()) };
    let (key, value) = interpreter_setting(*language, config);
    if value.is_none() {
        return Ok(());
    }
    interpreter(*language, config, around).map(drop).map_err(|why| {
        let message = format!("invalid setting `{key}` ({}): {why}", value.source());
        Failure::new(FailureKind::Settings, message)
            .hint("name the program itself, such as `/usr/bin/python3`, or remove the setting")
    })
}

fn interpreter_setting(
    language: Language,
    config: &Settings,
) -> (SettingKey, &Value<Option<String>>) {
    match language {
        Language::Python => (SettingKey::SandboxPython, &config.interpreters.python),
        Language::Bash => (SettingKey::SandboxBash, &config.interpreters.bash),
        Language::JavaScript => (SettingKey::SandboxNode, &config.interpreters.node),
    }
}

/// The interpreter of a language on this machine.
pub fn interpreter(
    language: Language,
    config: &Settings,
    around: &Environment,
) -> Result<Interpreter, String> {
    let (_, value) = interpreter_setting(language, config);
    let named = value.as_ref().map(|path| around.working_folder.join(path));
    let search = around.environment.get("PATH").map(AsRef::as_ref);
    Interpreter::find(language, named.as_deref(), search)
}

/// The limits that the settings ask for.
pub fn limits(config: &Settings) -> Limits {
    let sandbox = &config.sandbox;
    let cpus = sandbox.cpus.min(most_cpus(config));
    Limits {
        memory: *sandbox.memory,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 1024, checked"
        )]
        cpu_millis: (cpus * 1000.0).round() as u32,
        wall: *sandbox.timeout_seconds,
        processes: *sandbox.processes,
        output: *sandbox.output,
        disk: *sandbox.disk,
    }
}

/// The processors that a sandbox can have: those of this machine. In a cluster the worker decides.
fn most_cpus(config: &Settings) -> f64 {
    if cluster::is_set(config) {
        return f64::INFINITY;
    }
    let processors = std::thread::available_parallelism()
        .map_or(u16::MAX, |count| u16::try_from(count.get()).unwrap_or(u16::MAX));
    f64::from(processors)
}

/// A warning if more processors are asked for than this machine has.
pub fn clamped_cpus(config: &Settings) -> Option<String> {
    let cpus = &config.sandbox.cpus;
    let (asked, most) = (**cpus, most_cpus(config));
    let setting = match cpus.source() {
        Source::Flag(flag) => format!("`{flag} {asked}`"),
        source => format!("`sandbox.cpus = {asked}` ({source})"),
    };
    (asked > most).then(|| {
        format!("{setting} is more than the {most} processors of this machine: using {most}")
    })
}

/// The same for debates: a debate computes nothing, so what it may use is its own setting, unless a flag says
/// otherwise.
pub fn limits_of_debates(config: &Settings) -> Limits {
    let mut limits = limits(config);
    if config.sandbox.memory.requested().is_none() {
        limits.memory = *config.consult.memory;
    }
    limits
}

/// The sandbox that is asked for.
pub fn spec(image: Option<String>, config: &Settings) -> Result<Spec, Failure> {
    let limits = limits(config);
    if let Some(complaint) = limits.complaint() {
        return Err(Failure::new(FailureKind::Usage, complaint));
    }
    Ok(Spec { image, limits, ..Spec::default() })
}

/// Which limits were asked for by a flag and are held by best effort alone, in words.
pub fn loose(config: &Settings, enforcement: &Enforcement) -> Vec<String> {
    let mut loose = Vec::new();
    let (memory, cpus) = (config.sandbox.memory.source(), config.sandbox.cpus.source());
    for (source, by) in [(memory, &enforcement.memory), (cpus, &enforcement.cpu)] {
        if let Source::Flag(flag) = source
            && by.starts_with("best effort")
        {
            loose.push(format!("`{flag}` is {by}"));
        }
    }
    loose
}

/// Where the processes of this user that make sandboxes know of each other.
pub fn folder(around: &Environment) -> PathBuf {
    around.state_folder.join("sandboxes")
}

/// Joins those who make sandboxes on this machine, and cleans up after those who are gone.
pub async fn manager(
    config: &Settings,
    around: &Environment,
    backend: Arc<dyn Backend>,
) -> Result<Manager, Failure> {
    open(config, around, backend).await.map_err(|error| {
        let failure = Failure::from(error);
        failure.hint(
            "assize keeps a note of its sandboxes there; name another place with XDG_STATE_HOME",
        )
    })
}

pub async fn open(
    config: &Settings,
    around: &Environment,
    backend: Arc<dyn Backend>,
) -> Result<Manager, SandboxError> {
    // Nobody is spoken to unless somebody left something there.
    let others: [Arc<dyn Backend>; 3] = [
        Arc::new(Jail::new(Vec::new())),
        Arc::new(docker(config, around)),
        Arc::new(microvm(around)),
    ];
    Manager::open(folder(around), backend, &others).await
}

/// The pool that a run takes its sandboxes from.
#[derive(Debug)]
pub struct RunPool {
    pub pool: Arc<Pool>,
    /// Whether it belongs to this run alone.
    own: bool,
}

impl RunPool {
    /// The shared pool of this process, or one for this run alone, of at most so many; and which backend was
    /// chosen and why.
    pub async fn open(
        clerk: &crate::Clerk,
        language: Language,
        spec: Spec,
        most: u32,
    ) -> Result<(RunPool, String), Failure> {
        let crate::Clerk { config, around, .. } = clerk;
        let ((pool, why), own) = match &clerk.backends {
            Some(backends) => {
                (backends.pool_for_run(config, around, language, &spec).await?, false)
            }
            None => (pool(config, around, language, spec, most).await?, true),
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

/// Sandboxes that wait, such as the settings ask for, at most so many; and which walls were taken and
/// why.
pub async fn pool(
    config: &Settings,
    around: &Environment,
    language: Language,
    spec: Spec,
    most: u32,
) -> Result<(Arc<Pool>, String), Failure> {
    let chosen = choose(config, around, &[language]).await?;
    chosen.backend.check(&spec)?;
    // Better now than after a model was asked.
    chosen.backend.interpreter(language)?;
    let why = format!("{} ({})", chosen.backend.isolation(), chosen.why);
    let manager = manager(config, around, chosen.backend).await?;
    let options = PoolOptions {
        size: config.sandbox.pool.min(most as usize),
        idle: *config.sandbox.pool_idle_seconds,
        ..PoolOptions::default()
    };
    Ok((Arc::new(manager.pool(spec, options)), why))
}

/// Makes a sandbox and runs something in it: nothing less shows that it can be done.
pub async fn attempt(
    config: &Settings,
    around: &Environment,
    backend: Arc<dyn Backend>,
    spec: Spec,
) -> Result<Duration, SandboxError> {
    let begun = Instant::now();
    let manager = open(config, around, backend).await?;
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

/// Memory of this machine, in kibibytes, by its name in the kernel's list.
pub(crate) fn memory(name: &str) -> Option<u64> {
    assize_sandbox::memory::meminfo(name).map(|bytes| bytes >> 10)
}

/// A path that the user typed, from where they are.
pub fn typed(around: &Environment, path: &Path) -> PathBuf {
    around.working_folder.join(path)
}
