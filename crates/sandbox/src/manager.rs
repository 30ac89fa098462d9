//! The manager: makes sandboxes, knows those that have a name, whoever made them, and sees to it that
//! none outlives its time or its maker.

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

use crate::backend::{Backend, Identity};
use crate::error::SandboxError;
use crate::pool::{Pool, PoolCounters, PoolOptions};
use crate::registry::{Gone, Key, Record, Registry, ShortPath, unix_seconds};
use crate::sandbox::Sandbox;
use crate::spec::Spec;
use crate::visit::{self, Host};

/// How long a named sandbox lives if its spec does not say.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(3600);

/// Makes sandboxes in one backend, in the name of this process.
#[derive(Debug)]
pub(crate) struct Maker {
    backend: Arc<dyn Backend>,
    registry: Arc<Registry>,
    count: Arc<AtomicU64>,
}

impl Maker {
    pub(crate) async fn make(&self, spec: Spec) -> Result<Sandbox, SandboxError> {
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

    async fn make_as(&self, id: &str, spec: Spec) -> Result<Sandbox, SandboxError> {
        let identity = Identity { maker: self.registry.maker().to_owned(), id: id.to_owned() };
        Sandbox::start(Arc::clone(&self.backend), &identity, spec).await
    }
}

/// The sandboxes of this machine, as this process sees them.
#[derive(Debug)]
pub struct Manager {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    maker: Arc<Maker>,
    own: Mutex<HashMap<String, Owned>>,
}

/// A named sandbox of this process: what it is, and itself once it is ready.
#[derive(Debug, Clone)]
struct Owned {
    record: Record,
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

    fn registry(&self) -> &Registry {
        &self.maker.registry
    }

    fn forget(&self, id: &str) {
        self.own().remove(id);
        self.registry().forget(id);
    }
}

impl Manager {
    /// Joins the makers of this machine, whose folder is `folder`, and cleans up after those who are
    /// gone. `others` are backends that only have to be cleaned up.
    pub async fn open(
        folder: PathBuf,
        backend: Arc<dyn Backend>,
        others: &[Arc<dyn Backend>],
    ) -> Result<Manager, SandboxError> {
        let registry = Arc::new(Registry::join(&folder)?);
        for gone in registry.gone()? {
            clean_up(gone, &backend, others).await;
        }
        let maker = Arc::new(Maker { backend, registry, count: Arc::new(AtomicU64::new(1)) });
        let shared = Arc::new(Shared { maker, own: Mutex::default() });
        Ok(Manager { shared, tasks: TaskTracker::new(), stop: CancellationToken::new() })
    }

    pub fn isolation(&self) -> Isolation {
        self.shared.maker.backend.isolation()
    }

    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.maker.backend
    }

    /// A sandbox without a name, for whoever makes it alone.
    pub async fn make(&self, spec: Spec) -> Result<Sandbox, SandboxError> {
        self.shared.maker.make(spec).await
    }

    #[cfg(test)]
    pub(crate) fn maker(&self) -> Arc<Maker> {
        Arc::clone(&self.shared.maker)
    }

    /// Sandboxes of this kind that wait to be used.
    pub fn pool(&self, spec: Spec, options: PoolOptions) -> Pool {
        self.pool_with(spec, options, Arc::default())
    }

    /// The same, with counters that several pools share.
    pub(crate) fn pool_with(
        &self,
        spec: Spec,
        options: PoolOptions,
        counters: Arc<PoolCounters>,
    ) -> Pool {
        Pool::start(Arc::clone(&self.shared.maker), spec, options, counters)
    }

    /// The sandbox of this name, made now if there is none.
    pub async fn create_if_not_exists(
        &self,
        key: &Key,
        spec: Spec,
    ) -> Result<Sandbox, SandboxError> {
        self.create_from(key, spec, None).await
    }

    /// The same, with an idle sandbox of a pool where it fits.
    pub async fn create_from(
        &self,
        key: &Key,
        spec: Spec,
        pool: Option<Arc<Pool>>,
    ) -> Result<Sandbox, SandboxError> {
        if let Some(complaint) = spec.limits.complaint() {
            return Err(SandboxError::Limits(complaint));
        }
        let Some((record, ready)) = self.reserve(key, &spec)? else {
            return match self.get(key).await? {
                Some(found) => Ok(found),
                None => Err(SandboxError::Broke("it went as we were about to use it".to_owned())),
            };
        };
        let own = Owned { record: record.clone(), ready: ready.subscribe() };
        let (shared, stop) = (Arc::clone(&self.shared), self.stop.clone());
        // Whoever asked may go away; others may be waiting for the same by then.
        self.tasks.spawn(async move {
            let made = match pool {
                Some(pool) => pool.take(&spec).await,
                None => shared.maker.make_as(&record.id, spec).await,
            };
            match made {
                Ok(sandbox) => {
                    let _ = ready.send(State::Ready(sandbox.clone()));
                    look_after(shared, record, sandbox, stop).await;
                }
                Err(error) => {
                    shared.forget(&record.id);
                    let _ = ready.send(State::Failed(error));
                }
            }
        });
        own.sandbox().await
    }

