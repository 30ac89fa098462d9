//! Behaviours of running programs: concurrency, process trees, signals, interpreters, libraries.

use std::time::Duration;

use assize_sandbox::{
    GuestFailureCause, Language, ProgramCommand, ProgramEvent, SandboxError, SandboxLayer,
    SandboxSpec,
};

use crate::bench::{Bench, python, shell, text, try_python};

pub(super) async fn two_programs_run_concurrently(bench: Bench) {
    let sandbox = bench.sandbox().await;
    // Each script waits until the other script has started.
    let script = |own: &str, other: &str| {
        format!("touch /tmp/{own}; while [ ! -e /tmp/{other} ]; do sleep 0.01; done; echo {own}")
    };
    let (one, two) = (script("one", "two"), script("two", "one"));
    let (one, two) = tokio::join!(shell(&sandbox, &one), shell(&sandbox, &two));
    assert_eq!((text(&one.stdout), text(&two.stdout)), ("one\n", "two\n"));
}

pub(super) async fn files_and_daemons_of_a_command_outlive_the_command(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let done =
        shell(&sandbox, "echo kept > /workspace/file; sleep 1000 >/dev/null 2>&1 & echo $!").await;
    // The command ends although its background process still runs.
    let pid = text(&done.stdout).trim();
    let next = shell(&sandbox, &format!("cat /workspace/file; kill -0 {pid} && echo alive")).await;
    assert_eq!(text(&next.stdout), "kept\nalive\n");
}

pub(super) async fn daemons_that_code_started_end_with_the_code(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let other = ProgramCommand::new("/bin/sh").args(["-c", "echo up; read x; echo $x"]).stdin(true);
    let mut other = sandbox.exec(other).await.unwrap();
    assert!(matches!(other.next().await.unwrap(), ProgramEvent::Output(..)));
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
    // A program of another request still runs.
    assert!(other.stdin().write(b"alive\n").await.unwrap());
    assert_eq!(text(&other.finish().await.unwrap().stdout), "alive\n");
}

pub(super) async fn timeout_of_a_program_does_not_end_other_programs(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let mut long = sandbox
        .exec(ProgramCommand::new("/bin/sh").args(["-c", "echo up; read x; echo $x"]).stdin(true))
        .await
        .unwrap();
    assert!(matches!(long.next().await.unwrap(), ProgramEvent::Output(..)));
    let short =
        ProgramCommand::new("/bin/sh").args(["-c", "sleep 1000 & setsid sleep 1001 & sleep 1002"]);
    let short = sandbox
        .exec(short.time_limit(Duration::from_millis(500)))
        .await
        .unwrap()
        .finish()
        .await
        .unwrap();
    assert!(short.outcome.timed_out);
    assert!(long.stdin().write(b"still here\n").await.unwrap());
    assert_eq!(text(&long.finish().await.unwrap().stdout), "still here\n");
    let gone = "while cat /proc/[0-9]*/comm | grep -q sleep; do :; done; echo gone";
    assert_eq!(text(&shell(&sandbox, gone).await.stdout), "gone\n");
}

pub(super) async fn process_with_a_dead_main_thread_is_killed(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let mut other = sandbox
        .exec(ProgramCommand::new("/bin/sh").args(["-c", "echo up; read x"]).stdin(true))
        .await
        .unwrap();
    assert!(matches!(other.next().await.unwrap(), ProgramEvent::Output(..)));
    // The main thread ends while another thread keeps running.
    let code = "
import ctypes, os, threading, time
if os.fork() == 0:
    os.setsid()
    def work():
        while True:
            open('/workspace/alive', 'w').close()
            if ' Z ' in open(f'/proc/self/task/{os.getpid()}/stat').read():
                os.write(1, b'.')
            time.sleep(0.01)
    threading.Thread(target=work).start()
    ctypes.CDLL(None).pthread_exit(None)
time.sleep(1000)";
    sandbox.write("/workspace/code.py", code.as_bytes()).await.unwrap();
    let command = ProgramCommand::new("python3").args(["/workspace/code.py"]);
    let mut running = sandbox.exec(command).await.unwrap();
    assert!(matches!(running.next().await.unwrap(), ProgramEvent::Output(..)));
    running.kill();
    assert_eq!(running.finish().await.unwrap().outcome.signal, Some(9));
    sandbox.remove("/workspace/alive").await.unwrap();
    let gone =
        "while cat /proc/[0-9]*/comm | grep -q python; do :; done; test -e alive || echo gone";
    assert_eq!(text(&shell(&sandbox, gone).await.stdout), "gone\n");
    drop(other);
}

