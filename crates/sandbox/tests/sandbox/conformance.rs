//! The behaviours that every backend has in common.

use std::time::Duration;

use assize_sandbox::{
    Cause, Command, EntryKind, Event, Isolation, Language, Layer, Output, SandboxError, Spec,
};

use crate::bench::{Bench, python, run, shell, text, try_python};

/// Each behaviour is a test of each backend.
macro_rules! for_every_backend {
    ($($behaviour:ident),* $(,)?) => {
        mod jail {
            use super::{Isolation, run};
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $behaviour() { run(Isolation::Jail, super::$behaviour).await; })*
        }
        mod docker {
            use super::{Isolation, run};
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $behaviour() { run(Isolation::Docker, super::$behaviour).await; })*
        }
    };
}

for_every_backend!(
    a_program_prints_and_ends,
    output_and_errors_are_told_apart,
    an_exit_code_is_passed_on,
    a_signal_is_told,
    an_exception_reads_as_it_does_anywhere,
    arguments_arrive_as_they_are,
    the_environment_is_what_was_given,
    the_working_folder_is_the_workspace_or_another,
    input_is_passed_through_both_ways,
    without_input_there_is_none,
    input_that_nobody_reads_is_no_trouble,
    output_comes_as_it_is_written,
    much_output_comes_whole,
    too_much_output_is_cut_and_the_program_goes_on,
    any_bytes_may_be_written,
    a_line_without_an_end_is_no_trouble,
    frames_in_the_output_are_only_output,
    time_runs_out,
    time_runs_out_for_what_ignores_signals_and_leaves_the_tree,
    a_shorter_time_can_be_asked_for_and_no_longer_one,
    memory_runs_out,
    a_crash_is_not_for_want_of_memory,
    memory_is_counted_for_all_processes_together,
    processes_are_limited,
    the_disk_runs_full,
    files_are_limited_in_number,
    the_workspace_is_on_the_same_disk,
    a_file_is_written_and_read,
    writing_makes_folders_and_replaces_files,
    reading_says_what_is_wrong,
    what_is_no_plain_file_is_not_read,
    what_the_host_writes_goes_through_no_door_of_the_kernel,
    a_folder_is_listed,
    files_and_folders_are_removed,
    paths_are_whole,
    the_root_is_read_only,
    there_is_no_network,
    the_loopback_works,
    programs_have_no_rights,
    the_first_process_cannot_be_killed_or_looked_into,
    two_programs_run_at_once,
    what_one_program_leaves_the_next_one_finds,
    what_code_started_ends_with_it,
    a_time_out_spares_other_programs,
    a_signal_can_be_sent,
    a_program_can_be_killed,
    a_program_that_nobody_waits_for_is_killed,
    a_missing_program_is_named,
    bash_and_javascript_run_too,
    layers_are_seen_and_cannot_be_written,
    subprocesses_and_multiprocessing_work,
    common_libraries_work,
    only_a_machine_of_its_own_has_a_clock,
    a_sandbox_that_ended_says_so,
    limits_must_make_sense,
    an_unknown_image_is_refused,
    duration_and_memory_are_told,
    a_waiting_interpreter_behaves_like_a_fresh_one,
    no_two_waiting_interpreters_are_alike,
    what_a_waiting_interpreter_cannot_be_told_starts_a_fresh_one,
);

async fn a_program_prints_and_ends(bench: Bench) {
    let done = bench.python("print('hello')").await;
    assert_eq!((text(&done.stdout), text(&done.stderr)), ("hello\n", ""));
    assert!(done.outcome.success());
    assert!(!done.outcome.timed_out && !done.outcome.out_of_memory && !done.outcome.output_cut);
}

async fn output_and_errors_are_told_apart(bench: Bench) {
    let done = bench.python("import sys; print('out'); print('err', file=sys.stderr)").await;
    assert_eq!((text(&done.stdout), text(&done.stderr)), ("out\n", "err\n"));
}

async fn an_exit_code_is_passed_on(bench: Bench) {
    let done = bench.python("raise SystemExit(42)").await;
    assert_eq!((done.outcome.exit_code, done.outcome.signal), (Some(42), None));
    assert_eq!(done.outcome.status(), 42);
    assert!(!done.outcome.success());
}

async fn a_signal_is_told(bench: Bench) {
    let done = bench.python("import os; os.kill(os.getpid(), 15)").await;
    assert_eq!((done.outcome.exit_code, done.outcome.signal), (None, Some(15)));
    assert_eq!(done.outcome.status(), 143);
}

async fn an_exception_reads_as_it_does_anywhere(bench: Bench) {
    let done = bench.python("def f():\n    return 1 / 0\nf()\n").await;
    assert_eq!(done.outcome.exit_code, Some(1));
    let errors = text(&done.stderr);
    assert!(
        errors.starts_with(
            "Traceback (most recent call last):\n  File \"/tmp/code.py\", line 3, in <module>"
        ),
        "{errors}"
    );
    assert!(errors.ends_with("ZeroDivisionError: division by zero\n"), "{errors}");
}

