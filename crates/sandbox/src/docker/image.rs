//! The images that containers are made from: our own, made of nothing but packages, and those that
//! users name, with the guest added. None is ever fetched from anywhere.

use std::collections::HashMap;
use std::path::Path;

use assize_config::Isolation;
use bollard::body_try_stream;
use bollard::errors::Error;
use bollard::models::ImageInspect;
use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptions, TagImageOptionsBuilder,
};
use futures_util::{StreamExt, TryFutureExt};
use sha2::{Digest, Sha256};
use tokio_util::io::ReaderStream;

use super::Docker;
use super::derive::{FROM, GUEST, KIND, derive};
use super::engine::{Client, Fault};
use crate::error::SandboxError;
use crate::rootfs;

/// Plain Debian with Python, as it was built.
const ROOTFS: &str = "assize/rootfs";

/// The same with the guest of one build of assize.
const BASE: &str = "assize/base";

/// Users' images with the guest.
const DERIVED: &str = "assize/derived";

/// How an engine calls what has no name any more.
const UNNAMED: &str = "<none>:<none>";

/// An image that containers can be made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) name: String,
    /// Folders that a container would have disks of its own for.
    pub(super) volumes: Vec<String>,
}

/// An image of ours, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ImageInfo {
    pub name: String,
    pub id: String,
    pub bytes: u64,
    /// Seconds since 1970.
    pub created: i64,
    /// The image that it was made from.
    pub from: Option<String>,
    /// Which guest is in it, if one is.
    pub guest: Option<String>,
    /// Whether sandboxes of this build are made from it when no other is asked for.
    pub current: bool,
}

/// The image that this build's sandboxes are made from when no other is asked for.
fn base_name() -> String {
    format!("{BASE}:{}", rootfs::digest())
}

pub(super) fn not_built() -> SandboxError {
    SandboxError::Unavailable {
        isolation: Isolation::Docker,
        reason: "its image is not built yet".to_owned(),
        hint: Some("run `assize image build`".to_owned()),
    }
}

/// Whether it can be a name: it becomes part of what the engine is asked.
fn is_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let words = text.split('/').all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()));
    text.len() <= 512 && words && text.bytes().all(known)
}

impl Docker {
    /// The image for a sandbox, made ready if it is not.
    pub(super) async fn image(
        &self,
        client: &Client,
        named: Option<&str>,
    ) -> Result<Image, SandboxError> {
        match named {
            None => self.base(client).await,
            Some(named) => self.derived(client, named).await,
        }
    }

    async fn base(&self, client: &Client) -> Result<Image, SandboxError> {
        let image = Image { name: base_name(), volumes: Vec::new() };
        if inspect(client, &image.name).await?.is_some() {
            return Ok(image);
        }
        let _one_at_a_time = self.deriving.lock().await;
        if inspect(client, &image.name).await?.is_some() {
            return Ok(image);
        }
        let from = format!("{ROOTFS}:latest");
        if inspect(client, &from).await?.is_none() {
            return Err(not_built());
        }
        // Only the guest is new.
        derive(client, &from, &image.name, "base").await?;
        tag_latest(client, &image.name).await?;
        Ok(image)
    }

    async fn derived(&self, client: &Client, named: &str) -> Result<Image, SandboxError> {
        if !is_name(named) {
            let reason = format!("`{named}` is no name for an image");
            let isolation = Isolation::Docker;
            return Err(SandboxError::Unsupported { isolation, reason, hint: None });
        }
        let Some(found) = inspect(client, named).await? else {
            return Err(SandboxError::Unavailable {
                isolation: Isolation::Docker,
                reason: format!("the engine has no image `{named}`"),
                hint: Some(format!(
                    "assize fetches none by itself: get it with `docker pull {named}`"
                )),
            });
        };
        let mut hash = Sha256::new();
        hash.update(found.id.unwrap_or_default());
        hash.update(rootfs::digest());
        let volumes = found.config.and_then(|config| config.volumes).unwrap_or_default();
        let image = Image { name: format!("{DERIVED}:{}", rootfs::short(hash)), volumes };
        if inspect(client, &image.name).await?.is_some() {
            return Ok(image);
        }
        let _one_at_a_time = self.deriving.lock().await;
        if inspect(client, &image.name).await?.is_none() {
            derive(client, named, &image.name, "derived").await?;
        }
        Ok(image)
    }

    /// Whether a sandbox could be made without an image being named, and from which; or why not.
    pub(super) async fn find_base(
        &self,
        client: &Client,
    ) -> Result<Result<String, String>, SandboxError> {
        for name in [base_name(), format!("{ROOTFS}:latest")] {
            if inspect(client, &name).await?.is_some() {
                return Ok(Ok(name));
            }
        }
        Ok(Err("it is not built yet".to_owned()))
    }

