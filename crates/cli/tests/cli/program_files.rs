//! Tests of files that programs read and write: output and input files, files of sessions, and full disks.

use std::fs;

use assize_testkit::{FakeKind, FakeProvider, FakeReply};
use serde_json::{Value, json};

use crate::exec::home;
use crate::run::{program, with_provider};
use crate::runs::run_with_own_mounts;
use crate::{CommandOutput, Home};

const SINE: &str = "Draw a sine wave as an SVG file";

/// Id of the newest run.
fn last_run(home: &Home) -> String {
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    listed[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn output_files_of_a_finished_run_can_be_copied() {
    let home = home();
    let CommandOutput { code, err, .. } = home.run(&["run", SINE]);
    let run = last_run(&home);
    assert_eq!(code, 0, "{err}");
    let hint = format!(
        "the program created sine.svg (1,006 bytes); copy the files with `assize runs files {run} --out FOLDER`"
    );
    assert!(err.contains(&hint), "{err}");
    assert!(home.run(&["runs", "show", &run]).err.contains(&hint));
    assert_eq!(home.run(&["runs", "files", &run]).out, "        1,006  sine.svg\n");
    let copied = home.run(&["runs", "files", &run, "--out", "copied"]);
    assert_eq!((copied.code, copied.out.as_str()), (0, "        1,006  sine.svg\n"));
    assert!(
        fs::read_to_string(home.work_folder().join("copied/sine.svg")).unwrap().starts_with("<svg")
    );
    // Existing files are not overwritten. Exit code 4 reports that the new file was not copied.
    let again = home.run(&["runs", "files", &run, "--out", "copied"]);
    assert_eq!(again.code, 4, "{}", again.err);
    fs::write(home.work_folder().join("copied/sine.svg"), "old").unwrap();
    let CommandOutput { code, out, err } = home.run(&["run", SINE, "--out", "copied"]);
    assert_eq!((code, out.as_str()), (4, "sine.svg, 1006 bytes\n"), "{err}");
    assert!(err.contains("not copied, because files of the same name exist in"), "{err}");
    assert_eq!(fs::read_to_string(home.work_folder().join("copied/sine.svg")).unwrap(), "old");
    assert_eq!(home.run(&["runs", "files", "run-none"]).code, 2);
}

#[test]
fn out_folder_behind_a_symlink_in_the_current_folder_is_refused() {
    let home = home();
    home.write("leaves.py", "open('left.txt', 'w').write('x')");
    let outside = home.folder.path().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    std::os::unix::fs::symlink(&outside, home.work_folder().join("results")).unwrap();
    assert_eq!(home.run(&["run", SINE, "--quiet"]).code, 0);
    let consult = ["consult", "CRST", "--rounds", "1", "--moves", "1", "--quiet"];
    assert_eq!(home.run(&consult).code, 0);
    let runs: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    let [consulted, ran] = [0, 1].map(|number: usize| runs[number]["id"].as_str().unwrap());
    for folder in ["results", "./results", "results/deep", "../work/results", "results/../new"] {
        for args in [
            &["exec", "--out", folder, "leaves.py"][..],
            &["run", SINE, "--out", folder],
            &[&consult[..], &["--out", folder]].concat(),
            &["runs", "files", ran, "--out", folder],
            &["runs", "files", consulted, "--out", folder],
            &["runs", "resume", ran, "--out", folder],
            &["runs", "resume", consulted, "--out", folder],
            &["runs", "fork", consulted, "--at", "round-1", "--out", folder],
        ] {
            let CommandOutput { code, err, .. } = home.run(args);
            assert_eq!(code, 2, "{args:?}: {err}");
            assert!(err.contains(&format!("`{folder}` goes through the symlink `")), "{err}");
        }
    }
    let deep = fs::read_dir(outside.join("deep")).unwrap().count();
    assert_eq!((fs::read_dir(&outside).unwrap().count(), deep), (1, 0));
    // Symlinks outside of the current folder and in absolute paths are followed.
    std::os::unix::fs::symlink(&outside, home.folder.path().join("linked")).unwrap();
    let absolute = home.work_folder().join("results");
    for folder in [absolute.to_str().unwrap(), "../linked"] {
        let CommandOutput { code, err, .. } = home.run(&["exec", "--out", folder, "leaves.py"]);
        assert_eq!(code, 0, "{err}");
        fs::remove_file(outside.join("left.txt")).unwrap();
    }
}

/// Python program that prints its input file `data.txt`.
const SHOW: &str = "print(open('data.txt').read(), end='')";

#[test]
fn input_file_behind_a_symlink_out_of_the_current_folder_is_refused() {
    let home = home();
    home.write("show.py", SHOW);
    home.write("real.txt", "mine");
    let outside = home.folder.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("data.txt"), "SECRET").unwrap();
    let link = |to: &std::path::Path, at: &str| {
        std::os::unix::fs::symlink(to, home.work_folder().join(at)).unwrap();
    };
    link("../outside/data.txt".as_ref(), "data.txt");
    link(&outside, "linked");
    link("real.txt".as_ref(), "inner.txt");
    for path in ["data.txt", "./data.txt", "linked/data.txt", "../work/data.txt"] {
        for args in [&["exec", "--file", path, "show.py"][..], &["run", SINE, "--file", path]] {
            let CommandOutput { code, out, err } = home.run(args);
            assert_eq!(code, 2, "{args:?}: {out}{err}");
            assert!(err.contains("a symlink leads out of the current folder"), "{err}");
        }
    }
    // These paths are allowed: a symlink to a file in the current folder, an absolute path, and a path that leaves the
    // current folder without a symlink.
    let absolute = home.work_folder().join("data.txt").display().to_string();
    for (file, content) in [
        ("inner.txt=data.txt", "mine"),
        (absolute.as_str(), "SECRET"),
        ("../outside/data.txt", "SECRET"),
    ] {
        let CommandOutput { code, out, err } = home.run(&["exec", "--file", file, "show.py"]);
        assert_eq!((code, out.as_str()), (0, content), "{file}: {err}");
    }
}

#[test]
fn input_file_swapped_for_a_symlink_does_not_expose_the_link_target() {
    let home = home();
    home.write("show.py", SHOW);
    home.write("data.txt", "mine");
    let secret = home.folder.path().join("secret");
    fs::write(&secret, "SECRET").unwrap();
    std::os::unix::fs::symlink(&secret, home.work_folder().join("other")).unwrap();
    let (file, other) = (home.work_folder().join("data.txt"), home.work_folder().join("other"));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let (at, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
                rustix::fs::renameat_with(at, &file, at, &other, exchange).unwrap();
            }
        });
        let ran: Vec<CommandOutput> =
            (0..8).map(|_| home.run(&["exec", "--file", "data.txt", "show.py"])).collect();
        // Stop the other thread before the assertions. Otherwise the scope would wait forever if an assertion fails.
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for CommandOutput { code, out, err } in ran {
            assert!([(0, "mine"), (2, "")].contains(&(code, out.as_str())), "{code} {out}{err}");
        }
    });
}

