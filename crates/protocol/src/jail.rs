//! What the host tells the keeper of a jail to build, and what it answers.
//!
//! It is said once, as one line of JSON on the keeper's standard input, which then stays open for
//! as long as the jail may live.

use serde::{Deserialize, Serialize};

/// A jail to build.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Setup {
    /// Pieces of the host that are seen inside, at the same or another place, and never written to.
    pub pieces: Vec<Piece>,
    /// Links made in the new root.
    pub links: Vec<Link>,
    /// Small files made in the new root.
    pub files: Vec<File>,
    /// Folders that can be written to, all on one memory disk.
    pub writable: Vec<String>,
    /// The size of that disk, and how many files it takes.
    pub disk_bytes: u64,
    pub disk_files: u64,
    /// The control groups to enter, removed at the end: those of the first version, one for each
    /// kind of account, or the one of the second.
    pub groups_v1: Vec<String>,
    pub group_v2: Option<String>,
    /// The users of the host that the guest and the programs become; the caller's own if `None`.
    pub users: Option<Users>,
    pub host_name: String,
    /// What is run in it instead of the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Emulator>,
}

impl Setup {
    /// Adds a piece of the host.
    pub fn piece(&mut self, from: &str, to: &str, optional: bool) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.pieces.push(Piece { from, to, device: false, optional });
    }

    /// Adds a device of the host.
    pub fn device(&mut self, from: &str, to: &str) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.pieces.push(Piece { from, to, device: true, optional: false });
    }

    /// Adds a link.
    pub fn link(&mut self, at: &str, to: &str) {
        self.links.push(Link { at: at.to_owned(), to: to.to_owned() });
    }
}

/// A program that is a machine. It has the channel as its descriptor 3, and from 4 on those that
/// came with this message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulator {
    pub argv: Vec<String>,
    /// The most memory that it may map.
    pub address_space: u64,
    /// A group of the host that it stays a member of, for the sake of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}

/// A folder or file of the host, seen inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub from: String,
    pub to: String,
    /// Devices are the only pieces that may be written to.
    #[serde(default)]
    pub device: bool,
    /// It may be missing.
    #[serde(default)]
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub at: String,
    pub to: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub at: String,
    pub text: String,
}

/// Numbers of users (and of groups alike) on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    pub guest: u32,
    pub program: u32,
}

/// What the keeper answers, as one line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Built {
    /// The jail is there; its first process has this number on the host.
    Ready {
        pid: u32,
        proc: bool,
        /// The version of Landlock that programs in it are under; 0 for none.
        landlock: u32,
    },
    Failed {
        step: String,
        errno: i32,
        message: String,
    },
}
