//! Verifications: what they decide, when they take long, and that their copies lead nowhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_draft::{Answer, DraftService, Force, MessageKind, Options, Stage};
use assize_gate::{Job, NotVerified, Policy, Ran, Verifier, Verify};
use async_trait::async_trait;
use tokio::sync::Semaphore;

use crate::office::{Office, WATCHDOG, WORKER, number, rules};

/// Says what it is told to, once it may, and notes what it saw.
#[derive(Debug)]
struct Says {
    passes: bool,
    may: Semaphore,
    seen: Mutex<Vec<(String, Vec<String>)>>,
}

impl Says {
    fn new(passes: bool, permits: usize) -> Arc<Says> {
        Arc::new(Says { passes, may: Semaphore::new(permits), seen: Mutex::default() })
    }
}

fn names(folder: &Path, below: &str, names_of: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => names(&entry.path(), &format!("{name}/"), names_of),
            false => names_of.push(name),
        }
    }
    names_of.sort();
}

#[async_trait]
impl Verifier for Says {
    async fn run(&self, job: Job<'_>) -> Result<Ran, NotVerified> {
        let mut found = Vec::new();
        names(job.copy, "", &mut found);
        self.seen.lock().unwrap().push((job.command, found));
        self.may.acquire().await.unwrap().forget();
        Ok(Ran {
            passed: self.passes,
            outcome: if self.passes { "passed" } else { "exit code 1" }.to_owned(),
            printed: b"the output".to_vec(),
            isolation: "test".to_owned(),
            ..Ran::default()
        })
    }
}

fn options(verifier: Arc<Says>, commands: &[&str]) -> Options {
    let verify = commands.iter().map(|command| Verify::command(*command)).collect();
    Options {
        policy: Policy { verify, ..Policy::default() },
        verifier: Some(verifier),
        patience: Duration::from_secs(60),
        ..Options::default()
    }
}

#[tokio::test]
async fn a_contract_adds_a_verification_and_replaces_none() {
    let says = Says::new(true, 9);
    let office = Office::with(options(says.clone(), &["mine"]));
    office.put("_handoff/TASK_CONTRACT.json", r#"{"version": 1, "verify": {"command": "theirs"}}"#);
    office.put(".env", "KEY=1");
    office.put(".git/config", "x");
    office.put("node_modules/a/b.js", "x");
    office.put("ui/node_modules/a/b.js", "x");
    let accepted = office.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    assert_eq!(accepted.verdict, Answer::Accepted, "{accepted:?}");
    let seen = says.seen.lock().unwrap().clone();
    let commands: Vec<&str> = seen.iter().map(|(command, _)| command.as_str()).collect();
    assert_eq!(commands, ["mine", "theirs"]);
    // What holds secrets, and what is dull, is not in the copy.
    assert_eq!(seen[0].1, ["src/watchdog.py"]);
    assert!(accepted.verified.unwrap().passed);
}

#[tokio::test]
async fn what_fails_is_rejected_with_the_end_of_its_output() {
    let office = Office::with(options(Says::new(false, 9), &["mine", "never reached"]));
    let rejected = office.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    assert_eq!((rejected.verdict, rules(&rejected)), (Answer::Rejected, vec!["verify"]));
    assert!(rejected.reasons[0].message.contains("`mine` failed: exit code 1\nthe output"));
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
    // What is hopeless anyway is not run.
    let says = Says::new(true, 9);
    let office = Office::with(options(says.clone(), &["mine"]));
    office.propose("a.py", "LOG = \"/home/ann/log\"\n").await;
    assert!(says.seen.lock().unwrap().is_empty());
}

/// Links of the workspace are in the copy, and lead nowhere out of it.
#[tokio::test]
async fn a_link_on_the_way_of_a_draft_is_not_followed_in_the_copy() {
    let says = Says::new(true, 9);
    let office = Office::with(options(says.clone(), &["mine"]));
    fs::create_dir(office.folder.path().join("outside")).unwrap();
    fs::write(office.folder.path().join("outside/notes.txt"), "outside").unwrap();
    let draft = office.request("conf/notes.txt").await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, "evil\n").await.unwrap();
    symlink(office.folder.path().join("outside"), office.repo("conf")).unwrap();
    let escalated = office.submit(&draft, "conf/notes.txt").await.unwrap();
    assert_eq!(escalated.verdict, Answer::Escalated, "{escalated:?}");
    assert_eq!(office.text("../outside/notes.txt"), "outside");
    assert!(says.seen.lock().unwrap().is_empty());
    // And even where the link comes while it is copied, it is in the way.
    let accepted = office.propose("other/notes.txt", "fine\n").await;
    assert_eq!(accepted.verdict, Answer::Accepted, "{accepted:?}");
    assert_eq!(says.seen.lock().unwrap()[0].1, ["conf", "other/notes.txt", "src/watchdog.py"]);
    assert_eq!(office.text("../outside/notes.txt"), "outside");
    let left: Vec<_> = fs::read_dir(office.folder.path().join("state/drafts")).unwrap().collect();
    let own = fs::read_dir(left[0].as_ref().unwrap().path()).unwrap();
    let copies = own.filter(|entry| {
        entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("verify-")
    });
    assert_eq!(copies.count(), 0);
}

