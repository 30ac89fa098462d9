//! Tests of microVMs with the built binary: code, debates, images and cleanup.

use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::backends::home_if_available;
use crate::exec::home;
use crate::{CommandOutput, Home};

/// Cache folder with the microVM image that all tests share.
fn image_cache() -> PathBuf {
    assize_testkit::cache_folder().join("microvm")
}

/// Creates a `Home` with the shared microVM image. Returns `None` if microVMs are unavailable on this machine.
pub(crate) fn with_microvms() -> Option<Home> {
    let home = home();
    let cache = home.folder.path().join(".cache/assize");
    fs::create_dir_all(&cache).unwrap();
    std::os::unix::fs::symlink(image_cache(), cache.join("microvm")).unwrap();
    home_if_available(home, "microvm")
}

#[test]
fn exec_in_a_microvm_reports_output_and_limits_like_other_backends() {
    let Some(home) = with_microvms() else { return };
    home.write(
        "plot.py",
        "import platform, sys, traceback\ntraceback.print_stack()\n\
         print(sys.argv[1], sys.stdin.read(), platform.release())\n\
         open('left', 'w').write('x')\nsys.exit(9)",
    );
    let args = ["exec", "--isolation", "microvm", "--json", "--out", "out", "plot.py", "a"];
    let CommandOutput { code, out, err } = home.run_with_input(&args, b"given");
    assert_eq!(code, 9, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["isolation"], "microvm");
    assert!(report["stderr"].as_str().unwrap().contains("File \"plot.py\", line 2"), "{report}");
    let stdout = report["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("a given "), "{stdout}");
    // The kernel of the microVM is not the kernel of the host.
    let ours = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(!stdout.contains(ours.trim()), "{stdout}");
    // The report contains how the microVM runs: with KVM or with emulation.
    let why = report["why"].as_str().unwrap();
    assert!(why.starts_with("requested: microvm; using "), "{why}");
    assert!(home.work_folder().join("out/left").exists());
    let late = home.run_with_input(
        &["exec", "--isolation", "microvm", "--timeout", "4", "-"],
        b"while True: pass",
    );
    assert_eq!(
        (late.code, late.err.contains("it reached its time limit of 4 s")),
        (124, true),
        "{}",
        late.err
    );
    let more = b"data = []\nwhile True: data.append(bytearray(1 << 20))";
    let more = home.run_with_input(
        &["exec", "--isolation", "microvm", "--memory", "64M", "--disk", "8M", "--cpus", "1", "-"],
        more,
    );
    let warned = more.err.contains("it reached its memory limit of 64M");
    assert_eq!((more.code, warned), (137, true), "{}", more.err);
    let two = home.run_with_input(&["exec", "--isolation", "microvm", "--cpus", "2", "-"], b"pass");
    assert_eq!(two.code, 2);
    assert!(two.err.contains("a microVM has only one CPU"), "{}", two.err);
    assert!(two.err.contains("`--isolation jail`"), "{}", two.err);
}

#[test]
fn run_executes_programs_in_a_microvm() {
    let Some(home) = with_microvms() else { return };
    let task = "Read data from users.json and print usernames";
    let CommandOutput { code, out, err } =
        home.run(&["run", task, "--isolation", "microvm", "--cpus", "1"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ada\n"), "{out}");
    assert!(err.contains("FileNotFoundError") && err.contains("microvm"), "{err}");
}

#[test]
fn consultation_runs_its_debates_in_microvms_by_default() {
    let Some(home) = with_microvms() else { return };
    // Without `--isolation`, debates prefer microVMs.
    let CommandOutput { code, out, err } =
        home.run(&["consult", "CRST", "--rounds", "2", "--json"]);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let isolation = report["isolation"].as_str().unwrap();
    let reason = "microvm (auto: a microVM is the strongest isolation";
    assert!(isolation.starts_with(reason), "{isolation}");
    assert!(isolation.contains("; using "), "{isolation}");
    assert_eq!(report["policy_scores"].as_array().unwrap().len(), 15);
    assert!(!out.contains("no isolation"), "{out}");
    // The scores do not depend on the backend.
    let jailed =
        home.run(&["consult", "CRST", "--rounds", "2", "--json", "--isolation", "jail"]).out;
    let jailed: Value = serde_json::from_str(&jailed).unwrap();
    assert!(jailed["isolation"].as_str().unwrap().starts_with("jail"), "{jailed}");
    assert_eq!(report["policy_scores"], jailed["policy_scores"]);
}

#[test]
fn doctor_reports_whether_microvms_use_kvm_or_emulation() {
    let Some(home) = with_microvms() else { return };
    let CommandOutput { out, err, .. } = home.run(&["doctor", "--offline"]);
    assert!(out.contains("✓ microvm  created in"), "{out}{err}");
    assert!(out.contains("using emulation, KVM") || out.contains("using KVM"), "{out}");
    assert!(out.contains("In use for debates: microvm (auto: "), "{out}");
    let report: Value =
        serde_json::from_str(&home.run(&["doctor", "--offline", "--json"]).out).unwrap();
    let backends = report["sandboxes"]["backends"].as_array().unwrap();
    let microvm = backends.iter().find(|one| one["isolation"] == "microvm").unwrap();
    assert!(microvm["method"].as_str().is_some_and(|how| how.starts_with("using ")), "{microvm}");
    assert_eq!(report["sandboxes"]["used_for_debates"], "microvm");
}

#[test]
fn image_build_reports_missing_tools_and_invalid_files() {
    // `PATH` contains no programs, so the tools that build an image are missing.
    let tools = tempfile::tempdir().unwrap();
    let home = home().set("PATH", tools.path().display().to_string());
    home.write("root.tar", "");
    let built = home.run(&["image", "build", "microvm", "--rootfs", "root.tar"]);
    assert_eq!(built.code, 4, "{}", built.err);
    assert!(built.err.contains("`apt-cache` is not installed"), "{}", built.err);
    assert!(built.err.contains("--kernel FILE"), "{}", built.err);
    home.write("kernel", "not much of one");
    let args = ["image", "build", "microvm", "--rootfs", "root.tar", "--kernel", "kernel"];
    let built = home.run(&args);
    assert!(built.err.contains("work/kernel` is not a kernel") && built.code == 4, "{}", built.err);
    home.write("kernel", &format!("{}HdrS, and the rest of it", " ".repeat(0x202)));
    for root in ["", "garbage", &"long garbage".repeat(1000)] {
        home.write("root.tar", root);
        let CommandOutput { code, err, .. } = home.run(&args);
        assert!(err.contains("not a tar archive") && err.contains("tar --numeric-owner"), "{err}");
        assert_eq!(code, 4);
    }
    let archived = std::process::Command::new("tar")
        .args(["-cf", "root.tar", "kernel"])
        .current_dir(home.work_folder())
        .status();
    assert!(archived.unwrap().success());
    let built = home.run(&args);
    assert!(built.err.contains("`sqfstar` is not installed"), "{}", built.err);
    assert!(built.err.contains("sudo apt install squashfs-tools"), "{}", built.err);
    let none = home.run(&["image", "build", "microvm", "--kernel", "nowhere", "--rootfs", "x"]);
    assert!(none.err.contains("nowhere") && none.code == 4, "{}", none.err);
    for wrong in [
        &["image", "build", "--kernel", "kernel"][..],
        &["image", "build", "microvm", "--from", "debian"],
        &["image", "rm", "microvm"],
        &["image", "build", "microvm", "--modules", "here"],
    ] {
        assert_eq!(home.run(wrong).code, 2, "{wrong:?}");
    }
    let unbuilt = home.run_with_input(&["exec", "--isolation", "microvm", "-"], b"pass");
    assert_eq!(unbuilt.code, 125);
    assert!(unbuilt.err.contains("the microVM image is not built"), "{}", unbuilt.err);
    assert!(unbuilt.err.contains("assize image build microvm"), "{}", unbuilt.err);
}

#[test]
fn microvm_image_is_listed_and_removed() {
    let Some(real) = with_microvms() else { return };
    let home = home().set("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let cache = home.folder.path().join(".cache/assize/microvm");
    fs::create_dir_all(&cache).unwrap();
    std::os::unix::fs::symlink(image_cache().join("image"), cache.join("image")).unwrap();
    let CommandOutput { code, out, err } = home.run(&["image", "ls"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("microvm") && out.contains("← used"), "{out}");
    assert!(err.contains("cannot list container images"), "{err}");
    // Only the first command reports that it creates the snapshot of a microVM, which takes a while.
    let exec = ["exec", "--isolation", "microvm", "--cpus", "1", "-"];
    let firsts = [(); 2].map(|()| home.run_with_input(&exec, b"pass").err);
    let created = firsts.each_ref().map(|err| err.contains("creating the snapshot of a microVM"));
    assert_eq!(created, [true, false], "{firsts:?}");
    assert_eq!(home.run(&["image", "rm", "microvm"]).code, 0);
    assert!(!cache.exists() && image_cache().join("image/kernel").exists());
    // Without QEMU, the error message contains the command that installs QEMU.
    let tools = tempfile::tempdir().unwrap();
    let without = real.set("PATH", tools.path().display().to_string());
    let CommandOutput { code, err, .. } =
        without.run_with_input(&["exec", "--isolation", "microvm", "-"], b"pass");
    assert_eq!(code, 125, "{err}");
    assert!(err.contains("sudo apt install qemu-system-x86"), "{err}");
}

#[test]
fn killed_exec_in_a_microvm_leaves_no_emulator_process() {
    let Some(home) = with_microvms() else { return };
    home.write("code.py", "print('up', flush=True)\nimport time\ntime.sleep(1000)");
    let mut child = home
        .command(&["exec", "--isolation", "microvm", "--timeout", "100", "code.py"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    let supervisors = children(child.id());
    let theirs: Vec<u32> =
        supervisors.iter().flat_map(|supervisor| children(*supervisor)).collect();
    assert!(!theirs.is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let latest = Instant::now() + Duration::from_secs(20);
    while theirs.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(
            Instant::now() < latest,
            "an emulator process still runs after its parent was killed"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ids of the child processes of a process.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|one| fs::read_to_string(one.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect()
}
