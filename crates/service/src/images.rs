//! Builds, lists and removes the images of Docker containers and microVMs (`assize image`).

use std::path::PathBuf;

use assize_sandbox::docker::{Docker, DockerImageInfo};
use assize_sandbox::microvm::{self, Microvm};
use assize_sandbox::rootfs;
use assize_types::{Failure, FailureKind};

use crate::Services;

/// Name of the image that all microVMs boot from.
pub const MICROVM: &str = "microvm";

/// The container images and the microVM image of this machine.
#[derive(Debug)]
pub struct Images {
    docker: Docker,
    microvm: Microvm,
    cache_folder: PathBuf,
}

/// An image that this machine could use, but that is not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingImage {
    Container,
    Microvm,
}

/// Files that the microVM image is built from. If a file is `None`, files from Debian packages are used instead.
pub type MicrovmSources = microvm::VmImageSources;

impl Services {
    /// Returns the container images and the microVM image of this machine.
    pub fn images(&self) -> Result<Images, Failure> {
        self.settings.reject_untrusted_values()?;
        let sandboxes = self.sandboxes();
        Ok(Images {
            docker: sandboxes.docker(),
            microvm: sandboxes.microvm(),
            cache_folder: self.environment.cache_folder.clone(),
        })
    }
}

impl Images {
    /// Returns the images that are not built, although their engine (Docker, Podman or QEMU) works.
    pub async fn missing(&self) -> Vec<MissingImage> {
        let mut missing = Vec::new();
        if self.docker.probe().await.is_ok_and(|engine| engine.image.is_err()) {
            missing.push(MissingImage::Container);
        }
        if self.microvm.lacks_only_image() {
            missing.push(MissingImage::Microvm);
        }
        missing
    }

    /// Uses Debian packages to build the base image of containers. Returns the name of the image and its size in bytes.
    pub async fn build_base(
        &self,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(String, u64), Failure> {
        // Check that Docker works before the build, which is slow.
        self.docker.probe().await?;
        let folder = &self.cache_folder;
        std::fs::create_dir_all(folder).map_err(|error| {
            let message = format!("cannot create `{}`: {error}", folder.display());
            Failure::new(FailureKind::Environment, message)
        })?;
        let archive = folder.join("rootfs.tar");
        rootfs::build(&archive, progress).await?;
        let image = self.docker.import_base(&archive, progress).await?;
        Ok((image.name, image.bytes))
    }

    /// Prepares a container image for use in sandboxes. `image` is the name of the image that the user chose. Returns
    /// the name of the prepared image.
    pub async fn prepare(&self, image: &str) -> Result<String, Failure> {
        Ok(self.docker.make_ready(image).await?)
    }

    /// Builds the microVM image.
    pub async fn build_microvm(
        &self,
        sources: MicrovmSources,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<microvm::VmImageInfo, Failure> {
        Ok(self.microvm.build_image(sources, progress).await?)
    }

    /// Returns why microVMs cannot be started on this machine; `None` if they can be started. A missing microVM image
    /// does not count as a reason.
    pub fn missing_for_microvm(&self) -> Option<Failure> {
        self.microvm.is_ready().err().map(Failure::from)
    }

    /// Lists all images. If the container images cannot be listed, returns only the microVM image, and the reason.
    pub async fn list(&self) -> Result<(Vec<DockerImageInfo>, Option<String>), Failure> {
        let own = self.microvm.image().map(|image| DockerImageInfo {
            name: MICROVM.to_owned(),
            id: image.digest,
            bytes: image.bytes,
            created: image.created.cast_signed(),
            from: Some(image.kernel),
            guest: None,
            current: true,
        });
        let (mut images, why_not) = match self.docker.images().await {
            Ok(images) => (images, None),
            Err(error) if own.is_some() => (Vec::new(), Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        images.extend(own);
        Ok((images, why_not))
    }

    /// Removes the image with this name.
    pub async fn remove(&self, name: &str) -> Result<(), Failure> {
        if name != MICROVM {
            return Ok(self.docker.remove_image(name).await?);
        }
        if self.microvm.remove_image()? {
            return Ok(());
        }
        let message = "cannot remove the microVM image: no microVM image exists";
        Err(Failure::new(FailureKind::Usage, message).hint("`assize image ls` lists all images"))
    }
}
