//! Tests of the whole draft workflow: request, write, read, submit, decide.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use assize_draft::{
    DraftError, DraftOptions, DraftService, MessageKind, SubmissionStage, SubmissionStatus,
};
use assize_gate::Policy;
use assize_types::Fingerprint;

use crate::fixture::{AGENT, Fixture, TASK, WATCHDOG, number, rules, small_files, submit};

/// An agent requests, writes, reads and submits a draft of an existing file.
#[tokio::test]
async fn accepted_draft_changes_the_file_and_is_deleted() {
    let fixture = Fixture::new();
    let requested = fixture.request("src/watchdog.py").await.unwrap();
    assert_eq!(requested.draft_path, "_handoff/drafts/watchdog.py.phase10_version_flag.draft");
    assert_eq!(requested.original_hash, Fingerprint::of(WATCHDOG).to_string());
    assert_eq!((requested.line_count, requested.new_file), (11, false));
    let changed = WATCHDOG.replace("import sys\n", "import sys\n\nVERSION = \"1.0\"\n");
    let written = fixture.service.write(AGENT, &requested.draft_path, &changed).await.unwrap();
    assert!(written.success);
    assert_eq!(written.new_hash, Fingerprint::of(&changed).to_string());
    assert_eq!(written.line_count, 13);
    let read = fixture.service.read(AGENT, &requested.draft_path).await.unwrap();
    assert_eq!((read.content.as_str(), read.line_count), (changed.as_str(), 13));
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);

    let submitted = fixture.submit(&requested.draft_path, "src/watchdog.py").await.unwrap();
    assert!(submitted.submitted && submitted.message_id.starts_with("msg_"));
    assert_eq!(
        (submitted.verdict, submitted.reasons.len()),
        (SubmissionStatus::Accepted, 0),
        "{submitted:?}"
    );
    assert_eq!(fixture.text("src/watchdog.py"), changed);
    let mode = fs::metadata(fixture.repo("src/watchdog.py")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    assert!(fixture.drafts().is_empty());
    assert!(fs::read_dir(fixture.repo("_handoff/staging")).unwrap().next().is_none());
    let state = fixture.service.state().await.unwrap();
    let submission = &state.submissions[&number(&submitted)];
    assert_eq!(
        (submission.stage, submission.by.as_deref()),
        (SubmissionStage::Accepted, Some("gate"))
    );
    assert_eq!((submission.files[0].added, submission.files[0].removed), (2, 0));
}

#[tokio::test]
async fn draft_is_found_by_absolute_path_relative_path_or_name() {
    let fixture = Fixture::new();
    let full = fixture.repo("src/watchdog.py").canonicalize().unwrap();
    let draft = fixture.request(full.to_str().unwrap()).await.unwrap().draft_path;
    let name = draft.rsplit('/').next().unwrap();
    let link = fixture.folder.path().join("link");
    symlink(fixture.service.workspace(), &link).unwrap();
    let (full, linked) = (fixture.service.workspace().join(&draft), link.join(&draft));
    let state = fixture.folder.path().join("state/drafts");
    let through_link =
        DraftService::open(&link, &state, fixture.store.clone(), DraftOptions::default()).unwrap();
    through_link.write(AGENT, linked.to_str().unwrap(), "x = 0\n").await.unwrap();
    for path in [draft.as_str(), name, full.to_str().unwrap(), &format!("./{draft}")] {
        fixture.service.write(AGENT, path, "x = 1\n").await.unwrap();
        assert_eq!(fixture.service.read(AGENT, path).await.unwrap().content, "x = 1\n");
    }
    // A second request for an open draft does not change the draft.
    let again = fixture.request("src/watchdog.py").await.unwrap();
    assert_eq!(again.draft_path, draft);
    assert!(again.note.unwrap().contains("is kept"));
    assert_eq!(fixture.service.read(AGENT, &draft).await.unwrap().content, "x = 1\n");
}

#[tokio::test]
async fn draft_of_a_new_file_in_a_missing_folder_is_applied_and_undone() {
    let fixture = Fixture::new();
    let requested = fixture.request("docs/guide/start.md").await.unwrap();
    assert!(requested.new_file && requested.note.unwrap().contains("proposes a new file"));
    assert_eq!((requested.original_hash.as_str(), requested.line_count), ("", 0));
    let draft = requested.draft_path;
    fixture.service.write(AGENT, &draft, "# Start\n").await.unwrap();
    assert!(!fixture.repo("docs").exists());
    let submitted = fixture.submit(&draft, "docs/guide/start.md").await.unwrap();
    assert_eq!(submitted.verdict, SubmissionStatus::Accepted, "{submitted:?}");
    assert_eq!(fixture.text("docs/guide/start.md"), "# Start\n");
    fixture.service.undo("ann", number(&submitted)).await.unwrap();
    assert!(!fixture.repo("docs/guide/start.md").exists());
}

