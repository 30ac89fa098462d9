//! Tests of tool calls in which an agent tries to break a rule: forbidden paths, secrets, links, large changes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use assize_draft::{
    DraftError, DraftOptions, FileProposal, ProposedContent, SeenFile, SubmissionStatus,
    SubmitRequest,
};
use assize_gate::Policy;
use assize_run::AuditQuery;
use assize_workspace::{GitSettings, Workspace};
use proptest::prelude::*;

use crate::fixture::{AGENT, Fixture, TASK, WATCHDOG, number, rules, small_files, submit};

/// The error message and the log must not contain the secret.
#[tokio::test]
async fn secret_in_a_file_name_or_task_id_is_rejected_and_appears_in_no_error_or_log() {
    let fixture = Fixture::new();
    let token = ["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat();
    let path = format!("docs/{token}.md");
    let tried = [
        fixture.service.request(AGENT, &path, TASK).await.unwrap_err(),
        fixture.service.request(AGENT, &format!("../{path}"), TASK).await.unwrap_err(),
        fixture.service.request(AGENT, "src/watchdog.py", &token).await.unwrap_err(),
        fixture.service.request(AGENT, "src/watchdog.py", &format!("a/{token}")).await.unwrap_err(),
        propose(&fixture, &path).await,
    ];
    for error in tried {
        let message = error.to_string();
        assert!(
            message.contains("a token of GitHub") && message.contains("choose another"),
            "{message}"
        );
        assert!(!message.contains("R2d9"), "{message}");
    }
    let log = fixture.store.audit_log(AuditQuery::default()).await.unwrap();
    let log = format!("{log:?}");
    assert!(!log.contains("R2d9"), "{log}");
    // An existing file may have such a name, because the agent did not choose it.
    fixture.put(&path, "x\n");
    fixture.service.request(AGENT, &path, TASK).await.unwrap();
}

/// The file already contains the line with the name `DB_PASSWORD`; the draft adds only the line with its value.
#[tokio::test]
async fn password_value_added_under_an_existing_yaml_name_is_rejected() {
    let fixture = Fixture::new();
    let env = |value: &str| format!("env:\n  - name: DB_PASSWORD\n    {value}\n");
    fixture.put("deploy.yaml", env("valueFrom: {}"));
    let submitted = fixture.propose("deploy.yaml", &env("value: hunter2")).await;
    assert_eq!(rules(&submitted), ["secret/assigned-password"]);
    assert_eq!(submitted.reasons[0].line, Some(3));
    let submitted = fixture.propose("deploy.yaml", &env("value: $(DB_PASSWORD)")).await;
    assert_eq!(submitted.verdict, SubmissionStatus::Accepted, "{submitted:?}");
}

/// Proposes a new file as text; returns the error.
async fn propose(fixture: &Fixture, path: &str) -> DraftError {
    let contents = [ProposedContent { path, content: "x\n", seen: SeenFile::Absent }];
    let proposal = FileProposal { key: "k", task_id: TASK, summary: "", contents: &contents };
    fixture.service.propose(AGENT, proposal).await.unwrap_err()
}

/// Each forbidden path is refused by all tools and counted in the audit log.
#[tokio::test]
async fn forbidden_paths_are_refused_and_recorded() {
    let fixture = Fixture::new();
    symlink("../secret", fixture.repo("leaf")).unwrap();
    symlink("..", fixture.repo("up")).unwrap();
    symlink("src", fixture.repo("alias")).unwrap();
    symlink("/proc/self/root", fixture.repo("magic")).unwrap();
    fs::hard_link(fixture.folder.path().join("secret"), fixture.repo("hard")).unwrap();
    fixture.put(".env", "KEY=1\n");
    fixture.put(".git/config", "[core]\n");
    fixture.put("deploy/server.pem", "x\n");
    fixture
        .put("notes.txt", ["-----BEGIN RSA PRIVATE", " KEY-----\nMIIEowIBAAKCAQEAxyz\n"].concat());
    let tries = [
        ("../secret", "contains `..`"),
        ("src/../../secret", "contains `..`"),
        ("/etc/passwd", "outside the workspace"),
        ("/proc/self/environ", "outside the workspace"),
        ("leaf", "links are not followed"),
        ("up/secret", "links are not followed"),
        ("alias/watchdog.py", "links are not followed"),
        ("magic/etc/hosts", "links are not followed"),
        ("hard", "the file has 2 hard links"),
        ("_handoff/TASK_CONTRACT.json", "is reserved for drafts"),
        ("_handoff/transition.ndjson", "is reserved for drafts"),
        ("_HANDOFF/drafts/x", "is reserved for drafts"),
        (".git/config", "may contain secrets"),
        (".GIT/hooks/post-checkout", "may contain secrets"),
        (".env", "may contain secrets"),
        ("sub/.env.production", "may contain secrets"),
        ("deploy/server.pem", "may contain secrets"),
        ("notes.txt", "rule `secret/private-key`"),
        ("src\\watchdog.py", "a character that is not allowed"),
        ("src/watch\u{202e}dog.py", "a character that is not allowed"),
        ("a\0b", "a character that is not allowed"),
        ("", "the path is empty"),
    ];
    for (path, why) in tries {
        match fixture.request(path).await {
            Err(DraftError::PathRefused(message)) => {
                assert!(message.contains(why), "{path}: {message}")
            }
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
            fixture.service.write(AGENT, path, "x").await.map(drop),
            fixture.service.read(AGENT, path).await.map(drop),
            fixture.service.submit(AGENT, submit(path, "src/watchdog.py")).await.map(drop),
        ] {
            assert!(matches!(refused, Err(DraftError::PathRefused(_))), "{path}: {refused:?}");
        }
    }
    let state = fixture.service.state().await.unwrap();
    assert_eq!(state.refused_calls, (tries.len() + 3 * writes.len()) as u64);
    assert_eq!(fixture.text("../secret"), "SECRET");
    assert_eq!(fixture.text("src/watchdog.py"), WATCHDOG);
    assert!(fixture.drafts().is_empty());
}

#[tokio::test]
async fn draft_readable_setting_allows_drafts_of_a_hidden_file() {
    let policy = Policy { readable: vec![".env.ci".to_owned()], ..Policy::default() };
    let fixture = Fixture::under(policy);
    fixture.put(".env.ci", "KEY=\n");
    fixture.put(".env", "KEY=1\n");
    assert!(fixture.request(".env.ci").await.is_ok());
    assert!(matches!(fixture.request(".env").await, Err(DraftError::PathRefused(_))));
}

/// Returns a fake GitHub token. The code contains it in two parts, so that secret scanners do not report this file.
fn token() -> String {
    ["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat()
}

#[tokio::test]
async fn draft_request_for_a_file_with_a_secret_is_refused() {
    let fixture = Fixture::under(Policy { readable: vec!["ok.py".to_owned()], ..small_files() });
    let key = ["-----BEGIN PRIVATE", " KEY-----"].concat();
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj";
    fixture.put("late.txt", format!("{}{key}\n{body}\n", "a line\n".repeat(2000)));
    fixture.put(
        "account.json",
        format!(r#"{{"type": "service_account", "private_key": "{key}\n{body}"}}"#),
    );
    fixture.put("config.py", format!("x = 1\n\nTOKEN = \"{}\"\n", token()));
    fixture.put("ok.py", format!("TOKEN = \"{}\"\n", token()));
    fixture.put("stays.py", format!("TOKEN = \"{}\"  # assize: allow-secret\n", token()));
    for (path, why) in [
        ("late.txt", "rule `secret/private-key`"),
        ("account.json", "rule `secret/private-key`"),
        ("config.py", "`config.py` contains a secret in line 3 (rule `secret/github-token`)"),
    ] {
        let message = fixture.request(path).await.unwrap_err().to_string();
        assert!(message.contains(why) && message.contains("`draft.readable`"), "{path}: {message}");
        assert!(!message.contains("ghp"), "{message}");
    }
    for path in ["ok.py", "stays.py"] {
        assert!(fixture.request(path).await.is_ok(), "{path}");
    }
}

/// There is an exception: a change of an executable file in a source folder does not escalate.
#[tokio::test]
async fn change_escalates_if_the_file_is_executable_or_ignored_by_git_or_run_by_a_build() {
    let fixture = Fixture::new();
    fixture.put(".gitignore", "build/\n*.log\n!keep.log\n");
    fixture.put("sub/.gitignore", "/generated\n");
    fixture.put(".git/info/exclude", "local.txt\n");
    fixture.put("bin/tool", "#!/bin/sh\n");
    fixture.put("src/tool", "#!/bin/sh\n");
    for path in ["bin/tool", "src/tool"] {
        fs::set_permissions(fixture.repo(path), fs::Permissions::from_mode(0o755)).unwrap();
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
        let done = fixture.propose(path, "#!/bin/sh\necho 1\n").await;
        assert_eq!(rules(&done), rule.into_iter().collect::<Vec<_>>(), "{path}");
        let expected =
            if rule.is_some() { SubmissionStatus::Escalated } else { SubmissionStatus::Accepted };
        assert_eq!(done.verdict, expected, "{path}");
    }
}

/// In a workspace below the root of its git repository, the `.gitignore` patterns of the repository apply, too.
#[tokio::test]
async fn ignore_patterns_of_the_outer_repository_apply() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.repo("../.git")).unwrap();
    fs::write(fixture.repo("../.gitignore"), "/repo/out/\n").unwrap();
    let done = fixture.propose("out/x.py", "x = 1\n").await;
    assert_eq!(rules(&done), ["git-ignored"]);
    assert_eq!(
        fixture.propose("src/out/x.py", "x = 1\n").await.verdict,
        SubmissionStatus::Accepted
    );
}

/// If an ignore list cannot be read, its patterns are unknown, so every change of a file to which the list applies
/// escalates.
#[tokio::test]
async fn change_escalates_if_a_git_ignore_list_is_unreadable() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.repo(".git/info")).unwrap();
    let large = "# a comment\n".repeat(100_000) + "*.log\n";
    fixture.put("large/.gitignore", &large);
    fixture.put("linked/.gitignore", "*.log\n");
    fs::hard_link(fixture.repo("linked/.gitignore"), fixture.repo("link")).unwrap();
    let reason = async |path: &str| {
        let done = fixture.propose(path, "x\n").await;
        assert_eq!(rules(&done), ["git-ignored"], "{path}");
        done.reasons[0].message.clone()
    };
    assert_eq!(
        reason("large/a.log").await,
        "cannot determine whether git ignores this file: cannot read the ignore list \
         `large/.gitignore`: the file is larger than 1048576 bytes"
    );
    assert!(
        reason("linked/a.txt").await.contains("`linked/.gitignore`: the file has 2 hard links")
    );
    assert_eq!(fixture.propose("a.txt", "x\n").await.verdict, SubmissionStatus::Accepted);
    fs::write(fixture.repo(".git/info/exclude"), &large).unwrap();
    assert!(reason("b.txt").await.contains("`.git/info/exclude`: the file is larger than"));
}

