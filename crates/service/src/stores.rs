//! Stores, by the settings: the SQLite file of this machine, or the cluster.

use std::path::PathBuf;
use std::sync::Arc;

use assize_cluster::{Member, patience};
use assize_run::{Store, StoreError};
use assize_store::{Access, Durability, SqliteStore};
use assize_types::Failure;
use assize_worker::status::Status;

use crate::Services;

impl Services {
    /// Path of the SQLite store, by the settings.
    pub fn store_path(&self) -> PathBuf {
        let environment = &self.environment;
        match self.settings.store.path.as_deref() {
            Some(path) => match path.strip_prefix("~/") {
                Some(rest) => environment.home.join(rest),
                None => environment.working_folder.join(path),
            },
            None => environment.state_folder.join("store.db"),
        }
    }

    /// Opens the store to write, and creates it if need be; in a cluster, workers execute the runs in it. `safe` says
    /// that what is written must outlive a power cut, whatever the settings say of the rest.
    pub async fn open_store(&mut self, safe: bool) -> Result<Arc<dyn Store>, Failure> {
        self.settings.refuse_withheld()?;
        if self.settings.cluster.servers.is_some() {
            let (member, store) = self.join_with_patience().await?;
            self.join(member);
            return Ok(store);
        }
        let durability = match *self.settings.store.durability {
            assize_config::Durability::ProcessCrash if !safe => Durability::ProcessCrash,
            _ => Durability::PowerLoss,
        };
        Ok(Arc::new(SqliteStore::open(&self.store_path(), Access::Write(durability))?))
    }

    /// Opens the store of a server, which waits for the servers of its cluster however long it takes.
    pub async fn open_server_store(&mut self) -> Result<Arc<dyn Store>, Failure> {
        if self.settings.cluster.servers.is_none() {
            return self.open_store(true).await;
        }
        let (member, store) = Member::join(&self.settings, &self.environment, None).await?;
        self.join(member);
        Ok(store)
    }

    /// Opens the store to read; `None` where nothing was ever kept.
    pub async fn open_store_to_read(&self) -> Result<Option<Arc<dyn Store>>, Failure> {
        self.settings.refuse_withheld()?;
        if self.settings.cluster.servers.is_some() {
            return Ok(Some(self.join_with_patience().await?.1));
        }
        let path = self.store_path();
        if !path.try_exists().unwrap_or(true) {
            return Ok(None);
        }
        match SqliteStore::open(&path, Access::Read) {
            Ok(store) => Ok(Some(Arc::new(store))),
            Err(StoreError::Empty { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// State of the cluster that the settings name.
    pub async fn cluster_status(&self) -> Result<Status, Failure> {
        let (member, store) = self.join_with_patience().await?;
        Status::of(&member, &*store).await
    }

    async fn join_with_patience(&self) -> Result<(Arc<Member>, Arc<dyn Store>), Failure> {
        let Services { settings, environment, .. } = self;
        Member::join(settings, environment, Some(patience(settings))).await
    }
}
