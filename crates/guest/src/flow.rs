//! Non-blocking transfer of a program's input and output, with credit-based flow control.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use assize_protocol::{Frame, StreamId, WINDOW};
use rustix::io::Errno;

use crate::channel::HostChannel;

/// Pipe to a program's input, with the bytes that do not fit into the pipe yet.
pub(crate) struct InputPipe {
    /// Write end of the pipe; `None` after the program has closed its input, or after all input is written.
    pipe: Option<OwnedFd>,
    pub(crate) port: u8,
    pending: VecDeque<u8>,
    ends: bool,
}

impl InputPipe {
    pub(crate) fn new(pipe: Option<OwnedFd>, port: u8) -> InputPipe {
        InputPipe { pipe, port, pending: VecDeque::new(), ends: false }
    }

    /// Returns the descriptor to poll for writability, if bytes are pending.
    pub(crate) fn wants_room(&self) -> Option<BorrowedFd<'_>> {
        let pending = !self.pending.is_empty() || self.ends;
        self.pipe.as_ref().filter(|_| pending).map(AsFd::as_fd)
    }

    /// Queues input from the host for the program. Discards the input if the program has closed its end of the pipe.
    pub(crate) fn give(&mut self, stream: StreamId, bytes: &[u8], link: &mut HostChannel) {
        if self.pipe.is_some() {
            self.pending.extend(bytes);
            self.push(stream, link);
        } else {
            self.grant(stream, bytes.len(), link);
        }
    }

    pub(crate) fn end(&mut self, stream: StreamId, link: &mut HostChannel) {
        self.ends = true;
        self.push(stream, link);
    }

    /// Writes as many pending bytes as the pipe accepts without blocking.
    pub(crate) fn push(&mut self, stream: StreamId, link: &mut HostChannel) {
        let Some(pipe) = &self.pipe else { return };
        let mut written = 0;
        let mut broken = false;
        while !self.pending.is_empty() {
            match rustix::io::write(pipe, self.pending.as_slices().0) {
                Ok(count) => {
                    self.pending.drain(..count);
                    written += count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The program has closed its input, so the remaining bytes are discarded.
                Err(_) => {
                    written += self.pending.len();
                    self.pending.clear();
                    broken = true;
                }
            }
        }
        if broken || (self.ends && self.pending.is_empty()) {
            self.pipe = None;
        }
        self.grant(stream, written, link);
    }

    fn grant(&self, stream: StreamId, bytes: usize, link: &mut HostChannel) {
        if bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            Frame::put_credit(link.out(), stream, self.port, bytes);
        }
    }
}

/// Pipe from a program's output.
pub(crate) struct OutputPipe {
    pipe: Option<OwnedFd>,
    pub(crate) port: u8,
    /// Number of bytes that the guest agent may send before the host grants more (flow control).
    credit: u32,
    /// Number of bytes that the output limit still allows. All output after these bytes is discarded.
    allowed: u64,
    pub(crate) cut: bool,
    /// Number of bytes that were in the pipe when the program ended and are not read yet; `None` while the program
    /// runs. The guest agent does not wait for later output of child processes that outlive the program.
    owed: Option<u64>,
}

impl OutputPipe {
    pub(crate) fn new(pipe: OwnedFd, port: u8, allowed: u64) -> OutputPipe {
        OutputPipe { pipe: Some(pipe), port, credit: WINDOW, allowed, cut: false, owed: None }
    }

    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes);
    }

    /// Returns the program's output pipe to poll. `None` if no output may be read now: the host has no room for more, and
    /// the output is not discarded either.
    pub(crate) fn wants_bytes(&self) -> Option<BorrowedFd<'_>> {
        let room = self.credit > 0 || self.allowed == 0;
        self.pipe.as_ref().filter(|_| room).map(AsFd::as_fd)
    }

    /// Records that the program has ended and how many bytes are still in the pipe.
    pub(crate) fn note_end(&mut self) {
        let unread = self.pipe.as_ref().map(|pipe| rustix::io::ioctl_fionread(pipe).unwrap_or(0));
        self.owed = Some(unread.unwrap_or(0));
    }

    /// Whether all output of the program has been sent to the host.
    pub(crate) fn is_done(&self) -> bool {
        self.pipe.is_none() || self.owed == Some(0)
    }

    /// Forwards one chunk of output to the host. Returns `false` if no output can be forwarded now.
    pub(crate) fn pull(
        &mut self,
        stream: StreamId,
        buffer: &mut [u8],
        link: &mut HostChannel,
    ) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let discarding = self.allowed == 0;
        let size = if discarding { buffer.len() } else { buffer.len().min(self.credit as usize) };
        if size == 0 || !link.has_room() {
            return false;
        }
        match rustix::io::read(pipe, &mut buffer[..size]) {
            Ok(0) => {
                self.pipe = None;
                false
            }
            Ok(count) => {
                let keep = usize::try_from(self.allowed).unwrap_or(usize::MAX).min(count);
                self.cut |= keep < count;
                self.allowed -= keep as u64;
                self.credit -= u32::try_from(keep).unwrap_or(0);
                self.owed = self.owed.map(|owed| owed.saturating_sub(count as u64));
                Frame::put_data(link.out(), stream, self.port, &buffer[..keep]);
                true
            }
            Err(Errno::INTR) => true,
            Err(Errno::AGAIN) => {
                // Another process has read the remaining bytes from the pipe.
                self.owed = self.owed.map(|_| 0);
                false
            }
            Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}
