//! Behaviours of a program's arguments, environment, standard streams and exit status.

use std::time::Duration;

use assize_config::Isolation;
use assize_sandbox::{GuestFailureCause, Language, ProgramCommand, ProgramEvent, ProgramStream};

use crate::bench::{Bench, many, python, text, try_python};

pub(super) async fn program_prints_and_exits(bench: Bench) {
    let done = bench.python("print('hello')").await;
    assert_eq!((text(&done.stdout), text(&done.stderr)), ("hello\n", ""));
    assert!(done.outcome.success());
    assert!(!done.outcome.timed_out && !done.outcome.out_of_memory && !done.outcome.output_cut);
}

pub(super) async fn stdout_and_stderr_are_separate(bench: Bench) {
    let done = bench.python("import sys; print('out'); print('err', file=sys.stderr)").await;
    assert_eq!((text(&done.stdout), text(&done.stderr)), ("out\n", "err\n"));
}

pub(super) async fn exit_code_is_reported(bench: Bench) {
    let done = bench.python("raise SystemExit(42)").await;
    assert_eq!((done.outcome.exit_code, done.outcome.signal), (Some(42), None));
    assert_eq!(done.outcome.status(), 42);
    assert!(!done.outcome.success());
}

pub(super) async fn fatal_signal_is_reported(bench: Bench) {
    let done = bench.python("import os; os.kill(os.getpid(), 15)").await;
    assert_eq!((done.outcome.exit_code, done.outcome.signal), (None, Some(15)));
    assert_eq!(done.outcome.status(), 143);
}

