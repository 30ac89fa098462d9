//! Tests how often a submission acquires the workspace lock and reads the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use assize_draft::{DraftOptions, DraftService, SubmissionStatus};
use assize_gate::{CommandOutcome, Policy, Verifier, VerifyCommand, VerifyError, VerifyJob};
use async_trait::async_trait;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::fixture::{AGENT, Fixture, TASK, WATCHDOG, small_files};

const PATH: &str = "src/watchdog.py";

/// How often transactions acquired the workspace lock and read the log, counted from their trace events.
#[derive(Debug, Default)]
struct Counts {
    locks: AtomicUsize,
    reads: AtomicUsize,
}

impl Counts {
    /// Returns and resets the counts.
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

/// Starts to count the lock acquisitions and log reads of the current thread. Each test has a runtime with one thread,
/// so the counts do not include other tests.
fn counting() -> (Arc<Counts>, tracing::subscriber::DefaultGuard) {
    let counts = Arc::new(Counts::default());
    (counts.clone(), tracing::subscriber::set_default(Counter(counts)))
}

/// Submits a change; returns how often the submit call acquired the workspace lock and read the log.
async fn submit(fixture: &Fixture, counts: &Counts, round: usize) -> (usize, usize) {
    let draft = fixture.request(PATH).await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, &format!("{WATCHDOG}# {round}\n")).await.unwrap();
    counts.take();
    let submitted = fixture.submit(&draft, PATH).await.unwrap();
    assert_eq!(submitted.verdict, SubmissionStatus::Accepted, "{submitted:?}");
    counts.take()
}

#[tokio::test]
async fn submission_without_tests_uses_one_transaction() {
    let (counts, _counting) = counting();
    let fixture = Fixture::new();
    for round in 0..3 {
        assert_eq!(submit(&fixture, &counts, round).await, (1, 1));
    }
    // A request call and a write call use one transaction each.
    let draft = fixture.request("other.py").await.unwrap().draft_path;
    assert_eq!(counts.take(), (1, 1));
    fixture.service.write(AGENT, &draft, "x = 1\n").await.unwrap();
    assert_eq!(counts.take(), (1, 1));
}

#[tokio::test]
async fn verified_submission_uses_two_transactions() {
    let (counts, _counting) = counting();
    let policy = Policy { verify: vec![VerifyCommand::command("true")], ..small_files() };
    let verifier: Option<Arc<dyn Verifier>> = Some(Arc::new(Passes));
    let fixture = Fixture::with(DraftOptions { policy, verifier, ..DraftOptions::default() });
    for round in 0..3 {
        assert_eq!(submit(&fixture, &counts, round).await, (2, 2));
    }
}

/// Log entries of another workspace in the same store cause a gap in the ids, so the log is read once more.
#[tokio::test]
async fn log_entries_of_another_workspace_cause_one_more_log_read() {
    let (counts, _counting) = counting();
    let fixture = Fixture::new();
    submit(&fixture, &counts, 0).await;
    let other = tempfile::tempdir().unwrap();
    let state = fixture.folder.path().join("state/drafts");
    let options = DraftOptions::default();
    let other = DraftService::open(other.path(), &state, fixture.store.clone(), options).unwrap();
    let draft = fixture.request(PATH).await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, &format!("{WATCHDOG}# 1\n")).await.unwrap();
    other.request(AGENT, "a.py", TASK).await.unwrap();
    counts.take();
    fixture.submit(&draft, PATH).await.unwrap();
    assert_eq!(counts.take(), (1, 2));
}

/// A verifier whose commands always pass.
#[derive(Debug)]
struct Passes;

#[async_trait]
impl Verifier for Passes {
    async fn run(&self, _: VerifyJob<'_>) -> Result<CommandOutcome, VerifyError> {
        Ok(CommandOutcome { passed: true, ..CommandOutcome::default() })
    }
}
