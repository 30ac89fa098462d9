//! Tests of reviewers' decisions, undo, and cleanup.

use std::time::Duration;

use assize_config::Review;
use assize_draft::{DraftError, Force, SubmissionStage, SubmissionStatus};
use assize_gate::Policy;

use crate::fixture::{AGENT, Fixture, WATCHDOG, number, rules};

fn always() -> Fixture {
    Fixture::under(Policy { review: Review::Always, ..Policy::default() })
}

#[tokio::test]
async fn reviewer_can_accept_undo_and_reject_submissions() {
    let fixture = always();
    let changed = format!("{WATCHDOG}# end\n");
    let escalated = fixture.propose("src/watchdog.py", &changed).await;
    assert_eq!(
        (escalated.verdict, rules(&escalated)),
        (SubmissionStatus::Escalated, vec!["review"])
    );
    assert_eq!(fixture.drafts().len(), 2);
    let id = number(&escalated);
    fixture.service.accept("ann", id, Force::No).await.unwrap();
    assert_eq!(fixture.text("src/watchdog.py"), changed);
    assert!(fixture.drafts().is_empty());
    let message = fixture.service.accept("ann", id, Force::No).await.unwrap_err().to_string();
    assert!(message.contains("is already accepted"), "{message}");
    fixture.service.undo("ann", id).await.unwrap();
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
    assert!(matches!(fixture.service.undo("ann", id).await, Err(DraftError::InvalidRequest(_))));
    let state = fixture.service.state().await.unwrap();
    assert_eq!(state.submissions[&id].stage, SubmissionStage::Undone);

    let second = fixture.propose("src/watchdog.py", "x = 1\n").await;
    fixture.service.reject("ann", number(&second), "keep the shebang").await.unwrap();
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
    let next = fixture.request("src/watchdog.py").await.unwrap();
    let kinds: Vec<String> = next.messages.iter().map(|m| format!("{:?}", m.kind)).collect();
    assert_eq!(kinds, ["DraftAccepted", "DraftUndone", "DraftRejected"].map(str::to_owned)[2..]);
    assert!(next.messages[0].reasons[0].message.contains("keep the shebang"));
}

#[tokio::test]
async fn changed_file_is_overwritten_only_with_force_and_is_restored_by_undo() {
    let fixture = Fixture::new();
    let draft = fixture.request("src/watchdog.py").await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, &format!("{WATCHDOG}# theirs\n")).await.unwrap();
    let mine = format!("{WATCHDOG}# mine\n");
    fixture.put("src/watchdog.py", &mine);
    let escalated = fixture.submit(&draft, "src/watchdog.py").await.unwrap();
    assert_eq!(
        (escalated.verdict, rules(&escalated)),
        (SubmissionStatus::Escalated, vec!["conflict"])
    );
    assert_eq!(fixture.text("src/watchdog.py"), mine);
    let id = number(&escalated);
    assert!(matches!(
        fixture.service.accept("ann", id, Force::No).await,
        Err(DraftError::Conflict(_))
    ));
    assert_eq!(fixture.text("src/watchdog.py"), mine);
    fixture.service.accept("ann", id, Force::Yes).await.unwrap();
    assert_eq!(fixture.text("src/watchdog.py"), format!("{WATCHDOG}# theirs\n"));
    // Undo restores the content that the forced acceptance overwrote.
    fixture.service.undo("ann", id).await.unwrap();
    assert_eq!(fixture.text("src/watchdog.py"), mine);
    // A new draft starts from the current content of the file.
    let again = fixture.request("src/watchdog.py").await.unwrap();
    assert_eq!(fixture.service.read(AGENT, &again.draft_path).await.unwrap().content, mine);
}

