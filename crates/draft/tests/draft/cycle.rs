//! The whole way of a draft: asked for, written, read, handed in, decided on.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use assize_draft::{Answer, DraftError, DraftService, MessageKind, Options, Stage};
use assize_gate::Policy;
use assize_types::Fingerprint;

use crate::office::{Office, TASK, WATCHDOG, WORKER, number, rules, small_files, submit};

/// The seed's own example.
#[tokio::test]
async fn a_version_flag_is_added_to_the_watchdog() {
    let office = Office::new();
    let requested = office.request("src/watchdog.py").await.unwrap();
    assert_eq!(requested.draft_path, "_handoff/drafts/watchdog.py.phase10_version_flag.draft");
    assert_eq!(requested.original_hash, Fingerprint::of(WATCHDOG).to_string());
    assert_eq!((requested.line_count, requested.new_file), (11, false));
    let changed = WATCHDOG.replace("import sys\n", "import sys\n\nVERSION = \"1.0\"\n");
    let written = office.desk.write(WORKER, &requested.draft_path, &changed).await.unwrap();
    assert!(written.success);
    assert_eq!(written.new_hash, Fingerprint::of(&changed).to_string());
    assert_eq!(written.line_count, 13);
    let read = office.desk.read(WORKER, &requested.draft_path).await.unwrap();
    assert_eq!((read.content.as_str(), read.line_count), (changed.as_str(), 13));
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);

    let submitted = office.submit(&requested.draft_path, "src/watchdog.py").await.unwrap();
    assert!(submitted.submitted && submitted.message_id.starts_with("msg_"));
    assert_eq!(
        (submitted.verdict, submitted.reasons.len()),
        (Answer::Accepted, 0),
        "{submitted:?}"
    );
    assert_eq!(office.text("src/watchdog.py"), changed);
    let mode = fs::metadata(office.repo("src/watchdog.py")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    assert!(office.drafts().is_empty());
    assert!(fs::read_dir(office.repo("_handoff/staging")).unwrap().next().is_none());
    let book = office.desk.state().await.unwrap();
    let submission = &book.submissions[&number(&submitted)];
    assert_eq!((submission.stage, submission.by.as_deref()), (Stage::Accepted, Some("gate")));
    assert_eq!((submission.files[0].added, submission.files[0].removed), (2, 0));
}

#[tokio::test]
async fn full_and_relative_paths_and_plain_names_mean_the_same_draft() {
    let office = Office::new();
    let full = office.repo("src/watchdog.py").canonicalize().unwrap();
    let draft = office.request(full.to_str().unwrap()).await.unwrap().draft_path;
    let name = draft.rsplit('/').next().unwrap();
    let link = office.folder.path().join("link");
    symlink(office.desk.workspace(), &link).unwrap();
    let (full, linked) = (office.desk.workspace().join(&draft), link.join(&draft));
    let state = office.folder.path().join("state/drafts");
    let through_link =
        DraftService::open(&link, &state, office.store.clone(), Options::default()).unwrap();
    through_link.write(WORKER, linked.to_str().unwrap(), "x = 0\n").await.unwrap();
    for path in [draft.as_str(), name, full.to_str().unwrap(), &format!("./{draft}")] {
        office.desk.write(WORKER, path, "x = 1\n").await.unwrap();
        assert_eq!(office.desk.read(WORKER, path).await.unwrap().content, "x = 1\n");
    }
    // To ask again for what is open changes nothing.
    let again = office.request("src/watchdog.py").await.unwrap();
    assert_eq!(again.draft_path, draft);
    assert!(again.note.unwrap().contains("is kept"));
    assert_eq!(office.desk.read(WORKER, &draft).await.unwrap().content, "x = 1\n");
}

#[tokio::test]
async fn a_new_file_is_proposed_in_folders_that_are_not_there() {
    let office = Office::new();
    let requested = office.request("docs/guide/start.md").await.unwrap();
    assert!(requested.new_file && requested.note.unwrap().contains("proposes it as a new file"));
    assert_eq!((requested.original_hash.as_str(), requested.line_count), ("", 0));
    let draft = requested.draft_path;
    office.desk.write(WORKER, &draft, "# Start\n").await.unwrap();
    assert!(!office.repo("docs").exists());
    let submitted = office.submit(&draft, "docs/guide/start.md").await.unwrap();
    assert_eq!(submitted.verdict, Answer::Accepted, "{submitted:?}");
    assert_eq!(office.text("docs/guide/start.md"), "# Start\n");
    office.desk.undo("ann", number(&submitted)).await.unwrap();
    assert!(!office.repo("docs/guide/start.md").exists());
}

