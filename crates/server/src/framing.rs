//! Refusal of requests whose length is ambiguous: those with both `Content-Length` and `Transfer-Encoding`.
//!
//! A proxy that goes by one of the two headers and a server that goes by the other see different requests on the same
//! connection. The HTTP library drops `Content-Length` before a handler sees the request, so the bytes themselves are
//! read here, before the library gets them. A request head with both headers is made invalid, and the library answers
//! it with 400 and closes the connection.

/// The longest header name that matters, and the longest value of `Content-Length`.
const MAX_LINE: usize = 64;

/// Place in the stream of requests of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Before a request line, where empty lines are skipped.
    #[default]
    Start,
    Head,
    /// So many bytes of a body are left.
    Body(u64),
    ChunkSize,
    /// So many bytes of a chunk and of the line end after it are left.
    Chunk(u64),
    Trailers,
    /// The framing is invalid: the library closes the connection.
    Lost,
}

/// Reads the framing of the requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    place: Place,
    /// Beginning of the current line, and its length.
    line: Vec<u8>,
    line_length: u64,
    content_length: Option<u64>,
    chunked: bool,
}

impl Framing {
    /// Reads bytes that have arrived. The end of a head with both headers is overwritten by a byte that no head has.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.place {
                Place::Lost => return,
                Place::Body(left) | Place::Chunk(left) => {
                    let here = (bytes.len() - at) as u64;
                    let read = here.min(*left);
                    *left -= read;
                    #[expect(clippy::cast_possible_truncation, reason = "no more than there is")]
                    let read = read as usize;
                    at += read;
                    if *left == 0 {
                        self.place = match self.place {
                            Place::Body(_) => Place::Start,
                            _ => Place::ChunkSize,
                        };
                    }
                }
                Place::Start | Place::Head | Place::ChunkSize | Place::Trailers => {
                    let byte = bytes[at];
                    if byte == b'\n' {
                        if self.end_line() {
                            bytes[at] = 0;
                        }
                    } else {
                        if self.line.len() < MAX_LINE {
                            self.line.push(byte);
                        }
                        self.line_length += 1;
                    }
                    at += 1;
                }
            }
        }
    }

    /// Ends a line; whether it ends a head that has both headers.
    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        let empty = text.is_empty() && self.line_length <= 1;
        let mut ambiguous = false;
        match self.place {
            Place::Start if !empty => {
                (self.content_length, self.chunked) = (None, false);
                self.place = Place::Head;
            }
            Place::Head if empty => {
                ambiguous = self.chunked && self.content_length.is_some();
                self.place = match (self.chunked, self.content_length) {
                    _ if ambiguous => Place::Lost,
                    (true, _) => Place::ChunkSize,
                    (false, Some(0) | None) => Place::Start,
                    (false, Some(length)) => Place::Body(length),
                };
            }
            Place::Head => self.read_header(text),
            Place::ChunkSize => {
                self.place = match chunk_size(text) {
                    Some(0) => Place::Trailers,
                    // The end of the line after it may be one byte or two: the rest is an empty line.
                    Some(size) => Place::Chunk(size),
                    None if empty => Place::ChunkSize,
                    None => Place::Lost,
                };
            }
            Place::Trailers if empty => self.place = Place::Start,
            _ => {}
        }
        self.line = line;
        self.line.clear();
        self.line_length = 0;
        ambiguous
    }

    fn read_header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            // The library refuses what is no number.
            self.content_length = Some(length.unwrap_or(0));
        }
    }
}

/// Size of a chunk, by its line; extensions are left aside.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

    /// How many heads of a stream are made invalid, if it arrives in pieces of so many bytes.
    fn refused(stream: &str, piece: usize) -> usize {
        let mut framing = Framing::default();
        let mut bytes = stream.as_bytes().to_vec();
        bytes.chunks_mut(piece).for_each(|piece| framing.read(piece));
        let changed = bytes.iter().zip(stream.as_bytes()).filter(|(now, before)| now != before);
        changed.inspect(|(now, before)| assert_eq!((**now, **before), (0, b'\n'))).count()
    }

    #[test]
    fn heads_with_both_lengths_are_made_invalid() {
        let swapped =
            "POST / HTTP/1.1\r\ntransfer-ENCODING:chunked\r\nHost: a\r\ncontent-length:3\r\n\r\n";
        let bare_line_feeds =
            "\nPOST / HTTP/1.1\nContent-Length: 0\nTransfer-Encoding: gzip, chunked\n\n";
        let length = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde";
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n";
        let bare = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let hidden = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{BOTH}", BOTH.len());
        for piece in [1, 2, 3, 7, 1 << 20] {
            for both in [BOTH, swapped, bare_line_feeds] {
                assert_eq!(refused(both, piece), 1, "{both:?}");
                for before in [length, chunks, bare] {
                    assert_eq!(refused(&format!("{before}{both}"), piece), 1, "{before:?}");
                }
            }
            for fine in [length, chunks, bare, &hidden] {
                assert_eq!(refused(fine, piece), 0, "{fine:?}");
                assert_eq!(refused(&fine.repeat(3), piece), 0, "{fine:?}");
            }
        }
    }

    #[test]
    fn invalid_chunks_end_the_reading() {
        let lost = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
        assert_eq!(refused(&format!("{lost}{BOTH}"), 5), 0);
    }
}
