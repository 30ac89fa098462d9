//! Tests of faults of the NATS servers: servers that die, cannot be reached, have no disk space, or refuse the login.

use std::sync::Arc;
use std::time::Duration;

use assize_cluster::{Cluster, ClusterCredentials, ClusterOptions};
use assize_graph::{Appended, GraphEvent};
use assize_run::{
    CallState, Ending, EventQuery, IdempotencyKey, Lease, NewRun, RunFilter, RunStatus, Store,
    StoreError, StoredCall,
};
use assize_types::{Cost, Fingerprint, Money};
use futures_util::StreamExt;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::conformance::{new_run, record};
use crate::servers::{Servers, Used, count};

async fn open(options: ClusterOptions) -> Arc<dyn Store> {
    Arc::new(Cluster::connect(options).await.unwrap().store().await.unwrap())
}

/// Opens a store with these options, which must fail, and returns the error.
async fn refused(options: ClusterOptions) -> StoreError {
    match Cluster::connect(options).await {
        Ok(cluster) => cluster.store().await.unwrap_err(),
        Err(error) => error,
    }
}

/// Three writers append records while servers are killed and restarted. Every record and event is stored exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn records_appended_while_servers_are_killed_are_neither_lost_nor_duplicated() {
    let mut servers = Servers::start(3);
    let store = servers.store("test").await;
    let mut writers = JoinSet::new();
    for writer in 0..3 {
        // Each writer has its own connection, as if it were a separate process.
        let store = open(servers.options()).await;
        writers.spawn(async move {
            let (_, claim) =
                store.create_run(new_run(&format!("run {writer}")), "me").await.unwrap();
            let mut ids = Vec::new();
            for step in 0..150 {
                let (key, event) = (format!("step-{step}"), GraphEvent::new("step", json!(step)));
                let written = store.append(&claim, record(&key, &key), vec![event]).await.unwrap();
                match written {
                    Appended::Recorded { event_ids } => ids.extend(event_ids),
                    Appended::Existing(found) => panic!("the record existed already: {found:?}"),
                }
            }
            (claim, ids)
        });
    }
    let deaths = count(1, 3);
    for index in 0..deaths {
        tokio::time::sleep(Duration::from_millis(300)).await;
        servers.kill(index);
        tokio::time::sleep(Duration::from_millis(700)).await;
        servers.restart(index);
        let claim = store.create_run(new_run("between"), "me").await.unwrap().1;
        store.finish(&claim, Ending::Done { result: json!(index) }, vec![]).await.unwrap();
        if index + 1 < deaths {
            // Wait until the restarted server has stored the missing messages, which it does not announce. A majority
            // of the servers must be up to date when the next server is killed.
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
    }
    for (claim, ids) in writers.join_all().await {
        let records = store.records(&claim.run).await.unwrap();
        let keys: Vec<String> = records.iter().map(|record| record.key.to_string()).collect();
        assert_eq!(keys, (0..150).map(|step| format!("step-{step}")).collect::<Vec<_>>());
        let stored = store.events(EventQuery { runs: vec![claim.run], ..Default::default() }).await;
        let stored: Vec<u64> = stored.unwrap().into_iter().map(|event| event.id).collect();
        assert_eq!(stored, ids);
    }
}

