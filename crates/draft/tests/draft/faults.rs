//! Whatever happens in between: a submission is applied, or it is not.

#![expect(clippy::print_stdout, reason = "the process that is killed says that it works")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use assize_draft::{Answer, DraftService, Mirror, Options, Stage, Step, Submit};
use assize_gate::hardcoded::PathScanner;
use assize_gate::secrets::SecretScanner;
use assize_run::NewAuditEntry;
use assize_store::{Access, Durability, SqliteStore};

use crate::office::{Office, WATCHDOG, WORKER, number, rules, small_files};

const CHILD: &str = "ASSIZE_TEST_DRAFT_CHILD";
/// What the process that is killed prints once it works.
const WORKS: &str = "the process works";

/// Not a test of its own: the process that is killed. It changes two files, over and over.
#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = Path::new(&folder);
    let path = folder.join("state/store.db");
    let store = SqliteStore::open(&path, Access::Write(Durability::ProcessCrash)).unwrap();
    let state = folder.join("state/drafts");
    let store = std::sync::Arc::new(store);
    let options = Options { policy: small_files(), ..Options::default() };
    let desk = DraftService::open(&folder.join("repo"), &state, store, options).unwrap();
    let life = fs::read_to_string(folder.join("life")).unwrap();
    // Most of its start is the gate's patterns.
    SecretScanner::get().unwrap();
    PathScanner::get().unwrap();
    println!("{WORKS}");
    for round in 0.. {
        let task = format!("t{life}-{round}");
        let mut drafts = Vec::new();
        for name in ["one.py", "two.py"] {
            let draft = desk.request(WORKER, name, &task).await.unwrap().draft_path;
            let content = format!("x = \"{life}-{round}\"\n").repeat(200);
            desk.write(WORKER, &draft, &content).await.unwrap();
            drafts.push(draft);
        }
        let submit = Submit {
            draft_path: &drafts[0],
            original_path: "one.py",
            task_id: &task,
            change_summary: "",
            all_drafts: true,
        };
        let verdict = desk.submit(WORKER, submit).await.unwrap();
        assert_eq!(verdict.verdict, Answer::Accepted, "{verdict:?}");
    }
}

/// Killed at any moment, both files are the old ones or both are the new ones, none is half of either, nobody
/// sees a conflict, and the log is whole.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_it_is_applied_or_not() {
    let kills: usize =
        std::env::var("ASSIZE_TEST_KILLS").map_or(15, |kills| kills.parse().unwrap());
    // Most of the time is the wait for the moment, so three workspaces share it.
    let workspaces = [(); 3].map(|()| tokio::spawn(kill_repeatedly(kills.div_ceil(3))));
    let mut applied = 0;
    for workspace in workspaces {
        applied += workspace.await.unwrap();
    }
    assert!(applied > 0, "nothing was ever applied");
}

/// Kills so many processes at work in a new workspace; gives how many submissions were applied.
async fn kill_repeatedly(kills: usize) -> usize {
    let office = Office::new();
    for name in ["one.py", "two.py"] {
        office.put(name, "x = 0\n".repeat(200));
    }
    let mut applied = 0;
    for life in 0..kills {
        fs::write(office.folder.path().join("life"), life.to_string()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::the_process_that_is_killed", "--nocapture"])
            .env(CHILD, office.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(WORKS)));
        // At no moment in particular.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(1_000..200_000))).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let desk = office.another();
        desk.begin_to_decide_what_is_left().await.unwrap();
        desk.finish_deciding().await;
        // Whoever takes the desk next finishes what was begun.
        desk.switch("ann", true).await.unwrap();
        let (one, two) = (office.text("one.py"), office.text("two.py"));
        assert_eq!(one, two, "after life {life}");
        assert_eq!(one.lines().count(), 200);
        assert!(one.lines().all(|line| Some(line) == one.lines().next()));
        let book = desk.state().await.unwrap();
        for submission in book.submissions.values() {
            assert_eq!(submission.stage, Stage::Accepted, "{submission:?}");
        }
        applied = book.submissions.len();
        assert_eq!(desk.compare_logs().await.unwrap(), Mirror::Same);
        let staged = office.repo("_handoff/staging");
        assert!(!staged.exists() || fs::read_dir(&staged).unwrap().next().is_none());
        let left: Vec<String> =
            office.drafts().into_iter().filter(|name| !name.starts_with(".new-")).collect();
        assert_eq!(left.iter().filter(|name| name.ends_with(".submission.json")).count(), 0);
        assert!(left.len() <= 2 * kills, "{left:?}");
    }
    applied
}

