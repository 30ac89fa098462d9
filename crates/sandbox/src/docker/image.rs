//! Images of Docker sandboxes: the base image, built only from Debian packages, and users' images with the guest agent
//! added. Images are never pulled from a registry.

use std::collections::BTreeMap;
use std::path::Path;

use assize_config::Isolation;
use futures_util::TryFutureExt;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::io::ReaderStream;

use super::Docker;
use super::api::{self, EngineError};
use super::derive::{FROM, GUEST, KIND, derive};
use super::engine::{EngineClient, EngineFault};
use crate::error::SandboxError;
use crate::rootfs;

/// Name of the image with plain Debian and Python, without the guest agent.
const ROOTFS: &str = "assize/rootfs";

/// Name of the images with Debian and the guest agent. The tag is the digest of the guest agent.
const BASE: &str = "assize/base";

/// Name of the images that are derived from users' images by adding the guest agent.
const DERIVED: &str = "assize/derived";

/// Name that engines report for an untagged image.
const UNNAMED: &str = "<none>:<none>";

/// An image that is ready for sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DockerImage {
    pub(super) name: String,
    /// Paths of the volumes that the image declares. At each path, a tiny read-only tmpfs is mounted, because without
    /// it the engine would create a disk without a size limit at that path.
    pub(super) volumes: Vec<String>,
}

/// Information for users about an image that assize created in the container engine.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DockerImageInfo {
    pub name: String,
    pub id: String,
    pub bytes: u64,
    /// Creation time in seconds since 1970.
    pub created: i64,
    /// Name of the image that this image was derived from.
    pub from: Option<String>,
    /// Digest of the guest agent in the image, if the image contains one.
    pub guest: Option<String>,
    /// Whether the image is the default image of this build of assize.
    pub current: bool,
}

/// Name of the default image of this build of assize.
fn base_name() -> String {
    format!("{BASE}:{}", rootfs::digest())
}

pub(super) fn not_built() -> SandboxError {
    SandboxError::Unavailable {
        isolation: Isolation::Docker,
        reason: "the base image is not built".to_owned(),
        hint: Some("run `assize image build`".to_owned()),
    }
}

/// Whether a text is a valid image name. The name becomes part of the URL of requests to the engine.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let parts = text.split('/').all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()));
    text.len() <= 512 && parts && text.bytes().all(allowed)
}

/// Returns an error if a text is not a valid image name.
pub(super) fn check_name(text: &str) -> Result<(), SandboxError> {
    if is_name(text) {
        return Ok(());
    }
    let reason = format!("invalid image name `{text}`");
    Err(SandboxError::Unsupported { isolation: Isolation::Docker, reason, hint: None })
}

impl Docker {
    /// Returns the image for a sandbox: the base image, or the image that is derived from the user's image `named`.
    /// Creates the image first if it does not exist.
    pub(super) async fn image(
        &self,
        client: &EngineClient,
        named: Option<&str>,
    ) -> Result<DockerImage, SandboxError> {
        match named {
            None => self.base(client).await,
            Some(named) => self.derived(client, named).await,
        }
    }

    async fn base(&self, client: &EngineClient) -> Result<DockerImage, SandboxError> {
        let image = DockerImage { name: base_name(), volumes: Vec::new() };
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
        // The existing root file system is reused, and only the new guest agent is added.
        derive(client, &from, &image.name, "base").await?;
        tag_latest(client, &image.name).await?;
        Ok(image)
    }

    async fn derived(
        &self,
        client: &EngineClient,
        named: &str,
    ) -> Result<DockerImage, SandboxError> {
        check_name(named)?;
        let Some(found) = inspect(client, named).await? else {
            return Err(SandboxError::Unavailable {
                isolation: Isolation::Docker,
                reason: format!("the engine has no image `{named}`"),
                hint: Some(format!("assize pulls no images; run `docker pull {named}`")),
            });
        };
        let mut hash = Sha256::new();
        hash.update(found.id);
        hash.update(rootfs::digest());
        let volumes = found.config.and_then(|config| config.volumes);
        let volumes = volumes.unwrap_or_default().into_keys().collect();
        let image = DockerImage { name: format!("{DERIVED}:{}", rootfs::short(hash)), volumes };
        if inspect(client, &image.name).await?.is_some() {
            return Ok(image);
        }
        let _one_at_a_time = self.deriving.lock().await;
        if inspect(client, &image.name).await?.is_none() {
            derive(client, named, &image.name, "derived").await?;
        }
        Ok(image)
    }

