//! Tests of `assize exec` with the built binary. The command runs code in a new sandbox.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{CommandOutput, Home};

/// Creates a `Home` whose `PATH` contains the interpreters that sandboxes use.
pub(crate) fn home() -> Home {
    Home::new().set("PATH", "/usr/local/bin:/usr/bin:/bin")
}

/// Runs `assize exec` in a new `Home`, with the code as standard input.
fn exec(code: &str, args: &[&str]) -> CommandOutput {
    let home = home();
    home.run_with_input(&[&["exec"], args, &["-"]].concat(), code.as_bytes())
}

#[test]
fn exec_passes_arguments_and_input_to_the_program_and_returns_its_exit_code() {
    let home = home();
    home.write(
        "hello.py",
        "import sys\nprint('hello', sys.argv[1:], sys.stdin.read())\nsys.exit(7)",
    );
    let CommandOutput { code, out, err } =
        home.run_with_input(&["exec", "hello.py", "a b", "--flag"], b"given");
    assert_eq!((code, out.as_str(), err.as_str()), (7, "hello ['a b', '--flag'] given\n", ""));
}

#[test]
fn exec_passes_stdout_and_stderr_through_separately_and_unchanged() {
    let CommandOutput { code, out, err } =
        exec("import sys; print('out\\x1b[31m'); print('err', file=sys.stderr)", &[]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "out\u{1b}[31m\n", "err\n"));
}

