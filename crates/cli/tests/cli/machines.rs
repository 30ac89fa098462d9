//! Machines, from the built binary.

use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exec::home;
use crate::walls::if_there;
use crate::{Home, Ran};

/// Where what machines are made from is really kept.
fn kept() -> PathBuf {
    assize_testkit::cache_folder().join("microvm")
}

/// A home in which machines can be made, if they can be at all.
pub(crate) fn with_machines() -> Option<Home> {
    let home = home();
    let cache = home.folder.path().join(".cache/assize");
    fs::create_dir_all(&cache).unwrap();
    std::os::unix::fs::symlink(kept(), cache.join("microvm")).unwrap();
    if_there(home, "microvm")
}

#[test]
fn machines_run_code_with_the_same_words() {
    let Some(home) = with_machines() else { return };
    home.write(
        "plot.py",
        "import platform, sys, traceback\ntraceback.print_stack()\n\
         print(sys.argv[1], sys.stdin.read(), platform.release())\n\
         open('left', 'w').write('x')\nsys.exit(9)",
    );
    let args = ["exec", "--isolation", "microvm", "--json", "--out", "out", "plot.py", "a"];
    let Ran { code, out, err } = home.run_with_input(&args, b"given");
    assert_eq!(code, 9, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["isolation"], "microvm");
    assert!(told["stderr"].as_str().unwrap().contains("File \"plot.py\", line 2"), "{told}");
    let stdout = told["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("a given "), "{stdout}");
    // A kernel of its own.
    let ours = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(!stdout.contains(ours.trim()), "{stdout}");
    // What runs the machine is said with the outcome.
    let why = told["why"].as_str().unwrap();
    assert!(why.starts_with("asked for: microvm; by "), "{why}");
    assert!(home.work().join("out/left").exists());
    let late = home.run_with_input(
        &["exec", "--isolation", "microvm", "--timeout", "4", "-"],
        b"while True: pass",
    );
    assert_eq!(
        (late.code, late.err.contains("its time of 4 s is up")),
        (124, true),
        "{}",
        late.err
    );
    let more = b"data = []\nwhile True: data.append(bytearray(1 << 20))";
    let more = home.run_with_input(
        &["exec", "--isolation", "microvm", "--memory", "64M", "--disk", "8M", "--cpus", "1", "-"],
        more,
    );
    let told = more.err.contains("out of memory, it had 64M");
    assert_eq!((more.code, told), (137, true), "{}", more.err);
    let two = home.run_with_input(&["exec", "--isolation", "microvm", "--cpus", "2", "-"], b"pass");
    assert_eq!(two.code, 2);
    assert!(two.err.contains("a machine has one processor"), "{}", two.err);
    assert!(two.err.contains("`--isolation jail`"), "{}", two.err);
}

#[test]
fn programs_are_tried_in_machines_too() {
    let Some(home) = with_machines() else { return };
    let task = "Read data from users.json and print usernames";
    let Ran { code, out, err } = home.run(&["run", task, "--isolation", "microvm", "--cpus", "1"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ada\n"), "{out}");
    assert!(err.contains("FileNotFoundError") && err.contains("microvm"), "{err}");
}

#[test]
fn a_consultation_holds_its_fifteen_debates_in_machines() {
    let Some(home) = with_machines() else { return };
    // Nothing is asked for: for debates, machines come first.
    let Ran { code, out, err } = home.run(&["consult", "CRST", "--rounds", "2", "--json"]);
    assert_eq!(code, 0, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    let held = told["isolation"].as_str().unwrap();
    assert!(held.starts_with("microvm (auto: a machine is the thickest wall"), "{held}");
    assert!(held.contains("; by "), "{held}");
    assert_eq!(told["policy_scores"].as_array().unwrap().len(), 15);
    assert!(!out.contains("no isolation"), "{out}");
    // In whatever walls it is held, it comes to the same.
    let jailed =
        home.run(&["consult", "CRST", "--rounds", "2", "--json", "--isolation", "jail"]).out;
    let jailed: Value = serde_json::from_str(&jailed).unwrap();
    assert!(jailed["isolation"].as_str().unwrap().starts_with("jail"), "{jailed}");
    assert_eq!(told["policy_scores"], jailed["policy_scores"]);
}

#[test]
fn the_doctor_says_what_runs_machines() {
    let Some(home) = with_machines() else { return };
    let Ran { out, err, .. } = home.run(&["doctor", "--offline"]);
    assert!(out.contains("✓ microvm  made one in"), "{out}{err}");
    assert!(out.contains("by emulation, not by KVM: ") || out.contains("by KVM"), "{out}");
    assert!(out.contains("In use for debates: microvm (auto: "), "{out}");
    let told: Value =
        serde_json::from_str(&home.run(&["doctor", "--offline", "--json"]).out).unwrap();
    let backends = told["sandboxes"]["backends"].as_array().unwrap();
    let machine = backends.iter().find(|one| one["isolation"] == "microvm").unwrap();
    assert!(machine["how"].as_str().is_some_and(|how| how.starts_with("by ")), "{machine}");
    assert_eq!(told["sandboxes"]["used_for_debates"], "microvm");
}

#[test]
fn what_is_missing_for_an_image_is_named() {
    // With nothing of Debian's tools to be found.
    let tools = tempfile::tempdir().unwrap();
    let home = home().set("PATH", tools.path().display().to_string());
    home.write("root.tar", "");
    let built = home.run(&["image", "build", "microvm", "--rootfs", "root.tar"]);
    assert_eq!(built.code, 4, "{}", built.err);
    assert!(built.err.contains("`apt-cache` is not installed here"), "{}", built.err);
    assert!(built.err.contains("--kernel FILE"), "{}", built.err);
    home.write("kernel", "not much of one");
    let args = ["image", "build", "microvm", "--rootfs", "root.tar", "--kernel", "kernel"];
    let built = home.run(&args);
    assert!(built.err.contains("work/kernel` is no kernel") && built.code == 4, "{}", built.err);
    home.write("kernel", &format!("{}HdrS, and the rest of it", " ".repeat(0x202)));
    for root in ["", "garbage", &"long garbage".repeat(1000)] {
        home.write("root.tar", root);
        let Ran { code, err, .. } = home.run(&args);
        assert!(err.contains("is no archive") && err.contains("tar --numeric-owner"), "{err}");
        assert_eq!(code, 4);
    }
    let archived = std::process::Command::new("tar")
        .args(["-cf", "root.tar", "kernel"])
        .current_dir(home.work())
        .status();
    assert!(archived.unwrap().success());
    let built = home.run(&args);
    assert!(built.err.contains("`sqfstar` is not installed here"), "{}", built.err);
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
    assert!(unbuilt.err.contains("its image was not built yet"), "{}", unbuilt.err);
    assert!(unbuilt.err.contains("assize image build microvm"), "{}", unbuilt.err);
}

#[test]
fn an_image_is_listed_and_removed() {
    let Some(real) = with_machines() else { return };
    let home = home().set("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let cache = home.folder.path().join(".cache/assize/microvm");
    fs::create_dir_all(&cache).unwrap();
    std::os::unix::fs::symlink(kept().join("image"), cache.join("image")).unwrap();
    let Ran { code, out, err } = home.run(&["image", "ls"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("microvm") && out.contains("← used"), "{out}");
    assert!(err.contains("images of containers are not to be seen"), "{err}");
    // What takes a while the first time is said, and only then.
    let exec = ["exec", "--isolation", "microvm", "--cpus", "1", "-"];
    let firsts = [(); 2].map(|()| home.run_with_input(&exec, b"pass").err);
    let said = firsts.each_ref().map(|err| err.contains("is started and frozen, once"));
    assert_eq!(said, [true, false], "{firsts:?}");
    assert_eq!(home.run(&["image", "rm", "microvm"]).code, 0);
    assert!(!cache.exists() && kept().join("image/kernel").exists());
    // Without QEMU, that is what is missing.
    let tools = tempfile::tempdir().unwrap();
    let without = real.set("PATH", tools.path().display().to_string());
    let Ran { code, err, .. } =
        without.run_with_input(&["exec", "--isolation", "microvm", "-"], b"pass");
    assert_eq!(code, 125, "{err}");
    assert!(err.contains("sudo apt install qemu-system-x86"), "{err}");
}

#[test]
fn a_killed_assize_leaves_no_emulator() {
    let Some(home) = with_machines() else { return };
    home.write("code.py", "print('up', flush=True)\nimport time\ntime.sleep(1000)");
    let mut child = home
        .command(&["exec", "--isolation", "microvm", "--timeout", "100", "code.py"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    let keepers = children(child.id());
    let theirs: Vec<u32> = keepers.iter().flat_map(|keeper| children(*keeper)).collect();
    assert!(!theirs.is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let latest = Instant::now() + Duration::from_secs(20);
    while theirs.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(Instant::now() < latest, "an emulator is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processes that another one has started, whichever of its threads did.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|one| fs::read_to_string(one.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect()
}
