//! Users, groups and capabilities inside a jail.

use std::fs;

use assize_protocol::jail::JailUsers;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{AtStep, StepError};
use crate::sys::Pid;

/// User id of programs inside the sandbox. The guest agent has the same user id if the jail maps only one user.
pub(crate) const PROGRAM: u32 = 1000;

/// Id, inside the jail, of the host group that gives the emulator access to a device.
pub(crate) const KEPT: u32 = 1001;

/// Maps the users and groups of the jail to users and groups of the host. The supervisor process outside the jail calls
/// this function.
pub(crate) fn map(pid: Pid, users: Option<JailUsers>, kept: Option<u32>) -> Result<(), StepError> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (user_map, group_map) = match users {
        Some(JailUsers { guest, program }) => {
            let both = format!("0 {guest} 1\n{PROGRAM} {program} 1\n");
            let kept = kept.map(|group| format!("{KEPT} {group} 1\n")).unwrap_or_default();
            (both.clone(), format!("{both}{kept}"))
        }
        None => {
            // The kernel requires an unprivileged process to disable `setgroups` before it maps a group.
            fs::write(format!("/proc/{pid}/setgroups"), "deny").step("disable `setgroups`")?;
            (format!("{PROGRAM} {user} 1\n"), format!("{PROGRAM} {group} 1\n"))
        }
    };
    fs::write(format!("/proc/{pid}/gid_map"), group_map).step("map groups")?;
    fs::write(format!("/proc/{pid}/uid_map"), user_map).step("map users")
}

/// Switches to the guest agent's user (root of the user namespace), which has all capabilities in the jail.
pub(crate) fn become_guest() -> Result<(), StepError> {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let (user, group) = (rustix::process::Uid::ROOT, rustix::process::Gid::ROOT);
    set_thread_groups(&[]).step("drop the supplementary groups")?;
    set_thread_res_gid(group, group, group).step("switch to the guest agent's group")?;
    set_thread_res_uid(user, user, user).step("switch to the guest agent's user")
}

/// Switches to the user of programs, which has no capabilities. With `with_group`, the process stays in the group
/// [`KEPT`].
pub(crate) fn become_program(with_group: bool) -> std::io::Result<()> {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let user = rustix::process::Uid::from_raw(PROGRAM);
    let group = rustix::process::Gid::from_raw(PROGRAM);
    let kept = [rustix::process::Gid::from_raw(KEPT)];
    set_thread_groups(if with_group { &kept } else { &[] })?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Drops the capabilities of this process. With `with_other_user`, keeps those that the guest agent needs to run
/// programs as another user and to kill them. In a jail, the kept capabilities are valid only in the jail's user
/// namespace.
pub(crate) fn drop_capabilities(with_other_user: bool) -> Result<(), StepError> {
    let kept = if with_other_user {
        CapabilitySet::KILL | CapabilitySet::SETUID | CapabilitySet::SETGID
    } else {
        CapabilitySet::empty()
    };
    for capability in CapabilitySet::all() {
        // This fails for capabilities that an older kernel does not have.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    rustix::thread::clear_ambient_capability_set().step("drop capabilities")?;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).step("drop capabilities")
}
