//! Tests of crashes at any moment and of I/O errors: a submission is applied completely or not at all.

#![expect(clippy::print_stdout, reason = "the killed child process prints that it is ready")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use assize_draft::{
    DraftOptions, DraftService, DraftStep, LogComparison, SubmissionStage, SubmissionStatus,
    SubmitRequest,
};
use assize_gate::machine_paths::PathScanner;
use assize_gate::secrets::SecretScanner;
use assize_run::NewAuditEntry;
use assize_store::{Access, Durability, SqliteStore};

use crate::fixture::{AGENT, Fixture, WATCHDOG, number, rules, small_files};

const CHILD: &str = "ASSIZE_TEST_DRAFT_CHILD";
/// Line that the child process prints once it is ready.
const READY: &str = "child is working";

/// Not a test: the code of a child process, which the next test starts and kills. The code changes two files again and
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn child_process_to_kill() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = Path::new(&folder);
    let path = folder.join("state/store.db");
    let store = SqliteStore::open(&path, Access::Write(Durability::ProcessCrash)).unwrap();
    let state = folder.join("state/drafts");
    let store = std::sync::Arc::new(store);
    let options = DraftOptions { policy: small_files(), ..DraftOptions::default() };
    let service = DraftService::open(&folder.join("repo"), &state, store, options).unwrap();
    let kill = fs::read_to_string(folder.join("kill")).unwrap();
    // Compile the gate's patterns before reporting ready, because this takes most of the start-up time.
    SecretScanner::get().unwrap();
    PathScanner::get().unwrap();
    println!("{READY}");
    for round in 0.. {
        let task = format!("t{kill}-{round}");
        let mut drafts = Vec::new();
        for name in ["one.py", "two.py"] {
            let draft = service.request(AGENT, name, &task).await.unwrap().draft_path;
            let content = format!("x = \"{kill}-{round}\"\n").repeat(200);
            service.write(AGENT, &draft, &content).await.unwrap();
            drafts.push(draft);
        }
        let submit = SubmitRequest {
            draft_path: &drafts[0],
            original_path: "one.py",
            task_id: &task,
            change_summary: "",
            all_drafts: true,
        };
        let verdict = service.submit(AGENT, submit).await.unwrap();
        assert_eq!(verdict.verdict, SubmissionStatus::Accepted, "{verdict:?}");
    }
}

/// After a kill at any moment, both files of the change have their old content or both have their new content, every
/// submission is accepted, and the log is complete.
#[tokio::test(flavor = "multi_thread")]
async fn process_killed_at_any_moment_applies_all_or_nothing() {
    let kills: usize =
        std::env::var("ASSIZE_TEST_KILLS").map_or(15, |kills| kills.parse().unwrap());
    // The test mostly waits for random moments, so it uses three workspaces in parallel.
    let workspaces = [(); 3].map(|()| tokio::spawn(kill_repeatedly(kills.div_ceil(3))));
    let mut applied = 0;
    for workspace in workspaces {
        applied += workspace.await.unwrap();
    }
    assert!(applied > 0, "no submission was applied before a kill");
}

/// Starts and kills `kills` processes, one after the other, in a new workspace; returns the number of applied
/// submissions.
async fn kill_repeatedly(kills: usize) -> usize {
    let fixture = Fixture::new();
    for name in ["one.py", "two.py"] {
        fixture.put(name, "x = 0\n".repeat(200));
    }
    let mut applied = 0;
    for kill in 0..kills {
        fs::write(fixture.folder.path().join("kill"), kill.to_string()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::child_process_to_kill", "--nocapture"])
            .env(CHILD, fixture.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(READY)));
        // Wait for a random time before the kill.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(1_000..200_000))).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let service = fixture.another();
        service.decide_orphaned_in_background().await.unwrap();
        service.wait_for_decisions().await;
        // The next transaction finishes the change that the killed process had started.
        service.switch("ann", true).await.unwrap();
        let (one, two) = (fixture.text("one.py"), fixture.text("two.py"));
        assert_eq!(one, two, "after kill {kill}");
        assert_eq!(one.lines().count(), 200);
        assert!(one.lines().all(|line| Some(line) == one.lines().next()));
        let state = service.state().await.unwrap();
        for submission in state.submissions.values() {
            assert_eq!(submission.stage, SubmissionStage::Accepted, "{submission:?}");
        }
        applied = state.submissions.len();
        assert_eq!(service.compare_logs().await.unwrap(), LogComparison::Same);
        let staged = fixture.repo("_handoff/staging");
        assert!(!staged.exists() || fs::read_dir(&staged).unwrap().next().is_none());
        let left: Vec<String> =
            fixture.drafts().into_iter().filter(|name| !name.starts_with(".new-")).collect();
        assert_eq!(left.iter().filter(|name| name.ends_with(".submission.json")).count(), 0);
        assert!(left.len() <= 2 * kills, "{left:?}");
    }
    applied
}