async fn arguments_arrive_as_they_are(bench: Bench) {
    let arguments = ["a b", "", "'\"$(id)`", "ä\n", "--flag", "*"];
    let sandbox = bench.sandbox().await;
    let code = "import sys, json; print(json.dumps(sys.argv))";
    let done = try_python(&sandbox, code, Command::default().args(arguments)).await.unwrap();
    let told: Vec<String> = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told[0], "/tmp/code.py");
    assert_eq!(told[1..], arguments);
}

async fn the_environment_is_what_was_given(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let code = "import os, json; print(json.dumps(dict(os.environ)))";
    let command = Command::default().env("GIVEN", "yes = ä").env("PATH", "/bin:/usr/bin");
    let done = try_python(&sandbox, code, command).await.unwrap();
    let told: std::collections::BTreeMap<String, String> =
        serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["GIVEN"], "yes = ä");
    assert_eq!(told["PATH"], "/bin:/usr/bin");
    let names: Vec<&str> =
        told.keys().map(String::as_str).filter(|name| *name != "LC_CTYPE").collect();
    assert_eq!(names, ["GIVEN", "HOME", "LANG", "PATH", "PYTHONPATH", "TMPDIR"]);
    let wrong = try_python(&sandbox, code, Command::default().env("A=B", "x")).await;
    assert!(wrong.unwrap_err().to_string().contains("cannot be a variable"));
}

async fn the_working_folder_is_the_workspace_or_another(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let pwd = |folder: Option<&str>| {
        let command = Command::new("/bin/sh").args(["-c", "pwd -P"]);
        folder.map_or(command.clone(), |folder| command.cwd(folder))
    };
    let own = sandbox.exec(pwd(None)).await.unwrap().finish().await.unwrap();
    // It may be a link to a folder of the disk.
    assert!(text(&own.stdout).trim_end().ends_with("/workspace"), "{}", text(&own.stdout));
    let other = sandbox.exec(pwd(Some("/usr"))).await.unwrap().finish().await.unwrap();
    assert_eq!(text(&other.stdout), "/usr\n");
    let missing = sandbox.exec(pwd(Some("/nowhere"))).await.unwrap().finish().await.unwrap_err();
    assert_eq!(missing.cause(), Some(Cause::NotFound));
    assert_eq!(missing.to_string(), "there is no folder `/nowhere` in the sandbox");
}

async fn input_is_passed_through_both_ways(bench: Bench) {
    let sandbox = bench.with(|limits| limits.output = 64 << 20).await;
    let running = sandbox.exec(Command::new("/bin/cat").stdin(true)).await.unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let (stdin, bytes) = (running.stdin(), sent.clone());
    let writer = tokio::spawn(async move {
        assert!(stdin.write(&bytes).await.unwrap());
        stdin.close();
    });
    let done = running.finish().await.unwrap();
    writer.await.unwrap();
    assert_eq!(done.outcome.exit_code, Some(0));
    assert!(done.stdout == sent, "{} of {} bytes", done.stdout.len(), sent.len());
}

async fn without_input_there_is_none(bench: Bench) {
    let done = bench.python("import sys; print(repr(sys.stdin.read()))").await;
    assert_eq!(text(&done.stdout), "''\n");
}

async fn input_that_nobody_reads_is_no_trouble(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let running = sandbox.exec(Command::new("/bin/true").stdin(true)).await.unwrap();
    let stdin = running.stdin();
    let writer = tokio::spawn(async move {
        // Taken for a while, and then it does not want any more.
        while stdin.write(&[0; 65536]).await.unwrap() {}
    });
    assert!(running.finish().await.unwrap().outcome.success());
    writer.await.unwrap();
}

async fn output_comes_as_it_is_written(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let code = "print('ready'); print('you said', input())";
    let command = Command::default().stdin(true);
    let mut running = sandbox.run(Language::Python, code.as_bytes(), command).await.unwrap();
    let Event::Wrote(Output::Stdout, first) = running.next().await.unwrap() else {
        panic!("no output")
    };
    assert_eq!(text(&first), "ready\n");
    let stdin = running.stdin();
    assert!(stdin.write(b"yes\n").await.unwrap());
    assert_eq!(text(&running.finish().await.unwrap().stdout), "you said yes\n");
}

async fn much_output_comes_whole(bench: Bench) {
    let done =
        bench.python("import sys\nfor i in range(700_000): sys.stdout.write('%09d\\n' % i)").await;
    assert!(!done.outcome.output_cut);
    assert_eq!(done.stdout.len(), 7_000_000);
    assert!(text(&done.stdout).lines().enumerate().all(|(index, line)| line.parse() == Ok(index)));
}

async fn too_much_output_is_cut_and_the_program_goes_on(bench: Bench) {
    let sandbox = bench.with(|limits| limits.output = 100_000).await;
    let code = "import sys\nfor i in range(100): print('x' * 9999)\nprint('end', file=sys.stderr)";
    let done = python(&sandbox, code).await;
    assert!(done.outcome.output_cut && done.outcome.exit_code == Some(0));
    assert_eq!((done.stdout.len(), text(&done.stderr)), (100_000, "end\n"));
}

