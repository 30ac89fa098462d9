//! QEMU: which one, how it is told what to be, and how it is started inside a jail of its own.
//!
//! A machine has one processor, memory, two disks that cannot be written to, a console that only the
//! kernel and the guest speak on, and the channel. It has no network and nothing else. Everything is
//! handed to it as an open descriptor: there is no path in its jail that leads anywhere.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use assize_config::{Isolation, Limits};
use assize_protocol::jail::{Emulator, Setup};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;

use super::accelerator::Accelerator;
use super::monitor;
use crate::backend::Identity;
use crate::cgroup::Groups;
use crate::error::SandboxError;
use crate::jail::add_system;
use crate::jail::keeper::{self, Keeper, Others};
use crate::words::Words;

/// The program, by the name it has everywhere.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// The descriptors that it finds open.
const CHANNEL: i32 = 3;
const MONITOR: i32 = 4;
const WORDS: i32 = 5;
const MEMORY: i32 = 6;
const ROOT: i32 = 7;
const LAYERS: i32 = 8;
const KERNEL: i32 = 9;
const INITRD: i32 = 10;
const STATE: i32 = 9;

/// What it may need besides the machine's memory: of the host's memory, and of addresses. Where the disk is slow, up
/// to 64 threads read from it, and each has a stack; it aborts where it cannot have one.
const OWN_MEMORY: u64 = 256 << 20;
const OWN_ADDRESSES: u64 = 4 << 30;

/// Megabytes for code that was translated, where the machine is emulated.
const TRANSLATED: u32 = 64;

/// Its own threads: those that read, and some.
const THREADS: u32 = 128;

/// While it starts, nobody is served by it being slow.
const WHOLE_MACHINE: u32 = 4000;

/// What every kernel is told. A machine that ends does so for good; what would only be measured is
/// known; and it need not be kept from spying on itself.
pub(super) const KERNEL_WORDS: &str = "reboot=t panic=-1 quiet console=hvc0 no_timer_check tsc=reliable mitigations=off \
                            cryptomgr.notests random.trust_cpu=on";

/// The emulator that is installed here.
#[derive(Debug, Clone)]
pub(super) struct Qemu {
    program: PathBuf,
    /// Differs from version to version.
    pub(super) stamp: String,
}

impl Qemu {
    /// Looks for it along a search path.
    pub(super) fn find(search: Option<&std::ffi::OsStr>) -> Result<Qemu, SandboxError> {
        let missing = || SandboxError::Unavailable {
            isolation: Isolation::Microvm,
            reason: format!("`{PROGRAM}` is not installed"),
            hint: Some("install it: `sudo apt install qemu-system-x86`".to_owned()),
        };
        let folders = search.into_iter().flat_map(std::env::split_paths);
        let program = folders
            .map(|folder| folder.join(PROGRAM))
            .find_map(|path| path.canonicalize().ok())
            .ok_or_else(missing)?;
        let stamp = stamp(&program).ok_or_else(missing)?;
        Ok(Qemu { program, stamp })
    }

    /// Whether nobody has put another in its place.
    pub(super) fn is_the_same(&self) -> bool {
        stamp(&self.program).is_some_and(|stamp| stamp == self.stamp)
    }
}

fn stamp(program: &Path) -> Option<String> {
    let found = std::fs::metadata(program).ok()?;
    Some(format!("{} {} {} {}", program.display(), found.len(), found.mtime(), found.ino()))
}

/// A machine to be started.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) accelerator: Accelerator,
    pub(super) megabytes: u64,
    pub(super) memory: &'a File,
    pub(super) root: &'a File,
    pub(super) layers: &'a File,
    pub(super) from: From<'a>,
}

/// What it begins with.
#[derive(Debug)]
pub(super) enum From<'a> {
    /// Nothing: what becomes of the memory stays there.
    Kernel { kernel: &'a File, initrd: &'a File, ticks: u64 },
    /// Where another one was frozen: what it writes to memory is its own.
    Frozen { state: &'a File },
}

