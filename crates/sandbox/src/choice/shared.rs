//! Backends that a server or a worker has chosen, with their warm pools: shared by all runs and requests of the
//! process, so that a choice is made once and a sandbox is idle when a request comes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use assize_config::{InterpreterSettings, Isolation};
use assize_types::Failure;
use tokio::sync::OnceCell;

use super::{Chosen, Sandboxes};
use crate::{Language, Manager, Pool, PoolMetrics, PoolOptions, Sandbox, Spec, WarmPools};

/// Memory that warm pools leave to programs and to the rest of the machine.
const MEMORY_RESERVE: u64 = 512 << 20;

/// Settings that decide what a backend is made of: the interpreters and the host of Docker.
type BackendSettings = [Option<String>; 4];

/// The isolation that is asked for, with the settings.
type Request = (String, BackendSettings);

/// Values that take time to make, each made once. While one is made, only requests for that one wait; a failure is
/// not kept.
#[derive(Debug)]
struct Once<K, V>(Mutex<HashMap<K, Arc<OnceCell<V>>>>);

impl<K: Eq + Hash, V: Clone> Once<K, V> {
    fn new() -> Once<K, V> {
        Once(Mutex::default())
    }

    fn cell(&self, key: K) -> Arc<OnceCell<V>> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry(key).or_default().clone()
    }

    /// The values that were made.
    fn values(&self) -> Vec<V> {
        let cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.values().filter_map(|cell| cell.get().cloned()).collect()
    }
}

/// Backends and warm pools of a long-running process.
#[derive(Debug)]
pub struct SharedBackends {
    pools: WarmPools,
    chosen: Once<Request, Arc<SharedBackend>>,
    /// Choices of the same backend share one manager.
    managers: Once<(Isolation, BackendSettings), Arc<Manager>>,
}

/// A backend that was chosen, and why.
#[derive(Debug)]
pub struct SharedBackend {
    pub manager: Arc<Manager>,
    pub why: String,
}

impl SharedBackend {
    /// Which isolation, and why that one.
    pub fn description(&self) -> String {
        format!("{} ({})", self.manager.isolation(), self.why)
    }
}

impl SharedBackends {
    /// Pools as the settings ask for; at most `most` idle sandboxes in each.
    pub fn new(sandboxes: &Sandboxes, most: usize) -> Result<SharedBackends, Failure> {
        let options = PoolOptions {
            size: most.min(*sandboxes.settings.sandbox.pool),
            idle: *sandboxes.settings.sandbox.pool_idle_seconds,
            memory_reserve: MEMORY_RESERVE,
        };
        let pools = WarmPools::new(sandboxes.spec(None)?, options);
        Ok(SharedBackends { pools, chosen: Once::new(), managers: Once::new() })
    }

    /// The backend that the settings ask for.
    pub async fn get(&self, sandboxes: &Sandboxes) -> Result<Arc<SharedBackend>, Failure> {
        let settings = &sandboxes.settings;
        settings.refuse_withheld()?;
        let wanted = settings.sandbox.isolation.to_string();
        let InterpreterSettings { python, bash, node } = &settings.interpreters;
        let made_of = [python, bash, node, &settings.docker.host].map(|value| (**value).clone());
        let choose = || async {
            let Chosen { backend, why, .. } = sandboxes.choose(&Language::ALL).await?;
            let manager = self.managers.cell((backend.isolation(), made_of.clone()));
            let open = || async { sandboxes.manager(backend).await.map(Arc::new) };
            let manager = manager.get_or_try_init(open).await?.clone();
            Ok::<_, Failure>(Arc::new(SharedBackend { manager, why }))
        };
        let chosen = self.chosen.cell((wanted, made_of.clone()));
        chosen.get_or_try_init(choose).await.cloned()
    }

    /// Fills the pool of the default backend before the first request.
    pub async fn start(&self, sandboxes: &Sandboxes) -> Result<(), Failure> {
        let backend = self.get(sandboxes).await?;
        self.pools.start(&backend.manager);
        Ok(())
    }

    /// The pool for a run, and which backend it is of.
    pub async fn pool_for_run(
        &self,
        sandboxes: &Sandboxes,
        language: Language,
        spec: &Spec,
    ) -> Result<(Arc<Pool>, String), Failure> {
        let backend = self.get(sandboxes).await?;
        backend.manager.backend().check(spec)?;
        backend.manager.backend().interpreter(language)?;
        Ok((self.pools.for_run(&backend.manager, spec), backend.description()))
    }

    /// A sandbox for one request, and why it is of that backend.
    pub async fn take(
        &self,
        sandboxes: &Sandboxes,
        spec: &Spec,
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

    /// A Docker engine that takes connections and never answers keeps the choice of Docker waiting.
    #[tokio::test(flavor = "multi_thread")]
    async fn slow_choice_delays_no_other_and_a_failure_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let around = Environment::in_folder(
            folder.path(),
            [("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())].into(),
        );
        let socket = folder.path().join("docker.sock");
        let config = Settings::load(&around, &[]).unwrap();
        let with = |isolation: &str| {
            let host = format!("unix://{}", socket.display());
            let set = [
                (SettingKey::SandboxIsolation, isolation.to_owned()),
                (SettingKey::DockerHost, host),
            ];
            Sandboxes::new(&config.with_request(&set).unwrap(), &around)
        };
        let (docker, jail) = (with("docker"), with("jail"));
        let backends = Arc::new(SharedBackends::new(&Sandboxes::new(&config, &around), 0).unwrap());
        let choose_docker = || {
            let (backends, docker) = (backends.clone(), docker.clone());
            tokio::spawn(async move { backends.get(&docker).await.map(drop) })
        };
        assert!(choose_docker().await.unwrap().is_err(), "no engine is there yet");
        let listener = UnixListener::bind(&socket).unwrap();
        let waiting = choose_docker();
        let connection = tokio::task::spawn_blocking(move || listener.accept()).await.unwrap();
        let chosen = backends.get(&jail).await.unwrap();
        assert_eq!(chosen.manager.isolation(), Isolation::Jail);
        assert!(!waiting.is_finished(), "the jail was chosen after Docker");
        let again = backends.get(&jail).await.unwrap();
        assert!(Arc::ptr_eq(&chosen, &again), "a choice was repeated");
        let at_least = backends.get(&with("at-least=jail")).await.unwrap();
        assert!(Arc::ptr_eq(&chosen.manager, &at_least.manager), "a backend was opened twice");
        drop(connection);
        waiting.abort();
        backends.close().await;
    }
}
