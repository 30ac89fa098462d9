//! Test of limits that assize enforces with delegated cgroups (v2). The built binary runs as an ordinary user inside a
//! microVM, whose kernel supports cgroup v2 even if the host does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use assize_sandbox::microvm::{Microvm, MicrovmOptions};
use assize_sandbox::{
    Backend, ProgramCommand, Sandbox, SandboxIdentity, SandboxLayer, SandboxSpec,
};
use serde_json::Value;

use crate::microvms::with_microvms;

/// Python program that allocates 1.5 GB of shared anonymous memory. The program unmaps the pages again, so this memory
/// counts towards the limit of the cgroup, but is not in the memory usage of any process.
const ATTACK: &str = r"
import mmap
CHUNK = 16 << 20
held = []
try:
    for _ in range(96):
        shared = mmap.mmap(-1, CHUNK)
        for page in range(0, CHUNK, 4096): shared[page] = 1
        shared.madvise(mmap.MADV_DONTNEED)
        held.append(shared)
except OSError as error:
    print('refused', error.errno)
else:
    print('held', len(held) * CHUNK >> 20, 'MB')
";

/// Shell command that lists cgroups left over from earlier commands, then runs [`ATTACK`] with `assize exec`. The
/// shell keyword `exec` replaces the shell by assize; otherwise the shell would be a second process in the cgroup.
const COMMAND: &str = "echo \"== $GROUP\"; \
    for left in /sys/fs/cgroup/*/assize-* /sys/fs/cgroup/*/*/assize-*; do [ -d \"$left\" ] && echo \"left $left\"; done; \
    exec /opt/layers/*/assize exec --isolation jail --memory 256M --cpus 1 --timeout 100 --json /opt/layers/*/attack.py";

/// Cgroups that are delegated to the user.
const DELEGATED: [&str; 3] = ["parent/subgroup", "session/application", "service"];

/// Cgroups that assize cannot use.
const UNUSABLE: [&str; 2] = ["shared", "login"];

/// Returns the cgroups in which [`COMMAND`] runs. `runner.c` creates these cgroups. Returns only two of them unless
/// `ASSIZE_TEST_FULL` is set, because each command takes about 20 seconds in an emulated microVM.
fn cgroups() -> Vec<&'static str> {
    let is_full = std::env::var_os("ASSIZE_TEST_FULL").is_some();
    let (delegated, unusable) = if is_full { (3, 2) } else { (1, 1) };
    DELEGATED.into_iter().take(delegated).chain(UNUSABLE.into_iter().take(unusable)).collect()
}

/// Builds the init program of a microVM. The program runs [`COMMAND`] in each of the [`cgroups`].
fn build_init_process(folder: &Path) -> Vec<u8> {
    let program = folder.join("init");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sandbox/tests/sandbox/first");
    let members = cgroups().into_iter().map(|member| format!("{member:?}"));
    let members = members.collect::<Vec<_>>().join(",");
    let built = Process::new("cc")
        .args(["-static", "-O1", "-w"])
        .args([format!("-DCOMMAND={COMMAND:?}"), format!("-DMEMBERS={members}")])
        .arg("-o")
        .arg(&program)
        .arg(sources.join("runner.c"))
        .status();
    assert!(built.unwrap().success());
    fs::read(program).unwrap()
}

/// Runs [`COMMAND`] in each of the cgroups inside one microVM. Returns the JSON report for each cgroup, and the whole
/// output.
async fn run_attack_in_cgroups() -> (BTreeMap<String, Value>, String) {
    let (cache, layer, build) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let image = assize_testkit::cache_folder().join("microvm/image");
    fs::create_dir(cache.path().join("microvm")).unwrap();
    std::os::unix::fs::symlink(image, cache.path().join("microvm/image")).unwrap();
    fs::write(layer.path().join("attack.py"), ATTACK).unwrap();
    let stripped = Process::new("strip")
        .arg("-o")
        .arg(layer.path().join("assize"))
        .arg(env!("CARGO_BIN_EXE_assize"))
        .status();
    assert!(stripped.unwrap().success());
    let backend: Arc<dyn Backend> = Arc::new(Microvm::new(MicrovmOptions {
        cache: cache.path().to_owned(),
        first_process: Some(build_init_process(build.path())),
        search: std::env::var_os("PATH"),
        ..MicrovmOptions::default()
    }));
    let mut spec = SandboxSpec {
        layers: vec![SandboxLayer::of(layer.path()).unwrap()],
        ..SandboxSpec::default()
    };
    spec.limits.memory = 1 << 30;
    spec.limits.cpu_millis = 1000;
    spec.limits.wall = Duration::from_secs(1000);
    let maker = format!("delegated-{:08x}", fastrand::u32(..));
    let identity = SandboxIdentity { creator: maker, id: "1".to_owned() };
    let sandbox = Sandbox::start(backend, &identity, spec).await.unwrap();
    let running = sandbox.exec(ProgramCommand::new("runner")).await.unwrap();
    // Print the output as it arrives, because the test is slow in an emulated microVM.
    #[expect(clippy::print_stderr, reason = "progress of a slow test")]
    let print = |_, bytes: &[u8]| eprint!("{}", String::from_utf8_lossy(bytes));
    let done = running.finish_with(print).await.unwrap();
    sandbox.end().await;
    let written = String::from_utf8(done.stdout).unwrap();
    let parts = written.split("== ").skip(1).map(|part| {
        let (group, rest) = part.split_once('\n').unwrap();
        let json = rest.find('{').map(|at| &rest[at..]).unwrap_or_default();
        let outcome = serde_json::Deserializer::from_str(json).into_iter().next();
        (group.to_owned(), outcome.unwrap_or(Ok(Value::Null)).unwrap())
    });
    (parts.collect(), written)
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_limit_of_a_delegated_cgroup_applies_to_shared_memory_that_no_process_maps() {
    if with_microvms().is_none() {
        return;
    }
    let (outcomes, written) = run_attack_in_cgroups().await;
    assert_eq!(outcomes.len(), cgroups().len(), "{written}");
    for group in cgroups().into_iter().filter(|group| DELEGATED.contains(group)) {
        let outcome = &outcomes[group];
        assert_eq!(outcome["out_of_memory"], true, "{group}: {outcome:#}");
        assert_eq!(outcome["stdout"], "", "{group}: {outcome:#}");
        for limit in ["memory", "processes", "cpu"] {
            assert_eq!(outcome["enforcement"][limit], "cgroup v2", "{group}: {outcome:#}");
        }
        let peak = outcome["peak_memory_bytes"].as_u64().unwrap();
        assert!((200 << 20..=256 << 20).contains(&peak), "{group}: {outcome:#}");
    }
    // Without a usable cgroup, the memory mappings of the attack fail, and the memory limit is reported as best effort.
    for group in cgroups().into_iter().filter(|group| UNUSABLE.contains(group)) {
        let outcome = &outcomes[group];
        assert_eq!(outcome["out_of_memory"], false, "{group}: {outcome:#}");
        assert!(outcome["stdout"].as_str().unwrap().starts_with("refused"), "{group}: {outcome:#}");
        let memory = outcome["enforcement"]["memory"].as_str().unwrap();
        assert!(memory.starts_with("best effort"), "{group}: {outcome:#}");
        let why = if group == "shared" { "other processes are in" } else { "no cgroup is" };
        assert!(memory.contains(why), "{group}: {outcome:#}");
    }
    assert!(!written.contains("left "), "{written}");
}