/// All that decides what a machine is, other than files: one that was frozen can only be thawed by an
/// emulator that is told the same.
pub(super) fn shape(accelerator: Accelerator, megabytes: u64) -> Vec<String> {
    let (accelerator, processor) = match accelerator {
        Accelerator::Kvm => ("kvm".to_owned(), "host"),
        // What most programs are built for, and nothing that takes long to imitate.
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
        ("-chardev", format!("socket,id=words,fd={WORDS}")),
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

impl Plan<'_> {
    fn arguments(&self, name: &str) -> Vec<String> {
        let mut arguments = shape(self.accelerator, self.megabytes);
        // For people who look which process is what.
        arguments.extend(["-name".to_owned(), format!("assize-{name}")]);
        let share = if matches!(self.from, From::Kernel { .. }) { "on" } else { "off" };
        let memory = format!(
            "memory-backend-file,id=memory,size={}M,mem-path=/proc/self/fd/{MEMORY},share={share}",
            self.megabytes
        );
        arguments.extend(["-object".to_owned(), memory]);
        let more: Vec<(&str, String)> = match &self.from {
            From::Kernel { ticks, .. } => {
                // Without it, what the kernel measures depends on how busy this machine is.
                let ticks = match ticks {
                    0 => String::new(),
                    ticks => format!(" tsc_early_khz={ticks}"),
                };
                vec![
                    ("-kernel", format!("/proc/self/fd/{KERNEL}")),
                    ("-initrd", format!("/proc/self/fd/{INITRD}")),
                    ("-append", format!("{KERNEL_WORDS}{ticks} rdinit=/init -- init")),
                ]
            }
            From::Frozen { .. } => vec![("-incoming", "defer".to_owned())],
        };
        arguments.extend(more.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        arguments
    }
}

/// A machine that was started.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) keeper: Keeper,
    pub(super) channel: UnixStream,
    pub(super) monitor: UnixStream,
    pub(super) console: Console,
}

/// What the guest and its kernel say beside the channel.
#[derive(Debug)]
pub(super) struct Console {
    words: Words,
    /// It is open for as long as the machine is.
    _listening: AbortOnDropHandle<()>,
}

/// What was said at last: by the guest, its kernel, or the emulator.
pub(super) async fn last_words(keeper: &Keeper, console: &Console) -> Option<String> {
    match console.words.get() {
        Some(words) => Some(words),
        None => keeper.last_words().await,
    }
}

/// Ends a machine that failed, and adds what was said at last to why it did.
pub(super) async fn end_with_words(keeper: &Keeper, console: &Console, why: &str) -> String {
    keeper.end().await;
    match last_words(keeper, console).await {
        Some(words) => format!("{why}: {words}"),
        None => why.to_owned(),
    }
}

/// Starts one, in a jail that has nothing but the emulator's own program.
pub(super) async fn start(
    qemu: &Qemu,
    groups: &Groups,
    users: Others,
    identity: &Identity,
    plan: &Plan<'_>,
) -> Result<Machine, SandboxError> {
    let failed = |error: io::Error| SandboxError::failed("making a channel", error);
    let (channel, theirs) = keeper::pair()?;
    let (monitor, their_monitor) = keeper::pair()?;
    let (console, their_console) = keeper::pair()?;
    let id = identity.to_string();
    let bytes = plan.megabytes << 20;
    let limits = Limits {
        memory: bytes + OWN_MEMORY,
        cpu_millis: WHOLE_MACHINE,
        processes: THREADS,
        ..Limits::default()
    };
    let group = groups
        .make(&id, &limits)
        .map_err(|error| SandboxError::failed("making a control group", error))?;
    let mut setup = Setup {
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
        ..Setup::default()
    };
    group.furnish(&mut setup);
    furnish(&mut setup, qemu, plan.accelerator);
    let keeper = Keeper::start(group, theirs)?;
    let mut monitor = keeper::from_std(monitor)?;
    let mut handed = vec![
        their_monitor.as_fd(),
        their_console.as_fd(),
        plan.memory.as_fd(),
        plan.root.as_fd(),
        plan.layers.as_fd(),
    ];
    match &plan.from {
        From::Kernel { kernel, initrd, .. } => handed.extend([kernel.as_fd(), initrd.as_fd()]),
        From::Frozen { state } => {
            handed.push(state.as_fd());
            monitor::thaw(&mut monitor, STATE).await.map_err(failed)?;
        }
    }
    let built = keeper.build(Isolation::Microvm, &setup, &handed).await?;
    if !built.proc {
        keeper.end().await;
        return Err(SandboxError::Unavailable {
            isolation: Isolation::Microvm,
            reason: "the emulator can have no `/proc` here, by which it opens its memory".to_owned(),
            hint: Some(
                "inside a container, let `/proc` be whole (Docker: `--security-opt systempaths=unconfined`)"
                    .to_owned(),
            ),
        });
    }
    let words = Words::default();
    let listening = tokio::spawn(listen(keeper::from_std(console)?, words.clone()));
    let console = Console { words, _listening: AbortOnDropHandle::new(listening) };
    Ok(Machine { keeper, channel: keeper::from_std(channel)?, monitor, console })
}

/// Hears what is said on the console, until there was enough of it: whoever goes on is not heard, and
/// has to wait.
async fn listen(mut console: UnixStream, words: Words) {
    let mut buffer = [0; 4096];
    while let Ok(count) = console.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        if !words.add(&buffer[..count]) {
            break;
        }
    }
    // Kept open: the end of it would wake the machine.
    std::future::pending().await
}

/// The emulator's program with all it reads, and the devices that it opens.
fn furnish(setup: &mut Setup, qemu: &Qemu, accelerator: Accelerator) {
    add_system(setup);
    setup.piece("/nix/store", "/nix/store", true);
    // Installed on its own, it has its folders beside the one that it is in.
    let own = qemu.program.parent().and_then(Path::parent);
    let own = own.filter(|own| !own.starts_with("/usr") && !own.starts_with("/nix"));
    if let Some(own) = own.filter(|own| own.parent().is_some()) {
        let own = own.display().to_string();
        setup.piece(&own, &own, false);
    }
    for device in ["/dev/null", "/dev/urandom"] {
        setup.device(device, device);
    }
    if accelerator == Accelerator::Kvm {
        setup.device(super::accelerator::DEVICE, super::accelerator::DEVICE);
    }
}
