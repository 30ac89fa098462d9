//! Tests of `assize work` while the draft tools are switched off: text mode still proposes patches, and the user
//! decides on each patch. Also tests of conflicts and of the cleanup of drafts.

use serde_json::{Value, json};

use crate::drafts::{StdioMcpClient, WATCHDOG, home_with_project};

const TASK: &str = "Add --version flag to watchdog.py";

#[test]
fn work_in_text_mode_proposes_a_patch_while_the_draft_tools_are_off() {
    let home = home_with_project();
    home.run(&["drafts", "off"]);
    let ran = home.run(&["work", TASK, "--mode", "text", "--json"]);
    assert_eq!(ran.code, 6, "{} {}", ran.out, ran.err);
    let worked: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(worked["outcome"], "escalated", "{worked}");
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
    let patch = worked["proposed_patch"].as_str().unwrap();
    assert!(patch.starts_with("--- a/src/watchdog.py\n+++ b/src/watchdog.py\n"), "{patch}");
    assert!(patch.contains("+if \"--version\" in sys.argv[1:]:"), "{patch}");

    // The patch is stored with the run.
    let run = worked["run"].as_str().unwrap();
    let shown = home.run(&["runs", "show", run]);
    assert!(shown.out.contains("+if \"--version\" in sys.argv[1:]:"), "{}", shown.out);
    let copied = home.run(&["runs", "files", run, "--out", "copied"]);
    assert_eq!(copied.code, 0, "{}", copied.err);
    assert_eq!(home.file_text("copied/proposed.patch"), patch);

    // Switching the draft tools on does not apply the patch. Accepting the submission applies the patch, even while
    // the draft tools are off.
    let number =
        worked["submissions"].as_array().unwrap().last().unwrap()["submission"].to_string();
    let on = home.run(&["drafts", "on"]);
    assert!(on.err.contains("1 submission waits for your decision"), "{}", on.err);
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
    home.run(&["drafts", "off"]);
    let accepted = home.run(&["gate", "accept", &number]);
    assert_eq!(accepted.out, format!("accepted {number}: src/watchdog.py\n"), "{}", accepted.err);
    assert!(home.file_text("src/watchdog.py").contains("--version"));
    assert!(home.run(&["audit", "verify"]).out.starts_with("the audit log is intact"));
}

#[test]
fn work_with_the_draft_tools_off_refuses_tools_mode_and_escalates_in_auto_mode() {
    let home = home_with_project();
    home.run(&["drafts", "off"]);
    let refused = home.run(&["work", TASK]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("the draft tools are off in this workspace"), "{}", refused.err);
    assert!(refused.err.contains("`--mode text`"), "{}", refused.err);
    // While the draft tools are off, auto mode uses text mode, and the gate escalates the change even with `--review
    // never`.
    let ran = home.run(&["work", TASK, "--mode", "auto", "--review", "never"]);
    assert_eq!(ran.code, 6, "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("[off]") && ran.out.contains("+VERSION = \"1.0.0\""), "{}", ran.out);
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
}