/// An intent after which nothing was done, everything was done, or half of it, and after which somebody even
/// changed the file: always it ends as one of the two.
#[tokio::test]
async fn an_intent_is_finished_by_whoever_comes_next() {
    for (done, edited) in [(0, ""), (1, ""), (2, ""), (2, "one.py"), (0, "two.py"), (1, "two.py")] {
        let office = Office::new();
        office.put("one.py", "x = 1\n");
        office.put("two.py", "y = 1\n");
        // A submission that waits, so that its copies are there.
        let always =
            assize_gate::Policy { review: assize_config::Review::Always, ..Default::default() };
        let desk = office.another_with(Options { policy: always, ..Options::default() });
        let one = desk.request(WORKER, "one.py", "t").await.unwrap().draft_path;
        let two = desk.request(WORKER, "two.py", "t").await.unwrap().draft_path;
        desk.write(WORKER, &one, "x = 2\n").await.unwrap();
        desk.write(WORKER, &two, "y = 2\n").await.unwrap();
        let submit = Submit {
            draft_path: &one,
            original_path: "one.py",
            task_id: "t",
            change_summary: "",
            all_drafts: true,
        };
        let id = number(&desk.submit(WORKER, submit).await.unwrap());
        // What a process leaves that died after its intent: files staged, and so many of them exchanged.
        let book = desk.state().await.unwrap();
        let files = book.submissions[&id].files.clone();
        let replacing: Vec<assize_workspace::Replacing> = files
            .iter()
            .map(|file| assize_workspace::Replacing {
                path: file.path.clone(),
                before: file.before,
                after: Some(file.after),
            })
            .collect();
        fs::create_dir_all(office.repo("_handoff/staging")).unwrap();
        for (index, (name, new)) in
            [("one.py", "x = 2\n"), ("two.py", "y = 2\n")].iter().enumerate()
        {
            let staged = office.repo(&format!("_handoff/staging/{id}-{index}"));
            fs::write(&staged, new).unwrap();
            if index < done {
                let old = fs::read(office.repo(name)).unwrap();
                fs::rename(&staged, office.repo(name)).unwrap();
                fs::write(&staged, old).unwrap();
            }
        }
        if !edited.is_empty() {
            office.put(edited, "edited = 3\n");
        }
        let step = Step::Decided {
            submission: id,
            verdict: assize_gate::Verdict::Accepted,
            told: false,
            reasons: Vec::new(),
            files: replacing,
            policy: assize_types::Fingerprint::NONE,
            verified: None,
        };
        let value = serde_json::json!(step);
        let entry = NewAuditEntry {
            actor: "gate".to_owned(),
            action: value["action"].as_str().unwrap().to_owned(),
            subject: office.desk.workspace().display().to_string(),
            detail: value["detail"].clone(),
        };
        office.store.audit(entry).await.unwrap();
        let desk = office.another();
        desk.switch("ann", true).await.unwrap();
        let book = desk.state().await.unwrap();
        let stage = book.submissions[&id].stage;
        let texts = (office.text("one.py"), office.text("two.py"));
        let are =
            |one: &str, two: &str| assert_eq!(texts, (one.to_owned(), two.to_owned()), "{done}");
        match edited {
            "two.py" => {
                // Somebody was there before it was applied: all of it waits, and none of it is done.
                assert_eq!(stage, Stage::Escalated, "{done}");
                are("x = 1\n", "edited = 3\n");
                continue;
            }
            "one.py" => are("edited = 3\n", "y = 2\n"),
            _ => are("x = 2\n", "y = 2\n"),
        }
        assert_eq!(stage, Stage::Accepted, "{done} {edited}");
        assert!(office.drafts().is_empty());
    }
}

#[tokio::test]
async fn what_cannot_be_applied_waits_for_a_person_and_nothing_is_half_done() {
    let office = Office::new();
    office.put("one.py", "x = 1\n");
    let one = office.request("one.py").await.unwrap().draft_path;
    // A file below a file can never be.
    let two = office.request("src/watchdog.py/below.py").await.unwrap().draft_path;
    office.desk.write(WORKER, &one, "x = 2\n").await.unwrap();
    office.desk.write(WORKER, &two, "y = 2\n").await.unwrap();
    let submit = Submit { all_drafts: true, ..crate::office::submit(&one, "one.py") };
    let escalated = office.desk.submit(WORKER, submit).await.unwrap();
    assert_eq!(escalated.verdict, Answer::Escalated, "{escalated:?}");
    assert_eq!(office.text("one.py"), "x = 1\n");
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
    assert!(
        rules(&escalated).iter().all(|rule| ["conflict", "apply"].contains(rule)),
        "{escalated:?}"
    );
    office.desk.reject("ann", number(&escalated), "").await.unwrap();
    assert!(office.drafts().is_empty());
}

#[tokio::test]
async fn without_a_log_in_the_workspace_nothing_is_begun() {
    let office = Office::new();
    let draft = office.request("src/watchdog.py").await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, &format!("{WATCHDOG}# end\n")).await.unwrap();
    fs::remove_file(office.repo("_handoff/transition.ndjson")).unwrap();
    fs::create_dir(office.repo("_handoff/transition.ndjson")).unwrap();
    let told = office.submit(&draft, "src/watchdog.py").await.unwrap_err().to_string();
    assert!(told.contains("transition.ndjson"), "{told}");
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
    fs::remove_dir(office.repo("_handoff/transition.ndjson")).unwrap();
    // The same process goes on once it is gone, and the log is whole again.
    assert_eq!(office.submit(&draft, "src/watchdog.py").await.unwrap().verdict, Answer::Accepted);
    assert_eq!(office.desk.compare_logs().await.unwrap(), Mirror::Same);
}
