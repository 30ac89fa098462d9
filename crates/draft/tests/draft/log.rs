//! The log: whatever is done to it shows.

use std::fs;

use assize_draft::{Mirror, Step, tools};
use assize_run::{AuditQuery, AuditVerdict};

use crate::office::{Office, WATCHDOG};

#[tokio::test]
async fn every_change_of_the_log_in_the_workspace_shows() {
    let office = Office::new();
    for round in 0..3 {
        office.propose("src/watchdog.py", &format!("{WATCHDOG}# {round}\n")).await;
    }
    let path = office.repo("_handoff/transition.ndjson");
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let log = office.store.audit_log(AuditQuery::default()).await.unwrap();
    assert_eq!(lines.len(), log.len());
    let head = office.store.audit_head().await.unwrap();
    assert_eq!(AuditVerdict::of(&log, head), AuditVerdict::Intact { entries: 12 });
    for entry in &log {
        assert_eq!(entry.subject, office.desk.workspace().display().to_string());
        assert!(Step::of(entry).is_ok());
    }
    assert_eq!(office.desk.compare_logs().await.unwrap(), Mirror::Same);
    let join = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    let mut missing = lines.clone();
    missing.remove(4);
    for (what, text, verdict) in [
        ("edited", whole.replacen("a change", "b change", 1), Mirror::Changed { line: 2 }),
        ("swapped", join(&swapped), Mirror::Changed { line: 3 }),
        ("missing", join(&missing), Mirror::Changed { line: 5 }),
        ("longer", format!("{whole}{{}}\n"), Mirror::Changed { line: 13 }),
        ("cut off", join(&lines[..7]), Mirror::Short { lines: 7 }),
        ("torn", whole[..whole.len() - 9].to_owned(), Mirror::Short { lines: 11 }),
        ("empty", String::new(), Mirror::Short { lines: 0 }),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(office.desk.compare_logs().await.unwrap(), verdict, "{what}");
    }
    fs::remove_dir_all(office.repo("_handoff")).unwrap();
    assert_eq!(office.desk.compare_logs().await.unwrap(), Mirror::Short { lines: 0 });
}

#[tokio::test]
async fn what_a_crash_cut_off_is_completed_and_said() {
    let office = Office::new();
    office.propose("src/watchdog.py", &format!("{WATCHDOG}# 1\n")).await;
    let path = office.repo("_handoff/transition.ndjson");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    let next = office.another();
    next.request("worker", "src/watchdog.py", "t").await.unwrap();
    assert_eq!(next.compare_logs().await.unwrap(), Mirror::Same);
    let said = next.entries().await.unwrap();
    let completed = Step::LogCompleted { lines_there: 3, lines_added: 1 };
    assert!(said.iter().any(|entry| Step::of(entry).unwrap() == completed), "{said:?}");
    // What was changed is not hidden under what is new.
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replacen("a change", "b change", 1)).unwrap();
    office.another().request("worker", "README.md", "t").await.unwrap();
    assert_eq!(office.desk.compare_logs().await.unwrap(), Mirror::Changed { line: 2 });
}

/// Whoever cleans up under a process that goes on loses nothing but the copy, which comes back.
#[tokio::test]
async fn a_log_that_somebody_cleaned_away_comes_back() {
    let office = Office::new();
    office.propose("src/watchdog.py", &format!("{WATCHDOG}# 1\n")).await;
    fs::remove_dir_all(office.repo("_handoff")).unwrap();
    let accepted = office.propose("src/watchdog.py", &format!("{WATCHDOG}# 2\n")).await;
    assert_eq!(accepted.verdict, assize_draft::Answer::Accepted);
    assert_eq!(office.desk.compare_logs().await.unwrap(), Mirror::Same);
    // The same after a half-written line, with another process in between.
    let path = office.repo("_handoff/transition.ndjson");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    office.desk.request("worker", "README.md", "t").await.unwrap();
    office.another().request("worker", "OTHER.md", "t").await.unwrap();
    office.desk.request("worker", "THIRD.md", "t").await.unwrap();
    assert_eq!(office.desk.compare_logs().await.unwrap(), Mirror::Same);
}

#[tokio::test]
async fn the_log_of_a_folder_that_was_moved_is_put_aside() {
    let office = Office::new();
    office.propose("src/watchdog.py", &format!("{WATCHDOG}# 1\n")).await;
    fs::rename(office.repo(""), office.folder.path().join("moved")).unwrap();
    let moved = assize_draft::DraftService::open(
        &office.folder.path().join("moved"),
        &office.folder.path().join("state/drafts"),
        office.store.clone(),
        assize_draft::Options::default(),
    )
    .unwrap();
    moved.request("worker", "src/watchdog.py", "t").await.unwrap();
    assert_eq!(moved.compare_logs().await.unwrap(), Mirror::Same);
    let first = Step::of(&moved.entries().await.unwrap()[0]).unwrap();
    let Step::LogSetAside { name } = first else { panic!("{first:?}") };
    assert!(office.folder.path().join("moved/_handoff").join(name).exists());
    // Where many are about several folders, all of them are one chain.
    let log = office.store.audit_log(AuditQuery::default()).await.unwrap();
    let head = office.store.audit_head().await.unwrap();
    assert!(matches!(AuditVerdict::of(&log, head), AuditVerdict::Intact { .. }));
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_no_mark_on_the_log() {
    let office = Office::new();
    for most in 0..40 {
        let arguments =
            serde_json::json!({"source_path": "src/watchdog.py", "task_id": format!("t{most}")});
        let call = tools::call(&office.desk, "worker x", tools::REQUEST, &arguments);
        let mut call = std::pin::pin!(call);
        // Given up after so many steps, wherever it is then.
        let mut steps = 0;
        std::future::poll_fn(|context| {
            steps += 1;
            if steps > most || call.as_mut().poll(context).is_ready() {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }
    office.propose("src/watchdog.py", &format!("{WATCHDOG}# more\n")).await;
    assert_eq!(office.desk.compare_logs().await.unwrap(), Mirror::Same);
    let log = office.store.audit_log(AuditQuery::default()).await.unwrap();
    let head = office.store.audit_head().await.unwrap();
    assert!(matches!(AuditVerdict::of(&log, head), AuditVerdict::Intact { .. }));
}
