//! Backends that a server or a worker has chosen, with their warm pools: shared by all runs and requests of the
//! process, so that a choice is made once and a sandbox is idle when a request comes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use assize_sandbox::{
    Isolation, Language, Manager, Pool, PoolMetrics, Sandbox, Spec, WarmPoolOptions, WarmPools,
};
use tokio::sync::Mutex;

use crate::config::{Config, Surroundings};
use crate::failure::Failure;
use crate::walls;

/// Memory that warm pools leave to programs and to the rest of the machine.
const MEMORY_RESERVE: u64 = 512 << 20;

/// Settings that decide what a backend is made of.
const SETTINGS: [&str; 4] = ["sandbox.python", "sandbox.bash", "sandbox.node", "docker.host"];

/// The isolation that is asked for, with the values of [`SETTINGS`].
type Request = (String, Vec<Option<String>>);

/// Backends and warm pools of a long-running process.
#[derive(Debug)]
pub struct Backends {
    pools: WarmPools,
    chosen: Mutex<HashMap<Request, Arc<SharedBackend>>>,
}

/// A backend that was chosen, and why.
#[derive(Debug)]
pub struct SharedBackend {
    pub manager: Arc<Manager>,
    pub why: String,
    request: Request,
}

impl SharedBackend {
    /// Which isolation, and why that one.
    pub fn description(&self) -> String {
        format!("{} ({})", self.manager.isolation(), self.why)
    }
}

impl Backends {
    /// Pools as the settings ask for; at most `most` idle sandboxes in each.
    ///
    /// # Errors
    /// When the limits of the settings are invalid.
    pub fn new(config: &Config, most: usize) -> Result<Backends, Failure> {
        let size = config.whole("sandbox.pool").and_then(|size| usize::try_from(size).ok());
        let idle = config.whole("sandbox.pool_idle_seconds").map(Duration::from_secs);
        let pools = WarmPools::new(WarmPoolOptions {
            spec: walls::spec(None, config)?,
            size: size.unwrap_or_default().min(most),
            idle: idle.unwrap_or(Duration::from_secs(300)),
            memory_reserve: MEMORY_RESERVE,
        });
        Ok(Backends { pools, chosen: Mutex::default() })
    }

    /// The backend that the settings ask for.
    ///
    /// # Errors
    /// When there is none to be had.
    pub async fn get(
        &self,
        config: &Config,
        around: &Surroundings,
    ) -> Result<Arc<SharedBackend>, Failure> {
        config.refuse_withheld()?;
        let wanted = walls::wanted(config)?.to_string();
        let settings = SETTINGS.iter().map(|key| config.text(key).map(str::to_owned)).collect();
        let request: Request = (wanted, settings);
        let mut chosen = self.chosen.lock().await;
        if let Some(backend) = chosen.get(&request) {
            return Ok(backend.clone());
        }
        let walls::Chosen { backend, why, .. } =
            walls::choose(config, around, &Language::ALL).await?;
        let same = |one: &&Arc<SharedBackend>| {
            one.manager.isolation() == backend.isolation() && one.request.1 == request.1
        };
        let manager = match chosen.values().find(same) {
            Some(known) => known.manager.clone(),
            None => Arc::new(walls::manager(config, around, backend).await?),
        };
        let backend = Arc::new(SharedBackend { manager, why, request: request.clone() });
        chosen.insert(request, backend.clone());
        Ok(backend)
    }

    /// Fills the pool of the default backend before the first request.
    ///
    /// # Errors
    /// When there is no backend.
    pub async fn start(&self, config: &Config, around: &Surroundings) -> Result<(), Failure> {
        let backend = self.get(config, around).await?;
        self.pools.start(&backend.manager);
        Ok(())
    }

    /// The pool for a run, and which backend it is of.
    ///
    /// # Errors
    /// When there is no backend, or it cannot make such sandboxes.
    pub async fn pool_for_run(
        &self,
        config: &Config,
        around: &Surroundings,
        language: Language,
        spec: &Spec,
    ) -> Result<(Arc<Pool>, String), Failure> {
        let backend = self.get(config, around).await?;
        backend.manager.backend().check(spec)?;
        backend.manager.backend().interpreter(language)?;
        Ok((self.pools.for_run(&backend.manager, spec), backend.description()))
    }

    /// A sandbox for one request, and which backend it is of.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn take(
        &self,
        config: &Config,
        around: &Surroundings,
        spec: &Spec,
    ) -> Result<(Sandbox, String), Failure> {
        let backend = self.get(config, around).await?;
        let sandbox = self.pools.take(&backend.manager, spec).await?;
        Ok((sandbox, backend.description()))
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
        for backend in self.chosen.lock().await.values() {
            backend.manager.close().await;
        }
    }
}