/// A process died after it had recorded the intent to change two files, and had changed none, one or both. The next
/// process applies the change completely or not at all, even if a user has edited a file since.
#[tokio::test]
async fn interrupted_change_is_applied_by_the_next_process_completely_or_not_at_all() {
    for (done, edited) in [(0, ""), (1, ""), (2, ""), (2, "one.py"), (0, "two.py"), (1, "two.py")] {
        let fixture = Fixture::new();
        fixture.put("one.py", "x = 1\n");
        fixture.put("two.py", "y = 1\n");
        // Create a waiting submission, so that copies of its file contents are stored.
        let always =
            assize_gate::Policy { review: assize_config::Review::Always, ..Default::default() };
        let service =
            fixture.another_with(DraftOptions { policy: always, ..DraftOptions::default() });
        let one = service.request(AGENT, "one.py", "t").await.unwrap().draft_path;
        let two = service.request(AGENT, "two.py", "t").await.unwrap().draft_path;
        service.write(AGENT, &one, "x = 2\n").await.unwrap();
        service.write(AGENT, &two, "y = 2\n").await.unwrap();
        let submit = SubmitRequest {
            draft_path: &one,
            original_path: "one.py",
            task_id: "t",
            change_summary: "",
            all_drafts: true,
        };
        let id = number(&service.submit(AGENT, submit).await.unwrap());
        // Create the state that a process leaves if it dies after recording the intent: both new contents are staged,
        // and `done` of them are exchanged with the files.
        let state = service.state().await.unwrap();
        let files = state.submissions[&id].files.clone();
        let replacing: Vec<assize_workspace::FileReplacement> = files
            .iter()
            .map(|file| assize_workspace::FileReplacement {
                path: file.path.clone(),
                before: file.before,
                after: Some(file.after),
            })
            .collect();
        fs::create_dir_all(fixture.repo("_handoff/staging")).unwrap();
        for (index, (name, new)) in
            [("one.py", "x = 2\n"), ("two.py", "y = 2\n")].iter().enumerate()
        {
            let staged = fixture.repo(&format!("_handoff/staging/{id}-{index}"));
            fs::write(&staged, new).unwrap();
            if index < done {
                let old = fs::read(fixture.repo(name)).unwrap();
                fs::rename(&staged, fixture.repo(name)).unwrap();
                fs::write(&staged, old).unwrap();
            }
        }
        if !edited.is_empty() {
            fixture.put(edited, "edited = 3\n");
        }
        let step = DraftStep::Decided {
            submission: id,
            verdict: assize_gate::GateVerdict::Accepted,
            reported: false,
            reasons: Vec::new(),
            files: replacing,
            policy: assize_types::Fingerprint::NONE,
            verified: None,
        };
        let value = serde_json::json!(step);
        let entry = NewAuditEntry {
            actor: "gate".to_owned(),
            action: value["action"].as_str().unwrap().to_owned(),
            subject: fixture.service.workspace().display().to_string(),
            detail: value["detail"].clone(),
        };
        fixture.store.audit(entry).await.unwrap();
        let service = fixture.another();
        service.switch("ann", true).await.unwrap();
        let state = service.state().await.unwrap();
        let stage = state.submissions[&id].stage;
        let texts = (fixture.text("one.py"), fixture.text("two.py"));
        let are =
            |one: &str, two: &str| assert_eq!(texts, (one.to_owned(), two.to_owned()), "{done}");
        match edited {
            "two.py" => {
                // The user edited the file before the change was applied: no file is changed, and a reviewer decides.
                assert_eq!(stage, SubmissionStage::Escalated, "{done}");
                are("x = 1\n", "edited = 3\n");
                continue;
            }
            "one.py" => are("edited = 3\n", "y = 2\n"),
            _ => are("x = 2\n", "y = 2\n"),
        }
        assert_eq!(stage, SubmissionStage::Accepted, "{done} {edited}");
        assert!(fixture.drafts().is_empty());
    }
}

#[tokio::test]
async fn change_that_cannot_be_applied_escalates_and_changes_nothing() {
    let fixture = Fixture::new();
    fixture.put("one.py", "x = 1\n");
    let one = fixture.request("one.py").await.unwrap().draft_path;
    // A path below a file can never exist.
    let two = fixture.request("src/watchdog.py/below.py").await.unwrap().draft_path;
    fixture.service.write(AGENT, &one, "x = 2\n").await.unwrap();
    fixture.service.write(AGENT, &two, "y = 2\n").await.unwrap();
    let submit = SubmitRequest { all_drafts: true, ..crate::fixture::submit(&one, "one.py") };
    let escalated = fixture.service.submit(AGENT, submit).await.unwrap();
    assert_eq!(escalated.verdict, SubmissionStatus::Escalated, "{escalated:?}");
    assert_eq!(fixture.text("one.py"), "x = 1\n");
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
    assert!(
        rules(&escalated).iter().all(|rule| ["conflict", "apply"].contains(rule)),
        "{escalated:?}"
    );
    fixture.service.reject("ann", number(&escalated), "").await.unwrap();
    assert!(fixture.drafts().is_empty());
}

#[tokio::test]
async fn unwritable_log_file_prevents_changes() {
    let fixture = Fixture::new();
    let draft = fixture.request("src/watchdog.py").await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, &format!("{WATCHDOG}# end\n")).await.unwrap();
    fs::remove_file(fixture.repo("_handoff/transition.ndjson")).unwrap();
    fs::create_dir(fixture.repo("_handoff/transition.ndjson")).unwrap();
    let message = fixture.submit(&draft, "src/watchdog.py").await.unwrap_err().to_string();
    assert!(message.contains("transition.ndjson"), "{message}");
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
    fs::remove_dir(fixture.repo("_handoff/transition.ndjson")).unwrap();
    // After the folder in place of the log file is removed, the same process succeeds and the log file is complete.
    assert_eq!(
        fixture.submit(&draft, "src/watchdog.py").await.unwrap().verdict,
        SubmissionStatus::Accepted
    );
    assert_eq!(fixture.service.compare_logs().await.unwrap(), LogComparison::Same);
}