#[tokio::test]
async fn drafts_of_one_name_are_told_apart() {
    let office = Office::new();
    office.put("a/main.py", "a = 1\n");
    office.put("b/main.py", "b = 1\n");
    let one = office.request("a/main.py").await.unwrap().draft_path;
    let two = office.request("b/main.py").await.unwrap().draft_path;
    assert_eq!(one, format!("_handoff/drafts/main.py.{TASK}.draft"));
    assert_ne!(one, two);
    assert!(two.starts_with(&format!("_handoff/drafts/main.py.{TASK}.")), "{two}");
    office.desk.write(WORKER, &two, "b = 2\n").await.unwrap();
    assert_eq!(office.desk.read(WORKER, &one).await.unwrap().content, "a = 1\n");
    let told = office.submit(&two, "a/main.py").await.unwrap_err().to_string();
    assert!(told.contains("a draft of `b/main.py`, not of `a/main.py`"), "{told}");
    // Another task has drafts of its own, and long names fit.
    let other = office.desk.request(WORKER, "a/main.py", "other").await.unwrap().draft_path;
    assert_eq!(other, "_handoff/drafts/main.py.other.draft");
    let long = format!("{}.py", "x".repeat(240));
    let draft = office.request(&long).await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, "x\n").await.unwrap();
    assert_eq!(office.submit(&draft, &long).await.unwrap().verdict, Answer::Accepted);
}

#[tokio::test]
async fn all_drafts_of_a_task_go_together_or_not_at_all() {
    let office = Office::new();
    office.put("a.py", "a = 1\n");
    office.put("b.py", "b = 1\n");
    office.put("c.py", "c = 1\n");
    let a = office.request("a.py").await.unwrap().draft_path;
    let b = office.request("b.py").await.unwrap().draft_path;
    office.request("c.py").await.unwrap();
    office.desk.write(WORKER, &a, "a = 2\n").await.unwrap();
    office.desk.write(WORKER, &b, "password = \"tR7#kq2LmZ9w\"\n").await.unwrap();
    let all = assize_draft::Submit { all_drafts: true, ..submit(&a, "a.py") };
    let rejected = office.desk.submit(WORKER, all).await.unwrap();
    assert_eq!(
        (rejected.verdict, rules(&rejected)),
        (Answer::Rejected, vec!["secret/assigned-secret"])
    );
    assert_eq!(rejected.reasons[0].file, "b.py");
    assert_eq!((office.text("a.py"), office.text("b.py")), ("a = 1\n".into(), "b = 1\n".into()));
    // The one that changed nothing was not part of it.
    assert_eq!(office.drafts(), ["c.py.phase10_version_flag.draft"]);

    let a = office.request("a.py").await.unwrap().draft_path;
    let b = office.request("b.py").await.unwrap().draft_path;
    office.desk.write(WORKER, &a, "a = 2\n").await.unwrap();
    office.desk.write(WORKER, &b, "b = 2\n").await.unwrap();
    let all = assize_draft::Submit { all_drafts: true, ..submit(&a, "a.py") };
    let accepted = office.desk.submit(WORKER, all).await.unwrap();
    assert_eq!(accepted.verdict, Answer::Accepted, "{accepted:?}");
    assert_eq!((office.text("a.py"), office.text("b.py")), ("a = 2\n".into(), "b = 2\n".into()));
    office.desk.undo("ann", number(&accepted)).await.unwrap();
    assert_eq!((office.text("a.py"), office.text("b.py")), ("a = 1\n".into(), "b = 1\n".into()));
}

