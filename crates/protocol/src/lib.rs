//! What the host and the guest inside a sandbox say to each other.
//!
//! One connection carries many streams. Each stream is one request (run this, read that file), the
//! bytes that go with it on numbered ports, and one reply. Bytes are sent on credit: whoever reads
//! slowly slows the sender down, and nobody buffers more than [`WINDOW`] for a port.
//!
//! This crate knows bytes and words only: [`Frame`] and [`Decoder`] are without any input or output,
//! so that the guest uses them with plain system calls and the host with its runtime. What comes out
//! of a sandbox is hostile: the decoder takes any bytes and gives frames or an error, never more than
//! [`MAX_FRAME`] of memory.

mod frame;
pub mod jail;
mod message;

/// Where code is put that is to be run, by language. Programs can read these files and nothing else.
pub const CODE: [&str; 3] = ["/tmp/code.py", "/tmp/code.sh", "/tmp/code.js"];

pub use frame::{Decoder, Frame, FrameError, Kind, MAX_DATA, MAX_FRAME, StreamId};
pub use message::{
    Answer, Call, Cause, Ended, Entry, EntryKind, Exec, ExecLimits, Failure, GuestLimits, Hello,
    Machine, Prepare, Reply, Request, Welcome,
};

/// Raised whenever host and guest would misunderstand each other.
pub const VERSION: u32 = 2;

/// The bytes that may be under way on one port of one stream.
pub const WINDOW: u32 = 256 * 1024;

/// The ports of a running program, by the numbers its descriptors have. The bytes of a file that is
/// written go in on [`port::IN`], those of one that is read come on [`port::OUT`].
pub mod port {
    pub const IN: u8 = 0;
    pub const OUT: u8 = 1;
    pub const ERR: u8 = 2;
    /// Both ways: what a program that may talk to the host says and hears, as frames of
    /// [`crate::Kind::Call`], [`crate::Kind::Answer`] and [`crate::Kind::Event`].
    pub const TALK: u8 = 3;
    pub const COUNT: usize = 4;
}
