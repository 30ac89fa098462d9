//! Machines of their own: QEMU's smallest, with a kernel, a disk that cannot be written to, and the guest
//! as the first process.
//!
//! A machine is started once, frozen while its guest waits for the host's first word, and from then on
//! only thawed: each sandbox is a copy of the frozen one, which shares its memory until it writes to it.
//! What copies must not share, and what they are for, the guest is told with the host's hello. The
//! emulator itself is in a jail (see `emulator.rs`).

mod accelerator;
mod cpio;
mod emulator;
mod frozen;
mod image;
mod kernel;
mod layers;
mod monitor;
mod snapshot;
mod squashfs;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use assize_protocol::{GuestLimits, Hello, Machine, VERSION};
use async_trait::async_trait;
use serde::Serialize;
use tokio::sync::Mutex;

pub use accelerator::{Accelerator, Kvm};
pub use image::{ImageError, ImageInfo, Sources};

use crate::backend::{Account, Backend, Cell, Enforcement, Identity, Isolation, Started};
use crate::cgroup::{self, Groups};
use crate::channel::Channel;
use crate::error::SandboxError;
use crate::jail::keeper::{Keeper, Others};
use crate::sandbox::environment;
use crate::spec::{LAYERS, Limits, Spec};
use accelerator::Verdict;
use emulator::{Console, From, Plan, Qemu};
use image::Image;
use snapshot::{Snapshot, memory_file, read_only, seal};

/// How long KVM may take to prove that a machine starts by it, and any machine to be thawed.
const PROOF: Duration = Duration::from_secs(20);
const THAW: Duration = Duration::from_secs(30);

/// What the kernel and the guest need of a machine's memory: some, and a share of it for its account.
const OWN_MEGABYTES: u64 = 96;
const SHARE: u64 = 32;

/// What they need of a processor, with all that the emulator does for them.
const OWN_CPU_MILLIS: u32 = 250;

/// Machines have one of a few sizes, as each size is frozen once.
const STEP: u64 = 64;

/// How often we look whether somebody else is done.
const HELD: Duration = Duration::from_millis(50);

/// Fresh randomness for a machine.
const ENTROPY: usize = 64;

/// What this backend is told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where everything is kept that can be made anew.
    pub cache: PathBuf,
    /// Where programs are looked for.
    pub search: Option<OsString>,
    pub kvm: Kvm,
    /// What the kernel starts instead of our guest: to see what a hostile one could do.
    pub first_process: Option<Vec<u8>>,
}

impl Options {
    /// As the environment of this process has it, where nobody says otherwise.
    pub fn of_environment() -> Options {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let cache = cache.unwrap_or_default().join("assize");
        Options { cache, search: std::env::var_os("PATH"), ..Options::default() }
    }
}

/// Makes machines.
#[derive(Debug)]
pub struct Microvm {
    options: Options,
    groups: OnceLock<Groups>,
    users: Others,
    /// Held while something is made that the next who comes needs, too.
    ground: Mutex<Ground>,
    accelerator: OnceLock<Decided>,
}

/// What machines are made from, as far as it was needed.
#[derive(Debug, Default)]
struct Ground {
    parts: Option<Arc<Parts>>,
    /// By megabytes.
    snapshots: HashMap<u64, Arc<Snapshot>>,
}

/// What is there before any machine is.
#[derive(Debug)]
struct Parts {
    qemu: Qemu,
    image: Image,
    /// How many thousand ticks the processor counts in a second.
    ticks: u64,
    no_layers: File,
}

/// What runs machines here, and why not something faster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decided {
    pub accelerator: Accelerator,
    pub why_not_kvm: Option<String>,
}

impl std::fmt::Display for Decided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.why_not_kvm {
            None => write!(f, "by {}", self.accelerator),
            Some(why) => write!(f, "by {}, not by KVM: {why}", self.accelerator),
        }
    }
}