#[tokio::test]
async fn a_rejected_worker_knows_why_and_tries_again() {
    let office = Office::new();
    let bad = WATCHDOG.replace("import sys\n", "import sys\nLOG = \"/home/ann/watch.log\"\n");
    let rejected = office.propose("src/watchdog.py", &bad).await;
    assert_eq!(rejected.verdict, Answer::Rejected, "{rejected:?}");
    assert_eq!(rejected.reasons[0].line, Some(3));
    assert!(rejected.next.contains("ask for the draft again"), "{}", rejected.next);
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
    assert!(office.drafts().is_empty());
    // The draft is gone, and whoever asks once more how it went is told the same.
    let draft = "_handoff/drafts/watchdog.py.phase10_version_flag.draft";
    assert!(matches!(office.desk.read(WORKER, draft).await, Err(DraftError::Wrong(_))));
    let again = office.submit(draft, "src/watchdog.py").await.unwrap();
    assert_eq!((again.verdict, &again.message_id), (Answer::Rejected, &rejected.message_id));

    let good = WATCHDOG.replace("import sys\n", "import sys\nLOG = None\n");
    assert_eq!(office.propose("src/watchdog.py", &good).await.verdict, Answer::Accepted);
    assert_eq!(office.text("src/watchdog.py"), good);
}

#[tokio::test]
async fn what_was_there_before_is_held_against_nobody() {
    let office = Office::under(Policy { readable: vec!["old.py".to_owned()], ..small_files() });
    let key = ["token = \"ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o\"\n"].concat();
    office.put("old.py", format!("{key}x = 1\n"));
    let accepted = office.propose("old.py", &format!("{key}x = 2\n")).await;
    assert_eq!(accepted.verdict, Answer::Accepted, "{accepted:?}");
    let moved = office.propose("old.py", &format!("{key}x = 2\ny = 1\n{key}")).await;
    assert_eq!((moved.verdict, moved.reasons[0].line), (Answer::Rejected, Some(4)), "{moved:?}");
}

#[tokio::test]
async fn files_as_they_come_have_answers() {
    let office = Office::new();
    office.put("latin.txt", b"caf\xe9\n");
    office.put("image.png", b"\x89PNG\0\0");
    office.put("windows.txt", "a\r\nb\r\n");
    office.put("open.txt", "a\nb");
    office.put("empty.txt", "");
    for (path, why) in [
        ("latin.txt", "is no UTF-8 text"),
        ("image.png", "is no UTF-8 text"),
        ("src", "it is a folder; name a file in it"),
        ("src/watchdog.py/x", "there is no such file"),
    ] {
        match office.request(path).await {
            Err(error) => assert!(error.to_string().contains(why), "{path}: {error}"),
            // A file below a file is found out when it is applied.
            Ok(new) => assert!(new.new_file, "{path}"),
        }
    }
    let large = fs::File::create(office.repo("large.bin")).unwrap();
    large.set_len(1 << 30).unwrap();
    let told = office.request("large.bin").await.unwrap_err().to_string();
    assert!(told.contains("more than 1048576 bytes"), "{told}");

    assert_eq!(office.propose("windows.txt", "a\nc\n").await.verdict, Answer::Accepted);
    assert_eq!(office.text("windows.txt"), "a\r\nc\r\n");
    assert_eq!(office.propose("open.txt", "a\nc").await.verdict, Answer::Accepted);
    assert_eq!(office.text("open.txt"), "a\nc");
    assert_eq!(office.propose("empty.txt", "now\n").await.verdict, Answer::Accepted);
    for task in ["a/b", "", "../x", "a b", ".x"] {
        let told = office.desk.request(WORKER, "open.txt", task).await.unwrap_err().to_string();
        assert!(told.contains("is no task id"), "{task}: {told}");
    }
    let draft = office.request("open.txt").await.unwrap().draft_path;
    let told = office.submit(&draft, "open.txt").await.unwrap_err().to_string();
    assert!(told.contains("changes nothing in `open.txt`"), "{told}");
    let told = office.desk.write(WORKER, &draft, &"x".repeat(2 << 20)).await.unwrap_err();
    assert!(told.to_string().contains("the draft is as it was"), "{told}");
    assert_eq!(office.desk.read(WORKER, &draft).await.unwrap().content, "a\nc");
    let binary = office.propose("open.txt", "a\0b").await;
    assert_eq!((binary.verdict, rules(&binary)), (Answer::Escalated, vec!["binary"]));
}

