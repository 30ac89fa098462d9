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
mod origin;
mod snapshot;
mod squashfs;
mod thawed;
mod workshop;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use assize_config::{Isolation, Limits};
use async_trait::async_trait;

pub use accelerator::{Accelerator, Decided, Kvm};
pub use image::{ImageError, ImageInfo, Sources};

use crate::backend::{Backend, Enforcement, Identity, Started};
use crate::cgroup::{self, Groups};
use crate::error::SandboxError;
use crate::spec::Spec;
use image::Image;
use snapshot::Snapshot;
use thawed::RestoreError;
use workshop::{Make, Workshop, hold, megabytes};

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
    /// Who is told why something takes a while.
    pub say: Option<fn(&str)>,
}

/// The most idle machines of a warm pool where they are emulated.
const EMULATED_POOL: usize = 2;

/// Makes machines.
#[derive(Debug)]
pub struct Microvm {
    workshop: Arc<Workshop>,
}

impl Microvm {
    /// With everything looked for when it is first needed.
    pub fn new(options: Options) -> Microvm {
        Microvm { workshop: Arc::new(Workshop::new(options)) }
    }

    /// Whether machines can be made: the emulator, the image, and what makes disks are there.
    ///
    /// # Errors
    /// When not, and what to do about it.
    pub fn is_ready(&self) -> Result<(), SandboxError> {
        Image::open(&self.workshop.image_folder())?;
        self.workshop.qemu()?;
        let search = self.workshop.options.search.iter().flat_map(std::env::split_paths);
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
        self.workshop.decided()
    }

    /// Whether no KVM runs its machines, or it is not known yet.
    fn is_emulated(&self) -> bool {
        !matches!(self.accelerator().map(|decided| decided.accelerator), Some(Accelerator::Kvm))
    }

    /// Gathers the image.
    pub async fn build_image(
        &self,
        sources: Sources,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ImageInfo, ImageError> {
        let folder = self.workshop.folder();
        std::fs::create_dir_all(&folder)
            .map_err(|error| ImageError::File(folder.clone(), error))?;
        let archive = self.workshop.options.cache.join("rootfs.tar");
        let _held = hold(&folder).await;
        let image = self.workshop.image_folder();
        let info = image::build(&image, &archive, sources, progress).await?;
        self.workshop.clear().await;
        Ok(info)
    }

    /// What is known of the image, if there is one.
    pub fn image(&self) -> Option<ImageInfo> {
        self.workshop.image()
    }

    /// Removes the image and all that was made of it. `false` if there was none.
    pub fn remove_image(&self) -> Result<bool, ImageError> {
        let (folder, was_there) = (self.workshop.folder(), self.image().is_some());
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ImageError::File(folder, error))
            }
            _ => Ok(was_there),
        }
    }

    /// Machines of a size, and the frozen one. To start and freeze it goes on when nobody waits for it any
    /// more: the next who comes will need it.
    async fn frozen(
        &self,
        identity: &Identity,
        megabytes: u64,
    ) -> Result<(Make, Arc<Snapshot>), SandboxError> {
        let (workshop, identity) = (Arc::clone(&self.workshop), identity.clone());
        tokio::spawn(async move { workshop.frozen(&identity, megabytes).await })
            .await
            .unwrap_or_else(|error| Err(SandboxError::failed("freezing a machine", error)))
    }
}

#[async_trait]
impl Backend for Microvm {
    fn isolation(&self) -> Isolation {
        Isolation::Microvm
    }

    fn check(&self, spec: &Spec) -> Result<(), SandboxError> {
        let unsupported = |reason, hint| {
            let isolation = Isolation::Microvm;
            Err(SandboxError::Unsupported { isolation, reason, hint: Some(hint) })
        };
        if let Some(image) = &spec.image {
            let reason = format!("it has one image for all, and none `{image}`");
            return unsupported(reason, "a container has images: `--isolation docker`");
        }
        if spec.limits.cpu_millis > 1000 {
            let reason = "a machine has one processor, and no more can be asked for".to_owned();
            let hint = "others have more: `--isolation jail` or `--isolation docker`";
            return unsupported(reason, hint);
        }
        Ok(())
    }

    async fn start(&self, identity: &Identity, spec: &Spec) -> Result<Started, SandboxError> {
        self.check(spec)?;
        let megabytes = megabytes(&spec.limits);
        let (make, snapshot) = self.frozen(identity, megabytes).await?;
        let reason = match self.workshop.thaw(&make, &snapshot, identity, spec).await {
            // Whole, and yet of no use: it depends on something that its origin does not name.
            Err(RestoreError::Snapshot(reason)) => reason,
            started => return Ok(started?),
        };
        tracing::info!(%reason, megabytes, "no usable snapshot, creating one");
        self.workshop.forget(&make, &snapshot).await;
        let (make, snapshot) = self.frozen(identity, megabytes).await?;
        Ok(self.workshop.thaw(&make, &snapshot, identity, spec).await?)
    }

    async fn settle(&self) -> Result<Option<String>, SandboxError> {
        let identity =
            Identity { maker: format!("settle-{:08x}", fastrand::u32(..)), id: "1".to_owned() };
        let parts = self.workshop.parts().await?;
        let size = megabytes(&Limits::default());
        let decided = self.workshop.decide(&parts, &identity, size).await;
        Ok(Some(decided.to_string()))
    }

    fn waiting_interpreters(&self) -> usize {
        // What was translated for it stays in memory.
        if self.is_emulated() { 1 } else { usize::MAX }
    }

    fn pool_size(&self, wanted: usize) -> usize {
        // To refill one keeps a processor busy for seconds.
        if self.is_emulated() { wanted.min(EMULATED_POOL) } else { wanted }
    }

    fn idle_memory(&self) -> u64 {
        96 << 20
    }

    fn enforcement(&self) -> Enforcement {
        const GROUP: &str = "control group (v2) of the machine's own kernel";
        let outside = match self.workshop.groups() {
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
