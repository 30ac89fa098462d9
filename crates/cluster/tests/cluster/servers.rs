//! Real servers, and stores on them.

use std::sync::Arc;
use std::time::Duration;

use assize_cluster::{Cluster, Identification, Options, Times};
use assize_run::Store;

pub(crate) use assize_testkit::NatsServers as Servers;

/// A short lease: tests wait for it to expire.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// How servers are used here.
pub(crate) trait Used {
    /// A store under a name of its own.
    async fn store(&self, name: &str) -> Arc<dyn Store>;

    fn options(&self) -> Options;
}

impl Used for Servers {
    async fn store(&self, name: &str) -> Arc<dyn Store> {
        let options = Options { name: name.to_owned(), ..self.options() };
        Arc::new(Cluster::connect(options).await.unwrap().store().await.unwrap())
    }

    fn options(&self) -> Options {
        Options {
            address: self.address().parse().unwrap(),
            identification: Identification::default(),
            name: "test".to_owned(),
            replicas: self.count(),
            patience: Some(Duration::from_secs(60)),
            times: Times::of_lease(LEASE),
        }
    }
}

/// A small count, or the full one.
pub(crate) fn count(small: usize, full: usize) -> usize {
    if std::env::var_os("ASSIZE_TEST_FULL").is_some() { full } else { small }
}

/// A store on so many servers.
pub(crate) async fn fresh(count: usize) -> (Servers, Arc<dyn Store>) {
    let servers = Servers::start(count);
    let store = servers.store("test").await;
    (servers, store)
}
