//! File system of the jail: read-only mounts from the host, a tmpfs, a minimal `/dev` and a private `/proc`.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use assize_protocol::CODE;
use assize_protocol::jail::{HostMount, JailSetup};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};

use super::users::{self, PROGRAM};
use super::{AtStep, StepError};
use crate::sys;

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// Candidate mount points for the new root while it is built; the first one that works is used. Any folder is suitable,
/// because the old root is unmounted later.
const MOUNT_POINTS: [&str; 3] = ["/tmp", "/mnt", "/usr"];

/// Folder of the [`CODE`] files.
const CODE_FOLDER: &str = "/tmp";

/// Temporary mount point of the tmpfs whose subfolders become the writable folders.
const DISK: &str = ".disk";

/// Properties of the file system that [`enter`] has built.
pub(crate) struct JailRoot {
    pub(crate) has_proc: bool,
    pub(crate) code: CodeFiles,
}

/// Code files that are mounted read-only for programs: path, and a descriptor through which the guest agent writes.
pub(crate) type CodeFiles = Vec<(&'static str, OwnedFd)>;

/// Builds the jail's file system and makes it the root of this process.
pub(crate) fn enter(setup: &JailSetup) -> Result<JailRoot, StepError> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step("make mounts private")?;
    sys::create_cgroup_namespace().step("create a cgroup namespace")?;
    // Mounts are cloned before the user is switched, because the supervisor's user may read folders that the guest
    // agent's user may not read.
    let pieces = clone_mounts(&setup.pieces)?;
    if setup.users.is_some() {
        users::become_guest()?;
        // The kernel clears the parent death signal when a process changes its user.
        super::die_with_the_supervisor()?;
    }
    create_root()?;
    // Writable folders are mounted before files of the host, because a host file may be mounted inside a writable
    // folder, such as a virtual environment in `/tmp`.
    let code = mount_writable(setup)?;
    for (piece, tree) in &pieces {
        attach_piece(piece, tree)?;
    }
    for link in &setup.links {
        let at = relative(&link.at);
        make_parents(at)?;
        std::os::unix::fs::symlink(&link.to, at)
            .step(format!("create the symbolic link `{}`", link.at))?;
    }
    for file in &setup.files {
        let at = relative(&file.at);
        make_parents(at)?;
        std::fs::write(at, &file.text).step(format!("write `{}`", file.at))?;
    }
    let has_proc = mount_proc()?;
    change_root(setup)?;
    Ok(JailRoot { has_proc, code })
}

/// Clones the mounts of host files and folders, with all mounts below them, and makes the clones read-only.
fn clone_mounts(pieces: &[HostMount]) -> Result<Vec<(&HostMount, OwnedFd)>, StepError> {
    let mut cloned = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = match open_tree(CWD, piece.from.as_str(), flags) {
            Err(Errno::NOENT) if piece.optional => continue,
            tree => tree.step(format!("clone the mount of `{}`", piece.from))?,
        };
        let attributes = if piece.device { DEVICE } else { READ_ONLY };
        sys::set_mount_attributes(&tree, attributes, true)
            .step(format!("make `{}` read-only", piece.from))?;
        cloned.push((piece, tree));
    }
    Ok(cloned)
}

/// Mounts an empty root and makes it the working folder.
fn create_root() -> Result<(), StepError> {
    let root = tmpfs(&[("size", "1m"), ("mode", "0755")])?;
    let attached = MOUNT_POINTS.iter().map(|at| attach(&root, at)).find(|result| result.is_ok());
    match attached {
        Some(_) => {}
        None => attach(&root, MOUNT_POINTS[0]).step("mount the new root")?,
    }
    rustix::process::fchdir(&root).step("enter the new root")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

fn tmpfs(options: &[(&str, &str)]) -> Result<OwnedFd, StepError> {
    let step = "create a tmpfs";
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).step(step)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value).step(step)?;
    }
    fsconfig_create(context.as_fd()).step(step)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).step(step)
}

fn attach(tree: &OwnedFd, at: &str) -> Result<(), Errno> {
    move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Makes an absolute path relative to the new root, which is the working folder.
fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn make_folder(path: &str) -> Result<(), StepError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .step(format!("create the folder `/{path}`"))
}

fn make_parents(path: &str) -> Result<(), StepError> {
    match Path::new(path).parent().and_then(Path::to_str) {
        None | Some("") => Ok(()),
        Some(folder) => make_folder(folder),
    }
}

fn make_file(path: &str) -> Result<(), StepError> {
    make_parents(path)?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).step(format!("create `/{path}`"))?;
    Ok(())
}