/// What is known about machines here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeInfo {
    /// The emulator's version.
    pub qemu: String,
    pub image: ImageInfo,
    /// As far as it is known without trying.
    pub accelerator: Option<Decided>,
}

impl Microvm {
    /// With everything looked for when it is first needed.
    pub fn new(options: Options) -> Microvm {
        Microvm {
            options,
            groups: OnceLock::new(),
            users: Others::find(),
            ground: Mutex::default(),
            accelerator: OnceLock::new(),
        }
    }

    fn folder(&self) -> PathBuf {
        self.options.cache.join("microvm")
    }

    fn image_folder(&self) -> PathBuf {
        self.folder().join("image")
    }

    /// Whether machines can be made: the emulator and the image are there.
    ///
    /// # Errors
    /// When not, and what to do about it.
    pub async fn probe(&self) -> Result<ProbeInfo, SandboxError> {
        let image = Image::open(&self.image_folder())?.info;
        let qemu = self.qemu()?;
        let version = qemu.version().await.unwrap_or_else(|| "of an unknown version".to_owned());
        let accelerator = self.accelerator.get().cloned().or_else(|| self.decided(&qemu));
        Ok(ProbeInfo { qemu: version, image, accelerator })
    }

    /// The same, in a word.
    ///
    /// # Errors
    /// As [`Microvm::probe`].
    pub fn is_ready(&self) -> Result<(), SandboxError> {
        Image::open(&self.image_folder())?;
        self.qemu()?;
        let search = self.options.search.iter().flat_map(std::env::split_paths);
        if search.into_iter().any(|folder| folder.join(squashfs::TOOL).exists()) {
            return Ok(());
        }
        Err(SandboxError::Unavailable {
            isolation: Isolation::Microvm,
            reason: format!("`{}`, which makes disks of layers, is not installed", squashfs::TOOL),
            hint: Some("install it: `sudo apt install squashfs-tools`".to_owned()),
        })
    }

    /// What runs its machines; known after the first.
    pub fn accelerator(&self) -> Option<&Decided> {
        self.accelerator.get()
    }

