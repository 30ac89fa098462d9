//! Tests of the sandbox manager: names, labels, time to live, sandboxes of other processes.

use std::collections::BTreeMap;
use std::time::Duration;

use assize_config::Isolation;
use assize_sandbox::{ProgramCommand, SandboxError, SandboxKey, SandboxManager, SandboxSpec};

use crate::bench::{Bench, backend, run, shell, text};

fn key(run: Option<&str>, name: &str) -> SandboxKey {
    SandboxKey::new(run, name).unwrap()
}

fn labelled(labels: &[(&str, &str)]) -> SandboxSpec {
    SandboxSpec { labels: labels_of(labels), ..SandboxSpec::default() }
}

fn labels_of(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_name_is_unique_within_its_run() {
    run(Isolation::Jail, |bench: Bench| async move {
        let (one, two) =
            (key(Some("run-1"), "negotiate-nvda-m1"), key(Some("run-2"), "negotiate-nvda-m1"));
        let first = bench.manager.create_if_not_exists(&one, SandboxSpec::default()).await.unwrap();
        first.write("/workspace/mark", b"one").await.unwrap();
        let again = bench.manager.create_if_not_exists(&one, SandboxSpec::default()).await.unwrap();
        assert_eq!(again.read("/workspace/mark", 10).await.unwrap(), b"one");
        let other = bench.manager.create_if_not_exists(&two, SandboxSpec::default()).await.unwrap();
        assert!(other.read("/workspace/mark", 10).await.is_err());
        assert!(bench.manager.delete(&two).await.unwrap());
        assert!(!bench.manager.delete(&two).await.unwrap());
        assert!(bench.manager.get(&two).await.unwrap().is_none());
        assert_eq!(first.read("/workspace/mark", 10).await.unwrap(), b"one");
        let mut wider = SandboxSpec::default();
        wider.limits.memory *= 2;
        let error = bench.manager.create_if_not_exists(&one, wider).await.unwrap_err();
        assert!(matches!(error, SandboxError::NameConflict(_)));
        bench.manager.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_with_one_name_return_the_same_sandbox() {
    run(Isolation::Jail, |bench: Bench| async move {
        let other = SandboxManager::open(
            bench.folder.path().join("makers"),
            backend(Isolation::Jail).await.unwrap(),
            &[],
        )
        .await
        .unwrap();
        let key = key(None, "shared");
        let creates = (0..10).map(|index| {
            let manager = if index % 2 == 0 { &bench.manager } else { &other };
            let key = &key;
            async move {
                let sandbox =
                    manager.create_if_not_exists(key, SandboxSpec::default()).await.unwrap();
                shell(&sandbox, "echo x >> /workspace/count").await;
            }
        });
        futures_util::future::join_all(creates).await;
        let found = other.get(&key).await.unwrap().unwrap();
        assert_eq!(found.read("/workspace/count", 100).await.unwrap().len(), 20);
        assert_eq!(bench.manager.list(&BTreeMap::new()).unwrap().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_two_concurrent_calls_reports_that_it_created_the_sandbox() {
    run(Isolation::Jail, |bench: Bench| async move {
        let key = key(None, "shared");
        let create = || bench.manager.create_from(&key, SandboxSpec::default(), None);
        let (one, two) = tokio::join!(create(), create());
        let created = [one.unwrap().1, two.unwrap().1];
        assert!(created.contains(&true) && created.contains(&false), "{created:?}");
        bench.manager.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_creation_does_not_block_the_next_creation() {
    run(Isolation::Jail, |bench: Bench| async move {
        let key = key(None, "left");
        let create = bench.manager.create_if_not_exists(&key, SandboxSpec::default());
        assert!(tokio::time::timeout(Duration::from_micros(1), create).await.is_err());
        let sandbox =
            bench.manager.create_if_not_exists(&key, SandboxSpec::default()).await.unwrap();
        assert_eq!(text(&shell(&sandbox, "echo there").await.stdout), "there\n");
        assert!(bench.manager.delete(&key).await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_list_is_filtered_by_labels() {
    run(Isolation::Jail, |bench: Bench| async move {
        let labels = [("ticker", "NVDA"), ("move", "m1")];
        let spec = SandboxSpec { region: Some("here".to_owned()), ..labelled(&labels) };
        bench.manager.create_if_not_exists(&key(Some("r"), "a"), spec).await.unwrap();
        bench
            .manager
            .create_if_not_exists(&key(Some("r"), "b"), labelled(&[("ticker", "AMD")]))
            .await
            .unwrap();
        let names = |labels: &[(&str, &str)]| {
            let found = bench.manager.list(&labels_of(labels)).unwrap();
            found.into_iter().map(|record| record.key.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["a", "b"]);
        assert_eq!(names(&[("ticker", "NVDA")]), ["a"]);
        assert_eq!(names(&[("ticker", "NVDA"), ("move", "m2")]), [] as [&str; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_ends_after_its_time_to_live() {
    run(Isolation::Jail, |bench: Bench| async move {
        let spec =
            SandboxSpec { time_to_live: Some(Duration::from_secs(1)), ..SandboxSpec::default() };
        let sandbox = bench.manager.create_if_not_exists(&key(None, "short"), spec).await.unwrap();
        let running = sandbox.exec(ProgramCommand::new("/bin/sleep").args(["1000"])).await.unwrap();
        assert!(matches!(running.finish().await, Err(SandboxError::SandboxFailed(_))));
        bench.manager.until_empty().await;
        assert!(bench.manager.list(&BTreeMap::new()).unwrap().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_of_another_process_is_usable() {
    run(Isolation::Jail, |bench: Bench| async move {
        let other = SandboxManager::open(
            bench.folder.path().join("makers"),
            backend(Isolation::Jail).await.unwrap(),
            &[],
        )
        .await
        .unwrap();
        let key = key(None, "theirs");
        let mut spec = SandboxSpec::default();
        spec.limits.output = 64 << 20;
        other.create_if_not_exists(&key, spec).await.unwrap();
        let sandbox = bench.manager.get(&key).await.unwrap().unwrap();
        sandbox.write("/workspace/data", &vec![b'z'; 2_000_000]).await.unwrap();
        assert_eq!(sandbox.read("/workspace/data", 3_000_000).await.unwrap().len(), 2_000_000);
        // The data in both directions is larger than the flow-control windows.
        let running = sandbox.exec(ProgramCommand::new("/bin/cat").stdin(true)).await.unwrap();
        let stdin = running.stdin();
        let writer = tokio::spawn(async move {
            for _ in 0..50 {
                assert!(stdin.write(&[b'q'; 100_000]).await.unwrap());
            }
            stdin.close();
        });
        let done = running.finish().await.unwrap();
        writer.await.unwrap();
        assert_eq!((done.stdout.len(), done.outcome.exit_code), (5_000_000, Some(0)));
        let running = sandbox.exec(ProgramCommand::new("/bin/sleep").args(["1000"])).await.unwrap();
        running.signal(15).await.unwrap();
        assert_eq!(running.finish().await.unwrap().outcome.signal, Some(15));
        let wait =
            ProgramCommand::new("/bin/sleep").args(["1000"]).time_limit(Duration::from_millis(100));
        assert!(sandbox.exec(wait).await.unwrap().finish().await.unwrap().outcome.timed_out);
        assert!(bench.manager.delete(&key).await.unwrap());
        assert!(other.list(&BTreeMap::new()).unwrap().is_empty());
        let error = sandbox.write("/workspace/x", b"x").await.unwrap_err();
        assert!(error.is_infrastructure(), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_jail_leaves_no_cgroups() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.sandbox().await;
        let done = shell(&sandbox, "sleep 1000 & echo $!; cat /proc/self/mountinfo | wc -l").await;
        assert!(!text(&done.stdout).is_empty());
        let groups = || {
            let found = std::process::Command::new("find")
                .args(["/sys/fs/cgroup", "-maxdepth", "5", "-name", "assize-*"])
                .output();
            String::from_utf8(found.unwrap().stdout).unwrap()
        };
        let maker = std::fs::read_dir(bench.folder.path().join("makers")).unwrap().flatten();
        let maker = maker
            .map(|entry| entry.file_name().into_string().unwrap())
            .find(|name| name != "lock")
            .unwrap();
        sandbox.end().await;
        assert!(!groups().contains(&maker), "{}", groups());
    })
    .await;
}
