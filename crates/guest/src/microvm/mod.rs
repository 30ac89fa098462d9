//! Init process (PID 1) of a microVM: sets up the system and serves the host.
//!
//! The host boots a microVM once and creates a snapshot while the microVM waits for `Hello`. Every sandbox is restored
//! from the snapshot. [`init`] does the work that is the same for all restored microVMs; [`configure_restored`]
//! applies the settings of one restored microVM, which the host sends in `Hello`.

mod group;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use assize_protocol::MicroVmSettings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, mount, mount_move, mount_remount};
use rustix::thread::CapabilitySet;

use crate::jail::{AtStep, PROGRAM, StepError};
use crate::{serve, sys};
pub(crate) use group::ProgramCgroup;

/// Folder of kernel modules in the initrd. The file `list` in it contains their names in load order.
const MODULES: &str = "/modules";

/// Folder of the Python support files in the initrd.
const PYTHON: &str = "/python";

/// Folder to which the Python support files are copied, relative to the new root.
const PYTHON_FOLDER: &str = "run/assize/python";

/// Suffix of the virtio-serial port that is the channel to the host (`/dev/vport*p1`).
const CHANNEL_SUFFIX: &str = "p1";

/// The kernel log, to which the init process writes error messages until the console exists.
const KERNEL_LOG: &str = "/dev/kmsg";

/// The console, to which the init process writes error messages once the console exists.
const CONSOLE: &str = "/dev/hvc0";

/// Mount point of the real root file system.
const ROOT: &str = "/root";

/// Disk with the root file system.
const DISK: &str = "/dev/vda";

/// Name of the layer disk, which contains the layers: host folders that the sandbox can read but not change.
const LAYERS: &str = "vdb";

/// Devices that every program expects, with their major and minor numbers.
const NODES: [(&str, u32, u32); 5] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9)];

/// Maximum time to wait until a device or the host is available.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Resources of the microVM that the guest agent uses.
pub(crate) struct MicroVm {
    /// Cgroup of all programs in the microVM.
    pub(crate) group: Rc<ProgramCgroup>,
    /// Open folder of the kernel's devtmpfs, which is no longer mounted at any path that programs can reach.
    devices: File,
}

/// Sets up the system and serves until the host disconnects.
pub(crate) fn init() -> Result<(), String> {
    mount("dev", "/dev", "devtmpfs", MountFlags::NOSUID, None).step("mount devtmpfs")?;
    log_to(KERNEL_LOG);
    load_modules()?;
    let channel = eventually(open_channel).step("open the channel")?;
    log_to(CONSOLE);
    let devices = File::open("/dev").step("open `/dev`")?;
    enter_root()?;
    let group = Rc::new(ProgramCgroup::make()?);
    rustix::system::sethostname(b"sandbox").step("set the host name")?;
    sys::loopback_up().step("bring up the loopback interface")?;
    warm_up();
    rustix::stdio::dup2_stdin(&channel).step("use the channel as standard input")?;
    rustix::stdio::dup2_stdout(&channel).step("use the channel as standard output")?;
    drop(channel);
    // Programs start without capabilities and cannot gain any.
    for capability in CapabilitySet::all() {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    sys::yield_to_programs().step("set the scheduling policy")?;
    eventually(host_is_there).step("connect to the host")?;
    serve::serve(Some(PROGRAM), Some(MicroVm { group, devices }), Vec::new())
}

/// Redirects standard error to a file.
fn log_to(path: &str) {
    if let Ok(file) = File::options().write(true).open(path) {
        let _ = rustix::stdio::dup2_stderr(file);
    }
}

fn load_modules() -> Result<(), StepError> {
    let list = Path::new(MODULES).join("list");
    let names = fs::read_to_string(&list).step("read the list of kernel modules")?;
    for name in names.lines() {
        let file = File::open(Path::new(MODULES).join(name))
            .step(format!("open the kernel module `{name}`"))?;
        match sys::load_module(&file) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).step(format!("load the kernel module `{name}`"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn open_channel() -> io::Result<File> {
    let mut names =
        fs::read_dir("/dev")?.flatten().filter_map(|e| e.file_name().into_string().ok());
    let name = names.find(|name| name.starts_with("vport") && name.ends_with(CHANNEL_SUFFIX));
    let name = name.ok_or(io::ErrorKind::NotFound)?;
    File::options().read(true).write(true).open(Path::new("/dev").join(name))
}

/// Switches from the initrd to the root disk, and mounts the writable and virtual file systems in it.
fn enter_root() -> Result<(), StepError> {
    let read_only = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount(DISK, ROOT, "squashfs", read_only, None).step("mount the root disk")?;
    rustix::process::chdir(ROOT).step("enter the root disk")?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    mount("proc", "proc", "proc", plain | MountFlags::NOEXEC, Some(c"subset=pid"))
        .step("mount `/proc`")?;
    mount("tmp", "tmp", "tmpfs", plain, Some(c"mode=1777")).step("mount `/tmp`")?;
    let workspace = "tmp/workspace";
    fs::create_dir(workspace).step("create the workspace")?;
    std::os::unix::fs::chown(workspace, Some(PROGRAM), Some(PROGRAM))
        .step("change the owner of the workspace")?;
    make_devices()?;
    copy_python()?;
    // The files of the initrd are removed to free memory, because they are not used again.
    for folder in [MODULES, PYTHON] {
        let _ = fs::remove_dir_all(folder);
    }
    mount_move(".", "/").step("move the root mount")?;
    rustix::process::chroot(".").step("change the root")?;
    rustix::process::chdir("/").step("enter the new root")
}

/// Creates a `/dev` that contains only the harmless devices that programs expect.
fn make_devices() -> Result<(), StepError> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("dev", "dev", "tmpfs", flags, Some(c"mode=755,size=64k")).step("mount `/dev`")?;
    let umask = rustix::process::umask(Mode::empty());
    for (name, major, minor) in NODES {
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, format!("dev/{name}"), FileType::CharacterDevice, mode, makedev(major, minor))
            .step(format!("create the device `{name}`"))?;
    }
    rustix::process::umask(umask);
    for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/fd{to}"), format!("dev/{name}"))
            .step(format!("create the symbolic link `/dev/{name}`"))?;
    }
    fs::create_dir("dev/shm").step("create `/dev/shm`")?;
    mount_remount("dev", flags | MountFlags::RDONLY, c"").step("make `/dev` read-only")?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    mount("shm", "dev/shm", "tmpfs", plain, Some(c"mode=1777,size=8m")).step("mount `/dev/shm`")
}

fn copy_python() -> Result<(), StepError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("run", "run", "tmpfs", flags, Some(c"mode=755,size=256k")).step("mount `/run`")?;
    fs::create_dir_all(PYTHON_FOLDER).step("create the folder of Python support files")?;
    for entry in fs::read_dir(PYTHON).step("list the Python support files")?.flatten() {
        let to = Path::new(PYTHON_FOLDER).join(entry.file_name());
        fs::copy(entry.path(), to).step("copy the Python support files")?;
    }
    mount_remount("run", flags | MountFlags::RDONLY, c"").step("make `/run` read-only")
}

