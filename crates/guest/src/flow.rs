//! Bytes into a program and out of it, on credit and never waiting.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use assize_protocol::{Frame, StreamId, WINDOW};
use rustix::io::Errno;

use crate::link::Link;

/// Bytes that go into a program.
pub(crate) struct Input {
    /// Closed once the program wants no more, or no more comes.
    pipe: Option<OwnedFd>,
    pub(crate) port: u8,
    pending: VecDeque<u8>,
    ends: bool,
}

impl Input {
    pub(crate) fn new(pipe: Option<OwnedFd>, port: u8) -> Input {
        Input { pipe, port, pending: VecDeque::new(), ends: false }
    }

    /// Where to wait for room.
    pub(crate) fn wants_room(&self) -> Option<BorrowedFd<'_>> {
        let pending = !self.pending.is_empty() || self.ends;
        self.pipe.as_ref().filter(|_| pending).map(AsFd::as_fd)
    }

    pub(crate) fn give(&mut self, stream: StreamId, bytes: &[u8], link: &mut Link) {
        if self.pipe.is_some() {
            self.pending.extend(bytes);
            self.push(stream, link);
        } else {
            self.grant(stream, bytes.len(), link);
        }
    }

    pub(crate) fn end(&mut self, stream: StreamId, link: &mut Link) {
        self.ends = true;
        self.push(stream, link);
    }

    /// Writes as much as the program takes now.
    pub(crate) fn push(&mut self, stream: StreamId, link: &mut Link) {
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
                // It closed its input; what more comes is nobody's.
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

    fn grant(&self, stream: StreamId, bytes: usize, link: &mut Link) {
        if bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            Frame::put_credit(link.out(), stream, self.port, bytes);
        }
    }
}

/// Bytes that come out of a program.
pub(crate) struct Output {
    pipe: Option<OwnedFd>,
    pub(crate) port: u8,
    /// How much the host still has room for.
    credit: u32,
    /// How much may still be sent before the rest is thrown away.
    allowed: u64,
    pub(crate) cut: bool,
    /// What was in the pipe when the program ended and was not sent yet. What its children that live
    /// on write after it is not waited for.
    owed: Option<u64>,
}

impl Output {
    pub(crate) fn new(pipe: OwnedFd, port: u8, allowed: u64) -> Output {
        Output { pipe: Some(pipe), port, credit: WINDOW, allowed, cut: false, owed: None }
    }

    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes);
    }

    /// Where to wait for more, if there is room for it.
    pub(crate) fn wants_bytes(&self) -> Option<BorrowedFd<'_>> {
        let room = self.credit > 0 || self.allowed == 0;
        self.pipe.as_ref().filter(|_| room).map(AsFd::as_fd)
    }

    /// Takes note that the program ended.
    pub(crate) fn note_end(&mut self) {
        let waiting = self.pipe.as_ref().map(|pipe| rustix::io::ioctl_fionread(pipe).unwrap_or(0));
        self.owed = Some(waiting.unwrap_or(0));
    }

    /// Whether all that the program wrote is sent.
    pub(crate) fn is_done(&self) -> bool {
        self.pipe.is_none() || self.owed == Some(0)
    }

    /// Sends one piece on. `false` when there is none for now, or never again.
    pub(crate) fn pull(&mut self, stream: StreamId, buffer: &mut [u8], link: &mut Link) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let discarding = self.allowed == 0;
        let most = if discarding { buffer.len() } else { buffer.len().min(self.credit as usize) };
        if most == 0 || !link.has_room() {
            return false;
        }
        match rustix::io::read(pipe, &mut buffer[..most]) {
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
                // Somebody else has read what was owed.
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
