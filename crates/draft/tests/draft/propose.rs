//! Tests of proposals: whole files that an agent without tools submits.

use assize_draft::{
    DraftError, FileProposal, ProposedContent, SeenFile, SubmissionStage, SubmissionStatus,
    SubmitResponse,
};
use assize_run::NewAuditEntry;

use crate::fixture::{AGENT, Fixture, TASK, WATCHDOG, rules};

const PATH: &str = "src/watchdog.py";

fn changed() -> String {
    format!("{WATCHDOG}# end\n")
}

async fn propose(
    fixture: &Fixture,
    key: &str,
    contents: &[ProposedContent<'_>],
) -> Result<SubmitResponse, DraftError> {
    let proposal = FileProposal { key, task_id: TASK, summary: "a change", contents };
    fixture.another().propose(AGENT, proposal).await
}

#[tokio::test]
async fn same_proposal_is_accepted_with_a_new_key_after_the_user_reverted_the_file() {
    let fixture = Fixture::new();
    let content = changed();
    let new = [ProposedContent { path: PATH, content: &content, seen: SeenFile::Text(WATCHDOG) }];
    let first = propose(&fixture, "run-1/step-1", &new).await.unwrap();
    assert_eq!((first.verdict, first.submission), (SubmissionStatus::Accepted, 1));
    fixture.put(PATH, WATCHDOG);
    let second = propose(&fixture, "run-2/step-1", &new).await.unwrap();
    assert_eq!((second.verdict, second.submission), (SubmissionStatus::Accepted, 2));
    assert_eq!(fixture.text(PATH), content);
}

/// A run that is resumed after a crash sends the same proposal again.
#[tokio::test]
async fn proposal_with_the_same_key_is_submitted_once() {
    let fixture = Fixture::new();
    fixture.put("same.py", "x = 1\n");
    let content = changed();
    let new = [
        ProposedContent { path: "same.py", content: "x = 1\n", seen: SeenFile::Text("x = 1\n") },
        ProposedContent { path: PATH, content: &content, seen: SeenFile::Text(WATCHDOG) },
    ];
    let first = propose(&fixture, "run-1/step-1", &new).await.unwrap();
    assert_eq!(
        (first.verdict, first.files.as_slice()),
        (SubmissionStatus::Accepted, &[PATH.to_owned()][..])
    );
    let again = propose(&fixture, "run-1/step-1", &new).await.unwrap();
    assert_eq!((again.verdict, again.submission), (SubmissionStatus::Accepted, first.submission));
    assert_eq!(fixture.service.state().await.unwrap().submissions.len(), 1);
}

#[tokio::test]
async fn file_deleted_or_created_after_the_model_read_it_is_a_conflict() {
    let fixture = Fixture::new();
    std::fs::remove_file(fixture.repo(PATH)).unwrap();
    let content = changed();
    let deleted =
        [ProposedContent { path: PATH, content: &content, seen: SeenFile::Text(WATCHDOG) }];
    let escalated = propose(&fixture, "run-1/step-1", &deleted).await.unwrap();
    assert_eq!(escalated.verdict, SubmissionStatus::Escalated);
    assert_eq!(rules(&escalated), ["conflict"]);
    assert!(!fixture.repo(PATH).exists());

    fixture.put("new.py", "mine = 1\n");
    let created = [ProposedContent { path: "new.py", content: "x = 1\n", seen: SeenFile::Absent }];
    let escalated = propose(&fixture, "run-1/step-2", &created).await.unwrap();
    assert_eq!(escalated.verdict, SubmissionStatus::Escalated);
    assert_eq!(rules(&escalated), ["conflict"]);
    assert_eq!(fixture.text("new.py"), "mine = 1\n");

    // Files unchanged since they were shown are not a conflict: a missing file, and an empty file.
    let absent = [ProposedContent { path: "other.py", content: "x = 1\n", seen: SeenFile::Absent }];
    let accepted = propose(&fixture, "run-1/step-3", &absent).await.unwrap();
    assert_eq!(accepted.verdict, SubmissionStatus::Accepted, "{:?}", accepted.reasons);
    fixture.put("empty.py", "");
    let empty =
        [ProposedContent { path: "empty.py", content: "x = 1\n", seen: SeenFile::Text("") }];
    let accepted = propose(&fixture, "run-1/step-4", &empty).await.unwrap();
    assert_eq!(accepted.verdict, SubmissionStatus::Accepted, "{:?}", accepted.reasons);
}

#[tokio::test]
async fn waiting_proposal_is_not_submitted_twice() {
    let fixture = Fixture::new();
    fixture.put("Cargo.lock", "a\n");
    let lock = ProposedContent { path: "Cargo.lock", content: "b\n", seen: SeenFile::Text("a\n") };
    let waiting = propose(&fixture, "run-1/step-1", &[lock]).await.unwrap();
    assert_eq!(waiting.verdict, SubmissionStatus::Escalated);
    let same = propose(&fixture, "run-2/step-1", &[lock]).await.unwrap();
    assert_eq!((same.verdict, same.submission), (SubmissionStatus::Escalated, waiting.submission));
    let other = ProposedContent { content: "c\n", ..lock };
    let refused = propose(&fixture, "run-2/step-2", &[other]).await.unwrap_err();
    assert!(refused.to_string().contains("(submission 1)"), "{refused}");
    // An unchanged copy of the waiting file does not stop another change.
    let content = changed();
    let unchanged = ProposedContent { content: "a\n", ..lock };
    let change = ProposedContent { path: PATH, content: &content, seen: SeenFile::Text(WATCHDOG) };
    let accepted = propose(&fixture, "run-2/step-3", &[unchanged, change]).await.unwrap();
    assert_eq!(accepted.verdict, SubmissionStatus::Accepted);
}

/// The store may record the log entry of a cancelled caller after the next caller has read the log.
#[tokio::test]
async fn late_log_entry_of_a_cancelled_caller_gets_a_new_submission_number() {
    let fixture = Fixture::new();
    let accepted = fixture.propose(PATH, &changed()).await;
    assert_eq!(accepted.submission, 1);
    let entries = fixture.service.entries().await.unwrap();
    let entry = entries.iter().find(|entry| entry.action == "submitted").unwrap().clone();
    let (actor, action, subject) = (entry.actor, entry.action, entry.subject);
    let late = NewAuditEntry { actor, action, subject, detail: entry.detail };
    let late = fixture.store.audit(late).await.unwrap();
    let state = fixture.service.state().await.unwrap();
    let numbers: Vec<(u64, u64, SubmissionStage)> =
        state.submissions.values().map(|s| (s.id, s.entry, s.stage)).collect();
    assert_eq!(
        numbers,
        [(1, entry.id, SubmissionStage::Accepted), (2, late.id, SubmissionStage::Submitted)]
    );
    let next = fixture.propose("other.py", "x = 1\n").await;
    assert_eq!(next.submission, 3);
}

#[tokio::test]
async fn late_log_entry_with_a_known_idempotency_key_creates_no_submission() {
    let fixture = Fixture::new();
    let content = changed();
    let new = [ProposedContent { path: PATH, content: &content, seen: SeenFile::Text(WATCHDOG) }];
    propose(&fixture, "run-1/step-1", &new).await.unwrap();
    let entries = fixture.service.entries().await.unwrap();
    let entry = entries.iter().find(|entry| entry.action == "submitted").unwrap().clone();
    let (actor, action, subject) = (entry.actor, entry.action, entry.subject);
    let late = NewAuditEntry { actor, action, subject, detail: entry.detail };
    fixture.store.audit(late).await.unwrap();
    let state = fixture.service.state().await.unwrap();
    let stages: Vec<SubmissionStage> = state.submissions.values().map(|s| s.stage).collect();
    assert_eq!(stages, [SubmissionStage::Accepted]);
}

#[tokio::test]
async fn file_mentioned_in_a_task_is_found_by_its_exact_path_or_by_its_unique_file_name() {
    let fixture = Fixture::new();
    for path in ["a.py", "lib/a.py", "lib/b.py", "lib/c.py", "app/c.py"] {
        fixture.put(path, "x = 1\n");
    }
    let named = fixture.service.files_named_in("Change a.py, `b.py` and c.py.").await.unwrap();
    assert_eq!(named, ["a.py", "lib/b.py"]);
    let named = fixture.service.files_named_in("Move ./app/c.py to lib").await.unwrap();
    assert_eq!(named, ["app/c.py"]);
}
