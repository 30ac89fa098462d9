//! Opens the store of runs that the settings select: an SQLite file on this machine, or the store of the cluster.

use std::path::PathBuf;
use std::sync::Arc;

use assize_cluster::{ClusterClient, command_timeout};
use assize_run::{Store, StoreError};
use assize_store::{Access, Durability, SqliteStore};
use assize_types::Failure;
use assize_worker::status::ClusterStatus;

use crate::Services;

impl Services {
    /// Path of the SQLite store: from the settings, or in the user's state folder.
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

    /// Opens the store for writing, and creates it if needed. If a cluster is configured, this process joins the
    /// cluster, and the workers of the cluster execute the runs of this process. With `safe`, writes survive a power
    /// failure even if the settings only require that they survive a crash of the process.
    pub async fn open_store(&mut self, safe: bool) -> Result<Arc<dyn Store>, Failure> {
        self.settings.reject_untrusted_values()?;
        if self.settings.cluster.servers.is_some() {
            let (member, store) = self.join_with_patience().await?;
            self.join(member);
            return Ok(store);
        }
        let durability = match *self.settings.store.durability {
            assize_config::StoreDurability::ProcessCrash if !safe => Durability::ProcessCrash,
            _ => Durability::PowerLoss,
        };
        Ok(Arc::new(SqliteStore::open(&self.store_path(), Access::Write(durability))?))
    }

    /// Opens the store for an assize server. If a cluster is configured, waits for its NATS servers without a time
    /// limit.
    pub async fn open_server_store(&mut self) -> Result<Arc<dyn Store>, Failure> {
        if self.settings.cluster.servers.is_none() {
            return self.open_store(true).await;
        }
        let (member, store) = ClusterClient::join(&self.settings, &self.environment, None).await?;
        self.join(member);
        Ok(store)
    }

    /// Opens the store for reading; returns `None` if nothing was ever stored.
    pub async fn open_store_to_read(&self) -> Result<Option<Arc<dyn Store>>, Failure> {
        self.settings.reject_untrusted_values()?;
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

    /// Returns the status of the configured cluster.
    pub async fn cluster_status(&self) -> Result<ClusterStatus, Failure> {
        let (member, store) = self.join_with_patience().await?;
        ClusterStatus::of(&member, &*store).await
    }

    async fn join_with_patience(&self) -> Result<(Arc<ClusterClient>, Arc<dyn Store>), Failure> {
        let Services { settings, environment, .. } = self;
        ClusterClient::join(settings, environment, Some(command_timeout(settings))).await
    }
}
