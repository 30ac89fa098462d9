//! MicroVM backend: QEMU's `microvm` machine type, with the guest agent as the first process and a read-only disk.
//!
//! For each memory size, one microVM is booted, and a snapshot is created while its guest agent waits for the host's
//! `Hello`. Each sandbox is restored from the snapshot and maps the memory of the snapshot copy-on-write. `Hello`
//! contains the values that restored microVMs must not share (time, randomness), and the limits of the sandbox. QEMU
//! itself runs in a jail (see `emulator.rs`).

mod accelerator;
mod builder;
mod cpio;
mod create_snapshot;
mod emulator;
mod image;
mod kernel;
mod layers;
mod origin;
mod qmp;
mod restore;
mod snapshot;
mod squashfs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use assize_config::{Isolation, SandboxLimits};
use async_trait::async_trait;

pub use accelerator::{Accelerator, AcceleratorChoice, KvmMode};
pub use image::{VmImageError, VmImageInfo, VmImageSources};

use crate::backend::{Backend, Enforcement, SandboxIdentity, StartedSandbox};
use crate::cgroup::{self, CgroupParents};
use crate::error::SandboxError;
use crate::spec::SandboxSpec;
use builder::{MicrovmBuilder, VmConfig, lock_folder, megabytes};
use image::VmImage;
use restore::RestoreError;
use snapshot::Snapshot;

/// Options of the microVM backend.
#[derive(Debug, Clone, Default)]
pub struct MicrovmOptions {
    /// Cache folder for the image, snapshots and layer disks.
    pub cache: PathBuf,
    /// Search path for programs, in the format of `PATH`.
    pub search: Option<OsString>,
    pub kvm: KvmMode,
    /// Program that the kernel starts instead of the guest agent, for tests with a hostile guest.
    pub first_process: Option<Vec<u8>>,
    /// Callback that shows a message to the user, for example to explain a delay.
    pub notify_user: Option<fn(&str)>,
}

/// Maximum number of idle sandboxes in a warm pool of emulated microVMs.
const EMULATED_POOL: usize = 2;

/// The microVM backend.
#[derive(Debug)]
pub struct Microvm {
    builder: Arc<MicrovmBuilder>,
}

impl Microvm {
    /// Creates a backend, which looks for QEMU and the image on first use.
    pub fn new(options: MicrovmOptions) -> Microvm {
        Microvm { builder: Arc::new(MicrovmBuilder::new(options)) }
    }

    /// Checks that QEMU, the image and `sqfstar` are installed.
    ///
    /// # Errors
    /// When one of them is missing. The error has a hint for users.
    pub fn is_ready(&self) -> Result<(), SandboxError> {
        VmImage::open(&self.builder.image_folder())?;
        self.has_tools()
    }

    /// Whether QEMU and `sqfstar` are installed, but the image is missing.
    pub fn lacks_only_image(&self) -> bool {
        self.has_tools().is_ok() && VmImage::open(&self.builder.image_folder()).is_err()
    }

    /// Checks that QEMU and `sqfstar` are installed.
    fn has_tools(&self) -> Result<(), SandboxError> {
        self.builder.qemu()?;
        let search = self.builder.options.search.iter().flat_map(std::env::split_paths);
        if search.into_iter().any(|folder| folder.join(squashfs::TOOL).exists()) {
            return Ok(());
        }
        Err(SandboxError::Unavailable {
            isolation: Isolation::Microvm,
            reason: format!("`{}`, which creates layer disks, is not installed", squashfs::TOOL),
            hint: Some("install the package: `sudo apt install squashfs-tools`".to_owned()),
        })
    }

    /// Returns whether microVMs use KVM or emulation; `None` before the first microVM.
    pub fn accelerator(&self) -> Option<&AcceleratorChoice> {
        self.builder.selected_accelerator()
    }

    /// Whether microVMs are emulated. Also true if the accelerator is not selected yet.
    fn is_emulated(&self) -> bool {
        !matches!(self.accelerator().map(|decided| decided.accelerator), Some(Accelerator::Kvm))
    }

