//! Frames: the unit of what is sent, and the decoder that never trusts its input.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes of data in one frame.
pub const MAX_DATA: usize = 64 * 1024;

/// The most bytes in one frame, its kind and stream included.
pub const MAX_FRAME: usize = 1024 * 1024;

/// Length, kind, stream.
const HEADER: usize = 4 + 1 + 4;

/// One request and what belongs to it. The host counts upwards from 1; 0 is the connection itself.
pub type StreamId = u32;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first frame in each direction: who speaks, and in which version.
    Hello = 1,
    /// Opens a stream with a request.
    Open = 2,
    /// Bytes for a port, whose number is the first byte.
    Data = 3,
    /// No more bytes come on the port.
    Close = 4,
    /// The receiver has room for that many more bytes on the port.
    Credit = 5,
    /// The reply: the last frame of a stream.
    Done = 6,
    /// Nobody waits for the stream any more.
    Cancel = 7,
    /// From a program that may talk to the host: asks for something, under a number of its own.
    Call = 8,
    /// What the host answers to the call of that number.
    Answer = 9,
    /// From a program that may talk to the host: tells something.
    Event = 10,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::{Answer, Call, Cancel, Close, Credit, Data, Done, Event, Hello, Open};
        [Hello, Open, Data, Close, Credit, Done, Cancel, Call, Answer, Event]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// One frame, as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub stream: StreamId,
    pub payload: Vec<u8>,
}

/// Bytes that are no frame, or a frame that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {0} bytes, and {MAX_FRAME} are allowed")]
    TooLong(usize),
    #[error("a frame of {0} bytes, which is less than its head")]
    TooShort(usize),
    #[error("a frame of the unknown kind {0}")]
    UnknownKind(u8),
    #[error("a frame that says nothing: {0}")]
    Unreadable(String),
    #[error("a message of {0} bytes, which is more than fits into a frame")]
    TooMuch(usize),
}

impl Frame {
    /// Adds a frame with these bytes to what is to be sent.
    ///
    /// # Errors
    /// When it would be too long to be received.
    pub fn put(
        out: &mut Vec<u8>,
        kind: Kind,
        stream: StreamId,
        parts: &[&[u8]],
    ) -> Result<(), FrameError> {
        let size = HEADER - 4 + parts.iter().map(|part| part.len()).sum::<usize>();
        if size > MAX_FRAME {
            return Err(FrameError::TooMuch(size));
        }
        out.reserve(size + 4);
        #[expect(clippy::cast_possible_truncation, reason = "MAX_FRAME fits")]
        out.extend_from_slice(&(size as u32).to_le_bytes());
        out.push(kind as u8);
        out.extend_from_slice(&stream.to_le_bytes());
        for part in parts {
            out.extend_from_slice(part);
        }
        Ok(())
    }

    /// Adds a frame with this message.
    ///
    /// # Errors
    /// When it would be too long to be received.
    pub fn put_message<T: Serialize>(
        out: &mut Vec<u8>,
        kind: Kind,
        stream: StreamId,
        message: &T,
    ) -> Result<(), FrameError> {
        let text = serde_json::to_vec(message)
            .map_err(|error| FrameError::Unreadable(error.to_string()))?;
        Frame::put(out, kind, stream, &[&text])
    }

    /// Adds the bytes as data for a port, in as many frames as it takes.
    pub fn put_data(out: &mut Vec<u8>, stream: StreamId, port: u8, bytes: &[u8]) {
        for piece in bytes.chunks(MAX_DATA) {
            // A piece fits by its size.
            let _ = Frame::put(out, Kind::Data, stream, &[&[port], piece]);
        }
    }

    pub fn put_close(out: &mut Vec<u8>, stream: StreamId, port: u8) {
        let _ = Frame::put(out, Kind::Close, stream, &[&[port]]);
    }

    pub fn put_credit(out: &mut Vec<u8>, stream: StreamId, port: u8, bytes: u32) {
        let _ = Frame::put(out, Kind::Credit, stream, &[&[port], &bytes.to_le_bytes()]);
    }

    pub fn put_cancel(out: &mut Vec<u8>, stream: StreamId) {
        let _ = Frame::put(out, Kind::Cancel, stream, &[]);
    }