pub(super) async fn python_traceback_shows_the_code_path(bench: Bench) {
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

pub(super) async fn arguments_are_passed_unchanged(bench: Bench) {
    let arguments = ["a b", "", "'\"$(id)`", "ä\n", "--flag", "*"];
    let sandbox = bench.sandbox().await;
    let code = "import sys, json; print(json.dumps(sys.argv))";
    let done = try_python(&sandbox, code, ProgramCommand::default().args(arguments)).await.unwrap();
    let printed: Vec<String> = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(printed[0], "/tmp/code.py");
    assert_eq!(printed[1..], arguments);
}

pub(super) async fn environment_contains_only_requested_and_default_variables(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let code = r"
import json, os, sys
print(json.dumps(dict(os.environ)))
print(sys.path, sys.modules['sitecustomize'].__spec__ is None, file=sys.stderr)
";
    let command = ProgramCommand::default().env("GIVEN", "yes = ä").env("PATH", "/bin:/usr/bin");
    let done = try_python(&sandbox, code, command).await.unwrap();
    let printed: std::collections::BTreeMap<String, String> =
        serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(printed["GIVEN"], "yes = ä");
    assert_eq!(printed["PATH"], "/bin:/usr/bin");
    let names: Vec<&str> =
        printed.keys().map(String::as_str).filter(|name| *name != "LC_CTYPE").collect();
    assert_eq!(names, ["GIVEN", "HOME", "LANG", "PATH", "PYTHONPATH", "TMPDIR"]);
    let search_path = text(&done.stderr);
    assert!(search_path.contains("/workspace") && !search_path.contains("/run/"), "{search_path}");
    // In a jail, the startup code is not a module, which would take longer.
    let in_jail = bench.manager.isolation() == Isolation::Jail;
    assert_eq!(search_path.ends_with("] True\n"), in_jail, "{search_path}");
    let wrong = try_python(&sandbox, code, ProgramCommand::default().env("A=B", "x")).await;
    assert!(wrong.unwrap_err().to_string().contains("invalid environment variable"));
}

pub(super) async fn working_folder_defaults_to_the_workspace(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let pwd = |folder: Option<&str>| {
        let command = ProgramCommand::new("/bin/sh").args(["-c", "pwd -P"]);
        folder.map_or(command.clone(), |folder| command.cwd(folder))
    };
    let own = sandbox.exec(pwd(None)).await.unwrap().finish().await.unwrap();
    // `/workspace` may be a symbolic link to a folder on the tmpfs.
    assert!(text(&own.stdout).trim_end().ends_with("/workspace"), "{}", text(&own.stdout));
    let other = sandbox.exec(pwd(Some("/usr"))).await.unwrap().finish().await.unwrap();
    assert_eq!(text(&other.stdout), "/usr\n");
    let missing = sandbox.exec(pwd(Some("/nowhere"))).await.unwrap().finish().await.unwrap_err();
    assert_eq!(missing.cause(), Some(GuestFailureCause::NotFound));
    assert_eq!(missing.to_string(), "there is no folder `/nowhere` in the sandbox");
}

pub(super) async fn large_input_is_echoed_unchanged(bench: Bench) {
    let sandbox = bench.with(|limits| limits.output = 64 << 20).await;
    let running = sandbox.exec(ProgramCommand::new("/bin/cat").stdin(true)).await.unwrap();
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

pub(super) async fn stdin_is_empty_by_default(bench: Bench) {
    let done = bench.python("import sys; print(repr(sys.stdin.read()))").await;
    assert_eq!(text(&done.stdout), "''\n");
}

pub(super) async fn input_that_the_program_never_reads_does_not_block(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let running = sandbox.exec(ProgramCommand::new("/bin/true").stdin(true)).await.unwrap();
    let stdin = running.stdin();
    let writer = tokio::spawn(async move {
        // The write succeeds until the program has ended.
        while stdin.write(&[0; 65536]).await.unwrap() {}
    });
    assert!(running.finish().await.unwrap().outcome.success());
    writer.await.unwrap();
}

pub(super) async fn standard_streams_can_be_opened_by_path(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let script =
        "cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr; echo more >> /dev/stderr";
    let command = ProgramCommand::new("/bin/sh").args(["-c", script]).stdin(true);
    let running = sandbox.exec(command).await.unwrap();
    let stdin = running.stdin();
    assert!(stdin.write(b"in\n").await.unwrap());
    stdin.close();
    let done = running.finish().await.unwrap();
    assert_eq!((text(&done.stdout), text(&done.stderr)), ("in\nout\n", "err\nmore\n"));
}

pub(super) async fn stdout_cannot_be_reopened_for_reading(bench: Bench) {
    let code = "
import os
for flags in (os.O_RDONLY, os.O_RDWR):
    try: os.open('/proc/self/fd/1', flags | os.O_NONBLOCK)
    except PermissionError: print('refused')";
    assert_eq!(text(&bench.python(code).await.stdout), "refused\nrefused\n");
}

/// No byte is lost even if the host reads the output only after the program has written all of it.
pub(super) async fn alternating_single_byte_writes_are_all_delivered(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let times = many(70_000);
    let code = format!(
        "
import os
for _ in range({times}): os.write(1, b'o'); os.write(2, b'e')
os.mkdir('/workspace/done')
os.write(1, b'!')"
    );
    let mut running =
        sandbox.run(Language::Python, code.as_bytes(), ProgramCommand::default()).await.unwrap();
    while sandbox.list("/workspace/done").await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (mut out, mut err) = (0, 0);
    let outcome = loop {
        match running.next().await.unwrap() {
            ProgramEvent::Output(ProgramStream::Stdout, bytes) => out += bytes.len(),
            ProgramEvent::Output(ProgramStream::Stderr, bytes) => err += bytes.len(),
            ProgramEvent::HostMessage(_) => {}
            ProgramEvent::Ended(outcome) => break outcome,
        }
    };
    assert_eq!((out, err, outcome.success()), (times + 1, times, true));
}

pub(super) async fn output_is_delivered_while_the_program_runs(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let code = "print('ready'); print('you said', input())";
    let command = ProgramCommand::default().stdin(true);
    let mut running = sandbox.run(Language::Python, code.as_bytes(), command).await.unwrap();
    let ProgramEvent::Output(ProgramStream::Stdout, first) = running.next().await.unwrap() else {
        panic!("no output")
    };
    assert_eq!(text(&first), "ready\n");
    let stdin = running.stdin();
    assert!(stdin.write(b"yes\n").await.unwrap());
    assert_eq!(text(&running.finish().await.unwrap().stdout), "you said yes\n");
}

pub(super) async fn large_output_is_delivered_completely(bench: Bench) {
    // The output is larger than the flow-control window. An emulated CPU needs a minute for 700,000 lines.
    let lines = match bench.manager.isolation() {
        Isolation::Microvm => 100_000,
        Isolation::Jail | Isolation::Docker => many(700_000),
    };
    let code = format!("import sys\nfor i in range({lines}): sys.stdout.write('%09d\\n' % i)");
    let done = bench.python(&code).await;
    assert!(!done.outcome.output_cut);
    assert_eq!(done.stdout.len(), 10 * lines);
    assert!(text(&done.stdout).lines().enumerate().all(|(index, line)| line.parse() == Ok(index)));
}

pub(super) async fn excess_output_is_discarded_and_the_program_continues(bench: Bench) {
    let sandbox = bench.with(|limits| limits.output = 100_000).await;
    let code = "import sys\nfor i in range(100): print('x' * 9999)\nprint('end', file=sys.stderr)";
    let done = python(&sandbox, code).await;
    assert!(done.outcome.output_cut && done.outcome.exit_code == Some(0));
    assert_eq!((done.stdout.len(), text(&done.stderr)), (100_000, "end\n"));
}

pub(super) async fn output_may_contain_any_bytes(bench: Bench) {
    let done = bench.python("import sys; sys.stdout.buffer.write(bytes(range(256)) * 10)").await;
    assert_eq!(done.stdout, (0..=255).cycle().take(2560).collect::<Vec<u8>>());
}

pub(super) async fn long_output_without_newline_is_delivered(bench: Bench) {
    let done = bench.python("import os; os.write(1, b'y' * 4_000_000)").await;
    assert_eq!(done.outcome.exit_code, Some(0));
    assert!(done.stdout.iter().all(|byte| *byte == b'y') && !done.stdout.is_empty());
}

pub(super) async fn forged_frames_in_output_are_ignored(bench: Bench) {
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
