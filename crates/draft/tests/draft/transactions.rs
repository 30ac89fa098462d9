//! How often a submission takes the lock and reads the log.

#![expect(clippy::print_stdout, reason = "the numbers are what the test is for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::office::{Office, TASK, WATCHDOG, WORKER};

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

#[tokio::test]
async fn submission_takes_the_lock_and_reads_the_log_once() {
    let counts = Arc::new(Counts::default());
    let _counting = tracing::subscriber::set_default(Counter(counts.clone()));
    let office = Office::new();
    let mut seen = Vec::new();
    for round in 0..3 {
        let draft = office.request("src/watchdog.py").await.unwrap().draft_path;
        let requested = counts.take();
        let content = format!("{WATCHDOG}# {round}\n");
        office.desk.write(WORKER, &draft, &content).await.unwrap();
        let written = counts.take();
        office.submit(&draft, "src/watchdog.py").await.unwrap();
        seen.push([requested, written, counts.take()]);
    }
    println!("(locks, reads of the log) of request, write and submit of `{TASK}`: {seen:?}");
}