    /// The message in it.
    pub fn message<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.payload)
            .map_err(|error| FrameError::Unreadable(error.to_string()))
    }

    /// The port of a data, close or credit frame, and what follows it.
    pub fn on_port(&self) -> Result<(u8, &[u8]), FrameError> {
        match self.payload.split_first() {
            Some((port, rest)) => Ok((*port, rest)),
            None => Err(FrameError::Unreadable("it names no port".to_owned())),
        }
    }

    /// The port of a credit frame, and how much more there is room for.
    pub fn credit(&self) -> Result<(u8, u32), FrameError> {
        let (port, rest) = self.on_port()?;
        match rest.try_into() {
            Ok(bytes) => Ok((port, u32::from_le_bytes(bytes))),
            Err(_) => Err(FrameError::Unreadable("it gives no number of bytes".to_owned())),
        }
    }
}

/// Makes frames of bytes as they come.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where in the buffer the next frame begins.
    start: usize,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Takes what was received. Take all frames out before the next bytes, and no more than one
    /// unfinished frame is ever kept.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When the bytes cannot be one; nothing after it can be understood.
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
        let kind = Kind::from_byte(frame[0]).ok_or(FrameError::UnknownKind(frame[0]))?;
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

    /// Any bytes, in any pieces: frames or an error, and never more memory than one frame.
    fn fuzz_decoder(bytes: &[u8], piece: usize) {
        let mut decoder = Decoder::new();
        for piece in bytes.chunks(piece.max(1)) {
            decoder.push(piece);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => {
                        assert!(frame.payload.len() <= MAX_FRAME);
                        let _ = frame.message::<crate::Request>();
                        let _ = frame.message::<crate::Reply>();
                        let _ = frame.message::<crate::Hello>();
                        let _ = frame.message::<crate::Call>();
                        let _ = (frame.on_port(), frame.credit());
                    }
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            assert!(decoder.buffer.len() <= decoder.start + MAX_FRAME + 4 + piece.len());
        }
    }

    fn any_kind() -> impl Strategy<Value = Kind> {
        (1_u8..=10).prop_map(|byte| Kind::from_byte(byte).unwrap())
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1_usize..50) {
            fuzz_decoder(&bytes, piece);
        }

        #[test]
        fn nor_do_frames_with_something_wrong_in_them(
            mut frames in prop::collection::vec((any_kind(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..60)), 1..8),
            wrong in any::<prop::sample::Index>(), byte in any::<u8>(), piece in 1_usize..50,
        ) {
            frames.push((Kind::Open, 1, br#"{"exec":{"argv":["x"]}}"#.to_vec()));
            let mut bytes = Vec::new();
            for (kind, stream, payload) in &frames {
                Frame::put(&mut bytes, *kind, *stream, &[payload]).unwrap();
            }
            let at = wrong.index(bytes.len());
            bytes[at] = byte;
            fuzz_decoder(&bytes, piece);
        }

        #[test]
        fn what_is_put_is_what_is_read(
            frames in prop::collection::vec((any_kind(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..60)), 0..8),
            piece in 1_usize..50,
        ) {
            let mut bytes = Vec::new();
            for (kind, stream, payload) in &frames {
                Frame::put(&mut bytes, *kind, *stream, &[payload]).unwrap();
            }
            let (mut decoder, mut read) = (Decoder::new(), Vec::new());
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
    fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
        let mut decoder = Decoder::new();
        decoder.push(&u32::MAX.to_le_bytes());
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong(u32::MAX as usize)));
        let huge = vec![0; MAX_FRAME];
        assert!(Frame::put(&mut Vec::new(), Kind::Open, 1, &[&huge]).is_err());
    }

    #[test]
    fn long_data_is_cut_into_frames() {
        let mut bytes = Vec::new();
        Frame::put_data(&mut bytes, 7, 1, &vec![b'x'; 2 * MAX_DATA + 1]);
        let mut decoder = Decoder::new();
        decoder.push(&bytes);
        let mut sizes = Vec::new();
        while let Some(frame) = decoder.next_frame().unwrap() {
            sizes.push(frame.on_port().unwrap().1.len());
        }
        assert_eq!(sizes, [MAX_DATA, MAX_DATA, 1]);
    }
}