pub(super) async fn programs_are_the_first_choice_of_the_oom_killer(bench: Bench) {
    // The guest agent sets the OOM score right after the program's start, so the program waits for it.
    let code = "
import time
while open('/proc/self/oom_score_adj').read() != '1000\\n': time.sleep(0.01)
print('first')";
    assert_eq!(text(&bench.python(code).await.stdout), "first\n");
}

pub(super) async fn signal_is_delivered_to_the_program(bench: Bench) {
    let sandbox = bench.sandbox().await;
    // The signal is blocked before the output, so it is not lost if it arrives before `sigwait`.
    let code = "import signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, [15])\nprint('set')\n\
                sys.exit(5 if signal.sigwait([15]) == 15 else 1)";
    let mut running =
        sandbox.run(Language::Python, code.as_bytes(), ProgramCommand::default()).await.unwrap();
    assert!(matches!(running.next().await.unwrap(), ProgramEvent::Output(..)));
    running.signal(15).await.unwrap();
    assert_eq!(running.finish().await.unwrap().outcome.exit_code, Some(5));
}

pub(super) async fn program_is_killed_on_request(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let running = sandbox.exec(ProgramCommand::new("/bin/sleep").args(["1000"])).await.unwrap();
    running.kill();
    let outcome = running.finish().await.unwrap().outcome;
    assert_eq!((outcome.signal, outcome.timed_out), (Some(9), false));
}

pub(super) async fn program_is_killed_when_its_handle_is_dropped(bench: Bench) {
    let sandbox = bench.sandbox().await;
    drop(sandbox.exec(ProgramCommand::new("/bin/sleep").args(["1000"])).await.unwrap());
    let gone =
        shell(&sandbox, "while cat /proc/[0-9]*/comm | grep -q sleep; do :; done; echo gone").await;
    assert_eq!(text(&gone.stdout), "gone\n");
}

pub(super) async fn missing_program_is_named_in_the_error(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let error =
        sandbox.exec(ProgramCommand::new("/no/such")).await.unwrap().finish().await.unwrap_err();
    assert_eq!(error.cause(), Some(GuestFailureCause::NotFound));
    assert_eq!(error.to_string(), "there is no program `/no/such` in the sandbox");
    sandbox.write("/tmp/plain", b"text").await.unwrap();
    let error =
        sandbox.exec(ProgramCommand::new("/tmp/plain")).await.unwrap().finish().await.unwrap_err();
    assert_eq!(error.cause(), Some(GuestFailureCause::Denied), "{error}");
    // A name without a folder is looked up in PATH.
    let done = sandbox
        .exec(ProgramCommand::new("echo").args(["found"]))
        .await
        .unwrap()
        .finish()
        .await
        .unwrap();
    assert_eq!(text(&done.stdout), "found\n");
}

pub(super) async fn bash_and_javascript_code_runs(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let code = b"a=(one two); echo ${a[1]} $1";
    let done =
        sandbox.run(Language::Bash, code, ProgramCommand::default().args(["three"])).await.unwrap();
    assert_eq!(text(&done.finish().await.unwrap().stdout), "two three\n");
    let code = b"console.log([1, 2].map(x => x * 2), process.argv[2])";
    match sandbox.run(Language::JavaScript, code, ProgramCommand::default().args(["x"])).await {
        Ok(running) => {
            let done = running.finish().await;
            match done {
                Ok(done) => {
                    assert_eq!(text(&done.stdout), "[ 2, 4 ] x\n", "{}", text(&done.stderr))
                }
                Err(error) => assert_eq!(error.cause(), Some(GuestFailureCause::NotFound)),
            }
        }
        Err(error) => assert!(
            matches!(error, SandboxError::NoInterpreter(Language::JavaScript, _)),
            "{error}"
        ),
    }
}

