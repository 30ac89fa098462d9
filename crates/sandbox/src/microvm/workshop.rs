//! What machines are made from: the parts, what runs them, and the frozen one of each size. All of it is
//! made when it is first needed.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use assize_config::{Isolation, Limits};
use tokio::sync::{Mutex, OnceCell};

use super::accelerator::{self, Accelerator, Decided, Verdict};
use super::emulator::Qemu;
use super::image::{self, Image, ImageInfo};
use super::snapshot::Snapshot;
use super::{Options, frozen, layers};
use crate::backend::Identity;
use crate::cgroup::Groups;
use crate::error::SandboxError;
use crate::jail::keeper::Others;
use crate::memfd::{data_file, read_only, seal};
use crate::spec::Spec;

/// How long KVM may take to prove that a machine starts by it.
const PROOF: Duration = Duration::from_secs(20);

/// What the kernel and the guest need of a machine's memory: some, and a share of it for its account.
const OWN_MEGABYTES: u64 = 96;
const SHARE: u64 = 32;

/// Machines have one of a few sizes, as each size is frozen once.
const STEP: u64 = 64;

/// How often we look whether somebody else is done.
const HELD: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Workshop {
    pub(super) options: Options,
    pub(super) users: Others,
    groups: OnceLock<Groups>,
    ground: Mutex<Ground>,
    decided: OnceCell<Decided>,
}

/// What is there already.
#[derive(Debug, Default)]
struct Ground {
    parts: Option<Arc<Parts>>,
    /// By megabytes. Whoever comes while one is made waits for it, and for no other.
    frozen: HashMap<u64, Arc<OnceCell<Arc<Snapshot>>>>,
}

/// What is there before any machine is.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) qemu: Qemu,
    pub(super) image: Image,
    /// How many thousand ticks the processor counts in a second.
    pub(super) ticks: u64,
    pub(super) no_layers: File,
}

/// Machines of one size.
#[derive(Debug, Clone)]
pub(super) struct Make {
    pub(super) parts: Arc<Parts>,
    pub(super) accelerator: Accelerator,
    pub(super) megabytes: u64,
}

impl Workshop {
    pub(super) fn new(options: Options) -> Workshop {
        Workshop {
            options,
            users: Others::find(),
            groups: OnceLock::new(),
            ground: Mutex::default(),
            decided: OnceCell::new(),
        }
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.options.cache.join("microvm")
    }

    pub(super) fn image_folder(&self) -> PathBuf {
        self.folder().join("image")
    }

    /// What is known of the image, if there is one.
    pub(super) fn image(&self) -> Option<ImageInfo> {
        image::info(&self.image_folder())
    }

    pub(super) fn groups(&self) -> &Groups {
        self.groups.get_or_init(Groups::find)
    }

    /// What runs machines; known after the first.
    pub(super) fn decided(&self) -> Option<&Decided> {
        self.decided.get()
    }

    /// Tells whoever waits why that takes a while.
    pub(super) fn say(&self, what: &str) {
        match self.options.say {
            Some(say) => say(what),
            None => tracing::info!(what),
        }
    }