#[test]
fn work_on_a_file_changed_since_the_model_read_it_is_a_conflict() {
    use assize_testkit::{FakeKind, FakeProvider, FakeReply};
    let folder = std::sync::Arc::new(std::sync::OnceLock::<std::path::PathBuf>::new());
    let seen = folder.clone();
    let fake = FakeProvider::with_responder(FakeKind::Ollama, move |_, _| {
        // The user edits the file while the model answers.
        let mine = format!("{WATCHDOG}# mine\n");
        std::fs::write(seen.get().unwrap().join("src/watchdog.py"), mine).unwrap();
        let content = format!("{WATCHDOG}# the model's\n");
        FakeReply::text(format!("Here.\n\nFILE: src/watchdog.py\n```python\n{content}```\n"))
    });
    let home = crate::Home::with_fake_provider(FakeKind::Ollama, &fake);
    home.write("src/watchdog.py", WATCHDOG);
    folder.set(home.work_folder()).unwrap();
    let ran = home.run(&["work", "Change watchdog.py", "--provider", "ollama", "--mode", "text"]);
    assert_eq!(ran.code, 6, "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("[conflict]"), "{}", ran.out);
    assert_eq!(home.file_text("src/watchdog.py"), format!("{WATCHDOG}# mine\n"));
}

#[test]
fn work_on_a_file_created_or_deleted_since_the_model_read_it_is_a_conflict() {
    use assize_testkit::{FakeKind, FakeProvider, FakeReply};
    let folder = std::sync::Arc::new(std::sync::OnceLock::<std::path::PathBuf>::new());
    let seen = folder.clone();
    let fake = FakeProvider::with_responder(FakeKind::Ollama, move |_, _| {
        // The user deletes one file and creates the other while the model answers.
        let folder = seen.get().unwrap();
        std::fs::remove_file(folder.join("src/watchdog.py")).unwrap();
        std::fs::write(folder.join("new.py"), "mine = 1\n").unwrap();
        FakeReply::text(format!(
            "Here.\n\nFILE: ./src/watchdog.py\n```python\n{WATCHDOG}# end\n```\n\n\
             FILE: new.py\n```python\nx = 1\n```\n"
        ))
    });
    let home = crate::Home::with_fake_provider(FakeKind::Ollama, &fake);
    home.write("src/watchdog.py", WATCHDOG);
    folder.set(home.work_folder()).unwrap();
    let mut args = vec!["work", "Change it", "--provider", "ollama", "--mode", "text", "--json"];
    args.extend(["--file", "src/watchdog.py", "--file", "new.py"]);
    let ran = home.run(&args);
    assert_eq!(ran.code, 6, "{} {}", ran.out, ran.err);
    let worked: Value = serde_json::from_str(&ran.out).unwrap();
    let reasons = worked["submissions"][0]["reasons"].as_array().unwrap().clone();
    let conflicts = reasons.iter().filter(|reason| reason["rule"] == "conflict");
    assert_eq!(conflicts.count(), 2, "{reasons:?}");
    assert!(!home.work_folder().join("src/watchdog.py").exists());
    assert_eq!(home.file_text("new.py"), "mine = 1\n");
}

#[test]
fn drafts_clean_all_rejects_submissions_and_deletes_all_draft_files() {
    let home = home_with_project();
    let mut client = StdioMcpClient::start(&home, &[]);
    let waiting = client.propose(".github/workflows/ci.yml", "t1", "on: push\n");
    assert_eq!((&waiting["verdict"], &waiting["submission"]), (&json!("escalated"), &json!(1)));
    let open = json!({"source_path": "src/watchdog.py", "task_id": "t2"});
    client.call("ollama_request_draft", open).unwrap();
    client.close();
    home.write("_handoff/drafts/left-behind.txt", "x");
    home.write("_handoff/drafts/.new-0123", "unfinished");
    home.write("_handoff/drafts/folder/notes.txt", "mine");

    let unconfirmed = home.run(&["drafts", "clean", "--all"]);
    assert_eq!(unconfirmed.code, 2, "{}", unconfirmed.err);
    assert!(unconfirmed.err.contains("`assize drafts clean --all --yes`"), "{}", unconfirmed.err);
    let drafts = home.work_folder().join("_handoff/drafts");
    assert_eq!(std::fs::read_dir(&drafts).unwrap().count(), 6);

    let emptied = home.run(&["drafts", "clean", "--all", "--yes"]);
    assert_eq!(emptied.code, 0, "{}", emptied.err);
    assert_eq!(
        emptied.out,
        "emptied the drafts folder: 1 waiting submission rejected, 1 open draft and 1 other file deleted\n"
    );
    assert!(
        emptied.err.contains("not deleted from the drafts folder: `folder`"),
        "{}",
        emptied.err
    );
    assert_eq!(std::fs::read_dir(&drafts).unwrap().count(), 1);
    assert_eq!(home.file_text("_handoff/drafts/folder/notes.txt"), "mine");
    assert!(home.run(&["gate", "ls", "--all"]).out.contains("rejected"));
    assert!(!home.work_folder().join(".github").exists());
    assert!(home.run(&["audit", "verify"]).out.starts_with("the audit log is intact"));
}

#[test]
fn refused_draft_path_is_logged_as_a_security_error() {
    let home = home_with_project();
    let mut client = StdioMcpClient::start(&home, &[]);
    let outside = json!({"source_path": "../../etc/passwd\u{1b}[2J", "task_id": "t1"});
    client.call("ollama_request_draft", outside).unwrap_err();
    let ended = client.close();
    let line = ended.err.lines().find(|line| line.contains("SECURITY: path refused")).unwrap();
    assert!(line.contains("ERROR") && line.contains("../../etc/passwd"), "{line}");
    assert!(!line.contains('\u{1b}'), "{line:?}");
    assert!(home.run(&["audit", "show", "--refused"]).out.contains("refused"));
}

#[test]
fn submissions_are_numbered_from_one_in_each_workspace() {
    let home = home_with_project();
    let mut client = StdioMcpClient::start(&home, &[]);
    let mut content = WATCHDOG.to_owned();
    for number in 1..=3 {
        content.push_str("# more\n");
        let submitted = client.propose("src/watchdog.py", "t1", &content);
        assert_eq!(submitted["submission"], number, "{submitted}");
        // `gate show` also finds the submission by the message id that the agent received.
        let message = submitted["message_id"].as_str().unwrap().to_owned();
        let shown = home.run(&["gate", "show", &message, "--json"]);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!(shown["id"], number);
    }
    client.close();
    let unknown = home.run(&["gate", "show", "4"]);
    assert_eq!(unknown.code, 2, "{}", unknown.err);
    assert!(unknown.err.contains("no submission `4` in this workspace"), "{}", unknown.err);
}
