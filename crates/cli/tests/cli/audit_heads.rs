//! Tests of signed heads of the audit log (id and hash of its latest entry): `assize audit head` and `assize audit
//! verify --since`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::{CommandOutput, Home};

/// Folder of the SQLite store, relative to the home folder.
const STATE: &str = ".local/state/assize";
/// Copy of the audit log in the workspace, relative to the home folder.
const COPY: &str = "work/_handoff/transition.ndjson";

/// Adds two entries to the audit log, by switching the draft tools off and on.
fn add_entries(home: &Home) {
    for state in ["off", "on"] {
        let CommandOutput { code, err, .. } = home.run(&["drafts", state]);
        assert_eq!(code, 0, "{err}");
    }
}

/// Signed head of the audit log (id and hash of its latest entry), as `assize audit head` prints it.
fn head(home: &Home) -> String {
    let CommandOutput { code, out, err } = home.run(&["audit", "head"]);
    assert_eq!((code, out.lines().count()), (0, 1), "{err}");
    out.trim_end().to_owned()
}

/// Verifies the audit log against a signed head that was printed earlier (id and hash of the entry that was then the
/// latest).
fn verify(home: &Home, since: &str) -> CommandOutput {
    home.run(&["audit", "verify", "--since", since])
}

/// Backup of the store and of the audit log copy in the workspace: path and content of each file.
fn backup(home: &Home) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let state = fs::read_dir(home.folder.path().join(STATE)).unwrap();
    let stores = state.map(|entry| entry.unwrap().path());
    let stores =
        stores.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("store.db"));
    let files = stores.chain([home.folder.path().join(COPY)]);
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Deletes the files of the store, then writes the files of a backup.
fn restore(home: &Home, backup: &[(std::path::PathBuf, Vec<u8>)]) {
    for entry in fs::read_dir(home.folder.path().join(STATE)).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("store.db") {
            fs::remove_file(path).unwrap();
        }
    }
    for (path, bytes) in backup {
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn audit_verify_detects_that_the_log_was_rolled_back_after_its_head_was_signed() {
    let home = Home::new();
    let CommandOutput { code, err, .. } = home.run(&["audit", "head"]);
    assert!(code == 0 && err.contains("warning: the audit log is empty"), "{err}");
    add_entries(&home);
    let (before, early) = (backup(&home), head(&home));
    add_entries(&home);
    let late = head(&home);
    for head in [&early, &late] {
        let CommandOutput { code, out, err } = verify(&home, head);
        assert!(code == 0 && out.starts_with("the audit log is intact: 4 entries"), "{out}{err}");
    }
    restore(&home, &before);
    // Without a head to compare with, `audit verify` does not detect the rollback.
    let CommandOutput { code, out, err } = home.run(&["audit", "verify"]);
    assert!(code == 0 && out.starts_with("the audit log is intact: 2 entries"), "{out}{err}");
    assert_eq!(verify(&home, &early).code, 0);
    let CommandOutput { code, err, .. } = verify(&home, &late);
    assert_eq!(code, 1, "{err}");
    let shorter =
        "the audit log was rolled back: it ends at entry 2, but the signed head is of entry 4";
    assert!(err.contains(shorter), "{err}");
    let report = home.run(&["audit", "verify", "--since", &late, "--json"]).out;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["intact"], &report["problems"][0]), (&false.into(), &shorter.into()));
    // New entries get the numbers of the entries that the rollback removed, but their hashes differ.
    add_entries(&home);
    let CommandOutput { code, err, .. } = verify(&home, &late);
    assert_eq!(code, 1, "{err}");
    let rewritten =
        "log was rewritten: the hash of entry 4 differs from the hash in the signed head";
    assert!(err.contains(rewritten), "{err}");
    // `audit verify` treats a missing store as an empty audit log.
    fs::remove_dir_all(home.work_folder().join("_handoff")).unwrap();
    restore(&home, &[]);
    let CommandOutput { code, err, .. } = verify(&home, &late);
    assert!(code == 1 && err.contains("it ends at entry 0"), "{err}");
}