async fn any_bytes_may_be_written(bench: Bench) {
    let done = bench.python("import sys; sys.stdout.buffer.write(bytes(range(256)) * 10)").await;
    assert_eq!(done.stdout, (0..=255).cycle().take(2560).collect::<Vec<u8>>());
}

async fn a_line_without_an_end_is_no_trouble(bench: Bench) {
    let done = bench.python("import os; os.write(1, b'y' * 4_000_000)").await;
    assert_eq!(done.outcome.exit_code, Some(0));
    assert!(done.stdout.iter().all(|byte| *byte == b'y') && !done.stdout.is_empty());
}

async fn frames_in_the_output_are_only_output(bench: Bench) {
    let code = r#"
import os, struct
for stream in range(1, 5):
    reply = b'{"ended":{"exit_code":0,"micros":1}}'
    frame = struct.pack('<IBI', len(reply) + 5, 6, stream) + reply
    for fd in range(0, 10):
        try: os.write(fd, frame)
        except OSError: pass
raise SystemExit(7)
"#;
    let done = bench.python(code).await;
    assert_eq!(done.outcome.exit_code, Some(7));
    assert!(!done.stdout.is_empty() && !done.stderr.is_empty());
}

async fn time_runs_out(bench: Bench) {
    let sandbox = bench.with(|limits| limits.wall = Duration::from_millis(700)).await;
    let done = python(&sandbox, "print('on it')\nwhile True: pass").await;
    assert!(done.outcome.timed_out && !done.outcome.success());
    assert_eq!((done.outcome.signal, text(&done.stdout)), (Some(9), "on it\n"));
}

async fn time_runs_out_for_what_ignores_signals_and_leaves_the_tree(bench: Bench) {
    let sandbox = bench.with(|limits| limits.wall = Duration::from_secs(2)).await;
    let code = r"
import os, signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            os.close(1); os.close(2)
            time.sleep(1000)
        os._exit(0)
time.sleep(1000)
";
    let done = python(&sandbox, code).await;
    assert!(done.outcome.timed_out);
    // Whatever it left would be there for the next one.
    let gone = "while cat /proc/[0-9]*/comm | grep -q python; do :; done; echo gone";
    assert_eq!(text(&shell(&sandbox, gone).await.stdout), "gone\n");
}

async fn a_shorter_time_can_be_asked_for_and_no_longer_one(bench: Bench) {
    let sandbox = bench.with(|limits| limits.wall = Duration::from_secs(2)).await;
    let wait = |wall| Command::new("/bin/sleep").args(["1000"]).wall(wall);
    for wall in [Duration::from_millis(200), Duration::from_secs(1000)] {
        let done = sandbox.exec(wait(wall)).await.unwrap().finish().await.unwrap();
        assert!(done.outcome.timed_out);
        assert!(done.outcome.duration >= wall.min(Duration::from_secs(2)));
    }
}

async fn memory_runs_out(bench: Bench) {
    let sandbox = bench.with(|limits| {
        limits.memory = 48 << 20;
        limits.disk = 8 << 20;
    });
    let code = "data = []\nwhile True: data.append(bytearray(1 << 20))";
    let done = python(&sandbox.await, code).await;
    assert!(done.outcome.out_of_memory && !done.outcome.success(), "{:?}", done.outcome);
    assert!(!done.outcome.timed_out);
}

async fn a_crash_is_not_for_want_of_memory(bench: Bench) {
    let done = bench.python("import ctypes; ctypes.string_at(0)").await;
    assert_eq!((done.outcome.signal, done.outcome.out_of_memory), (Some(11), false));
    let done = bench.python("import os; os.kill(os.getpid(), 9)").await;
    assert_eq!(
        (done.outcome.signal, done.outcome.out_of_memory, done.outcome.timed_out),
        (Some(9), false, false)
    );
}

async fn memory_is_counted_for_all_processes_together(bench: Bench) {
    let sandbox = bench.with(|limits| {
        limits.memory = 64 << 20;
        limits.disk = 8 << 20;
    });
    let code = r"
import os, time
for _ in range(4):
    if os.fork() == 0:
        data = bytearray(b'x' * (30 << 20))
        time.sleep(1000)
time.sleep(3)
print('all there')
";
    let done = python(&sandbox.await, code).await;
    assert!(done.outcome.out_of_memory, "{:?}", done.outcome);
}

async fn processes_are_limited(bench: Bench) {
    let sandbox = bench.with(|limits| limits.processes = 20).await;
    let code = r"
import os, time
count = 0
try:
    while count < 100:
        if os.fork() == 0: time.sleep(1000)
        count += 1
except BlockingIOError: pass
print(count)
";
    let done = python(&sandbox, code).await;
    assert_eq!(text(&done.stdout), "19\n");
}

