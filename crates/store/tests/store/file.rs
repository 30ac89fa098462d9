//! Tests of the SQLite file: permissions, damage, formats, and access by several processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use assize_graph::{Appended, EffectKey, EffectOutcome, EffectRecord, GraphEvent};
use assize_run::{Lease, NewRun, RunFilter, RunKind, Store, StoreError, StoreLog};
use assize_store::{Access, Durability, SqliteStore};
use assize_types::Fingerprint;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Creates a new store, and returns it with the temporary folder that contains its file.
pub(crate) fn fresh() -> (TempDir, Arc<dyn Store>) {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("some/where/store.db")).unwrap();
    (folder, Arc::new(store))
}

pub(crate) fn fresh_for_power_loss() -> (TempDir, Arc<dyn Store>) {
    let folder = TempDir::new().unwrap();
    let access = Access::Write(Durability::PowerLoss);
    let store = SqliteStore::open(&folder.path().join("store.db"), access).unwrap();
    (folder, Arc::new(store))
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, Access::Write(Durability::ProcessCrash))
}

async fn fill(store: &SqliteStore, records: usize) -> Lease {
    let run = NewRun {
        kind: RunKind::Debate,
        title: "a title".into(),
        parent: None,
        input: json!(null),
        artifacts: vec![],
        idempotency_key: None,
    };
    let (_, claim) = store.create_run(run, "me").await.unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..records {
        let mut noise = || random.alphanumeric();
        // Use random text, because it does not compress well.
        let noise: String = std::iter::repeat_with(&mut noise).take(600).collect();
        let outcome = EffectOutcome::Done(format!("\"{noise}\""));
        let key = EffectKey::new(&format!("k{number}")).unwrap();
        let record = EffectRecord { key, request: Fingerprint::NONE, outcome };
        store.append(&claim, record, vec![]).await.unwrap();
    }
    claim
}

#[tokio::test]
async fn store_is_accessible_only_to_its_owner_and_is_a_single_file_after_closing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep/store.db");
    let store = open(&path).unwrap();
    fill(&store, 3).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&folder.path().join("deep/store.db-wal")), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    drop(store);
    let files: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(files.len(), 1);
}

#[test]
fn file_that_is_not_a_store_is_rejected_and_not_changed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "Dear diary, ".repeat(1000)).unwrap();
    let error = open(&path).unwrap_err();
    assert!(
        error.to_string().ends_with("is not a store: the file is not an SQLite database"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("store.path"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "Dear diary, ".repeat(1000));

    let path = folder.path().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE photos (name TEXT)").unwrap();
    drop(other);
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(error.to_string().ends_with("the file is a database of another program"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);

    let error = open(folder.path()).unwrap_err();
    assert!(error.to_string().ends_with("the path is not a regular file"), "{error}");
}

#[tokio::test]
async fn store_file_of_a_newer_format_is_rejected() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    fill(&open(&path).unwrap(), 1).await;
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    for access in [Access::Read, Access::Write(Durability::PowerLoss)] {
        let error = SqliteStore::open(&path, access).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 99, known: 5, .. }), "{error}");
    }
}

#[tokio::test]
async fn store_file_of_an_older_format_is_opened_with_all_its_runs() {
    for access in [Access::Read, Access::Write(Durability::ProcessCrash)] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store.db");
        let claim = fill(&open(&path).unwrap(), 3).await;
        // Convert the file to format 4, which had one more table.
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, \
             topic TEXT NOT NULL, body TEXT NOT NULL) STRICT; \
             CREATE INDEX messages_of_topic ON messages (topic); \
             INSERT INTO messages (at, topic, body) VALUES (1, 'drafts', '{}'); \
             PRAGMA user_version = 4;",
        )
        .unwrap();
        drop(db);
        let store = SqliteStore::open(&path, access).unwrap();
        assert_eq!(store.records(&claim.run).await.unwrap().len(), 3);
    }
}

#[tokio::test]
async fn damaged_store_file_is_reported_and_intact_parts_stay_readable() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let claim = fill(&open(&path).unwrap(), 200).await;
    let whole = fs::read(&path).unwrap();

    // Overwrite pages in the middle of the file: the list of runs can still be read, the journal cannot.
    let mut torn = whole.clone();
    let middle = torn.len() / 2;
    torn[middle..middle + 8192].fill(0xff);
    fs::write(&path, &torn).unwrap();
    let store = open(&path).unwrap();
    assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), 1);
    let error = store.records(&claim.run).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.hint().unwrap().contains("keep a copy"));
    drop(store);

    // A truncated file fails as soon as a missing page is read.
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let outcome = match open(&path) {
        Ok(store) => store.records(&claim.run).await.map(drop),
        Err(error) => Err(error),
    };
    let error = outcome.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");

    fs::write(&path, &whole).unwrap();
    assert_eq!(open(&path).unwrap().records(&claim.run).await.unwrap().len(), 200);
}