#[test]
fn exec_chooses_the_language_by_file_extension_or_flag() {
    let home = home();
    home.write("code.sh", "a=(1 2); echo ${a[1]} $1");
    home.write("code.js", "console.log([1].map(x => x + 1)[0], process.argv[2])");
    assert_eq!(home.run(&["exec", "code.sh", "x"]).out, "2 x\n");
    let CommandOutput { code, out, err } = home.run(&["exec", "code.js", "x"]);
    if code == 125 {
        assert!(err.contains("no JavaScript interpreter in the jail sandbox"), "{err}");
    } else {
        assert_eq!(out, "2 x\n", "{err}");
    }
    assert_eq!(exec("echo $BASH_VERSION", &["--language", "bash"]).code, 0);
    let CommandOutput { code, err, .. } = exec("x", &["--language", "cobol"]);
    assert_eq!(code, 2);
    insta::assert_snapshot!(err, @r"
    error: unsupported language `cobol`

    hint: use python, bash or javascript
    ");
    home.write("code.txt", "x");
    let CommandOutput { code, err, .. } = home.run(&["exec", "code.txt"]);
    assert_eq!(code, 2);
    assert!(err.contains("cannot tell the language of"), "{err}");
}

#[test]
fn exec_prints_a_one_line_warning_for_each_reached_limit() {
    let limits = [
        ("while True: pass", &["--timeout", "0.5"][..], 124),
        (
            "data = []\nwhile True: data.append(bytearray(1 << 20))",
            &["--memory", "48M", "--disk", "4M"],
            137,
        ),
        ("print('x' * 5000)", &["--output", "1K"], 0),
        (
            "import os\nos.write(os.open('/tmp/x', os.O_CREAT | os.O_WRONLY), b'x' * (2 << 20))",
            &["--disk", "1M"],
            0,
        ),
        ("import os; os.kill(os.getpid(), 11)", &[], 139),
    ];
    let mut warnings = String::new();
    for (code, args, expected) in limits {
        let CommandOutput { code, err, .. } = exec(code, args);
        assert_eq!(code, expected, "{err}");
        warnings.push_str(&err);
    }
    insta::assert_snapshot!(warnings, @r"
    warning: the program was stopped: it reached its time limit of 0.5 s (raise the limit with `--timeout`)
    warning: the program was stopped: it reached its memory limit of 48M (raise the limit with `--memory`)
    warning: the output was cut: the limit is 1K for each stream (raise the limit with `--output`)
    warning: the disk of the sandbox is full: the limit is 1M for all files (raise the limit with `--disk`)
    warning: the program was killed by signal 11
    ");
}

#[test]
fn exec_input_files_are_read_only_and_output_files_are_copied_out() {
    let home = home();
    home.write("data.csv", "1\n2\n3\n");
    home.write("other/data.csv", "other");
    home.write("helper.py", "def double(n): return n * 2");
    let code = r"
import os, helper
total = sum(int(line) for line in open('data.csv'))
os.makedirs('plots')
open('plots/total.txt', 'w').write(str(helper.double(total)))
open('renamed', 'rb').close()
os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); open(b'bad\xff', 'w').close(); open('a\nb', 'w').close()
try: open('data.csv', 'a'); print('written')
except PermissionError: print('read-only')
";
    let args = [
        "exec",
        "--file",
        "data.csv",
        "--file",
        "helper.py",
        "--file",
        "other/data.csv=renamed",
        "--out",
        "out",
        "-",
    ];
    let CommandOutput { code, out, err } = home.run_with_input(&args, code.as_bytes());
    assert_eq!((code, out.as_str()), (0, "read-only\n"), "{err}");
    assert_eq!(fs::read_to_string(home.work_folder().join("out/plots/total.txt")).unwrap(), "12");
    assert_eq!(fs::read_dir(home.work_folder().join("out")).unwrap().count(), 1);
    insta::assert_snapshot!(err, @r"
    warning: `a�b` was not copied: the name contains unsafe characters
    warning: `bad�` was not copied: the name contains unsafe characters
    warning: `link` was not copied: symbolic links are not copied
    warning: `pipe` was not copied: only regular files are copied
    1 file copied to `out`
    ");
}

#[test]
fn exec_checks_options_placed_before_the_file_and_passes_later_arguments_to_the_program() {
    let home = home();
    home.write("args.py", "import sys; print(sys.argv[1:])");
    let passed = home.run(&["exec", "--quiet", "args.py", "--json", "--timeout", "x", "--", "-q"]);
    assert_eq!(passed.out, "['--json', '--timeout', 'x', '--', '-q']\n", "{}", passed.err);
    let refusal = |args: &[&str]| {
        let CommandOutput { code, out, err } = home.run(&[&["exec"], args].concat());
        assert_eq!(out, "");
        format!("{code} {}", err.lines().next().unwrap())
    };
    assert_eq!(refusal(&["--tiemout", "5", "args.py"]), "2 error: unknown option `--tiemout`");
    assert_eq!(refusal(&["."]), "2 error: `.` is a folder, not a code file");
    // `--out` is checked before the program runs, so that the output files of the program are not lost.
    assert_eq!(
        refusal(&["--out", "args.py", "args.py"]),
        "2 error: cannot write files: `args.py` is not a folder"
    );
}

#[test]
fn exec_does_not_overwrite_existing_files_with_output_files() {
    let home = home();
    let config = home.write("repo/.git/config", "[core]\n");
    let kept = home.write("repo/kept.txt", "mine");
    home.write("repo/file", "not a folder");
    let code = r"
import os, sys
os.makedirs('.git'); open('.git/config', 'w').write('[core]\n fsmonitor = touch /tmp/planted\n')
open('kept.txt', 'w').write('theirs'); open('new.txt', 'w').write('new')
open('closed', 'w').close(); os.chmod('closed', 0)
os.mkdir('many'); os.mkdir('file'); open('file/inside', 'w').close()
for number in range(4100): open(f'many/{number}', 'w').close()
sys.exit(6)
";
    let CommandOutput { code, err, .. } =
        home.run_with_input(&["exec", "--out", "repo", "-"], code.as_bytes());
    assert_eq!(code, 6, "{err}");
    assert_eq!(fs::read_to_string(config).unwrap(), "[core]\n");
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine");
    assert_eq!(fs::read_to_string(home.work_folder().join("repo/new.txt")).unwrap(), "new");
    insta::assert_snapshot!(err, @r"
    warning: `.git` was not copied: the name begins with a dot
    warning: `closed` was not copied: file operation on `/workspace/closed` failed: Permission denied (os error 13)
    warning: `many` was not copied: `/workspace/many` has more than 4000 entries
    warning: `file/inside` was not copied: the name already exists
    warning: `kept.txt` was not copied: the name already exists
    1 file copied to `repo`
    ");
}

#[test]
fn exec_continues_when_a_child_process_of_the_program_runs_out_of_memory() {
    let code = r"
import subprocess, sys
child = subprocess.run([sys.executable, '-c', 'data = []\nwhile True: data.append(bytearray(1 << 20))'])
print(child.returncode)
";
    let CommandOutput { code, out, err } = exec(code, &["--memory", "64M", "--disk", "4M"]);
    assert_eq!((code, out.as_str()), (0, "-9\n"), "{err}");
    assert!(err.contains("a process ran out of memory: the limit is 64M"), "{err}");
}

#[test]
fn exec_ends_the_sandbox_when_its_output_pipe_is_closed() {
    let home = home();
    home.write("flood.py", "while True: print('x' * 1000)");
    let mut child = home.command(&["exec", "flood.py"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert_eq!(registered_sandbox_owners(&home), [] as [String; 0]);

    // An interrupt ends the command even if the reader keeps the pipe open without reading.
    let mut child = home.command(&["exec", "flood.py"]).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(reader);
}

#[test]
fn exec_with_invalid_input_files_or_limits_exits_2() {
    let home = home();
    home.write("a/x", "");
    home.write("b/x", "");
    let refused = |args: &[&str]| {
        let CommandOutput { code, err, .. } =
            home.run_with_input(&[&["exec"], args, &["-"]].concat(), b"pass");
        assert_eq!(code, 2, "{err}");
        err
    };
    assert!(refused(&["--file", "none"]).contains("No such file"));
    assert!(
        refused(&["--file", "a/x", "--file", "b/x"]).contains("two files would have the name `x`")
    );
    assert!(refused(&["--file", "a/x=../../up"]).contains("invalid file name in the sandbox"));
    assert!(refused(&["--file", "a"]).contains("not a regular file"));
    fs::write(home.work_folder().join("large"), vec![0; 2 << 20]).unwrap();
    assert!(
        refused(&["--file", "large", "--disk", "1M"])
            .contains("raise the disk limit with `--disk`")
    );
    assert!(
        refused(&["--memory", "64M", "--disk", "1G"])
            .contains("the disk limit must not exceed the memory limit")
    );
    assert!(refused(&["--memory", "64"]).contains("`--memory` must be a size"));
}

#[test]
fn exec_json_output_contains_streams_limits_and_usage() {
    let code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)";
    let CommandOutput { code, out, err } = exec(code, &["--json", "--memory", "64M"]);
    assert_eq!((code, err.as_str()), (3, ""));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["stdout"], &report["stderr"]), (&"out\n".into(), &"err\n".into()));
    assert_eq!((&report["exit_code"], &report["isolation"]), (&3.into(), &"jail".into()));
    assert_eq!(report["limits"]["memory_bytes"], 64 << 20);
    assert!(
        report["duration_ms"].as_f64().unwrap() > 0.0
            && report["peak_memory_bytes"].as_u64().unwrap() > 1 << 20
    );
    assert!(report["enforcement"]["memory"].as_str().is_some_and(|words| !words.is_empty()));
}

#[test]
fn exec_streams_output_while_the_program_runs() {
    let home = home();
    home.write("wait.py", "print('ready')\nprint('you said', input())");
    let mut child = home.command(&["exec", "wait.py"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child.stdin.take().unwrap().write_all(b"yes\n").unwrap();
    line.clear();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "you said yes\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn exec_tracebacks_contain_the_name_of_the_users_file() {
    let home = home();
    home.write("charts/plot.py", "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()\nnone()\n");
    let CommandOutput { code, err, .. } = home.run(&["exec", "charts/plot.py"]);
    assert_eq!(code, 1);
    assert!(err.contains("File \"plot.py\", line 3, in <module>\n    1 / 0"), "{err}");
    assert!(err.contains("File \"plot.py\", line 6, in <module>\n    none()"), "{err}");
    assert!(!err.contains("/tmp/code.py"), "{err}");
    let CommandOutput { out, .. } = home.run(&["exec", "--json", "charts/plot.py"]);
    assert!(out.contains(r#"File \"plot.py\", line 6"#), "{out}");
    home.write("wrong.py", "def (:\n");
    assert!(home.run(&["exec", "wrong.py"]).err.contains("File \"wrong.py\", line 1"));
    home.write("greet.sh", "nonesuch\n");
    assert!(home.run(&["exec", "greet.sh"]).err.contains("greet.sh: line 1: nonesuch"));
    // Tracebacks show the path inside the sandbox if the code has no file name, or one with control characters.
    let CommandOutput { err, .. } = home.run_with_input(&["exec", "-"], b"none()");
    assert!(err.contains("File \"/tmp/code.py\", line 1"), "{err}");
    home.write("a\u{1b}[31m\n.py", "none()");
    let CommandOutput { err, .. } = home.run(&["exec", "a\u{1b}[31m\n.py"]);
    assert!(err.contains("File \"/tmp/code.py\", line 1"), "{err}");
}

#[test]
fn exec_passes_options_after_the_file_to_the_program_and_prints_a_warning() {
    let home = home();
    home.write("show.py", "import sys\nprint(sys.argv[1:])");
    let warned = |args: &[&str]| {
        let CommandOutput { code, out, err } = home.run(args);
        assert_eq!(code, 0, "{err}");
        (out, err)
    };
    let (out, err) = warned(&["exec", "show.py", "--out", "o", "--json"]);
    assert_eq!(out, "['--out', 'o', '--json']\n");
    assert!(err.starts_with("warning: `--out` after `show.py` is passed to the program"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    let silent = |args: &[&str], expected: &str| {
        assert_eq!(warned(args), (expected.to_owned(), String::new()))
    };
    silent(&["exec", "show.py", "--", "--out=o"], "['--out=o']\n");
    silent(&["exec", "--", "show.py", "--out", "o"], "['--out', 'o']\n");
    silent(&["exec", "show.py", "--colour", "-q"], "['--colour', '-q']\n");
    silent(&["exec", "-q", "show.py", "--out", "o"], "['--out', 'o']\n");
    silent(&["exec", "show.py", "--", "--", "x"], "['--', 'x']\n");
}

#[test]
fn exec_refuses_unknown_and_unavailable_isolation() {
    let CommandOutput { code, err, .. } = exec("pass", &["--isolation", "chroot"]);
    assert_eq!(code, 2);
    assert!(
        err.contains(
            "`--isolation` must be jail, docker, microvm, at-least=NAME or auto, not `chroot`"
        ),
        "{err}"
    );
    let CommandOutput { code, err, out } = exec("print('ran')", &["--isolation", "microvm"]);
    assert_eq!((code, out.as_str()), (125, ""), "{err}");
    assert!(err.contains("microvm sandboxes are unavailable"), "{err}");
}

#[test]
fn untrusted_folder_can_lower_limits_but_not_choose_the_backend() {
    let home = home();
    home.write("assize.toml", "[sandbox]\nmemory = \"32M\"\ndisk = \"2M\"\n");
    home.write("code.py", "print('ran')");
    let report = home.run(&["exec", "--json", "code.py"]).out;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["limits"]["memory_bytes"], 32 << 20);
    for wider in [
        "[sandbox]\nmemory = \"4G\"\n",
        "[sandbox]\nisolation = \"jail\"\n",
        "[sandbox]\npython = \"/bin/sh\"\n",
    ] {
        home.write("assize.toml", wider);
        let CommandOutput { code, err, .. } = home.run(&["exec", "code.py"]);
        assert_eq!(code, 3, "{wider} {err}");
    }
}

#[test]
fn exec_warns_and_uses_all_cpus_if_more_are_requested_than_the_machine_has() {
    let home = home();
    let CommandOutput { code, out, err } =
        home.run_with_input(&["exec", "--cpus", "99", "--json", "-"], b"print(1)");
    assert_eq!(code, 0, "{err}");
    let processors = std::thread::available_parallelism().unwrap();
    let warning = format!(
        "warning: `--cpus 99` exceeds the number of CPUs of this machine: using {processors}"
    );
    assert!(err.contains(&warning), "{err}");
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(out.contains(&format!("\"cpus\": {processors}.0")), "{shown}");
    let home = home.set("ASSIZE_SANDBOX_CPUS", "99");
    let CommandOutput { code, err, .. } = home.run_with_input(&["exec", "-"], b"print(1)");
    assert_eq!(code, 0, "{err}");
    let warning = "warning: `sandbox.cpus = 99` (environment, ASSIZE_SANDBOX_CPUS) exceeds";
    assert!(err.contains(warning), "{err}");
}

/// `assize run` detects the missing interpreter before any model call.
#[test]
fn run_without_python_exits_125_with_a_hint() {
    let home = Home::new().set("PATH", "/nonexistent");
    let CommandOutput { code, err, .. } =
        home.run(&["run", "Calculate fibonacci(10)", "--isolation", "jail"]);
    assert_eq!(code, 125, "{err}");
    assert!(err.contains("no Python interpreter in the jail sandbox"), "{err}");
    assert!(err.contains("`python3` is in PATH") && err.contains("sandbox.python"), "{err}");
}

/// Number of processes on this machine that have `word` as a command-line argument.
pub(crate) fn count_processes_with_argument(word: &str) -> usize {
    let named = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // Compare whole arguments: a process with `word` inside a longer argument does not count.
        String::from_utf8_lossy(&line).split('\0').any(|argument| argument == word)
    });
    named.count()
}

/// Waits until `holds` returns true. Panics after 30 s with a message that contains `what`.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Paths of the cgroups that assize processes have created on this machine.
pub(crate) fn cgroups() -> Vec<String> {
    let mut find = std::process::Command::new("find");
    let found = find
        .args(["/sys/fs/cgroup", "-maxdepth", "6", "-name", "assize-*"])
        .output()
        .unwrap()
        .stdout;
    String::from_utf8_lossy(&found).lines().map(str::to_owned).collect()
}

/// Python program that starts `sleep` in a new session. The program's argument is the number of seconds to sleep.
pub(crate) const DAEMON: &str = r"
import os, subprocess, sys, time
subprocess.Popen(['sleep', sys.argv[1]], start_new_session=True)
print('up')
time.sleep(1000)
";

/// Names of the folders in the sandbox registry of a `Home`. Each process that creates sandboxes has one folder.
pub(crate) fn registered_sandbox_owners(home: &Home) -> Vec<String> {
    let folder = home.folder.path().join(".local/state/assize/sandboxes");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name != "lock").collect()
}

/// Runs [`DAEMON`] with `assize exec` and waits until `sleep` has started. Returns the `assize` process and the
/// argument of `sleep`, which identifies the `sleep` process.
pub(crate) fn start_daemon(home: &Home, flags: &[&str]) -> (Child, String) {
    home.write("daemon.py", DAEMON);
    let seconds = format!("{}.25", fastrand::u32(100_000..1_000_000));
    let args = [&["exec"], flags, &["daemon.py", &seconds]].concat();
    let mut child = home.command(&args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    wait_for("`sleep` to start in the sandbox", || count_processes_with_argument(&seconds) > 0);
    (child, seconds)
}

#[test]
fn killed_exec_leaves_no_processes_no_cgroups_and_no_mounts() {
    let home = home();
    let (mut child, seconds) = start_daemon(&home, &[]);
    let owner = registered_sandbox_owners(&home).pop().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the processes of the sandbox to end", || {
        count_processes_with_argument(&seconds) == 0
    });
    wait_for("the removal of the cgroups of the sandbox", || {
        !cgroups().iter().any(|group| group.contains(&owner))
    });
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("assize") && !mounts.contains("/workspace"), "{mounts}");
    assert_eq!(registered_sandbox_owners(&home), [owner]);
    assert_eq!(home.run(&["sandbox", "ls"]).code, 0);
    assert_eq!(registered_sandbox_owners(&home), [] as [String; 0]);
}

/// An orphaned supervisor of a jail would stay as a zombie in a container whose first process reaps no children.
#[test]
fn exec_removes_its_jail_before_it_exits() {
    let home = home();
    home.write("wait.py", "print('up')\ninput()\n");
    let mut child = home.command(&["exec", "wait.py"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let owner = registered_sandbox_owners(&home).pop().unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(registered_sandbox_owners(&home), [] as [String; 0]);
    assert!(!cgroups().iter().any(|group| group.contains(&owner)));
}

/// The kernel can kill the supervisor process of a jail, for example when the host runs out of memory.
#[test]
fn exec_exits_125_and_ends_the_jail_when_its_supervisor_process_is_killed() {
    let home = home();
    let (child, seconds) = start_daemon(&home, &[]);
    let owner = registered_sandbox_owners(&home).pop().unwrap();
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
    let children = threads.map(|one| fs::read_to_string(one.path().join("children")).unwrap());
    let supervisor =
        children.collect::<String>().trim().parse().unwrap_or_else(|_| panic!("{path}"));
    let supervisor = rustix::process::Pid::from_raw(supervisor).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(125));
    assert!(String::from_utf8(done.stderr).unwrap().contains("lost the connection to the guest"));
    assert_eq!(count_processes_with_argument(&seconds), 0);
    assert!(!cgroups().iter().any(|group| group.contains(&owner)));
}

#[test]
fn interrupted_exec_ends_the_sandbox() {
    let home = home();
    let (mut child, seconds) = start_daemon(&home, &[]);
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(count_processes_with_argument(&seconds), 0);
    assert_eq!(registered_sandbox_owners(&home), [] as [String; 0]);
}

/// `exec` uses the same list of allowed packages and the same package layers as `run`.
#[test]
fn exec_adds_allowed_packages_and_refuses_other_packages() {
    let home = home();
    let wheels = home.folder.path().join("wheels");
    std::fs::create_dir(&wheels).unwrap();
    let make = "
import sys, zipfile
info = 'assizesix-1.0.dist-info/'
with zipfile.ZipFile(sys.argv[1] + '/assizesix-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('assizesix.py', 'def six(): return 6')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: assizesix\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', '')
";
    let made = std::process::Command::new("python3").args(["-c", make]).arg(&wheels).status();
    assert!(made.unwrap().success());
    let settings = home.folder.path().join(".config/assize/config.toml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let text = format!("[packages]\nallow = \"assizesix\"\nwheels = \"{}\"\n", wheels.display());
    std::fs::write(&settings, text).unwrap();
    home.write(
        "six.py",
        "import os, assizesix\nprint(assizesix.six(), os.path.exists(assizesix.__cached__))",
    );
    let CommandOutput { code, out, err } = home.run(&["exec", "--packages", "assizesix", "six.py"]);
    assert_eq!((code, out.as_str()), (0, "6 True\n"), "{err}");
    // Without `--packages`, the program cannot import the module.
    assert_eq!(home.run(&["exec", "six.py"]).code, 1);
    let refused = home.run(&["exec", "--packages", "assizesix,requests", "six.py"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("requests") && refused.err.contains("allowed packages: assizesix"),
        "{}",
        refused.err
    );
    home.write("six.sh", "true");
    let other = home.run(&["exec", "--packages", "assizesix", "six.sh"]);
    assert!(
        other.code == 2 && other.err.contains("`--packages` works only with Python"),
        "{}",
        other.err
    );
}