/// Starts Python once, so that the page cache in the snapshot contains the files that most programs read.
fn warm_up() {
    // Errors are ignored, because the image may contain no Python.
    let _ = Command::new("/usr/bin/python3")
        .args(["-c", "import assize_gate"])
        .env_clear()
        .env("PYTHONPATH", "/run/assize/python")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Checks whether the host has connected. Until then, polling the channel reports a hang-up.
fn host_is_there() -> io::Result<()> {
    let channel = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&channel, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    let connected = fds[0].revents() == PollFlags::OUT;
    connected.then_some(()).ok_or_else(|| io::ErrorKind::NotConnected.into())
}

/// Repeats an attempt every millisecond until it succeeds or [`READY_TIMEOUT`] has passed.
fn eventually<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
}

/// Configures a restored microVM: reseeds the random generator, sets the clock, applies the limits, and mounts the
/// layer disk if the settings request it.
pub(crate) fn configure_restored(
    home: &MicroVm,
    settings: &MicroVmSettings,
) -> Result<(), StepError> {
    sys::reseed_kernel(&settings.entropy).step("reseed the random generator")?;
    sys::set_clock(settings.unix_nanos).step("set the clock")?;
    home.group.limit(settings)?;
    let size = format!("size={},nr_inodes={}", settings.disk_bytes, settings.disk_files);
    let size = std::ffi::CString::new(size).step("resize `/tmp`")?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount("/tmp", plain, &size).step("resize `/tmp`")?;
    if let Some(at) = &settings.layers {
        let disk = format!("/proc/self/fd/{}/{LAYERS}", home.devices.as_raw_fd());
        let read_only = plain | MountFlags::RDONLY;
        mount(disk, at.as_str(), "squashfs", read_only, None).step("mount the layers")?;
    }
    Ok(())
}

/// Prints the frequency of the CPU's time-stamp counter in kHz, or 0 on architectures that do not need the frequency.
pub(crate) fn print_tsc_khz() -> Result<(), String> {
    let (begun, first) = read_clocks();
    std::thread::sleep(Duration::from_millis(25));
    let (ended, last) = read_clocks();
    let nanos = ended.duration_since(begun).as_nanos().max(1);
    let khz = (u128::from(last.saturating_sub(first)) * 1_000_000 / nanos).to_string();
    rustix::io::write(rustix::stdio::stdout(), khz.as_bytes()).map_err(|e| e.to_string())?;
    Ok(())
}

/// Reads the time and the CPU's time-stamp counter at the same moment. Of 20 readings, the most exact one is returned,
/// because preemption between the two reads makes a reading inexact.
fn read_clocks() -> (Instant, u64) {
    let read = || {
        let before = sys::read_tsc().unwrap_or(0);
        let now = Instant::now();
        let after = sys::read_tsc().unwrap_or(0);
        (after.saturating_sub(before), now, before + after.saturating_sub(before) / 2)
    };
    let closest = (0..20).map(|_| read()).min_by_key(|(apart, ..)| *apart);
    closest.map_or_else(|| (Instant::now(), 0), |(_, now, ticks)| (now, ticks))
}
