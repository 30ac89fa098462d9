//! Signed heads of the audit log: `assize audit head`, and what `assize audit verify --since` finds with them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::{Home, Ran};

/// Where the store and the copy of the log in the workspace are, and everything beside the store.
const STATE: &str = ".local/state/assize";
const COPY: &str = "work/_handoff/transition.ndjson";

/// Adds two entries to the log.
fn add_entries(home: &Home) {
    for state in ["off", "on"] {
        let Ran { code, err, .. } = home.run(&["drafts", state]);
        assert_eq!(code, 0, "{err}");
    }
}

/// The signed head of the log.
fn head(home: &Home) -> String {
    let Ran { code, out, err } = home.run(&["audit", "head"]);
    assert_eq!((code, out.lines().count()), (0, 1), "{err}");
    out.trim_end().to_owned()
}

/// Looks at the log since a head.
fn verify(home: &Home, since: &str) -> Ran {
    home.run(&["audit", "verify", "--since", since])
}

/// The store and the copy of the log, as they are: names with contents.
fn backup(home: &Home) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let state = fs::read_dir(home.folder.path().join(STATE)).unwrap();
    let stores = state.map(|entry| entry.unwrap().path());
    let stores =
        stores.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("store.db"));
    let files = stores.chain([home.folder.path().join(COPY)]);
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Puts an earlier state back.
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
fn rolled_back_store_and_log_are_found_by_a_head_kept_elsewhere() {
    let home = Home::new();
    let Ran { code, err, .. } = home.run(&["audit", "head"]);
    assert!(code == 0 && err.contains("warning: the log is empty"), "{err}");
    add_entries(&home);
    let (before, early) = (backup(&home), head(&home));
    add_entries(&home);
    let late = head(&home);
    for head in [&early, &late] {
        let Ran { code, out, err } = verify(&home, head);
        assert!(code == 0 && out.starts_with("intact: 4 entries"), "{out}{err}");
    }
    restore(&home, &before);
    // Nothing in store and log shows it.
    let Ran { code, out, err } = home.run(&["audit", "verify"]);
    assert!(code == 0 && out.starts_with("intact: 2 entries"), "{out}{err}");
    assert_eq!(verify(&home, &early).code, 0);
    let Ran { code, err, .. } = verify(&home, &late);
    assert_eq!(code, 1, "{err}");
    let shorter = "the log was rolled back: it ends at entry 2, and the head is of entry 4";
    assert!(err.contains(shorter), "{err}");
    let told = home.run(&["audit", "verify", "--since", &late, "--json"]).out;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["intact"], &told["wrong"][0]), (&false.into(), &shorter.into()));
    // Grown again, it has other entries under the same numbers.
    add_entries(&home);
    let Ran { code, err, .. } = verify(&home, &late);
    assert_eq!(code, 1, "{err}");
    let rewritten = "the log was rewritten: entry 4 has another hash than the head";
    assert!(err.contains(rewritten), "{err}");
    // Without a store there is nothing that a head could be in.
    fs::remove_dir_all(home.work().join("_handoff")).unwrap();
    restore(&home, &[]);
    let Ran { code, err, .. } = verify(&home, &late);
    assert!(code == 1 && err.contains("it ends at entry 0"), "{err}");
}

#[test]
fn changed_heads_and_heads_of_other_keys_do_not_verify() {
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
        let Ran { code, err, .. } = verify(&home, &head);
        assert!(code == 1 && err.contains("is wrong: the line was changed"), "{code} {err}");
    }
    for (wrong, told) in [
        (changed(0, "assize-audit-head-9"), "a head is a line that `assize audit head` printed"),
        (changed(4, "rsa:AAAA"), "a head is a line that `assize audit head` printed"),
        ("x".to_owned(), "`since` must be `ID:HASH`"),
        (" ".to_owned(), "there is no head for `--since`"),
        ("@nowhere".to_owned(), "cannot read `nowhere`"),
    ] {
        let Ran { code, err, .. } = verify(&home, &wrong);
        assert!(code == 2 && err.contains(told), "{code} {err}");
    }
    let key = home.folder.path().join(STATE).join("audit-key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let Ran { code, err, .. } = home.run(&["audit", "head"]);
    assert!(code == 4 && err.contains("readable by others") && err.contains("chmod 600"), "{err}");
    fs::remove_file(&key).unwrap();
    let Ran { code, err, .. } = verify(&home, &good);
    let other = format!("was signed with another key: {}; the key here is missing", words[4]);
    assert!(code == 1 && err.contains(&other), "{err}");
    assert_eq!(verify(&home, &head(&home)).code, 0);
    let Ran { code, err, .. } = verify(&home, &good);
    assert!(code == 1 && err.contains("was signed with another key"), "{err}");
}

#[test]
fn heads_are_read_from_files_and_standard_input_a_line_each() {
    let home = Home::new();
    // Of an empty log, too.
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
    // One that does not hold is enough.
    home.write("heads.txt", &format!("{lines}9:{}\n", "0".repeat(64)));
    let Ran { code, err, .. } = verify(&home, "@heads.txt");
    assert!(code == 1 && err.contains("the head is of entry 9"), "{err}");
}

#[test]
fn processes_that_create_the_key_at_once_agree_on_it() {
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
fn broken_log_gets_no_signed_head() {
    let home = Home::new();
    add_entries(&home);
    let store = rusqlite::Connection::open(home.store()).unwrap();
    store.execute("UPDATE audit SET actor = 'eve' WHERE id = 1", []).unwrap();
    drop(store);
    let Ran { code, out, err } = home.run(&["audit", "head"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("entry 1 in the store was changed"), "{err}");
}