#[tokio::test]
async fn what_is_pending_rides_on_the_next_answer() {
    let office =
        Office::under(Policy { review: assize_config::Review::Always, ..Policy::default() });
    let submitted = office.propose("src/watchdog.py", "x = 1\n").await;
    assert_eq!(submitted.verdict, Answer::Escalated, "{submitted:?}");
    let told = office.request("src/watchdog.py").await.unwrap_err().to_string();
    assert!(told.contains("waits for a decision"), "{told}");
    office.desk.accept("ann", number(&submitted), assize_draft::Force::No).await.unwrap();
    // Another task is not told.
    let other = office.desk.request(WORKER, "src/watchdog.py", "other").await.unwrap();
    assert!(other.messages.is_empty());
    // Another process tells it as well, once.
    let desk = office.another();
    let next = desk.request(WORKER, "README.md", TASK).await.unwrap();
    assert_eq!(next.messages.len(), 1);
    assert_eq!(next.messages[0].kind, MessageKind::DraftAccepted);
    assert_eq!(next.messages[0].submission, submitted.submission);
    let later = office.desk.read(WORKER, &next.draft_path).await.unwrap();
    assert!(later.messages.is_empty());
}

#[tokio::test]
async fn many_drafts_can_be_open_at_once_and_many_workers_work_at_once() {
    let office = Office::new();
    let other = office.another();
    let tasks = (0..24).map(|number| {
        let desk = if number % 2 == 0 { office.desk.clone() } else { other.clone() };
        office.put(&format!("f{number}.py"), "x = 1\n");
        tokio::spawn(async move {
            let (path, task) = (format!("f{number}.py"), format!("task-{number}"));
            let draft = desk.request(WORKER, &path, &task).await.unwrap().draft_path;
            desk.write(WORKER, &draft, &format!("x = {number}0\n")).await.unwrap();
            let submit = assize_draft::Submit { task_id: &task, ..submit(&draft, &path) };
            desk.submit(WORKER, submit).await.unwrap().verdict
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap(), Answer::Accepted);
    }
    for number in 0..24 {
        assert_eq!(office.text(&format!("f{number}.py")), format!("x = {number}0\n"));
    }
    assert_eq!(office.desk.compare_logs().await.unwrap(), assize_draft::Mirror::Same);
}

#[tokio::test]
async fn what_was_not_written_yet_is_no_part_of_a_submission() {
    let office = Office::new();
    office.request("new.py").await.unwrap();
    let draft = office.request("src/watchdog.py").await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, &format!("{WATCHDOG}# end\n")).await.unwrap();
    let all = assize_draft::Submit { all_drafts: true, ..submit(&draft, "src/watchdog.py") };
    let accepted = office.desk.submit(WORKER, all).await.unwrap();
    assert_eq!(
        (accepted.verdict, accepted.files),
        (Answer::Accepted, vec!["src/watchdog.py".to_owned()])
    );
    assert!(!office.repo("new.py").exists());
    // Asked for alone, an empty file is one.
    let empty = office.submit("new.py.phase10_version_flag.draft", "new.py").await.unwrap();
    assert_eq!(empty.verdict, Answer::Accepted);
    assert_eq!(office.text("new.py"), "");
}

/// A message is told with an answer, and with nothing else.
#[tokio::test]
async fn no_message_is_lost_with_a_call_that_fails() {
    let office =
        Office::under(Policy { review: assize_config::Review::Always, ..Policy::default() });
    let one = office.propose("one.py", "x = 1\n").await;
    office.propose("two.py", "x = 1\n").await;
    office.desk.accept("ann", number(&one), assize_draft::Force::No).await.unwrap();
    assert!(office.request("two.py").await.is_err());
    assert!(office.request("../x").await.is_err());
    let next = office.request("three.py").await.unwrap();
    assert_eq!(next.messages.len(), 1, "{next:?}");
}

#[tokio::test]
async fn names_of_drafts_never_meet() {
    let office = Office::new();
    let one = office.desk.request(WORKER, "a", "t").await.unwrap().draft_path;
    let hash = Fingerprint::of("d2/a").to_string();
    let task = format!("t.{}", &hash[..8]);
    let two = office.desk.request(WORKER, "a", &task).await.unwrap().draft_path;
    office.desk.write(WORKER, &two, "theirs\n").await.unwrap();
    let three = office.desk.request(WORKER, "d2/a", "t").await.unwrap().draft_path;
    assert!(one != two && two != three && one != three, "{one} {two} {three}");
    assert_eq!(office.desk.read(WORKER, &two).await.unwrap().content, "theirs\n");
    let odd = office.request(".new-x").await.unwrap().draft_path;
    office.desk.write(WORKER, &odd, "x\n").await.unwrap();
}
