//! What only machines can get wrong: copies that are too much alike, what was kept and is damaged, a guest
//! that means ill, and an emulator that is left behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufRead;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use assize_config::Isolation;
use assize_sandbox::microvm::{Accelerator, Kvm, Microvm, Options, Sources};
use assize_sandbox::{
    Backend, Command, Event, Identity, Layer, Manager, PoolOptions, Sandbox, SandboxError, Spec,
};
use assize_testkit::cache_folder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::bench::{microvm, microvm_options, python, skip, text};

/// Set for the process that makes a machine and is then killed.
const KILLED: &str = "ASSIZE_TEST_KILLED_MACHINES";

/// Set where all counts are the full ones.
const FULL: &str = "ASSIZE_TEST_FULL";

/// A small count, or the full one.
fn count(small: usize, full: usize) -> usize {
    if std::env::var_os(FULL).is_some() { full } else { small }
}

/// Whether there are machines here; said, if not.
fn is_there() -> bool {
    match microvm().is_ready() {
        Ok(()) => true,
        Err(error) => {
            skip(Isolation::Microvm, &error.to_string());
            false
        }
    }
}

/// What only root can try.
#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn pass_over(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// A cache that has the image and nothing else.
fn fresh_cache() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path());
    folder
}

fn furnish(cache: &Path) {
    fs::create_dir_all(cache.join("microvm")).unwrap();
    let image = cache_folder().join("microvm/image");
    std::os::unix::fs::symlink(image, cache.join("microvm/image")).unwrap();
}

fn machines(cache: &Path, change: impl FnOnce(&mut Options)) -> Arc<Microvm> {
    let mut options = microvm_options(cache);
    change(&mut options);
    Arc::new(Microvm::new(options))
}

/// A name under which only the machines of one test are found.
fn maker() -> String {
    format!("machines-{:08x}", fastrand::u32(..))
}

async fn start(machines: &Arc<Microvm>) -> Result<Sandbox, SandboxError> {
    start_by(&maker(), machines).await
}

async fn start_by(maker: &str, machines: &Arc<Microvm>) -> Result<Sandbox, SandboxError> {
    let mut spec = Spec::default();
    spec.limits.cpu_millis = 1000;
    start_as(maker, machines, spec).await
}

async fn start_as(
    maker: &str,
    machines: &Arc<Microvm>,
    spec: Spec,
) -> Result<Sandbox, SandboxError> {
    let backend: Arc<dyn Backend> = machines.clone();
    let identity = Identity { maker: maker.to_owned(), id: format!("{:08x}", fastrand::u32(..)) };
    Sandbox::start(backend, &identity, spec).await
}

/// The emulators of a maker, by their numbers.
fn emulators(maker: &str) -> BTreeSet<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&format!("\0assize-{maker}-"))
    })
    .collect()
}

async fn echo(sandbox: &Sandbox) {
    let done = sandbox.exec(Command::new("/bin/echo").args(["here"])).await.unwrap();
    assert_eq!(text(&done.finish().await.unwrap().stdout), "here\n");
}

