//! Sandbox manager: creates sandboxes, finds named sandboxes of all processes of this user, and ends a sandbox when
//! its lifetime is over or the process that created it dies.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assize_config::Isolation;
use async_trait::async_trait;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::{Backend, SandboxIdentity};
use crate::error::SandboxError;
use crate::pool::{PoolCounters, PoolOptions, SandboxPool};
use crate::registry::{
    DeadOwner, SandboxKey, SandboxRecord, SandboxRegistry, ShortSocketPath, unix_seconds,
};
use crate::remote::{self, SandboxOwner};
use crate::sandbox::Sandbox;
use crate::spec::SandboxSpec;

/// Default lifetime of a named sandbox.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(3600);

/// Creates sandboxes with one backend. The identity of each sandbox contains the name of this process, so that another
/// process can clean up if this process dies.
#[derive(Debug)]
pub(crate) struct SandboxCreator {
    backend: Arc<dyn Backend>,
    registry: Arc<SandboxRegistry>,
    count: Arc<AtomicU64>,
}

impl SandboxCreator {
    pub(crate) async fn create(&self, spec: SandboxSpec) -> Result<Sandbox, SandboxError> {
        self.registry.note_use(self.backend.isolation())?;
        let id = self.next_id();
        self.make_as(&id, spec).await
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    fn next_id(&self) -> String {
        self.count.fetch_add(1, Ordering::Relaxed).to_string()
    }

    async fn make_as(&self, id: &str, spec: SandboxSpec) -> Result<Sandbox, SandboxError> {
        let identity =
            SandboxIdentity { creator: self.registry.creator().to_owned(), id: id.to_owned() };
        Sandbox::start(Arc::clone(&self.backend), &identity, spec).await
    }
}

/// Manager of the sandboxes of this user on this machine.
#[derive(Debug)]
pub struct SandboxManager {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    creator: Arc<SandboxCreator>,
    own: Mutex<HashMap<String, Owned>>,
}

/// Named sandbox that this process created: its registry record and its current state.
#[derive(Debug, Clone)]
struct Owned {
    record: SandboxRecord,
    ready: watch::Receiver<State>,
}

#[derive(Debug, Clone)]
enum State {
    Starting,
    Ready(Sandbox),
    Failed(SandboxError),
}

impl Shared {
    fn own(&self) -> MutexGuard<'_, HashMap<String, Owned>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn registry(&self) -> &SandboxRegistry {
        &self.creator.registry
    }

    fn forget(&self, id: &str) {
        self.own().remove(id);
        self.registry().forget(id);
    }
}

impl SandboxManager {
    /// Opens a manager: registers this process in the registry `folder` and cleans up after processes that died. The
    /// backends `others` are used only for this cleanup.
    pub async fn open(
        folder: PathBuf,
        backend: Arc<dyn Backend>,
        others: &[Arc<dyn Backend>],
    ) -> Result<SandboxManager, SandboxError> {
        let registry = Arc::new(SandboxRegistry::join(&folder)?);
        for gone in registry.claim_dead()? {
            clean_up(gone, &backend, others).await;
        }
        let maker =
            Arc::new(SandboxCreator { backend, registry, count: Arc::new(AtomicU64::new(1)) });
        let shared = Arc::new(Shared { creator: maker, own: Mutex::default() });
        Ok(SandboxManager { shared, tasks: TaskTracker::new(), stop: CancellationToken::new() })
    }