async fn the_disk_runs_full(bench: Bench) {
    let sandbox = bench.with(|limits| limits.disk = 4 << 20).await;
    let code = r"
import errno
written = 0
try:
    for number in range(16):
        with open(f'/tmp/{number}', 'wb', buffering=0) as file:
            written += file.write(b'x' * (1 << 20))
except OSError as error:
    print(errno.errorcode[error.errno], written <= 4 << 20)
";
    let done = python(&sandbox, code).await;
    assert_eq!(text(&done.stdout), "ENOSPC True\n");
    assert!(done.outcome.disk_full);
    // What does not fit whole is not left in part.
    sandbox.remove("/tmp/0").await.unwrap();
    let full = sandbox.write("/workspace/more", &[0; 3 << 20]).await.unwrap_err();
    assert_eq!(full.cause(), Some(Cause::Full), "{full}");
    assert_eq!(
        sandbox.read("/workspace/more", 10).await.unwrap_err().cause(),
        Some(Cause::NotFound)
    );
    sandbox.write("/workspace/less", &[0; 500_000]).await.unwrap();
}

async fn files_are_limited_in_number(bench: Bench) {
    let sandbox = bench.with(|limits| limits.disk = 4 << 20).await;
    let code = r"
import os, errno
try:
    for number in range(100_000): os.close(os.open(f'/tmp/{number}', os.O_CREAT | os.O_WRONLY))
except OSError as error:
    print(errno.errorcode[error.errno], number < 5000)
";
    let done = python(&sandbox, code).await;
    assert_eq!(text(&done.stdout), "ENOSPC True\n");
    assert!(done.outcome.disk_full);
}

async fn the_workspace_is_on_the_same_disk(bench: Bench) {
    let sandbox = bench.with(|limits| limits.disk = 4 << 20).await;
    let code = r"
import os
written = 0
for folder in ('/tmp', '/workspace'):
    try:
        for number in range(8):
            fd = os.open(f'{folder}/{number}', os.O_CREAT | os.O_WRONLY)
            written += os.write(fd, b'x' * (1 << 20))
    except OSError: pass
print(written <= 4 << 20)
";
    assert_eq!(text(&python(&sandbox, code).await.stdout), "True\n");
}

async fn a_file_is_written_and_read(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    sandbox.write("/workspace/data.bin", &bytes).await.unwrap();
    assert!(sandbox.read("/workspace/data.bin", 2_000_000).await.unwrap() == bytes);
    let done = python(&sandbox, "print(sum(open('data.bin', 'rb').read()))").await;
    let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
    assert_eq!(text(&done.stdout).trim(), sum.to_string());
    sandbox.write("/tmp/empty", b"").await.unwrap();
    assert_eq!(sandbox.read("/tmp/empty", 10).await.unwrap(), b"");
}

async fn writing_makes_folders_and_replaces_files(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let path = "/workspace/logs/deep/i1.json";
    sandbox.write(path, b"a long first text").await.unwrap();
    sandbox.write(path, b"short").await.unwrap();
    assert_eq!(sandbox.read(path, 100).await.unwrap(), b"short");
    // Programs own what the host wrote, but for what it made read-only.
    sandbox.write_with_mode("/workspace/given", b"x", 0o444).await.unwrap();
    let script = format!(
        "echo more >> {path} && ls -l /workspace/given | cut -c1-10; echo y > /workspace/given"
    );
    let done = shell(&sandbox, &script).await;
    assert_eq!(text(&done.stdout), "-r--r--r--\n");
    assert!(text(&done.stderr).contains("given"), "{}", text(&done.stderr));
    assert_eq!(sandbox.read(path, 100).await.unwrap(), b"shortmore\n");
}

async fn reading_says_what_is_wrong(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let cause = |result: Result<Vec<u8>, SandboxError>| result.unwrap_err().cause();
    assert_eq!(cause(sandbox.read("/workspace/none", 10).await), Some(Cause::NotFound));
    assert_eq!(cause(sandbox.read("/workspace", 10).await), Some(Cause::WrongKind));
    sandbox.write("/tmp/long", &[0; 1000]).await.unwrap();
    let long = sandbox.read("/tmp/long", 999).await.unwrap_err();
    assert_eq!(long.to_string(), "`/tmp/long` has 1000 bytes, and 999 are allowed");
    shell(&sandbox, "chmod 000 /tmp/long").await;
    assert_eq!(cause(sandbox.read("/tmp/long", 1000).await), Some(Cause::Denied));
}

async fn what_is_no_plain_file_is_not_read(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let script = "cd /workspace; mkfifo pipe; ln -s /dev/zero zero; ln -s loop loop; ln -s /proc/self/environ own; \
                  ln -s /proc/1/mem memory; ln -s /etc/passwd plain";
    assert!(shell(&sandbox, script).await.outcome.success());
    for name in ["pipe", "zero", "loop", "own", "memory"] {
        let error = sandbox.read(&format!("/workspace/{name}"), 1 << 20).await.unwrap_err();
        assert!(error.cause().is_some(), "{name}: {error}");
    }
    // A link to what a program could read itself is no secret.
    assert!(sandbox.read("/workspace/plain", 1 << 20).await.is_ok());
}