#[tokio::test]
async fn drafts_of_files_with_the_same_name_are_distinct() {
    let fixture = Fixture::new();
    fixture.put("a/main.py", "a = 1\n");
    fixture.put("b/main.py", "b = 1\n");
    let one = fixture.request("a/main.py").await.unwrap().draft_path;
    let two = fixture.request("b/main.py").await.unwrap().draft_path;
    assert_eq!(one, format!("_handoff/drafts/main.py.{TASK}.draft"));
    assert_ne!(one, two);
    assert!(two.starts_with(&format!("_handoff/drafts/main.py.{TASK}.")), "{two}");
    fixture.service.write(AGENT, &two, "b = 2\n").await.unwrap();
    assert_eq!(fixture.service.read(AGENT, &one).await.unwrap().content, "a = 1\n");
    let message = fixture.submit(&two, "a/main.py").await.unwrap_err().to_string();
    assert!(message.contains("a draft of `b/main.py`, not of `a/main.py`"), "{message}");
    // Another task has separate drafts, and the draft name of a file with a long name is shortened.
    let other = fixture.service.request(AGENT, "a/main.py", "other").await.unwrap().draft_path;
    assert_eq!(other, "_handoff/drafts/main.py.other.draft");
    let long = format!("{}.py", "x".repeat(240));
    let draft = fixture.request(&long).await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, "x\n").await.unwrap();
    assert_eq!(fixture.submit(&draft, &long).await.unwrap().verdict, SubmissionStatus::Accepted);
}

#[tokio::test]
async fn all_drafts_of_a_task_are_applied_together_or_not_at_all() {
    let fixture = Fixture::new();
    fixture.put("a.py", "a = 1\n");
    fixture.put("b.py", "b = 1\n");
    fixture.put("c.py", "c = 1\n");
    let a = fixture.request("a.py").await.unwrap().draft_path;
    let b = fixture.request("b.py").await.unwrap().draft_path;
    fixture.request("c.py").await.unwrap();
    fixture.service.write(AGENT, &a, "a = 2\n").await.unwrap();
    fixture.service.write(AGENT, &b, "password = \"tR7#kq2LmZ9w\"\n").await.unwrap();
    let all = assize_draft::SubmitRequest { all_drafts: true, ..submit(&a, "a.py") };
    let rejected = fixture.service.submit(AGENT, all).await.unwrap();
    assert_eq!(
        (rejected.verdict, rules(&rejected)),
        (SubmissionStatus::Rejected, vec!["secret/assigned-secret"])
    );
    assert_eq!(rejected.reasons[0].file, "b.py");
    assert_eq!((fixture.text("a.py"), fixture.text("b.py")), ("a = 1\n".into(), "b = 1\n".into()));
    // The unchanged draft was not part of the submission.
    assert_eq!(fixture.drafts(), ["c.py.phase10_version_flag.draft"]);

    let a = fixture.request("a.py").await.unwrap().draft_path;
    let b = fixture.request("b.py").await.unwrap().draft_path;
    fixture.service.write(AGENT, &a, "a = 2\n").await.unwrap();
    fixture.service.write(AGENT, &b, "b = 2\n").await.unwrap();
    let all = assize_draft::SubmitRequest { all_drafts: true, ..submit(&a, "a.py") };
    let accepted = fixture.service.submit(AGENT, all).await.unwrap();
    assert_eq!(accepted.verdict, SubmissionStatus::Accepted, "{accepted:?}");
    assert_eq!((fixture.text("a.py"), fixture.text("b.py")), ("a = 2\n".into(), "b = 2\n".into()));
    fixture.service.undo("ann", number(&accepted)).await.unwrap();
    assert_eq!((fixture.text("a.py"), fixture.text("b.py")), ("a = 1\n".into(), "b = 1\n".into()));
}