/// As in git, the user's ignore lists have the lowest precedence. A file in an ignored folder cannot be re-included.
#[tokio::test]
async fn git_ignore_lists_of_the_user_have_the_lowest_precedence() {
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
    let fixture =
        Fixture::with(DraftOptions { policy: small_files(), git, ..DraftOptions::default() });
    fixture.put(
        ".git/config",
        format!("[core]\nexcludesFile = \"{}/lists/theirs\"\n", home.path().display()),
    );
    fixture.put(".git/info/exclude", "!notes.txt\nbuild/\n");
    fixture.put(".gitignore", "!c.local\n");
    fixture.put("build/.gitignore", "!run.py\n");
    for (path, ignored) in [
        // An ignore list that the repository's settings name cannot re-include files that the user's list ignores.
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
        let done = fixture.propose(path, "x = 1\n").await;
        let expected: &[&str] = if ignored { &["git-ignored"] } else { &[] };
        assert_eq!(rules(&done), expected, "{path}");
        let shown = done.reasons.iter().any(|reason| reason.message.contains("lists/"));
        assert!(!shown, "{:?}", done.reasons);
    }
}

#[tokio::test]
async fn invisible_character_in_a_draft_escalates_with_its_position() {
    let fixture = Fixture::new();
    let done = fixture.propose("src/a.py", "x = 1\nuser\u{200b}name = 2\n").await;
    assert_eq!((done.verdict, rules(&done)), (SubmissionStatus::Escalated, vec!["invisible-text"]));
    assert_eq!(done.reasons[0].line, Some(2));
    assert_eq!(done.reasons[0].message, "column 5: U+200B (ZERO WIDTH SPACE) is invisible");
}

