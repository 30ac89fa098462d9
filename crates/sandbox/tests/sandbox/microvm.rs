//! Tests of the microVM backend only: restored microVMs, damaged snapshots, hostile guests, leftover emulators.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufRead;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use assize_config::Isolation;
use assize_sandbox::microvm::{Accelerator, KvmMode, Microvm, MicrovmOptions, VmImageSources};
use assize_sandbox::{
    Backend, PoolOptions, ProgramCommand, ProgramEvent, Sandbox, SandboxError, SandboxIdentity,
    SandboxLayer, SandboxManager, SandboxSpec,
};
use assize_testkit::cache_folder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::bench::{microvm, microvm_options, python, skip, text};

/// Environment variable that makes a test process start microVMs and wait until it is killed.
const KILLED: &str = "ASSIZE_TEST_KILLED_MACHINES";

/// Environment variable that selects a full test run, with more repetitions and tests.
const FULL: &str = "ASSIZE_TEST_FULL";

/// Returns `small`, or `full` in a full test run.
fn count(small: usize, full: usize) -> usize {
    if std::env::var_os(FULL).is_some() { full } else { small }
}

/// Whether microVMs are available. If not, reports that the test is skipped.
fn is_available() -> bool {
    match microvm().is_ready() {
        Ok(()) => true,
        Err(error) => {
            skip(Isolation::Microvm, &error.to_string());
            false
        }
    }
}

/// Reports that a test is skipped, for example because it needs root.
#[expect(clippy::print_stderr, reason = "the test log shows which tests are skipped")]
fn print_skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Creates a cache folder with the microVM image, but without snapshots.
fn fresh_cache() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    link_image(folder.path());
    folder
}

fn link_image(cache: &Path) {
    fs::create_dir_all(cache.join("microvm")).unwrap();
    let image = cache_folder().join("microvm/image");
    std::os::unix::fs::symlink(image, cache.join("microvm/image")).unwrap();
}

fn microvms(cache: &Path, change: impl FnOnce(&mut MicrovmOptions)) -> Arc<Microvm> {
    let mut options = microvm_options(cache);
    change(&mut options);
    Arc::new(Microvm::new(options))
}

/// Returns a unique name, by which a test finds the microVMs that it started.
fn maker() -> String {
    format!("microvms-{:08x}", fastrand::u32(..))
}

async fn start(microvms: &Arc<Microvm>) -> Result<Sandbox, SandboxError> {
    start_by(&maker(), microvms).await
}

async fn start_by(maker: &str, microvms: &Arc<Microvm>) -> Result<Sandbox, SandboxError> {
    let mut spec = SandboxSpec::default();
    spec.limits.cpu_millis = 1000;
    start_as(maker, microvms, spec).await
}

async fn start_as(
    maker: &str,
    microvms: &Arc<Microvm>,
    spec: SandboxSpec,
) -> Result<Sandbox, SandboxError> {
    let backend: Arc<dyn Backend> = microvms.clone();
    let identity =
        SandboxIdentity { creator: maker.to_owned(), id: format!("{:08x}", fastrand::u32(..)) };
    Sandbox::start(backend, &identity, spec).await
}

/// Returns the process ids of the emulators whose microVMs were started under the name `maker`.
fn emulators(maker: &str) -> BTreeSet<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&format!("\0assize-{maker}-"))
    })
    .collect()
}

async fn echo(sandbox: &Sandbox) {
    let done = sandbox.exec(ProgramCommand::new("/bin/echo").args(["here"])).await.unwrap();
    assert_eq!(text(&done.finish().await.unwrap().stdout), "here\n");
}

