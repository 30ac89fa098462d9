//! Tests of [`WarmPools`], shared by all requests and runs of a process.

use std::sync::Arc;
use std::time::Duration;

use assize_config::Isolation;
use assize_sandbox::{PoolOptions, SandboxManager, SandboxSpec, WarmPools};

use crate::bench::{Bench, python, run};

fn pools(size: usize) -> WarmPools {
    WarmPools::new(SandboxSpec::default(), PoolOptions { size, ..PoolOptions::default() })
}

fn with_processes(processes: u32) -> SandboxSpec {
    let mut spec = SandboxSpec::default();
    spec.limits.processes = processes;
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_runs_with_the_same_sandbox_shape_share_one_pool() {
    run(Isolation::Jail, |bench: Bench| async move {
        let manager: Arc<SandboxManager> = Arc::new(bench.manager);
        let pools = pools(2);
        let started = pools.start(&manager);
        let mut later = SandboxSpec::default();
        later.limits.wall *= 2;
        later.labels.insert("a".to_owned(), "b".to_owned());
        assert!(Arc::ptr_eq(&started, &pools.for_run(&manager, &SandboxSpec::default())));
        assert!(Arc::ptr_eq(&started, &pools.for_request(&manager, &later).unwrap()));
        started.ready().await.unwrap();
        let sandbox = pools.take(&manager, &SandboxSpec::default()).await.unwrap();
        assert!(python(&sandbox, "pass").await.outcome.warm);
        pools.discard(sandbox);
        // No pool opens for a single request of another shape.
        let other = with_processes(20);
        assert!(pools.for_request(&manager, &other).is_none());
        let sandbox = pools.take(&manager, &other).await.unwrap();
        assert_eq!(*sandbox.spec(), other);
        let metrics = pools.metrics()[&Isolation::Jail];
        assert_eq!((metrics.hits, metrics.misses, metrics.size), (1, 1, 2));
        pools.close().await;
        assert_eq!(pools.metrics()[&Isolation::Jail].idle, 0);
        // Closed pools still create sandboxes on demand.
        let sandbox = pools.take(&manager, &SandboxSpec::default()).await.unwrap();
        assert!(!python(&sandbox, "pass").await.outcome.warm);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn least_recently_used_pool_is_closed_and_its_counters_remain() {
    run(Isolation::Jail, |bench: Bench| async move {
        let manager: Arc<SandboxManager> = Arc::new(bench.manager);
        let pools = pools(1);
        let first = pools.for_run(&manager, &with_processes(20));
        first.ready().await.unwrap();
        first.discard(first.take(&with_processes(20)).await.unwrap());
        for processes in 21..25 {
            pools.for_run(&manager, &with_processes(processes));
        }
        assert!(pools.for_request(&manager, &with_processes(20)).is_none());
        assert!(pools.for_request(&manager, &with_processes(21)).is_some());
        let metrics = pools.metrics()[&Isolation::Jail];
        assert_eq!((metrics.hits, metrics.misses, metrics.size), (1, 0, 4));
        // A run that still uses the closed pool gets new sandboxes, which count as misses.
        first.take(&with_processes(20)).await.unwrap();
        assert_eq!(pools.metrics()[&Isolation::Jail].misses, 1);
        pools.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn started_pool_has_no_idle_timeout_even_if_a_request_opened_it() {
    run(Isolation::Jail, |bench: Bench| async move {
        let manager: Arc<SandboxManager> = Arc::new(bench.manager);
        let idle = Duration::from_millis(200);
        let options = PoolOptions { size: 1, idle, ..PoolOptions::default() };
        let [pools, other] =
            [(); 2].map(|()| WarmPools::new(SandboxSpec::default(), options.clone()));
        pools.for_request(&manager, &SandboxSpec::default());
        let stays = pools.start(&manager);
        stays.ready().await.unwrap();
        // A pool that was opened later, but not by `start`, ends its sandboxes after the idle timeout.
        let shrinks = other.for_run(&manager, &SandboxSpec::default());
        shrinks.ready().await.unwrap();
        while shrinks.metrics().idle > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!((stays.metrics().idle, stays.metrics().refills), (1, 1));
    })
    .await;
}
