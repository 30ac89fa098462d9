//! The whole attack against real sandboxes, and against no walls at all.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use assize_attack::{Attack, Control, Group, Options, Outcome, Scorecard};
use assize_config::Isolation;
use assize_sandbox::docker::Docker;
use assize_sandbox::jail::Jail;
use assize_sandbox::microvm::{self, Microvm};
use assize_sandbox::{Backend, Interpreter, Language, Manager};

fn python() -> Interpreter {
    Interpreter::find(Language::Python, None, std::env::var_os("PATH").as_deref()).unwrap()
}

fn options(only: Option<&str>) -> Options {
    Options { interpreter: python().program, only: only.map(str::to_owned), at_once: 4 }
}

/// What came to this end, for whoever reads a failure.
fn lines(card: &Scorecard, outcome: Outcome) -> String {
    card.with(outcome).fold(String::new(), |mut text, finding| {
        let _ = writeln!(text, "{}: {}", finding.name, finding.detail);
        text
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_out_of_the_jail() {
    nothing_gets_out_of(Arc::new(Jail::new(vec![python()]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_out_of_docker() {
    let docker = Docker::new(Vec::new());
    let found = docker.probe().await.map_err(|error| error.to_string());
    match found.and_then(|found| found.image) {
        Ok(_) => {
            let sample =
                ["files/c", "secrets/", "network/t", "exhaustion/memory", "left/t", "channel/f"];
            sampled_probes_are_contained(Arc::new(docker), &sample).await;
        }
        Err(reason) => {
            let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
            assert!(!required.contains("docker"), "docker is required: {reason}");
            skipped(&reason);
        }
    }
}

/// CI runs a sample: all probes take minutes in an emulated microVM.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_out_of_a_machine() {
    let machines = Arc::new(Microvm::new(microvm::Options {
        cache: assize_testkit::cache_folder(),
        search: std::env::var_os("PATH"),
        ..microvm::Options::default()
    }));
    if let Err(error) = machines.is_ready() {
        let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
        assert!(!required.contains("microvm"), "microvm is required: {error}");
        return skipped(&error.to_string());
    }
    let sample = ["machine/", "exhaustion/memory", "channel/f", "clock/s", "kernel/m", "network/u"];
    sampled_probes_are_contained(machines, &sample).await;
}

/// Runs the probes whose names start with one of `sample`; under `--full`, all probes.
async fn sampled_probes_are_contained(backend: Arc<dyn Backend>, sample: &[&str]) {
    if std::env::var_os("ASSIZE_TEST_FULL").is_some() {
        return nothing_gets_out_of(backend).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let manager = Manager::open(folder.path().to_owned(), backend, &[]).await.unwrap();
    for only in sample {
        let attack = Attack::new(Options { at_once: 2, ..options(Some(only)) }).await.unwrap();
        let card = attack.run(&manager, |_| ()).await;
        assert_eq!(lines(&card, Outcome::Escaped), "");
        assert_eq!(lines(&card, Outcome::Broke), "");
        assert!(card.count().blocked > 0, "{only}: {:?}", card.count());
    }
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

async fn nothing_gets_out_of(backend: Arc<dyn Backend>) {
    let attack = Attack::new(options(None)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let manager = Manager::open(folder.path().to_owned(), backend, &[]).await.unwrap();
    let mut told = 0;
    let card = attack.run(&manager, |_| told += 1).await;
    assert_eq!(told, attack.probes(manager.isolation()));
    assert_eq!(lines(&card, Outcome::Escaped), "");
    assert_eq!(lines(&card, Outcome::Broke), "");
    let names: BTreeSet<_> = card.findings.iter().map(|finding| &finding.name).collect();
    assert_eq!(names.len(), card.findings.len());
    let machine = manager.isolation() == Isolation::Microvm;
    for group in Group::ALL.iter().filter(|group| machine || **group != Group::Machine) {
        assert!(card.by_group()[group].applicable() > 0, "{group:?}");
    }
    let syscalls = card.findings.iter().filter(|finding| finding.syscall).count();
    assert!(syscalls <= 30, "{syscalls}");
    // An ordinary user may not do much to a host, so less of it says something about a sandbox.
    let least = if rustix::process::geteuid().is_root() { 200 } else { 100 };
    let idle = lines(&card, Outcome::NotApplicable);
    assert!(card.count().applicable() >= least, "{:?} without\n{idle}", card.count());
}

/// Probes for most of the judges, none of which disturbs a host that it is let loose on twice.
#[tokio::test(flavor = "multi_thread")]
async fn without_walls_everything_gets_out() {
    for only in [
        "files/write-outside",
        "files/collected-",
        "files/given-link",
        "secrets/environment",
        "network/tcp",
        "exhaustion/output-flood",
        "exhaustion/daemon",
        "exhaustion/held-output",
        "left/temporary-file",
        "channel/forge",
    ] {
        let attack = Attack::new(options(Some(only))).await.unwrap();
        let card = attack.run_without_walls(|_| ()).await;
        assert!(card.count().applicable() > 0, "{only}: {}", lines(&card, Outcome::NotApplicable));
        for finding in card.findings.iter().filter(|one| one.control == Control::Reached) {
            assert_eq!(finding.outcome, Outcome::Escaped, "{}: {}", finding.name, finding.detail);
        }
    }
    assert!(Attack::new(options(Some("no such probe"))).await.is_err());
}

/// Whatever was made on the host goes with the attack.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_on_the_host() {
    let attack = Attack::new(options(Some("left/"))).await.unwrap();
    let folder = attack.folder().to_owned();
    let name = folder.to_string_lossy().rsplit('-').next().unwrap().to_owned();
    assert!(folder.join("secret").exists());
    let card = attack.run_without_walls(|_| ()).await;
    assert!(card.count().escaped > 10, "{:?}", card.count());
    drop(attack);
    assert!(!folder.exists());
    for place in [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from("/dev/shm")] {
        let Ok(entries) = std::fs::read_dir(&place) else { continue };
        let mut names = entries.flatten().map(|one| one.file_name().to_string_lossy().into_owned());
        let left = names.find(|one| one.starts_with("assize-left-") && one.ends_with(&name));
        assert!(left.is_none(), "{left:?}");
    }
}