#[tokio::test]
async fn record_that_cannot_be_decompressed_is_reported_as_damage() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let claim = fill(&open(&path).unwrap(), 2).await;
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE journal SET body = x'ff00ff' WHERE key = 'k1'", []).unwrap();
    drop(db);
    let error = open(&path).unwrap().records(&claim.run).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn store_write_waits_while_another_process_writes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let store = Arc::new(open(&path).unwrap());
    let claim = fill(&store, 0).await;
    // Another connection is in the middle of a write transaction.
    let mut other = rusqlite::Connection::open(&path).unwrap();
    let writing =
        other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let key = EffectKey::new("k").unwrap();
    let outcome = EffectOutcome::Done("1".into());
    let record = EffectRecord { key, request: Fingerprint::NONE, outcome };
    let appending = tokio::spawn({
        let (store, claim, record) = (store.clone(), claim.clone(), record.clone());
        async move { store.append(&claim, record, vec![]).await }
    });
    // Reads still work, and our write has not happened yet.
    for _ in 0..20 {
        assert_eq!(store.records(&claim.run).await.unwrap(), []);
    }
    assert!(!appending.is_finished());
    writing.rollback().unwrap();
    appending.await.unwrap().unwrap();
    assert_eq!(store.records(&claim.run).await.unwrap(), [record]);
}

#[tokio::test]
async fn removing_a_run_shrinks_the_file_and_erases_the_data_of_the_run() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path).unwrap();
    let claim = fill(&store, 1000).await;
    drop(store);
    let full = fs::metadata(&path).unwrap().len();
    let store = open(&path).unwrap();
    store.remove_run(&claim).await.unwrap();
    drop(store);
    let left = fs::read(&path).unwrap();
    assert!(left.len() as u64 * 4 < full, "{} of {full} bytes are left", left.len());
    let title = "a title".as_bytes();
    assert!(!left.windows(title.len()).any(|bytes| bytes == title), "the title was not erased");
}

#[tokio::test]
async fn equal_large_record_bodies_are_stored_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path).unwrap();
    let claim = fill(&store, 0).await;
    let body = format!("\"{}\"", "long ".repeat(200_000));
    for number in 0..5 {
        let key = EffectKey::new(&format!("k{number}")).unwrap();
        let outcome = EffectOutcome::Done(body.clone());
        let record = EffectRecord { key, request: Fingerprint::NONE, outcome };
        store.append(&claim, record, vec![]).await.unwrap();
    }
    assert_eq!(store.records(&claim.run).await.unwrap().len(), 5);
    drop(store);
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes < 1_300_000, "{bytes} bytes for one body of 1,000,002");
}

#[tokio::test]
async fn store_opened_for_reading_is_not_written() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    assert!(matches!(
        SqliteStore::open(&path, Access::Read).unwrap_err(),
        StoreError::CannotOpen { .. }
    ));
    assert!(!path.exists());
    // A process that is killed before it creates the tables leaves an empty file.
    fs::write(&path, "").unwrap();
    assert!(matches!(
        SqliteStore::open(&path, Access::Read).unwrap_err(),
        StoreError::Empty { .. }
    ));
    let claim = fill(&open(&path).unwrap(), 2).await;
    let store = SqliteStore::open(&path, Access::Read).unwrap();
    assert_eq!(store.records(&claim.run).await.unwrap().len(), 2);
    let error = store.remove_run(&claim).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
}

#[tokio::test]
async fn stores_opened_on_the_same_file_see_each_others_writes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    // The stores are opened concurrently: one creates the tables, the others wait.
    let threads = [0, 1, 2, 3].map(|_| {
        let path = path.clone();
        std::thread::spawn(move || open(&path).unwrap())
    });
    let stores = threads.map(|thread| thread.join().unwrap());
    let claim = fill(&stores[0], 5).await;
    assert_eq!(stores[1].records(&claim.run).await.unwrap().len(), 5);
    let later = stores[2].claim(&claim.run, "you", None).await.unwrap();
    let record = |key: &str| EffectRecord {
        key: EffectKey::new(key).unwrap(),
        request: Fingerprint::NONE,
        outcome: EffectOutcome::Done("1".into()),
    };
    let error = stores[0].append(&claim, record("x"), vec![]).await.unwrap_err();
    assert!(matches!(error, StoreError::Fenced(_)), "{error}");
    stores[3].append(&later, record("x"), vec![]).await.unwrap();
    // `wait_for_entry` also returns for events that were written through another `SqliteStore`.
    let last = stores[1].last_event().await.unwrap();
    let events = vec![GraphEvent::new("written", Value::Null)];
    let (grown, appended) = tokio::join!(
        stores[1].wait_for_entry(StoreLog::Events, last),
        stores[3].append(&later, record("y"), events)
    );
    grown.unwrap();
    let Appended::Recorded { event_ids } = appended.unwrap() else { panic!("key exists") };
    assert_eq!(stores[1].last_event().await.unwrap(), event_ids[0]);
}
