//! The output of a program in a sandbox, on its way to our own terminal.

use std::io::IsTerminal;

use assize_code::exec::Output;
use assize_types::{Failure, FailureKind};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::own_name::OwnName;
use crate::terminal;

/// What becomes of a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// It is kept, and nothing is shown.
    Keep,
    /// It is shown as it comes, to a terminal without what a terminal would obey.
    Harmless,
    /// It is shown as it comes.
    Raw,
}

/// Where the output of a program goes.
pub(crate) struct Screen {
    show: Show,
    stdout: Way<tokio::io::Stdout>,
    stderr: Way<tokio::io::Stderr>,
    /// The name that messages of the program have for the user's own file.
    name: Option<OwnName>,
    /// What it wrote, if that is kept.
    pub(crate) kept_stdout: Vec<u8>,
    pub(crate) kept_stderr: Vec<u8>,
}

impl Screen {
    pub(crate) fn new(show: Show, name: Option<OwnName>) -> Screen {
        let careful = |terminal: bool| terminal && show == Show::Harmless;
        // A reader that does not read what is written must not keep us from hearing that we are to end.
        let stdout = Way::new(tokio::io::stdout(), careful(std::io::stdout().is_terminal()));
        let stderr = Way::new(tokio::io::stderr(), careful(std::io::stderr().is_terminal()));
        Screen { show, stdout, stderr, name, kept_stdout: Vec::new(), kept_stderr: Vec::new() }
    }

    /// Passes on what a program wrote.
    pub(crate) async fn pass(&mut self, output: Output, bytes: &[u8]) -> Result<(), Failure> {
        match (output, self.show, &mut self.name) {
            (Output::Stdout, Show::Keep, _) => self.kept_stdout.extend(bytes),
            (Output::Stdout, ..) => {
                terminal::check_open()?;
                self.stdout.pass(bytes).await?;
            }
            (Output::Stderr, _, Some(name)) => {
                let renamed = name.pass(bytes);
                self.pass_stderr(&renamed).await?;
            }
            (Output::Stderr, _, None) => self.pass_stderr(bytes).await?,
        }
        Ok(())
    }

    async fn pass_stderr(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.show == Show::Keep {
            self.kept_stderr.extend(bytes);
            return Ok(());
        }
        self.stderr.pass(bytes).await
    }

    /// Passes on what was held back.
    pub(crate) async fn finish(&mut self) -> Result<(), Failure> {
        let rest = self.name.take().map_or_else(Vec::new, |mut name| name.finish());
        self.pass_stderr(&rest).await?;
        self.stdout.finish().await?;
        self.stderr.finish().await
    }
}

/// One output of a program, on its way to ours.
struct Way<W> {
    to: W,
    careful: bool,
    /// The beginning of a character whose rest has not come yet.
    pending: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Way<W> {
    fn new(to: W, careful: bool) -> Way<W> {
        Way { to, careful, pending: Vec::new() }
    }

    async fn pass(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if !self.careful {
            return self.write(bytes).await;
        }
        self.pending.extend_from_slice(bytes);
        let rest = self.pending.split_off(whole_characters(&self.pending));
        let text = std::mem::replace(&mut self.pending, rest);
        self.write(terminal::harmless(&String::from_utf8_lossy(&text)).as_bytes()).await
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
            std::io::ErrorKind::BrokenPipe => {
                Failure::new(FailureKind::Unread, "nobody reads what it writes any more")
            }
            _ => terminal::write_failed(error),
        })
    }
}

/// How many of the bytes there are before a character that is not whole yet.
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
    async fn characters_that_come_in_pieces_are_shown_whole() {
        let text = "aä€😀z\u{1b}[31m";
        for split in 0..=text.len() {
            let mut shown = Vec::new();
            let mut way = Way::new(&mut shown, true);
            way.pass(&text.as_bytes()[..split]).await.unwrap();
            way.pass(&text.as_bytes()[split..]).await.unwrap();
            way.finish().await.unwrap();
            assert_eq!(String::from_utf8(shown).unwrap(), "aä€😀z\u{fffd}[31m", "{split}");
        }
        let mut shown = Vec::new();
        let mut way = Way::new(&mut shown, true);
        for byte in [0xff, b'a', 0xe2, 0x82] {
            way.pass(&[byte]).await.unwrap();
        }
        way.finish().await.unwrap();
        assert_eq!(String::from_utf8(shown).unwrap(), "\u{fffd}a\u{fffd}");
    }
}
