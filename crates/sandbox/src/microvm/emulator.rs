//! Finds QEMU, builds its command line, and starts it in a jail.
//!
//! A microVM has one CPU, memory, two read-only disks, a console for the guest kernel and the guest agent, and the
//! channel. It has no network and no other devices. QEMU receives memory, disks and sockets as open file descriptors:
//! its jail contains no files but those of QEMU itself.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use assize_config::{Isolation, SandboxLimits};
use assize_protocol::jail::{Emulator, JailSetup};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;

use super::accelerator::Accelerator;
use super::qmp;
use crate::backend::SandboxIdentity;
use crate::cgroup::CgroupParents;
use crate::diagnostics::DiagnosticOutput;
use crate::error::SandboxError;
use crate::jail::add_system;
use crate::jail::supervisor::{self, DedicatedUsers, JailSupervisor};

/// Program name of QEMU.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// Numbers of the file descriptors that QEMU inherits. A restored microVM has `STATE` instead of `KERNEL` and `INITRD`.
const CHANNEL: i32 = 3;
const MONITOR: i32 = 4;
const CONSOLE: i32 = 5;
const MEMORY: i32 = 6;
const ROOT: i32 = 7;
const LAYERS: i32 = 8;
const KERNEL: i32 = 9;
const INITRD: i32 = 10;
const STATE: i32 = 9;

/// Bytes of memory that QEMU needs in addition to the memory of the guest.
const OWN_MEMORY: u64 = 256 << 20;

/// Bytes of address space that QEMU needs in addition to the memory of the guest. If the disk is slow, up to 64 threads
/// read from it. Each thread needs a stack, and QEMU aborts if it cannot allocate a stack.
const OWN_ADDRESSES: u64 = 4 << 30;

/// Size of QEMU's cache of translated code in megabytes (emulation only).
const TRANSLATED: u32 = 64;

/// Maximum number of threads of QEMU: threads that read from disks, and a few threads for other work.
const THREADS: u32 = 128;

/// CPU limit while QEMU starts, in thousandths of a CPU. It is generous, so that the start is not slowed down.
const STARTUP_CPU_MILLIS: u32 = 4000;

/// Command line of the guest kernel. The microVM ends instead of rebooting; calibrations and self-tests are skipped;
/// mitigations of CPU vulnerabilities are off, because the guest does not need protection from itself.
pub(super) const KERNEL_COMMAND_LINE: &str = "reboot=t panic=-1 quiet console=hvc0 no_timer_check tsc=reliable mitigations=off \
                            cryptomgr.notests random.trust_cpu=on";

/// The installed QEMU.
#[derive(Debug, Clone)]
pub(super) struct Qemu {
    program: PathBuf,
    /// Identifies the installed file: path, size, modification time, inode.
    pub(super) stamp: String,
}

impl Qemu {
    /// Finds QEMU in the folders of a search path.
    pub(super) fn find(search: Option<&std::ffi::OsStr>) -> Result<Qemu, SandboxError> {
        let missing = || SandboxError::Unavailable {
            isolation: Isolation::Microvm,
            reason: format!("`{PROGRAM}` is not installed"),
            hint: Some("install the package: `sudo apt install qemu-system-x86`".to_owned()),
        };
        let folders = search.into_iter().flat_map(std::env::split_paths);
        let program = folders
            .map(|folder| folder.join(PROGRAM))
            .find_map(|path| path.canonicalize().ok())
            .ok_or_else(missing)?;
        let stamp = stamp(&program).ok_or_else(missing)?;
        Ok(Qemu { program, stamp })
    }

    /// Whether the installed QEMU is still the same file as when it was found.
    pub(super) fn is_the_same(&self) -> bool {
        stamp(&self.program).is_some_and(|stamp| stamp == self.stamp)
    }
}

fn stamp(program: &Path) -> Option<String> {
    let found = std::fs::metadata(program).ok()?;
    Some(format!("{} {} {} {}", program.display(), found.len(), found.mtime(), found.ino()))
}

/// Parameters for starting a microVM.
#[derive(Debug)]
pub(super) struct LaunchPlan<'a> {
    pub(super) accelerator: Accelerator,
    pub(super) megabytes: u64,
    pub(super) memory: &'a File,
    pub(super) root: &'a File,
    pub(super) layers: &'a File,
    pub(super) from: BootSource<'a>,
}

/// Source that a microVM starts from: a kernel or a snapshot.
#[derive(Debug)]
pub(super) enum BootSource<'a> {
    /// Boots a kernel. The memory file is mapped as shared, so that its contents can be saved.
    Kernel { kernel: &'a File, initrd: &'a File, ticks: u64 },
    /// Restores a snapshot. The memory file is mapped copy-on-write.
    Snapshot { state: &'a File },
}

