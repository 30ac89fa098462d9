//! Finds out where this process may make control groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use assize_config::Limits;

use super::{Group, PREFIX, mount, mounts, own_folder, write};

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Groups {
    /// One folder for each kind of account, where it can be kept.
    V1 { memory: Option<PathBuf>, pids: Option<PathBuf>, cpu: Option<PathBuf> },
    /// One folder for all, and the kinds that can be kept in it.
    V2 { folder: PathBuf, kinds: Vec<String> },
    /// Nowhere, and why.
    None(String),
}

/// The accounts that a jail needs.
const NEEDED: [&str; 3] = ["memory", "pids", "cpu"];

/// Group that this process moves itself to when it is in the delegated group: a group with processes in it hands no
/// controller on.
const OWN: &str = "assize";

const NOT_DELEGATED: &str = "no control group was handed to this user; `systemd-run --user --scope assize …` has one \
                             where there is systemd";

const OTHERS: &str = "other processes are in the control group that was handed to this user; they or assize have to be in \
                      one below it";

impl Groups {
    /// Looks where this process may make groups, and has the kernel keep all accounts there that we
    /// need, as the engines of containers do.
    pub(crate) fn find() -> Groups {
        let (mounts, own) = (mounts(), fs::read_to_string("/proc/self/cgroup").unwrap_or_default());
        let mut groups = Groups::find_in(&mounts, &own, may_make_groups);
        if let Groups::V2 { folder, kinds } = &mut groups {
            enable(folder, kinds);
            if !has(kinds, "memory") && own_folder(&mounts, &own, None).as_ref() == Some(folder) {
                step_down(folder, kinds);
            }
            if !has(kinds, "memory") {
                return Groups::None(OTHERS.to_owned());
            }
        }
        groups
    }

    fn find_in(mounts: &str, own: &str, may: impl Fn(&Path) -> bool) -> Groups {
        let first = |kind: &str| own_folder(mounts, own, Some(kind)).filter(|folder| may(folder));
        let (memory, pids, cpu) = (first("memory"), first("pids"), first("cpu"));
        if memory.is_some() || pids.is_some() {
            return Groups::V1 { memory, pids, cpu };
        }
        let root = mounts.lines().find_map(|line| Some(mount(line, None)?.1));
        if let Some((own, root)) = own_folder(mounts, own, None).zip(root) {
            return best(&own, Path::new(root), may)
                .unwrap_or_else(|| Groups::None(NOT_DELEGATED.to_owned()));
        }
        if mounts.contains(" - cgroup ") {
            return Groups::None("the control groups of this machine belong to root".to_owned());
        }
        Groups::None("our own control group is not to be seen here".to_owned())
    }

    /// Makes the groups of one jail.
    pub(crate) fn make(&self, id: &str, limits: &Limits) -> io::Result<Group> {
        let name = format!("{PREFIX}{id}");
        let mut group = Group::default();
        let made = match self {
            Groups::V1 { memory, pids, cpu } => group.make_v1([memory, pids, cpu], &name, limits),
            Groups::V2 { folder, kinds } => group.make_v2(&folder.join(name), kinds, limits),
            Groups::None(_) => Ok(()),
        };
        match made {
            Ok(()) => Ok(group),
            Err(error) => {
                group.remove();
                Err(error)
            }
        }
    }
}

/// The best place for groups of the second version on the way up from our own: where most accounts are handed on, and
/// else where it is the nearest. Where none are handed on yet, the nearest group that could; our own comes last, as we
/// would have to leave it.
fn best(own: &Path, root: &Path, may: impl Fn(&Path) -> bool) -> Option<Groups> {
    let above = own.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    let mut best: Option<(usize, Groups)> = None;
    for folder in above.chain([own]) {
        let handed = words(folder, "cgroup.subtree_control");
        // Only at the root can both processes be in a group and groups below it have accounts.
        let is_handed = has(&handed, "memory") && (folder != own || own == root);
        if !is_handed && !has(&words(folder, "cgroup.controllers"), "memory") {
            continue;
        }
        let kinds = if is_handed { handed } else { Vec::new() };
        let count = NEEDED.iter().filter(|kind| has(&kinds, kind)).count();
        if best.as_ref().is_none_or(|(most, _)| count > *most) && may(folder) {
            best = Some((count, Groups::V2 { folder: folder.to_owned(), kinds }));
        }
    }
    best.map(|(_, groups)| groups)
}

