//! Tests that changes of the log file in the workspace are detected, and that a truncated log file is completed.

use std::fs;

use assize_draft::{DraftStep, LogComparison, tools};
use assize_run::{AuditQuery, AuditVerdict};

use crate::fixture::{Fixture, WATCHDOG};

#[tokio::test]
async fn log_comparison_detects_every_change_of_the_log_file() {
    let fixture = Fixture::new();
    for round in 0..3 {
        fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# {round}\n")).await;
    }
    let path = fixture.repo("_handoff/transition.ndjson");
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let log = fixture.store.audit_log(AuditQuery::default()).await.unwrap();
    assert_eq!(lines.len(), log.len());
    let head = fixture.store.audit_head().await.unwrap();
    assert_eq!(AuditVerdict::of(&log, head), AuditVerdict::Intact { entries: 12 });
    for entry in &log {
        assert_eq!(entry.subject, fixture.service.workspace().display().to_string());
        assert!(DraftStep::of(entry).is_ok());
    }
    assert_eq!(fixture.service.compare_logs().await.unwrap(), LogComparison::Same);
    let join = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    let mut missing = lines.clone();
    missing.remove(4);
    for (what, text, verdict) in [
        ("edited", whole.replacen("a change", "b change", 1), LogComparison::Changed { line: 2 }),
        ("swapped", join(&swapped), LogComparison::Changed { line: 3 }),
        ("missing", join(&missing), LogComparison::Changed { line: 5 }),
        ("longer", format!("{whole}{{}}\n"), LogComparison::Changed { line: 13 }),
        ("cut off", join(&lines[..7]), LogComparison::Short { lines: 7 }),
        ("torn", whole[..whole.len() - 9].to_owned(), LogComparison::Short { lines: 11 }),
        ("empty", String::new(), LogComparison::Short { lines: 0 }),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(fixture.service.compare_logs().await.unwrap(), verdict, "{what}");
    }
    fs::remove_dir_all(fixture.repo("_handoff")).unwrap();
    assert_eq!(fixture.service.compare_logs().await.unwrap(), LogComparison::Short { lines: 0 });
}

#[tokio::test]
async fn truncated_log_file_is_completed_and_the_repair_is_recorded() {
    let fixture = Fixture::new();
    fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# 1\n")).await;
    let path = fixture.repo("_handoff/transition.ndjson");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    let next = fixture.another();
    next.request("worker", "src/watchdog.py", "t").await.unwrap();
    assert_eq!(next.compare_logs().await.unwrap(), LogComparison::Same);
    let entries = next.entries().await.unwrap();
    let completed = DraftStep::LogCompleted { lines_present: 3, lines_added: 1 };
    assert!(entries.iter().any(|entry| DraftStep::of(entry).unwrap() == completed), "{entries:?}");
    // The comparison still reports a changed line after new lines are appended.
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replacen("a change", "b change", 1)).unwrap();
    fixture.another().request("worker", "README.md", "t").await.unwrap();
    assert_eq!(fixture.service.compare_logs().await.unwrap(), LogComparison::Changed { line: 2 });
}

/// If a user deletes the log file while a process runs, the process restores the log file from the store.
#[tokio::test]
async fn deleted_log_file_is_restored_from_the_store() {
    let fixture = Fixture::new();
    fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# 1\n")).await;
    fs::remove_dir_all(fixture.repo("_handoff")).unwrap();
    let accepted = fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# 2\n")).await;
    assert_eq!(accepted.verdict, assize_draft::SubmissionStatus::Accepted);
    assert_eq!(fixture.service.compare_logs().await.unwrap(), LogComparison::Same);
    // The log file is also restored after a half-written line, with another process in between.
    let path = fixture.repo("_handoff/transition.ndjson");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    fixture.service.request("worker", "README.md", "t").await.unwrap();
    fixture.another().request("worker", "OTHER.md", "t").await.unwrap();
    fixture.service.request("worker", "THIRD.md", "t").await.unwrap();
    assert_eq!(fixture.service.compare_logs().await.unwrap(), LogComparison::Same);
}

#[tokio::test]
async fn log_file_of_a_moved_workspace_is_renamed() {
    let fixture = Fixture::new();
    fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# 1\n")).await;
    fs::rename(fixture.repo(""), fixture.folder.path().join("moved")).unwrap();
    let moved = assize_draft::DraftService::open(
        &fixture.folder.path().join("moved"),
        &fixture.folder.path().join("state/drafts"),
        fixture.store.clone(),
        assize_draft::DraftOptions::default(),
    )
    .unwrap();
    moved.request("worker", "src/watchdog.py", "t").await.unwrap();
    assert_eq!(moved.compare_logs().await.unwrap(), LogComparison::Same);
    let first = DraftStep::of(&moved.entries().await.unwrap()[0]).unwrap();
    let DraftStep::LogSetAside { name } = first else { panic!("{first:?}") };
    assert!(fixture.folder.path().join("moved/_handoff").join(name).exists());
    // The audit log entries of both folders form one hash chain.
    let log = fixture.store.audit_log(AuditQuery::default()).await.unwrap();
    let head = fixture.store.audit_head().await.unwrap();
    assert!(matches!(AuditVerdict::of(&log, head), AuditVerdict::Intact { .. }));
}

#[tokio::test]
async fn cancelled_tool_calls_leave_the_audit_log_intact() {
    let fixture = Fixture::new();
    for max_polls in 0..40 {
        let arguments = serde_json::json!({"source_path": "src/watchdog.py", "task_id": format!("t{max_polls}")});
        let call = tools::call(&fixture.service, "worker x", tools::REQUEST, &arguments);
        let mut call = std::pin::pin!(call);
        // Cancel the call after `max_polls` polls, at any point of its execution.
        let mut polls = 0;
        std::future::poll_fn(|context| {
            polls += 1;
            if polls > max_polls || call.as_mut().poll(context).is_ready() {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }
    fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# more\n")).await;
    assert_eq!(fixture.service.compare_logs().await.unwrap(), LogComparison::Same);
    let log = fixture.store.audit_log(AuditQuery::default()).await.unwrap();
    let head = fixture.store.audit_head().await.unwrap();
    assert!(matches!(AuditVerdict::of(&log, head), AuditVerdict::Intact { .. }));
}