#[test]
fn audit_verify_rejects_altered_log_heads_and_log_heads_not_signed_with_the_local_key() {
    let home = Home::new();
    add_entries(&home);
    let good = head(&home);
    let words: Vec<&str> = good.split(' ').collect();
    assert_eq!((words.len(), words[0], words[1]), (6, "assize-audit-head-1", "2"));
    let changed = |index: usize, word: &str| {
        let mut words = words.clone();
        words[index] = word;
        words.join(" ")
    };
    let (hash, signature) = ("0".repeat(64), "A".repeat(86));
    for head in [
        changed(1, "1"),
        changed(2, &hash),
        changed(3, "2020-01-01T00:00:00Z"),
        changed(5, &signature),
    ] {
        let CommandOutput { code, err, .. } = verify(&home, &head);
        assert!(
            code == 1 && err.contains("invalid signature on the audit log head of entry"),
            "{code} {err}"
        );
    }
    for (wrong, message) in [
        (changed(0, "assize-audit-head-9"), "expected a line that `assize audit head` prints"),
        (changed(4, "rsa:AAAA"), "expected a line that `assize audit head` prints"),
        ("x".to_owned(), "`since` must be `ID:HASH`"),
        (" ".to_owned(), "no head of the audit log given for `--since`"),
        ("@nowhere".to_owned(), "cannot read `nowhere`"),
    ] {
        let CommandOutput { code, err, .. } = verify(&home, &wrong);
        assert!(code == 2 && err.contains(message), "{code} {err}");
    }
    let key = home.folder.path().join(STATE).join("audit-key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let CommandOutput { code, err, .. } = home.run(&["audit", "head"]);
    assert!(
        code == 4 && err.contains("accessible to other users") && err.contains("chmod 600"),
        "{err}"
    );
    fs::remove_file(&key).unwrap();
    let CommandOutput { code, err, .. } = verify(&home, &good);
    let other = format!("was signed with the key {}, but the local key is missing", words[4]);
    assert!(code == 1 && err.contains(&other), "{err}");
    assert_eq!(verify(&home, &head(&home)).code, 0);
    let CommandOutput { code, err, .. } = verify(&home, &good);
    assert!(code == 1 && err.contains("was signed with the key"), "{err}");
}

#[test]
fn audit_verify_reads_one_signed_log_head_per_line_from_files_and_standard_input() {
    let home = Home::new();
    // The audit log is still empty, so the first head has entry number 0.
    let mut heads = vec![head(&home)];
    assert!(heads[0].contains(&format!(" 0 {} ", "0".repeat(64))), "{heads:?}");
    for _ in 0..2 {
        add_entries(&home);
        heads.push(head(&home));
    }
    let lines = format!("{}\r\n\n", heads.join("\n"));
    home.write("heads.txt", &lines);
    assert_eq!(verify(&home, "@heads.txt").code, 0);
    let since = ["audit", "verify", "--since", "-"];
    assert_eq!(home.run_with_input(&since, lines.as_bytes()).code, 0);
    assert_eq!(home.run_with_input(&since, b"").code, 2);
    // The verification fails if only one of the heads does not match the audit log.
    home.write("heads.txt", &format!("{lines}9:{}\n", "0".repeat(64)));
    let CommandOutput { code, err, .. } = verify(&home, "@heads.txt");
    assert!(code == 1 && err.contains("the signed head is of entry 9"), "{err}");
}

#[test]
fn concurrent_processes_that_create_the_audit_key_use_the_same_key() {
    let home = Home::new();
    let spawned: Vec<_> =
        (0..6).map(|_| home.command(&["audit", "head"]).spawn().unwrap()).collect();
    let mut keys: Vec<String> = spawned
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let line = String::from_utf8(output.stdout).unwrap();
            line.split(' ').nth(4).unwrap().to_owned()
        })
        .collect();
    keys.dedup();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let state = home.folder.path().join(STATE);
    let names: Vec<_> = fs::read_dir(&state).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| Path::new(name) == Path::new("audit-key")), "{names:?}");
}

#[test]
fn audit_head_command_on_a_tampered_log_fails_and_prints_no_signature() {
    let home = Home::new();
    add_entries(&home);
    let store = rusqlite::Connection::open(home.store_path()).unwrap();
    store.execute("UPDATE audit SET actor = 'eve' WHERE id = 1", []).unwrap();
    drop(store);
    let CommandOutput { code, out, err } = home.run(&["audit", "head"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("entry 1 was changed"), "{err}");
}
