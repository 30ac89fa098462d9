//! Tests of verifications: verdicts, slow verifications, and the workspace copies that verification commands run on.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_draft::{
    DraftOptions, DraftService, Force, MessageKind, SubmissionStage, SubmissionStatus,
};
use assize_gate::{CommandOutcome, Policy, Verifier, VerifyCommand, VerifyError, VerifyJob};
use async_trait::async_trait;
use tokio::sync::Semaphore;

use crate::fixture::{AGENT, Fixture, WATCHDOG, number, rules};

/// Fake verifier with a fixed result. It records each command and the files in the workspace copy, and waits for a
/// permit of the semaphore before it returns the result.
#[derive(Debug)]
struct FakeVerifier {
    passes: bool,
    permits: Semaphore,
    seen: Mutex<Vec<(String, Vec<String>)>>,
}

impl FakeVerifier {
    fn new(passes: bool, permits: usize) -> Arc<FakeVerifier> {
        Arc::new(FakeVerifier { passes, permits: Semaphore::new(permits), seen: Mutex::default() })
    }
}

fn names(folder: &Path, below: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => names(&entry.path(), &format!("{name}/"), found),
            false => found.push(name),
        }
    }
    found.sort();
}

#[async_trait]
impl Verifier for FakeVerifier {
    async fn run(&self, job: VerifyJob<'_>) -> Result<CommandOutcome, VerifyError> {
        let mut found = Vec::new();
        names(job.copy, "", &mut found);
        self.seen.lock().unwrap().push((job.command, found));
        self.permits.acquire().await.unwrap().forget();
        Ok(CommandOutcome {
            passed: self.passes,
            outcome: if self.passes { "passed" } else { "exit code 1" }.to_owned(),
            captured_output: b"the output".to_vec(),
            isolation: "test".to_owned(),
            ..CommandOutcome::default()
        })
    }
}

fn options(verifier: Arc<FakeVerifier>, commands: &[&str]) -> DraftOptions {
    let verify = commands.iter().map(|command| VerifyCommand::command(*command)).collect();
    DraftOptions {
        policy: Policy { verify, ..Policy::default() },
        verifier: Some(verifier),
        verdict_timeout: Duration::from_secs(60),
        ..DraftOptions::default()
    }
}

#[tokio::test]
async fn verification_commands_of_the_settings_and_the_contract_both_run() {
    let verifier = FakeVerifier::new(true, 9);
    let fixture = Fixture::with(options(verifier.clone(), &["mine"]));
    fixture
        .put("_handoff/TASK_CONTRACT.json", r#"{"version": 1, "verify": {"command": "theirs"}}"#);
    fixture.put(".env", "KEY=1");
    fixture.put(".git/config", "x");
    fixture.put("node_modules/a/b.js", "x");
    fixture.put("ui/node_modules/a/b.js", "x");
    let accepted = fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    assert_eq!(accepted.verdict, SubmissionStatus::Accepted, "{accepted:?}");
    let seen = verifier.seen.lock().unwrap().clone();
    let commands: Vec<&str> = seen.iter().map(|(command, _)| command.as_str()).collect();
    assert_eq!(commands, ["mine", "theirs"]);
    // The workspace copy does not contain files with secrets or installed packages.
    assert_eq!(seen[0].1, ["src/watchdog.py"]);
    assert!(accepted.verified.unwrap().passed);
}

#[tokio::test]
async fn failed_verification_rejects_the_draft_and_returns_the_end_of_the_output() {
    let fixture = Fixture::with(options(FakeVerifier::new(false, 9), &["mine", "never reached"]));
    let rejected = fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    assert_eq!((rejected.verdict, rules(&rejected)), (SubmissionStatus::Rejected, vec!["verify"]));
    assert!(rejected.reasons[0].message.contains("`mine` failed: exit code 1\nthe output"));
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
    // A change that the gate's checks reject is not verified.
    let verifier = FakeVerifier::new(true, 9);
    let fixture = Fixture::with(options(verifier.clone(), &["mine"]));
    fixture.propose("a.py", "LOG = \"/home/ann/log\"\n").await;
    assert!(verifier.seen.lock().unwrap().is_empty());
}

/// The workspace copy for a verification contains symbolic links as links, not the files that they point to.
#[tokio::test]
async fn verification_copy_does_not_follow_symlinks() {
    let verifier = FakeVerifier::new(true, 9);
    let fixture = Fixture::with(options(verifier.clone(), &["mine"]));
    fs::create_dir(fixture.folder.path().join("outside")).unwrap();
    fs::write(fixture.folder.path().join("outside/notes.txt"), "outside").unwrap();
    let draft = fixture.request("conf/notes.txt").await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, "evil\n").await.unwrap();
    symlink(fixture.folder.path().join("outside"), fixture.repo("conf")).unwrap();
    let escalated = fixture.submit(&draft, "conf/notes.txt").await.unwrap();
    assert_eq!(escalated.verdict, SubmissionStatus::Escalated, "{escalated:?}");
    assert_eq!(fixture.text("../outside/notes.txt"), "outside");
    assert!(verifier.seen.lock().unwrap().is_empty());
    // A symbolic link in the workspace is copied as a link.
    let accepted = fixture.propose("other/notes.txt", "fine\n").await;
    assert_eq!(accepted.verdict, SubmissionStatus::Accepted, "{accepted:?}");
    assert_eq!(verifier.seen.lock().unwrap()[0].1, ["conf", "other/notes.txt", "src/watchdog.py"]);
    assert_eq!(fixture.text("../outside/notes.txt"), "outside");
    let left: Vec<_> = fs::read_dir(fixture.folder.path().join("state/drafts")).unwrap().collect();
    let own = fs::read_dir(left[0].as_ref().unwrap().path()).unwrap();
    let copies = own.filter(|entry| {
        entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("verify-")
    });
    assert_eq!(copies.count(), 0);
}

