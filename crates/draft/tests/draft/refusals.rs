//! What workers cannot do: each way out, tried through the tools.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use assize_draft::{Answer, DraftError, NewContent, Options, Proposal, Seen, Submit};
use assize_gate::Policy;
use assize_run::AuditQuery;
use assize_workspace::{GitSettings, Workspace};
use proptest::prelude::*;

use crate::office::{Office, TASK, WATCHDOG, WORKER, number, rules, small_files, submit};

/// The message and the log must not repeat the token.
#[tokio::test]
async fn secret_in_a_file_name_or_task_id_is_rejected_without_its_text() {
    let office = Office::new();
    let token = ["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat();
    let path = format!("docs/{token}.md");
    let tried = [
        office.desk.request(WORKER, &path, TASK).await.unwrap_err(),
        office.desk.request(WORKER, &format!("../{path}"), TASK).await.unwrap_err(),
        office.desk.request(WORKER, "src/watchdog.py", &token).await.unwrap_err(),
        office.desk.request(WORKER, "src/watchdog.py", &format!("a/{token}")).await.unwrap_err(),
        propose(&office, &path).await,
    ];
    for error in tried {
        let told = error.to_string();
        assert!(told.contains("a token of GitHub") && told.contains("choose another"), "{told}");
        assert!(!told.contains("R2d9"), "{told}");
    }
    let log = office.store.audit_log(AuditQuery::default()).await.unwrap();
    let log = format!("{log:?}");
    assert!(!log.contains("R2d9"), "{log}");
    // The worker did not choose the name of an existing file.
    office.put(&path, "x\n");
    office.desk.request(WORKER, &path, TASK).await.unwrap();
}

/// The name was there before, and the value is new.
#[tokio::test]
async fn new_value_below_an_old_name_is_rejected() {
    let office = Office::new();
    let env = |value: &str| format!("env:\n  - name: DB_PASSWORD\n    {value}\n");
    office.put("deploy.yaml", env("valueFrom: {}"));
    let submitted = office.propose("deploy.yaml", &env("value: hunter2")).await;
    assert_eq!(rules(&submitted), ["secret/assigned-password"]);
    assert_eq!(submitted.reasons[0].line, Some(3));
    let submitted = office.propose("deploy.yaml", &env("value: $(DB_PASSWORD)")).await;
    assert_eq!(submitted.verdict, Answer::Accepted, "{submitted:?}");
}

/// Why a new file cannot be proposed as text.
async fn propose(office: &Office, path: &str) -> DraftError {
    let contents = [NewContent { path, content: "x\n", seen: Seen::Absent }];
    let proposal = Proposal { key: "k", task_id: TASK, summary: "", contents: &contents };
    office.desk.propose(WORKER, proposal).await.unwrap_err()
}

/// Each of these is refused, and each is in the log.
#[tokio::test]
async fn no_path_leads_out_and_every_try_is_written_down() {
    let office = Office::new();
    symlink("../secret", office.repo("leaf")).unwrap();
    symlink("..", office.repo("up")).unwrap();
    symlink("src", office.repo("alias")).unwrap();
    symlink("/proc/self/root", office.repo("magic")).unwrap();
    fs::hard_link(office.folder.path().join("secret"), office.repo("hard")).unwrap();
    office.put(".env", "KEY=1\n");
    office.put(".git/config", "[core]\n");
    office.put("deploy/server.pem", "x\n");
    office
        .put("notes.txt", ["-----BEGIN RSA PRIVATE", " KEY-----\nMIIEowIBAAKCAQEAxyz\n"].concat());
    let tries = [
        ("../secret", "leads elsewhere"),
        ("src/../../secret", "leads elsewhere"),
        ("/etc/passwd", "outside the workspace"),
        ("/proc/self/environ", "outside the workspace"),
        ("leaf", "links are not followed"),
        ("up/secret", "links are not followed"),
        ("alias/watchdog.py", "links are not followed"),
        ("magic/etc/hosts", "links are not followed"),
        ("hard", "it has 2 names"),
        ("_handoff/TASK_CONTRACT.json", "is where drafts are kept"),
        ("_handoff/transition.ndjson", "is where drafts are kept"),
        ("_HANDOFF/drafts/x", "is where drafts are kept"),
        (".git/config", "may hold secrets"),
        (".GIT/hooks/post-checkout", "may hold secrets"),
        (".env", "may hold secrets"),
        ("sub/.env.production", "may hold secrets"),
        ("deploy/server.pem", "may hold secrets"),
        ("notes.txt", "rule `secret/private-key`"),
        ("src\\watchdog.py", "a character that no path here may have"),
        ("src/watch\u{202e}dog.py", "a character that no path here may have"),
        ("a\0b", "a character that no path here may have"),
        ("", "the path is empty"),
    ];
    for (path, why) in tries {
        match office.request(path).await {
            Err(DraftError::Refused(told)) => assert!(told.contains(why), "{path}: {told}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    let writes = [
        "../secret",
        "src/watchdog.py",
        "/etc/passwd",
        "_handoff/TASK_CONTRACT.json",
        "_handoff/drafts/../TASK_CONTRACT.json",
        "_handoff/drafts/phase10_version_flag.submission.json",
        "_handoff/drafts/sub/x.draft",
        "_handoff/drafts/../../src/x.draft",
        "_handoff/x.draft",
        "_HANDOFF/drafts/x.draft",
        "/x.draft",
        "/srv/other/_handoff/drafts/x.draft",
        "..",
        "_handoff/transition.ndjson",
        "",
    ];
    for path in writes {
        for refused in [
            office.desk.write(WORKER, path, "x").await.map(drop),
            office.desk.read(WORKER, path).await.map(drop),
            office.desk.submit(WORKER, submit(path, "src/watchdog.py")).await.map(drop),
        ] {
            assert!(matches!(refused, Err(DraftError::Refused(_))), "{path}: {refused:?}");
        }
    }
    let book = office.desk.state().await.unwrap();
    assert_eq!(book.refused, (tries.len() + 3 * writes.len()) as u64);
    assert_eq!(office.text("../secret"), "SECRET");
    assert_eq!(office.text("src/watchdog.py"), WATCHDOG);
    assert!(office.drafts().is_empty());
}

#[tokio::test]
async fn what_may_be_read_can_be_said() {
    let policy = Policy { readable: vec![".env.ci".to_owned()], ..Policy::default() };
    let office = Office::under(policy);
    office.put(".env.ci", "KEY=\n");
    office.put(".env", "KEY=1\n");
    assert!(office.request(".env.ci").await.is_ok());
    assert!(matches!(office.request(".env").await, Err(DraftError::Refused(_))));
}

/// A token, made up here and put together so that no scanner takes this file for one that leaks.
fn token() -> String {
    ["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat()
}

#[tokio::test]
async fn files_with_secrets_are_not_handed_out() {
    let office = Office::under(Policy { readable: vec!["ok.py".to_owned()], ..small_files() });
    let key = ["-----BEGIN PRIVATE", " KEY-----"].concat();
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj";
    office.put("late.txt", format!("{}{key}\n{body}\n", "a line\n".repeat(2000)));
    office.put(
        "account.json",
        format!(r#"{{"type": "service_account", "private_key": "{key}\n{body}"}}"#),
    );
    office.put("config.py", format!("x = 1\n\nTOKEN = \"{}\"\n", token()));
    office.put("ok.py", format!("TOKEN = \"{}\"\n", token()));
    office.put("stays.py", format!("TOKEN = \"{}\"  # assize: allow-secret\n", token()));
    for (path, why) in [
        ("late.txt", "rule `secret/private-key`"),
        ("account.json", "rule `secret/private-key`"),
        ("config.py", "line 3 of `config.py` contains a secret (rule `secret/github-token`)"),
    ] {
        let told = office.request(path).await.unwrap_err().to_string();
        assert!(told.contains(why) && told.contains("`draft.readable`"), "{path}: {told}");
        assert!(!told.contains("ghp"), "{told}");
    }
    for path in ["ok.py", "stays.py"] {
        assert!(office.request(path).await.is_ok(), "{path}");
    }
}

#[tokio::test]
async fn changes_that_no_diff_shows_or_that_run_by_themselves_escalate() {
    let office = Office::new();
    office.put(".gitignore", "build/\n*.log\n!keep.log\n");
    office.put("sub/.gitignore", "/generated\n");
    office.put(".git/info/exclude", "local.txt\n");
    office.put("bin/tool", "#!/bin/sh\n");
    office.put("src/tool", "#!/bin/sh\n");
    for path in ["bin/tool", "src/tool"] {
        fs::set_permissions(office.repo(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (path, rule) in [
        ("build/run", Some("git-ignored")),
        ("a/b.log", Some("git-ignored")),
        ("sub/generated", Some("git-ignored")),
        ("local.txt", Some("git-ignored")),
        ("bin/tool", Some("executable")),
        ("Makefile", Some("runs-on-build")),
        (".zed/tasks.json", Some("protected")),
        ("keep.log", None),
        ("other/generated", None),
        ("src/tool", None),
        ("src/a.py", None),
    ] {
        let done = office.propose(path, "#!/bin/sh\necho 1\n").await;
        assert_eq!(rules(&done), rule.into_iter().collect::<Vec<_>>(), "{path}");
        let expected = if rule.is_some() { Answer::Escalated } else { Answer::Accepted };
        assert_eq!(done.verdict, expected, "{path}");
    }
}

/// A workspace below the root of its repository is under the repository's patterns, too.
#[tokio::test]
async fn patterns_of_the_outer_repository_count() {
    let office = Office::new();
    fs::create_dir_all(office.repo("../.git")).unwrap();
    fs::write(office.repo("../.gitignore"), "/repo/out/\n").unwrap();
    let done = office.propose("out/x.py", "x = 1\n").await;
    assert_eq!(rules(&done), ["git-ignored"]);
    assert_eq!(office.propose("src/out/x.py", "x = 1\n").await.verdict, Answer::Accepted);
}

/// The precedence of git: the user's lists are the weakest, and nothing brings back a file of an ignored folder.
#[tokio::test]
async fn ignore_lists_of_the_user_count_and_are_the_weakest() {
    let home = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        fs::create_dir_all(home.path().join(path).parent().unwrap()).unwrap();
        fs::write(home.path().join(path), text).unwrap();
    };
    put(".gitconfig", "[core]\n\texcludesFile = ~/lists/mine # for all repositories\n");
    put("lists/mine", "*.local\n/scratch\nnotes.txt\ncache/\n");
    put("lists/theirs", "*.theirs\n!a.local\n");
    put("system", "");
    let git = GitSettings::of(home.path(), |name| {
        let system = home.path().join("system").display().to_string();
        (name == "GIT_CONFIG_SYSTEM").then_some(system)
    });
    let office = Office::with(Options { policy: small_files(), git, ..Options::default() });
    office.put(
        ".git/config",
        format!("[core]\nexcludesFile = \"{}/lists/theirs\"\n", home.path().display()),
    );
    office.put(".git/info/exclude", "!notes.txt\nbuild/\n");
    office.put(".gitignore", "!c.local\n");
    office.put("build/.gitignore", "!run.py\n");
    for (path, ignored) in [
        // A list that the repository's own settings name cannot bring back what the user's list ignores.
        ("a.local", true),
        ("src/b.local", true),
        ("scratch", true),
        ("src/cache/x.py", true),
        ("x.theirs", true),
        ("build/run.py", true),
        ("c.local", false),
        ("notes.txt", false),
        ("src/scratch", false),
        ("src/a.py", false),
    ] {
        let done = office.propose(path, "x = 1\n").await;
        let expected: &[&str] = if ignored { &["git-ignored"] } else { &[] };
        assert_eq!(rules(&done), expected, "{path}");
        let shown = done.reasons.iter().any(|reason| reason.message.contains("lists/"));
        assert!(!shown, "{:?}", done.reasons);
    }
}

#[tokio::test]
async fn hidden_characters_escalate_with_their_position() {
    let office = Office::new();
    let done = office.propose("src/a.py", "x = 1\nuser\u{200b}name = 2\n").await;
    assert_eq!((done.verdict, rules(&done)), (Answer::Escalated, vec!["invisible-text"]));
    assert_eq!(done.reasons[0].line, Some(2));
    assert_eq!(done.reasons[0].message, "column 5: U+200B (ZERO WIDTH SPACE) is invisible");
}

#[tokio::test]
async fn hidden_characters_are_named_in_the_first_lines_that_have_any() {
    let office = Office::new();
    let done = office.propose("src/a.py", &"x\u{200b} = 1\n".repeat(7)).await;
    let lines: Vec<_> = done.reasons.iter().map(|reason| reason.line).collect();
    assert_eq!(lines, (1..=5).map(Some).collect::<Vec<_>>());
    let last = &done.reasons[4].message;
    assert!(last.ends_with("is invisible; 2 more lines have such text"), "{last}");
}

#[tokio::test]
async fn workspace_behind_a_link_takes_paths_through_the_link() {
    let office = Office::new();
    let link = office.folder.path().join("link");
    symlink(office.repo(""), &link).unwrap();
    let workspace = Workspace::open(&link).unwrap();
    for root in [&link, &office.repo("").canonicalize().unwrap()] {
        let path = root.join("src/watchdog.py");
        let inside = workspace.inside(path.to_str().unwrap()).unwrap();
        assert_eq!(inside.to_string(), "src/watchdog.py");
    }
    let other = office.folder.path().join("linked/x");
    assert!(workspace.inside(other.to_str().unwrap()).is_err());
}

#[tokio::test]
async fn a_contract_binds_the_worker_and_a_wrong_one_stops_all() {
    let office = Office::new();
    office.put("docs/a.md", "a\n");
    office.put(
        "_handoff/TASK_CONTRACT.json",
        format!(r#"{{"version": 1, "task_id": "{TASK}", "allowed_paths": ["src/"], "limits": {{"max_lines": 3, "max_files": 1}}}}"#),
    );
    let told = office.request("docs/a.md").await.unwrap_err().to_string();
    assert!(told.contains("it allows `src/`"), "{told}");
    let told = office.desk.request(WORKER, "src/watchdog.py", "x").await.unwrap_err().to_string();
    assert!(told.contains("the contract is about the task `phase10_version_flag`"), "{told}");
    let long = WATCHDOG.replace("import sys\n", "import sys\n\n\nA = 1\nB = 2\n");
    let escalated = office.propose("src/watchdog.py", &long).await;
    assert_eq!((escalated.verdict, rules(&escalated)), (Answer::Escalated, vec!["scope/lines"]));
    let short = office.propose("src/new.py", "A = 1\n").await;
    assert_eq!(short.verdict, Answer::Accepted);
    let second = office.propose("src/other.py", "A = 1\n").await;
    assert_eq!((second.verdict, rules(&second)), (Answer::Escalated, vec!["scope/files"]));

    office.put("_handoff/TASK_CONTRACT.json", r#"{"version": 1, "allowed": []}"#);
    let told = office.request("src/new.py").await.unwrap_err().to_string();
    assert!(told.contains("unknown field `allowed`"), "{told}");
    fs::remove_file(office.repo("_handoff/TASK_CONTRACT.json")).unwrap();
    symlink("../../secret", office.repo("_handoff/TASK_CONTRACT.json")).unwrap();
    assert!(matches!(office.request("src/new.py").await, Err(DraftError::Contract(_))));
}

/// A submission that somebody wrote beside the drafts means nothing.
#[tokio::test]
async fn a_submission_of_ones_own_making_is_nobodys() {
    let office = Office::new();
    office.request("src/watchdog.py").await.unwrap();
    let forged = r#"{"submission": {"files": [{"path": "../secret", "draft": "x", "after": "y"}], "stage": "accepted"}}"#;
    office.put(&format!("_handoff/drafts/{TASK}.submission.json"), forged);
    office.put("_handoff/drafts/evil.draft", "evil");
    let told = office.submit("_handoff/drafts/evil.draft", "src/watchdog.py").await.unwrap_err();
    assert!(told.to_string().contains("there is no open draft `evil.draft`"), "{told}");
    let accepted = office.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    assert_eq!(accepted.verdict, Answer::Accepted);
    assert_eq!(office.text("../secret"), "SECRET");
    assert_eq!(office.drafts(), ["evil.draft"]);
}

#[tokio::test]
async fn a_draft_that_became_something_else_is_not_followed() {
    let office = Office::new();
    let draft = office.request("src/watchdog.py").await.unwrap().draft_path;
    fs::remove_file(office.repo(&draft)).unwrap();
    let told = office.submit(&draft, "src/watchdog.py").await.unwrap_err().to_string();
    assert!(told.contains("is not there any more; ask for it again"), "{told}");
    symlink("../../../secret", office.repo(&draft)).unwrap();
    for refused in [
        office.desk.read(WORKER, &draft).await.map(drop),
        office.submit(&draft, "src/watchdog.py").await.map(drop),
    ] {
        assert!(matches!(refused, Err(DraftError::Refused(_))), "{refused:?}");
    }
    // What is written takes the link's place.
    office.desk.write(WORKER, &draft, "x = 1\n").await.unwrap();
    assert_eq!(office.text("../secret"), "SECRET");
    // Asked for anew, it is there again.
    fs::remove_file(office.repo(&draft)).unwrap();
    office.request("src/watchdog.py").await.unwrap();
    assert_eq!(office.desk.read(WORKER, &draft).await.unwrap().content, WATCHDOG);
    // Permissions of a draft are no change of the file's.
    office.desk.write(WORKER, &draft, &format!("{WATCHDOG}# end\n")).await.unwrap();
    fs::set_permissions(office.repo(&draft), fs::Permissions::from_mode(0o4777)).unwrap();
    let escalated = office.submit(&draft, "src/watchdog.py").await.unwrap();
    assert_eq!((escalated.verdict, rules(&escalated)), (Answer::Escalated, vec!["mode"]));
    office.desk.accept("ann", number(&escalated), assize_draft::Force::No).await.unwrap();
    let mode = fs::metadata(office.repo("src/watchdog.py")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[tokio::test]
async fn look_alikes_and_twins_are_looked_at_by_a_person() {
    let office = Office::new();
    office.put("docs/readme.md", "x\n");
    for (path, rule) in [
        ("src/w\u{430}tchdog.py", "look-alike"),
        ("docs/README.md", "look-alike"),
        (".github/workflows/ci.yml", "protected"),
        ("Cargo.lock", "protected"),
        (".bashrc", "protected"),
    ] {
        let escalated = office.propose(path, "new\n").await;
        assert_eq!(
            (escalated.verdict, rules(&escalated)),
            (Answer::Escalated, vec![rule]),
            "{path}"
        );
        assert!(!office.repo(path).exists());
    }
}

#[tokio::test]
async fn deletions_rewrites_and_large_changes_escalate() {
    let office = Office::under(Policy::default());
    let lines: String = (0..10).map(|number| format!("line {number}\n")).collect();
    office.put("ten.txt", &lines);
    let half: String = lines.lines().take(5).map(|line| format!("{line}\n")).collect();
    let less: String = lines.lines().take(4).map(|line| format!("{line}\n")).collect();
    let escalated = office.propose("ten.txt", &less).await;
    assert_eq!((escalated.verdict, rules(&escalated)), (Answer::Escalated, vec!["deletion"]));
    assert!(escalated.reasons[0].message.contains("6 of 10 lines"), "{escalated:?}");
    office.desk.reject("ann", number(&escalated), "").await.unwrap();
    let rewritten: String = (0..200).map(|number| format!("junk {number}\n")).collect();
    let many: String = (0..200).map(|number| format!("line {number}\n")).collect();
    office.put("many.txt", &many);
    let escalated = office.propose("many.txt", &rewritten).await;
    assert_eq!((escalated.verdict, rules(&escalated)), (Answer::Escalated, vec!["deletion"]));
    let message = &escalated.reasons[0].message;
    assert_eq!(message, "200 of 200 lines are removed or replaced (100.0 %, at most 50.0 %)");
    assert_eq!(office.text("many.txt"), many);
    assert_eq!(office.propose("ten.txt", &half).await.verdict, Answer::Accepted);
    let long: String = (0..501).map(|number| format!("line {number}\n")).collect();
    let escalated = office.propose("long.txt", &long).await;
    assert_eq!((escalated.verdict, rules(&escalated)), (Answer::Escalated, vec!["scope/lines"]));
    // Without a person, what is in doubt is sent back.
    let policy = Policy { review: assize_config::Review::Never, ..Policy::default() };
    let office = Office::under(policy);
    assert_eq!(office.propose("long.txt", &long).await.verdict, Answer::Rejected);
}

/// Whoever swaps folders for links while drafts are applied changes nothing outside.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_swaps_folders_while_drafts_are_applied_gains_nothing() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let office = Office::new();
    fs::create_dir(office.folder.path().join("outside")).unwrap();
    fs::write(office.folder.path().join("outside/file.py"), "outside\n").unwrap();
    office.put("deep/file.py", "x = 0\n");
    let done = std::sync::Arc::new(AtomicBool::new(false));
    let (deep, away) = (office.repo("deep"), office.repo("away"));
    let swapping = done.clone();
    let swapper = std::thread::spawn(move || {
        while !swapping.load(Ordering::Relaxed) {
            fs::rename(&deep, &away).unwrap();
            symlink("../outside", &deep).unwrap();
            fs::remove_file(&deep).unwrap();
            fs::rename(&away, &deep).unwrap();
            // At times it stays, so that at times all goes well.
            std::thread::sleep(std::time::Duration::from_micros(fastrand::u64(..8000)));
        }
    });
    let mut accepted = 0;
    for round in 0..100 {
        let task = format!("t{round}");
        let Ok(requested) = office.desk.request(WORKER, "deep/file.py", &task).await else {
            continue;
        };
        // While the folder is away, its file would be a new one.
        if requested.new_file {
            continue;
        }
        office.desk.write(WORKER, &requested.draft_path, &format!("x = {round}1\n")).await.unwrap();
        let submit = Submit { task_id: &task, ..submit(&requested.draft_path, "deep/file.py") };
        accepted += u32::from(
            office.desk.submit(WORKER, submit).await.unwrap().verdict == Answer::Accepted,
        );
    }
    done.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(accepted > 0);
    let outside: Vec<_> = fs::read_dir(office.folder.path().join("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(office.text("../outside/file.py"), "outside\n");
}

proptest! {
    #![proptest_config(crate::office::cases(32, 20))]
    /// Whatever is asked for, written and handed in, only files of the workspace change, and only if accepted.
    #[test]
    fn nothing_but_accepted_drafts_changes_anything(
        tries in prop::collection::vec(
            (prop::sample::select(vec!["src/watchdog.py", "a/b", "leaf", "../secret", "up/secret", "_handoff/drafts/x", ".git/x"]),
             "[a-z \n/:=\"']{0,60}", 0..4u8),
            1..8,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let office = Office::new();
            symlink("../secret", office.repo("leaf")).unwrap();
            symlink("..", office.repo("up")).unwrap();
            let mut accepted = std::collections::BTreeMap::from([("src/watchdog.py".to_owned(), WATCHDOG.to_owned())]);
            for (path, content, how) in tries {
                let draft = match office.request(path).await {
                    Ok(requested) => requested.draft_path,
                    Err(_) => format!("_handoff/drafts/{path}"),
                };
                if how > 0 { let _ = office.desk.write(WORKER, &draft, &content).await; }
                if how > 1 && let Ok(submitted) = office.submit(&draft, path).await
                    && submitted.verdict == Answer::Accepted {
                    accepted.insert(path.to_owned(), content);
                }
            }
            for (path, content) in &accepted {
                prop_assert_eq!(&office.text(path), content);
            }
            let beside: Vec<_> = fs::read_dir(office.folder.path()).unwrap().collect();
            prop_assert_eq!(beside.len(), 3);
            prop_assert_eq!(office.text("../secret"), "SECRET");
            prop_assert!(accepted.contains_key("a/b") || !office.repo("a").exists());
            prop_assert_eq!(office.desk.compare_logs().await.unwrap(), assize_draft::Mirror::Same);
            Ok(())
        })?;
    }
}

/// However much a worker writes into a path, the log stays small.
#[tokio::test]
async fn nobody_fills_the_log() {
    let office = Office::new();
    let long = "a".repeat(1 << 20);
    for _ in 0..3 {
        assert!(office.desk.read(WORKER, &long).await.is_err());
        assert!(office.desk.read(WORKER, &format!("{long}.draft")).await.is_err());
        assert!(office.desk.request(WORKER, &long, TASK).await.is_err());
        assert!(office.desk.request(WORKER, "a", &format!("{long}/")).await.is_err());
    }
    let log = fs::metadata(office.repo("_handoff/transition.ndjson")).unwrap().len();
    assert!(log < 20_000, "{log}");
}

#[tokio::test]
async fn what_reads_otherwise_than_it_runs_is_looked_at_by_a_person() {
    let office = Office::new();
    office.put("src/a.py", "x = 1\n");
    for (path, content, rule) in [
        ("b.py", "access = \"user\u{202e} \u{2066}# admin\"\n", "turned-text"),
        ("-rf", "x\n", "look-alike"),
        ("a.txt ", "x\n", "look-alike"),
        ("$(id)", "x\n", "look-alike"),
        ("Src/b.py", "x\n", "look-alike"),
    ] {
        let escalated = office.propose(path, content).await;
        assert_eq!(
            (escalated.verdict, rules(&escalated)),
            (Answer::Escalated, vec![rule]),
            "{path}"
        );
    }
    let told = office.request("newdir/").await.unwrap_err().to_string();
    assert!(told.contains("names a folder"), "{told}");
}

#[tokio::test]
async fn what_was_only_moved_is_held_against_nobody() {
    let office = Office::under(Policy { readable: vec!["a.py".to_owned()], ..small_files() });
    let key = format!("token = \"{}\"", token());
    office.put("a.py", format!("if x:\n    {key}\ny = 1\nz = 2\n"));
    let moved = office.propose("a.py", &format!("y = 1\nz = 2\n{key}\n")).await;
    assert_eq!(moved.verdict, Answer::Accepted, "{moved:?}");
    let draft = office.request("a.py").await.unwrap().draft_path;
    office.desk.write(WORKER, &draft, "y = 1\nz = 3\n").await.unwrap();
    let secret = Submit { change_summary: &key, ..submit(&draft, "a.py") };
    let told = office.desk.submit(WORKER, secret).await.unwrap_err().to_string();
    assert!(told.contains("the summary has a token of GitHub in it"), "{told}");
}
