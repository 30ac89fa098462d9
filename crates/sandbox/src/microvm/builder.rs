//! Builder of microVMs. On first use, it finds QEMU and the image, selects the accelerator, and creates or loads one
//! snapshot for each memory size.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use assize_config::{Isolation, SandboxLimits};
use tokio::sync::{Mutex, OnceCell};

use super::accelerator::{self, Accelerator, AcceleratorChoice, KvmTestResult};
use super::emulator::Qemu;
use super::image::{self, VmImage, VmImageInfo};
use super::snapshot::Snapshot;
use super::{MicrovmOptions, create_snapshot, layers};
use crate::backend::SandboxIdentity;
use crate::cgroup::CgroupParents;
use crate::error::SandboxError;
use crate::jail::supervisor::DedicatedUsers;
use crate::memfd::{data_file, read_only, seal};
use crate::spec::SandboxSpec;

/// Time limit of the KVM test.
const KVM_TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Fixed part of the memory for the guest kernel and the guest agent, in megabytes.
const SYSTEM_MEGABYTES: u64 = 96;

/// Variable part of the memory for the guest kernel and the guest agent: 1/32 of the memory of the programs.
const SYSTEM_FRACTION: u64 = 32;

/// Memory sizes are rounded up to a multiple of this number of megabytes, because each size needs its own snapshot.
const SIZE_STEP: u64 = 64;

/// Interval between two attempts to get a lock that another process holds.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Builder of microVMs.
#[derive(Debug)]
pub(super) struct MicrovmBuilder {
    pub(super) options: MicrovmOptions,
    pub(super) users: DedicatedUsers,
    groups: OnceLock<CgroupParents>,
    state: Mutex<State>,
    decided: OnceCell<AcceleratorChoice>,
}

/// QEMU, the image and other parts that were found so far, and the snapshots that were loaded or created so far.
#[derive(Debug, Default)]
struct State {
    parts: Option<Arc<VmParts>>,
    /// Snapshots by memory size in megabytes. While a snapshot is created, only requests for the same size wait.
    snapshots: HashMap<u64, Arc<OnceCell<Arc<Snapshot>>>>,
}

/// QEMU, the image, and other parts that all microVMs need.
#[derive(Debug)]
pub(super) struct VmParts {
    pub(super) qemu: Qemu,
    pub(super) image: VmImage,
    /// Frequency of the CPU's time-stamp counter (TSC) in kHz.
    pub(super) tsc_khz: u64,
    /// Empty disk for microVMs without layers.
    pub(super) no_layers: File,
}

/// Configuration of microVMs of one memory size.
#[derive(Debug, Clone)]
pub(super) struct VmConfig {
    pub(super) parts: Arc<VmParts>,
    pub(super) accelerator: Accelerator,
    pub(super) megabytes: u64,
}

impl MicrovmBuilder {
    pub(super) fn new(options: MicrovmOptions) -> MicrovmBuilder {
        MicrovmBuilder {
            options,
            users: DedicatedUsers::find(),
            groups: OnceLock::new(),
            state: Mutex::default(),
            decided: OnceCell::new(),
        }
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.options.cache.join("microvm")
    }

    pub(super) fn image_folder(&self) -> PathBuf {
        self.folder().join("image")
    }

    /// Returns the description of the image, if the image is built.
    pub(super) fn image(&self) -> Option<VmImageInfo> {
        image::info(&self.image_folder())
    }

    pub(super) fn groups(&self) -> &CgroupParents {
        self.groups.get_or_init(CgroupParents::of_this_process)
    }

    /// Returns the selected accelerator; `None` before the first microVM.
    pub(super) fn selected_accelerator(&self) -> Option<&AcceleratorChoice> {
        self.decided.get()
    }

    /// Shows a message to the user, for example to explain a delay. If the options contain no callback for messages,
    /// the message is logged.
    pub(super) fn notify_user(&self, what: &str) {
        match self.options.notify_user {
            Some(say) => say(what),
            None => tracing::info!(what),
        }
    }

