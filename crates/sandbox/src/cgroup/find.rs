//! Finds the cgroups below which this process is allowed to create cgroups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use assize_config::SandboxLimits;

use super::{JailCgroup, PREFIX, mount, mounts, own_folder, write};

/// Parent cgroups below which this process creates the cgroups of jails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CgroupParents {
    /// cgroup v1: the folder of the parent cgroup for each controller; `None` for a controller that is not available.
    V1 { memory: Option<PathBuf>, pids: Option<PathBuf>, cpu: Option<PathBuf> },
    /// cgroup v2: the folder of the parent cgroup, and the names of the controllers that the parent cgroup enables for
    /// its subgroups.
    V2 { folder: PathBuf, kinds: Vec<String> },
    /// This process cannot create cgroups. The text is the reason, for users.
    None(String),
}

/// The cgroup controllers that a jail needs.
const NEEDED: [&str; 3] = ["memory", "pids", "cpu"];

/// Name of the subgroup into which this process moves itself. The move is necessary, because a delegated cgroup cannot
/// enable controllers for its subgroups while it contains processes.
const OWN: &str = "assize";

const NOT_DELEGATED: &str = "no cgroup is delegated to this user; with systemd, `systemd-run --user --scope assize …` \
                             creates one";

const OTHERS: &str = "other processes are in the cgroup that is delegated to this user; they or assize must run in a \
                      subgroup";

impl CgroupParents {
    /// Returns the cgroups below which this process is allowed to create cgroups. The first call finds them, and enables
    /// the needed controllers in them, as container engines do. It must come before the first child process, which would
    /// keep a delegated cgroup busy.
    pub(crate) fn of_this_process() -> CgroupParents {
        static FOUND: OnceLock<CgroupParents> = OnceLock::new();
        FOUND.get_or_init(CgroupParents::find).clone()
    }

    fn find() -> CgroupParents {
        let (mounts, own) = (mounts(), fs::read_to_string("/proc/self/cgroup").unwrap_or_default());
        let mut groups = CgroupParents::find_in(&mounts, &own, may_make_groups);
        if let CgroupParents::V2 { folder, kinds } = &mut groups {
            enable(folder, kinds);
            if !has(kinds, "memory") && own_folder(&mounts, &own, None).as_ref() == Some(folder) {
                move_to_subgroup(folder, kinds);
            }
            if !has(kinds, "memory") {
                return CgroupParents::None(OTHERS.to_owned());
            }
        }
        groups
    }

    fn find_in(mounts: &str, own: &str, may: impl Fn(&Path) -> bool) -> CgroupParents {
        let first = |kind: &str| own_folder(mounts, own, Some(kind)).filter(|folder| may(folder));
        let (memory, pids, cpu) = (first("memory"), first("pids"), first("cpu"));
        if memory.is_some() || pids.is_some() {
            return CgroupParents::V1 { memory, pids, cpu };
        }
        let root = mounts.lines().find_map(|line| Some(mount(line, None)?.1));
        if let Some((own, root)) = own_folder(mounts, own, None).zip(root) {
            return best(&own, Path::new(root), may)
                .unwrap_or_else(|| CgroupParents::None(NOT_DELEGATED.to_owned()));
        }
        if mounts.contains(" - cgroup ") {
            return CgroupParents::None("the cgroups of this machine belong to root".to_owned());
        }
        CgroupParents::None("the cgroup of this process is not mounted".to_owned())
    }

