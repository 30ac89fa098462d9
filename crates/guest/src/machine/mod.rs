//! The first process of a machine: it makes a system of what the kernel gives it, and serves.
//!
//! A machine is started once, and then copied while it waits for the host's first word. Everything
//! that can be done before is done in [`init`]; what must differ from copy to copy, or depends on what
//! the copy is for, comes with the host's hello ([`wake`]).

mod group;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use assize_protocol::Machine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, mount, mount_move, mount_remount};
use rustix::thread::CapabilitySet;

use crate::jail::{AtStep, PROGRAM, Step};
use crate::{serve, sys};
pub(crate) use group::Group;

/// The modules of the kernel that came along, and the file that says in which order to load them.
const MODULES: &str = "/modules";

/// What came along for interpreters, and where it goes, from the root.
const PYTHON: &str = "/python";
const PYTHON_FOLDER: &str = "run/assize/python";

/// The channel to the host is the port of this number, of whichever device has ports.
const CHANNEL: &str = "p1";

/// Where what goes wrong is told: to the kernel, until there is a console.
const WORDS: [&str; 2] = ["/dev/kmsg", "/dev/hvc0"];

/// Where the real root is put before it is one.
const ROOT: &str = "/root";

/// The disk that has the root, and the one that may have layers.
const DISK: &str = "/dev/vda";
const LAYERS: &str = "vdb";

/// Devices that every program expects, with their numbers.
const NODES: [(&str, u32, u32); 5] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9)];

/// How long the kernel may take to make what it has found usable.
const FOUND: Duration = Duration::from_secs(20);

/// What the guest keeps of the machine that it is in.
pub(crate) struct Home {
    /// Where programs are accounted for.
    pub(crate) group: Rc<Group>,
    /// The kernel's own devices, which nobody else can reach.
    devices: File,
}

/// Makes the system, and serves until the host is gone.
pub(crate) fn init() -> Result<(), String> {
    mount("dev", "/dev", "devtmpfs", MountFlags::NOSUID, None).step("mounting the devices")?;
    speak_to(WORDS[0]);
    load_modules()?;
    let channel = eventually(open_channel).step("opening the channel")?;
    speak_to(WORDS[1]);
    let devices = File::open("/dev").step("opening the devices")?;
    enter_root()?;
    let group = Rc::new(Group::make()?);
    rustix::system::sethostname(b"sandbox").step("naming the machine")?;
    sys::loopback_up().step("bringing the loopback up")?;
    warm_up();
    rustix::stdio::dup2_stdin(&channel).step("the channel")?;
    rustix::stdio::dup2_stdout(&channel).step("the channel")?;
    drop(channel);
    // Whatever is started has no rights, and can get none.
    for capability in CapabilitySet::all() {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    sys::yield_to_programs().step("standing back")?;
    eventually(host_is_there).step("waiting for the host")?;
    serve::serve(Some(PROGRAM), Some(Home { group, devices }), Vec::new())
}

fn speak_to(path: &str) {
    if let Ok(place) = File::options().write(true).open(path) {
        let _ = rustix::stdio::dup2_stderr(place);
    }
}

fn load_modules() -> Result<(), Step> {
    let list = Path::new(MODULES).join("list");
    let names = fs::read_to_string(&list).step("reading which modules to load")?;
    for name in names.lines() {
        let file = File::open(Path::new(MODULES).join(name)).step(name)?;
        match sys::load_module(&file) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).step(format!("loading the module `{name}`"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn open_channel() -> io::Result<File> {
    let mut names =
        fs::read_dir("/dev")?.flatten().filter_map(|e| e.file_name().into_string().ok());
    let name = names.find(|name| name.starts_with("vport") && name.ends_with(CHANNEL));
    let name = name.ok_or(io::ErrorKind::NotFound)?;
    File::options().read(true).write(true).open(Path::new("/dev").join(name))
}

/// Leaves what the kernel started with for the disk, furnished with what changes.
fn enter_root() -> Result<(), Step> {
    let read_only = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount(DISK, ROOT, "squashfs", read_only, None).step("mounting the root")?;
    rustix::process::chdir(ROOT).step("going to the root")?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    mount("proc", "proc", "proc", plain | MountFlags::NOEXEC, Some(c"subset=pid"))
        .step("mounting /proc")?;
    mount("tmp", "tmp", "tmpfs", plain, Some(c"mode=1777")).step("mounting /tmp")?;
    let workspace = "tmp/workspace";
    fs::create_dir(workspace).step("making the workspace")?;
    std::os::unix::fs::chown(workspace, Some(PROGRAM), Some(PROGRAM))
        .step("giving the workspace to programs")?;
    make_devices()?;
    place_python()?;
    // What was only needed to come here is memory.
    for folder in [MODULES, PYTHON] {
        let _ = fs::remove_dir_all(folder);
    }
    mount_move(".", "/").step("changing the root")?;
    rustix::process::chroot(".").step("changing the root")?;
    rustix::process::chdir("/").step("changing the root")
}

/// A `/dev` with what programs expect, and nothing that leads anywhere.
fn make_devices() -> Result<(), Step> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("dev", "dev", "tmpfs", flags, Some(c"mode=755,size=64k")).step("mounting /dev")?;
    let umask = rustix::process::umask(Mode::empty());
    for (name, major, minor) in NODES {
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, format!("dev/{name}"), FileType::CharacterDevice, mode, makedev(major, minor))
            .step(format!("making the device `{name}`"))?;
    }
    rustix::process::umask(umask);
    for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/fd{to}"), format!("dev/{name}"))
            .step(format!("linking `/dev/{name}`"))?;
    }
    fs::create_dir("dev/shm").step("making /dev/shm")?;
    mount_remount("dev", flags | MountFlags::RDONLY, c"").step("closing /dev")?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    mount("shm", "dev/shm", "tmpfs", plain, Some(c"mode=1777,size=8m")).step("mounting /dev/shm")
}

fn place_python() -> Result<(), Step> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("run", "run", "tmpfs", flags, Some(c"mode=755,size=256k")).step("mounting /run")?;
    fs::create_dir_all(PYTHON_FOLDER).step("making a folder for Python")?;
    for entry in fs::read_dir(PYTHON).step("reading what came for Python")?.flatten() {
        let to = Path::new(PYTHON_FOLDER).join(entry.file_name());
        fs::copy(entry.path(), to).step("copying what came for Python")?;
    }
    mount_remount("run", flags | MountFlags::RDONLY, c"").step("closing /run")
}

