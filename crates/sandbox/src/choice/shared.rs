//! Backends and warm pools shared by all runs and requests of a server or worker, so that each backend is selected
//! once and idle sandboxes are ready for requests.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use assize_config::{InterpreterSettings, Isolation};
use assize_types::Failure;
use tokio::sync::OnceCell;

use super::{SandboxFactory, SelectedBackend, check_spec};
use crate::{
    Language, PoolMetrics, PoolOptions, Sandbox, SandboxManager, SandboxPool, SandboxSpec,
    WarmPools,
};

/// Bytes of memory that warm pools leave free for running programs and for other processes of this machine.
const MEMORY_RESERVE: u64 = 512 << 20;

/// Settings that a backend depends on: the interpreters and the Docker host.
type BackendSettings = [Option<String>; 4];

/// Key of a selected backend: the requested isolation and the settings that a backend depends on.
type Request = (String, BackendSettings);

/// Cache of values that are slow to create. Each value is created once. While a value is created, only callers that
/// need this value wait. Failures are not cached.
#[derive(Debug)]
struct OnceMap<K, V>(Mutex<HashMap<K, Arc<OnceCell<V>>>>);

impl<K: Eq + Hash, V: Clone> OnceMap<K, V> {
    fn new() -> OnceMap<K, V> {
        OnceMap(Mutex::default())
    }

    fn cell(&self, key: K) -> Arc<OnceCell<V>> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry(key).or_default().clone()
    }

    /// All values created so far.
    fn values(&self) -> Vec<V> {
        let cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.values().filter_map(|cell| cell.get().cloned()).collect()
    }
}

/// Backends and warm pools of a long-running process.
#[derive(Debug)]
pub struct SharedBackends {
    pools: WarmPools,
    chosen: OnceMap<Request, Arc<SharedBackend>>,
    /// Managers by backend. Requests that select the same backend share one manager.
    managers: OnceMap<(Isolation, BackendSettings), Arc<SandboxManager>>,
}

/// A selected backend, and why it was selected.
#[derive(Debug)]
pub struct SharedBackend {
    pub manager: Arc<SandboxManager>,
    pub why: String,
}

impl SharedBackend {
    /// Describes the selected isolation and why it was selected, for users.
    pub fn description(&self) -> String {
        format!("{} ({})", self.manager.isolation(), self.why)
    }
}

impl SharedBackends {
    /// Creates shared backends. Their warm pools have the configured size and idle timeout, but at most `most` idle
    /// sandboxes each.
    pub fn new(sandboxes: &SandboxFactory, most: usize) -> Result<SharedBackends, Failure> {
        let options = PoolOptions {
            size: most.min(*sandboxes.settings.sandbox.pool),
            idle: *sandboxes.settings.sandbox.pool_idle_seconds,
            memory_reserve: MEMORY_RESERVE,
        };
        let pools = WarmPools::new(sandboxes.spec(None)?, options);
        Ok(SharedBackends { pools, chosen: OnceMap::new(), managers: OnceMap::new() })
    }

    /// Returns the configured backend, which is selected on first use.
    pub async fn get(&self, sandboxes: &SandboxFactory) -> Result<Arc<SharedBackend>, Failure> {
        let settings = &sandboxes.settings;
        settings.reject_untrusted_values()?;
        let wanted = settings.sandbox.isolation.to_string();
        let InterpreterSettings { python, bash, node } = &settings.interpreters;
        let made_of = [python, bash, node, &settings.docker.host].map(|value| (**value).clone());
        let choose = || async {
            let SelectedBackend { backend, why, .. } = sandboxes.choose(&Language::ALL).await?;
            let manager = self.managers.cell((backend.isolation(), made_of.clone()));
            let open = || async { sandboxes.manager(backend).await.map(Arc::new) };
            let manager = manager.get_or_try_init(open).await?.clone();
            Ok::<_, Failure>(Arc::new(SharedBackend { manager, why }))
        };
        let chosen = self.chosen.cell((wanted, made_of.clone()));
        chosen.get_or_try_init(choose).await.cloned()
    }