fn attach_piece(piece: &HostMount, tree: &OwnedFd) -> Result<(), StepError> {
    let at = relative(&piece.to);
    let is_folder = rustix::fs::fstat(tree)
        .map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
        .step(format!("stat `{}`", piece.from))?;
    // The path exists already if it is inside another mounted folder.
    if !Path::new(at).exists() {
        if is_folder { make_folder(at)? } else { make_file(at)? }
    }
    attach(tree, at).step(format!("mount `{}`", piece.to))
}

/// Mounts the writable folders, all on one tmpfs of limited size.
fn mount_writable(setup: &JailSetup) -> Result<CodeFiles, StepError> {
    let (size, files) = (setup.disk_bytes.to_string(), setup.disk_files.to_string());
    let disk = tmpfs(&[("size", &size), ("nr_inodes", &files), ("mode", "0755")])?;
    make_folder(DISK)?;
    attach(&disk, DISK).step("mount the tmpfs")?;
    let owner = rustix::process::Uid::from_raw(PROGRAM);
    let group = rustix::process::Gid::from_raw(PROGRAM);
    for folder in &setup.writable {
        let name = relative(folder).replace('/', "-");
        let step = || format!("create the writable folder `{folder}`");
        rustix::fs::mkdirat(&disk, name.as_str(), Mode::from_raw_mode(0o1777)).step(step())?;
        // The guest agent stays the owner of the code folder, because the owner of a sticky folder can delete any file
        // in it.
        if folder != CODE_FOLDER || setup.users.is_none() {
            let flags = rustix::fs::AtFlags::empty();
            rustix::fs::chownat(&disk, name.as_str(), Some(owner), Some(group), flags)
                .step(step())?;
        }
        rustix::fs::chmodat(
            &disk,
            name.as_str(),
            Mode::from_raw_mode(0o1777),
            rustix::fs::AtFlags::empty(),
        )
        .step(step())?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(&disk, name.as_str(), flags).step(step())?;
        make_folder(relative(folder))?;
        attach(&tree, relative(folder)).step(step())?;
    }
    let code = match setup.users {
        Some(_) => Vec::new(),
        None if setup.writable.iter().any(|folder| folder == CODE_FOLDER) => mount_code(&disk)?,
        None => Vec::new(),
    };
    // The writable folders, which were mounted from the tmpfs, stay mounted.
    unmount(DISK, UnmountFlags::DETACH).step("unmount the tmpfs")?;
    std::fs::remove_dir(DISK).step("remove the mount point of the tmpfs")?;
    Ok(code)
}

/// Mounts the code files read-only. If programs run as the guest agent's user, only these mounts protect the code.
fn mount_code(disk: &OwnedFd) -> Result<CodeFiles, StepError> {
    let mut code = Vec::new();
    for path in CODE {
        let step = || format!("create the code file `{path}`");
        let name = relative(path).replace('/', "-");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(disk, name.as_str(), flags, Mode::from_raw_mode(0o444))
            .step(step())?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(disk, name.as_str(), flags).step(step())?;
        sys::set_mount_attributes(&tree, READ_ONLY, false).step(step())?;
        make_file(relative(path))?;
        attach(&tree, relative(path)).step(step())?;
        code.push((path, file));
    }
    Ok(code)
}

/// Mounts a `/proc` that shows only processes. Returns `false` if the kernel refuses the mount. The kernel refuses
/// the mount if parts of the host's own `/proc` are masked, as in most containers.
fn mount_proc() -> Result<bool, StepError> {
    make_folder("proc")?;
    let mounted = (|| {
        let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(context.as_fd(), "subset", "pid")?;
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        attach(&mount, "proc")
    })();
    match mounted {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => Ok(false),
        error => error.map(|()| true).step("mount `/proc`"),
    }
}

/// Makes the working folder the root, unmounts the host's root and drops the capabilities that the setup needed.
fn change_root(setup: &JailSetup) -> Result<(), StepError> {
    let root =
        rustix::fs::open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .step("open the new root")?;
    sys::set_mount_attributes(&root, READ_ONLY, false).step("make the root read-only")?;
    rustix::process::pivot_root(".", ".").step("change the root")?;
    unmount(".", UnmountFlags::DETACH).step("unmount the old root")?;
    rustix::process::chdir("/").step("enter the new root")?;
    rustix::system::sethostname(setup.host_name.as_bytes()).step("set the host name")?;
    sys::loopback_up().step("bring up the loopback interface")?;
    users::drop_capabilities(setup.users.is_some())
}