/// The emulators that another process has started.
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
async fn copies_share_no_randomness_and_know_the_time() {
    if !is_there() {
        return;
    }
    let machines = Arc::new(microvm());
    let (one, two) = tokio::join!(start(&machines), start(&machines));
    let code = "import os, random, uuid, secrets, time\n\
                print(os.urandom(8).hex(), random.random(), uuid.uuid4(), secrets.token_hex(), hash('x'), \
                id(object()), os.urandom(8).hex(), open('/dev/random', 'rb').read(8).hex())\n\
                print(time.time())";
    let mut told = Vec::new();
    for sandbox in [one.unwrap(), two.unwrap()] {
        // Before anything else has passed the time in there.
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let done = python(&sandbox, code).await;
        let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let (random, clock) = text(&done.stdout).trim().split_once('\n').unwrap();
        let clock: f64 = clock.parse().unwrap();
        let (early, late) = (before.as_secs_f64() - 1.0, after.as_secs_f64() + 1.0);
        assert!(early < clock && clock < late, "{early} {clock} {late}");
        told.push(random.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }
    for (index, (one, two)) in told[0].iter().zip(&told[1]).enumerate() {
        assert_ne!(one, two, "the value {index}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_starts_from_nothing_every_time() {
    if !is_there() {
        return;
    }
    for attempt in 0..count(3, 20) {
        let cache = fresh_cache();
        let sandbox = start(&machines(cache.path(), |_| {})).await;
        let sandbox = sandbox.unwrap_or_else(|error| panic!("attempt {attempt}: {error}"));
        echo(&sandbox).await;
        sandbox.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_thawed_at_once_and_held() {
    if !is_there() {
        return;
    }
    let machines = Arc::new(microvm());
    let mut starting = JoinSet::new();
    let maker = maker();
    for _ in 0..count(8, 30) {
        let (machines, maker) = (Arc::clone(&machines), maker.clone());
        starting.spawn(async move { start_by(&maker, &machines).await });
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
async fn the_next_to_be_taken_has_an_interpreter() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let manager = Manager::open(folder.path().to_owned(), Arc::new(microvm()), &[]).await.unwrap();
    let mut spec = Spec::default();
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

/// Log of this thread, for as long as the guard lives.
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

    /// Reasons why snapshots were created since the last call.
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

/// On one thread, so that the log is that of this test alone.
#[tokio::test]
async fn unusable_snapshot_is_replaced_and_the_log_says_why() {
    if !is_there() {
        return;
    }
    let log = Log::default();
    let _logging = log.start();
    let cache = fresh_cache();
    let snapshots = cache.path().join("microvm/snapshots");
    start(&machines(cache.path(), |_| {})).await.unwrap().end().await;
    assert_eq!(log.reasons(), ["there is none"]);
    let folder = || -> PathBuf {
        let folders: Vec<_> = fs::read_dir(&snapshots).unwrap().flatten().collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders[0].path()
    };
    let kept = |name: &str| folder().join(name);
    let made = || fs::metadata(kept("snapshot.json")).unwrap().modified().unwrap();
    let first = made();
    // Whole, it is used.
    start(&machines(cache.path(), |_| {})).await.unwrap().end().await;
    assert_eq!((made(), log.reasons()), (first, vec![]));
    let restarted = async || {
        let before = made();
        let sandbox = start(&machines(cache.path(), |_| {})).await.unwrap();
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
    assert_eq!(restarted().await, "the checksum of `memory` is wrong");
    fs::File::options().write(true).open(kept("state")).unwrap().set_len(1000).unwrap();
    let cut = restarted().await;
    assert!(cut.starts_with("`state` has 1000 bytes instead of "), "{cut}");
    // Whole by all that is known, and still of no use to QEMU; `reasons` has the load and the restore.
    let mut about: Value =
        serde_json::from_slice(&fs::read(kept("snapshot.json")).unwrap()).unwrap();
    about["state"] = json!({"bytes": 21, "crc32": 1_801_018_493});
    fs::write(kept("state"), "nothing that it knows").unwrap();
    fs::write(kept("snapshot.json"), about.to_string()).unwrap();
    let before = made();
    echo(&start(&machines(cache.path(), |_| {})).await.unwrap()).await;
    assert_ne!(made(), before);
    assert!(fs::metadata(kept("state")).unwrap().len() > 1000);
    let reasons = log.reasons();
    assert!(reasons[0].starts_with("QEMU "), "{reasons:?}");
    assert_eq!(reasons[1..], ["there is none"]);
    // Another version of assize made the only one there is. It stays, for that version may be used again.
    let other = snapshots.join("0123456789ab-384");
    fs::rename(folder(), &other).unwrap();
    let mut about: Value =
        serde_json::from_slice(&fs::read(other.join("snapshot.json")).unwrap()).unwrap();
    about["origin"]["assize"] = json!("another");
    fs::write(other.join("snapshot.json"), about.to_string()).unwrap();
    echo(&start(&machines(cache.path(), |_| {})).await.unwrap()).await;
    assert_eq!(log.reasons(), ["it was made with another version of assize"]);
    assert_eq!(fs::read_dir(&snapshots).unwrap().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_thawed_from_a_disk_that_was_not_read_before() {
    if !is_there() {
        return;
    }
    start(&Arc::new(microvm())).await.unwrap().end().await;
    // Written first, so that all of it can be let go.
    std::process::Command::new("sync").status().unwrap();
    if let Err(error) = fs::write("/proc/sys/vm/drop_caches", "3") {
        return pass_over(&format!("what is cached cannot be dropped: {error}"));
    }
    let sandbox = start(&Arc::new(microvm())).await.unwrap();
    echo(&sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_keeps_no_machine_from_starting() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
        .arg(folder.path())
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return pass_over("no small disk can be mounted");
    }
    furnish(folder.path());
    let machines = machines(folder.path(), |_| {});
    for _ in 0..2 {
        let sandbox = start(&machines).await.unwrap();
        echo(&sandbox).await;
        sandbox.end().await;
    }
    let left: Vec<_> =
        fs::read_dir(folder.path().join("microvm/snapshots")).unwrap().flatten().collect();
    std::process::Command::new("umount").arg(folder.path()).status().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_given_up_leaves_nothing() {
    if !is_there() {
        return;
    }
    let machines = Arc::new(microvm());
    start(&machines).await.unwrap().end().await;
    let maker = maker();
    for millis in [1, 5, 10, 20, 40, 80, 120] {
        let started = start_by(&maker, &machines);
        let _ = tokio::time::timeout(Duration::from_millis(millis), started).await;
    }
    until(|| emulators(&maker).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_that_is_given_up_serves_the_next() {
    if !is_there() {
        return;
    }
    let cache = fresh_cache();
    let (machines, maker) = (machines(cache.path(), |_| {}), maker());
    let given_up = tokio::time::timeout(Duration::from_millis(200), start_by(&maker, &machines));
    assert!(given_up.await.is_err(), "a machine started from nothing in no time");
    let snapshots = cache.path().join("microvm/snapshots");
    until(|| fs::read_dir(&snapshots).is_ok_and(is_whole)).await;
    until(|| emulators(&maker).is_empty()).await;
    let made = || fs::metadata(&snapshots).unwrap().modified().unwrap();
    let first = made();
    echo(&start_by(&maker, &machines).await.unwrap()).await;
    assert_eq!(made(), first, "it was started once more");
}

/// Whether a machine was kept, and nothing is half done.
fn is_whole(snapshots: fs::ReadDir) -> bool {
    let mut names = snapshots.flatten().map(|entry| entry.path()).peekable();
    names.peek().is_some() && names.all(|path| path.extension().is_none())
}

async fn until(done: impl Fn() -> bool) {
    let latest = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < latest, "it does not come about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_maker_of_machines_that_is_killed() {
    if std::env::var_os(KILLED).is_none() {
        return;
    }
    let machines = Arc::new(microvm());
    let _one = start(&machines).await.unwrap();
    let two = start(&machines).await.unwrap();
    let _running = two.exec(Command::new("/bin/sleep").args(["1000"])).await.unwrap();
    #[expect(clippy::print_stderr, reason = "whoever waits for it hears it there")]
    {
        eprintln!("they run");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maker_that_is_killed_leaves_no_emulator() {
    if !is_there() {
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "microvm::a_maker_of_machines_that_is_killed", "--nocapture"])
        .env(KILLED, "yes")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("they run")), "the maker made nothing");
    let theirs = emulators_of(child.id());
    assert_eq!(theirs.len(), 2, "{theirs:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    until(|| theirs.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emulator_has_no_rights_and_sees_nothing() {
    if !is_there() {
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
        let told: Vec<&str> = line[name.len()..].split_whitespace().take(2).collect();
        assert_eq!(told, [value, value], "{name}");
    }
    // Of the host it sees the system's programs, two devices, and nobody's files.
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

/// The modules of the image that is kept, as files.
fn modules(folder: &Path) {
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
async fn a_kernel_and_a_root_that_the_user_names_will_do() {
    let archive = cache_folder().join("rootfs.tar");
    if !is_there() || !archive.exists() {
        return;
    }
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = tempfile::tempdir().unwrap();
    modules(folder.path());
    let sources = Sources {
        kernel: Some(cache_folder().join("microvm/image/kernel")),
        modules: Some(folder.path().to_owned()),
        rootfs: Some(archive.clone()),
    };
    let mut said = Vec::new();
    let mut digests = BTreeSet::new();
    for place in [&one, &two] {
        let machines = machines(place.path(), |_| {});
        let mut say = |line: &str| said.push(line.to_owned());
        let image = machines.build_image(sources.clone(), &mut say).await.unwrap();
        assert_eq!(image.rootfs, archive.display().to_string());
        digests.insert(image.digest);
    }
    // The same comes to the same.
    assert_eq!(digests.len(), 1, "{digests:?}");
    assert!(said.iter().any(|line| line.contains("making a disk")), "{said:?}");
    let machines = machines(one.path(), |_| {});
    let sandbox = start(&machines).await.unwrap();
    echo(&sandbox).await;
    sandbox.end().await;
    assert!(machines.remove_image().unwrap());
    assert!(!machines.remove_image().unwrap());
    let error = machines.is_ready().unwrap_err();
    assert!(error.to_string().contains("its image was not built yet"), "{error}");
}

/// Another first process than ours.
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

/// Those that have to do with control groups and with namespaces; all of them take minutes in an emulated machine.
const SOME: &str = "jail::memory_ jail::processes_ jail::the_disk jail::a_program_prints jail::programs_ \
                    jail::a_crash jail::time_runs_out_for jail::the_first jail::there_is_no jail::shared_memory";

/// Where the host has no control groups of the second version, a machine has; and an ordinary user in it has a group
/// of their own, as systemd hands them out.
#[tokio::test(flavor = "multi_thread")]
async fn the_jail_passes_its_own_tests_in_a_machine() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::copy(std::env::current_exe().unwrap(), folder.path().join("tests")).unwrap();
    let cache = fresh_cache();
    let machines = machines(cache.path(), |options| {
        let tests = if count(0, 1) == 1 { "conformance::jail" } else { SOME };
        let command = format!("exec /opt/layers/*/tests --test-threads=1 {tests}");
        let definitions =
            [format!("COMMAND={command:?}"), format!("MEMBERS={:?}", "session/application")];
        options.first_process = Some(first_process("runner", &definitions));
    });
    let mut spec = Spec { layers: vec![Layer::of(folder.path()).unwrap()], ..Spec::default() };
    spec.limits.memory = 1 << 30;
    spec.limits.cpu_millis = 1000;
    spec.limits.wall = Duration::from_secs(1000);
    let sandbox = start_as(&maker(), &machines, spec).await.unwrap();
    let running = sandbox.exec(Command::new("tests")).await.unwrap();
    // Told as it comes, for whoever wonders how it goes.
    #[expect(clippy::print_stderr, reason = "it takes minutes")]
    let tell = |_, bytes: &[u8]| eprint!("{}", String::from_utf8_lossy(bytes));
    let done = running.finish_telling(tell).await.unwrap();
    let told = text(&done.stdout);
    assert_eq!(done.outcome.exit_code, Some(0), "{told}");
    assert!(
        told.contains(
            "test conformance::jail::memory_is_counted_for_all_processes_together ... ok"
        ),
        "{told}"
    );
    assert!(told.contains(&format!("test result: ok. {}", count(1, 6))), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_means_ill_costs_nothing_but_its_sandbox() {
    if !is_there() {
        return;
    }
    let (good, maker, cache) = (Arc::new(microvm()), maker(), fresh_cache());
    let machines = machines(cache.path(), |options| {
        options.first_process = Some(first_process("hostile", &[]));
    });
    let such = |way: u32| {
        let mut spec = Spec::default();
        spec.limits.processes = way;
        spec.limits.wall = Duration::from_millis(100);
        spec
    };
    // It crashes, sends garbage, or powers off, when it should say that it is up.
    for (way, expected) in [(101, "Kernel panic"), (102, "the guest sent"), (103, "gone")] {
        let error = start_as(&maker, &machines, such(way)).await.unwrap_err();
        assert!(matches!(error, SandboxError::Broke(_)), "{way}: {error}");
        assert!(error.to_string().contains(expected), "{way}: {error}");
        echo(&start(&good).await.unwrap()).await;
    }
    // It says so, and then floods the channel, spins, or floods the console.
    for way in [104, 105, 106] {
        let sandbox = start_as(&maker, &machines, such(way)).await.unwrap();
        let mut running = sandbox.exec(Command::new("/bin/true")).await.unwrap();
        // Others go on meanwhile.
        echo(&start(&good).await.unwrap()).await;
        match running.next().await {
            Ok(Event::Ended(outcome)) => assert!(outcome.timed_out, "{way}: {outcome:?}"),
            other => panic!("{way}: {other:?}"),
        }
        sandbox.end().await;
    }
    until(|| emulators(&maker).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kvm_is_used_once_it_has_proved_itself() {
    if !is_there() {
        return;
    }
    let cache = fresh_cache();
    let tried = || machines(cache.path(), |options| options.kvm = Kvm::Tried);
    let first = tried();
    let sandbox = start(&first).await.unwrap();
    echo(&sandbox).await;
    let found = first.accelerator().unwrap().clone();
    match found.accelerator {
        Accelerator::Kvm => assert_eq!(found.why_not_kvm, None),
        Accelerator::Emulation => {
            let why = found.why_not_kvm.clone().unwrap();
            assert!(why.contains("no machine starts") || why.contains("/dev/kvm"), "{why}");
        }
    }
    // What was found is remembered: nobody waits for it once more.
    let verdict =
        || fs::metadata(cache.path().join("microvm/kvm.json")).unwrap().modified().unwrap();
    let written = verdict();
    assert_eq!(tried().settle().await.unwrap(), Some(found.to_string()));
    assert_eq!(verdict(), written);
    let never = machines(cache.path(), |options| options.kvm = Kvm::Never);
    start(&never).await.unwrap();
    assert_eq!(never.accelerator().unwrap().accelerator, Accelerator::Emulation);
}
