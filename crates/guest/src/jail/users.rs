//! Who is who in a jail, and what they may do.

use std::fs;

use assize_protocol::jail::Users;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{AtStep, Step};
use crate::sys::Pid;

/// The user that programs are inside, and the guest too where there is only one.
pub(crate) const PROGRAM: u32 = 1000;

/// The number that a group of the host has inside, where one is kept.
pub(crate) const KEPT: u32 = 1001;

/// Says which users of the host those inside are. Done from outside, by whoever made the jail.
pub(crate) fn map(pid: Pid, users: Option<Users>, kept: Option<u32>) -> Result<(), Step> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (user_map, group_map) = match users {
        Some(Users { guest, program }) => {
            let both = format!("0 {guest} 1\n{PROGRAM} {program} 1\n");
            let kept = kept.map(|group| format!("{KEPT} {group} 1\n")).unwrap_or_default();
            (both.clone(), format!("{both}{kept}"))
        }
        None => {
            // The kernel asks for this of those who map only themselves.
            fs::write(format!("/proc/{pid}/setgroups"), "deny").step("giving up groups")?;
            (format!("{PROGRAM} {user} 1\n"), format!("{PROGRAM} {group} 1\n"))
        }
    };
    fs::write(format!("/proc/{pid}/gid_map"), group_map).step("mapping groups")?;
    fs::write(format!("/proc/{pid}/uid_map"), user_map).step("mapping users")
}

/// Becomes the guest's own user, with all rights over the jail that is being built.
pub(crate) fn become_guest() -> Result<(), Step> {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let (user, group) = (rustix::process::Uid::ROOT, rustix::process::Gid::ROOT);
    set_thread_groups(&[]).step("leaving groups")?;
    set_thread_res_gid(group, group, group).step("becoming the guest's group")?;
    set_thread_res_uid(user, user, user).step("becoming the guest's user")
}

/// Becomes the user that programs are, with no rights at all, and a member of the group that is kept.
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

/// Gives up all rights but those to start programs as another user and to end them, which only
/// reach as far as the jail; and these too where there is no other user.
pub(crate) fn drop_rights(with_other_user: bool) -> Result<(), Step> {
    let kept = if with_other_user {
        CapabilitySet::KILL | CapabilitySet::SETUID | CapabilitySet::SETGID
    } else {
        CapabilitySet::empty()
    };
    for capability in CapabilitySet::all() {
        // Older kernels do not know them all.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    rustix::thread::clear_ambient_capability_set().step("dropping capabilities")?;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).step("dropping capabilities")
}
