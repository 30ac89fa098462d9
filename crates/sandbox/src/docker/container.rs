//! What a container is made with: all of its limits are here.

use std::collections::HashMap;

use assize_config::Limits;
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
};

use super::engine::Client;
use super::image::Image;
use crate::backend::Identity;
use crate::cgroup;
use crate::rootfs::GUEST;
use crate::spec::Spec;

/// The label by which all that a maker made is found.
pub(super) const MAKER: &str = "assize.maker";

/// The guest is root of the container, without any right but these. Programs run as another user, with none.
const USER: &str = "0:0";

/// What the guest needs to become another user, to end programs of that user, and to give up the rest.
const RIGHTS: [&str; 4] = ["KILL", "SETGID", "SETUID", "SETPCAP"];

/// Memory that processes share by name: room for locks and small things. It is counted as memory.
const SHARED_MEMORY: i64 = 8 << 20;

/// The name of a sandbox's container: made twice by mistake, the second is told so.
pub(super) fn name(identity: &Identity) -> String {
    format!("assize-{identity}")
}

pub(super) fn body(
    client: &Client,
    identity: &Identity,
    spec: &Spec,
    image: &Image,
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
        // The channel is the guest's standard input and output, and its life hangs on it.
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
        // A first process heeds no other.
        stop_signal: Some("SIGKILL".to_owned()),
        host_config: Some(host_config(client, spec, image)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(client: &Client, spec: &Spec, image: &Image) -> HostConfig {
    let limits = &spec.limits;
    let memory = signed(limits.memory);
    let mut disks = HashMap::from([("/tmp".to_owned(), disk_options(client, limits))]);
    // What an image calls a volume would be a disk without a limit.
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
        cap_add: Some(RIGHTS.map(str::to_owned).into()),
        privileged: Some(false),
        init: Some(false),
        ipc_mode: Some("private".to_owned()),
        shm_size: Some(SHARED_MEMORY),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        // What is written would fill the engine's disk.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        mounts: Some(spec.layers.iter().map(layer).collect()),
        ..HostConfig::default()
    }
}

/// Programs may be run from it, as anywhere else.
fn disk_options(client: &Client, limits: &Limits) -> String {
    let options = format!("rw,exec,nosuid,nodev,size={},mode=1777", limits.disk);
    // Podman does not know the word.
    if client.is_podman() { options } else { format!("{options},nr_inodes={}", limits.files()) }
}

fn layer(layer: &crate::spec::Layer) -> Mount {
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
