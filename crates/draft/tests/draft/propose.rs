//! Whole files that a worker without tools submits.

use assize_draft::{Answer, DraftError, NewContent, Proposal, Seen, Stage, Submitted};
use assize_run::NewAuditEntry;

use crate::office::{Office, TASK, WATCHDOG, WORKER, rules};

const PATH: &str = "src/watchdog.py";

fn changed() -> String {
    format!("{WATCHDOG}# end\n")
}

async fn propose(
    office: &Office,
    key: &str,
    contents: &[NewContent<'_>],
) -> Result<Submitted, DraftError> {
    let proposal = Proposal { key, task_id: TASK, summary: "a change", contents };
    office.another().propose(WORKER, proposal).await
}

#[tokio::test]
async fn proposal_that_the_user_reverted_is_submitted_anew() {
    let office = Office::new();
    let content = changed();
    let new = [NewContent { path: PATH, content: &content, seen: Seen::Text(WATCHDOG) }];
    let first = propose(&office, "run-1/step-1", &new).await.unwrap();
    assert_eq!((first.verdict, first.submission), (Answer::Accepted, 1));
    office.put(PATH, WATCHDOG);
    let second = propose(&office, "run-2/step-1", &new).await.unwrap();
    assert_eq!((second.verdict, second.submission), (Answer::Accepted, 2));
    assert_eq!(office.text(PATH), content);
}

/// A run that is resumed after a crash sends the same request again.
#[tokio::test]
async fn proposal_with_the_same_key_is_submitted_once() {
    let office = Office::new();
    office.put("same.py", "x = 1\n");
    let content = changed();
    let new = [
        NewContent { path: "same.py", content: "x = 1\n", seen: Seen::Text("x = 1\n") },
        NewContent { path: PATH, content: &content, seen: Seen::Text(WATCHDOG) },
    ];
    let first = propose(&office, "run-1/step-1", &new).await.unwrap();
    assert_eq!((first.verdict, first.files.as_slice()), (Answer::Accepted, &[PATH.to_owned()][..]));
    let again = propose(&office, "run-1/step-1", &new).await.unwrap();
    assert_eq!((again.verdict, again.submission), (Answer::Accepted, first.submission));
    assert_eq!(office.desk.state().await.unwrap().submissions.len(), 1);
}

#[tokio::test]
async fn file_deleted_or_created_since_it_was_shown_is_a_conflict() {
    let office = Office::new();
    std::fs::remove_file(office.repo(PATH)).unwrap();
    let content = changed();
    let deleted = [NewContent { path: PATH, content: &content, seen: Seen::Text(WATCHDOG) }];
    let escalated = propose(&office, "run-1/step-1", &deleted).await.unwrap();
    assert_eq!(escalated.verdict, Answer::Escalated);
    assert_eq!(rules(&escalated), ["conflict"]);
    assert!(!office.repo(PATH).exists());

    office.put("new.py", "mine = 1\n");
    let created = [NewContent { path: "new.py", content: "x = 1\n", seen: Seen::Absent }];
    let escalated = propose(&office, "run-1/step-2", &created).await.unwrap();
    assert_eq!(escalated.verdict, Answer::Escalated);
    assert_eq!(rules(&escalated), ["conflict"]);
    assert_eq!(office.text("new.py"), "mine = 1\n");

    // Files that are as they were shown are no conflict: a missing one, and one without content.
    let absent = [NewContent { path: "other.py", content: "x = 1\n", seen: Seen::Absent }];
    let accepted = propose(&office, "run-1/step-3", &absent).await.unwrap();
    assert_eq!(accepted.verdict, Answer::Accepted, "{:?}", accepted.reasons);
    office.put("empty.py", "");
    let empty = [NewContent { path: "empty.py", content: "x = 1\n", seen: Seen::Text("") }];
    let accepted = propose(&office, "run-1/step-4", &empty).await.unwrap();
    assert_eq!(accepted.verdict, Answer::Accepted, "{:?}", accepted.reasons);
}

#[tokio::test]
async fn waiting_proposal_is_not_submitted_twice() {
    let office = Office::new();
    office.put("Cargo.lock", "a\n");
    let lock = NewContent { path: "Cargo.lock", content: "b\n", seen: Seen::Text("a\n") };
    let waiting = propose(&office, "run-1/step-1", &[lock]).await.unwrap();
    assert_eq!(waiting.verdict, Answer::Escalated);
    let same = propose(&office, "run-2/step-1", &[lock]).await.unwrap();
    assert_eq!((same.verdict, same.submission), (Answer::Escalated, waiting.submission));
    let other = NewContent { content: "c\n", ..lock };
    let refused = propose(&office, "run-2/step-2", &[other]).await.unwrap_err();
    assert!(refused.to_string().contains("(submission 1)"), "{refused}");
    // An unchanged copy of the waiting file does not stop another change.
    let content = changed();
    let unchanged = NewContent { content: "a\n", ..lock };
    let change = NewContent { path: PATH, content: &content, seen: Seen::Text(WATCHDOG) };
    let accepted = propose(&office, "run-2/step-3", &[unchanged, change]).await.unwrap();
    assert_eq!(accepted.verdict, Answer::Accepted);
}

/// The store may record the entry of a cancelled caller after the next caller has read the log.
#[tokio::test]
async fn late_entry_of_a_cancelled_caller_gets_a_number_of_its_own() {
    let office = Office::new();
    let accepted = office.propose(PATH, &changed()).await;
    assert_eq!(accepted.submission, 1);
    let entries = office.desk.entries().await.unwrap();
    let entry = entries.iter().find(|entry| entry.action == "submitted").unwrap().clone();
    let (actor, action, subject) = (entry.actor, entry.action, entry.subject);
    let late = NewAuditEntry { actor, action, subject, detail: entry.detail };
    let late = office.store.audit(late).await.unwrap();
    let book = office.desk.state().await.unwrap();
    let numbers: Vec<(u64, u64, Stage)> =
        book.submissions.values().map(|s| (s.id, s.entry, s.stage)).collect();
    assert_eq!(numbers, [(1, entry.id, Stage::Accepted), (2, late.id, Stage::Submitted)]);
    let next = office.propose("other.py", "x = 1\n").await;
    assert_eq!(next.submission, 3);
}

#[tokio::test]
async fn late_entry_with_a_known_key_is_the_same_submission() {
    let office = Office::new();
    let content = changed();
    let new = [NewContent { path: PATH, content: &content, seen: Seen::Text(WATCHDOG) }];
    propose(&office, "run-1/step-1", &new).await.unwrap();
    let entries = office.desk.entries().await.unwrap();
    let entry = entries.iter().find(|entry| entry.action == "submitted").unwrap().clone();
    let (actor, action, subject) = (entry.actor, entry.action, entry.subject);
    let late = NewAuditEntry { actor, action, subject, detail: entry.detail };
    office.store.audit(late).await.unwrap();
    let book = office.desk.state().await.unwrap();
    let stages: Vec<Stage> = book.submissions.values().map(|s| s.stage).collect();
    assert_eq!(stages, [Stage::Accepted]);
}