    pub fn isolation(&self) -> Isolation {
        self.shared.creator.backend.isolation()
    }

    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.creator.backend
    }

    /// Creates a sandbox without a name, which only the caller can use.
    pub async fn create(&self, spec: SandboxSpec) -> Result<Sandbox, SandboxError> {
        self.shared.creator.create(spec).await
    }

    #[cfg(test)]
    pub(crate) fn maker(&self) -> Arc<SandboxCreator> {
        Arc::clone(&self.shared.creator)
    }

    /// Starts a warm pool of sandboxes with this spec. The backend may reduce the size of the pool.
    pub fn pool(&self, spec: SandboxSpec, options: PoolOptions) -> SandboxPool {
        self.pool_with(spec, options, Arc::default())
    }

    /// Like [`SandboxManager::pool`], but several pools may count their hits, misses and refills together.
    pub(crate) fn pool_with(
        &self,
        spec: SandboxSpec,
        options: PoolOptions,
        counters: Arc<PoolCounters>,
    ) -> SandboxPool {
        let size = self.backend().pool_size(options.size);
        let (creator, options) =
            (Arc::clone(&self.shared.creator), PoolOptions { size, ..options });
        SandboxPool::start(creator, spec, options, counters)
    }

    /// Returns the sandbox with this name, or creates one if there is none.
    pub async fn create_if_not_exists(
        &self,
        key: &SandboxKey,
        spec: SandboxSpec,
    ) -> Result<Sandbox, SandboxError> {
        self.create_from(key, spec, None).await.map(|(sandbox, _)| sandbox)
    }

    /// Like [`SandboxManager::create_if_not_exists`], but uses an idle sandbox of the warm pool `pool` for a new name,
    /// if an idle sandbox matches the spec. The returned `bool` is `false` if a sandbox with this name existed already.
    pub async fn create_from(
        &self,
        key: &SandboxKey,
        spec: SandboxSpec,
        pool: Option<Arc<SandboxPool>>,
    ) -> Result<(Sandbox, bool), SandboxError> {
        if let Some(complaint) = spec.limits.validation_error() {
            return Err(SandboxError::Limits(complaint));
        }
        let Some((record, ready)) = self.reserve(key, &spec)? else {
            return match self.get(key).await? {
                Some(found) => Ok((found, false)),
                None => Err(SandboxError::SandboxFailed(
                    "the sandbox ended before it could be used".to_owned(),
                )),
            };
        };
        let own = Owned { record: record.clone(), ready: ready.subscribe() };
        let (shared, stop) = (Arc::clone(&self.shared), self.stop.clone());
        // A background task creates the sandbox, because the caller may cancel while other callers wait for it.
        self.tasks.spawn(async move {
            let made = match pool {
                Some(pool) => pool.take(&spec).await,
                None => shared.creator.make_as(&record.id, spec).await,
            };
            match made {
                Ok(sandbox) => {
                    let _ = ready.send(State::Ready(sandbox.clone()));
                    end_at_expiry(shared, record, sandbox, stop).await;
                }
                Err(error) => {
                    shared.forget(&record.id);
                    let _ = ready.send(State::Failed(error));
                }
            }
        });
        Ok((own.sandbox().await?, true))
    }

    /// Reserves a name in the registry. Returns `None` if a sandbox with this name and a matching spec exists already.
    fn reserve(
        &self,
        key: &SandboxKey,
        spec: &SandboxSpec,
    ) -> Result<Option<Reserved>, SandboxError> {
        let _lock = self.shared.registry().lock()?;
        let isolation = self.isolation();
        if let Some((found, _)) = self.find(key)? {
            let same = found.matches_request(spec, isolation);
            return if same { Ok(None) } else { Err(SandboxError::NameConflict(key.name.clone())) };
        }
        self.listen()?;
        self.shared.registry().note_use(isolation)?;
        let (created, lifetime) = (unix_seconds(), spec.time_to_live.unwrap_or(TIME_TO_LIVE));
        let record = SandboxRecord {
            key: key.clone(),
            id: self.shared.creator.next_id(),
            isolation,
            spec: spec.clone(),
            pid: std::process::id(),
            created,
            expires: created.saturating_add(lifetime.as_secs()),
        };
        let (ready, state) = watch::channel(State::Starting);
        let owned = Owned { record: record.clone(), ready: state };
        self.shared.own().insert(record.id.clone(), owned);
        if let Err(error) = self.shared.registry().record(&record) {
            self.shared.forget(&record.id);
            return Err(error);
        }
        Ok(Some((record, ready)))
    }

    /// Opens the socket through which other processes use the named sandboxes of this process. Does nothing if the
    /// socket is already open.
    fn listen(&self) -> Result<(), SandboxError> {
        let socket = self.shared.registry().socket_path();
        if socket.exists() {
            return Ok(());
        }
        let failed =
            |error| SandboxError::failed(format!("listening on `{}`", socket.display()), error);
        let short = ShortSocketPath::of(&socket).map_err(failed)?;
        let listener = UnixListener::bind(short.get()).map_err(failed)?;
        let (shared, stop, tasks) =
            (Arc::clone(&self.shared), self.stop.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            loop {
                let client = tokio::select! {
                    () = stop.cancelled() => return,
                    client = listener.accept() => client,
                };
                match client {
                    Ok((connection, _)) => {
                        let host = Arc::clone(&shared) as Arc<dyn SandboxOwner>;
                        tasks.spawn(remote::answer(host, connection, stop.clone()));
                    }
                    // This process has too many open descriptors. Retry after a pause, as some will be closed.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        });
        Ok(())
    }

    fn find(&self, key: &SandboxKey) -> Result<Option<(SandboxRecord, PathBuf)>, SandboxError> {
        Ok(self.shared.registry().records()?.into_iter().find(|(record, _)| record.key == *key))
    }

    /// Returns the sandbox with this name, created by this or another process; `None` if there is none.
    pub async fn get(&self, key: &SandboxKey) -> Result<Option<Sandbox>, SandboxError> {
        let Some((record, socket)) = self.find(key)? else { return Ok(None) };
        let own = self.shared.own().get(&record.id).cloned().filter(|own| own.record == record);
        let sandbox = match own {
            Some(own) => own.sandbox().await,
            None => Sandbox::connect(&socket, &record, Arc::clone(self.backend())).await,
        };
        sandbox.map(Some)
    }

    /// Returns the records of the named sandboxes that have all of these labels.
    pub fn list(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<SandboxRecord>, SandboxError> {
        let records = self.shared.registry().records()?.into_iter().map(|(record, _)| record);
        Ok(records.filter(|record| record.has_labels(labels)).collect())
    }

    /// Ends a sandbox and releases its name. Returns `false` if there is no sandbox with this name.
    pub async fn delete(&self, key: &SandboxKey) -> Result<bool, SandboxError> {
        let Some((record, socket)) = self.find(key)? else { return Ok(false) };
        let own = self.shared.own().get(&record.id).cloned().filter(|own| own.record == record);
        match own {
            Some(own) => self.shared.end(&own.record.id).await,
            None => remote::end(&socket, &record.id).await?,
        }
        Ok(true)
    }

    /// Waits until all named sandboxes of this process have ended.
    pub async fn until_empty(&self) {
        loop {
            let next = self.shared.own().values().next().cloned();
            let Some(own) = next else { return };
            match own.sandbox().await {
                Ok(sandbox) => sandbox.ended().await,
                Err(_) => tokio::task::yield_now().await,
            }
            self.shared.forget(&own.record.id);
        }
    }

    /// Ends all named sandboxes of this process and stops the background tasks.
    pub async fn close(&self) {
        let ids: Vec<String> = self.shared.own().keys().cloned().collect();
        for id in ids {
            self.shared.end(&id).await;
        }
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for SandboxManager {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The record of a reserved name, and the channel that publishes the state of its sandbox.
type Reserved = (SandboxRecord, watch::Sender<State>);

impl Owned {
    /// Waits until the sandbox is ready, or its creation has failed.
    async fn sandbox(&self) -> Result<Sandbox, SandboxError> {
        let mut ready = self.ready.clone();
        match ready.wait_for(|state| !matches!(state, State::Starting)).await.as_deref() {
            Ok(State::Ready(sandbox)) => Ok(sandbox.clone()),
            Ok(State::Failed(error)) => Err(error.clone()),
            Ok(State::Starting) | Err(_) => Err(SandboxError::SandboxFailed(
                "the creation of the sandbox was interrupted".to_owned(),
            )),
        }
    }
}

#[async_trait]
impl SandboxOwner for Shared {
    async fn sandbox(&self, id: &str) -> Option<Sandbox> {
        let own = self.own().get(id).cloned()?;
        own.sandbox().await.ok()
    }

    async fn end(&self, id: &str) {
        if let Some(sandbox) = self.sandbox(id).await {
            sandbox.end().await;
        }
        self.forget(id);
    }
}

/// Time limit for one backend's cleanup after a dead process. After a timeout, the next process retries the cleanup.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Removes the sandboxes and the registry folder of a dead process, if all backends that the process used are
/// available.
async fn clean_up(gone: DeadOwner, backend: &Arc<dyn Backend>, others: &[Arc<dyn Backend>]) {
    for isolation in Isolation::ALL.into_iter().filter(|isolation| gone.used(*isolation)) {
        let mut known = others.iter().chain([backend]);
        let Some(backend) = known.find(|backend| backend.isolation() == isolation) else {
            return gone.unlock();
        };
        let cleaned = tokio::time::timeout(CLEANUP_TIMEOUT, backend.clean_up(&gone.creator)).await;
        let error = match cleaned {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the {isolation} backend timed out"),
        };
        tracing::warn!(error, maker = gone.creator, "cannot clean up after a dead process");
        return gone.unlock();
    }
    if let Err(error) = gone.forget() {
        tracing::warn!(%error, "cannot remove the registry folder of a dead process");
    }
}

/// Waits until a sandbox has ended or its lifetime is over. Then ends the sandbox and removes its registry record.
async fn end_at_expiry(
    shared: Arc<Shared>,
    record: SandboxRecord,
    sandbox: Sandbox,
    stop: CancellationToken,
) {
    let left = record.expires.saturating_sub(unix_seconds());
    tokio::select! {
        () = stop.cancelled() => return,
        () = sandbox.ended() => {}
        () = tokio::time::sleep(Duration::from_secs(left)) => {
            tracing::info!(name = record.key.name, "ending a sandbox whose lifetime is over");
        }
    }
    sandbox.end().await;
    shared.forget(&record.id);
}