    /// Gathers the image.
    ///
    /// # Errors
    /// When something that it takes is missing, or fails.
    pub async fn build_image(
        &self,
        sources: Sources,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ImageInfo, ImageError> {
        let folder = self.folder();
        std::fs::create_dir_all(&folder)
            .map_err(|error| ImageError::File(folder.clone(), error))?;
        let archive = self.options.cache.join("rootfs.tar");
        let _held = hold(&folder).await;
        let info = image::build(&self.image_folder(), &archive, sources, progress).await?;
        *self.ground.lock().await = Ground::default();
        Ok(info)
    }

    /// What is known of the image, if there is one.
    pub fn image(&self) -> Option<ImageInfo> {
        image::info(&self.image_folder())
    }

    /// Removes the image and all that was made of it. `false` if there was none.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_image(&self) -> Result<bool, ImageError> {
        let (folder, was_there) = (self.folder(), self.image().is_some());
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ImageError::File(folder, error))
            }
            _ => Ok(was_there),
        }
    }

    fn qemu(&self) -> Result<Qemu, SandboxError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(SandboxError::Unavailable {
                isolation: Isolation::Microvm,
                reason: "machines are made for x86-64 processors alone".to_owned(),
                hint: None,
            });
        }
        Qemu::find(self.options.search.as_deref())
    }

    fn groups(&self) -> &Groups {
        self.groups.get_or_init(Groups::find)
    }

    async fn parts(&self, ground: &mut Ground) -> Result<Arc<Parts>, SandboxError> {
        if let Some(parts) = &ground.parts {
            return Ok(Arc::clone(parts));
        }
        let no_layers = memory_file("assize-no-layers")
            .and_then(|file| {
                file.set_len(layers::SIZE)?;
                seal(&file)?;
                read_only(&file)
            })
            .map_err(|error| SandboxError::failed("making a disk", error))?;
        let parts = Arc::new(Parts {
            image: Image::open(&self.image_folder())?,
            qemu: self.qemu()?,
            ticks: frozen::ticks().await?,
            no_layers,
        });
        ground.parts = Some(Arc::clone(&parts));
        Ok(parts)
    }

    /// What a verdict about KVM holds for, besides this machine.
    fn circumstances(&self, qemu: &Qemu) -> String {
        let image = self.image().map(|image| image.digest).unwrap_or_default();
        format!("{} / {image}", qemu.stamp)
    }

    /// What runs machines here, if that is known without trying.
    fn decided(&self, qemu: &Qemu) -> Option<Decided> {
        let trouble = match accelerator::obstacle(self.options.kvm) {
            Some(obstacle) => Some(obstacle),
            None => Verdict::read(&self.folder(), &self.circumstances(qemu))?.trouble,
        };
        let accelerator = match trouble {
            Some(_) => Accelerator::Emulation,
            None => Accelerator::Kvm,
        };
        Some(Decided { accelerator, why_not_kvm: trouble })
    }

    /// The frozen machine of this size, and what else machines are made from.
    async fn ground(
        &self,
        identity: &Identity,
        megabytes: u64,
    ) -> Result<(Arc<Parts>, Arc<Snapshot>, Accelerator), SandboxError> {
        let mut ground = self.ground.lock().await;
        // What it was frozen by may be another by now.
        if ground.parts.as_ref().is_some_and(|parts| !parts.qemu.is_the_same()) {
            *ground = Ground::default();
        }
        let parts = self.parts(&mut ground).await?;
        let accelerator = self.decide(&parts, identity, megabytes).await.accelerator;
        let snapshot = match ground.snapshots.get(&megabytes) {
            Some(snapshot) => Arc::clone(snapshot),
            None => Arc::new(self.frozen(&parts, accelerator, identity, megabytes).await?),
        };
        ground.snapshots.insert(megabytes, Arc::clone(&snapshot));
        Ok((parts, snapshot, accelerator))
    }

    async fn decide(&self, parts: &Parts, identity: &Identity, megabytes: u64) -> &Decided {
        if let Some(decided) = self.accelerator.get() {
            return decided;
        }
        let decided = match self.decided(&parts.qemu) {
            Some(decided) => decided,
            None => self.try_kvm(parts, identity, megabytes).await,
        };
        self.accelerator.get_or_init(|| decided)
    }

    /// Lets KVM prove itself: a machine must start by it, be frozen, thawed, and answer, all in time.
    async fn try_kvm(&self, parts: &Parts, identity: &Identity, megabytes: u64) -> Decided {
        // Given up, it takes a moment to go, and its name with it.
        let identity = &Identity { id: format!("{}-kvm", identity.id), ..identity.clone() };
        // Not to be taken for slow because somebody else is at work.
        drop(hold(&self.folder()).await);
        let proof = async {
            let snapshot = self.frozen(parts, Accelerator::Kvm, identity, megabytes).await?;
            let spec = Spec::default();
            let started =
                self.thaw(parts, &snapshot, Accelerator::Kvm, identity, &spec, megabytes).await?;
            started.cell.end().await;
            Ok::<_, SandboxError>(())
        };
        let proved = tokio::time::timeout(PROOF, proof).await;
        // What is wrong with this host today says nothing about KVM.
        let says_nothing = matches!(&proved, Ok(Err(SandboxError::Unavailable { .. })));
        let trouble = match proved {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("no machine starts by it here: {error}")),
            Err(_) => Some(format!(
                "no machine starts by it here: none was up within {} seconds",
                PROOF.as_secs()
            )),
        };
        if !says_nothing {
            let circumstances = self.circumstances(&parts.qemu);
            Verdict::new(&circumstances, trouble.clone()).write(&self.folder());
        }
        match trouble {
            None => Decided { accelerator: Accelerator::Kvm, why_not_kvm: None },
            Some(trouble) => {
                tracing::warn!(trouble, "machines are emulated");
                Decided { accelerator: Accelerator::Emulation, why_not_kvm: Some(trouble) }
            }
        }
    }

    /// Makes a sandbox of a frozen machine.
    async fn thaw(
        &self,
        parts: &Parts,
        snapshot: &Snapshot,
        accelerator: Accelerator,
        identity: &Identity,
        spec: &Spec,
        megabytes: u64,
    ) -> Result<Started, SandboxError> {
        let failed = |error: std::io::Error| SandboxError::failed("thawing a machine", error);
        let disk = layers::disk(&self.folder(), &spec.layers).await?;
        let plan = Plan {
            accelerator,
            megabytes,
            memory: &snapshot.memory,
            root: &parts.image.root,
            layers: disk.as_ref().unwrap_or(&parts.no_layers),
            from: From::Frozen { state: &snapshot.state().map_err(failed)? },
        };
        let emulator::Machine { keeper, channel, mut monitor, console } =
            emulator::start(&parts.qemu, self.groups(), self.users, identity, &plan).await?;
        let thawed = tokio::time::timeout(THAW, monitor::thawed(&mut monitor)).await;
        let thawed = thawed.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        if let Err(error) = thawed {
            let why = emulator::end_with_words(&keeper, &console, &error.to_string()).await;
            return Err(SandboxError::failed("thawing a machine", why));
        }
        let up = async {
            // Only now, so that the time is right when it is heard.
            let channel = Channel::over(channel, &hello(spec).map_err(|error| error.to_string())?);
            channel.welcome().await.map_err(|gone| gone.0)?;
            Ok(channel)
        };
        let why = match tokio::time::timeout(THAW, up).await {
            Ok(Ok(channel)) => {
                // The limit is held inside; this is for a machine that does not hold it.
                let cpu_millis = spec.limits.cpu_millis + OWN_CPU_MILLIS;
                keeper.group().share(&Limits { cpu_millis, ..spec.limits.clone() });
                let cell = MicrovmCell { keeper, console };
                return Ok(Started { channel, cell: Box::new(cell) });
            }
            Ok(Err(why)) => why,
            Err(_) => "the guest does not answer".to_owned(),
        };
        Err(SandboxError::Broke(emulator::end_with_words(&keeper, &console, &why).await))
    }
}