    /// Returns the name of the base image, which is the default image of sandboxes. If the base image does not exist,
    /// returns the name of the root file system image, from which the base image is derived on first use. If neither
    /// image exists, returns the reason as the inner error.
    pub(super) async fn find_base(
        &self,
        client: &EngineClient,
    ) -> Result<Result<String, String>, SandboxError> {
        for name in [base_name(), format!("{ROOTFS}:latest")] {
            if inspect(client, &name).await?.is_some() {
                return Ok(Ok(name));
            }
        }
        Ok(Err("not built".to_owned()))
    }

    /// Imports a root file system built by [`rootfs::build`] and derives the default image from it.
    pub async fn import_base(
        &self,
        archive: &Path,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<DockerImageInfo, SandboxError> {
        const WHAT: &str = "importing the root file system";
        let client = self.engine.client().await?;
        let file = tokio::fs::File::open(archive)
            .await
            .map_err(|error| SandboxError::failed(WHAT, error))?;
        progress("importing the root file system");
        let label = format!("LABEL {KIND}=rootfs");
        let query =
            [("fromSrc", "-"), ("repo", ROOTFS), ("tag", "latest"), ("changes", label.as_str())];
        let body = api::stream(ReaderStream::with_capacity(file, 256 * 1024));
        let steps = client.with_image_timeout().post("/images/create", &query, Some(body)).await;
        steps
            .and_then(|steps| check_steps(&steps))
            .map_err(|error| client.explain(WHAT, &error))?;
        progress("adding the guest agent");
        let name = base_name();
        let _one_at_a_time = self.deriving.lock().await;
        derive(client, &format!("{ROOTFS}:latest"), &name, "base").await?;
        tag_latest(client, &name).await?;
        let base = self.prune(client, &name).await?;
        base.ok_or_else(|| {
            SandboxError::failed(WHAT, "the new image was removed before the import ended")
        })
    }

    /// Derives the sandbox image from a user's image in advance, so that the first sandbox starts without delay.
    pub async fn make_ready(&self, named: &str) -> Result<String, SandboxError> {
        let client = self.engine.client().await?;
        Ok(self.image(client, Some(named)).await?.name)
    }

    /// Removes unused images whose guest agent differs from that of this build of assize, and unused images without a
    /// name. Returns the description of the image `base`.
    async fn prune(
        &self,
        client: &EngineClient,
        base: &str,
    ) -> Result<Option<DockerImageInfo>, SandboxError> {
        let mut current = None;
        for image in list(client).await? {
            let old = image.guest.as_deref().is_some_and(|guest| guest != rootfs::digest());
            if image.name == base {
                current = Some(image);
            } else if old {
                let _ = delete(client, &image.name).await;
            } else if image.name == UNNAMED {
                let _ = delete(client, &image.id).await;
            }
        }
        Ok(current)
    }

    /// Lists all images in the engine that assize created.
    pub async fn images(&self) -> Result<Vec<DockerImageInfo>, SandboxError> {
        let client = self.engine.client().await?;
        let mut images = list(client).await?;
        images.retain(|image| image.name != UNNAMED);
        Ok(images)
    }

    /// Removes an image that assize created.
    pub async fn remove_image(&self, name: &str) -> Result<(), SandboxError> {
        const WHAT: &str = "removing the image";
        if !self.images().await?.iter().any(|image| image.name == name) {
            return Err(SandboxError::failed(WHAT, format!("assize created no image `{name}`")));
        }
        let client = self.engine.client().await?;
        delete(client, name).await.map_err(|error| client.explain(WHAT, &error))
    }
}

/// Returns the error that the engine reported while it imported an image. It reports its steps, and the error, as JSON
/// values after the successful status of its response.
fn check_steps(steps: &[u8]) -> Result<(), EngineError> {
    for step in serde_json::Deserializer::from_slice(steps).into_iter::<Value>() {
        let step = step.map_err(|error| EngineError::Unexpected(error.to_string()))?;
        let message = step["errorDetail"]["message"].as_str().or(step["error"].as_str());
        if let Some(message) = message {
            return Err(EngineError::Response { status: 200, message: message.to_owned() });
        }
    }
    Ok(())
}

/// Properties of an image, as the engine reports them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct InspectedImage {
    id: String,
    config: Option<ImageConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ImageConfig {
    volumes: Option<BTreeMap<String, Value>>,
}

/// Image in a list, as the engine reports it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ListedImage {
    id: String,
    repo_tags: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
    size: i64,
    created: i64,
}