/// Has what most programs read be in memory by the time the machine is copied.
fn warm_up() {
    // That there is none is nobody's fault.
    let _ = Command::new("/usr/bin/python3")
        .args(["-c", "import assize_gate"])
        .env_clear()
        .env("PYTHONPATH", "/run/assize/python")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Until the host is there, a channel looks as if its end had come.
fn host_is_there() -> io::Result<()> {
    let channel = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&channel, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    let there = fds[0].revents() == PollFlags::OUT;
    there.then_some(()).ok_or_else(|| io::ErrorKind::NotConnected.into())
}

/// Tries until it succeeds, where nobody tells when it would.
fn eventually<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let latest = Instant::now() + FOUND;
    loop {
        match attempt() {
            Err(_) if Instant::now() < latest => std::thread::sleep(Duration::from_millis(1)),
            tried => return tried,
        }
    }
}

/// Makes a copy one that is like no other: its randomness and its clock, its limits, its layers.
pub(crate) fn wake(home: &Home, told: &Machine) -> Result<(), Step> {
    sys::reseed_kernel(&told.entropy).step("taking in randomness")?;
    sys::set_clock(told.unix_nanos).step("setting the clock")?;
    home.group.limit(told)?;
    let size = format!("size={},nr_inodes={}", told.disk_bytes, told.disk_files);
    let size = std::ffi::CString::new(size).step("sizing /tmp")?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount("/tmp", plain, &size).step("sizing /tmp")?;
    if let Some(at) = &told.layers {
        let disk = format!("/proc/self/fd/{}/{LAYERS}", home.devices.as_raw_fd());
        let read_only = plain | MountFlags::RDONLY;
        mount(disk, at.as_str(), "squashfs", read_only, None).step("mounting the layers")?;
    }
    Ok(())
}

/// Says how many thousand ticks this processor counts in a second; 0 where that does not matter.
pub(crate) fn tell_ticks() -> Result<(), String> {
    let (begun, first) = clocks();
    std::thread::sleep(Duration::from_millis(25));
    let (ended, last) = clocks();
    let taken = ended.duration_since(begun).as_nanos().max(1);
    let told = (u128::from(last.saturating_sub(first)) * 1_000_000 / taken).to_string();
    rustix::io::write(rustix::stdio::stdout(), told.as_bytes()).map_err(|e| e.to_string())?;
    Ok(())
}

/// The time and what the processor has counted, read as closely together as it can be had: somebody else may have
/// their turn in between.
fn clocks() -> (Instant, u64) {
    let read = || {
        let before = sys::ticks().unwrap_or(0);
        let now = Instant::now();
        let after = sys::ticks().unwrap_or(0);
        (after.saturating_sub(before), now, before + after.saturating_sub(before) / 2)
    };
    let closest = (0..20).map(|_| read()).min_by_key(|(apart, ..)| *apart);
    closest.map_or_else(|| (Instant::now(), 0), |(_, now, ticks)| (now, ticks))
}