    /// Takes the name, unless somebody has it.
    fn reserve(&self, key: &Key, spec: &Spec) -> Result<Option<Reserved>, SandboxError> {
        let _held = self.shared.registry().hold()?;
        let isolation = self.isolation();
        if let Some((found, _)) = self.find(key)? {
            let same = found.is(spec, isolation);
            return if same { Ok(None) } else { Err(SandboxError::Different(key.name.clone())) };
        }
        self.open_door()?;
        self.shared.registry().note_use(isolation)?;
        let (made, lives) = (unix_seconds(), spec.time_to_live.unwrap_or(TIME_TO_LIVE));
        let record = Record {
            key: key.clone(),
            id: self.shared.maker.next_id(),
            isolation,
            spec: spec.clone(),
            pid: std::process::id(),
            made,
            expires: made.saturating_add(lives.as_secs()),
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

    /// Lets other processes reach our sandboxes, from the first one that has a name.
    fn open_door(&self) -> Result<(), SandboxError> {
        let door = self.shared.registry().door();
        if door.exists() {
            return Ok(());
        }
        let failed = |error| SandboxError::failed(format!("opening `{}`", door.display()), error);
        let short = ShortPath::of(&door).map_err(failed)?;
        let listener = UnixListener::bind(short.get()).map_err(failed)?;
        let (shared, stop, tasks) =
            (Arc::clone(&self.shared), self.stop.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            loop {
                let visitor = tokio::select! {
                    () = stop.cancelled() => return,
                    visitor = listener.accept() => visitor,
                };
                match visitor {
                    Ok((connection, _)) => {
                        let host = Arc::clone(&shared) as Arc<dyn Host>;
                        tasks.spawn(visit::answer(host, connection, stop.clone()));
                    }
                    // Too many descriptors are open; some will close.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        });
        Ok(())
    }

    fn find(&self, key: &Key) -> Result<Option<(Record, PathBuf)>, SandboxError> {
        Ok(self.shared.registry().records()?.into_iter().find(|(record, _)| record.key == *key))
    }

    /// The sandbox of this name, whoever made it.
    pub async fn get(&self, key: &Key) -> Result<Option<Sandbox>, SandboxError> {
        let Some((record, door)) = self.find(key)? else { return Ok(None) };
        let own = self.shared.own().get(&record.id).cloned().filter(|own| own.record == record);
        let sandbox = match own {
            Some(own) => own.sandbox().await,
            None => Sandbox::visit(&door, &record, Arc::clone(self.backend())).await,
        };
        sandbox.map(Some)
    }

    /// The named sandboxes that have all these labels.
    pub fn list(&self, labels: &BTreeMap<String, String>) -> Result<Vec<Record>, SandboxError> {
        let records = self.shared.registry().records()?.into_iter().map(|(record, _)| record);
        Ok(records.filter(|record| record.has_labels(labels)).collect())
    }

    /// Ends a sandbox and forgets its name. `false` if there was none.
    pub async fn delete(&self, key: &Key) -> Result<bool, SandboxError> {
        let Some((record, door)) = self.find(key)? else { return Ok(false) };
        let own = self.shared.own().get(&record.id).cloned().filter(|own| own.record == record);
        match own {
            Some(own) => self.shared.end(&own.record.id).await,
            None => visit::end(&door, &record.id).await?,
        }
        Ok(true)
    }

    /// Waits until none of our named sandboxes is left.
    pub async fn until_empty(&self) {
        loop {
            let next = self.shared.own().values().next().cloned();
            let Some(own) = next else { return };
            match own.sandbox().await {
                Ok(sandbox) => sandbox.gone().await,
                Err(_) => tokio::task::yield_now().await,
            }
            self.shared.forget(&own.record.id);
        }
    }

    /// Ends every sandbox of ours.
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

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A name that is ours now, and where to say what became of it.
type Reserved = (Record, watch::Sender<State>);

impl Owned {
    /// Waits until it is ready.
    async fn sandbox(&self) -> Result<Sandbox, SandboxError> {
        let mut ready = self.ready.clone();
        match ready.wait_for(|state| !matches!(state, State::Starting)).await.as_deref() {
            Ok(State::Ready(sandbox)) => Ok(sandbox.clone()),
            Ok(State::Failed(error)) => Err(error.clone()),
            Ok(State::Starting) | Err(_) => {
                Err(SandboxError::Broke("it was never made".to_owned()))
            }
        }
    }
}

#[async_trait]
impl Host for Shared {
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

/// How long a backend may take to clean up after somebody else; what is left is the next one's.
const CLEANING: Duration = Duration::from_secs(10);

/// Removes what a maker left, if all the backends that it used are at hand.
async fn clean_up(gone: Gone, backend: &Arc<dyn Backend>, others: &[Arc<dyn Backend>]) {
    for isolation in Isolation::ALL.into_iter().filter(|isolation| gone.used(*isolation)) {
        let mut known = others.iter().chain([backend]);
        let Some(backend) = known.find(|backend| backend.isolation() == isolation) else {
            return gone.leave();
        };
        let cleaned = tokio::time::timeout(CLEANING, backend.clean_up(&gone.maker)).await;
        let error = match cleaned {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("{isolation} takes too long"),
        };
        tracing::warn!(error, maker = gone.maker, "what a maker left cannot be removed yet");
        return gone.leave();
    }
    if let Err(error) = gone.forget() {
        tracing::warn!(%error, "the folder of a maker that is gone cannot be removed");
    }
}

/// Ends a sandbox when its time is up, and forgets it when it is gone.
async fn look_after(
    shared: Arc<Shared>,
    record: Record,
    sandbox: Sandbox,
    stop: CancellationToken,
) {
    let left = record.expires.saturating_sub(unix_seconds());
    tokio::select! {
        () = stop.cancelled() => return,
        () = sandbox.gone() => {}
        () = tokio::time::sleep(Duration::from_secs(left)) => {
            tracing::info!(name = record.key.name, "the time of a sandbox is up");
        }
    }
    sandbox.end().await;
    shared.forget(&record.id);
}
