//! Prints or captures the output of a program that runs in a sandbox.

use std::io::IsTerminal;

use assize_code::exec::ProgramStream;
use assize_types::{Failure, FailureKind};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::source_name_filter::SourceNameFilter;
use crate::terminal;

/// How the output of a program is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputMode {
    /// Capture the output and print nothing.
    Capture,
    /// Print the output as it arrives; on a terminal, replace control codes.
    Sanitize,
    /// Print the output unchanged as it arrives.
    Raw,
}

/// Destination of a program's output.
pub(crate) struct ProgramOutput {
    mode: OutputMode,
    stdout: StreamWriter<tokio::io::Stdout>,
    stderr: StreamWriter<tokio::io::Stderr>,
    /// Filter for messages of the program: replaces the path of the code file with the name of the user's file.
    name: Option<SourceNameFilter>,
    /// Captured standard output, if the mode is [`OutputMode::Capture`].
    pub(crate) captured_stdout: Vec<u8>,
    /// Captured standard error, if the mode is [`OutputMode::Capture`].
    pub(crate) captured_stderr: Vec<u8>,
}

impl ProgramOutput {
    pub(crate) fn new(mode: OutputMode, name: Option<SourceNameFilter>) -> ProgramOutput {
        let sanitize = |terminal: bool| terminal && mode == OutputMode::Sanitize;
        // The writers are asynchronous, so that signals are handled even if the reader of the output stops reading.
        let stdout =
            StreamWriter::new(tokio::io::stdout(), sanitize(std::io::stdout().is_terminal()));
        let stderr =
            StreamWriter::new(tokio::io::stderr(), sanitize(std::io::stderr().is_terminal()));
        ProgramOutput {
            mode,
            stdout,
            stderr,
            name,
            captured_stdout: Vec::new(),
            captured_stderr: Vec::new(),
        }
    }

    /// Prints or captures the next bytes of one of the program's output streams.
    pub(crate) async fn handle(
        &mut self,
        output: ProgramStream,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        match (output, self.mode, &mut self.name) {
            (ProgramStream::Stdout, OutputMode::Capture, _) => self.captured_stdout.extend(bytes),
            (ProgramStream::Stdout, ..) => {
                terminal::check_open()?;
                self.stdout.write_sanitized(bytes).await?;
            }
            (ProgramStream::Stderr, _, Some(name)) => {
                let renamed = name.filter(bytes);
                self.handle_stderr(&renamed).await?;
            }
            (ProgramStream::Stderr, _, None) => self.handle_stderr(bytes).await?,
        }
        Ok(())
    }

    async fn handle_stderr(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.mode == OutputMode::Capture {
            self.captured_stderr.extend(bytes);
            return Ok(());
        }
        self.stderr.write_sanitized(bytes).await
    }

    /// Writes the bytes that were held back because a path or a character was incomplete. Must be called at the end of
    /// the program's output.
    pub(crate) async fn finish(&mut self) -> Result<(), Failure> {
        let rest = self.name.take().map_or_else(Vec::new, |mut name| name.finish());
        self.handle_stderr(&rest).await?;
        self.stdout.finish().await?;
        self.stderr.finish().await
    }
}

/// Writer for one output stream of a program.
struct StreamWriter<W> {
    to: W,
    sanitize: bool,
    /// First bytes of a UTF-8 character whose remaining bytes have not arrived yet.
    pending: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> StreamWriter<W> {
    fn new(to: W, sanitize: bool) -> StreamWriter<W> {
        StreamWriter { to, sanitize, pending: Vec::new() }
    }

    async fn write_sanitized(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if !self.sanitize {
            return self.write(bytes).await;
        }
        self.pending.extend_from_slice(bytes);
        let rest = self.pending.split_off(whole_characters(&self.pending));
        let text = std::mem::replace(&mut self.pending, rest);
        self.write(terminal::replace_control_chars(&String::from_utf8_lossy(&text)).as_bytes())
            .await
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        let rest = std::mem::take(&mut self.pending);
        self.write(String::from_utf8_lossy(&rest).as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = async {
            self.to.write_all(bytes).await?;
            self.to.flush().await
        };
        written.await.map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::new(
                FailureKind::Unread,
                "the reader of the program's output closed the pipe",
            ),
            _ => terminal::write_failed(error),
        })
    }
}

/// Returns the length of `bytes` in bytes, not counting an incomplete UTF-8 character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let begins = |back: &usize| bytes[bytes.len() - back] & 0xc0 != 0x80;
    // The last character begins at most three bytes before the end.
    match (1..=bytes.len().min(3)).find(begins) {
        Some(back) => {
            let last = &bytes[bytes.len() - back..];
            let unfinished =
                std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
            bytes.len() - if unfinished { back } else { 0 }
        }
        None => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stream_writer_prints_characters_whole_if_their_bytes_arrive_separately() {
        let text = "aä€😀z\u{1b}[31m";
        for split in 0..=text.len() {
            let mut shown = Vec::new();
            let mut writer = StreamWriter::new(&mut shown, true);
            writer.write_sanitized(&text.as_bytes()[..split]).await.unwrap();
            writer.write_sanitized(&text.as_bytes()[split..]).await.unwrap();
            writer.finish().await.unwrap();
            assert_eq!(String::from_utf8(shown).unwrap(), "aä€😀z\u{fffd}[31m", "{split}");
        }
        let mut shown = Vec::new();
        let mut writer = StreamWriter::new(&mut shown, true);
        for byte in [0xff, b'a', 0xe2, 0x82] {
            writer.write_sanitized(&[byte]).await.unwrap();
        }
        writer.finish().await.unwrap();
        assert_eq!(String::from_utf8(shown).unwrap(), "\u{fffd}a\u{fffd}");
    }
}
