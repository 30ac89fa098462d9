//! Non-blocking channel to the host: decodes incoming frames and queues outgoing ones.

use std::os::fd::BorrowedFd;

use assize_protocol::{
    Frame, FrameDecoder, FrameError, FrameKind, GuestFailure, GuestFailureCause, GuestReply,
    StreamId,
};
use rustix::io::Errno;

/// Number of queued bytes at which the guest agent stops reading from programs until the host has received some bytes.
const MAX_QUEUED: usize = 512 * 1024;

/// Channel to the host, on standard input and output.
pub(crate) struct HostChannel {
    decoder: FrameDecoder,
    outgoing: Vec<u8>,
    /// Number of bytes of `outgoing` that are already sent.
    sent: usize,
    buffer: Vec<u8>,
}

impl HostChannel {
    pub(crate) fn new() -> Result<HostChannel, String> {
        for fd in [HostChannel::input(), HostChannel::output()] {
            rustix::io::ioctl_fionbio(fd, true)
                .map_err(|error| format!("cannot make the channel non-blocking: {error}"))?;
        }
        Ok(HostChannel {
            decoder: FrameDecoder::new(),
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

    /// Reads the available bytes from the host. Returns `false` if the host has disconnected.
    pub(crate) fn fill(&mut self) -> bool {
        match rustix::io::read(HostChannel::input(), &mut self.buffer) {
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

    /// Sends as many queued bytes as possible without blocking. Returns `false` if the host has disconnected.
    pub(crate) fn flush(&mut self) -> bool {
        while self.waiting() {
            match rustix::io::write(HostChannel::output(), &self.outgoing[self.sent..]) {
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

    /// Whether bytes are queued to be sent.
    pub(crate) fn waiting(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.outgoing.len() - self.sent < MAX_QUEUED
    }

    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Queues the reply to the request that opened a stream. The reply ends the stream.
    pub(crate) fn reply(&mut self, stream: StreamId, reply: &GuestReply) {
        let put = Frame::put_message(&mut self.outgoing, FrameKind::Done, stream, reply);
        if let Err(error) = put {
            // The reply is too large for a frame, for example a folder listing with very long names.
            let failure =
                GuestFailure { cause: GuestFailureCause::TooLarge, message: error.to_string() };
            let failed = GuestReply::Failed(failure);
            let _ = Frame::put_message(&mut self.outgoing, FrameKind::Done, stream, &failed);
        }
    }
}
