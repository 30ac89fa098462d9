//! Tests of the warm pool.

use std::sync::Arc;
use std::time::Duration;

use assize_config::Isolation;
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Backend, Enforcement, PoolOptions, SandboxError, SandboxIdentity, SandboxManager, SandboxSpec,
    StartedSandbox,
};
use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, python, run, text};

fn options(size: usize) -> PoolOptions {
    PoolOptions { size, ..PoolOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sandbox_serves_one_request_and_is_replaced() {
    run(Isolation::Jail, |bench: Bench| async move {
        let pool = bench.manager.pool(SandboxSpec::default(), options(2));
        pool.ready().await.unwrap();
        assert!(pool.metrics().ready);
        for _ in 0..3 {
            pool.ready().await.unwrap();
            let sandbox = pool.take(&SandboxSpec::default()).await.unwrap();
            let done = python(&sandbox, "print(6 * 7)").await;
            assert!(done.outcome.warm);
            assert_eq!(text(&done.stdout), "42\n");
            pool.discard(sandbox);
        }
        let metrics = pool.metrics();
        assert_eq!((metrics.hits, metrics.misses), (3, 0));
        pool.close().await;
        assert_eq!(pool.metrics().idle, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_miss_creates_a_sandbox() {
    run(Isolation::Jail, |bench: Bench| async move {
        let pool = bench.manager.pool(SandboxSpec::default(), options(1));
        pool.ready().await.unwrap();
        let mut other = SandboxSpec::default();
        other.limits.memory /= 2;
        let sandbox = pool.take(&other).await.unwrap();
        assert!(!python(&sandbox, "pass").await.outcome.warm);
        // An idle sandbox matches a request even if their labels differ.
        let labelled = SandboxSpec {
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..SandboxSpec::default()
        };
        let takes = (0..6).map(|_| async {
            let sandbox = pool.take(&labelled).await.unwrap();
            assert!(python(&sandbox, "print(1)").await.outcome.success());
            pool.discard(sandbox);
        });
        futures_util::future::join_all(takes).await;
        let metrics = pool.metrics();
        assert!(metrics.hits >= 1 && metrics.hits + metrics.misses == 7, "{metrics:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_state_carries_over_between_sandboxes_of_a_pool() {
    run(Isolation::Jail, |bench: Bench| async move {
        let pool = bench.manager.pool(SandboxSpec::default(), options(1));
        let plant = r"
import os, time, sys, mmap, json
from multiprocessing import shared_memory
open('/tmp/left', 'w').write('x'); open('/workspace/left', 'w').write('x'); open('/dev/shm/left', 'w').write('x')
os.environ['LEFT'] = 'x'
json.left = 'x'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
# ENOSYS where no cgroup accounts for System V shared memory.
shm = libc.shmget(4242, 4096, 0o1666); assert shm >= 0 or ctypes.get_errno() == 38
if os.fork() == 0:
    os.setsid(); time.sleep(1000)
print('planted')
";
        let look = r"
import os, json, ctypes
found = [path for path in ('/tmp/left', '/workspace/left', '/dev/shm/left') if os.path.exists(path)]
found += ['env'] * ('LEFT' in os.environ) + ['module'] * hasattr(json, 'left')
found += ['shm'] * (ctypes.CDLL(None).shmget(4242, 4096, 0o666) >= 0)
found += [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) not in (1, os.getpid())]
print(found)
";
        for _ in 0..2 {
            for (code, expected) in [(plant, "planted\n"), (look, "[]\n")] {
                pool.ready().await.unwrap();
                let sandbox = pool.take(&SandboxSpec::default()).await.unwrap();
                let done = python(&sandbox, code).await;
                assert!(done.outcome.warm);
                assert_eq!(text(&done.stdout), expected, "{}", text(&done.stderr));
                pool.discard(sandbox);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_pool_ends_its_sandboxes_and_refills_on_demand() {
    run(Isolation::Jail, |bench: Bench| async move {
        let idle = Duration::from_millis(300);
        let pool = bench
            .manager
            .pool(SandboxSpec::default(), PoolOptions { size: 2, idle, ..PoolOptions::default() });
        pool.ready().await.unwrap();
        while pool.metrics().idle > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let sandbox = pool.take(&SandboxSpec::default()).await.unwrap();
        assert!(!python(&sandbox, "pass").await.outcome.warm);
        pool.ready().await.unwrap();
        while pool.metrics().idle > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // A call of `ready` counts as demand and refills the pool.
        pool.ready().await.unwrap();
        pool.close().await;
        assert!(pool.ready().await.is_err());
    })
    .await;
}

/// Returns a spec with a disk size that no other test process uses, so that its sandboxes can be found by that size.
fn marked() -> SandboxSpec {
    let mut spec = SandboxSpec::default();
    spec.limits.disk += u64::from(std::process::id()) * 4096;
    spec
}

/// Kills the idle sandboxes with this spec by killing their init processes. The init process of a sandbox is the parent
/// of its interpreter, and the file-size limit of the interpreter is the disk size of the spec.
fn kill_idle(spec: &SandboxSpec) {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let read = |id: i32, name: &str| {
        std::fs::read_to_string(format!("/proc/{id}/{name}")).unwrap_or_default()
    };
    let disk = spec.limits.disk.to_string();
    let is_interpreter = |id: &i32| {
        let limits = read(*id, "limits");
        let line = limits.lines().find_map(|line| line.strip_prefix("Max file size"));
        line.is_some_and(|line| line.split_whitespace().next() == Some(&disk))
    };
    let parent = |id: i32| {
        let stat = read(id, "stat");
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        Pid::from_raw(after_name.split_whitespace().nth(1).unwrap().parse().unwrap()).unwrap()
    };
    let sandboxes: Vec<Pid> = ids.filter(is_interpreter).map(parent).collect();
    assert!(!sandboxes.is_empty());
    for sandbox in sandboxes {
        kill_process(sandbox, Signal::KILL).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sandbox_that_dies_is_replaced_without_a_request() {
    run(Isolation::Jail, |bench: Bench| async move {
        let spec = marked();
        let pool = bench.manager.pool(spec.clone(), options(1));
        pool.ready().await.unwrap();
        assert_eq!(pool.metrics().refills, 1);
        kill_idle(&spec);
        while pool.metrics().refills < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let sandbox = pool.take(&spec).await.unwrap();
        assert!(python(&sandbox, "pass").await.outcome.warm);
        assert_eq!((pool.metrics().hits, pool.metrics().misses), (1, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn warm_sandbox_has_the_limits_of_the_request() {
    run(Isolation::Jail, |bench: Bench| async move {
        let pool = bench.manager.pool(SandboxSpec::default(), options(1));
        pool.ready().await.unwrap();
        let mut spec = SandboxSpec::default();
        spec.limits.output = 2;
        let sandbox = pool.take(&spec).await.unwrap();
        assert_eq!(*sandbox.spec(), spec);
        let done = python(&sandbox, "print(123456)").await;
        assert_eq!((text(&done.stdout), done.outcome.output_cut), ("12", true));
        assert_eq!((pool.metrics().hits, pool.metrics().misses), (1, 0));
        // The process limit is fixed when a sandbox is created, so the pool creates another sandbox.
        pool.ready().await.unwrap();
        let mut spec = SandboxSpec::default();
        spec.limits.processes = 3;
        let sandbox = pool.take(&spec).await.unwrap();
        assert_eq!(*sandbox.spec(), spec);
        assert!(!python(&sandbox, "pass").await.outcome.warm);
        assert_eq!((pool.metrics().hits, pool.metrics().misses), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn low_memory_keeps_the_pool_empty_and_is_reported() {
    run(Isolation::Jail, |bench: Bench| async move {
        let reserved = PoolOptions { memory_reserve: u64::MAX / 2, ..options(2) };
        let pool = bench.manager.pool(SandboxSpec::default(), reserved);
        let error = pool.ready().await.unwrap_err();
        assert!(error.to_string().contains("too little free memory"), "{error}");
        let metrics = pool.metrics();
        assert_eq!((metrics.idle, metrics.refills, metrics.low_memory), (0, 0, true));
        // A request still gets a new sandbox if memory is low.
        let sandbox = pool.take(&SandboxSpec::default()).await.unwrap();
        assert!(python(&sandbox, "pass").await.outcome.success());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_pool_ends_when_the_pool_is_closed() {
    run(Isolation::Jail, |bench: Bench| async move {
        let pool = bench.manager.pool(SandboxSpec::default(), options(100));
        let (ready, ()) = tokio::join!(pool.ready(), pool.close());
        assert_eq!(ready.unwrap_err().to_string(), "the sandbox failed: the warm pool is closed");
    })
    .await;
}

/// Backend that starts no sandboxes and reduces the size of every pool to at most one.
#[derive(Debug)]
struct SmallPools(Jail);

#[async_trait]
impl Backend for SmallPools {
    fn isolation(&self) -> Isolation {
        self.0.isolation()
    }

    async fn start(
        &self,
        _: &SandboxIdentity,
        _: &SandboxSpec,
    ) -> Result<StartedSandbox, SandboxError> {
        Err(SandboxError::SandboxFailed("the test backend starts no sandbox".to_owned()))
    }

    fn pool_size(&self, wanted: usize) -> usize {
        wanted.min(1)
    }

    fn enforcement(&self) -> Enforcement {
        self.0.enforcement()
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        self.0.clean_up(maker).await
    }
}

#[tokio::test]
async fn pool_size_is_limited_by_the_backend() {
    let folder = tempfile::tempdir().unwrap();
    let backend: Arc<dyn Backend> = Arc::new(SmallPools(Jail::new(Vec::new())));
    let manager = SandboxManager::open(folder.path().to_owned(), backend, &[]).await.unwrap();
    let pool = manager.pool(SandboxSpec::default(), options(5));
    assert_eq!(pool.metrics().size, 1);
    pool.close().await;
}
