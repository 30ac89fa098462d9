//! Tests of programs in a sandbox that call the host.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_config::Isolation;
use assize_sandbox::{
    FinishedProgram, HostCallHandler, HostCallLimits, KILL_AFTER, ProgramCommand, Sandbox,
    SandboxError,
};
use assize_types::Cancel;
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::bench::{Bench, run, text};

/// Python functions with which a program calls the host on file descriptor 3.
const CALLS: &str = r"
import json, os, struct, sys, threading
def send(kind, number, message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    data = struct.pack('<IBI', len(body) + 5, kind, number) + body
    while data: data = data[os.write(3, data):]
def read(count):
    data = b''
    while len(data) < count:
        piece = os.read(3, count - len(data))
        if not piece: sys.exit('the host is gone')
        data += piece
    return data
def hear():
    size, kind, number = struct.unpack('<IBI', read(9))
    return kind, number, read(size - 5)
def call(number, key, request): send(8, number, {'key': key, 'request': request})
";

/// Fake host, which answers a call by sending the request back, unless the end of the call's journal key selects a
/// different behaviour.
#[derive(Default)]
struct Host {
    calls: Mutex<Vec<String>>,
    events: Mutex<Vec<Value>>,
    slow: tokio::sync::Notify,
    begun: tokio::sync::Notify,
}

#[async_trait]
impl HostCallHandler for Host {
    async fn call(&self, key: &str, request: Value) -> Result<Value, Value> {
        self.calls.lock().unwrap().push(key.to_owned());
        if key.ends_with("slow") {
            self.slow.notified().await;
        }
        if key.ends_with("begun") {
            self.begun.notify_one();
        }
        if key.ends_with("fast") {
            self.slow.notify_one();
        }
        if key.ends_with("wrong") {
            Err(json!("no such model"))
        } else {
            Ok(json!({"echo": request}))
        }
    }

    async fn event(&self, event: Value) {
        self.events.lock().unwrap().push(event);
    }
}

fn limits() -> HostCallLimits {
    HostCallLimits {
        key_prefix: "m3/".to_owned(),
        max_calls: 20,
        max_concurrent_calls: 4,
        max_call_bytes: 700_000,
        max_events: 10,
        kill_after: KILL_AFTER,
    }
}

async fn work(
    sandbox: &Sandbox,
    host: &Arc<Host>,
    code: &str,
) -> Result<FinishedProgram, SandboxError> {
    sandbox.write("/tmp/work.py", format!("{CALLS}{code}").as_bytes()).await.unwrap();
    let command = ProgramCommand::new("python3").args(["/tmp/work.py"]);
    sandbox
        .run_with_host_calls(
            command,
            limits(),
            Arc::clone(host) as Arc<dyn HostCallHandler>,
            &Cancel::new(),
        )
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn host_calls_are_answered_out_of_order_and_events_are_received() {
    run(Isolation::Jail, |bench: Bench| async move {
        let (sandbox, host) = (bench.sandbox().await, Arc::new(Host::default()));
        let code = r"
send(10, 0, {'event': 'sandbox_round', 'round': 1})
call(1, 'm3/i1/round-1/slow', 'x' * 600_000)
call(2, 'm3/i1/round-1/fast', {'a': 1})
call(3, 'm3/wrong', None)
for _ in range(3):
    kind, number, body = hear()
    print(kind, number, len(body), body[:40] if len(body) < 100 else '')
";
        let done = work(&sandbox, &host, code).await.unwrap();
        let out = text(&done.stdout);
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines.contains(&"9 2 25 b'{\"done\":{\"echo\":{\"a\":1}}}'"), "{out}");
        assert!(
            out.contains("9 3") && out.contains("no such model") && out.contains("9 1 6000"),
            "{out}"
        );
        assert_eq!(host.events.lock().unwrap()[0]["event"], "sandbox_round");
        assert_eq!(host.calls.lock().unwrap().len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protocol_violation_ends_the_program_with_an_error() {
    run(Isolation::Jail, |bench: Bench| async move {
        let attempts = [
            (
                "call(1, 'm4/i1', 1)",
                "the journal key of a call is invalid or does not begin with `m3/`",
            ),
            (
                "call(1, 'm3/../m4', 1); call(2, 'm3/a b', 1)",
                "the journal key of a call is invalid or does not begin with `m3/`",
            ),
            ("call(1, 'm3/' + 'x' * 300, 1)", "the journal key of a call is invalid"),
            ("call(1, 'm3/a', 'x' * 800_000)", "a call of"),
            ("for n in range(30):\n    call(n, f'm3/{n}', 1); hear()", "more than 20 calls"),
            ("for n in range(30): call(n, f'm3/{n}/slow', 1)", "more than 4 concurrent calls"),
            ("for n in range(30): send(10, 0, n)", "more than 10 events"),
            (
                "send(6, 1, {'ended': {'exit_code': 0, 'micros': 1}})",
                "a frame that only the host is allowed to send",
            ),
            ("os.write(3, b'\\xff' * 100)", "frame of 4294967295 bytes"),
            ("send(8, 1, b'{}')", "malformed frame"),
            ("data = b'x' * 100_000\nwhile True: os.write(3, data)", "frame of"),
        ];
        for (code, complaint) in attempts {
            let (sandbox, host) = (bench.sandbox().await, Arc::new(Host::default()));
            let code = format!("{code}\nimport time; time.sleep(1000)");
            let error = work(&sandbox, &host, &code).await.unwrap_err();
            assert!(error.to_string().contains(complaint), "{code}: {error}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_does_not_read_host_answers_times_out() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.with(|limits| limits.wall = std::time::Duration::from_secs(2)).await;
        let host = Arc::new(Host::default());
        let code =
            "for n in range(4): call(n, f'm3/{n}', 'x' * 600_000)\nwhile True: print('y' * 10_000)";
        let done = work(&sandbox, &host, code).await.unwrap();
        assert!(done.outcome.timed_out, "{:?}", done.outcome);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_program_is_notified() {
    run(Isolation::Jail, |bench: Bench| async move {
        let (sandbox, host) = (bench.sandbox().await, Arc::new(Host::default()));
        let code = format!(
            "{CALLS}call(1, 'm3/begun', 1); hear()\nkind, _, reason = hear()\nprint(kind, reason)"
        );
        sandbox.write("/tmp/work.py", code.as_bytes()).await.unwrap();
        let cancel = Cancel::new();
        let command = ProgramCommand::new("python3").args(["/tmp/work.py"]);
        let answers = Arc::clone(&host) as Arc<dyn HostCallHandler>;
        let stop = async {
            while host.calls.lock().unwrap().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            cancel.cancel("cancelled by the user");
        };
        let (done, ()) =
            tokio::join!(sandbox.run_with_host_calls(command, limits(), answers, &cancel), stop);
        assert_eq!(text(&done.unwrap().stdout), "7 b'cancelled by the user'\n");
    })
    .await;
}

/// The program ignores the cancellation and all signals, and writes endlessly. Its timeout is long, so only the limit
/// `kill_after` can end it.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_program_that_does_not_end_is_killed() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.with(|limits| limits.wall = Duration::from_secs(3600)).await;
        let host = Arc::new(Host::default());
        let code = format!(
            "{CALLS}import signal, time\n\
             for number in range(1, 65):\n    \
                 try: signal.signal(number, signal.SIG_IGN)\n    \
                 except (OSError, ValueError): pass\n\
             call(1, 'm3/begun', 1)\n\
             while True: print('busy', flush=True); time.sleep(0.01)"
        );
        sandbox.write("/tmp/work.py", code.as_bytes()).await.unwrap();
        let cancel = Cancel::new();
        let command = ProgramCommand::new("python3").args(["/tmp/work.py"]);
        let answers = Arc::clone(&host) as Arc<dyn HostCallHandler>;
        let work = HostCallLimits { kill_after: Duration::from_millis(50), ..limits() };
        let stop = async {
            host.begun.notified().await;
            cancel.cancel("stop");
        };
        let (done, ()) =
            tokio::join!(sandbox.run_with_host_calls(command, work, answers, &cancel), stop);
        let error = done.unwrap_err();
        assert!(matches!(error, SandboxError::IgnoredCancellation(_)), "{error}");
        // Only the program was killed; its sandbox still works.
        assert_eq!(text(&crate::bench::shell(&sandbox, "echo there").await.stdout), "there\n");
    })
    .await;
}

/// Returns the process ids of the process with this command-line argument and of its ancestors inside the jail, such as
/// the guest agent. The jail's supervisor process, which is a child of the test process, is not included.
fn process_and_guest_agent(word: &str) -> Vec<String> {
    let processes = || std::fs::read_dir("/proc").unwrap().flatten();
    let found = processes().find(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
    });
    let mut pid = found.unwrap().file_name().into_string().unwrap();
    let mut pids = Vec::new();
    while pid != std::process::id().to_string() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
        pids.push(std::mem::replace(&mut pid, parent.to_owned()));
    }
    pids.pop();
    pids
}

/// The guest agent is stopped by SIGSTOP, so that it neither kills the program nor sends a report. The host then ends
/// the sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn sandbox_whose_guest_agent_does_not_report_a_kill_is_ended() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.with(|limits| limits.wall = Duration::from_secs(3600)).await;
        let host = Arc::new(Host::default());
        let code = format!("{CALLS}import time\ncall(1, 'm3/begun', 1)\ntime.sleep(3600)");
        sandbox.write("/tmp/work.py", code.as_bytes()).await.unwrap();
        let cancel = Cancel::new();
        let word = format!("unreported-kill-{}", std::process::id());
        let command = ProgramCommand::new("python3").args(["/tmp/work.py", &word]);
        let answers = Arc::clone(&host) as Arc<dyn HostCallHandler>;
        let work = HostCallLimits { kill_after: Duration::from_millis(50), ..limits() };
        let stop = async {
            host.begun.notified().await;
            let pids = process_and_guest_agent(&word);
            let stopped = std::process::Command::new("kill").arg("-STOP").args(pids).status();
            assert!(stopped.unwrap().success());
            cancel.cancel("stop");
        };
        let (done, ()) =
            tokio::join!(sandbox.run_with_host_calls(command, work, answers, &cancel), stop);
        let error = done.unwrap_err().to_string();
        assert!(error.contains("the guest agent did not end a cancelled program"), "{error}");
        let gone = sandbox.exec(ProgramCommand::new("true")).await;
        assert!(gone.is_err(), "the sandbox still runs");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_under_trial_cannot_call_the_host() {
    run(Isolation::Jail, |bench: Bench| async move {
        let done = bench
            .python(
                "import os\ntry: os.write(3, b'x'); print('open')\nexcept OSError: print('none')",
            )
            .await;
        assert_eq!(text(&done.stdout), "none\n");
    })
    .await;
}