    /// Creates the cgroups of one jail.
    pub(crate) fn make(&self, id: &str, limits: &SandboxLimits) -> io::Result<JailCgroup> {
        let name = format!("{PREFIX}{id}");
        let mut group = JailCgroup::default();
        let made = match self {
            CgroupParents::V1 { memory, pids, cpu } => {
                group.make_v1([memory, pids, cpu], &name, limits)
            }
            CgroupParents::V2 { folder, kinds } => group.make_v2(&folder.join(name), kinds, limits),
            CgroupParents::None(_) => Ok(()),
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

/// Selects the parent cgroup below which v2 cgroups are created. Candidates are the ancestors of `own` (the cgroup of
/// this process), nearest first, and then `own` itself, which is the last choice because this process would have to
/// leave it. The candidate with the most enabled controllers is selected; if several candidates have the same number of
/// enabled controllers, the first of them.
fn best(own: &Path, root: &Path, may: impl Fn(&Path) -> bool) -> Option<CgroupParents> {
    let above = own.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    let mut best: Option<(usize, CgroupParents)> = None;
    for folder in above.chain([own]) {
        let enabled = read_list(folder, "cgroup.subtree_control");
        // Only the root cgroup can both contain processes and enable controllers for its subgroups.
        let is_enabled = has(&enabled, "memory") && (folder != own || own == root);
        if !is_enabled && !has(&read_list(folder, "cgroup.controllers"), "memory") {
            continue;
        }
        let kinds = if is_enabled { enabled } else { Vec::new() };
        let count = NEEDED.iter().filter(|kind| has(&kinds, kind)).count();
        if best.as_ref().is_none_or(|(most, _)| count > *most) && may(folder) {
            best = Some((count, CgroupParents::V2 { folder: folder.to_owned(), kinds }));
        }
    }
    best.map(|(_, groups)| groups)
}

/// Enables the needed controllers for the subgroups of a cgroup.
fn enable(folder: &Path, kinds: &mut Vec<String>) {
    for kind in NEEDED {
        if !has(kinds, kind) && write(folder, "cgroup.subtree_control", format!("+{kind}")).is_ok()
        {
            kinds.push(kind.to_owned());
        }
        // A cgroup that contains processes cannot enable the memory controller for its subgroups. It could enable the
        // other controllers, but only for threaded subgroups, and that cannot be undone.
        if !has(kinds, "memory") {
            return;
        }
    }
}

/// Moves this process to a subgroup, so that its former cgroup can enable controllers. Moves the process back if
/// enabling the controllers still fails.
fn move_to_subgroup(folder: &Path, kinds: &mut Vec<String>) {
    let below = folder.join(OWN);
    // The subgroup may exist already, with another assize process in it.
    let _ = fs::create_dir(&below);
    if write(&below, "cgroup.procs", 0).is_ok() {
        enable(folder, kinds);
    }
    if !has(kinds, "memory") {
        let _ = write(folder, "cgroup.procs", 0);
        let _ = fs::remove_dir(&below);
    }
}

fn read_list(folder: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn has(kinds: &[String], kind: &str) -> bool {
    kinds.iter().any(|each| each == kind)
}

/// Whether this process is allowed to create subgroups of a cgroup and to move processes into these subgroups.
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
    fn v1_cgroups_of_jails_are_created_below_the_cgroup_of_this_process() {
        let own = "9:memory:/process/1\n8:pids:/\n7:cpu,cpuacct:/\n0::/\n";
        let groups = CgroupParents::find_in(V1, own, |_| true);
        let folder = |path: &str| Some(PathBuf::from(path));
        assert_eq!(
            groups,
            CgroupParents::V1 {
                memory: folder("/sys/fs/cgroup/memory/process/1"),
                pids: folder("/sys/fs/cgroup/pids"),
                cpu: folder("/sys/fs/cgroup/cpu,cpuacct"),
            }
        );
        let none = CgroupParents::find_in(V1, own, |_| false);
        assert!(matches!(none, CgroupParents::None(_)), "{none:?}");
        assert!(matches!(CgroupParents::find_in("", "", |_| true), CgroupParents::None(_)));
        // In a container, only a part of the cgroup tree is mounted.
        let mounts = "31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = CgroupParents::find_in(mounts, "9:memory:/docker/abc/x\n", |_| true);
        let CgroupParents::V1 { memory, .. } = found else { panic!("{found:?}") };
        assert_eq!(memory, folder("/sys/fs/cgroup/memory/x"));
    }

    #[test]
    fn v2_cgroups_are_created_in_the_delegated_ancestor() {
        let (root, mounts) = unified();
        let service = "/user.slice/user-1000.slice/user@1000.service";
        let own = format!("0::{service}/app.slice/terminal.scope\n");
        let ours = root.path().join(&service[1..]);
        let found = CgroupParents::find_in(&mounts, &own, |folder| folder.starts_with(&ours));
        // The nearest ancestor is not selected, because it has no CPU controller.
        let kinds = ["cpu", "memory", "pids"].map(str::to_owned).into();
        assert_eq!(found, CgroupParents::V2 { folder: ours, kinds });
        let ours = root.path().join(&service[1..]);
        // In a plain login session, no ancestor is delegated to the user.
        let session = "0::/user.slice/user-1000.slice/session-1.scope\n";
        let none = CgroupParents::find_in(&mounts, session, |folder| folder.starts_with(&ours));
        assert!(matches!(none, CgroupParents::None(why) if why.contains("no cgroup is delegated")));
        // Root may create cgroups anywhere.
        let found = CgroupParents::find_in(&mounts, session, |_| true);
        assert!(
            matches!(found, CgroupParents::V2 { folder, .. } if folder.ends_with("user.slice"))
        );
    }

    #[test]
    fn delegated_cgroup_without_enabled_controllers_is_found() {
        let (root, mounts) = unified();
        let service = root.path().join("system.slice/assize.service");
        fs::create_dir_all(service.join("main")).unwrap();
        let expected = CgroupParents::V2 { folder: service.clone(), kinds: Vec::new() };
        let find = |own: &str| {
            CgroupParents::find_in(&mounts, &format!("0::/system.slice/{own}\n"), |folder| {
                folder.starts_with(&service)
            })
        };
        // Without the memory controller the cgroup is not usable.
        assert!(matches!(find("assize.service"), CgroupParents::None(_)));
        fs::write(service.join("cgroup.controllers"), "cpu memory pids").unwrap();
        assert_eq!(find("assize.service"), expected);
        assert_eq!(find("assize.service/main"), expected);
        assert!(matches!(find("other.service"), CgroupParents::None(_)));
    }
}
