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

/// Label with the name of the process that created a container, by which cleanup finds it.
pub(super) const MAKER: &str = "assize.maker";

/// The guest agent is root with only these [`CAPABILITIES`]. Programs run as another user, without capabilities.
const USER: &str = "0:0";

/// Needed by the guest agent to switch the user, to kill programs of that user, and to drop the other capabilities.
const CAPABILITIES: [&str; 4] = ["KILL", "SETGID", "SETUID", "SETPCAP"];

/// Size of `/dev/shm`: enough for locks and small objects. It counts as memory of the container.
const SHARED_MEMORY: i64 = 8 << 20;

/// Name of a sandbox's container. It is unique, so the engine rejects a container that was already created.
pub(super) fn name(identity: &SandboxIdentity) -> String {
    format!("assize-{identity}")
}

/// Request that creates the container of a sandbox.
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
    labels.insert(MAKER.to_owned(), identity.maker.clone());
    labels.insert("assize.id".to_owned(), identity.id.clone());
    ContainerCreateBody {
        image: Some(image.name.clone()),
        entrypoint: Some(vec![GUEST.to_owned()]),
        cmd: Some(vec!["serve".to_owned()]),
        hostname: Some("sandbox".to_owned()),
        user: Some(USER.to_owned()),
        working_dir: Some("/".to_owned()),
        labels: Some(labels),
        // The channel is the guest agent's standard input and output; the guest agent exits when it closes.
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
        // The first process of a container ignores other signals.
        stop_signal: Some("SIGKILL".to_owned()),
        host_config: Some(host_config(client, spec, image)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(client: &EngineClient, spec: &SandboxSpec, image: &DockerImage) -> HostConfig {
    let limits = &spec.limits;
    let memory = signed(limits.memory);
    let mut disks = HashMap::from([("/tmp".to_owned(), disk_options(client, limits))]);
    // The engine would create a disk without a limit for each volume of the image.
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
        // Memory and swap together: no swap.
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
        // Logs of the output would fill the engine's disk.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        mounts: Some(spec.layers.iter().map(layer).collect()),
        ..HostConfig::default()
    }
}

/// Mount options of the writable tmpfs. Programs may be executed from it, as on the other backends.
fn disk_options(client: &EngineClient, limits: &SandboxLimits) -> String {
    let options = format!("rw,exec,nosuid,nodev,size={},mode=1777", limits.disk);
    // Podman does not support `nr_inodes`.
    if client.is_podman() { options } else { format!("{options},nr_inodes={}", limits.files()) }
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