/// Keeps other processes from making the same as we do in a folder, until it is let go. Where that cannot be, both
/// do.
async fn hold(folder: &std::path::Path) -> Option<File> {
    let file = File::options().create(true).append(true).open(folder.join("lock")).ok()?;
    loop {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(file),
            // Nobody tells when it is let go.
            Err(rustix::io::Errno::WOULDBLOCK) => tokio::time::sleep(HELD).await,
            Err(_) => return None,
        }
    }
}

/// The memory of a machine in which programs may use so much.
fn megabytes(limits: &Limits) -> u64 {
    let programs = limits.memory.div_ceil(1 << 20);
    (programs + OWN_MEGABYTES + programs / SHARE).next_multiple_of(STEP)
}

/// What a machine is told that must be like no other.
fn hello(spec: &Spec) -> std::io::Result<Hello> {
    let mut entropy = vec![0; ENTROPY];
    std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut entropy)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let limits = &spec.limits;
    Ok(Hello {
        version: VERSION,
        limits: GuestLimits { file_bytes: limits.disk, ..GuestLimits::default() },
        env: environment(&[]),
        machine: Some(Machine {
            entropy,
            unix_nanos: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            memory: limits.memory,
            processes: u64::from(limits.processes),
            cpu_millis: limits.cpu_millis,
            disk_bytes: limits.disk,
            disk_files: limits.files(),
            layers: (!spec.layers.is_empty()).then(|| LAYERS.to_owned()),
        }),
    })
}

