//! Splits the byte stream of a response into frames: server-sent events or lines.

use crate::adapter::Framing;

/// Maximum size of one frame in bytes.
pub(crate) const MAX_FRAME: usize = 8 * 1024 * 1024;

/// Splitter that divides a stream into frames. It buffers the received bytes that do not form a complete frame yet.
#[derive(Debug)]
pub(crate) struct Frames {
    framing: Framing,
    pending: Vec<u8>,
    /// Offset in the buffer at which the search for the next line end continues.
    searched: usize,
    /// Data lines of the current server-sent event.
    data: Vec<String>,
}

/// Why a stream could not be split into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFrameError {
    TooLong,
    NotUtf8,
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Frames {
        Frames { framing, pending: Vec::new(), searched: 0, data: Vec::new() }
    }

    /// Adds received bytes and returns the frames that are complete now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, StreamFrameError> {
        self.pending.extend_from_slice(bytes);
        let mut complete = Vec::new();
        let mut start = 0;
        while let Some(offset) = self.pending[self.searched..].iter().position(|b| *b == b'\n') {
            let end = self.searched + offset;
            let line = std::str::from_utf8(&self.pending[start..end])
                .map_err(|_| StreamFrameError::NotUtf8)?;
            let line = line.strip_suffix('\r').unwrap_or(line);
            complete.extend(Self::line(self.framing, &mut self.data, line));
            start = end + 1;
            self.searched = start;
        }
        self.pending.drain(..start);
        self.searched = self.pending.len();
        let buffered = self.pending.len() + self.data.iter().map(String::len).sum::<usize>();
        if buffered > MAX_FRAME { Err(StreamFrameError::TooLong) } else { Ok(complete) }
    }

    /// Ends the stream and returns the last frame, if there is one.
    pub(crate) fn finish(mut self) -> Result<Option<String>, StreamFrameError> {
        let rest = std::mem::take(&mut self.pending);
        let rest = String::from_utf8(rest).map_err(|_| StreamFrameError::NotUtf8)?;
        let mut frame = Self::line(self.framing, &mut self.data, rest.trim_end_matches('\r'));
        if frame.is_none() {
            frame = Self::line(self.framing, &mut self.data, "");
        }
        Ok(frame)
    }

    fn line(framing: Framing, data: &mut Vec<String>, line: &str) -> Option<String> {
        match framing {
            Framing::Lines => (!line.trim().is_empty()).then(|| line.to_owned()),
            Framing::Events if line.is_empty() => {
                (!data.is_empty()).then(|| std::mem::take(data).join("\n"))
            }
            Framing::Events => {
                // Only data lines are used. Event names, ids and comments contain nothing that the data does not.
                if let Some(value) = line.strip_prefix("data:") {
                    data.push(value.strip_prefix(' ').unwrap_or(value).to_owned());
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(framing: Framing, chunks: &[&[u8]]) -> Vec<String> {
        let mut frames = Frames::new(framing);
        let mut complete: Vec<String> =
            chunks.iter().flat_map(|chunk| frames.push(chunk).unwrap()).collect();
        complete.extend(frames.finish().unwrap());
        complete
    }

    #[test]
    fn frames_are_split_at_lf_and_crlf_line_ends() {
        let stream =
            b": hello\r\nevent: a\r\ndata: {\"x\":1}\r\n\r\ndata:two\ndata: lines\n\n\ndata: last";
        assert_eq!(split(Framing::Events, &[stream]), ["{\"x\":1}", "two\nlines", "last"]);
        assert_eq!(
            split(Framing::Lines, &[b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}"]),
            ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]
        );
    }

    #[test]
    fn frames_that_are_too_long_or_not_utf8_are_rejected() {
        assert_eq!(Frames::new(Framing::Lines).push(b"\xff\xfe\n"), Err(StreamFrameError::NotUtf8));
        let mut frames = Frames::new(Framing::Events);
        let chunk = vec![b'x'; 1024 * 1024];
        let outcome = (0..10).find_map(|_| frames.push(&chunk).err());
        assert_eq!(outcome, Some(StreamFrameError::TooLong));
    }

    proptest! {
        #[test]
        fn stream_chunk_boundaries_do_not_change_the_frames(
            texts in prop::collection::vec("[a-zé{}\": ]{0,12}", 1..8),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let stream: String = texts.iter().map(|text| format!("event: x\ndata: {text}\n\n")).collect();
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(split(Framing::Events, &chunks), split(Framing::Events, &[bytes]));
        }
    }
}
