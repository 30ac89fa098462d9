//! The channel to the host: frames in, frames out, never waiting.

use std::os::fd::BorrowedFd;

use assize_protocol::{Cause, Decoder, Failure, Frame, FrameError, Kind, Reply, StreamId};
use rustix::io::Errno;

/// Beyond this nothing more is read from programs until the host has taken some.
const ENOUGH: usize = 512 * 1024;

pub(crate) struct Link {
    decoder: Decoder,
    outgoing: Vec<u8>,
    /// How much of it is sent.
    sent: usize,
    buffer: Vec<u8>,
}

impl Link {
    pub(crate) fn new() -> Result<Link, String> {
        for fd in [Link::input(), Link::output()] {
            rustix::io::ioctl_fionbio(fd, true).map_err(|error| format!("the channel: {error}"))?;
        }
        Ok(Link {
            decoder: Decoder::new(),
            outgoing: Vec::new(),
            sent: 0,
            buffer: vec![0; 64 * 1024],
        })
    }

    pub(crate) fn input() -> BorrowedFd<'static> {
        rustix::stdio::stdin()
    }

    pub(crate) fn output() -> BorrowedFd<'static> {
        rustix::stdio::stdout()
    }

    /// Reads what has come. `false` when the host is gone.
    pub(crate) fn fill(&mut self) -> bool {
        match rustix::io::read(Link::input(), &mut self.buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.decoder.push(&self.buffer[..count]);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        self.decoder.next_frame()
    }

    /// Sends as much as the host takes now. `false` when it is gone.
    pub(crate) fn flush(&mut self) -> bool {
        while self.waiting() {
            match rustix::io::write(Link::output(), &self.outgoing[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        true
    }

    pub(crate) fn waiting(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.outgoing.len() - self.sent < ENOUGH
    }

    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Ends a stream.
    pub(crate) fn reply(&mut self, stream: StreamId, reply: &Reply) {
        let put = Frame::put_message(&mut self.outgoing, Kind::Done, stream, reply);
        if let Err(error) = put {
            // A list of very long names.
            let failure = Failure { cause: Cause::TooLarge, message: error.to_string() };
            let failed = Reply::Failed(failure);
            let _ = Frame::put_message(&mut self.outgoing, Kind::Done, stream, &failed);
        }
    }
}