    /// Takes a root file system, as [`rootfs::build`] makes it, and makes our own image of it.
    pub async fn import_base(
        &self,
        archive: &Path,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ImageInfo, SandboxError> {
        const WHAT: &str = "importing the root file system";
        let client = self.engine.client().await?;
        let file = tokio::fs::File::open(archive)
            .await
            .map_err(|error| SandboxError::failed(WHAT, error))?;
        progress("importing the root file system");
        let options = CreateImageOptionsBuilder::new()
            .from_src("-")
            .repo(ROOTFS)
            .tag("latest")
            .changes(vec![format!("LABEL {KIND}=rootfs")])
            .build();
        let body = body_try_stream(ReaderStream::with_capacity(file, 256 * 1024));
        let patient = client.patient();
        let mut told = patient.create_image(Some(options), Some(body), None);
        while let Some(said) = told.next().await {
            said.map_err(|error| client.explain(WHAT, &error))?;
        }
        progress("adding the guest");
        let name = base_name();
        let _one_at_a_time = self.deriving.lock().await;
        derive(client, &format!("{ROOTFS}:latest"), &name, "base").await?;
        tag_latest(client, &name).await?;
        let base = self.prune(client, &name).await?;
        base.ok_or_else(|| SandboxError::failed(WHAT, "the image is gone"))
    }

    /// Makes an image that the engine has ready to be used, so that the first sandbox need not wait.
    pub async fn make_ready(&self, named: &str) -> Result<String, SandboxError> {
        let client = self.engine.client().await?;
        Ok(self.image(client, Some(named)).await?.name)
    }

    /// Removes images with an older guest, or made of an older root: they serve nobody any more. One
    /// that a sandbox was made from stays. Gives the one that is of use.
    async fn prune(&self, client: &Client, base: &str) -> Result<Option<ImageInfo>, SandboxError> {
        let mut kept = None;
        for image in list(client).await? {
            let old = image.guest.as_deref().is_some_and(|guest| guest != rootfs::digest());
            if image.name == base {
                kept = Some(image);
            } else if old {
                let _ = delete(client, &image.name).await;
            } else if image.name == UNNAMED {
                let _ = delete(client, &image.id).await;
            }
        }
        Ok(kept)
    }

    /// All images of ours that the engine has.
    pub async fn images(&self) -> Result<Vec<ImageInfo>, SandboxError> {
        let client = self.engine.client().await?;
        let mut images = list(client).await?;
        images.retain(|image| image.name != UNNAMED);
        Ok(images)
    }

    /// Removes an image of ours.
    pub async fn remove_image(&self, name: &str) -> Result<(), SandboxError> {
        const WHAT: &str = "removing the image";
        if !self.images().await?.iter().any(|image| image.name == name) {
            return Err(SandboxError::failed(
                WHAT,
                format!("`{name}` is no image of assize's own"),
            ));
        }
        let client = self.engine.client().await?;
        delete(client, name).await.map_err(|error| client.explain(WHAT, &error))
    }
}

async fn delete(client: &Client, name: &str) -> Result<(), Error> {
    client.api.remove_image(name, None::<RemoveImageOptions>, None).await.map(drop)
}

async fn list(client: &Client) -> Result<Vec<ImageInfo>, SandboxError> {
    let ours = HashMap::from([("label", vec![KIND])]);
    let options = ListImagesOptionsBuilder::new().filters(&ours).build();
    let found =
        client.retry("listing images", || client.api.list_images(Some(options.clone()))).await?;
    let mut images = Vec::new();
    for mut image in found {
        if image.repo_tags.is_empty() {
            image.repo_tags.push(UNNAMED.to_owned());
        }
        for name in image.repo_tags {
            // Podman says that it was made here, or that it might have been fetched.
            let own = ["localhost/", "docker.io/"].iter().find_map(|from| name.strip_prefix(from));
            let name = own.unwrap_or(&name).to_owned();
            images.push(ImageInfo {
                current: name == base_name(),
                name,
                id: image.id.clone(),
                bytes: u64::try_from(image.size).unwrap_or(0),
                created: image.created,
                from: image.labels.get(FROM).cloned(),
                guest: image.labels.get(GUEST).cloned(),
            });
        }
    }
    images.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(images)
}

async fn inspect(client: &Client, name: &str) -> Result<Option<ImageInspect>, SandboxError> {
    let found = client.retry("looking for the image", || {
        client.api.inspect_image(name).map_ok(Some).or_else(async |error| match Fault::of(&error) {
            Fault::Missing => Ok(None),
            _ => Err(error),
        })
    });
    found.await
}

/// Makes an image the latest base.
async fn tag_latest(client: &Client, name: &str) -> Result<(), SandboxError> {
    let options = TagImageOptionsBuilder::new().repo(BASE).tag("latest").build();
    let tagged = client.api.tag_image(name, Some(options)).await;
    tagged.map_err(|error| client.explain("naming the image", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_become_part_of_a_request() {
        for name in
            ["python:3.12", "registry.example/a/b@sha256:00ff", "localhost:5000/x_y", "0123abcd"]
        {
            assert!(is_name(name), "{name}");
        }
        for other in ["", "../containers", "a/../b", "a b", "a?x=1", "a#b", "/a", "a//b", "a%2fb"] {
            assert!(!is_name(other), "{other}");
        }
    }
}
