//! Derives sandbox images: adds the guest agent and its files to an existing image, and commits the result as a new
//! image.

use serde_json::json;

use super::api::{self, EngineError};
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
        let body = json!({
            "Image": from,
            // The engine requires a command, and the source image may have none. The container never runs.
            "Entrypoint": [rootfs::GUEST],
            "Cmd": ["serve"],
            "Labels": {KIND: kind, FROM: from, GUEST: rootfs::digest()},
        });
        let named = [("name", container.as_str())];
        api.post("/containers/create", &named, Some(api::json(&body))).await?;
        let archive = format!("/containers/{container}/archive");
        api.put(&archive, &[("path", "/")], api::bytes(additions.into())).await?;
        let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
        let image =
            [("container", &*container), ("repo", repository), ("tag", tag), ("pause", "false")];
        api.post("/commit", &image, Some(api::json(&json!({})))).await
    };
    let committed: Result<_, EngineError> = committed.await;
    handle::remove(&client.api, &container).await;
    committed
        .map(drop)
        .map_err(|error| client.explain("adding the guest agent to the image", &error))
}