#[tokio::test]
async fn invisible_characters_are_reported_only_for_the_first_five_lines_that_contain_them() {
    let fixture = Fixture::new();
    let done = fixture.propose("src/a.py", &"x\u{200b} = 1\n".repeat(7)).await;
    let lines: Vec<_> = done.reasons.iter().map(|reason| reason.line).collect();
    assert_eq!(lines, (1..=5).map(Some).collect::<Vec<_>>());
    let last = &done.reasons[4].message;
    assert!(last.ends_with("is invisible; 2 more lines with the same finding"), "{last}");
}

#[tokio::test]
async fn workspace_opened_through_a_symlink_accepts_paths_through_the_symlink() {
    let fixture = Fixture::new();
    let link = fixture.folder.path().join("link");
    symlink(fixture.repo(""), &link).unwrap();
    let workspace = Workspace::open(&link).unwrap();
    for root in [&link, &fixture.repo("").canonicalize().unwrap()] {
        let path = root.join("src/watchdog.py");
        let inside = workspace.parse_path(path.to_str().unwrap()).unwrap();
        assert_eq!(inside.to_string(), "src/watchdog.py");
    }
    let other = fixture.folder.path().join("linked/x");
    assert!(workspace.parse_path(other.to_str().unwrap()).is_err());
}