pub(super) async fn layers_are_mounted_read_only(bench: Bench) {
    let folder = bench.folder.path().join("layer");
    std::fs::create_dir_all(folder.join("package")).unwrap();
    std::fs::write(folder.join("package/__init__.py"), "ANSWER = 42").unwrap();
    let layer = SandboxLayer::of(&folder).unwrap();
    let at = layer.at.clone();
    let spec = SandboxSpec { layers: vec![layer], ..SandboxSpec::default() };
    let sandbox = bench.manager.create(spec).await.unwrap();
    let command = ProgramCommand::default().env("PYTHONPATH", &at);
    let done =
        try_python(&sandbox, "import package; print(package.ANSWER)", command).await.unwrap();
    assert_eq!(text(&done.stdout), "42\n", "{}", text(&done.stderr));
    assert!(!shell(&sandbox, &format!("touch {at}/x")).await.outcome.success());
    assert!(!folder.join("x").exists());
}

pub(super) async fn python_subprocesses_and_multiprocessing_work(bench: Bench) {
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

pub(super) async fn common_python_libraries_work(bench: Bench) {
    let code = r"
import json, sqlite3, decimal, datetime, hashlib, uuid, zlib, platform, getpass, os, ssl, ctypes, socket, select
db = sqlite3.connect('/workspace/x.db'); db.execute('create table t(a)'); db.execute('insert into t values(1)'); db.commit()
print(db.execute('select * from t').fetchall(), getpass.getuser(), os.path.expanduser('~'), socket.gethostname() != '')
print(len(uuid.uuid4().hex), hashlib.sha256(b'').hexdigest()[:8], datetime.datetime.now().year > 2000)
";
    let done = bench.python(code).await;
    assert_eq!(
        text(&done.stdout),
        "[(1,)] sandbox /workspace True\n32 e3b0c442 True\n",
        "{}",
        text(&done.stderr)
    );
}

pub(super) async fn sandbox_clock_matches_the_host_clock(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let done = python(&sandbox, "import time; print(time.time())").await;
    let inside: f64 = text(&done.stdout).trim().parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((now.as_secs_f64() - inside).abs() < 10.0, "{inside} and {now:?}");
}

pub(super) async fn ended_sandbox_returns_errors(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let running = sandbox.exec(ProgramCommand::new("/bin/sleep").args(["1000"])).await.unwrap();
    sandbox.end().await;
    sandbox.end().await;
    let error = running.finish().await.unwrap_err();
    assert!(
        matches!(error, SandboxError::SandboxFailed(_)) && error.is_infrastructure(),
        "{error}"
    );
    assert!(matches!(sandbox.write("/tmp/x", b"").await, Err(SandboxError::SandboxFailed(_))));
    assert!(matches!(
        sandbox.exec(ProgramCommand::default()).await,
        Err(SandboxError::SandboxFailed(_))
    ));
}

pub(super) async fn invalid_limits_are_rejected(bench: Bench) {
    let mut spec = SandboxSpec::default();
    spec.limits.memory = 1;
    let error = bench.manager.create(spec).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid sandbox limits: the memory limit must be at least 16 MB"
    );
}

pub(super) async fn unknown_image_is_rejected(bench: Bench) {
    let spec =
        SandboxSpec { image: Some("no/such-image:latest".to_owned()), ..SandboxSpec::default() };
    let error = bench.manager.create(spec).await.unwrap_err();
    assert!(error.to_string().contains("no/such-image:latest"), "{error}");
}

pub(super) async fn duration_and_peak_memory_are_reported(bench: Bench) {
    let code = "import time; data = b'x' * (40 << 20); time.sleep(0.2)";
    let outcome = bench.python(code).await.outcome;
    assert!(outcome.duration >= Duration::from_millis(200), "{outcome:?}");
    assert!((40 << 20..256 << 20).contains(&outcome.peak_memory), "{outcome:?}");
}
