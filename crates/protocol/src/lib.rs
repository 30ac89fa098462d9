//! Protocol between the host and the guest agent inside a sandbox.
//!
//! One connection carries many streams. Each stream has one request (run a program, read a file), data on numbered
//! ports, and one reply. The receiver grants credit to the sender, so that at most [`WINDOW`] bytes per port are in
//! transit and a slow reader slows the sender down.
//!
//! This crate does no I/O: the guest agent uses [`Frame`] and [`FrameDecoder`] with system calls, the host with async
//! I/O. Bytes from a sandbox are untrusted: the decoder returns frames or an error, and buffers at most [`MAX_FRAME`]
//! bytes.

mod frame;
pub mod jail;
mod message;

/// Paths inside the sandbox where the code to run is stored: one file for each language. Programs can read these files,
/// but not change them.
pub const CODE: [&str; 3] = ["/tmp/code.py", "/tmp/code.sh", "/tmp/code.js"];

pub use frame::{Frame, FrameDecoder, FrameError, FrameKind, MAX_DATA, MAX_FRAME, StreamId};
pub use message::{
    ExecLimits, ExecRequest, FolderEntry, FolderEntryKind, GuestFailure, GuestFailureCause,
    GuestLimits, GuestReply, GuestRequest, Hello, HostAnswer, HostCall, MicroVmSettings,
    PrepareRequest, ProgramExit, Welcome,
};

/// Protocol version, raised with every incompatible change.
pub const VERSION: u32 = 2;

/// Maximum number of bytes in transit on one port of a stream. After that, the sender waits until the receiver grants
/// new credit.
pub const WINDOW: u32 = 256 * 1024;

/// Ports of a stream. The ports of a program have the numbers of its file descriptors. The contents of a file that the
/// host writes are sent on [`port::IN`]; the contents of a file that the host reads are sent on [`port::OUT`].
pub mod port {
    pub const IN: u8 = 0;
    pub const OUT: u8 = 1;
    pub const ERR: u8 = 2;
    /// Messages between a program and the host, in both directions: frames of [`crate::FrameKind::Call`],
    /// [`crate::FrameKind::Answer`] and [`crate::FrameKind::Event`].
    pub const TALK: u8 = 3;
    pub const COUNT: usize = 4;
}