#[tokio::test]
async fn contract_limits_are_enforced_and_an_invalid_contract_blocks_all_requests() {
    let fixture = Fixture::new();
    fixture.put("docs/a.md", "a\n");
    fixture.put(
        "_handoff/TASK_CONTRACT.json",
        format!(r#"{{"version": 1, "task_id": "{TASK}", "allowed_paths": ["src/"], "limits": {{"max_lines": 3, "max_files": 1}}}}"#),
    );
    let message = fixture.request("docs/a.md").await.unwrap_err().to_string();
    assert!(message.contains("only to `src/`"), "{message}");
    let message =
        fixture.service.request(AGENT, "src/watchdog.py", "x").await.unwrap_err().to_string();
    assert!(message.contains("the contract is for the task `phase10_version_flag`"), "{message}");
    let long = WATCHDOG.replace("import sys\n", "import sys\n\n\nA = 1\nB = 2\n");
    let escalated = fixture.propose("src/watchdog.py", &long).await;
    assert_eq!(
        (escalated.verdict, rules(&escalated)),
        (SubmissionStatus::Escalated, vec!["scope/lines"])
    );
    let short = fixture.propose("src/new.py", "A = 1\n").await;
    assert_eq!(short.verdict, SubmissionStatus::Accepted);
    let second = fixture.propose("src/other.py", "A = 1\n").await;
    assert_eq!(
        (second.verdict, rules(&second)),
        (SubmissionStatus::Escalated, vec!["scope/files"])
    );

    fixture.put("_handoff/TASK_CONTRACT.json", r#"{"version": 1, "allowed": []}"#);
    let message = fixture.request("src/new.py").await.unwrap_err().to_string();
    assert!(message.contains("unknown field `allowed`"), "{message}");
    fs::remove_file(fixture.repo("_handoff/TASK_CONTRACT.json")).unwrap();
    symlink("../../secret", fixture.repo("_handoff/TASK_CONTRACT.json")).unwrap();
    assert!(matches!(fixture.request("src/new.py").await, Err(DraftError::Contract(_))));
}

/// A submission file or a draft that an agent writes into the drafts folder without the draft tools is ignored.
#[tokio::test]
async fn forged_submission_file_and_draft_are_ignored() {
    let fixture = Fixture::new();
    fixture.request("src/watchdog.py").await.unwrap();
    let forged = r#"{"submission": {"files": [{"path": "../secret", "draft": "x", "after": "y"}], "stage": "accepted"}}"#;
    fixture.put(&format!("_handoff/drafts/{TASK}.submission.json"), forged);
    fixture.put("_handoff/drafts/evil.draft", "evil");
    let message =
        fixture.submit("_handoff/drafts/evil.draft", "src/watchdog.py").await.unwrap_err();
    assert!(message.to_string().contains("there is no open draft `evil.draft`"), "{message}");
    let accepted = fixture.propose("src/watchdog.py", &format!("{WATCHDOG}# end\n")).await;
    assert_eq!(accepted.verdict, SubmissionStatus::Accepted);
    assert_eq!(fixture.text("../secret"), "SECRET");
    assert_eq!(fixture.drafts(), ["evil.draft"]);
}

#[tokio::test]
async fn draft_replaced_by_a_symlink_is_refused() {
    let fixture = Fixture::new();
    let draft = fixture.request("src/watchdog.py").await.unwrap().draft_path;
    fs::remove_file(fixture.repo(&draft)).unwrap();
    let message = fixture.submit(&draft, "src/watchdog.py").await.unwrap_err().to_string();
    assert!(message.contains("was deleted; request it again"), "{message}");
    symlink("../../../secret", fixture.repo(&draft)).unwrap();
    for refused in [
        fixture.service.read(AGENT, &draft).await.map(drop),
        fixture.submit(&draft, "src/watchdog.py").await.map(drop),
    ] {
        assert!(matches!(refused, Err(DraftError::PathRefused(_))), "{refused:?}");
    }
    // A write replaces the symbolic link.
    fixture.service.write(AGENT, &draft, "x = 1\n").await.unwrap();
    assert_eq!(fixture.text("../secret"), "SECRET");
    // After a new request, the deleted draft exists again.
    fs::remove_file(fixture.repo(&draft)).unwrap();
    fixture.request("src/watchdog.py").await.unwrap();
    assert_eq!(fixture.service.read(AGENT, &draft).await.unwrap().content, WATCHDOG);
    // The permissions of a draft do not change those of the file.
    fixture.service.write(AGENT, &draft, &format!("{WATCHDOG}# end\n")).await.unwrap();
    fs::set_permissions(fixture.repo(&draft), fs::Permissions::from_mode(0o4777)).unwrap();
    let escalated = fixture.submit(&draft, "src/watchdog.py").await.unwrap();
    assert_eq!((escalated.verdict, rules(&escalated)), (SubmissionStatus::Escalated, vec!["mode"]));
    fixture.service.accept("ann", number(&escalated), assize_draft::Force::No).await.unwrap();
    let mode = fs::metadata(fixture.repo("src/watchdog.py")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[tokio::test]
async fn drafts_of_protected_files_or_with_look_alike_file_names_escalate() {
    let fixture = Fixture::new();
    fixture.put("docs/readme.md", "x\n");
    for (path, rule) in [
        ("src/w\u{430}tchdog.py", "look-alike"),
        ("docs/README.md", "look-alike"),
        (".github/workflows/ci.yml", "protected"),
        ("Cargo.lock", "protected"),
        (".bashrc", "protected"),
    ] {
        let escalated = fixture.propose(path, "new\n").await;
        assert_eq!(
            (escalated.verdict, rules(&escalated)),
            (SubmissionStatus::Escalated, vec![rule]),
            "{path}"
        );
        assert!(!fixture.repo(path).exists());
    }
}

#[tokio::test]
async fn drafts_that_delete_rewrite_or_add_many_lines_escalate() {
    let fixture = Fixture::under(Policy::default());
    let lines: String = (0..10).map(|number| format!("line {number}\n")).collect();
    fixture.put("ten.txt", &lines);
    let half: String = lines.lines().take(5).map(|line| format!("{line}\n")).collect();
    let less: String = lines.lines().take(4).map(|line| format!("{line}\n")).collect();
    let escalated = fixture.propose("ten.txt", &less).await;
    assert_eq!(
        (escalated.verdict, rules(&escalated)),
        (SubmissionStatus::Escalated, vec!["deletion"])
    );
    assert!(escalated.reasons[0].message.contains("6 of 10 lines"), "{escalated:?}");
    fixture.service.reject("ann", number(&escalated), "").await.unwrap();
    let rewritten: String = (0..200).map(|number| format!("junk {number}\n")).collect();
    let many: String = (0..200).map(|number| format!("line {number}\n")).collect();
    fixture.put("many.txt", &many);
    let escalated = fixture.propose("many.txt", &rewritten).await;
    assert_eq!(
        (escalated.verdict, rules(&escalated)),
        (SubmissionStatus::Escalated, vec!["deletion"])
    );
    let message = &escalated.reasons[0].message;
    assert_eq!(message, "200 of 200 lines are removed or replaced (100.0 %; the limit is 50.0 %)");
    assert_eq!(fixture.text("many.txt"), many);
    assert_eq!(fixture.propose("ten.txt", &half).await.verdict, SubmissionStatus::Accepted);
    let long: String = (0..501).map(|number| format!("line {number}\n")).collect();
    let escalated = fixture.propose("long.txt", &long).await;
    assert_eq!(
        (escalated.verdict, rules(&escalated)),
        (SubmissionStatus::Escalated, vec!["scope/lines"])
    );
    // Without reviews, a change that would escalate is rejected.
    let policy = Policy { review: assize_config::Review::Never, ..Policy::default() };
    let fixture = Fixture::under(policy);
    assert_eq!(fixture.propose("long.txt", &long).await.verdict, SubmissionStatus::Rejected);
}

/// Another thread swaps a folder for a symbolic link while drafts are applied. No file outside the workspace changes.
#[tokio::test(flavor = "multi_thread")]
async fn folder_swapped_for_a_symlink_during_apply_never_redirects_the_change() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let fixture = Fixture::new();
    fs::create_dir(fixture.folder.path().join("outside")).unwrap();
    fs::write(fixture.folder.path().join("outside/file.py"), "outside\n").unwrap();
    fixture.put("deep/file.py", "x = 0\n");
    let done = std::sync::Arc::new(AtomicBool::new(false));
    let (deep, away) = (fixture.repo("deep"), fixture.repo("away"));
    let swapping = done.clone();
    let swapper = std::thread::spawn(move || {
        while !swapping.load(Ordering::Relaxed) {
            fs::rename(&deep, &away).unwrap();
            symlink("../outside", &deep).unwrap();
            fs::remove_file(&deep).unwrap();
            fs::rename(&away, &deep).unwrap();
            // The folder stays for a random time, so that some submissions succeed.
            std::thread::sleep(std::time::Duration::from_micros(fastrand::u64(..8000)));
        }
    });
    let mut accepted = 0;
    for round in 0..100 {
        let task = format!("t{round}");
        let Ok(requested) = fixture.service.request(AGENT, "deep/file.py", &task).await else {
            continue;
        };
        // While the folder is moved away, its file looks like a new file.
        if requested.new_file {
            continue;
        }
        fixture
            .service
            .write(AGENT, &requested.draft_path, &format!("x = {round}1\n"))
            .await
            .unwrap();
        let submit =
            SubmitRequest { task_id: &task, ..submit(&requested.draft_path, "deep/file.py") };
        accepted += u32::from(
            fixture.service.submit(AGENT, submit).await.unwrap().verdict
                == SubmissionStatus::Accepted,
        );
    }
    done.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(accepted > 0);
    let outside: Vec<_> = fs::read_dir(fixture.folder.path().join("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(fixture.text("../outside/file.py"), "outside\n");
}

proptest! {
    #![proptest_config(crate::fixture::cases(32, 20))]
    /// After any sequence of requests, writes and submissions, only accepted drafts have changed files, and only files
    /// in the workspace.
    #[test]
    fn only_accepted_drafts_change_files(
        tries in prop::collection::vec(
            (prop::sample::select(vec!["src/watchdog.py", "a/b", "leaf", "../secret", "up/secret", "_handoff/drafts/x", ".git/x"]),
             "[a-z \n/:=\"']{0,60}", 0..4u8),
            1..8,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            symlink("../secret", fixture.repo("leaf")).unwrap();
            symlink("..", fixture.repo("up")).unwrap();
            let mut accepted = std::collections::BTreeMap::from([("src/watchdog.py".to_owned(), WATCHDOG.to_owned())]);
            for (path, content, how) in tries {
                let draft = match fixture.request(path).await {
                    Ok(requested) => requested.draft_path,
                    Err(_) => format!("_handoff/drafts/{path}"),
                };
                if how > 0 { let _ = fixture.service.write(AGENT, &draft, &content).await; }
                if how > 1 && let Ok(submitted) = fixture.submit(&draft, path).await
                    && submitted.verdict == SubmissionStatus::Accepted {
                    accepted.insert(path.to_owned(), content);
                }
            }
            for (path, content) in &accepted {
                prop_assert_eq!(&fixture.text(path), content);
            }
            let beside: Vec<_> = fs::read_dir(fixture.folder.path()).unwrap().collect();
            prop_assert_eq!(beside.len(), 3);
            prop_assert_eq!(fixture.text("../secret"), "SECRET");
            prop_assert!(accepted.contains_key("a/b") || !fixture.repo("a").exists());
            prop_assert_eq!(fixture.service.compare_logs().await.unwrap(), assize_draft::LogComparison::Same);
            Ok(())
        })?;
    }
}

/// The log stays small even if an agent sends very long paths.
#[tokio::test]
async fn long_refused_paths_are_shortened_in_the_log() {
    let fixture = Fixture::new();
    let long = "a".repeat(1 << 20);
    for _ in 0..3 {
        assert!(fixture.service.read(AGENT, &long).await.is_err());
        assert!(fixture.service.read(AGENT, &format!("{long}.draft")).await.is_err());
        assert!(fixture.service.request(AGENT, &long, TASK).await.is_err());
        assert!(fixture.service.request(AGENT, "a", &format!("{long}/")).await.is_err());
    }
    let log = fs::metadata(fixture.repo("_handoff/transition.ndjson")).unwrap().len();
    assert!(log < 20_000, "{log}");
}

#[tokio::test]
async fn drafts_with_bidi_text_or_confusing_file_names_escalate() {
    let fixture = Fixture::new();
    fixture.put("src/a.py", "x = 1\n");
    for (path, content, rule) in [
        ("b.py", "access = \"user\u{202e} \u{2066}# admin\"\n", "turned-text"),
        ("-rf", "x\n", "look-alike"),
        ("a.txt ", "x\n", "look-alike"),
        ("$(id)", "x\n", "look-alike"),
        ("Src/b.py", "x\n", "look-alike"),
    ] {
        let escalated = fixture.propose(path, content).await;
        assert_eq!(
            (escalated.verdict, rules(&escalated)),
            (SubmissionStatus::Escalated, vec![rule]),
            "{path}"
        );
    }
    let message = fixture.request("newdir/").await.unwrap_err().to_string();
    assert!(message.contains("is the path of a folder"), "{message}");
}

#[tokio::test]
async fn secret_moved_within_a_file_is_accepted_but_a_secret_in_the_summary_is_rejected() {
    let fixture = Fixture::under(Policy { readable: vec!["a.py".to_owned()], ..small_files() });
    let key = format!("token = \"{}\"", token());
    fixture.put("a.py", format!("if x:\n    {key}\ny = 1\nz = 2\n"));
    let moved = fixture.propose("a.py", &format!("y = 1\nz = 2\n{key}\n")).await;
    assert_eq!(moved.verdict, SubmissionStatus::Accepted, "{moved:?}");
    let draft = fixture.request("a.py").await.unwrap().draft_path;
    fixture.service.write(AGENT, &draft, "y = 1\nz = 3\n").await.unwrap();
    let secret = SubmitRequest { change_summary: &key, ..submit(&draft, "a.py") };
    let message = fixture.service.submit(AGENT, secret).await.unwrap_err().to_string();
    assert!(message.contains("the summary contains a token of GitHub"), "{message}");
}