    pub(super) fn qemu(&self) -> Result<Qemu, SandboxError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(SandboxError::Unavailable {
                isolation: Isolation::Microvm,
                reason: "microVMs support only x86-64 CPUs".to_owned(),
                hint: None,
            });
        }
        Qemu::find(self.options.search.as_deref())
    }

    /// Drops QEMU, the image and all snapshots from memory. They are found, loaded or created again for the next
    /// microVM.
    pub(super) async fn clear(&self) {
        *self.state.lock().await = State::default();
    }

    pub(super) async fn parts(&self) -> Result<Arc<VmParts>, SandboxError> {
        self.find_parts(&mut *self.state.lock().await).await
    }

    async fn find_parts(&self, state: &mut State) -> Result<Arc<VmParts>, SandboxError> {
        // All parts and snapshots are invalid if another QEMU was installed meanwhile.
        if state.parts.as_ref().is_some_and(|parts| !parts.qemu.is_the_same()) {
            *state = State::default();
        }
        if let Some(parts) = &state.parts {
            return Ok(Arc::clone(parts));
        }
        let no_layers = data_file("assize-no-layers")
            .and_then(|file| {
                file.set_len(layers::SIZE)?;
                seal(&file)?;
                read_only(&file)
            })
            .map_err(|error| SandboxError::failed("creating an empty disk", error))?;
        let parts = Arc::new(VmParts {
            image: VmImage::open(&self.image_folder())?,
            qemu: self.qemu()?,
            tsc_khz: create_snapshot::measure_tsc_khz().await?,
            no_layers,
        });
        state.parts = Some(Arc::clone(&parts));
        Ok(parts)
    }

    /// Returns the configuration of microVMs with this memory size, and the snapshot that they are restored from.
    pub(super) async fn config_and_snapshot(
        &self,
        identity: &SandboxIdentity,
        megabytes: u64,
    ) -> Result<(VmConfig, Arc<Snapshot>), SandboxError> {
        let (parts, cell) = {
            let mut state = self.state.lock().await;
            let parts = self.find_parts(&mut state).await?;
            (parts, Arc::clone(state.snapshots.entry(megabytes).or_default()))
        };
        let accelerator = self.select_accelerator(&parts, identity, megabytes).await.accelerator;
        let make = VmConfig { parts, accelerator, megabytes };
        let create = async || self.load_or_create_snapshot(&make, identity).await.map(Arc::new);
        let snapshot = Arc::clone(cell.get_or_try_init(create).await?);
        Ok((make, snapshot))
    }

    /// Discards a snapshot, so that the next request creates a new snapshot. Does nothing if the snapshot was already
    /// replaced.
    pub(super) async fn forget(&self, make: &VmConfig, stale: &Arc<Snapshot>) {
        let mut state = self.state.lock().await;
        let known = state.snapshots.get(&make.megabytes).and_then(|cell| cell.get());
        if known.is_some_and(|known| Arc::ptr_eq(known, stale)) {
            state.snapshots.remove(&make.megabytes);
            let _ = std::fs::remove_dir_all(self.snapshot_folder(make));
        }
    }

    /// Selects the accelerator; tests KVM if there is no cached result.
    pub(super) async fn select_accelerator(
        &self,
        parts: &Arc<VmParts>,
        identity: &SandboxIdentity,
        megabytes: u64,
    ) -> &AcceleratorChoice {
        let found = async || {
            let trouble = match accelerator::obstacle(self.options.kvm) {
                Some(obstacle) => Some(obstacle),
                None => match KvmTestResult::read(&self.folder(), &self.circumstances(parts)) {
                    Some(verdict) => verdict.trouble,
                    None => self.try_kvm(parts, identity, megabytes).await,
                },
            };
            let accelerator = match trouble {
                Some(_) => Accelerator::Emulation,
                None => Accelerator::Kvm,
            };
            AcceleratorChoice { accelerator, why_not_kvm: trouble }
        };
        self.decided.get_or_init(found).await
    }

    /// Returns a text that identifies the QEMU and the image for which a KVM test result is valid.
    fn circumstances(&self, parts: &VmParts) -> String {
        format!("{} / {}", parts.qemu.stamp, parts.image.info.digest)
    }

    /// Tests KVM: a microVM must boot, be saved, be restored and respond in time. Returns the problem, if any.
    async fn try_kvm(
        &self,
        parts: &Arc<VmParts>,
        identity: &SandboxIdentity,
        megabytes: u64,
    ) -> Option<String> {
        self.notify_user(&format!(
            "testing whether microVMs run with KVM (takes at most {KVM_TEST_TIMEOUT:?})"
        ));
        // The test uses a separate identity, because after a timeout the microVM occupies its name until it has ended.
        let identity = &SandboxIdentity { id: format!("{}-kvm", identity.id), ..identity.clone() };
        let make = VmConfig { parts: Arc::clone(parts), accelerator: Accelerator::Kvm, megabytes };
        // Wait until other processes have created their snapshots, so that the wait does not count as test time.
        drop(lock_folder(&self.folder()).await);
        let test = async {
            let snapshot = self.load_or_create_snapshot(&make, identity).await?;
            let started = self.restore(&make, &snapshot, identity, &SandboxSpec::default()).await?;
            started.handle.end().await;
            Ok::<_, SandboxError>(())
        };
        let tested = tokio::time::timeout(KVM_TEST_TIMEOUT, test).await;
        // An unavailable backend is a problem of the host, not of KVM: the result is not cached.
        let inconclusive = matches!(&tested, Ok(Err(SandboxError::Unavailable { .. })));
        let trouble = match tested {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("no microVM boots with KVM: {error}")),
            Err(_) => Some(format!(
                "no microVM boots with KVM: timed out after {} s",
                KVM_TEST_TIMEOUT.as_secs()
            )),
        };
        if !inconclusive {
            let circumstances = self.circumstances(parts);
            KvmTestResult::new(&circumstances, trouble.clone()).write(&self.folder());
        }
        if let Some(trouble) = &trouble {
            tracing::warn!(trouble, "KVM does not work, emulating microVMs");
        }
        trouble
    }
}

/// Memory size of a microVM in megabytes, if the programs in it have these limits.
pub(super) fn megabytes(limits: &SandboxLimits) -> u64 {
    let programs = limits.memory.div_ceil(1 << 20);
    (programs + SYSTEM_MEGABYTES + programs / SYSTEM_FRACTION).next_multiple_of(SIZE_STEP)
}

/// Locks a folder until the returned file is dropped, so that only one process at a time creates files in it. Returns
/// `None` if locking fails.
pub(super) async fn lock_folder(folder: &Path) -> Option<File> {
    let file = File::options().create(true).append(true).open(folder.join("lock")).ok()?;
    loop {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(file),
            // The lock is polled, because an asynchronous task gets no notification when the lock is released.
            Err(rustix::io::Errno::WOULDBLOCK) => tokio::time::sleep(LOCK_POLL).await,
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microvm_memory_size_includes_the_guest_system_and_is_rounded_up() {
        let sized = |memory: u64| {
            megabytes(&SandboxLimits { memory: memory << 20, ..SandboxLimits::default() })
        };
        assert_eq!((sized(16), sized(256), sized(2048)), (128, 384, 2240));
        // Similar limits share a size, and therefore a snapshot.
        assert_eq!(sized(250), sized(256));
    }
}
