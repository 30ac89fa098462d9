//! Work inside a sandbox that calls the host.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_config::Isolation;
use assize_sandbox::{Answers, Command, Finished, KILL_AFTER, Sandbox, SandboxError, Work};
use assize_types::Cancel;
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::bench::{Bench, run, text};

/// What a unit of work inside uses to call the host.
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

#[derive(Default)]
struct Host {
    calls: Mutex<Vec<String>>,
    events: Mutex<Vec<Value>>,
    slow: tokio::sync::Notify,
    begun: tokio::sync::Notify,
}

#[async_trait]
impl Answers for Host {
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

fn binding() -> Work {
    Work {
        keys: "m3/".to_owned(),
        most_calls: 20,
        at_once: 4,
        largest: 700_000,
        most_events: 10,
        kill_after: KILL_AFTER,
    }
}

async fn work(sandbox: &Sandbox, host: &Arc<Host>, code: &str) -> Result<Finished, SandboxError> {
    sandbox.write("/tmp/work.py", format!("{CALLS}{code}").as_bytes()).await.unwrap();
    let command = Command::new("python3").args(["/tmp/work.py"]);
    sandbox.work(command, binding(), Arc::clone(host) as Arc<dyn Answers>, &Cancel::new()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_in_whatever_order_and_events_heard() {
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
        let told = text(&done.stdout);
        let lines: Vec<&str> = told.lines().collect();
        assert!(
            lines.contains(&"9 2 25 b'{\"done\":{\"echo\":{\"a\":1}}}'") || told.contains("9 2"),
            "{told}"
        );
        assert!(
            told.contains("9 3") && told.contains("no such model") && told.contains("9 1 6000"),
            "{told}"
        );
        assert_eq!(host.events.lock().unwrap()[0]["event"], "sandbox_round");
        assert_eq!(host.calls.lock().unwrap().len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_for_what_is_not_its_own_is_ended() {
    run(Isolation::Jail, |bench: Bench| async move {
        let attempts = [
            ("call(1, 'm4/i1', 1)", "a call under a key that is not its own"),
            (
                "call(1, 'm3/../m4', 1); call(2, 'm3/a b', 1)",
                "a call under a key that is not its own",
            ),
            ("call(1, 'm3/' + 'x' * 300, 1)", "a call under a key that is not its own"),
            ("call(1, 'm3/a', 'x' * 800_000)", "a call of"),
            ("for n in range(30):\n    call(n, f'm3/{n}', 1); hear()", "more than 20 calls"),
            ("for n in range(30): call(n, f'm3/{n}/slow', 1)", "more than 4 calls at once"),
            ("for n in range(30): send(10, 0, n)", "more than 10 events"),
            (
                "send(6, 1, {'ended': {'exit_code': 0, 'micros': 1}})",
                "a frame that only the host sends",
            ),
            ("os.write(3, b'\\xff' * 100)", "a frame of 4294967295 bytes"),
            ("send(8, 1, b'{}')", "a frame that says nothing"),
            ("data = b'x' * 100_000\nwhile True: os.write(3, data)", "a frame of"),
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
async fn work_that_does_not_listen_runs_out_of_time_like_any_other() {
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
async fn work_hears_that_it_is_cancelled() {
    run(Isolation::Jail, |bench: Bench| async move {
        let (sandbox, host) = (bench.sandbox().await, Arc::new(Host::default()));
        let code = format!(
            "{CALLS}call(1, 'm3/begun', 1); hear()\nkind, _, reason = hear()\nprint(kind, reason)"
        );
        sandbox.write("/tmp/work.py", code.as_bytes()).await.unwrap();
        let cancel = Cancel::new();
        let command = Command::new("python3").args(["/tmp/work.py"]);
        let answers = Arc::clone(&host) as Arc<dyn Answers>;
        let stop = async {
            while host.calls.lock().unwrap().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            cancel.cancel("the user has had enough");
        };
        let (done, ()) = tokio::join!(sandbox.work(command, binding(), answers, &cancel), stop);
        assert_eq!(text(&done.unwrap().stdout), "7 b'the user has had enough'\n");
    })
    .await;
}

/// The program reads neither the notice nor its signals, and writes without end, so that only the deadline
/// can end it: its time limit is far away.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_work_that_does_not_end_is_killed() {
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
        let command = Command::new("python3").args(["/tmp/work.py"]);
        let answers = Arc::clone(&host) as Arc<dyn Answers>;
        let work = Work { kill_after: Duration::from_millis(50), ..binding() };
        let stop = async {
            host.begun.notified().await;
            cancel.cancel("stop");
        };
        let (done, ()) = tokio::join!(sandbox.work(command, work, answers, &cancel), stop);
        let error = done.unwrap_err();
        assert!(matches!(error, SandboxError::IgnoredCancellation(_)), "{error}");
        // Only the program was killed: its sandbox can still be asked.
        assert_eq!(text(&crate::bench::shell(&sandbox, "echo there").await.stdout), "there\n");
    })
    .await;
}

/// The process whose command line has this word, and its ancestors inside the jail: the guest agent, but not the
/// keeper, which is a child of this process.
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

/// The guest agent is stopped, so that it neither kills the program nor reports anything.
#[tokio::test(flavor = "multi_thread")]
async fn sandbox_whose_guest_agent_does_not_report_a_kill_is_ended() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.with(|limits| limits.wall = Duration::from_secs(3600)).await;
        let host = Arc::new(Host::default());
        let code = format!("{CALLS}import time\ncall(1, 'm3/begun', 1)\ntime.sleep(3600)");
        sandbox.write("/tmp/work.py", code.as_bytes()).await.unwrap();
        let cancel = Cancel::new();
        let word = format!("unreported-kill-{}", std::process::id());
        let command = Command::new("python3").args(["/tmp/work.py", &word]);
        let answers = Arc::clone(&host) as Arc<dyn Answers>;
        let work = Work { kill_after: Duration::from_millis(50), ..binding() };
        let stop = async {
            host.begun.notified().await;
            let pids = process_and_guest_agent(&word);
            let stopped = std::process::Command::new("kill").arg("-STOP").args(pids).status();
            assert!(stopped.unwrap().success());
            cancel.cancel("stop");
        };
        let (done, ()) = tokio::join!(sandbox.work(command, work, answers, &cancel), stop);
        let error = done.unwrap_err().to_string();
        assert!(error.contains("the guest agent did not end a cancelled program"), "{error}");
        let gone = sandbox.exec(Command::new("true")).await;
        assert!(gone.is_err(), "the sandbox was not ended");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_under_trial_has_no_such_door() {
    run(Isolation::Jail, |bench: Bench| async move {
        let done = bench
            .python(
                "import os\ntry: os.write(3, b'x'); print('a door')\nexcept OSError: print('none')",
            )
            .await;
        assert_eq!(text(&done.stdout), "none\n");
    })
    .await;
}
