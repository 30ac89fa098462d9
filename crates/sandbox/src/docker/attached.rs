//! Standard streams of a container's first process (the guest agent) as one connection.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::stream::try_unfold;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, BufReader};
use tokio_util::io::StreamReader;

use super::api::Upgrade;
use crate::diagnostics::DiagnosticOutput;

/// First byte of the header of a chunk that the process wrote to its standard output.
const STDOUT: u8 = 1;

/// First byte of the header of a chunk that the process wrote to its stderr.
const STDERR: u8 = 2;

/// Maximum number of bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// Connection to the guest agent's standard input and output; its stderr is collected in `words`.
pub(crate) fn connection(
    attached: Upgrade,
    words: DiagnosticOutput,
) -> impl AsyncRead + AsyncWrite {
    let (output, input) = tokio::io::split(attached);
    let output = EngineOutput::new(BufReader::with_capacity(PIECE, output), words);
    let written = try_unfold(output, |mut output| async {
        Ok::<_, io::Error>(output.next().await?.map(|bytes| (bytes, output)))
    });
    tokio::io::join(StreamReader::new(Box::pin(written)), input)
}

/// Output of a process as the engine sends it: chunks from both streams, each with a header. The first byte of a header
/// is the number of the stream, the last four bytes are the length of the chunk.
struct EngineOutput<R> {
    output: R,
    buffer: BytesMut,
    /// Stream of the current chunk.
    stream: u8,
    /// Number of bytes of the current chunk that were not read yet.
    remaining: usize,
    words: DiagnosticOutput,
}

impl<R: AsyncRead + Unpin> EngineOutput<R> {
    fn new(output: R, words: DiagnosticOutput) -> EngineOutput<R> {
        EngineOutput { output, buffer: BytesMut::new(), stream: 0, remaining: 0, words }
    }

    /// Returns the next piece of the standard output; `None` at its end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            while self.remaining == 0 {
                let mut header = [0; 8];
                if self.output.read(&mut header[..1]).await? == 0 {
                    return Ok(None);
                }
                self.output.read_exact(&mut header[1..]).await?;
                let [stream, _, _, _, length @ ..] = header;
                self.stream = stream;
                self.remaining = u32::from_be_bytes(length) as usize;
            }
            self.buffer.reserve(self.remaining.min(PIECE));
            let limit = self.remaining.min(PIECE) as u64;
            if (&mut self.output).take(limit).read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let piece = self.buffer.split().freeze();
            self.remaining -= piece.len();
            match self.stream {
                STDOUT => return Ok(Some(piece)),
                STDERR => drop(self.words.add(&piece)),
                // The engine sends other streams only for containers with a terminal.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(stream: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[stream, 0, 0, 0], &length[..], bytes].concat()
    }

    #[tokio::test]
    async fn standard_output_is_separated_from_stderr() {
        let long = vec![b'x'; 3 * PIECE + 1];
        let sent = [
            chunk(STDOUT, b"one"),
            chunk(STDERR, b"error"),
            chunk(STDOUT, b""),
            chunk(STDOUT, &long),
            chunk(STDOUT, b"two"),
        ]
        .concat();
        let words = DiagnosticOutput::default();
        let mut output = EngineOutput::new(&sent[..], words.clone());
        let mut read = Vec::new();
        while let Some(bytes) = output.next().await.unwrap() {
            assert!(bytes.len() <= PIECE);
            read.extend_from_slice(&bytes);
        }
        assert_eq!(read, [b"one", &long[..], b"two"].concat());
        assert_eq!(words.get().unwrap(), "error");
    }

    #[tokio::test]
    async fn truncated_chunk_is_an_error() {
        let sent = chunk(STDOUT, b"truncated");
        for length in [3, 8, sent.len() - 1] {
            let mut output = EngineOutput::new(&sent[..length], DiagnosticOutput::default());
            let error = loop {
                match output.next().await {
                    Ok(bytes) => assert!(bytes.is_some()),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
