//! The file system inside: read-only pieces of the host, a memory disk, a bare `/dev`, its own `/proc`.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use assize_protocol::CODE;
use assize_protocol::jail::{Piece, Setup};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};

use super::users::{self, PROGRAM};
use super::{AtStep, Step};
use crate::sys;

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// Where the new root is put together: any folder will do, as nothing of the old root stays.
const PLACES: [&str; 3] = ["/tmp", "/mnt", "/usr"];

/// The folder that code is put in.
const CODE_FOLDER: &str = "/tmp";

/// Where the memory disk is put while its folders are taken from it.
const DISK: &str = ".disk";

/// The new file system.
pub(crate) struct Entered {
    pub(crate) has_proc: bool,
    pub(crate) code: CodeFiles,
}

/// Files for code that programs see read-only, by their paths, each open for the guest to write.
pub(crate) type CodeFiles = Vec<(&'static str, OwnedFd)>;

/// Leaves the host's file system for a new one.
pub(crate) fn enter(setup: &Setup) -> Result<Entered, Step> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step("making mounts private")?;
    sys::hide_groups().step("hiding the host's groups")?;
    // As the one who made the jail: it may see folders that the guest's user may not.
    let pieces = gather(&setup.pieces)?;
    if setup.users.is_some() {
        users::become_guest()?;
        // Which the kernel forgets when a process becomes somebody else.
        super::die_with_the_keeper()?;
    }
    begin()?;
    // Before the pieces, some of which may lie within: an environment in `/tmp` is one, too.
    let code = writable(setup)?;
    for (piece, tree) in &pieces {
        place(piece, tree)?;
    }
    for link in &setup.links {
        let at = inside(&link.at);
        make_parents(at)?;
        std::os::unix::fs::symlink(&link.to, at).step(format!("linking `{}`", link.at))?;
    }
    for file in &setup.files {
        let at = inside(&file.at);
        make_parents(at)?;
        std::fs::write(at, &file.text).step(format!("writing `{}`", file.at))?;
    }
    let has_proc = proc()?;
    finish(setup)?;
    Ok(Entered { has_proc, code })
}

/// Takes hold of the host's pieces, each with all that is mounted below it, and none writable.
fn gather(pieces: &[Piece]) -> Result<Vec<(&Piece, OwnedFd)>, Step> {
    let mut gathered = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = match open_tree(CWD, piece.from.as_str(), flags) {
            Err(Errno::NOENT) if piece.optional => continue,
            tree => tree.step(format!("taking hold of `{}`", piece.from))?,
        };
        let attributes = if piece.device { DEVICE } else { READ_ONLY };
        sys::set_mount_attributes(&tree, attributes, true)
            .step(format!("making `{}` read-only", piece.from))?;
        gathered.push((piece, tree));
    }
    Ok(gathered)
}

/// An empty root, as the working folder.
fn begin() -> Result<(), Step> {
    let root = memory_disk(&[("size", "1m"), ("mode", "0755")])?;
    let attached = PLACES.iter().map(|place| attach(&root, place)).find(|result| result.is_ok());
    match attached {
        Some(_) => {}
        None => attach(&root, PLACES[0]).step("finding a place for the new root")?,
    }
    rustix::process::fchdir(&root).step("going to the new root")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

fn memory_disk(options: &[(&str, &str)]) -> Result<OwnedFd, Step> {
    let name = "making a memory disk";
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).step(name)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value).step(name)?;
    }
    fsconfig_create(context.as_fd()).step(name)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).step(name)
}

fn attach(tree: &OwnedFd, at: &str) -> Result<(), Errno> {
    move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// A whole path, as seen from the new root.
fn inside(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn make_folder(path: &str) -> Result<(), Step> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .step(format!("making `/{path}`"))
}

fn make_parents(path: &str) -> Result<(), Step> {
    match Path::new(path).parent().and_then(Path::to_str) {
        None | Some("") => Ok(()),
        Some(folder) => make_folder(folder),
    }
}

fn make_file(path: &str) -> Result<(), Step> {
    make_parents(path)?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).step(format!("making `/{path}`"))?;
    Ok(())
}

fn place(piece: &Piece, tree: &OwnedFd) -> Result<(), Step> {
    let at = inside(&piece.to);
    let is_folder = rustix::fs::fstat(tree)
        .map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
        .step(format!("looking at `{}`", piece.from))?;
    // What lies within another piece is there already.
    if !Path::new(at).exists() {
        if is_folder { make_folder(at)? } else { make_file(at)? }
    }
    attach(tree, at).step(format!("placing `{}`", piece.to))
}

/// The folders that can be written to, all on one disk with one size.
fn writable(setup: &Setup) -> Result<CodeFiles, Step> {
    let (size, files) = (setup.disk_bytes.to_string(), setup.disk_files.to_string());
    let disk = memory_disk(&[("size", &size), ("nr_inodes", &files), ("mode", "0755")])?;
    make_folder(DISK)?;
    attach(&disk, DISK).step("placing the disk")?;
    let owner = rustix::process::Uid::from_raw(PROGRAM);
    let group = rustix::process::Gid::from_raw(PROGRAM);
    for folder in &setup.writable {
        let name = inside(folder).replace('/', "-");
        let step = || format!("making `{folder}`");
        rustix::fs::mkdirat(&disk, name.as_str(), Mode::from_raw_mode(0o1777)).step(step())?;
        // The folder of code is the guest's: whoever owns a sticky folder can delete any file in it.
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
        make_folder(inside(folder))?;
        attach(&tree, inside(folder)).step(step())?;
    }
    let code = match setup.users {
        Some(_) => Vec::new(),
        None if setup.writable.iter().any(|folder| folder == CODE_FOLDER) => mount_code(&disk)?,
        None => Vec::new(),
    };
    // Its folders stay where they were placed.
    unmount(DISK, UnmountFlags::DETACH).step("hiding the disk")?;
    std::fs::remove_dir(DISK).step("hiding the disk")?;
    Ok(code)
}

/// Mounts the files for code read-only. Where programs are the guest's own user, nothing else keeps them from
/// changing, replacing or deleting them.
fn mount_code(disk: &OwnedFd) -> Result<CodeFiles, Step> {
    let mut code = Vec::new();
    for path in CODE {
        let step = || format!("making `{path}`");
        let name = inside(path).replace('/', "-");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(disk, name.as_str(), flags, Mode::from_raw_mode(0o444))
            .step(step())?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(disk, name.as_str(), flags).step(step())?;
        sys::set_mount_attributes(&tree, READ_ONLY, false).step(step())?;
        make_file(inside(path))?;
        attach(&tree, inside(path)).step(step())?;
        code.push((path, file));
    }
    Ok(code)
}

/// A `/proc` of processes alone. Where the host's own is hidden in part, as in most containers, the
/// kernel refuses one; then there is none.
fn proc() -> Result<bool, Step> {
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
        error => error.map(|()| true).step("mounting /proc"),
    }
}

/// Makes the working folder the root, for good, and gives up what only the building needed.
fn finish(setup: &Setup) -> Result<(), Step> {
    let root =
        rustix::fs::open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .step("looking at the new root")?;
    sys::set_mount_attributes(&root, READ_ONLY, false).step("making the root read-only")?;
    rustix::process::pivot_root(".", ".").step("changing the root")?;
    unmount(".", UnmountFlags::DETACH).step("leaving the old root")?;
    rustix::process::chdir("/").step("changing the root")?;
    rustix::system::sethostname(setup.host_name.as_bytes()).step("naming the host")?;
    sys::loopback_up().step("bringing the loopback up")?;
    users::drop_rights(setup.users.is_some())
}
