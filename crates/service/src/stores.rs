//! Stores, by the settings: the SQLite file of this machine, or the cluster.

use std::path::PathBuf;
use std::sync::Arc;

use assize_cluster::{Member, patience};
use assize_config::{Environment, Settings};
use assize_run::{Store, StoreError};
use assize_store::{Access, Durability, SqliteStore};
use assize_types::Failure;
use assize_worker::status::Status;

use crate::Services;

/// Where the store is, by the settings.
pub fn path(config: &Settings, around: &Environment) -> PathBuf {
    match config.store.path.as_deref() {
        Some(path) => match path.strip_prefix("~/") {
            Some(rest) => around.home.join(rest),
            None => around.working_folder.join(path),
        },
        None => around.state_folder.join("store.db"),
    }
}

/// Opens the store to write, making it if need be.
pub async fn open(config: &Settings, around: &Environment) -> Result<Arc<dyn Store>, Failure> {
    let durability = match *config.store.durability {
        assize_config::Durability::PowerLoss => Durability::PowerLoss,
        assize_config::Durability::ProcessCrash => Durability::ProcessCrash,
    };
    open_with(config, around, durability).await
}

/// Opens the store to write what must outlive a power cut, whatever the settings say of the rest.
pub async fn open_safe(config: &Settings, around: &Environment) -> Result<Arc<dyn Store>, Failure> {
    open_with(config, around, Durability::PowerLoss).await
}

async fn open_with(
    config: &Settings,
    around: &Environment,
    durability: Durability,
) -> Result<Arc<dyn Store>, Failure> {
    config.refuse_withheld()?;
    if config.cluster.servers.is_some() {
        return Ok(Member::join(config, around, Some(patience(config))).await?.1);
    }
    Ok(Arc::new(SqliteStore::open(&path(config, around), Access::Write(durability))?))
}

/// Opens the store to read; `None` where nothing was ever kept.
pub async fn open_to_read(
    config: &Settings,
    around: &Environment,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    config.refuse_withheld()?;
    if config.cluster.servers.is_some() {
        return Ok(Some(Member::join(config, around, Some(patience(config))).await?.1));
    }
    let path = path(config, around);
    if !path.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    match SqliteStore::open(&path, Access::Read) {
        Ok(store) => Ok(Some(Arc::new(store))),
        Err(StoreError::Empty { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Services {
    /// Opens the store of a server, which waits for the servers of its cluster however long it takes.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open_server_store(&mut self) -> Result<Arc<dyn Store>, Failure> {
        let Services { settings, environment, .. } = &*self;
        if settings.cluster.servers.is_none() {
            return open_safe(settings, environment).await;
        }
        let (member, store) = Member::join(settings, environment, None).await?;
        self.join(member);
        Ok(store)
    }

    /// Opens the store to start runs in; in a cluster, workers execute them. `safe` says that what is written must
    /// outlive a power cut.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open_store(&mut self, safe: bool) -> Result<Arc<dyn Store>, Failure> {
        let Services { settings, environment, .. } = &*self;
        settings.refuse_withheld()?;
        if settings.cluster.servers.is_some() {
            let joined = Member::join(settings, environment, Some(patience(settings))).await?;
            let (member, store) = joined;
            self.join(member);
            return Ok(store);
        }
        if safe {
            open_safe(settings, environment).await
        } else {
            open(settings, environment).await
        }
    }
}

/// How the cluster of the settings is.
///
/// # Errors
/// When it does not answer.
pub async fn cluster_status(
    settings: &Settings,
    environment: &Environment,
) -> Result<Status, Failure> {
    let (member, store) = Member::join(settings, environment, Some(patience(settings))).await?;
    Status::of(&member, &*store).await
}