    /// Builds the image of microVMs.
    pub async fn build_image(
        &self,
        sources: VmImageSources,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<VmImageInfo, VmImageError> {
        let folder = self.builder.folder();
        std::fs::create_dir_all(&folder)
            .map_err(|error| VmImageError::File(folder.clone(), error))?;
        let archive = self.builder.options.cache.join("rootfs.tar");
        let _held = lock_folder(&folder).await;
        let image = self.builder.image_folder();
        let info = image::build(&image, &archive, sources, progress).await?;
        self.builder.clear().await;
        Ok(info)
    }

    /// Returns the description of the image, if the image is built.
    pub fn image(&self) -> Option<VmImageInfo> {
        self.builder.image()
    }

    /// Removes the image, its snapshots and the layer disks. Returns `false` if there was no image.
    pub fn remove_image(&self) -> Result<bool, VmImageError> {
        let (folder, was_there) = (self.builder.folder(), self.image().is_some());
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(VmImageError::File(folder, error))
            }
            _ => Ok(was_there),
        }
    }

    /// Returns the configuration and the snapshot of microVMs with this memory size. If the caller drops this future, a
    /// new snapshot is still created in the background, because the next sandbox needs it.
    async fn config_and_snapshot(
        &self,
        identity: &SandboxIdentity,
        megabytes: u64,
    ) -> Result<(VmConfig, Arc<Snapshot>), SandboxError> {
        let (builder, identity) = (Arc::clone(&self.builder), identity.clone());
        tokio::spawn(async move { builder.config_and_snapshot(&identity, megabytes).await })
            .await
            .unwrap_or_else(|error| Err(SandboxError::failed("creating a snapshot", error)))
    }
}

#[async_trait]
impl Backend for Microvm {
    fn isolation(&self) -> Isolation {
        Isolation::Microvm
    }

    fn check(&self, spec: &SandboxSpec) -> Result<(), SandboxError> {
        let unsupported = |reason, hint| {
            let isolation = Isolation::Microvm;
            Err(SandboxError::Unsupported { isolation, reason, hint: Some(hint) })
        };
        if let Some(image) = &spec.image {
            let reason = format!(
                "all microVMs use the image from `assize image build microvm`, not `{image}`"
            );
            return unsupported(reason, "use `--isolation docker` to run programs in an image");
        }
        if spec.limits.cpu_millis > 1000 {
            let reason = "a microVM has only one CPU".to_owned();
            let hint = "for more CPUs use `--isolation jail` or `--isolation docker`";
            return unsupported(reason, hint);
        }
        Ok(())
    }

    async fn start(
        &self,
        identity: &SandboxIdentity,
        spec: &SandboxSpec,
    ) -> Result<StartedSandbox, SandboxError> {
        self.check(spec)?;
        let megabytes = megabytes(&spec.limits);
        let (make, snapshot) = self.config_and_snapshot(identity, megabytes).await?;
        let reason = match self.builder.restore(&make, &snapshot, identity, spec).await {
            // The snapshot is intact but unusable: it depends on a property that its origin does not record.
            Err(RestoreError::Snapshot(reason)) => reason,
            started => return Ok(started?),
        };
        tracing::info!(%reason, megabytes, "no usable snapshot, creating one");
        self.builder.forget(&make, &snapshot).await;
        let (make, snapshot) = self.config_and_snapshot(identity, megabytes).await?;
        Ok(self.builder.restore(&make, &snapshot, identity, spec).await?)
    }

    async fn test_host(&self) -> Result<Option<String>, SandboxError> {
        let identity = SandboxIdentity {
            creator: format!("settle-{:08x}", fastrand::u32(..)),
            id: "1".to_owned(),
        };
        let parts = self.builder.parts().await?;
        let size = megabytes(&SandboxLimits::default());
        let decided = self.builder.select_accelerator(&parts, &identity, size).await;
        Ok(Some(decided.to_string()))
    }

    fn max_prepared_interpreters(&self) -> usize {
        // In an emulated microVM, the code that QEMU has translated for the interpreter stays in memory.
        if self.is_emulated() { 1 } else { usize::MAX }
    }

    fn pool_size(&self, wanted: usize) -> usize {
        // The start of an emulated microVM uses a CPU for seconds.
        if self.is_emulated() { wanted.min(EMULATED_POOL) } else { wanted }
    }

    fn idle_memory(&self) -> u64 {
        96 << 20
    }

    fn enforcement(&self) -> Enforcement {
        const GROUP: &str = "cgroup v2 of the guest kernel";
        let outside = match self.builder.groups() {
            CgroupParents::None(_) => "",
            _ => ", and a host cgroup around the microVM",
        };
        Enforcement {
            memory: format!("{GROUP}, and the memory size of the microVM"),
            cpu: format!("{GROUP}{outside}; one CPU"),
            processes: GROUP.to_owned(),
            disk: "tmpfs size".to_owned(),
            output: "guest agent".to_owned(),
            time: "the guest agent kills the program; if it does not, the host ends the sandbox"
                .to_owned(),
            network: "the microVM has no network card".to_owned(),
            system_calls:
                "separate guest kernel, with seccomp and Landlock in it; QEMU runs under its own \
                           seccomp filter in a jail"
                    .to_owned(),
            files: "read-only disk".to_owned(),
        }
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        cgroup::clean_up(maker);
        Ok(())
    }
}
