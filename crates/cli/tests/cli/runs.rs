//! Tests of `assize runs` (list, show, export, cancel and remove runs), and of stores that are damaged, full or
//! read-only.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use assize_testkit::{FakeKind, FakeProvider};
use serde_json::{Value, json};

use crate::debate::{MOVE, debate_answer, home, id_of, only_run};
use crate::{CommandOutput, Home, command_output};

/// Creates a `Home` with one finished debate of the rehearsal model.
fn home_with_finished_debate() -> Home {
    let home = Home::new();
    home.write("MOVE.md", MOVE);
    assert_eq!(home.run(&["debate", "MOVE.md", "--rounds", "1", "--quiet"]).code, 0);
    home
}

#[test]
fn runs_are_listed_filtered_and_found_by_id_prefix() {
    let home = home_with_finished_debate();
    home.write("OTHER.md", "## Close the *bakery*\n");
    assert_eq!(home.run(&["debate", "OTHER.md", "--rounds", "1"]).code, 0);
    let CommandOutput { out, .. } = home.run(&["runs", "list"]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("RUN ") && lines[0].contains("STATUS"), "{out}");
    assert!(lines[1].contains("done") && lines[1].contains("Close the *bakery* ("), "{out}");
    assert!(lines[2].contains("Open a second bakery ("), "{out}");
    let count = |args: &[&str]| {
        let CommandOutput { out, .. } = home.run(&[&["runs", "list", "--json"], args].concat());
        serde_json::from_str::<Vec<Value>>(&out).unwrap().len()
    };
    assert_eq!(count(&["--title", "CLOSE"]), 1);
    assert_eq!(count(&["--kind", "consult"]), 0);
    assert_eq!(count(&["--status", "done"]), 2);
    assert_eq!(count(&["--status", "stopped"]), 0);
    assert_eq!(count(&["--limit", "1"]), 1);
    let CommandOutput { code, out, err } = home.run(&["runs", "list", "--kind", "banana"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    let kinds = ["run", "eval", "debate", "consult", "work"];
    assert!(err.contains("banana") && kinds.iter().all(|kind| err.contains(kind)), "{err}");
    let CommandOutput { err, .. } = home.run(&["runs", "list", "--kind", "consult"]);
    assert!(err.contains("no matching runs"), "{err}");
    let CommandOutput { err, .. } = home.run(&["runs", "list", "--limit", "1"]);
    assert!(err.contains("1 more run; `--limit 0` lists all runs"), "{err}");
    let CommandOutput { code, err, .. } = home.run(&["runs", "show", "debate-"]);
    assert_eq!(code, 2);
    assert!(err.contains("`debate-` matches 2 runs") && err.contains("specify one of these runs"));
}

#[test]
fn runs_commands_do_not_create_a_store_if_there_are_no_runs() {
    let home = Home::new();
    let CommandOutput { code, out, err } = home.run(&["runs", "list"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("no runs; `assize run \"Calculate fibonacci(10)\"` starts one"), "{err}");
    assert_eq!(home.run(&["runs", "list", "--json"]).out, "[]\n");
    for command in ["show", "export", "rm"] {
        let CommandOutput { code, err, .. } = home.run(&["runs", command, "debate-x"]);
        assert_eq!(code, 2);
        assert!(err.contains("there is no run `debate-x`") && err.contains("assize runs list"));
    }
    assert!(!home.store_path().exists());
}

#[test]
fn runs_show_export_and_rm_work_on_a_finished_run() {
    let home = home_with_finished_debate();
    let id = id_of(&only_run(&home));
    let CommandOutput { out, .. } = home.run(&["runs", "show", &id, "--transcripts", "--events"]);
    assert!(
        out.starts_with(&format!("{id}  Open a second bakery\nstatus            done\n")),
        "{out}"
    );
    assert!(out.contains("[rehearsal, no model was called]\nOpen a second bakery: "), "{out}");
    assert!(
        out.contains("=== i1: conversation between the critic and D1 (Growth Strategist)"),
        "{out}"
    );
    assert!(out.contains("sandbox_scored  {\"move\":\"m1\",\"score\":"), "{out}");

    let CommandOutput { out, .. } = home.run(&["runs", "export", &id]);
    let whole: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(whole["format"], "assize-run-1");
    assert_eq!(whole["artifacts"]["move.md"]["text"], MOVE);
    assert_eq!(whole["records"].as_array().unwrap().len(), 7 + 2);
    assert_eq!(whole["events"].as_array().unwrap().len(), 6);
    assert_eq!(whole["conversation_logs"]["i2"].as_array().unwrap().len(), 2);
    let CommandOutput { code, err, .. } = home.run(&["runs", "export", &id, "-o", "run.json"]);
    assert_eq!((code, err.as_str()), (0, "wrote the run to `run.json`\n"));
    assert_eq!(fs::read_to_string(home.work_folder().join("run.json")).unwrap(), out);
    let CommandOutput { code, err, .. } = home.run(&["runs", "export", &id, "-o", "run.json"]);
    assert_eq!(code, 2);
    assert!(err.contains("`run.json` already exists"), "{err}");

    // If one of the ids is unknown, `runs rm` removes no run.
    assert_eq!(home.run(&["runs", "rm", &id, "debate-unknown"]).code, 2);
    let CommandOutput { code, out, .. } = home.run(&["runs", "rm", &id, &id]);
    assert_eq!((code, out), (0, format!("removed {id}\n")));
    assert_eq!(home.run(&["runs", "list", "--json"]).out, "[]\n");
}

#[test]
fn run_is_cancelled_from_another_process_and_resumed() {
    let home = Home::new().set("ASSIZE_REHEARSAL_LATENCY_MS", "50");
    home.write("move.md", MOVE);
    let mut child = home.command(&["debate", "move.md"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("round 1 of 10")));
    let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    let stopped = home.run(&["runs", "cancel", "latest"]);
    assert_eq!(stopped.code, 0, "{}", stopped.err);
    assert!(stopped.err.contains("stops it at the next step"), "{}", stopped.err);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let err = rest.join().unwrap().join("\n");
    assert!(
        err.contains("cancelled by a user") && err.contains("assize runs resume debate-"),
        "{err}"
    );
    let listed = home.run(&["runs", "list", "--status", "cancelled"]);
    assert!(listed.out.contains("debate-"), "{}", listed.out);
    let again = home.run(&["runs", "cancel", "latest"]);
    assert_eq!(again.code, 2, "{}", again.err);
    assert!(again.err.contains("its status is cancelled"), "{}", again.err);
    let resumed = home.run(&["runs", "resume", "latest", "--quiet"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
}

#[test]
fn terminal_control_codes_in_a_run_title_are_not_printed() {
    let home = Home::new();
    home.write("MOVE.md", "# \u{1b}[2J\u{1b}]0;owned\u{7}A move\n");
    assert_eq!(home.run(&["debate", "MOVE.md", "--rounds", "1"]).code, 0);
    for args in [&["runs", "list"][..], &["runs", "show", "debate-"]] {
        let CommandOutput { out, err, .. } = home.run(args);
        assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{out:?}");
        assert!(out.contains("A move"), "{out}");
    }
}

#[test]
fn store_path_that_is_not_a_database_is_left_unchanged() {
    let home = home_with_finished_debate();
    home.write("notes.txt", "Dear diary");
    let home = home.set("ASSIZE_STORE_PATH", "notes.txt");
    for args in [&["runs", "list"][..], &["debate", "MOVE.md"]] {
        let CommandOutput { code, out, err } = home.run(args);
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        assert!(
            err.contains("notes.txt` is not a store: the file is not an SQLite database"),
            "{err}"
        );
        assert!(err.contains("hint: set `store.path` to another file"), "{err}");
    }
    assert_eq!(fs::read_to_string(home.work_folder().join("notes.txt")).unwrap(), "Dear diary");
}

#[test]
fn damaged_store_and_newer_store_format_are_reported() {
    let home = home_with_finished_debate();
    let id = id_of(&only_run(&home));
    let whole = fs::read(home.store_path()).unwrap();
    let mut torn = whole.clone();
    let middle = torn.len() / 2 / 4096 * 4096;
    torn[middle..].fill(0xab);
    fs::write(home.store_path(), torn).unwrap();
    let CommandOutput { code, err, .. } = home.run(&["runs", "export", &id]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("is damaged: ") && err.contains("keep a copy of the store file"), "{err}");

    fs::write(home.store_path(), &whole).unwrap();
    let db = rusqlite::Connection::open(home.store_path()).unwrap();
    db.pragma_update(None, "user_version", 6).unwrap();
    drop(db);
    let CommandOutput { code, err, .. } = home.run(&["debate", "MOVE.md"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("has format 6, but this version of assize supports 5"), "{err}");
}

/// Runs a bash script in new user and mount namespaces, where the script can mount file systems.
pub(crate) fn run_with_own_mounts(home: &Home, script: &str) -> CommandOutput {
    let binary = Path::new(env!("CARGO_BIN_EXE_assize")).parent().unwrap();
    let mut command = home.command(&[]);
    let mut shell = Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "bash", "-euc", script]);
    shell.current_dir(home.work_folder()).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", format!("{}:{}", binary.display(), std::env::var("PATH").unwrap()));
    shell.stdin(Stdio::null());
    command.stdin(Stdio::null());
    command_output(shell.output().unwrap(), home.folder.path())
}

#[test]
fn debate_stopped_by_a_full_disk_can_be_resumed_when_there_is_space() {
    let fake = FakeProvider::with_responder(FakeKind::Anthropic, debate_answer);
    let home = home(&fake).set("ASSIZE_STORE_PATH", "disk/store.db");
    fs::create_dir(home.work_folder().join("disk")).unwrap();
    let CommandOutput { code, out, err } = run_with_own_mounts(
        &home,
        "mount -t tmpfs -o size=190k tmpfs disk
         code=0; assize debate MOVE.md --quiet || code=$?
         echo \"first: $code\"
         mount -o remount,size=4m disk
         id=$(assize runs list | tail -1 | cut -d' ' -f1)
         assize debate --resume \"$id\" --quiet",
    );
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("first: 4") && out.contains("90 of 120"), "{out}");
    assert!(err.contains("no space left for the store"), "{err}");
    assert!(err.contains("hint: free some disk space"), "{err}");
    // The resumed debate repeats only calls whose answers could not be stored: at most the three calls in flight.
    let calls = fake.captured_requests().len();
    assert!((61..=64).contains(&calls), "{calls} calls");
}

#[test]
fn runs_in_a_read_only_store_can_be_listed_and_shown() {
    let home = home_with_finished_debate();
    let id = id_of(&only_run(&home));
    let script = format!(
        "state=../.local/state/assize
         mount --bind $state $state && mount -o remount,ro,bind $state
         assize runs list; assize runs show {id} --transcripts
         assize debate MOVE.md"
    );
    let CommandOutput { code, out, err } = run_with_own_mounts(&home, &script);
    assert_eq!(code, 4, "{err}");
    assert!(out.contains("Open a second bakery (") && out.contains("[Round 1] critic"), "{out}");
    assert!(err.contains("store.db` is not writable"), "{err}");
    assert!(err.contains("make the store file and its folder writable"), "{err}");
}

#[test]
fn untrusted_folder_cannot_set_the_store_path() {
    let home = Home::new();
    home.write("MOVE.md", MOVE);
    home.write("assize.toml", "[store]\npath = \"here.db\"\n");
    let CommandOutput { code, err, .. } = home.run(&["debate", "MOVE.md"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("store.path") && err.contains("assize config trust"), "{err}");
    assert!(!home.work_folder().join("here.db").exists());
}

#[test]
fn store_durability_setting_is_validated() {
    let home = Home::new().set("ASSIZE_STORE_DURABILITY", "power-loss");
    home.write("MOVE.md", MOVE);
    assert_eq!(home.run(&["debate", "MOVE.md", "--rounds", "1"]).code, 0);
    assert_eq!(only_run(&home)["status"], json!("done"));
    let home = home.set("ASSIZE_STORE_DURABILITY", "eternal");
    let CommandOutput { code, err, .. } = home.run(&["debate", "MOVE.md"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("`process-crash`, `power-loss`"), "{err}");
}
