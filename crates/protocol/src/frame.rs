//! Frames, the units of transmission, and a decoder of frames from untrusted input.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum number of payload bytes in one data frame.
pub const MAX_DATA: usize = 64 * 1024;

/// Maximum size of a frame in bytes: kind, stream id and payload, without the length field.
pub const MAX_FRAME: usize = 1024 * 1024;

/// Size of the header of a frame in bytes: length, kind and stream id.
const HEADER: usize = 4 + 1 + 4;

/// Id of a stream. A stream consists of one request, its data and its reply. The host numbers streams from 1; frames
/// with the id 0 concern the whole connection.
pub type StreamId = u32;

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// First frame in each direction, with the protocol version.
    Hello = 1,
    /// Opens a stream with a request.
    Open = 2,
    /// Bytes for a port, such as the standard input of a program. The first payload byte is the port number.
    Data = 3,
    /// End of the data on a port.
    Close = 4,
    /// Flow control: number of additional bytes that the sender of this frame is ready to receive on a port.
    Credit = 5,
    /// Reply to the request, and last frame of the stream.
    Done = 6,
    /// Cancels the request of a stream.
    Cancel = 7,
    /// Call from a program to the host. The stream id of the frame is a number that the program chooses for the call.
    Call = 8,
    /// The host's answer to a call. The stream id of the frame is the number of the call.
    Answer = 9,
    /// Event from a program to the host, to which the host sends no answer.
    Event = 10,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        use FrameKind::{Answer, Call, Cancel, Close, Credit, Data, Done, Event, Hello, Open};
        [Hello, Open, Data, Close, Credit, Done, Cancel, Call, Answer, Event]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub stream: StreamId,
    pub payload: Vec<u8>,
}

/// Error when a frame is encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("frame of {0} bytes exceeds the limit of {MAX_FRAME} bytes")]
    TooLong(usize),
    #[error("frame of {0} bytes is shorter than its header")]
    TooShort(usize),
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    #[error("malformed frame: {0}")]
    Malformed(String),
    #[error("message of {0} bytes exceeds the frame limit of {MAX_FRAME} bytes")]
    TooMuch(usize),
}

impl Frame {
    /// Appends a frame to the buffer `out`. The payload of the frame is the concatenation of `parts`.
    ///
    /// # Errors
    /// When the frame exceeds [`MAX_FRAME`].
    pub fn put(
        out: &mut Vec<u8>,
        kind: FrameKind,
        stream: StreamId,
        parts: &[&[u8]],
    ) -> Result<(), FrameError> {
        let size = HEADER - 4 + parts.iter().map(|part| part.len()).sum::<usize>();
        if size > MAX_FRAME {
            return Err(FrameError::TooMuch(size));
        }
        out.reserve(size + 4);
        #[expect(clippy::cast_possible_truncation, reason = "MAX_FRAME fits into 32 bits")]
        out.extend_from_slice(&(size as u32).to_le_bytes());
        out.push(kind as u8);
        out.extend_from_slice(&stream.to_le_bytes());
        for part in parts {
            out.extend_from_slice(part);
        }
        Ok(())
    }

    /// Appends a frame with a message encoded as JSON.
    ///
    /// # Errors
    /// When the frame exceeds [`MAX_FRAME`].
    pub fn put_message<T: Serialize>(
        out: &mut Vec<u8>,
        kind: FrameKind,
        stream: StreamId,
        message: &T,
    ) -> Result<(), FrameError> {
        let text = serde_json::to_vec(message)
            .map_err(|error| FrameError::Malformed(error.to_string()))?;
        Frame::put(out, kind, stream, &[&text])
    }

    /// Appends the bytes as data frames for a port, split into as many frames as necessary.
    pub fn put_data(out: &mut Vec<u8>, stream: StreamId, port: u8, bytes: &[u8]) {
        for chunk in bytes.chunks(MAX_DATA) {
            // Cannot fail: MAX_DATA is below MAX_FRAME.
            let _ = Frame::put(out, FrameKind::Data, stream, &[&[port], chunk]);
        }
    }

    pub fn put_close(out: &mut Vec<u8>, stream: StreamId, port: u8) {
        let _ = Frame::put(out, FrameKind::Close, stream, &[&[port]]);
    }

    pub fn put_credit(out: &mut Vec<u8>, stream: StreamId, port: u8, bytes: u32) {
        let _ = Frame::put(out, FrameKind::Credit, stream, &[&[port], &bytes.to_le_bytes()]);
    }

    pub fn put_cancel(out: &mut Vec<u8>, stream: StreamId) {
        let _ = Frame::put(out, FrameKind::Cancel, stream, &[]);
    }

