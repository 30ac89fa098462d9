//! Behaviours of the limits on time, memory, processes and disk.

use std::time::Duration;

use assize_sandbox::{GuestFailureCause, ProgramCommand};

use crate::bench::{Bench, python, shell, text};

pub(super) async fn timeout_kills_the_program(bench: Bench) {
    // Long enough for the interpreter to print, in an emulated microVM on a busy host too.
    let sandbox = bench.with(|limits| limits.wall = Duration::from_secs(5)).await;
    let done = python(&sandbox, "import time\nprint('on it')\ntime.sleep(1000)").await;
    assert!(done.outcome.timed_out && !done.outcome.success());
    assert_eq!((done.outcome.signal, text(&done.stdout)), (Some(9), "on it\n"));
}

pub(super) async fn timeout_kills_daemons_that_ignore_signals(bench: Bench) {
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
    // A surviving process would be visible to the next program.
    let gone = "while cat /proc/[0-9]*/comm | grep -q python; do :; done; echo gone";
    assert_eq!(text(&shell(&sandbox, gone).await.stdout), "gone\n");
}

pub(super) async fn requested_timeout_is_capped_by_the_sandbox_limit(bench: Bench) {
    let sandbox = bench.with(|limits| limits.wall = Duration::from_secs(2)).await;
    let wait = |wall| ProgramCommand::new("/bin/sleep").args(["1000"]).time_limit(wall);
    for wall in [Duration::from_millis(200), Duration::from_secs(1000)] {
        let done = sandbox.exec(wait(wall)).await.unwrap().finish().await.unwrap();
        assert!(done.outcome.timed_out);
        assert!(done.outcome.duration >= wall.min(Duration::from_secs(2)));
    }
}

pub(super) async fn memory_limit_kills_the_program(bench: Bench) {
    let sandbox = bench.with(|limits| {
        limits.memory = 48 << 20;
        limits.disk = 8 << 20;
    });
    let code = "data = []\nwhile True: data.append(bytearray(1 << 20))";
    let done = python(&sandbox.await, code).await;
    assert!(done.outcome.out_of_memory && !done.outcome.success(), "{:?}", done.outcome);
    assert!(!done.outcome.timed_out);
}

/// Pages of a shared mapping stay in memory after `MADV_DONTNEED`, although no process maps them. The sandbox must
/// count these pages or refuse the mapping.
pub(super) async fn shared_memory_that_no_process_maps_is_limited(bench: Bench) {
    let code = r"
import mmap
CHUNK = 16 << 20
def hold(make):
    held = []
    for _ in range(16):
        shared = make()
        for page in range(0, CHUNK, 4096): shared[page] = 1
        shared.madvise(mmap.MADV_DONTNEED)
        held.append(shared)
    return held
def zero():
    with open('/dev/zero', 'r+b') as file: return mmap.mmap(file.fileno(), CHUNK)
try:
    held = hold(lambda: mmap.mmap(-1, CHUNK)) if WAY == 'anonymous' else hold(zero)
except OSError as error:
    print('refused', error.errno)
else:
    print('held', len(held))
";
    for way in ["anonymous", "zero"] {
        let sandbox = bench.with(|limits| {
            limits.memory = 96 << 20;
            limits.disk = 8 << 20;
        });
        let done = python(&sandbox.await, &format!("WAY = '{way}'\n{code}")).await;
        let printed = text(&done.stdout).to_owned();
        assert!(
            done.outcome.out_of_memory || printed.starts_with("refused"),
            "{way}: {printed}{}: {:?}",
            text(&done.stderr),
            done.outcome
        );
    }
}

/// Programs can read `/dev/zero`, even on a backend on which they cannot map it into memory.
pub(super) async fn dev_zero_can_be_read(bench: Bench) {
    let done = bench.python("print(open('/dev/zero', 'rb').read(3))").await;
    assert_eq!(text(&done.stdout), "b'\\x00\\x00\\x00'\n");
}

pub(super) async fn crash_is_not_reported_as_out_of_memory(bench: Bench) {
    let done = bench.python("import ctypes; ctypes.string_at(0)").await;
    assert_eq!((done.outcome.signal, done.outcome.out_of_memory), (Some(11), false));
    let done = bench.python("import os; os.kill(os.getpid(), 9)").await;
    assert_eq!(
        (done.outcome.signal, done.outcome.out_of_memory, done.outcome.timed_out),
        (Some(9), false, false)
    );
}

pub(super) async fn memory_limit_applies_to_all_processes_together(bench: Bench) {
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

pub(super) async fn processes_above_the_limit_are_refused(bench: Bench) {
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

pub(super) async fn full_disk_is_reported_and_leaves_no_partial_file(bench: Bench) {
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
    // A failed write leaves no partial file.
    sandbox.remove("/tmp/0").await.unwrap();
    let full = sandbox.write("/workspace/more", &[0; 3 << 20]).await.unwrap_err();
    assert_eq!(full.cause(), Some(GuestFailureCause::Full), "{full}");
    assert_eq!(
        sandbox.read("/workspace/more", 10).await.unwrap_err().cause(),
        Some(GuestFailureCause::NotFound)
    );
    sandbox.write("/workspace/less", &[0; 500_000]).await.unwrap();
}

pub(super) async fn number_of_files_on_the_disk_is_limited(bench: Bench) {
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

pub(super) async fn tmp_and_workspace_share_the_disk_limit(bench: Bench) {
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