/// If several processes claim a run at once, each epoch has exactly one lease holder, even while a server is killed.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_several_concurrent_claims_of_a_run_succeeds() {
    let mut servers = Servers::start(3);
    let mut stores = Vec::new();
    for _ in 0..5 {
        stores.push(open(servers.options()).await);
    }
    let run = stores[0].create_run(new_run("wanted"), "me").await.unwrap().0.id;
    let rounds = count(4, 12);
    for round in 0..rounds {
        let seen = stores[0].run(&run).await.unwrap().epoch;
        let mut claiming = JoinSet::new();
        for (index, store) in stores.iter().enumerate() {
            let (store, run) = (store.clone(), run.clone());
            claiming.spawn(async move { store.claim(&run, &index.to_string(), Some(seen)).await });
        }
        if round % 4 == 3 {
            servers.kill(round / 4);
        }
        let mut won: Vec<Lease> = Vec::new();
        for claimed in claiming.join_all().await {
            match claimed {
                Ok(claim) => won.push(claim),
                Err(StoreError::Fenced(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(won.len(), 1, "{won:?}");
        // A write with the new lease succeeds, and a write with the old lease is refused, through any of the stores.
        let record = record(&format!("round-{round}"), "x");
        stores[round % 5].append(&won[0], record.clone(), vec![]).await.unwrap();
        let stale = Lease { run: run.clone(), epoch: seen };
        let late = stores[(round + 1) % 5].append(&stale, record, vec![]).await;
        assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
        if round % 4 == 3 {
            servers.restart(round / 4);
            if round + 1 < rounds {
                // Wait until the restarted server has stored the missing messages, which it does not announce.
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
        }
    }
    assert_eq!(stores[0].records(&run).await.unwrap().len(), rounds);
}

#[tokio::test(flavor = "multi_thread")]
async fn store_requests_wait_for_unreachable_nats_servers_up_to_the_timeout() {
    let mut servers = Servers::unstarted(1);
    let opening = tokio::spawn(open(servers.options()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!opening.is_finished());
    servers.restart(0);
    let store = opening.await.unwrap();
    let claim = store.create_run(new_run("late"), "me").await.unwrap().1;
    // A request also waits during an outage after the start.
    servers.kill(0);
    let appending = {
        let (store, claim) = (store.clone(), claim.clone());
        tokio::spawn(async move { store.append(&claim, record("a", "b"), vec![]).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!appending.is_finished());
    servers.restart(0);
    appending.await.unwrap().unwrap();
    assert_eq!(store.records(&claim.run).await.unwrap(), [record("a", "b")]);
    // A request fails if the outage lasts longer than its timeout.
    servers.kill(0);
    let impatient = ClusterOptions { timeout: Some(Duration::from_secs(1)), ..servers.options() };
    let error = refused(impatient).await;
    assert!(error.to_string().contains("nats://127.0.0.1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_journal_records_survive_a_full_disk_of_the_nats_servers() {
    let folder = TempDir::new().unwrap();
    let small = folder.path().join("0");
    std::fs::create_dir(&small).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
        .arg(&small)
        .status();
    if !mounted.unwrap().success() {
        let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
        assert_ne!(user, 0, "cannot mount a small file system as root");
        return;
    }
    let mut servers = Servers::start_with(folder, Vec::new());
    let options = ClusterOptions { timeout: Some(Duration::from_secs(10)), ..servers.options() };
    let store = open(options.clone()).await;
    let (run, claim) = store.create_run(new_run("full"), "me").await.unwrap();
    let mut kept = Vec::new();
    let error = loop {
        let record = record(&format!("step-{}", kept.len()), &"x".repeat(20_000));
        match store.append(&claim, record.clone(), vec![]).await {
            Ok(_) => kept.push(record),
            Err(error) => break error,
        }
        assert!(kept.len() < 1000, "1000 records were written, but the disk is not full");
    };
    let error = error.to_string();
    // After the disk was enlarged, the store still contains every acknowledged record.
    servers.kill(0);
    let remounted =
        std::process::Command::new("mount").args(["-o", "remount,size=64m"]).arg(&small).status();
    servers.restart(0);
    let store = open(options).await;
    let records = store.records(&run.id).await;
    drop((servers, std::process::Command::new("umount").arg("-l").arg(&small).status()));
    assert!(remounted.unwrap().success());
    assert!(error.contains("no space left"), "{error}");
    let records = records.unwrap();
    assert!(records.len() >= kept.len() && records[..kept.len()] == kept[..], "{}", records.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_store_without_a_login_or_with_a_missing_credentials_file_reports_the_reason() {
    let arguments = ["--user", "ann", "--pass", "word"].map(str::to_owned).to_vec();
    let servers = Servers::start_with(TempDir::new().unwrap(), arguments);
    let impatient = ClusterOptions { timeout: Some(Duration::from_secs(2)), ..servers.options() };
    let error = refused(impatient.clone()).await;
    assert!(error.to_string().to_lowercase().contains("authorization"), "{error}");
    let user = Some(("ann".to_owned(), "word".to_owned()));
    let credentials = ClusterCredentials { user, ..ClusterCredentials::default() };
    let store = open(ClusterOptions { credentials, ..impatient.clone() }).await;
    let run = store.create_run(new_run("let in"), "me").await.unwrap().0;
    assert_eq!(store.run(&run.id).await.unwrap().status, RunStatus::Running);
    let file = Some("/nonexistent/ann.creds".into());
    let credentials = ClusterCredentials { credentials: file, ..ClusterCredentials::default() };
    let error = refused(ClusterOptions { credentials, ..impatient }).await;
    assert!(error.to_string().contains("ann.creds"), "{error}");
}

/// If a run is removed while its records are read, the reader receives either all records or an error. It does not wait
/// for missing records.
#[tokio::test(flavor = "multi_thread")]
async fn reading_the_records_of_a_run_during_its_removal_does_not_hang() {
    let servers = Servers::start(1);
    let store = servers.store("test").await;
    for _ in 0..count(3, 30) {
        let (_, claim) = store.create_run(new_run("short-lived"), "me").await.unwrap();
        let mut steps = JoinSet::new();
        for step in 0..450 {
            let (store, claim) = (Arc::clone(&store), claim.clone());
            let step = record(&format!("step-{step}"), "done");
            steps.spawn(async move { store.append(&claim, step, Vec::new()).await.map(drop) });
        }
        steps.join_all().await.into_iter().for_each(|written| written.unwrap());
        let mut readers = JoinSet::new();
        for _ in 0..12 {
            let (store, run) = (Arc::clone(&store), claim.run.clone());
            readers.spawn(async move {
                loop {
                    match store.records(&run).await {
                        Ok(records) => assert_eq!(records.len(), 450),
                        Err(error) => return error,
                    }
                }
            });
        }
        // Wait until some readers have read all records and others are still reading.
        tokio::time::sleep(Duration::from_millis(30)).await;
        store.remove_run(&claim).await.unwrap();
        let read = tokio::time::timeout(Duration::from_secs(20), readers.join_all()).await;
        for gone in read.expect("a reader still waits for removed records after 20 s") {
            assert!(matches!(gone, StoreError::NoSuchRun(_)), "{gone}");
        }
    }
}

/// If the removal of a run was interrupted, its leftover messages are not visible, and are removed later.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_removal_of_a_run_is_completed_later() {
    let servers = Servers::start(1);
    let store = servers.store("test").await;
    let once = Some(IdempotencyKey { key: "mine".to_owned(), request: Fingerprint::of(b"asked") });
    let large = vec![("file".to_owned(), vec![7; 600_000])];
    let input = json!("large".repeat(20_000));
    let new = || NewRun {
        idempotency_key: once.clone(),
        artifacts: large.clone(),
        input: input.clone(),
        ..new_run("short-lived")
    };
    let (_, claim) = store.create_run(new(), "me").await.unwrap();
    store.append(&claim, record("a", "b"), Vec::new()).await.unwrap();
    // Simulate a removal that was interrupted after the lease change was written and the pieces were removed.
    let context = async_nats::jetstream::new(async_nats::connect(servers.address()).await.unwrap());
    let removed = json!({"at": 1, "turn": "removed"}).to_string();
    let subject = format!("test.run.{}.state.turn.2", claim.run);
    context.publish(subject, removed.into()).await.unwrap().await.unwrap();
    let pieces = context.get_stream("test-pieces").await.unwrap();
    pieces.purge().filter(format!("test.piece.{}.>", claim.run)).await.unwrap();
    let gone = store.records(&claim.run).await.unwrap_err();
    assert!(matches!(gone, StoreError::NoSuchRun(_)), "{gone}");
    assert!(store.runs(RunFilter::default()).await.unwrap().is_empty());
    // The idempotency key can be used again, and creates another run.
    let (again, _) = store.create_run(new(), "me").await.unwrap();
    assert_ne!(again.id, claim.run);
    let later = Cluster::connect(servers.options()).await.unwrap().store().await.unwrap();
    // Late writes of the old lease holder fail and do not affect the new run.
    let late = store.append(&claim, record("a", "b"), Vec::new()).await.unwrap_err();
    assert!(matches!(late, StoreError::NoSuchRun(_)), "{late}");
    let free = StoredCall { state: CallState::Free, tokens: 0, cost: Cost::Known(Money::ZERO) };
    let late = later.store_call(&claim, 1, free).await.unwrap_err();
    assert!(matches!(late, StoreError::NoSuchRun(_)), "{late}");
    assert_eq!(later.calls(&claim.run).await.unwrap(), []);
    assert_eq!(store.run(&again.id).await.unwrap().input, input);
    later.finish_removals().await.unwrap();
    for (stream, filter, left) in [
        ("test-pieces", format!("test.piece.{}.>", claim.run), 0),
        ("test-runs", format!("test.run.{}.>", claim.run), 1),
        ("test-runs", format!("test.run.{}.>", again.id), 1),
    ] {
        let stream = context.get_stream(stream).await.unwrap();
        let mut found = stream.info_with_subjects(filter).await.unwrap();
        let mut subjects = 0;
        while let Some(subject) = found.next().await {
            subject.unwrap();
            subjects += 1;
        }
        assert_eq!(subjects, left);
    }
    // The idempotency key now belongs to the new run.
    let error = later.create_run(new(), "me").await.unwrap_err();
    let same =
        matches!(&error, StoreError::IdempotencyKeyUsed { run, same: true } if *run == again.id);
    assert!(same, "{error}");
    assert_eq!(
        later.artifact(later.artifacts(&again.id).await.unwrap()[0].id).await.unwrap().len(),
        600_000
    );
}