    /// Parses the payload as a JSON message.
    pub fn message<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.payload)
            .map_err(|error| FrameError::Malformed(error.to_string()))
    }

    /// Returns the port number of a data, close or credit frame, and the payload after the port number.
    pub fn on_port(&self) -> Result<(u8, &[u8]), FrameError> {
        match self.payload.split_first() {
            Some((port, rest)) => Ok((*port, rest)),
            None => Err(FrameError::Malformed("missing port number".to_owned())),
        }
    }

    /// Returns the port number of a credit frame, and the number of additional bytes that the sender of the frame is
    /// ready to receive.
    pub fn credit(&self) -> Result<(u8, u32), FrameError> {
        let (port, rest) = self.on_port()?;
        match rest.try_into() {
            Ok(bytes) => Ok((port, u32::from_le_bytes(bytes))),
            Err(_) => Err(FrameError::Malformed("the credit must be a 4-byte number".to_owned())),
        }
    }
}

/// Incremental decoder of a byte stream into frames.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    /// Offset of the next frame in `buffer`.
    start: usize,
}

impl FrameDecoder {
    pub fn new() -> FrameDecoder {
        FrameDecoder::default()
    }

    /// Adds received bytes. Before each call, [`FrameDecoder::next_frame`] must be called until it returns `None`, so
    /// that the buffer never contains more than one incomplete frame.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// When the bytes are not a valid frame. The remaining bytes then cannot be decoded either.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(FrameError::TooLong(length));
        }
        if length < HEADER - 4 {
            return Err(FrameError::TooShort(length));
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let kind = FrameKind::from_byte(frame[0]).ok_or(FrameError::UnknownKind(frame[0]))?;
        let mut stream = [0; 4];
        stream.copy_from_slice(&frame[1..5]);
        let payload = frame[5..].to_vec();
        self.start += 4 + length;
        Ok(Some(Frame { kind, stream: StreamId::from_le_bytes(stream), payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes bytes in chunks of `piece` bytes. The decoder must return frames or an error, and never buffer more than
    /// one frame.
    fn fuzz_decoder(bytes: &[u8], piece: usize) {
        let mut decoder = FrameDecoder::new();
        for piece in bytes.chunks(piece.max(1)) {
            decoder.push(piece);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => {
                        assert!(frame.payload.len() <= MAX_FRAME);
                        let _ = frame.message::<crate::GuestRequest>();
                        let _ = frame.message::<crate::GuestReply>();
                        let _ = frame.message::<crate::Hello>();
                        let _ = frame.message::<crate::HostCall>();
                        let _ = (frame.on_port(), frame.credit());
                    }
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            assert!(decoder.buffer.len() <= decoder.start + MAX_FRAME + 4 + piece.len());
        }
    }

    fn any_kind() -> impl Strategy<Value = FrameKind> {
        (1_u8..=10).prop_map(|byte| FrameKind::from_byte(byte).unwrap())
    }

    proptest! {
        #[test]
        fn decoder_does_not_panic_on_arbitrary_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1_usize..50,
        ) {
            fuzz_decoder(&bytes, piece);
        }

        #[test]
        fn decoder_does_not_panic_on_corrupted_frames(
            mut frames in prop::collection::vec((any_kind(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..60)), 1..8),
            wrong in any::<prop::sample::Index>(), byte in any::<u8>(), piece in 1_usize..50,
        ) {
            frames.push((FrameKind::Open, 1, br#"{"exec":{"argv":["x"]}}"#.to_vec()));
            let mut bytes = Vec::new();
            for (kind, stream, payload) in &frames {
                Frame::put(&mut bytes, *kind, *stream, &[payload]).unwrap();
            }
            let at = wrong.index(bytes.len());
            bytes[at] = byte;
            fuzz_decoder(&bytes, piece);
        }

        #[test]
        fn frames_round_trip_through_chunks_of_any_size(
            frames in prop::collection::vec((any_kind(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..60)), 0..8),
            piece in 1_usize..50,
        ) {
            let mut bytes = Vec::new();
            for (kind, stream, payload) in &frames {
                Frame::put(&mut bytes, *kind, *stream, &[payload]).unwrap();
            }
            let (mut decoder, mut read) = (FrameDecoder::new(), Vec::new());
            for piece in bytes.chunks(piece) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    read.push((frame.kind, frame.stream, frame.payload));
                }
            }
            prop_assert_eq!(read, frames);
        }
    }

    #[test]
    fn decoder_rejects_an_oversized_frame_before_its_payload_arrives() {
        let mut decoder = FrameDecoder::new();
        decoder.push(&u32::MAX.to_le_bytes());
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong(u32::MAX as usize)));
        let huge = vec![0; MAX_FRAME];
        assert!(Frame::put(&mut Vec::new(), FrameKind::Open, 1, &[&huge]).is_err());
    }

    #[test]
    fn long_data_is_split_into_several_frames() {
        let mut bytes = Vec::new();
        Frame::put_data(&mut bytes, 7, 1, &vec![b'x'; 2 * MAX_DATA + 1]);
        let mut decoder = FrameDecoder::new();
        decoder.push(&bytes);
        let mut sizes = Vec::new();
        while let Some(frame) = decoder.next_frame().unwrap() {
            sizes.push(frame.on_port().unwrap().1.len());
        }
        assert_eq!(sizes, [MAX_DATA, MAX_DATA, 1]);
    }
}