async fn what_the_host_writes_goes_through_no_door_of_the_kernel(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let script = "cd /workspace; ln -s /proc/self/fd/1 out; ln -s /proc/1/oom_score_adj score; mkfifo pipe; \
                  ln -s /usr/planted planted; ln -s /proc/self/cwd/made here";
    assert!(shell(&sandbox, script).await.outcome.success());
    for name in ["out", "score", "pipe", "planted", "here"] {
        let error = sandbox.write(&format!("/workspace/{name}"), b"x").await.unwrap_err();
        assert!(error.cause().is_some(), "{name}: {error}");
    }
    assert_eq!(text(&shell(&sandbox, "echo fine").await.stdout), "fine\n");
}

async fn a_folder_is_listed(bench: Bench) {
    let sandbox = bench.sandbox().await;
    sandbox.write("/workspace/b.txt", b"four").await.unwrap();
    shell(
        &sandbox,
        "cd /workspace; mkdir a; ln -s b.txt c; mkfifo d; touch \"$(printf 'e\\377')\"",
    )
    .await;
    let entries = sandbox.list("/workspace").await.unwrap();
    let told: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    let kinds =
        [EntryKind::Folder, EntryKind::File, EntryKind::Link, EntryKind::Other, EntryKind::File];
    assert_eq!(
        told,
        ["a", "b.txt", "c", "d", "e\u{fffd}"].into_iter().zip(kinds).collect::<Vec<_>>()
    );
    assert_eq!(entries[1].size, 4);
    assert_eq!(sandbox.list("/none").await.unwrap_err().cause(), Some(Cause::NotFound));
    assert_eq!(sandbox.list("/workspace/b.txt").await.unwrap_err().cause(), Some(Cause::WrongKind));
    shell(&sandbox, "mkdir /tmp/many; cd /tmp/many; for i in $(seq 4001); do : > $i; done").await;
    assert_eq!(sandbox.list("/tmp/many").await.unwrap_err().cause(), Some(Cause::TooLarge));
    let long = "mkdir /tmp/long; cd /tmp/long; for i in $(seq 1000 4990); do : > $i$(printf %0240d 0); done";
    assert!(shell(&sandbox, long).await.outcome.success());
    assert_eq!(sandbox.list("/tmp/long").await.unwrap_err().cause(), Some(Cause::TooLarge));
}

async fn files_and_folders_are_removed(bench: Bench) {
    let sandbox = bench.sandbox().await;
    sandbox.write("/workspace/a/b/c", b"x").await.unwrap();
    sandbox.write("/workspace/d", b"x").await.unwrap();
    shell(&sandbox, "ln -s /usr /workspace/a/system").await;
    sandbox.remove("/workspace/a").await.unwrap();
    sandbox.remove("/workspace/d").await.unwrap();
    assert_eq!(sandbox.list("/workspace").await.unwrap(), []);
    assert_eq!(sandbox.remove("/workspace/d").await.unwrap_err().cause(), Some(Cause::NotFound));
    assert!(sandbox.remove("/usr/bin").await.is_err());
    assert!(
        sandbox.list("/usr/bin").await.is_ok()
            || sandbox.read("/usr/bin/env", 1 << 24).await.is_ok()
    );
}

async fn paths_are_whole(bench: Bench) {
    let sandbox = bench.sandbox().await;
    for path in ["relative", "", "/workspace/../usr/x", "/..", "/tmp/a\0b"] {
        let invalid = Some(Cause::Invalid);
        assert_eq!(sandbox.write(path, b"x").await.unwrap_err().cause(), invalid, "{path:?}");
        assert_eq!(sandbox.read(path, 10).await.unwrap_err().cause(), invalid, "{path:?}");
        assert_eq!(sandbox.list(path).await.unwrap_err().cause(), invalid, "{path:?}");
        assert_eq!(sandbox.remove(path).await.unwrap_err().cause(), invalid, "{path:?}");
    }
}

async fn the_root_is_read_only(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let script = "for d in / /usr /usr/bin /etc /dev /proc /run; do touch $d/planted 2>/dev/null && echo $d; done; \
                  touch /tmp/ok /workspace/ok && echo ok";
    assert_eq!(text(&shell(&sandbox, script).await.stdout), "ok\n");
    assert_eq!(sandbox.write("/usr/planted", b"x").await.unwrap_err().cause(), Some(Cause::Denied));
}

async fn there_is_no_network(bench: Bench) {
    let code = r"
import socket
for address in (('192.0.2.1', 80), ('10.0.0.1', 53)):
    s = socket.socket(); s.settimeout(2)
    try: s.connect(address); print('connected')
    except OSError as error: print(type(error).__name__, error.errno)
try: socket.getaddrinfo('example.com', 80); print('resolved')
except OSError: print('no name')
";
    let done = bench.python(code).await;
    assert_eq!(text(&done.stdout), "OSError 101\nOSError 101\nno name\n", "{}", text(&done.stderr));
}

