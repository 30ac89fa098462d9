//! Tests of `assize attack` against real sandboxes, and against the host without isolation.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use assize_attack::{
    Attack, AttackOptions, AttackScorecard, ControlOutcome, ProbeGroup, ProbeOutcome,
};
use assize_config::Isolation;
use assize_sandbox::docker::Docker;
use assize_sandbox::jail::Jail;
use assize_sandbox::microvm::{self, Microvm};
use assize_sandbox::{Backend, Interpreter, Language, SandboxManager};

fn python() -> Interpreter {
    Interpreter::find(Language::Python, None, std::env::var_os("PATH").as_deref()).unwrap()
}

fn options(only: Option<&str>) -> AttackOptions {
    AttackOptions { interpreter: python().program, only: only.map(str::to_owned), concurrency: 4 }
}

/// Formats the findings with this outcome, one per line, for assertion messages.
fn lines(card: &AttackScorecard, outcome: ProbeOutcome) -> String {
    card.with(outcome).fold(String::new(), |mut text, finding| {
        let _ = writeln!(text, "{}: {}", finding.name, finding.detail);
        text
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn jail_backend_blocks_all_probes() {
    assert_all_probes_blocked(Arc::new(Jail::new(vec![python()]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_backend_blocks_sampled_probes() {
    let docker = Docker::new(Vec::new());
    let found = docker.probe().await.map_err(|error| error.to_string());
    match found.and_then(|found| found.image) {
        Ok(_) => {
            let sample = ["secrets/", "network/t", "exhaustion/memory", "channel/f"];
            assert_sampled_probes_blocked(Arc::new(docker), &sample).await;
        }
        Err(reason) => {
            let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
            assert!(
                !required.contains("docker"),
                "ASSIZE_TEST_REQUIRE requires docker, which is unavailable: {reason}"
            );
            print_skipped(&reason);
        }
    }
}

/// CI runs only a sample of the probes, because all probes take minutes in an emulated microVM.
#[tokio::test(flavor = "multi_thread")]
async fn microvm_backend_blocks_sampled_probes() {
    let microvms = Arc::new(Microvm::new(microvm::MicrovmOptions {
        cache: assize_testkit::cache_folder(),
        search: std::env::var_os("PATH"),
        ..microvm::MicrovmOptions::default()
    }));
    if let Err(error) = microvms.is_ready() {
        let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
        assert!(
            !required.contains("microvm"),
            "ASSIZE_TEST_REQUIRE requires microvm, which is unavailable: {error}"
        );
        return print_skipped(&error.to_string());
    }
    // Probes that exhaust a microVM are slow.
    let sample = ["machine/crash", "machine/ports", "machine/outside", "channel/f"];
    assert_sampled_probes_blocked(microvms, &sample).await;
}

/// Checks that a backend blocks the probes whose names contain one of the texts in `sample`. If `ASSIZE_TEST_FULL` is
/// set, checks all probes.
async fn assert_sampled_probes_blocked(backend: Arc<dyn Backend>, sample: &[&str]) {
    if std::env::var_os("ASSIZE_TEST_FULL").is_some() {
        return assert_all_probes_blocked(backend).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let manager = SandboxManager::open(folder.path().to_owned(), backend, &[]).await.unwrap();
    for only in sample {
        let attack =
            Attack::new(AttackOptions { concurrency: 2, ..options(Some(only)) }).await.unwrap();
        let card = attack.run(&manager, |_| ()).await;
        assert_eq!(lines(&card, ProbeOutcome::Escaped), "");
        assert_eq!(lines(&card, ProbeOutcome::Failed), "");
        assert!(card.count().blocked > 0, "{only}: {:?}", card.count());
    }
}

#[expect(clippy::print_stderr, reason = "the test log shows which tests are skipped")]
fn print_skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

async fn assert_all_probes_blocked(backend: Arc<dyn Backend>) {
    let attack = Attack::new(options(None)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let manager = SandboxManager::open(folder.path().to_owned(), backend, &[]).await.unwrap();
    let mut reported = 0;
    let card = attack.run(&manager, |_| reported += 1).await;
    assert_eq!(reported, attack.probes(manager.isolation()));
    assert_eq!(lines(&card, ProbeOutcome::Escaped), "");
    assert_eq!(lines(&card, ProbeOutcome::Failed), "");
    let names: BTreeSet<_> = card.findings.iter().map(|finding| &finding.name).collect();
    assert_eq!(names.len(), card.findings.len());
    let microvm = manager.isolation() == Isolation::Microvm;
    for group in ProbeGroup::ALL.iter().filter(|group| microvm || **group != ProbeGroup::Machine) {
        assert!(card.by_group()[group].applicable() > 0, "{group:?}");
    }
    let syscalls = card.findings.iter().filter(|finding| finding.syscall).count();
    assert!(syscalls <= 30, "{syscalls}");
    // More controls fail for an unprivileged user than for root, so fewer probes are applicable.
    let minimum = if rustix::process::geteuid().is_root() { 200 } else { 100 };
    let not_applicable = lines(&card, ProbeOutcome::NotApplicable);
    assert!(card.count().applicable() >= minimum, "{:?}\n{not_applicable}", card.count());
}

/// This test uses only probes that do not disturb the host, because each probe runs on the host twice: once as its
/// control, and once in place of the run in a sandbox. CI runs a sample of these probes.
#[tokio::test(flavor = "multi_thread")]
async fn probes_without_isolation_are_reported_as_escapes() {
    let sample = ["files/write-outside", "network/tcp", "exhaustion/output-flood", "channel/forge"];
    let more = [
        "files/collected-",
        "files/given-link",
        "secrets/environment",
        "exhaustion/daemon",
        "exhaustion/held-output",
        "left/temporary-file",
    ];
    let full = std::env::var_os("ASSIZE_TEST_FULL").is_some();
    for only in sample.into_iter().chain(more.into_iter().filter(|_| full)) {
        let attack = Attack::new(options(Some(only))).await.unwrap();
        let card = attack.run_without_isolation(|_| ()).await;
        assert!(
            card.count().applicable() > 0,
            "{only}: {}",
            lines(&card, ProbeOutcome::NotApplicable)
        );
        for finding in
            card.findings.iter().filter(|finding| finding.control == ControlOutcome::Reached)
        {
            assert_eq!(
                finding.outcome,
                ProbeOutcome::Escaped,
                "{}: {}",
                finding.name,
                finding.detail
            );
        }
    }
    assert!(Attack::new(options(Some("no such probe"))).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_attack_removes_its_files_from_the_host() {
    let attack = Attack::new(options(Some("left/"))).await.unwrap();
    let folder = attack.folder().to_owned();
    let name = folder.to_string_lossy().rsplit('-').next().unwrap().to_owned();
    assert!(folder.join("secret").exists());
    let card = attack.run_without_isolation(|_| ()).await;
    assert!(card.count().escaped > 10, "{:?}", card.count());
    drop(attack);
    assert!(!folder.exists());
    for place in [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from("/dev/shm")] {
        let Ok(entries) = std::fs::read_dir(&place) else { continue };
        let mut names =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left = names.find(|file| file.starts_with("assize-left-") && file.ends_with(&name));
        assert!(left.is_none(), "{left:?}");
    }
}
