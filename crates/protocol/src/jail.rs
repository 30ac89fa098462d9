//! Messages between the host and the keeper, the process that builds and supervises a jail.
//!
//! The host sends one [`JailSetup`] as a JSON line on the keeper's standard input. Closing that input ends the jail.

use serde::{Deserialize, Serialize};

/// Description of a jail to build.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JailSetup {
    /// Files and folders of the host to mount read-only in the jail.
    pub pieces: Vec<HostMount>,
    /// Symbolic links to create in the new root.
    pub links: Vec<JailLink>,
    /// Small files to create in the new root.
    pub files: Vec<JailFile>,
    /// Writable folders, all on one tmpfs.
    pub writable: Vec<String>,
    /// Limits of that tmpfs on its size and its number of files.
    pub disk_bytes: u64,
    pub disk_files: u64,
    /// Cgroups to enter: v1, one for each controller, or v2. The keeper removes them at the end.
    pub groups_v1: Vec<String>,
    pub group_v2: Option<String>,
    /// Host users for the guest agent and the programs; the caller's own user if `None`.
    pub users: Option<JailUsers>,
    pub host_name: String,
    /// VM emulator to run in the jail instead of the guest agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Emulator>,
}

impl JailSetup {
    /// Mounts a file or folder of the host read-only.
    pub fn piece(&mut self, from: &str, to: &str, optional: bool) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.pieces.push(HostMount { from, to, device: false, optional });
    }

    /// Mounts a device of the host.
    pub fn device(&mut self, from: &str, to: &str) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.pieces.push(HostMount { from, to, device: true, optional: false });
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, at: &str, to: &str) {
        self.links.push(JailLink { at: at.to_owned(), to: to.to_owned() });
    }
}

/// VM emulator (QEMU) to run in a jail. Descriptor 3 is the channel; 4 and up were sent with this message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulator {
    pub argv: Vec<String>,
    /// Limit on its address space, in bytes.
    pub address_space: u64,
    /// Host group that it keeps, for access to a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}

/// File, folder or device of the host that is mounted in the jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMount {
    pub from: String,
    pub to: String,
    /// Whether it is a device. Programs can write only to devices.
    #[serde(default)]
    pub device: bool,
    /// Whether it may be missing on the host.
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

/// User ids on the host; the group ids are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailUsers {
    pub guest: u32,
    pub program: u32,
}

/// The keeper's answer, as one JSON line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperReply {
    /// The jail runs.
    Ready {
        /// Host process id of its init process.
        pid: u32,
        /// Whether it has a `/proc`.
        proc: bool,
        /// Landlock ABI version that confines its programs; 0 for none.
        landlock: u32,
    },
    Failed {
        step: String,
        errno: i32,
        message: String,
    },
}
