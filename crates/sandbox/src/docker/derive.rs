//! Adds to an image what every sandbox needs, once, and keeps it under a name of its own.

use std::collections::HashMap;

use bollard::body_full;
use bollard::errors::Error;
use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};

use super::cell;
use super::engine::Client;
use crate::error::SandboxError;
use crate::rootfs;

/// Which kind of image of ours it is.
pub(super) const KIND: &str = "assize.image";

/// Which guest is in it.
pub(super) const GUEST: &str = "assize.guest";

/// What it was made from.
pub(super) const FROM: &str = "assize.from";

/// Makes an image of another one and what every image needs: it is put into a container that never
/// runs, and what becomes of it is kept.
pub(super) async fn derive(
    client: &Client,
    from: &str,
    name: &str,
    kind: &str,
) -> Result<(), SandboxError> {
    let additions =
        rootfs::additions().map_err(|error| SandboxError::failed("adding the guest", error))?;
    let container = format!("assize-image-{:016x}", fastrand::u64(..));
    let kept = async {
        let api = client.patient();
        let labels = HashMap::from([(KIND, kind), (FROM, from), (GUEST, rootfs::digest())]);
        let body = ContainerCreateBody {
            image: Some(from.to_owned()),
            // It never runs; an image may have none of its own.
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
    let kept: Result<_, Error> = kept.await;
    cell::remove(&client.api, &container).await;
    kept.map(drop).map_err(|error| client.explain("adding the guest to the image", &error))
}