#[tokio::test]
async fn a_verdict_that_takes_long_comes_with_a_later_answer() {
    let says = Says::new(true, 0);
    let patience = Duration::from_millis(20);
    let office = Office::with(Options { patience, ..options(says.clone(), &["mine"]) });
    let pending = office.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    assert_eq!(pending.verdict, Answer::Pending, "{pending:?}");
    // Nobody else decides meanwhile, and whoever asks again has the same answer.
    let told = office.another().accept("ann", number(&pending), Force::No).await.unwrap_err();
    assert!(told.to_string().contains("is being verified"), "{told}");
    let again =
        office.submit("watchdog.py.phase10_version_flag.draft", "src/watchdog.py").await.unwrap();
    assert_eq!((again.verdict, &again.message_id), (Answer::Pending, &pending.message_id));
    assert!(again.next.contains("nothing new was handed in"), "{}", again.next);
    says.may.add_permits(1);
    office.desk.finish_deciding().await;
    assert_eq!(office.text("src/watchdog.py"), format!("{WATCHDOG}# end\n"));
    let next = office.request("README.md").await.unwrap();
    let kinds: Vec<MessageKind> = next.messages.iter().map(|message| message.kind).collect();
    assert_eq!(kinds, [MessageKind::DraftAccepted]);
    // Told once.
    assert!(office.desk.read(WORKER, &next.draft_path).await.unwrap().messages.is_empty());
}

#[tokio::test]
async fn whoever_goes_away_is_told_when_they_come_back() {
    let says = Says::new(true, 0);
    let office = Office::with(options(says.clone(), &["mine"]));
    let draft = office.request("src/watchdog.py").await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, &format!("{WATCHDOG}# end\n")).await.unwrap();
    let desk = office.desk.clone();
    let asking = tokio::spawn(async move {
        desk.submit(WORKER, crate::office::submit(&draft, "src/watchdog.py")).await
    });
    while says.seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    asking.abort();
    let _ = asking.await;
    says.may.add_permits(1);
    office.desk.finish_deciding().await;
    let next = office.request("README.md").await.unwrap();
    assert_eq!(next.messages.len(), 1);
}

/// The process that verified it is gone. Another goes by other rules, and therefore asks a person.
#[test]
fn what_nobody_decided_on_is_not_decided_by_weaker_rules() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let patience = Duration::from_millis(20);
    let office = Office::with(Options { patience, ..options(Says::new(true, 0), &["mine"]) });
    let changed = format!("{WATCHDOG}# end\n");
    let pending = first.block_on(office.propose("src/watchdog.py", &changed));
    assert_eq!(pending.verdict, Answer::Pending);
    let id = number(&pending);
    let decide = |desk: &Arc<DraftService>| {
        let second = runtime();
        second.block_on(async {
            desk.begin_to_decide_what_is_left().await.unwrap();
            desk.finish_deciding().await;
            desk.state().await.unwrap().submissions[&id].clone()
        })
    };
    // As long as the first is at it, nobody else is.
    assert_eq!(decide(&office.another()).stage, Stage::Submitted);
    drop(first);
    let left = decide(&office.another());
    assert_eq!((left.stage, left.reasons[0].rule.as_str()), (Stage::Escalated, "policy"));
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
    // A person may still say yes, or no.
    let second = runtime();
    second.block_on(office.another().accept("ann", id, Force::No)).unwrap();
    assert_eq!(office.text("src/watchdog.py"), changed);
}