async fn the_loopback_works(bench: Bench) {
    let code = r"
import socket, threading
server = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b'hello')).start()
print(socket.create_connection(server.getsockname()).recv(9))
";
    let done = bench.python(code).await;
    assert_eq!(text(&done.stdout), "b'hello'\n", "{}", text(&done.stderr));
}

async fn programs_have_no_rights(bench: Bench) {
    let code = r"
import os
print(os.getuid(), os.getgid(), os.getgroups())
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
print([status[name].strip().lstrip('0') for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')])
print(status['NoNewPrivs'].strip(), status['Seccomp'].strip())
";
    let done = bench.python(code).await;
    let told = text(&done.stdout);
    assert!(told.starts_with("1000 1000 ["), "{told}");
    assert!(told.ends_with("['', '', '', '', '']\n1 2\n"), "{told}");
}

async fn the_first_process_cannot_be_killed_or_looked_into(bench: Bench) {
    let code = r"
import os, signal
for number in (9, 15, 19, 11):
    try: os.kill(1, number)
    except PermissionError: pass
for name in ('mem', 'environ', 'fd/0', 'fd', 'maps', 'cwd'):
    try:
        path = f'/proc/1/{name}'
        os.listdir(path) if name in ('fd', 'cwd') else open(path, 'rb').read(1)
        print('reached', name)
    except OSError: pass
print('done')
";
    let sandbox = bench.sandbox().await;
    assert_eq!(text(&python(&sandbox, code).await.stdout), "done\n");
    assert_eq!(text(&shell(&sandbox, "echo there").await.stdout), "there\n");
}

async fn two_programs_run_at_once(bench: Bench) {
    let sandbox = bench.sandbox().await;
    // Each waits for the other.
    let script = |own: &str, other: &str| {
        format!("touch /tmp/{own}; while [ ! -e /tmp/{other} ]; do sleep 0.01; done; echo {own}")
    };
    let (one, two) = (script("one", "two"), script("two", "one"));
    let (one, two) = tokio::join!(shell(&sandbox, &one), shell(&sandbox, &two));
    assert_eq!((text(&one.stdout), text(&two.stdout)), ("one\n", "two\n"));
}

async fn what_one_program_leaves_the_next_one_finds(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let done =
        shell(&sandbox, "echo kept > /workspace/file; sleep 1000 >/dev/null 2>&1 & echo $!").await;
    // The end of the first is not the end of what it left running, and is not held up by it.
    let pid = text(&done.stdout).trim();
    let next = shell(&sandbox, &format!("cat /workspace/file; kill -0 {pid} && echo alive")).await;
    assert_eq!(text(&next.stdout), "kept\nalive\n");
}

async fn what_code_started_ends_with_it(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let other = Command::new("/bin/sh").args(["-c", "echo up; read x; echo $x"]).stdin(true);
    let mut other = sandbox.exec(other).await.unwrap();
    assert!(matches!(other.next().await.unwrap(), Event::Wrote(..)));
    let code = "
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: print('still here', file=open('/workspace/file', 'a'))
    os._exit(0)
while not os.path.exists('/workspace/file'): time.sleep(0.01)";
    assert!(python(&sandbox, code).await.outcome.success());
    let gone = "while cat /proc/[0-9]*/comm | grep -q python; do :; done; echo gone";
    assert_eq!(text(&shell(&sandbox, gone).await.stdout), "gone\n");
    // Others who were asked to run are none of it.
    assert!(other.stdin().write(b"me too\n").await.unwrap());
    assert_eq!(text(&other.finish().await.unwrap().stdout), "me too\n");
}

async fn a_time_out_spares_other_programs(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let mut long = sandbox
        .exec(Command::new("/bin/sh").args(["-c", "echo up; read x; echo $x"]).stdin(true))
        .await
        .unwrap();
    assert!(matches!(long.next().await.unwrap(), Event::Wrote(..)));
    let short = Command::new("/bin/sh").args(["-c", "sleep 1000 & setsid sleep 1001 & sleep 1002"]);
    let short =
        sandbox.exec(short.wall(Duration::from_millis(500))).await.unwrap().finish().await.unwrap();
    assert!(short.outcome.timed_out);
    assert!(long.stdin().write(b"still here\n").await.unwrap());
    assert_eq!(text(&long.finish().await.unwrap().stdout), "still here\n");
    let gone = "while cat /proc/[0-9]*/comm | grep -q sleep; do :; done; echo gone";
    assert_eq!(text(&shell(&sandbox, gone).await.stdout), "gone\n");
}

async fn a_signal_can_be_sent(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let code = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(5))\nprint('set')\nsignal.pause()";
    let mut running =
        sandbox.run(Language::Python, code.as_bytes(), Command::default()).await.unwrap();
    assert!(matches!(running.next().await.unwrap(), Event::Wrote(..)));
    running.signal(15).await.unwrap();
    assert_eq!(running.finish().await.unwrap().outcome.exit_code, Some(5));
}

async fn a_program_can_be_killed(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let running = sandbox.exec(Command::new("/bin/sleep").args(["1000"])).await.unwrap();
    running.kill();
    let outcome = running.finish().await.unwrap().outcome;
    assert_eq!((outcome.signal, outcome.timed_out), (Some(9), false));
}

async fn a_program_that_nobody_waits_for_is_killed(bench: Bench) {
    let sandbox = bench.sandbox().await;
    drop(sandbox.exec(Command::new("/bin/sleep").args(["1000"])).await.unwrap());
    let gone =
        shell(&sandbox, "while cat /proc/[0-9]*/comm | grep -q sleep; do :; done; echo gone").await;
    assert_eq!(text(&gone.stdout), "gone\n");
}

async fn a_missing_program_is_named(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let error = sandbox.exec(Command::new("/no/such")).await.unwrap().finish().await.unwrap_err();
    assert_eq!(error.cause(), Some(Cause::NotFound));
    assert_eq!(error.to_string(), "there is no program `/no/such` in the sandbox");
    sandbox.write("/tmp/plain", b"text").await.unwrap();
    let error = sandbox.exec(Command::new("/tmp/plain")).await.unwrap().finish().await.unwrap_err();
    assert_eq!(error.cause(), Some(Cause::Denied), "{error}");
    // By its name alone it is looked for in the usual folders.
    let done =
        sandbox.exec(Command::new("echo").args(["found"])).await.unwrap().finish().await.unwrap();
    assert_eq!(text(&done.stdout), "found\n");
}

async fn bash_and_javascript_run_too(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let code = b"a=(one two); echo ${a[1]} $1";
    let done = sandbox.run(Language::Bash, code, Command::default().args(["three"])).await.unwrap();
    assert_eq!(text(&done.finish().await.unwrap().stdout), "two three\n");
    let code = b"console.log([1, 2].map(x => x * 2), process.argv[2])";
    match sandbox.run(Language::JavaScript, code, Command::default().args(["x"])).await {
        Ok(running) => {
            let done = running.finish().await;
            match done {
                Ok(done) => {
                    assert_eq!(text(&done.stdout), "[ 2, 4 ] x\n", "{}", text(&done.stderr))
                }
                Err(error) => assert_eq!(error.cause(), Some(Cause::NotFound)),
            }
        }
        Err(error) => assert!(
            matches!(error, SandboxError::NoInterpreter(Language::JavaScript, _)),
            "{error}"
        ),
    }
}

async fn layers_are_seen_and_cannot_be_written(bench: Bench) {
    let folder = bench.folder.path().join("layer");
    std::fs::create_dir_all(folder.join("package")).unwrap();
    std::fs::write(folder.join("package/__init__.py"), "ANSWER = 42").unwrap();
    let layer = Layer::of(&folder).unwrap();
    let at = layer.at.clone();
    let spec = Spec { layers: vec![layer], ..Spec::default() };
    let sandbox = bench.manager.make(spec).await.unwrap();
    let command = Command::default().env("PYTHONPATH", &at);
    let done =
        try_python(&sandbox, "import package; print(package.ANSWER)", command).await.unwrap();
    assert_eq!(text(&done.stdout), "42\n", "{}", text(&done.stderr));
    assert!(!shell(&sandbox, &format!("touch {at}/x")).await.outcome.success());
    assert!(!folder.join("x").exists());
}

async fn subprocesses_and_multiprocessing_work(bench: Bench) {
    let code = r"
import subprocess, multiprocessing, threading, tempfile, asyncio
print(subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout.strip())
def double(n): return n * 2
async def main(): return (await asyncio.create_subprocess_exec('true')).pid > 0
if __name__ == '__main__':
    with multiprocessing.Pool(2) as pool: print(pool.map(double, [1, 2, 3]))
    with tempfile.TemporaryDirectory() as folder: print(folder.startswith('/tmp/'))
    print(asyncio.run(main()))
    thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()
";
    let done = bench.python(code).await;
    assert_eq!(
        text(&done.stdout),
        "sub\n[2, 4, 6]\nTrue\nTrue\nthread\n",
        "{}",
        text(&done.stderr)
    );
}

async fn common_libraries_work(bench: Bench) {
    let code = r"
import json, sqlite3, decimal, datetime, hashlib, uuid, zlib, platform, getpass, os, ssl, ctypes, socket, select
db = sqlite3.connect('/workspace/x.db'); db.execute('create table t(a)'); db.execute('insert into t values(1)'); db.commit()
print(db.execute('select * from t').fetchall(), getpass.getuser(), os.path.expanduser('~'), socket.gethostname() != '')
print(len(uuid.uuid4().hex), hashlib.sha256(b'').hexdigest()[:8], datetime.datetime.now().year > 2000)
";
    let done = bench.python(code).await;
    let told = text(&done.stdout);
    assert_eq!(
        told,
        "[(1,)] sandbox /workspace True\n32 e3b0c442 True\n",
        "{}",
        text(&done.stderr)
    );
}

async fn only_a_machine_of_its_own_has_a_clock(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let reseeded = sandbox.reseed(&[7; 32], std::time::SystemTime::UNIX_EPOCH).await;
    match sandbox.isolation() {
        Isolation::Microvm => reseeded.unwrap(),
        _ => assert_eq!(reseeded.unwrap_err().cause(), Some(Cause::Denied)),
    }
    let year = python(&sandbox, "import time; print(time.gmtime().tm_year > 2000)").await;
    assert_eq!(text(&year.stdout), "True\n");
}

async fn a_sandbox_that_ended_says_so(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let running = sandbox.exec(Command::new("/bin/sleep").args(["1000"])).await.unwrap();
    sandbox.end().await;
    sandbox.end().await;
    let error = running.finish().await.unwrap_err();
    assert!(matches!(error, SandboxError::Broke(_)) && error.is_infrastructure(), "{error}");
    assert!(matches!(sandbox.write("/tmp/x", b"").await, Err(SandboxError::Broke(_))));
    assert!(matches!(sandbox.exec(Command::default()).await, Err(SandboxError::Broke(_))));
}

async fn limits_must_make_sense(bench: Bench) {
    let mut spec = Spec::default();
    spec.limits.memory = 1;
    let error = bench.manager.make(spec).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the limits of the sandbox make no sense: memory must be at least 16 MB"
    );
}

