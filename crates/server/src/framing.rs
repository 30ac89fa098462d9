//! Rejects HTTP requests that have both length headers: `Content-Length` and `Transfer-Encoding` (request smuggling).
//!
//! If a proxy uses one of the two headers and a server uses the other, the two see different requests on the same
//! connection. hyper removes `Content-Length` before a handler sees the request, so this module parses the bytes before
//! hyper does. If a request head has both headers, this module overwrites a byte of the head, which makes the head
//! invalid. hyper then responds with 400 and closes the connection.

/// Maximum number of bytes of a line that the parser stores: enough for the two header names and the value of
/// `Content-Length`.
const MAX_LINE: usize = 64;

/// Part of a request that the parser of a connection reads next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ParserState {
    /// The parser is before a request line, where empty lines are skipped.
    #[default]
    Start,
    Head,
    /// The parser is in a body whose length is known, with this number of bytes left.
    Body(u64),
    ChunkSize,
    /// The parser is in a chunk of a chunked body, with this number of bytes left.
    Chunk(u64),
    Trailers,
    /// The framing is invalid: hyper closes the connection, and the parser ignores all further bytes.
    Lost,
}

/// Parser that finds where the requests on one connection begin and end.
#[derive(Debug, Default)]
pub(crate) struct RequestFraming {
    state: ParserState,
    /// First [`MAX_LINE`] bytes of the current line.
    line: Vec<u8>,
    /// Full length of the current line in bytes.
    line_length: u64,
    content_length: Option<u64>,
    chunked: bool,
}

impl RequestFraming {
    /// Parses received bytes. If a request head has both length headers, overwrites the line feed at the end of the
    /// head with a NUL byte, which makes the head invalid.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.state {
                ParserState::Lost => return,
                ParserState::Body(left) | ParserState::Chunk(left) => {
                    let here = (bytes.len() - at) as u64;
                    let read = here.min(*left);
                    *left -= read;
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "the value is at most `bytes.len()`"
                    )]
                    let read = read as usize;
                    at += read;
                    if *left == 0 {
                        self.state = match self.state {
                            ParserState::Body(_) => ParserState::Start,
                            _ => ParserState::ChunkSize,
                        };
                    }
                }
                ParserState::Start
                | ParserState::Head
                | ParserState::ChunkSize
                | ParserState::Trailers => {
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

    /// Processes the end of a line. Returns true if the line ends a request head that has both length headers.
    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        let empty = text.is_empty() && self.line_length <= 1;
        let mut ambiguous = false;
        match self.state {
            ParserState::Start if !empty => {
                (self.content_length, self.chunked) = (None, false);
                self.state = ParserState::Head;
            }
            ParserState::Head if empty => {
                ambiguous = self.chunked && self.content_length.is_some();
                self.state = match (self.chunked, self.content_length) {
                    _ if ambiguous => ParserState::Lost,
                    (true, _) => ParserState::ChunkSize,
                    (false, Some(0) | None) => ParserState::Start,
                    (false, Some(length)) => ParserState::Body(length),
                };
            }
            ParserState::Head => self.read_header(text),
            ParserState::ChunkSize => {
                self.state = match chunk_size(text) {
                    Some(0) => ParserState::Trailers,
                    // The line end after the chunk data (LF or CRLF) is parsed as an empty line in this state.
                    Some(size) => ParserState::Chunk(size),
                    None if empty => ParserState::ChunkSize,
                    None => ParserState::Lost,
                };
            }
            ParserState::Trailers if empty => self.state = ParserState::Start,
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
            // If the value is not a number, any length will do here, because hyper rejects the request.
            self.content_length = Some(length.unwrap_or(0));
        }
    }
}

/// Parses the size of a chunk from the line before the chunk; ignores chunk extensions.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

    /// Number of request heads that the parser makes invalid if the bytes of `stream` arrive in pieces of `piece`
    /// bytes.
    fn refused(stream: &str, piece: usize) -> usize {
        let mut framing = RequestFraming::default();
        let mut bytes = stream.as_bytes().to_vec();
        bytes.chunks_mut(piece).for_each(|piece| framing.read(piece));
        let changed = bytes.iter().zip(stream.as_bytes()).filter(|(now, before)| now != before);
        changed.inspect(|(now, before)| assert_eq!((**now, **before), (0, b'\n'))).count()
    }

    #[test]
    fn request_heads_with_both_length_headers_are_made_invalid() {
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
    fn framing_parser_ignores_all_bytes_after_an_invalid_chunk_size() {
        let lost = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
        assert_eq!(refused(&format!("{lost}{BOTH}"), 5), 0);
    }
}