#[test]
fn runs_export_encodes_binary_files_as_base64() {
    let answers = [program("open('x.bin', 'wb').write(bytes([0, 255])); print('é')")];
    let fake = FakeProvider::scripted(
        FakeKind::Anthropic,
        answers.map(|one| FakeReply::text(one.to_string())),
    );
    let home = with_provider(FakeKind::Anthropic, &fake);
    assert_eq!(home.run(&["run", "Two bytes"]).code, 0);
    let exported = home.run(&["runs", "export", &last_run(&home)]).out;
    let exported: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(exported["artifacts"]["attempt-1/x.bin"]["base64"], "AP8=");
    assert_eq!(exported["artifacts"]["task.txt"]["text"], "Two bytes");
}

#[test]
fn sessions_are_listed_shown_and_removed() {
    let answers = [program("open('a', 'w').write('xyz'); print('ok')")];
    let fake = FakeProvider::scripted(
        FakeKind::Anthropic,
        answers.map(|one| FakeReply::text(one.to_string())),
    );
    let home = with_provider(FakeKind::Anthropic, &fake);
    assert!(home.run(&["sessions", "list"]).err.contains("no sessions"));
    let CommandOutput { code, err, .. } = home.run(&["run", "x", "--session", "notes"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("session `notes` (new)"), "{err}");
    let listed = home.run(&["sessions", "list"]).out;
    assert_eq!(listed.lines().last(), Some("notes        1              3"), "{listed}");
    let shown = home.run(&["sessions", "show", "notes"]).out;
    assert!(shown.contains("sessions/notes/files\n") && shown.ends_with("  a\n"), "{shown}");
    let shown: Value =
        serde_json::from_str(&home.run(&["sessions", "show", "notes", "--json"]).out).unwrap();
    assert_eq!(shown["files"], json!([{"name": "a", "bytes": 3}]));
    let missing = home.run(&["sessions", "rm", "notes", "ntoes"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("there is no session `ntoes`"), "{}", missing.err);
    // A run is refused if the files of its session do not fit on the disk of the sandbox.
    let files = home.folder.path().join(".local/state/assize/sessions/notes/files");
    fs::write(files.join("big"), vec![0; 3 << 20]).unwrap();
    let large = home.run(&["run", "x", "--session", "notes", "--disk", "2M"]);
    assert_eq!(large.code, 2, "{}", large.err);
    assert!(large.err.contains("exceed the sandbox's disk limit of 2 MB"), "{}", large.err);
    assert!(large.err.contains("`--disk`"), "{}", large.err);
    assert_eq!(home.run(&["sessions", "rm", "notes"]).out, "removed notes\n");
    assert!(home.run(&["sessions", "list"]).err.contains("no sessions"));
}

/// The test makes four runs. Each run finds a full disk under a different folder: the output folder, the folder of the
/// sessions, the folder of the store, or the package cache.
#[test]
fn run_resumes_after_a_full_disk_without_repeating_calls() {
    let writes = program("open('big', 'wb').write(b'x' * 300000); print('written')");
    let mut needs = program("import assizesix; print(len(assizesix.DATA))");
    needs["dependencies"] = json!(["assizesix"]);
    let answers = [&writes, &writes, &writes, &needs].map(|one| FakeReply::text(one.to_string()));
    let fake = FakeProvider::scripted(FakeKind::Anthropic, answers);
    let home = with_provider(FakeKind::Anthropic, &fake)
        .set("ASSIZE_PACKAGES_ALLOW", "assizesix")
        .set("ASSIZE_PACKAGES_WHEELS", "wheels");
    let wheel = "
import os, random, zipfile
data = random.Random(1).randbytes(150000).hex()
os.mkdir('wheels')
with zipfile.ZipFile('wheels/assizesix-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('assizesix.py', f'DATA = \"{data}\"')
    wheel.writestr('assizesix-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: assizesix\\nVersion: 1.0\\n')
    wheel.writestr('assizesix-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('assizesix-1.0.dist-info/RECORD', '')";
    home.write("wheel.py", wheel);
    let script = "
last() { assize runs list | sed -n 2p | cut -d' ' -f1; }
small() { mkdir -p \"$1\" && mount -t tmpfs -o size=64k tmpfs \"$1\"; }
large() { mount -o remount,size=8m \"$1\"; }
tries() { code=0; \"$@\" || code=$?; echo \"exit code $code\"; }
python3 wheel.py
# The output folder is full.
small out
tries assize run x --quiet --out out
ls out
large out
assize runs files \"$(last)\" --out out
# The folder of the sessions is full.
small ../.local/state/assize/sessions
tries assize run x --quiet --session notes
ls ../.local/state/assize/sessions/notes/files
large ../.local/state/assize/sessions
assize runs resume \"$(last)\" --quiet
ls ../.local/state/assize/sessions/notes/files
# The file system of the store is full.
export ASSIZE_STORE_PATH=disk/store.db
small disk
mount -o remount,size=220k disk
tries assize run x --quiet
large disk
assize runs resume \"$(last)\" --quiet
unset ASSIZE_STORE_PATH
# The package cache is full.
small ../.cache/assize/packages
tries assize run x --quiet
large ../.cache/assize/packages
assize runs resume \"$(last)\" --quiet";
    let CommandOutput { code, out, err } = run_with_own_mounts(&home, script);
    assert_eq!(code, 0, "{out}\n{err} {:?}", fake.take_violations());
    insta::assert_snapshot!(out, @r"
    written
    exit code 4
          300,000  big
    exit code 4
    written
    big
    exit code 4
    written
    exit code 4
    300000
    ");
    for message in [
        "/big`: No space left on device",
        "cannot access the files of the session: No space left on device",
        "no space left for the store",
        "cannot fetch packages:",
    ] {
        assert!(err.contains(message), "{message}: {err}");
    }
    assert_eq!(fake.captured_requests().len(), 4);
}
