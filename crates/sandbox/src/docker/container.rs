//! Configuration of a sandbox container, with all its limits.

use std::collections::BTreeMap;

use assize_config::SandboxLimits;
use serde_json::{Value, json};

use super::engine::EngineClient;
use super::image::DockerImage;
use crate::backend::SandboxIdentity;
use crate::cgroup;
use crate::rootfs::GUEST;
use crate::spec::SandboxSpec;

/// Container label whose value is the name of the process that created the container. The cleanup after the death of
/// that process finds the container by this label.
pub(super) const CREATOR_LABEL: &str = "assize.maker";

/// User and group id of the guest agent: root, but with no other capabilities than [`CAPABILITIES`]. Programs run as
/// another user, without capabilities.
const USER: &str = "0:0";

/// Capabilities that the guest agent needs to start programs as another user, to kill them, and to drop capabilities.
const CAPABILITIES: [&str; 4] = ["KILL", "SETGID", "SETUID", "SETPCAP"];

/// Size of `/dev/shm` in bytes: enough for locks and small objects. It counts as memory of the container.
const SHARED_MEMORY: u64 = 8 << 20;

/// Returns the container name of a sandbox. As no two containers can have the same name, the engine refuses to create
/// the container of a sandbox twice.
pub(super) fn name(identity: &SandboxIdentity) -> String {
    format!("assize-{identity}")
}

/// Returns the request that creates the container of a sandbox.
pub(super) fn body(
    client: &EngineClient,
    identity: &SandboxIdentity,
    spec: &SandboxSpec,
    image: &DockerImage,
) -> Value {
    let mut labels: BTreeMap<String, &str> = spec
        .labels
        .iter()
        .map(|(name, value)| (format!("assize.label.{name}"), value.as_str()))
        .collect();
    labels.insert(CREATOR_LABEL.to_owned(), &identity.creator);
    labels.insert("assize.id".to_owned(), &identity.id);
    json!({
        "Image": image.name,
        "Entrypoint": [GUEST],
        "Cmd": ["serve"],
        "Hostname": "sandbox",
        "User": USER,
        "WorkingDir": "/",
        "Labels": labels,
        // The channel is the guest agent's standard input and output. The guest agent exits when the channel closes.
        "OpenStdin": true,
        "StdinOnce": true,
        "AttachStdin": true,
        "AttachStdout": true,
        "AttachStderr": true,
        "Tty": false,
        "Healthcheck": {"Test": ["NONE"]},
        // The guest agent, as the first process of the container, ignores all signals except SIGKILL.
        "StopSignal": "SIGKILL",
        "HostConfig": host_config(client, spec, image),
    })
}

fn host_config(client: &EngineClient, spec: &SandboxSpec, image: &DockerImage) -> Value {
    let limits = &spec.limits;
    let mut disks = BTreeMap::from([("/tmp", disk_options(client, limits))]);
    // For each volume of the image, the engine would create a disk without a size limit. A tiny read-only tmpfs
    // replaces the volume.
    disks.extend(
        image
            .volumes
            .iter()
            .filter(|at| *at != "/tmp")
            .map(|at| (at.as_str(), "ro,nosuid,nodev,noexec,size=4k".to_owned())),
    );
    json!({
        "AutoRemove": true,
        "Memory": limits.memory,
        // Limit on memory and swap together: the container has no swap.
        "MemorySwap": limits.memory,
        "CpuPeriod": cgroup::PERIOD,
        "CpuQuota": cgroup::quota(limits),
        "PidsLimit": cgroup::processes(limits),
        "NetworkMode": "none",
        "ReadonlyRootfs": true,
        "Tmpfs": disks,
        "SecurityOpt": ["no-new-privileges"],
        "CapDrop": ["ALL"],
        "CapAdd": CAPABILITIES,
        "Privileged": false,
        "Init": false,
        "IpcMode": "private",
        "ShmSize": SHARED_MEMORY,
        "CgroupnsMode": "private",
        // The engine does not log the container's output, which would fill the engine's disk.
        "LogConfig": {"Type": "none"},
        "Mounts": spec.layers.iter().map(layer).collect::<Vec<_>>(),
    })
}

/// Mount options of the writable tmpfs. Programs can be executed from this tmpfs, as from the disks of other backends.
fn disk_options(client: &EngineClient, limits: &SandboxLimits) -> String {
    let options = format!("rw,exec,nosuid,nodev,size={},mode=1777", limits.disk);
    // Podman does not support `nr_inodes`.
    if client.is_podman() { options } else { format!("{options},nr_inodes={}", limits.max_files()) }
}

fn layer(layer: &crate::spec::SandboxLayer) -> Value {
    json!({
        "Type": "bind",
        "Source": layer.from,
        "Target": layer.at,
        "ReadOnly": true,
        "BindOptions": {"Propagation": "rprivate"},
    })
}
