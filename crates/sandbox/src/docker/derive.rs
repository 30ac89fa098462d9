//! Derives sandbox images: adds the guest agent and its files to an existing image, and commits the result as a new
//! image.

use std::collections::HashMap;

use bollard::body_full;
use bollard::errors::Error;
use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};

use super::engine::EngineClient;
use super::handle;
use crate::error::SandboxError;
use crate::rootfs;

/// Label of every image that assize creates. Its value is the kind of image: `rootfs`, `base` or `derived`.
pub(super) const KIND: &str = "assize.image";

/// Label with the digest of the guest agent and its files in the image.
pub(super) const GUEST: &str = "assize.guest";

/// Label with the name of the image that an image was derived from.
pub(super) const FROM: &str = "assize.from";

/// Derives an image: copies the guest agent and its files into a container that never runs, and commits the container.
pub(super) async fn derive(
    client: &EngineClient,
    from: &str,
    name: &str,
    kind: &str,
) -> Result<(), SandboxError> {
    let additions = rootfs::additions()
        .map_err(|error| SandboxError::failed("packing the guest agent for the image", error))?;
    let container = format!("assize-image-{:016x}", fastrand::u64(..));
    let committed = async {
        let api = client.with_image_timeout();
        let labels = HashMap::from([(KIND, kind), (FROM, from), (GUEST, rootfs::digest())]);
        let body = ContainerCreateBody {
            image: Some(from.to_owned()),
            // The engine requires a command, and the source image may have none. The container never runs.
            entrypoint: Some(vec![rootfs::GUEST.to_owned()]),
            cmd: Some(vec!["serve".to_owned()]),
            labels: Some(
                labels
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            ),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptionsBuilder::new().name(&container).build();
        api.create_container(Some(options), body).await?;
        let root = UploadToContainerOptionsBuilder::new().path("/").build();
        api.upload_to_container(&container, Some(root), body_full(additions.into())).await?;
        let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
        let options = CommitContainerOptionsBuilder::new()
            .container(&container)
            .repo(repository)
            .tag(tag)
            .pause(false)
            .build();
        api.commit_container(options, ContainerConfig::default()).await
    };
    let committed: Result<_, Error> = committed.await;
    handle::remove(&client.api, &container).await;
    committed
        .map(drop)
        .map_err(|error| client.explain("adding the guest agent to the image", &error))
}