#[tokio::test]
async fn rejected_draft_has_reasons_and_can_be_submitted_again() {
    let fixture = Fixture::new();
    let bad = WATCHDOG.replace("import sys\n", "import sys\nLOG = \"/home/ann/watch.log\"\n");
    let rejected = fixture.propose("src/watchdog.py", &bad).await;
    assert_eq!(rejected.verdict, SubmissionStatus::Rejected, "{rejected:?}");
    assert_eq!(rejected.reasons[0].line, Some(3));
    assert!(rejected.next.contains("request the draft again"), "{}", rejected.next);
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
    assert!(fixture.drafts().is_empty());
    // The draft is deleted, and submitting it again returns the same verdict.
    let draft = "_handoff/drafts/watchdog.py.phase10_version_flag.draft";
    assert!(matches!(fixture.service.read(AGENT, draft).await, Err(DraftError::InvalidRequest(_))));
    let again = fixture.submit(draft, "src/watchdog.py").await.unwrap();
    assert_eq!(
        (again.verdict, &again.message_id),
        (SubmissionStatus::Rejected, &rejected.message_id)
    );

    let good = WATCHDOG.replace("import sys\n", "import sys\nLOG = None\n");
    assert_eq!(fixture.propose("src/watchdog.py", &good).await.verdict, SubmissionStatus::Accepted);
    assert_eq!(fixture.text("src/watchdog.py"), good);
}

#[tokio::test]
async fn findings_in_lines_that_the_draft_does_not_change_are_ignored() {
    let fixture = Fixture::under(Policy { readable: vec!["old.py".to_owned()], ..small_files() });
    let key = ["token = \"ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o\"\n"].concat();
    fixture.put("old.py", format!("{key}x = 1\n"));
    let accepted = fixture.propose("old.py", &format!("{key}x = 2\n")).await;
    assert_eq!(accepted.verdict, SubmissionStatus::Accepted, "{accepted:?}");
    let moved = fixture.propose("old.py", &format!("{key}x = 2\ny = 1\n{key}")).await;
    assert_eq!(
        (moved.verdict, moved.reasons[0].line),
        (SubmissionStatus::Rejected, Some(4)),
        "{moved:?}"
    );
}

#[tokio::test]
async fn unsupported_files_and_invalid_task_ids_return_specific_errors() {
    let fixture = Fixture::new();
    fixture.put("latin.txt", b"caf\xe9\n");
    fixture.put("image.png", b"\x89PNG\0\0");
    fixture.put("windows.txt", "a\r\nb\r\n");
    fixture.put("open.txt", "a\nb");
    fixture.put("empty.txt", "");
    for (path, why) in [
        ("latin.txt", "is not UTF-8 text"),
        ("image.png", "is not UTF-8 text"),
        ("src", "the path is a folder; write the path of a file in this folder"),
        ("src/watchdog.py/x", "no such file"),
    ] {
        match fixture.request(path).await {
            Err(error) => assert!(error.to_string().contains(why), "{path}: {error}"),
            // A path below a file is an error only when the draft is applied.
            Ok(new) => assert!(new.new_file, "{path}"),
        }
    }
    let large = fs::File::create(fixture.repo("large.bin")).unwrap();
    large.set_len(1 << 30).unwrap();
    let message = fixture.request("large.bin").await.unwrap_err().to_string();
    assert!(message.contains("larger than 1048576 bytes"), "{message}");

    assert_eq!(fixture.propose("windows.txt", "a\nc\n").await.verdict, SubmissionStatus::Accepted);
    assert_eq!(fixture.text("windows.txt"), "a\r\nc\r\n");
    assert_eq!(fixture.propose("open.txt", "a\nc").await.verdict, SubmissionStatus::Accepted);
    assert_eq!(fixture.text("open.txt"), "a\nc");
    assert_eq!(fixture.propose("empty.txt", "now\n").await.verdict, SubmissionStatus::Accepted);
    for task in ["a/b", "", "../x", "a b", ".x"] {
        let message =
            fixture.service.request(AGENT, "open.txt", task).await.unwrap_err().to_string();
        assert!(message.contains("invalid task id"), "{task}: {message}");
    }
    let draft = fixture.request("open.txt").await.unwrap().draft_path;
    let message = fixture.submit(&draft, "open.txt").await.unwrap_err().to_string();
    assert!(message.contains("the draft of `open.txt` contains no change"), "{message}");
    let message = fixture.service.write(AGENT, &draft, &"x".repeat(2 << 20)).await.unwrap_err();
    assert!(message.to_string().contains("the draft is unchanged"), "{message}");
    assert_eq!(fixture.service.read(AGENT, &draft).await.unwrap().content, "a\nc");
    let binary = fixture.propose("open.txt", "a\0b").await;
    assert_eq!((binary.verdict, rules(&binary)), (SubmissionStatus::Escalated, vec!["binary"]));
}