    /// Opens the warm pool of the configured backend early, so that idle sandboxes are ready for the first request.
    pub async fn start(&self, sandboxes: &SandboxFactory) -> Result<(), Failure> {
        let backend = self.get(sandboxes).await?;
        self.pools.start(&backend.manager);
        Ok(())
    }

    /// Returns the warm pool for a run, and a description of its backend.
    pub async fn pool_for_run(
        &self,
        sandboxes: &SandboxFactory,
        language: Language,
        spec: &SandboxSpec,
    ) -> Result<(Arc<SandboxPool>, String), Failure> {
        let backend = self.get(sandboxes).await?;
        check_spec(&**backend.manager.backend(), language, spec)?;
        Ok((self.pools.for_run(&backend.manager, spec), backend.description()))
    }

    /// Takes a sandbox from a warm pool, or creates one, for one request. Also returns the reason why its backend was
    /// selected.
    pub async fn take(
        &self,
        sandboxes: &SandboxFactory,
        spec: &SandboxSpec,
    ) -> Result<(Sandbox, String), Failure> {
        let backend = self.get(sandboxes).await?;
        let sandbox = self.pools.take(&backend.manager, spec).await?;
        Ok((sandbox, backend.why.clone()))
    }

    /// Ends a used sandbox in the background.
    pub fn discard(&self, sandbox: Sandbox) {
        self.pools.discard(sandbox);
    }

    /// The warm pools of all backends.
    pub fn pools(&self) -> &WarmPools {
        &self.pools
    }

    pub fn metrics(&self) -> Vec<(Isolation, PoolMetrics)> {
        self.pools.metrics().into_iter().collect()
    }

    /// Ends all sandboxes of this process.
    pub async fn close(&self) {
        self.pools.close().await;
        for manager in self.managers.values() {
            manager.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use assize_config::{Environment, SettingKey, Settings};

    use super::*;

    /// The test uses a Docker engine that accepts connections and never responds, so that selecting Docker blocks.
    #[tokio::test(flavor = "multi_thread")]
    async fn slow_backend_selection_does_not_block_other_backends_and_failures_are_not_cached() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::in_folder(
            folder.path(),
            [("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())].into(),
        );
        let socket = folder.path().join("docker.sock");
        let config = Settings::load(&environment, &[]).unwrap();
        let with = |isolation: &str| {
            let host = format!("unix://{}", socket.display());
            let set = [
                (SettingKey::SandboxIsolation, isolation.to_owned()),
                (SettingKey::DockerHost, host),
            ];
            SandboxFactory::new(&config.with_request(&set).unwrap(), &environment)
        };
        let (docker, jail) = (with("docker"), with("jail"));
        let sandboxes = SandboxFactory::new(&config, &environment);
        let backends = Arc::new(SharedBackends::new(&sandboxes, 0).unwrap());
        let choose_docker = || {
            let (backends, docker) = (backends.clone(), docker.clone());
            tokio::spawn(async move { backends.get(&docker).await.map(drop) })
        };
        assert!(choose_docker().await.unwrap().is_err(), "Docker was selected without an engine");
        let listener = UnixListener::bind(&socket).unwrap();
        let blocked = choose_docker();
        let connection = tokio::task::spawn_blocking(move || listener.accept()).await.unwrap();
        let chosen = backends.get(&jail).await.unwrap();
        assert_eq!(chosen.manager.isolation(), Isolation::Jail);
        assert!(!blocked.is_finished(), "the selection of the jail waited for Docker");
        let again = backends.get(&jail).await.unwrap();
        assert!(Arc::ptr_eq(&chosen, &again), "the jail backend was selected twice");
        let at_least = backends.get(&with("at-least=jail")).await.unwrap();
        assert!(
            Arc::ptr_eq(&chosen.manager, &at_least.manager),
            "the jail backend was opened twice"
        );
        drop(connection);
        blocked.abort();
        backends.close().await;
    }
}