#[tokio::test]
async fn slow_verdict_is_delivered_with_a_later_response() {
    let verifier = FakeVerifier::new(true, 0);
    let verdict_timeout = Duration::from_millis(20);
    let fixture =
        Fixture::with(DraftOptions { verdict_timeout, ..options(verifier.clone(), &["mine"]) });
    let pending = fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    assert_eq!(pending.verdict, SubmissionStatus::Pending, "{pending:?}");
    // During the verification, no reviewer can decide, and a second submit call returns the same status.
    let message = fixture.another().accept("ann", number(&pending), Force::No).await.unwrap_err();
    assert!(message.to_string().contains("is being verified"), "{message}");
    let again =
        fixture.submit("watchdog.py.phase10_version_flag.draft", "src/watchdog.py").await.unwrap();
    assert_eq!(
        (again.verdict, &again.message_id),
        (SubmissionStatus::Pending, &pending.message_id)
    );
    assert!(again.next.contains("nothing new was submitted"), "{}", again.next);
    verifier.permits.add_permits(1);
    fixture.service.wait_for_decisions().await;
    assert_eq!(fixture.text("src/watchdog.py"), format!("{WATCHDOG}# end\n"));
    let next = fixture.request("README.md").await.unwrap();
    let kinds: Vec<MessageKind> = next.messages.iter().map(|message| message.kind).collect();
    assert_eq!(kinds, [MessageKind::DraftAccepted]);
    // The message is delivered only once.
    assert!(fixture.service.read(AGENT, &next.draft_path).await.unwrap().messages.is_empty());
}

#[tokio::test]
async fn verdict_of_a_cancelled_submit_is_delivered_as_a_message() {
    let verifier = FakeVerifier::new(true, 0);
    let fixture = Fixture::with(options(verifier.clone(), &["mine"]));
    let draft = fixture.request("src/watchdog.py").await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, &format!("{WATCHDOG}# end\n")).await.unwrap();
    let service = fixture.service.clone();
    let asking = tokio::spawn(async move {
        service.submit(AGENT, crate::fixture::submit(&draft, "src/watchdog.py")).await
    });
    while verifier.seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    asking.abort();
    let _ = asking.await;
    verifier.permits.add_permits(1);
    fixture.service.wait_for_decisions().await;
    let next = fixture.request("README.md").await.unwrap();
    assert_eq!(next.messages.len(), 1);
}

/// The process that was verifying the submission died. The next process has a different policy than the first one, so a
/// reviewer must decide.
#[test]
fn orphaned_submission_escalates_under_a_changed_policy() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let verdict_timeout = Duration::from_millis(20);
    let fixture = Fixture::with(DraftOptions {
        verdict_timeout,
        ..options(FakeVerifier::new(true, 0), &["mine"])
    });
    let changed = format!("{WATCHDOG}# end\n");
    let pending = first.block_on(fixture.propose("src/watchdog.py", &changed));
    assert_eq!(pending.verdict, SubmissionStatus::Pending);
    let id = number(&pending);
    let decide = |service: &Arc<DraftService>| {
        let second = runtime();
        second.block_on(async {
            service.decide_orphaned_in_background().await.unwrap();
            service.wait_for_decisions().await;
            service.state().await.unwrap().submissions[&id].clone()
        })
    };
    // While the first process is verifying the submission, no other process decides on it.
    assert_eq!(decide(&fixture.another()).stage, SubmissionStage::Submitted);
    drop(first);
    let left = decide(&fixture.another());
    assert_eq!((left.stage, left.reasons[0].rule.as_str()), (SubmissionStage::Escalated, "policy"));
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
    // A reviewer can still accept the submission.
    let second = runtime();
    second.block_on(fixture.another().accept("ann", id, Force::No)).unwrap();
    assert_eq!(fixture.text("src/watchdog.py"), changed);
}