#[tokio::test]
async fn verdict_message_is_delivered_once_with_the_next_response() {
    let fixture =
        Fixture::under(Policy { review: assize_config::Review::Always, ..Policy::default() });
    let submitted = fixture.propose("src/watchdog.py", "x = 1\n").await;
    assert_eq!(submitted.verdict, SubmissionStatus::Escalated, "{submitted:?}");
    let message = fixture.request("src/watchdog.py").await.unwrap_err().to_string();
    assert!(message.contains("waits for a decision"), "{message}");
    fixture.service.accept("ann", number(&submitted), assize_draft::Force::No).await.unwrap();
    // The agent of another task does not get the message.
    let other = fixture.service.request(AGENT, "src/watchdog.py", "other").await.unwrap();
    assert!(other.messages.is_empty());
    // Another process can deliver the message, and it is delivered only once.
    let service = fixture.another();
    let next = service.request(AGENT, "README.md", TASK).await.unwrap();
    assert_eq!(next.messages.len(), 1);
    assert_eq!(next.messages[0].kind, MessageKind::DraftAccepted);
    assert_eq!(next.messages[0].submission, submitted.submission);
    let later = fixture.service.read(AGENT, &next.draft_path).await.unwrap();
    assert!(later.messages.is_empty());
}

#[tokio::test]
async fn concurrent_agents_in_two_processes_change_different_files() {
    let fixture = Fixture::new();
    let other = fixture.another();
    let tasks = (0..24).map(|number| {
        let service = if number % 2 == 0 { fixture.service.clone() } else { other.clone() };
        fixture.put(&format!("f{number}.py"), "x = 1\n");
        tokio::spawn(async move {
            let (path, task) = (format!("f{number}.py"), format!("task-{number}"));
            let draft = service.request(AGENT, &path, &task).await.unwrap().draft_path;
            service.write(AGENT, &draft, &format!("x = {number}0\n")).await.unwrap();
            let submit = assize_draft::SubmitRequest { task_id: &task, ..submit(&draft, &path) };
            service.submit(AGENT, submit).await.unwrap().verdict
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap(), SubmissionStatus::Accepted);
    }
    for number in 0..24 {
        assert_eq!(fixture.text(&format!("f{number}.py")), format!("x = {number}0\n"));
    }
    assert_eq!(fixture.service.compare_logs().await.unwrap(), assize_draft::LogComparison::Same);
}

#[tokio::test]
async fn unwritten_draft_of_a_new_file_is_not_submitted_with_other_drafts() {
    let fixture = Fixture::new();
    fixture.request("new.py").await.unwrap();
    let draft = fixture.request("src/watchdog.py").await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, &format!("{WATCHDOG}# end\n")).await.unwrap();
    let all = assize_draft::SubmitRequest { all_drafts: true, ..submit(&draft, "src/watchdog.py") };
    let accepted = fixture.service.submit(AGENT, all).await.unwrap();
    assert_eq!(
        (accepted.verdict, accepted.files),
        (SubmissionStatus::Accepted, vec!["src/watchdog.py".to_owned()])
    );
    assert!(!fixture.repo("new.py").exists());
    // Submitted alone, an empty new file is accepted.
    let empty = fixture.submit("new.py.phase10_version_flag.draft", "new.py").await.unwrap();
    assert_eq!(empty.verdict, SubmissionStatus::Accepted);
    assert_eq!(fixture.text("new.py"), "");
}

/// Messages are delivered only with successful responses.
#[tokio::test]
async fn failed_tool_call_does_not_lose_undelivered_messages() {
    let fixture =
        Fixture::under(Policy { review: assize_config::Review::Always, ..Policy::default() });
    let one = fixture.propose("one.py", "x = 1\n").await;
    fixture.propose("two.py", "x = 1\n").await;
    fixture.service.accept("ann", number(&one), assize_draft::Force::No).await.unwrap();
    assert!(fixture.request("two.py").await.is_err());
    assert!(fixture.request("../x").await.is_err());
    let next = fixture.request("three.py").await.unwrap();
    assert_eq!(next.messages.len(), 1, "{next:?}");
}

#[tokio::test]
async fn draft_names_never_collide() {
    let fixture = Fixture::new();
    let one = fixture.service.request(AGENT, "a", "t").await.unwrap().draft_path;
    let hash = Fingerprint::of("d2/a").to_string();
    let task = format!("t.{}", &hash[..8]);
    let two = fixture.service.request(AGENT, "a", &task).await.unwrap().draft_path;
    fixture.service.write(AGENT, &two, "theirs\n").await.unwrap();
    let three = fixture.service.request(AGENT, "d2/a", "t").await.unwrap().draft_path;
    assert!(one != two && two != three && one != three, "{one} {two} {three}");
    assert_eq!(fixture.service.read(AGENT, &two).await.unwrap().content, "theirs\n");
    let odd = fixture.request(".new-x").await.unwrap().draft_path;
    fixture.service.write(AGENT, &odd, "x\n").await.unwrap();
}