    pub(super) fn qemu(&self) -> Result<Qemu, SandboxError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(SandboxError::Unavailable {
                isolation: Isolation::Microvm,
                reason: "machines are made for x86-64 processors alone".to_owned(),
                hint: None,
            });
        }
        Qemu::find(self.options.search.as_deref())
    }

    /// Has everything looked for again.
    pub(super) async fn clear(&self) {
        *self.ground.lock().await = Ground::default();
    }

    pub(super) async fn parts(&self) -> Result<Arc<Parts>, SandboxError> {
        self.parts_of(&mut *self.ground.lock().await).await
    }

    async fn parts_of(&self, ground: &mut Ground) -> Result<Arc<Parts>, SandboxError> {
        // What machines were frozen by may be another by now.
        if ground.parts.as_ref().is_some_and(|parts| !parts.qemu.is_the_same()) {
            *ground = Ground::default();
        }
        if let Some(parts) = &ground.parts {
            return Ok(Arc::clone(parts));
        }
        let no_layers = data_file("assize-no-layers")
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

    /// Machines of a size, and the frozen one that they are copies of.
    pub(super) async fn frozen(
        &self,
        identity: &Identity,
        megabytes: u64,
    ) -> Result<(Make, Arc<Snapshot>), SandboxError> {
        let (parts, frozen) = {
            let mut ground = self.ground.lock().await;
            let parts = self.parts_of(&mut ground).await?;
            (parts, Arc::clone(ground.frozen.entry(megabytes).or_default()))
        };
        let accelerator = self.decide(&parts, identity, megabytes).await.accelerator;
        let make = Make { parts, accelerator, megabytes };
        let made = async || self.freeze(&make, identity).await.map(Arc::new);
        let snapshot = Arc::clone(frozen.get_or_try_init(made).await?);
        Ok((make, snapshot))
    }

    /// Has the next who comes make a frozen machine anew, unless somebody has already.
    pub(super) async fn forget(&self, make: &Make, stale: &Arc<Snapshot>) {
        let mut ground = self.ground.lock().await;
        let known = ground.frozen.get(&make.megabytes).and_then(|frozen| frozen.get());
        if known.is_some_and(|known| Arc::ptr_eq(known, stale)) {
            ground.frozen.remove(&make.megabytes);
            let _ = std::fs::remove_dir_all(self.place(make));
        }
    }

    /// What runs machines here: as it is known, or found out now.
    pub(super) async fn decide(
        &self,
        parts: &Arc<Parts>,
        identity: &Identity,
        megabytes: u64,
    ) -> &Decided {
        let found = async || {
            let trouble = match accelerator::obstacle(self.options.kvm) {
                Some(obstacle) => Some(obstacle),
                None => match Verdict::read(&self.folder(), &self.circumstances(parts)) {
                    Some(verdict) => verdict.trouble,
                    None => self.try_kvm(parts, identity, megabytes).await,
                },
            };
            let accelerator = match trouble {
                Some(_) => Accelerator::Emulation,
                None => Accelerator::Kvm,
            };
            Decided { accelerator, why_not_kvm: trouble }
        };
        self.decided.get_or_init(found).await
    }

    /// What a verdict about KVM holds for, besides this machine.
    fn circumstances(&self, parts: &Parts) -> String {
        format!("{} / {}", parts.qemu.stamp, parts.image.info.digest)
    }

    /// Lets KVM prove itself: a machine must start by it, be frozen, thawed, and answer, all in time.
    /// Gives what is wrong with it.
    async fn try_kvm(
        &self,
        parts: &Arc<Parts>,
        identity: &Identity,
        megabytes: u64,
    ) -> Option<String> {
        self.say(&format!("KVM is tried for the first time, for {PROOF:?} at most"));
        // Given up, it takes a moment to go, and its name with it.
        let identity = &Identity { id: format!("{}-kvm", identity.id), ..identity.clone() };
        let make = Make { parts: Arc::clone(parts), accelerator: Accelerator::Kvm, megabytes };
        // Not to be taken for slow because somebody else is at work.
        drop(hold(&self.folder()).await);
        let proof = async {
            let snapshot = self.freeze(&make, identity).await?;
            let started = self.thaw(&make, &snapshot, identity, &Spec::default()).await?;
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
            let circumstances = self.circumstances(parts);
            Verdict::new(&circumstances, trouble.clone()).write(&self.folder());
        }
        if let Some(trouble) = &trouble {
            tracing::warn!(trouble, "machines are emulated");
        }
        trouble
    }
}

/// The memory of a machine in which programs may use so much.
pub(super) fn megabytes(limits: &Limits) -> u64 {
    let programs = limits.memory.div_ceil(1 << 20);
    (programs + OWN_MEGABYTES + programs / SHARE).next_multiple_of(STEP)
}

/// Keeps other processes from making the same as we do in a folder, until it is let go. Where that cannot be, both
/// do.
pub(super) async fn hold(folder: &Path) -> Option<File> {
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