#[async_trait]
impl Backend for Microvm {
    fn isolation(&self) -> Isolation {
        Isolation::Microvm
    }

    fn check(&self, spec: &Spec) -> Result<(), SandboxError> {
        let unsupported =
            |reason| Err(SandboxError::Unsupported { isolation: Isolation::Microvm, reason });
        if let Some(image) = &spec.image {
            return unsupported(format!("it has one image for all, and none `{image}`"));
        }
        if spec.limits.cpu_millis > 1000 {
            return unsupported("a machine has one processor, and no more can be asked for".into());
        }
        Ok(())
    }

    async fn start(&self, identity: &Identity, spec: &Spec) -> Result<Started, SandboxError> {
        self.check(spec)?;
        let megabytes = megabytes(&spec.limits);
        let (parts, snapshot, accelerator) = self.ground(identity, megabytes).await?;
        let stale = match self.thaw(&parts, &snapshot, accelerator, identity, spec, megabytes).await
        {
            Err(error @ SandboxError::Failed { .. }) => error,
            started => return started,
        };
        // Whole, and yet of no use: it depends on something that we do not know of.
        tracing::warn!(error = %stale, "a frozen machine cannot be thawed, and is made anew");
        self.forget(&parts, accelerator, megabytes, &snapshot).await;
        let (parts, snapshot, accelerator) = self.ground(identity, megabytes).await?;
        self.thaw(&parts, &snapshot, accelerator, identity, spec, megabytes).await
    }

    async fn settle(&self) -> Result<Option<String>, SandboxError> {
        let identity =
            Identity { maker: format!("settle-{:08x}", fastrand::u32(..)), id: "1".to_owned() };
        let mut ground = self.ground.lock().await;
        let parts = self.parts(&mut ground).await?;
        let decided = self.decide(&parts, &identity, megabytes(&Limits::default())).await;
        Ok(Some(decided.to_string()))
    }

    fn waiting_interpreters(&self) -> usize {
        // What was translated for it stays in memory.
        match self.accelerator.get().map(|decided| decided.accelerator) {
            Some(Accelerator::Kvm) => usize::MAX,
            Some(Accelerator::Emulation) | None => 1,
        }
    }

    fn enforcement(&self) -> Enforcement {
        const GROUP: &str = "control group (v2) of the machine's own kernel";
        let outside = match self.groups() {
            Groups::None(_) => "",
            _ => ", and one of the host around the machine",
        };
        Enforcement {
            memory: format!("{GROUP}, and the size of the machine"),
            cpu: format!("{GROUP}{outside}; one processor"),
            processes: GROUP.to_owned(),
            disk: "size of the memory disk".to_owned(),
            output: "guest".to_owned(),
            wall: "guest, and the host after it".to_owned(),
            network: "the machine has no network card".to_owned(),
            system_calls:
                "a kernel of its own; seccomp and Landlock within; the emulator under its \
                           own filter, in a jail"
                    .to_owned(),
            files: "read-only disk".to_owned(),
        }
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        cgroup::clean_up(maker);
        Ok(())
    }
}

/// The walls of one machine.
#[derive(Debug)]
struct MicrovmCell {
    keeper: Keeper,
    console: Console,
}

#[async_trait]
impl Cell for MicrovmCell {
    async fn account(&self) -> Account {
        // The guest keeps it, and tells with each program's end; unless the whole machine was ended.
        Account { peak_memory: None, ..self.keeper.group().account() }
    }

    async fn end(&self) {
        self.keeper.end().await;
    }

    async fn last_words(&self) -> Option<String> {
        emulator::last_words(&self.keeper, &self.console).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_room_for_its_programs_and_for_itself() {
        let sized = |memory: u64| megabytes(&Limits { memory: memory << 20, ..Limits::default() });
        assert_eq!((sized(16), sized(256), sized(2048)), (128, 384, 2240));
        // Nearly the same is the same.
        assert_eq!(sized(250), sized(256));
    }
}