/// Returns the QEMU arguments that define the virtual hardware. A snapshot can be restored only with the same
/// arguments.
pub(super) fn hardware_arguments(accelerator: Accelerator, megabytes: u64) -> Vec<String> {
    let (accelerator, processor) = match accelerator {
        Accelerator::Kvm => ("kvm".to_owned(), "host"),
        // This CPU model suffices for most programs and has no instructions that are slow to emulate.
        Accelerator::Emulation => (format!("tcg,tb-size={TRANSLATED}"), "Nehalem,+rdrand,+rdseed"),
    };
    let disk = |name: &str, set: i32| {
        format!(
            "driver=raw,node-name={name},read-only=on,file.driver=file,file.filename=/dev/fdset/{set},\
             file.read-only=on,file.locking=off"
        )
    };
    let words: [(&str, String); 21] = [
        (
            "-M",
            "microvm,acpi=on,rtc=on,pit=off,pic=off,isa-serial=off,memory-backend=memory".into(),
        ),
        ("-accel", accelerator),
        ("-cpu", processor.into()),
        ("-smp", "1".into()),
        ("-m", megabytes.to_string()),
        ("-display", "none".into()),
        ("-add-fd", format!("fd={ROOT},set=1")),
        ("-add-fd", format!("fd={LAYERS},set=2")),
        ("-blockdev", disk("root", 1)),
        ("-blockdev", disk("layers", 2)),
        ("-device", "virtio-blk-device,drive=root".into()),
        ("-device", "virtio-blk-device,drive=layers".into()),
        ("-chardev", format!("socket,id=channel,fd={CHANNEL}")),
        ("-chardev", format!("socket,id=monitor,fd={MONITOR}")),
        ("-chardev", format!("socket,id=words,fd={CONSOLE}")),
        ("-mon", "chardev=monitor,mode=control".into()),
        ("-device", "virtio-serial-device".into()),
        ("-device", "virtconsole,chardev=words".into()),
        ("-device", "virtserialport,chardev=channel".into()),
        (
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into(),
        ),
        ("-msg", "timestamp=off".into()),
    ];
    let flags = ["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned);
    flags
        .into_iter()
        .chain(words.into_iter().flat_map(|(name, value)| [name.into(), value]))
        .collect()
}

impl LaunchPlan<'_> {
    fn arguments(&self, name: &str) -> Vec<String> {
        let mut arguments = hardware_arguments(self.accelerator, self.megabytes);
        // The name `assize-…` of the microVM is visible in process listings.
        arguments.extend(["-name".to_owned(), format!("assize-{name}")]);
        let share = if matches!(self.from, BootSource::Kernel { .. }) { "on" } else { "off" };
        let memory = format!(
            "memory-backend-file,id=memory,size={}M,mem-path=/proc/self/fd/{MEMORY},share={share}",
            self.megabytes
        );
        arguments.extend(["-object".to_owned(), memory]);
        let more: Vec<(&str, String)> = match &self.from {
            BootSource::Kernel { ticks, .. } => {
                // Without this parameter, the guest kernel measures the TSC frequency, which is inaccurate on a busy
                // host.
                let ticks = match ticks {
                    0 => String::new(),
                    ticks => format!(" tsc_early_khz={ticks}"),
                };
                vec![
                    ("-kernel", format!("/proc/self/fd/{KERNEL}")),
                    ("-initrd", format!("/proc/self/fd/{INITRD}")),
                    ("-append", format!("{KERNEL_COMMAND_LINE}{ticks} rdinit=/init -- init")),
                ]
            }
            BootSource::Snapshot { .. } => vec![("-incoming", "defer".to_owned())],
        };
        arguments.extend(more.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        arguments
    }
}

/// A started microVM.
#[derive(Debug)]
pub(super) struct RunningVm {
    pub(super) supervisor: JailSupervisor,
    pub(super) channel: UnixStream,
    pub(super) monitor: UnixStream,
    pub(super) console: Console,
}

/// Console of a microVM: output of the guest kernel and the guest agent.
#[derive(Debug)]
pub(super) struct Console {
    output: DiagnosticOutput,
    /// Task that reads the console as long as the microVM exists.
    _reader: AbortOnDropHandle<()>,
}

/// Returns the console output of a microVM, or if there is none, the stderr of QEMU.
pub(super) async fn diagnostic_output(
    supervisor: &JailSupervisor,
    console: &Console,
) -> Option<String> {
    match console.output.get() {
        Some(output) => Some(output),
        None => supervisor.last_words().await,
    }
}

/// Ends a microVM that failed, and returns the reason with the diagnostic output.
pub(super) async fn end_with_diagnostics(
    supervisor: &JailSupervisor,
    console: &Console,
    why: &str,
) -> String {
    supervisor.end().await;
    match diagnostic_output(supervisor, console).await {
        Some(output) => format!("{why}: {output}"),
        None => why.to_owned(),
    }
}

/// Starts QEMU in a jail that contains no other files than those of QEMU.
pub(super) async fn start(
    qemu: &Qemu,
    groups: &CgroupParents,
    users: DedicatedUsers,
    identity: &SandboxIdentity,
    plan: &LaunchPlan<'_>,
) -> Result<RunningVm, SandboxError> {
    let failed = |error: io::Error| SandboxError::failed("writing to QEMU", error);
    let (monitor, their_monitor) = supervisor::pair()?;
    let (console, their_console) = supervisor::pair()?;
    let id = identity.to_string();
    let bytes = plan.megabytes << 20;
    let limits = SandboxLimits {
        memory: bytes + OWN_MEMORY,
        cpu_millis: STARTUP_CPU_MILLIS,
        processes: THREADS,
        ..SandboxLimits::default()
    };
    let group = groups
        .make(&id, &limits)
        .map_err(|error| SandboxError::failed("creating a cgroup", error))?;
    let mut setup = JailSetup {
        users: users.of(&id),
        host_name: "machine".to_owned(),
        disk_bytes: 4096,
        disk_files: 16,
        emulator: Some(Emulator {
            argv: [qemu.program.display().to_string()]
                .into_iter()
                .chain(plan.arguments(&id))
                .collect(),
            address_space: bytes + OWN_ADDRESSES,
            group: plan.accelerator.group(),
        }),
        ..JailSetup::default()
    };
    group.add_to_setup(&mut setup);
    add_qemu_files(&mut setup, qemu, plan.accelerator);
    let (supervisor, channel) = JailSupervisor::start(group)?;
    let mut monitor = supervisor::from_std(monitor)?;
    let mut descriptors = vec![
        their_monitor.as_fd(),
        their_console.as_fd(),
        plan.memory.as_fd(),
        plan.root.as_fd(),
        plan.layers.as_fd(),
    ];
    match &plan.from {
        BootSource::Kernel { kernel, initrd, .. } => {
            descriptors.extend([kernel.as_fd(), initrd.as_fd()])
        }
        BootSource::Snapshot { state } => {
            descriptors.push(state.as_fd());
            qmp::restore(&mut monitor, STATE).await.map_err(failed)?;
        }
    }
    let built = supervisor.build(Isolation::Microvm, &setup, &descriptors).await?;
    if !built.proc {
        supervisor.end().await;
        return Err(SandboxError::Unavailable {
            isolation: Isolation::Microvm,
            reason: "QEMU needs `/proc` to open its memory, but its jail cannot mount `/proc`".to_owned(),
            hint: Some(
                "if assize runs in a container, unmask `/proc` in the container (Docker: `--security-opt \
                 systempaths=unconfined`)"
                    .to_owned(),
            ),
        });
    }
    let output = DiagnosticOutput::default();
    let reader = tokio::spawn(read_console(supervisor::from_std(console)?, output.clone()));
    let console = Console { output, _reader: AbortOnDropHandle::new(reader) };
    Ok(RunningVm { supervisor, channel, monitor, console })
}

/// Collects console output until the buffer is full. After that, nothing is read, so a microVM that keeps writing to
/// its console blocks.
async fn read_console(mut console: UnixStream, output: DiagnosticOutput) {
    let mut buffer = [0; 4096];
    while let Ok(count) = console.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        if !output.add(&buffer[..count]) {
            break;
        }
    }
    // The console stays open, because a closed console would unblock the microVM.
    std::future::pending().await
}

/// Adds QEMU's program, the files that it reads, and its devices to a jail.
fn add_qemu_files(setup: &mut JailSetup, qemu: &Qemu, accelerator: Accelerator) {
    add_system(setup);
    setup.add_mount("/nix/store", "/nix/store", true);
    // If QEMU is installed outside of `/usr` and `/nix`, its other folders are next to the folder of the program.
    let own = qemu.program.parent().and_then(Path::parent);
    let own = own.filter(|own| !own.starts_with("/usr") && !own.starts_with("/nix"));
    if let Some(own) = own.filter(|own| own.parent().is_some()) {
        let own = own.display().to_string();
        setup.add_mount(&own, &own, false);
    }
    for device in ["/dev/null", "/dev/urandom"] {
        setup.device(device, device);
    }
    if accelerator == Accelerator::Kvm {
        setup.device(super::accelerator::DEVICE, super::accelerator::DEVICE);
    }
}
