//! What people decide, and what they can take back.

use std::time::Duration;

use assize_config::Review;
use assize_draft::{Answer, DraftError, Force, Stage};
use assize_gate::Policy;

use crate::office::{Office, WATCHDOG, WORKER, number, rules};

fn always() -> Office {
    Office::under(Policy { review: Review::Always, ..Policy::default() })
}

#[tokio::test]
async fn a_person_accepts_rejects_and_takes_back() {
    let office = always();
    let changed = format!("{WATCHDOG}# end\n");
    let escalated = office.propose("src/watchdog.py", &changed).await;
    assert_eq!((escalated.verdict, rules(&escalated)), (Answer::Escalated, vec!["review"]));
    assert_eq!(office.drafts().len(), 2);
    let id = number(&escalated);
    office.desk.accept("ann", id, Force::No).await.unwrap();
    assert_eq!(office.text("src/watchdog.py"), changed);
    assert!(office.drafts().is_empty());
    let told = office.desk.accept("ann", id, Force::No).await.unwrap_err().to_string();
    assert!(told.contains("is accepted, and waits for nobody"), "{told}");
    office.desk.undo("ann", id).await.unwrap();
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
    assert!(matches!(office.desk.undo("ann", id).await, Err(DraftError::Wrong(_))));
    let book = office.desk.state().await.unwrap();
    assert_eq!(book.submissions[&id].stage, Stage::Undone);

    let second = office.propose("src/watchdog.py", "x = 1\n").await;
    office.desk.reject("ann", number(&second), "keep the shebang").await.unwrap();
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
    let next = office.request("src/watchdog.py").await.unwrap();
    let kinds: Vec<String> = next.messages.iter().map(|m| format!("{:?}", m.kind)).collect();
    assert_eq!(kinds, ["DraftAccepted", "DraftUndone", "DraftRejected"].map(str::to_owned)[2..]);
    assert!(next.messages[0].reasons[0].message.contains("keep the shebang"));
}

#[tokio::test]
async fn a_changed_original_is_a_conflict_and_nothing_is_lost() {
    let office = Office::new();
    let draft = office.request("src/watchdog.py").await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, &format!("{WATCHDOG}# theirs\n")).await.unwrap();
    let mine = format!("{WATCHDOG}# mine\n");
    office.put("src/watchdog.py", &mine);
    let escalated = office.submit(&draft, "src/watchdog.py").await.unwrap();
    assert_eq!((escalated.verdict, rules(&escalated)), (Answer::Escalated, vec!["conflict"]));
    assert_eq!(office.text("src/watchdog.py"), mine);
    let id = number(&escalated);
    assert!(matches!(office.desk.accept("ann", id, Force::No).await, Err(DraftError::Conflict(_))));
    assert_eq!(office.text("src/watchdog.py"), mine);
    office.desk.accept("ann", id, Force::Yes).await.unwrap();
    assert_eq!(office.text("src/watchdog.py"), format!("{WATCHDOG}# theirs\n"));
    // What was replaced was kept.
    office.desk.undo("ann", id).await.unwrap();
    assert_eq!(office.text("src/watchdog.py"), mine);
    // The worker can start from what is there now.
    let again = office.request("src/watchdog.py").await.unwrap();
    assert_eq!(office.desk.read(WORKER, &again.draft_path).await.unwrap().content, mine);
}

#[tokio::test]
async fn a_draft_whose_file_has_changed_starts_anew_when_it_is_asked_for() {
    let office = Office::new();
    let draft = office.request("src/watchdog.py").await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, "x = 1\n").await.unwrap();
    office.put("src/watchdog.py", "y = 1\n");
    let again = office.request("src/watchdog.py").await.unwrap();
    assert_eq!(again.draft_path, draft);
    assert!(again.note.unwrap().contains("starts again from what it is now"));
    assert_eq!(office.desk.read(WORKER, &draft).await.unwrap().content, "y = 1\n");
    assert_eq!(office.propose("src/watchdog.py", "y = 2\n").await.verdict, Answer::Accepted);
}

#[tokio::test]
async fn what_changed_after_it_was_accepted_is_not_taken_back() {
    let office = Office::new();
    let accepted = office.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    office.put("src/watchdog.py", "later\n");
    let told = office.desk.undo("ann", number(&accepted)).await.unwrap_err();
    assert!(matches!(told, DraftError::Conflict(_)), "{told}");
    assert_eq!(office.text("src/watchdog.py"), "later\n");
    // Once it is again what was accepted, it can be.
    office.put("src/watchdog.py", format!("{WATCHDOG}# end\n"));
    office.desk.undo("ann", number(&accepted)).await.unwrap();
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
}

#[tokio::test]
async fn what_is_old_is_put_away_and_what_waits_is_not() {
    let office = Office::new();
    let accepted = office.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    office.put("Cargo.lock", "a\n");
    let waiting = office.propose("Cargo.lock", "b\n").await;
    office.request("src/watchdog.py").await.unwrap();
    let now = office.desk.entries().await.unwrap().last().unwrap().at;
    let keep = Duration::from_secs(60);
    let cleared = office.desk.sweep("ann", now, keep).await.unwrap();
    assert_eq!((cleared.submissions, cleared.drafts, cleared.copies), (0, 0, 0));
    let cleared = office.desk.sweep("ann", now + 61_000, keep).await.unwrap();
    assert_eq!((cleared.submissions, cleared.drafts), (1, 1));
    assert!(cleared.copies > 0);
    let told = office.desk.undo("ann", number(&accepted)).await.unwrap_err().to_string();
    assert!(told.contains("is not kept any more"), "{told}");
    office.desk.accept("ann", number(&waiting), Force::No).await.unwrap();
    assert_eq!(office.text("Cargo.lock"), "b\n");
}

#[tokio::test]
async fn the_tools_can_be_switched_off() {
    let office = Office::new();
    let other = office.another();
    assert!(other.switch("ann", false).await.unwrap());
    assert!(!other.switch("ann", false).await.unwrap());
    let told = office.request("src/watchdog.py").await.unwrap_err().to_string();
    assert!(told.contains("switched off"), "{told}");
    assert!(other.switch("ann", true).await.unwrap());
    assert!(office.request("src/watchdog.py").await.is_ok());
}

#[tokio::test]
async fn drafts_folder_with_folders_in_it_is_emptied() {
    let office = Office::new();
    office.put("Cargo.lock", "a\n");
    let waiting = office.propose("Cargo.lock", "b\n").await;
    let open = office.request("src/watchdog.py").await.unwrap().draft_path;
    // One folder stands in the place of an open draft.
    std::fs::remove_file(office.repo(&open)).unwrap();
    office.put(&format!("{open}/mine.txt"), "mine");
    office.put("_handoff/drafts/a-folder/mine.txt", "mine");
    office.put("_handoff/drafts/.new-0123", "unfinished");
    office.put("_handoff/drafts/left-behind.txt", "x");
    let emptied = office.desk.empty("ann").await.unwrap();
    assert_eq!((emptied.rejected, emptied.drafts, emptied.files), (1, 1, 1));
    assert_eq!(emptied.left.len(), 2);
    assert_eq!(office.drafts(), emptied.left);
    let book = office.desk.state().await.unwrap();
    assert_eq!(book.submissions[&number(&waiting)].stage, Stage::Rejected);
    assert!(book.drafts.is_empty());
}