/// Has a group hand on what is needed and is not handed on yet.
fn enable(folder: &Path, kinds: &mut Vec<String>) {
    for kind in NEEDED {
        if !has(kinds, kind) && write(folder, "cgroup.subtree_control", format!("+{kind}")).is_ok()
        {
            kinds.push(kind.to_owned());
        }
        // A group with processes in it cannot enable memory for its subgroups, but could enable the others: for groups of threads
        // alone, from which there is no way back.
        if !has(kinds, "memory") {
            return;
        }
    }
}

/// Moves this process from its group to one below, so that the group can hand controllers on; and back, if it still
/// cannot.
fn step_down(folder: &Path, kinds: &mut Vec<String>) {
    let below = folder.join(OWN);
    // It may be there already, with a process of ours that came before.
    let _ = fs::create_dir(&below);
    if write(&below, "cgroup.procs", 0).is_ok() {
        enable(folder, kinds);
    }
    if !has(kinds, "memory") {
        let _ = write(folder, "cgroup.procs", 0);
        let _ = fs::remove_dir(&below);
    }
}

fn words(folder: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn has(kinds: &[String], kind: &str) -> bool {
    kinds.iter().any(|each| each == kind)
}

/// Whether we may make a group here and move processes of ours into it.
fn may_make_groups(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(folder, Access::WRITE_OK).is_ok()
        && access(folder.join("cgroup.procs"), Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{V1, unified};
    use super::*;

    #[test]
    fn groups_of_the_first_version_are_made_below_our_own() {
        let own = "9:memory:/process/1\n8:pids:/\n7:cpu,cpuacct:/\n0::/\n";
        let groups = Groups::find_in(V1, own, |_| true);
        let folder = |path: &str| Some(PathBuf::from(path));
        assert_eq!(
            groups,
            Groups::V1 {
                memory: folder("/sys/fs/cgroup/memory/process/1"),
                pids: folder("/sys/fs/cgroup/pids"),
                cpu: folder("/sys/fs/cgroup/cpu,cpuacct"),
            }
        );
        let none = Groups::find_in(V1, own, |_| false);
        assert!(matches!(none, Groups::None(_)), "{none:?}");
        assert!(matches!(Groups::find_in("", "", |_| true), Groups::None(_)));
        // In a container only a part of the tree is mounted.
        let mounts = "31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = Groups::find_in(mounts, "9:memory:/docker/abc/x\n", |_| true);
        let Groups::V1 { memory, .. } = found else { panic!("{found:?}") };
        assert_eq!(memory, folder("/sys/fs/cgroup/memory/x"));
    }

    #[test]
    fn groups_of_the_second_version_are_made_beside_our_own_where_they_were_handed_to_us() {
        let (root, mounts) = unified();
        let service = "/user.slice/user-1000.slice/user@1000.service";
        let own = format!("0::{service}/app.slice/terminal.scope\n");
        let ours = root.path().join(&service[1..]);
        let found = Groups::find_in(&mounts, &own, |folder| folder.starts_with(&ours));
        // Not in the nearest one, which keeps no account of the processor.
        let kinds = ["cpu", "memory", "pids"].map(str::to_owned).into();
        assert_eq!(found, Groups::V2 { folder: ours, kinds });
        let ours = root.path().join(&service[1..]);
        // From a plain login, nothing on the way up is the user's own.
        let session = "0::/user.slice/user-1000.slice/session-1.scope\n";
        let none = Groups::find_in(&mounts, session, |folder| folder.starts_with(&ours));
        assert!(matches!(none, Groups::None(why) if why.contains("no control group was handed")));
        // Root may make them anywhere.
        let found = Groups::find_in(&mounts, session, |_| true);
        assert!(matches!(found, Groups::V2 { folder, .. } if folder.ends_with("user.slice")));
    }

    #[test]
    fn delegated_group_that_hands_nothing_on_yet_is_found() {
        let (root, mounts) = unified();
        let service = root.path().join("system.slice/assize.service");
        fs::create_dir_all(service.join("main")).unwrap();
        let expected = Groups::V2 { folder: service.clone(), kinds: Vec::new() };
        let find = |own: &str| {
            Groups::find_in(&mounts, &format!("0::/system.slice/{own}\n"), |folder| {
                folder.starts_with(&service)
            })
        };
        // Without a controller of memory it is of no use.
        assert!(matches!(find("assize.service"), Groups::None(_)));
        fs::write(service.join("cgroup.controllers"), "cpu memory pids").unwrap();
        assert_eq!(find("assize.service"), expected);
        assert_eq!(find("assize.service/main"), expected);
        assert!(matches!(find("other.service"), Groups::None(_)));
    }
}