async fn delete(client: &EngineClient, name: &str) -> Result<(), EngineError> {
    client.api.delete(&format!("/images/{name}"), &[]).await
}

async fn list(client: &EngineClient) -> Result<Vec<DockerImageInfo>, SandboxError> {
    let ours = json!({"label": [KIND]}).to_string();
    let query = [("filters", ours.as_str())];
    let list = || client.api.get("/images/json", &query);
    let found: Vec<ListedImage> = client.retry("listing images", list).await?;
    let mut images = Vec::new();
    for image in found {
        let labels = image.labels.unwrap_or_default();
        let mut names = image.repo_tags.unwrap_or_default();
        if names.is_empty() {
            names.push(UNNAMED.to_owned());
        }
        for name in names {
            // Podman adds a registry prefix to the names of local images.
            let own = ["localhost/", "docker.io/"].iter().find_map(|from| name.strip_prefix(from));
            let name = own.unwrap_or(&name).to_owned();
            images.push(DockerImageInfo {
                current: name == base_name(),
                name,
                id: image.id.clone(),
                bytes: u64::try_from(image.size).unwrap_or(0),
                created: image.created,
                from: labels.get(FROM).cloned(),
                guest: labels.get(GUEST).cloned(),
            });
        }
    }
    images.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(images)
}

async fn inspect(
    client: &EngineClient,
    name: &str,
) -> Result<Option<InspectedImage>, SandboxError> {
    let path = format!("/images/{name}/json");
    let found = client.retry("inspecting the image", || {
        client.api.get(&path, &[]).map_ok(Some).or_else(async |error| {
            match EngineFault::of(&error) {
                EngineFault::Missing => Ok(None),
                _ => Err(error),
            }
        })
    });
    found.await
}

/// Tags an image as the latest base image.
async fn tag_latest(client: &EngineClient, name: &str) -> Result<(), SandboxError> {
    let query = [("repo", BASE), ("tag", "latest")];
    let tagged = client.api.post(&format!("/images/{name}/tag"), &query, None).await;
    tagged.map(drop).map_err(|error| client.explain("tagging the image", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_image_names_are_rejected() {
        for name in
            ["python:3.12", "registry.example/a/b@sha256:00ff", "localhost:5000/x_y", "0123abcd"]
        {
            assert!(is_name(name), "{name}");
        }
        for other in ["", "../containers", "a/../b", "a b", "a?x=1", "a#b", "/a", "a//b", "a%2fb"] {
            assert!(!is_name(other), "{other}");
        }
    }

    #[test]
    fn error_after_the_successful_status_of_an_import_is_found() {
        let steps = "{\"status\": \"sha256:00ff\"}\r\n";
        check_steps(steps.as_bytes()).unwrap();
        let failed = format!("{steps}{{\"error\": \"write /x: no space left on device\"}}");
        let error = check_steps(failed.as_bytes()).unwrap_err();
        assert_eq!(EngineFault::of(&error), EngineFault::Full);
        assert!(check_steps(b"{\"status\":").is_err());
    }
}
