//! Messages between the host and the supervisor, the process that builds and supervises a jail.
//!
//! The host sends one [`JailSetup`] as a line of JSON to the supervisor's standard input. The jail ends when that input
//! is closed.

use serde::{Deserialize, Serialize};

/// Description of a jail to build.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JailSetup {
    /// Files, folders and devices of the host to mount in the jail. Files and folders are mounted read-only.
    pub pieces: Vec<HostMount>,
    /// Symbolic links to create in the jail's root file system.
    pub links: Vec<JailLink>,
    /// Small files to create in the jail's root file system.
    pub files: Vec<JailFile>,
    /// Writable folders, all on one tmpfs.
    pub writable: Vec<String>,
    /// Maximum size of the tmpfs with the writable folders, in bytes.
    pub disk_bytes: u64,
    /// Maximum number of files on the tmpfs with the writable folders.
    pub disk_files: u64,
    /// Cgroups v1 that the jail enters, one for each controller. The jail's supervisor process removes them after the
    /// jail has ended.
    pub groups_v1: Vec<String>,
    /// Cgroup v2 that the jail enters. The jail's supervisor process removes it after the jail has ended.
    pub group_v2: Option<String>,
    /// Host users of the guest agent and of the programs. If `None`, both run as the user of the jail's supervisor
    /// process.
    pub users: Option<JailUsers>,
    pub host_name: String,
    /// VM emulator to run in the jail instead of the guest agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Emulator>,
}

impl JailSetup {
    /// Adds a read-only mount of a host file or folder.
    pub fn add_mount(&mut self, from: &str, to: &str, optional: bool) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.pieces.push(HostMount { from, to, device: false, optional });
    }

    /// Adds a mount of a host device, to which programs can write.
    pub fn device(&mut self, from: &str, to: &str) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.pieces.push(HostMount { from, to, device: true, optional: false });
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, at: &str, to: &str) {
        self.links.push(JailLink { at: at.to_owned(), to: to.to_owned() });
    }
}

/// VM emulator (QEMU) to run in a jail. Its file descriptor 3 is the channel to the host. The descriptors from 4 on are
/// those that the host sent with the [`JailSetup`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulator {
    pub argv: Vec<String>,
    /// Limit on the address space of the emulator, in bytes.
    pub address_space: u64,
    /// Id of the host group whose members are allowed to open the KVM device. The emulator process joins this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}

/// File, folder or device of the host that is mounted in the jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMount {
    pub from: String,
    pub to: String,
    /// Whether the mount is a device. Programs can write to devices, but to no other mount.
    #[serde(default)]
    pub device: bool,
    /// Whether the mount is skipped if the file or folder does not exist on the host.
    #[serde(default)]
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailLink {
    pub at: String,
    pub to: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailFile {
    pub at: String,
    pub text: String,
}

/// Host user ids of the guest agent and the programs in a jail. Their group ids are the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailUsers {
    pub guest: u32,
    pub program: u32,
}

/// Reply to the [`JailSetup`], as one line of JSON. The jail's init process sends it, or its supervisor process if there
/// is no init process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JailReply {
    /// The jail runs.
    Ready {
        /// Process id, on the host, of the jail's init process.
        pid: u32,
        /// Whether the jail has a `/proc`.
        proc: bool,
        /// Landlock ABI version of the kernel; 0 if the kernel has no Landlock.
        landlock: u32,
    },
    Failed {
        step: String,
        errno: i32,
        message: String,
    },
}