#[tokio::test]
async fn draft_requested_again_for_a_changed_file_starts_from_the_new_content() {
    let fixture = Fixture::new();
    let draft = fixture.request("src/watchdog.py").await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, "x = 1\n").await.unwrap();
    fixture.put("src/watchdog.py", "y = 1\n");
    let again = fixture.request("src/watchdog.py").await.unwrap();
    assert_eq!(again.draft_path, draft);
    assert!(again.note.unwrap().contains("starts again from the current file"));
    assert_eq!(fixture.service.read(AGENT, &draft).await.unwrap().content, "y = 1\n");
    assert_eq!(
        fixture.propose("src/watchdog.py", "y = 2\n").await.verdict,
        SubmissionStatus::Accepted
    );
}

#[tokio::test]
async fn undo_of_a_file_changed_after_acceptance_is_a_conflict() {
    let fixture = Fixture::new();
    let accepted = fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    fixture.put("src/watchdog.py", "later\n");
    let message = fixture.service.undo("ann", number(&accepted)).await.unwrap_err();
    assert!(matches!(message, DraftError::Conflict(_)), "{message}");
    assert_eq!(fixture.text("src/watchdog.py"), "later\n");
    // Once the file has the accepted content again, undo works.
    fixture.put("src/watchdog.py", format!("{WATCHDOG}# end\n"));
    fixture.service.undo("ann", number(&accepted)).await.unwrap();
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
}

#[tokio::test]
async fn sweep_deletes_contents_of_old_decided_submissions_but_not_of_waiting_ones() {
    let fixture = Fixture::new();
    let accepted = fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    fixture.put("Cargo.lock", "a\n");
    let waiting = fixture.propose("Cargo.lock", "b\n").await;
    fixture.request("src/watchdog.py").await.unwrap();
    let now = fixture.service.entries().await.unwrap().last().unwrap().at;
    let keep = Duration::from_secs(60);
    let cleared = fixture.service.sweep("ann", now, keep).await.unwrap();
    assert_eq!((cleared.submissions, cleared.drafts, cleared.copies), (0, 0, 0));
    let cleared = fixture.service.sweep("ann", now + 61_000, keep).await.unwrap();
    assert_eq!((cleared.submissions, cleared.drafts), (1, 1));
    assert!(cleared.copies > 0);
    let message = fixture.service.undo("ann", number(&accepted)).await.unwrap_err().to_string();
    assert!(message.contains("the old file contents were deleted"), "{message}");
    fixture.service.accept("ann", number(&waiting), Force::No).await.unwrap();
    assert_eq!(fixture.text("Cargo.lock"), "b\n");
}

#[tokio::test]
async fn draft_tools_can_be_switched_off_and_on() {
    let fixture = Fixture::new();
    let other = fixture.another();
    assert!(other.switch("ann", false).await.unwrap());
    assert!(!other.switch("ann", false).await.unwrap());
    let message = fixture.request("src/watchdog.py").await.unwrap_err().to_string();
    assert!(message.contains("switched off"), "{message}");
    assert!(other.switch("ann", true).await.unwrap());
    assert!(fixture.request("src/watchdog.py").await.is_ok());
}

#[tokio::test]
async fn emptying_the_drafts_folder_keeps_its_subfolders() {
    let fixture = Fixture::new();
    fixture.put("Cargo.lock", "a\n");
    let waiting = fixture.propose("Cargo.lock", "b\n").await;
    let open = fixture.request("src/watchdog.py").await.unwrap().draft_path;
    // Replace an open draft with a folder.
    std::fs::remove_file(fixture.repo(&open)).unwrap();
    fixture.put(&format!("{open}/mine.txt"), "mine");
    fixture.put("_handoff/drafts/a-folder/mine.txt", "mine");
    fixture.put("_handoff/drafts/.new-0123", "unfinished");
    fixture.put("_handoff/drafts/left-behind.txt", "x");
    let emptied = fixture.service.empty("ann").await.unwrap();
    assert_eq!((emptied.rejected, emptied.drafts, emptied.files), (1, 1, 1));
    assert_eq!(emptied.left.len(), 2);
    assert_eq!(fixture.drafts(), emptied.left);
    let state = fixture.service.state().await.unwrap();
    assert_eq!(state.submissions[&number(&waiting)].stage, SubmissionStage::Rejected);
    assert!(state.drafts.is_empty());
}
