//! Cuts a byte stream into the pieces that a dialect understands.

use crate::dialect::Framing;

/// A piece longer than this is no piece of an answer.
const LONGEST_FRAME: usize = 8 * 1024 * 1024;

/// The bytes that have come and do not yet make a whole piece.
#[derive(Debug)]
pub(crate) struct Frames {
    framing: Framing,
    pending: Vec<u8>,
    /// Where the search for the next line end goes on.
    searched: usize,
    /// The data lines of the event that is being read.
    data: Vec<String>,
}

/// A piece that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadFrame {
    TooLong,
    NotUtf8,
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Frames {
        Frames { framing, pending: Vec::new(), searched: 0, data: Vec::new() }
    }

    /// Takes more bytes and gives the pieces that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, BadFrame> {
        self.pending.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        let mut start = 0;
        while let Some(offset) = self.pending[self.searched..].iter().position(|b| *b == b'\n') {
            let end = self.searched + offset;
            let line =
                std::str::from_utf8(&self.pending[start..end]).map_err(|_| BadFrame::NotUtf8)?;
            let line = line.strip_suffix('\r').unwrap_or(line);
            pieces.extend(Self::line(self.framing, &mut self.data, line));
            start = end + 1;
            self.searched = start;
        }
        self.pending.drain(..start);
        self.searched = self.pending.len();
        let held = self.pending.len() + self.data.iter().map(String::len).sum::<usize>();
        if held > LONGEST_FRAME { Err(BadFrame::TooLong) } else { Ok(pieces) }
    }

    /// The piece that the end of the stream completes, if any.
    pub(crate) fn finish(mut self) -> Result<Option<String>, BadFrame> {
        let rest = std::mem::take(&mut self.pending);
        let rest = String::from_utf8(rest).map_err(|_| BadFrame::NotUtf8)?;
        let mut piece = Self::line(self.framing, &mut self.data, rest.trim_end_matches('\r'));
        if piece.is_none() {
            piece = Self::line(self.framing, &mut self.data, "");
        }
        Ok(piece)
    }

    fn line(framing: Framing, data: &mut Vec<String>, line: &str) -> Option<String> {
        match framing {
            Framing::Lines => (!line.trim().is_empty()).then(|| line.to_owned()),
            Framing::Events if line.is_empty() => {
                (!data.is_empty()).then(|| std::mem::take(data).join("\n"))
            }
            Framing::Events => {
                // Event names, ids and comments say nothing that the data does not.
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

    fn cut(framing: Framing, chunks: &[&[u8]]) -> Vec<String> {
        let mut frames = Frames::new(framing);
        let mut pieces: Vec<String> =
            chunks.iter().flat_map(|chunk| frames.push(chunk).unwrap()).collect();
        pieces.extend(frames.finish().unwrap());
        pieces
    }

    #[test]
    fn events_are_read_with_comments_names_and_either_line_end() {
        let stream =
            b": hello\r\nevent: a\r\ndata: {\"x\":1}\r\n\r\ndata:two\ndata: lines\n\n\ndata: last";
        assert_eq!(cut(Framing::Events, &[stream]), ["{\"x\":1}", "two\nlines", "last"]);
        assert_eq!(
            cut(Framing::Lines, &[b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}"]),
            ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]
        );
    }

    #[test]
    fn what_is_no_text_or_never_ends_is_refused() {
        assert_eq!(Frames::new(Framing::Lines).push(b"\xff\xfe\n"), Err(BadFrame::NotUtf8));
        let mut frames = Frames::new(Framing::Events);
        let chunk = vec![b'x'; 1024 * 1024];
        let outcome = (0..10).find_map(|_| frames.push(&chunk).err());
        assert_eq!(outcome, Some(BadFrame::TooLong));
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_makes_no_difference(
            texts in prop::collection::vec("[a-zé{}\": ]{0,12}", 1..8),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let stream: String = texts.iter().map(|text| format!("event: x\ndata: {text}\n\n")).collect();
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(cut(Framing::Events, &chunks), cut(Framing::Events, &[bytes]));
        }
    }
}