async fn an_unknown_image_is_refused(bench: Bench) {
    let spec = Spec { image: Some("no/such-image:latest".to_owned()), ..Spec::default() };
    let error = bench.manager.make(spec).await.unwrap_err();
    assert!(error.to_string().contains("no/such-image:latest"), "{error}");
}

async fn duration_and_memory_are_told(bench: Bench) {
    let code = "import time; data = b'x' * (40 << 20); time.sleep(0.2)";
    let outcome = bench.python(code).await.outcome;
    assert!(outcome.duration >= Duration::from_millis(200), "{outcome:?}");
    assert!((40 << 20..256 << 20).contains(&outcome.peak_memory), "{outcome:?}");
}

const SHOW: &str = r"
import sys, os, json, random
print(json.dumps([sys.argv, os.getcwd(), sorted(os.environ.items()), sys.path, __name__, __file__, sys.flags.no_user_site]))
print(sys.stdin.read(), sys.stdout.line_buffering, os.getuid(), len(os.listdir('/proc/self/fd')), os.getpid() == os.getpgrp())
def f(): raise ValueError('told')
f()
";

async fn a_waiting_interpreter_behaves_like_a_fresh_one(bench: Bench) {
    let mut told = Vec::new();
    for warm in [false, true] {
        let sandbox = bench.sandbox().await;
        if warm {
            sandbox.prepare().await.unwrap();
        }
        let command = Command::default().args(["a", "b c"]).env("X", "1").cwd("/tmp").stdin(true);
        let running = sandbox.run(Language::Python, SHOW.as_bytes(), command).await.unwrap();
        let stdin = running.stdin();
        stdin.write(b"given").await.unwrap();
        stdin.close();
        let done = running.finish().await.unwrap();
        assert_eq!(done.outcome.warm, warm);
        assert_eq!(done.outcome.exit_code, Some(1));
        told.push((text(&done.stdout).to_owned(), text(&done.stderr).to_owned()));
        // The next one starts afresh.
        assert!(!python(&sandbox, "pass").await.outcome.warm);
    }
    assert_eq!(told[0], told[1]);
    assert!(told[0].0.contains("given True 1000"), "{}", told[0].0);
}

