//! How often a submission takes the lock and reads the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use assize_draft::{Answer, DraftService, Options};
use assize_gate::{Job, NotVerified, Policy, Ran, Verifier, Verify};
use async_trait::async_trait;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::office::{Office, TASK, WATCHDOG, WORKER, small_files};

const PATH: &str = "src/watchdog.py";

/// Counts of the events that a transaction traces.
#[derive(Debug, Default)]
struct Counts {
    locks: AtomicUsize,
    reads: AtomicUsize,
}

impl Counts {
    /// The counts so far, which begin anew.
    fn take(&self) -> (usize, usize) {
        (self.locks.swap(0, Ordering::Relaxed), self.reads.swap(0, Ordering::Relaxed))
    }
}

struct Counter(Arc<Counts>);

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("assize_draft::")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let count = match event.metadata().target() {
            "assize_draft::lock" => &self.0.locks,
            "assize_draft::log_read" => &self.0.reads,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Counts the locks and reads of this test alone: its runtime has one thread.
fn counting() -> (Arc<Counts>, tracing::subscriber::DefaultGuard) {
    let counts = Arc::new(Counts::default());
    (counts.clone(), tracing::subscriber::set_default(Counter(counts)))
}

/// Submits a change; gives how often that took the lock and read the log.
async fn submit(office: &Office, counts: &Counts, round: usize) -> (usize, usize) {
    let draft = office.request(PATH).await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, &format!("{WATCHDOG}# {round}\n")).await.unwrap();
    counts.take();
    let submitted = office.submit(&draft, PATH).await.unwrap();
    assert_eq!(submitted.verdict, Answer::Accepted, "{submitted:?}");
    counts.take()
}

#[tokio::test]
async fn submission_is_one_transaction() {
    let (counts, _counting) = counting();
    let office = Office::new();
    for round in 0..3 {
        assert_eq!(submit(&office, &counts, round).await, (1, 1));
    }
    // A call of its own each: request and write.
    let draft = office.request("other.py").await.unwrap().draft_path;
    assert_eq!(counts.take(), (1, 1));
    office.desk.write(WORKER, &draft, "x = 1\n").await.unwrap();
    assert_eq!(counts.take(), (1, 1));
}

#[tokio::test]
async fn verified_submission_is_two_transactions() {
    let (counts, _counting) = counting();
    let policy = Policy { verify: vec![Verify::command("true")], ..small_files() };
    let verifier: Option<Arc<dyn Verifier>> = Some(Arc::new(Passes));
    let office = Office::with(Options { policy, verifier, ..Options::default() });
    for round in 0..3 {
        assert_eq!(submit(&office, &counts, round).await, (2, 2));
    }
}

/// Entries of another workspace in the same store are a gap, which is read once.
#[tokio::test]
async fn entries_of_another_workspace_cost_one_more_read() {
    let (counts, _counting) = counting();
    let office = Office::new();
    submit(&office, &counts, 0).await;
    let other = tempfile::tempdir().unwrap();
    let state = office.folder.path().join("state/drafts");
    let options = Options::default();
    let other = DraftService::open(other.path(), &state, office.store.clone(), options).unwrap();
    let draft = office.request(PATH).await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, &format!("{WATCHDOG}# 1\n")).await.unwrap();
    other.request(WORKER, "a.py", TASK).await.unwrap();
    counts.take();
    office.submit(&draft, PATH).await.unwrap();
    assert_eq!(counts.take(), (1, 2));
}

/// A verifier whose commands always pass.
#[derive(Debug)]
struct Passes;

#[async_trait]
impl Verifier for Passes {
    async fn run(&self, _: Job<'_>) -> Result<Ran, NotVerified> {
        Ok(Ran { passed: true, ..Ran::default() })
    }
}
