//! Configuration of a sandbox container, with all its limits.

use std::collections::HashMap;

use assize_config::SandboxLimits;
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
};

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
const SHARED_MEMORY: i64 = 8 << 20;

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
) -> ContainerCreateBody {
    let mut labels: HashMap<String, String> = spec
        .labels
        .iter()
        .map(|(name, value)| (format!("assize.label.{name}"), value.clone()))
        .collect();
    labels.insert(CREATOR_LABEL.to_owned(), identity.creator.clone());
    labels.insert("assize.id".to_owned(), identity.id.clone());
    ContainerCreateBody {
        image: Some(image.name.clone()),
        entrypoint: Some(vec![GUEST.to_owned()]),
        cmd: Some(vec!["serve".to_owned()]),
        hostname: Some("sandbox".to_owned()),
        user: Some(USER.to_owned()),
        working_dir: Some("/".to_owned()),
        labels: Some(labels),
        // The channel is the guest agent's standard input and output. The guest agent exits when the channel closes.
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        // The guest agent, as the first process of the container, ignores all signals except SIGKILL.
        stop_signal: Some("SIGKILL".to_owned()),
        host_config: Some(host_config(client, spec, image)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(client: &EngineClient, spec: &SandboxSpec, image: &DockerImage) -> HostConfig {
    let limits = &spec.limits;
    let memory = signed(limits.memory);
    let mut disks = HashMap::from([("/tmp".to_owned(), disk_options(client, limits))]);
    // For each volume of the image, the engine would create a disk without a size limit. A tiny read-only tmpfs
    // replaces the volume.
    disks.extend(
        image
            .volumes
            .iter()
            .filter(|at| *at != "/tmp")
            .map(|at| (at.clone(), "ro,nosuid,nodev,noexec,size=4k".to_owned())),
    );
    HostConfig {
        auto_remove: Some(true),
        memory: Some(memory),
        // Limit on memory and swap together: the container has no swap.
        memory_swap: Some(memory),
        cpu_period: Some(signed(cgroup::PERIOD)),
        cpu_quota: Some(signed(cgroup::quota(limits))),
        pids_limit: Some(signed(cgroup::processes(limits))),
        network_mode: Some("none".to_owned()),
        readonly_rootfs: Some(true),
        tmpfs: Some(disks),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(CAPABILITIES.map(str::to_owned).into()),
        privileged: Some(false),
        init: Some(false),
        ipc_mode: Some("private".to_owned()),
        shm_size: Some(SHARED_MEMORY),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        // The engine does not log the container's output, which would fill the engine's disk.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        mounts: Some(spec.layers.iter().map(layer).collect()),
        ..HostConfig::default()
    }
}

/// Mount options of the writable tmpfs. Programs can be executed from this tmpfs, as from the disks of other backends.
fn disk_options(client: &EngineClient, limits: &SandboxLimits) -> String {
    let options = format!("rw,exec,nosuid,nodev,size={},mode=1777", limits.disk);
    // Podman does not support `nr_inodes`.
    if client.is_podman() { options } else { format!("{options},nr_inodes={}", limits.max_files()) }
}

fn layer(layer: &crate::spec::SandboxLayer) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(layer.from.display().to_string()),
        target: Some(layer.at.clone()),
        read_only: Some(true),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