async fn no_two_waiting_interpreters_are_alike(bench: Bench) {
    let mut told = Vec::new();
    for _ in 0..2 {
        let sandbox = bench.sandbox().await;
        sandbox.prepare().await.unwrap();
        let code = "import random, os, ctypes\nprint(hash('x'), id(object()), random.random(), os.urandom(8).hex(), ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value)";
        let done = python(&sandbox, code).await;
        assert!(done.outcome.warm);
        told.push(text(&done.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    }
    for (what, (one, two)) in
        ["hash", "heap", "random", "urandom", "library"].iter().zip(told[0].iter().zip(&told[1]))
    {
        assert_ne!(one, two, "{what}");
    }
}

async fn what_a_waiting_interpreter_cannot_be_told_starts_a_fresh_one(bench: Bench) {
    let sandbox = bench.sandbox().await;
    sandbox.prepare().await.unwrap();
    let done =
        try_python(&sandbox, "print(hash('x'))", Command::default().env("PYTHONHASHSEED", "0"))
            .await
            .unwrap();
    assert!(!done.outcome.warm);
    let sandbox = bench.sandbox().await;
    sandbox.prepare().await.unwrap();
    let long = "x".repeat(100_000);
    let done = try_python(
        &sandbox,
        "import sys; print(len(sys.argv[1]))",
        Command::default().args([&long]),
    )
    .await
    .unwrap();
    assert_eq!((text(&done.stdout), done.outcome.warm), ("100000\n", false));
}
