//! Test helpers that start real NATS servers and open stores on them.

use std::sync::Arc;
use std::time::Duration;

use assize_cluster::{Cluster, ClusterCredentials, ClusterOptions, ClusterTimes};
use assize_run::Store;

pub(crate) use assize_testkit::NatsServers as Servers;

/// Lease duration of the tests. It is short because tests wait until a lease expires.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// Extension trait of the test's NATS servers: opens stores on them and returns connection options for them.
pub(crate) trait Used {
    /// Opens the store of a cluster with this name.
    async fn store(&self, name: &str) -> Arc<dyn Store>;

    fn options(&self) -> ClusterOptions;
}

impl Used for Servers {
    async fn store(&self, name: &str) -> Arc<dyn Store> {
        let options = ClusterOptions { name: name.to_owned(), ..self.options() };
        Arc::new(Cluster::connect(options).await.unwrap().store().await.unwrap())
    }

    fn options(&self) -> ClusterOptions {
        ClusterOptions {
            address: self.address().parse().unwrap(),
            credentials: ClusterCredentials::default(),
            name: "test".to_owned(),
            replicas: self.count(),
            timeout: Some(Duration::from_secs(60)),
            times: ClusterTimes::of_lease(LEASE),
        }
    }
}

/// Returns `full` if the full test suite runs, and `small` otherwise.
pub(crate) fn count(small: usize, full: usize) -> usize {
    if std::env::var_os("ASSIZE_TEST_FULL").is_some() { full } else { small }
}

/// Starts `count` servers and opens a new store on them.
pub(crate) async fn fresh(count: usize) -> (Servers, Arc<dyn Store>) {
    let servers = Servers::start(count);
    let store = servers.store("test").await;
    (servers, store)
}