/// Returns the process ids of the emulators that the process `ancestor` has started.
fn emulators_of(ancestor: u32) -> BTreeSet<u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let rest = stat.rsplit_once(") ")?.1.to_owned();
        rest.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let is_emulator = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("qemu-system")
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(is_emulator)
        .filter(|pid| {
            std::iter::successors(Some(*pid), |pid| parent(*pid)).any(|pid| pid == ancestor)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_microvms_differ_in_randomness_and_have_the_host_time() {
    if !is_available() {
        return;
    }
    let microvms = Arc::new(microvm());
    let (one, two) = tokio::join!(start(&microvms), start(&microvms));
    let code = "import os, random, uuid, secrets, time\n\
                print(os.urandom(8).hex(), random.random(), uuid.uuid4(), secrets.token_hex(), hash('x'), \
                id(object()), os.urandom(8).hex(), open('/dev/random', 'rb').read(8).hex())\n\
                print(time.time())";
    let mut printed = Vec::new();
    for sandbox in [one.unwrap(), two.unwrap()] {
        // This is the first program in the microVM, so that the clock is read right after the restore.
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let done = python(&sandbox, code).await;
        let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let (random, clock) = text(&done.stdout).trim().split_once('\n').unwrap();
        let clock: f64 = clock.parse().unwrap();
        let (early, late) = (before.as_secs_f64() - 1.0, after.as_secs_f64() + 1.0);
        assert!(early < clock && clock < late, "{early} {clock} {late}");
        printed.push(random.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }
    for (index, (one, two)) in printed[0].iter().zip(&printed[1]).enumerate() {
        assert_ne!(one, two, "value {index} is the same in both microVMs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn microvm_start_without_a_snapshot_succeeds_every_time() {
    if !is_available() {
        return;
    }
    for attempt in 0..count(1, 20) {
        let cache = fresh_cache();
        let sandbox = start(&microvms(cache.path(), |_| {})).await;
        let sandbox = sandbox.unwrap_or_else(|error| panic!("attempt {attempt}: {error}"));
        echo(&sandbox).await;
        sandbox.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_microvms_are_restored_concurrently() {
    if !is_available() {
        return;
    }
    let microvms = Arc::new(microvm());
    let mut starting = JoinSet::new();
    let maker = maker();
    for _ in 0..count(8, 30) {
        let (microvms, maker) = (Arc::clone(&microvms), maker.clone());
        starting.spawn(async move { start_by(&maker, &microvms).await });
    }
    let held: Vec<Sandbox> =
        starting.join_all().await.into_iter().collect::<Result<_, _>>().unwrap();
    for sandbox in &held {
        echo(sandbox).await;
    }
    assert_eq!(emulators(&maker).len(), held.len());
    for sandbox in held {
        sandbox.end().await;
    }
    assert!(emulators(&maker).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn pooled_microvm_has_a_prepared_interpreter() {
    if !is_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let manager =
        SandboxManager::open(folder.path().to_owned(), Arc::new(microvm()), &[]).await.unwrap();
    let mut spec = SandboxSpec::default();
    spec.limits.cpu_millis = 1000;
    let options = PoolOptions { size: 2, ..PoolOptions::default() };
    let pool = manager.pool(spec.clone(), options);
    for _ in 0..2 {
        pool.ready().await.unwrap();
        assert_eq!(pool.metrics().idle, 2);
        let sandbox = pool.take(&spec).await.unwrap();
        let done = python(&sandbox, "import os; print(6 * 7, os.listdir('/tmp'))").await;
        assert!(done.outcome.warm);
        assert_eq!(text(&done.stdout).split(' ').next(), Some("42"));
        pool.discard(sandbox);
    }
    assert_eq!((pool.metrics().hits, pool.metrics().misses), (2, 0));
    pool.close().await;
}

/// Captures the log of this thread. The method `start` returns a guard; when the guard is dropped, the capture ends.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Returns the reasons for creating a snapshot that were logged after the previous call of this method.
    fn reasons(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let mut parts = text(&bytes).split("no usable snapshot, creating one reason=");
        let mut before = parts.next().unwrap();
        parts
            .map(|part| {
                assert!(before.lines().last().unwrap().contains(" INFO "), "{before}");
                before = part;
                part.split_once(" megabytes=").unwrap().0.to_owned()
            })
            .collect()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// This test runs on one thread, so that the log of this thread contains the reasons for all snapshots of the test.
#[tokio::test]
async fn unusable_snapshot_is_replaced_and_the_reason_is_logged() {
    if !is_available() {
        return;
    }
    let log = Log::default();
    let _logging = log.start();
    let cache = fresh_cache();
    let snapshots = cache.path().join("microvm/snapshots");
    start(&microvms(cache.path(), |_| {})).await.unwrap().end().await;
    assert_eq!(log.reasons(), ["no snapshot found"]);
    let folder = || -> PathBuf {
        let folders: Vec<_> = fs::read_dir(&snapshots).unwrap().flatten().collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders[0].path()
    };
    let kept = |name: &str| folder().join(name);
    let made = || fs::metadata(kept("snapshot.json")).unwrap().modified().unwrap();
    let first = made();
    // An intact snapshot is restored and not created again.
    start(&microvms(cache.path(), |_| {})).await.unwrap().end().await;
    assert_eq!((made(), log.reasons()), (first, vec![]));
    let restarted = async || {
        let before = made();
        let sandbox = start(&microvms(cache.path(), |_| {})).await.unwrap();
        echo(&sandbox).await;
        sandbox.end().await;
        assert_ne!(made(), before);
        let reasons = log.reasons();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        reasons.into_iter().next().unwrap()
    };
    let memory = fs::File::options().read(true).write(true).open(kept("memory")).unwrap();
    let mut byte = [0];
    let offset = (0..1 << 30).step_by(4096).find(|at| {
        memory.read_exact_at(&mut byte, *at).unwrap();
        byte[0] != 0
    });
    memory.write_all_at(&[!byte[0]], offset.unwrap()).unwrap();
    assert_eq!(restarted().await, "wrong checksum of the snapshot file `memory`");
    fs::File::options().write(true).open(kept("state")).unwrap().set_len(1000).unwrap();
    let cut = restarted().await;
    assert!(cut.starts_with("the snapshot file `state` has 1000 bytes instead of "), "{cut}");
    // The checksum of the state is right, but QEMU cannot load the state. The log has the reasons of both attempts.
    let mut about: Value =
        serde_json::from_slice(&fs::read(kept("snapshot.json")).unwrap()).unwrap();
    about["state"] = json!({"bytes": 21, "crc32": 1_801_018_493});
    fs::write(kept("state"), "nothing that it knows").unwrap();
    fs::write(kept("snapshot.json"), about.to_string()).unwrap();
    let before = made();
    echo(&start(&microvms(cache.path(), |_| {})).await.unwrap()).await;
    assert_ne!(made(), before);
    assert!(fs::metadata(kept("state")).unwrap().len() > 1000);
    let reasons = log.reasons();
    assert!(reasons[0].starts_with("QEMU "), "{reasons:?}");
    assert_eq!(reasons[1..], ["no snapshot found"]);
    // A snapshot of another version of assize is not used, but kept, because that version may be used again.
    let other = snapshots.join("0123456789ab-384");
    fs::rename(folder(), &other).unwrap();
    let mut about: Value =
        serde_json::from_slice(&fs::read(other.join("snapshot.json")).unwrap()).unwrap();
    about["origin"]["assize"] = json!("another");
    fs::write(other.join("snapshot.json"), about.to_string()).unwrap();
    echo(&start(&microvms(cache.path(), |_| {})).await.unwrap()).await;
    assert_eq!(log.reasons(), ["the snapshot was created with a different version of assize"]);
    assert_eq!(fs::read_dir(&snapshots).unwrap().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn microvm_snapshot_is_restored_when_the_page_cache_is_empty() {
    if !is_available() {
        return;
    }
    start(&Arc::new(microvm())).await.unwrap().end().await;
    // Only pages that are already written to disk can be dropped from the page cache.
    std::process::Command::new("sync").status().unwrap();
    if let Err(error) = fs::write("/proc/sys/vm/drop_caches", "3") {
        return print_skipped(&format!("cannot drop the page cache: {error}"));
    }
    let sandbox = start(&Arc::new(microvm())).await.unwrap();
    echo(&sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn microvm_starts_even_if_the_cache_disk_is_full() {
    if !is_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
        .arg(folder.path())
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return print_skipped("cannot mount a small tmpfs");
    }
    link_image(folder.path());
    let microvms = microvms(folder.path(), |_| {});
    for _ in 0..2 {
        let sandbox = start(&microvms).await.unwrap();
        echo(&sandbox).await;
        sandbox.end().await;
    }
    let left: Vec<_> =
        fs::read_dir(folder.path().join("microvm/snapshots")).unwrap().flatten().collect();
    std::process::Command::new("umount").arg(folder.path()).status().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_start_leaves_no_emulator() {
    if !is_available() {
        return;
    }
    let microvms = Arc::new(microvm());
    start(&microvms).await.unwrap().end().await;
    let maker = maker();
    for millis in [1, 5, 10, 20, 40, 80, 120] {
        let started = start_by(&maker, &microvms);
        let _ = tokio::time::timeout(Duration::from_millis(millis), started).await;
    }
    until(|| emulators(&maker).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_first_start_still_creates_the_snapshot() {
    if !is_available() {
        return;
    }
    let cache = fresh_cache();
    let (microvms, maker) = (microvms(cache.path(), |_| {}), maker());
    let given_up = tokio::time::timeout(Duration::from_millis(200), start_by(&maker, &microvms));
    assert!(given_up.await.is_err(), "the first start took less than 200 ms");
    let snapshots = cache.path().join("microvm/snapshots");
    until(|| fs::read_dir(&snapshots).is_ok_and(is_complete)).await;
    until(|| emulators(&maker).is_empty()).await;
    let made = || fs::metadata(&snapshots).unwrap().modified().unwrap();
    let first = made();
    echo(&start_by(&maker, &microvms).await.unwrap()).await;
    assert_eq!(made(), first, "a second snapshot was created");
}

/// Whether the folder contains a complete snapshot and no temporary folder.
fn is_complete(snapshots: fs::ReadDir) -> bool {
    let mut names = snapshots.flatten().map(|entry| entry.path()).peekable();
    names.peek().is_some() && names.all(|path| path.extension().is_none())
}

async fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "condition not met within 20 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Not a test: code of the process that the test `killed_process_leaves_no_emulator` starts and kills.
#[tokio::test]
async fn helper_process_that_a_test_kills() {
    if std::env::var_os(KILLED).is_none() {
        return;
    }
    let microvms = Arc::new(microvm());
    let _one = start(&microvms).await.unwrap();
    let two = start(&microvms).await.unwrap();
    let _running = two.exec(ProgramCommand::new("/bin/sleep").args(["1000"])).await.unwrap();
    #[expect(clippy::print_stderr, reason = "the parent process waits for this line")]
    {
        eprintln!("microVMs are running");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_leaves_no_emulator() {
    if !is_available() {
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "microvm::helper_process_that_a_test_kills", "--nocapture"])
        .env(KILLED, "yes")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("microVMs are running")), "no microVM started");
    let emulators = emulators_of(child.id());
    assert_eq!(emulators.len(), 2, "{emulators:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    until(|| emulators.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emulator_has_no_privileges_and_no_host_files() {
    if !is_available() {
        return;
    }
    let maker = maker();
    let sandbox = start_by(&maker, &Arc::new(microvm())).await.unwrap();
    let found = emulators(&maker);
    assert_eq!(found.len(), 1);
    let pid = found.first().unwrap();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    };
    assert_eq!((field("Seccomp").as_str(), field("NoNewPrivs").as_str()), ("2", "1"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    let us = fs::metadata("/proc/self").map(|found| std::os::unix::fs::MetadataExt::uid(&found));
    if us.unwrap() == 0 {
        assert!(!field("Uid").split_whitespace().any(|user| user == "0"), "{}", field("Uid"));
        assert_eq!(field("Groups"), "");
    }
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts"] {
        let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/{kind}")).unwrap();
        assert_ne!(of(&pid.to_string()), of("self"), "{kind}");
    }
    let networks = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
    assert_eq!(networks.lines().filter(|line| line.contains(':')).count(), 1, "{networks}");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    for (name, value) in
        [("Max file size", "0"), ("Max core file size", "0"), ("Max open files", "64")]
    {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let values: Vec<&str> = line[name.len()..].split_whitespace().take(2).collect();
        assert_eq!(values, [value, value], "{name}");
    }
    // Of the host's files, the emulator sees only system programs and two devices.
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    for hidden in ["home", "root", "var", "sys", "etc/passwd"] {
        assert!(!root.join(hidden).exists(), "{hidden}");
    }
    let devices: BTreeSet<_> =
        fs::read_dir(root.join("dev")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(devices, ["null", "urandom"].map(Into::into).into(), "{devices:?}");
    sandbox.end().await;
    assert!(emulators(&maker).is_empty());
}

/// Extracts the kernel modules of the cached image (a cpio archive) into a folder.
fn extract_modules(folder: &Path) {
    let archive = fs::read(cache_folder().join("microvm/image/modules")).unwrap();
    let mut rest = archive.as_slice();
    loop {
        let field = |index: usize| {
            let at = 6 + 8 * index;
            usize::from_str_radix(text(&rest[at..at + 8]), 16).unwrap()
        };
        let (size, name_size) = (field(6), field(11));
        let name = text(&rest[110..110 + name_size - 1]).to_owned();
        if name == "TRAILER!!!" {
            return;
        }
        let begin = (110 + name_size).next_multiple_of(4);
        if let Some(name) = name.strip_prefix("modules/") {
            fs::write(folder.join(name), &rest[begin..begin + size]).unwrap();
        }
        rest = &rest[(begin + size).next_multiple_of(4)..];
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn image_of_a_custom_kernel_and_rootfs_is_reproducible_and_boots() {
    let archive = cache_folder().join("rootfs.tar");
    if !is_available() || !archive.exists() {
        return;
    }
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = tempfile::tempdir().unwrap();
    extract_modules(folder.path());
    let sources = VmImageSources {
        kernel: Some(cache_folder().join("microvm/image/kernel")),
        modules: Some(folder.path().to_owned()),
        rootfs: Some(archive.clone()),
    };
    let mut progress = Vec::new();
    let mut digests = BTreeSet::new();
    for place in [&one, &two] {
        let microvms = microvms(place.path(), |_| {});
        let mut report = |line: &str| progress.push(line.to_owned());
        let image = microvms.build_image(sources.clone(), &mut report).await.unwrap();
        assert_eq!(image.rootfs, archive.display().to_string());
        digests.insert(image.digest);
    }
    // The same sources give the same image.
    assert_eq!(digests.len(), 1, "{digests:?}");
    assert!(progress.iter().any(|line| line.contains("creating a disk")), "{progress:?}");
    let microvms = microvms(one.path(), |_| {});
    let sandbox = start(&microvms).await.unwrap();
    echo(&sandbox).await;
    sandbox.end().await;
    assert!(microvms.remove_image().unwrap());
    assert!(!microvms.remove_image().unwrap());
    let error = microvms.is_ready().unwrap_err();
    assert!(error.to_string().contains("the microVM image is not built"), "{error}");
}

/// Builds a C program to run as the microVM's init process instead of the guest agent.
fn first_process(name: &str, definitions: &[String]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("init");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sandbox/first");
    let built = std::process::Command::new("cc")
        .args(["-static", "-O1", "-w"])
        .args(definitions.iter().map(|definition| format!("-D{definition}")))
        .arg("-o")
        .arg(&program)
        .arg(sources.join(format!("{name}.c")))
        .status();
    assert!(built.unwrap().success());
    fs::read(program).unwrap()
}

/// Name filters that select the jail tests about cgroups and namespaces. All jail tests together would take minutes in
/// an emulated microVM.
const SOME: &str = "jail::memory_ jail::processes_ jail::shared_memory jail::timeout_kills_daemons jail::guest_agent \
                    jail::network_";

/// Runs the jail tests as an unprivileged user with a delegated cgroup v2, as systemd delegates one to each user. The
/// tests run in a microVM, because the host may have only cgroups v1.
#[tokio::test(flavor = "multi_thread")]
async fn jail_tests_pass_inside_a_microvm() {
    if !is_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stripped = std::process::Command::new("strip")
        .arg("-o")
        .arg(folder.path().join("tests"))
        .arg(std::env::current_exe().unwrap())
        .status();
    assert!(stripped.unwrap().success());
    let cache = fresh_cache();
    let microvms = microvms(cache.path(), |options| {
        let tests = if count(0, 1) == 1 { "conformance::jail" } else { SOME };
        let command = format!("exec /opt/layers/*/tests --test-threads=1 {tests}");
        let definitions =
            [format!("COMMAND={command:?}"), format!("MEMBERS={:?}", "session/application")];
        options.first_process = Some(first_process("runner", &definitions));
    });
    let mut spec = SandboxSpec {
        layers: vec![SandboxLayer::of(folder.path()).unwrap()],
        ..SandboxSpec::default()
    };
    spec.limits.memory = 1 << 30;
    spec.limits.cpu_millis = 1000;
    spec.limits.wall = Duration::from_secs(1000);
    let sandbox = start_as(&maker(), &microvms, spec).await.unwrap();
    let running = sandbox.exec(ProgramCommand::new("tests")).await.unwrap();
    #[expect(clippy::print_stderr, reason = "shows progress, because the test takes minutes")]
    let print = |_, bytes: &[u8]| eprint!("{}", String::from_utf8_lossy(bytes));
    let done = running.finish_with(print).await.unwrap();
    let output = text(&done.stdout);
    assert_eq!(done.outcome.exit_code, Some(0), "{output}");
    assert!(
        output.contains(
            "test conformance::jail::memory_limit_applies_to_all_processes_together ... ok"
        ),
        "{output}"
    );
    assert!(output.contains(&format!("test result: ok. {} passed", count(7, 69))), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_guest_does_not_affect_other_microvms() {
    if !is_available() {
        return;
    }
    let (good, maker, cache) = (Arc::new(microvm()), maker(), fresh_cache());
    let microvms = microvms(cache.path(), |options| {
        options.first_process = Some(first_process("hostile", &[]));
    });
    // `hostile.c` uses the process limit to select its attack.
    let spec_for = |attack: u32| {
        let mut spec = SandboxSpec::default();
        spec.limits.processes = attack;
        spec.limits.wall = Duration::from_millis(100);
        spec
    };
    // The guest crashes, sends garbage or powers off instead of answering the host's `Hello`.
    for (attack, expected) in [(101, "Kernel panic"), (102, "the guest agent sent"), (103, "lost")]
    {
        let error = start_as(&maker, &microvms, spec_for(attack)).await.unwrap_err();
        assert!(matches!(error, SandboxError::SandboxFailed(_)), "{attack}: {error}");
        assert!(error.to_string().contains(expected), "{attack}: {error}");
        echo(&start(&good).await.unwrap()).await;
    }
    // The guest answers `Hello`, and then floods the channel, spins or floods the console.
    for attack in [104, 105, 106] {
        let sandbox = start_as(&maker, &microvms, spec_for(attack)).await.unwrap();
        let mut running = sandbox.exec(ProgramCommand::new("/bin/true")).await.unwrap();
        // Other microVMs still work.
        echo(&start(&good).await.unwrap()).await;
        match running.next().await {
            Ok(ProgramEvent::Ended(outcome)) => assert!(outcome.timed_out, "{attack}: {outcome:?}"),
            other => panic!("{attack}: {other:?}"),
        }
        sandbox.end().await;
    }
    until(|| emulators(&maker).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kvm_is_used_only_if_a_microvm_boots_with_kvm() {
    if !is_available() {
        return;
    }
    let cache = fresh_cache();
    let tried = || microvms(cache.path(), |options| options.kvm = KvmMode::Tried);
    let first = tried();
    let sandbox = start(&first).await.unwrap();
    echo(&sandbox).await;
    let found = first.accelerator().unwrap().clone();
    match found.accelerator {
        Accelerator::Kvm => assert_eq!(found.why_not_kvm, None),
        Accelerator::Emulation => {
            let why = found.why_not_kvm.clone().unwrap();
            assert!(why.contains("no microVM boots") || why.contains("/dev/kvm"), "{why}");
        }
    }
    // The result of a KVM test is cached, and KVM is not tested again. Without `/dev/kvm`, nothing is tested or cached.
    let can_test = fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
    let modified = || fs::metadata(cache.path().join("microvm/kvm.json"))?.modified();
    let written = modified().ok();
    assert_eq!(written.is_some(), can_test, "{found}");
    assert_eq!(tried().test_host().await.unwrap(), Some(found.to_string()));
    assert_eq!(modified().ok(), written);
    let never = microvms(cache.path(), |options| options.kvm = KvmMode::Never);
    start(&never).await.unwrap();
    assert_eq!(never.accelerator().unwrap().accelerator, Accelerator::Emulation);
}
