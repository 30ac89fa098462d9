//! What goes in and out of a program in a sandbox, on its way from and to our own terminal.

use std::io::IsTerminal;

use assize_sandbox::{Event, Outcome, Output, Running, Stdin};
use assize_types::{Failure, FailureKind};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

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

/// What a program wrote, if it was kept, and how it ended.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) outcome: Outcome,
}

/// Follows a program to its end; its messages name the user's own file, if one is given.
pub(crate) async fn follow(
    mut running: Running,
    show: Show,
    mut name: Option<OwnName>,
) -> Result<Followed, Failure> {
    let mut followed = Followed::default();
    let careful = |terminal: bool| terminal && show == Show::Harmless;
    // Whoever does not read what we write must not keep us from hearing that we are to end.
    let mut stdout = Way::new(tokio::io::stdout(), careful(std::io::stdout().is_terminal()));
    let mut stderr = Way::new(tokio::io::stderr(), careful(std::io::stderr().is_terminal()));
    loop {
        let event = match (running.next().await?, &mut name) {
            (Event::Wrote(Output::Stderr, bytes), Some(name)) => {
                Event::Wrote(Output::Stderr, name.pass(&bytes))
            }
            (event, _) => event,
        };
        match (event, show) {
            (Event::Wrote(Output::Stdout, bytes), Show::Keep) => followed.stdout.extend(bytes),
            (Event::Wrote(Output::Stderr, bytes), Show::Keep) => followed.stderr.extend(bytes),
            (Event::Wrote(Output::Stdout, bytes), _) => {
                terminal::check_open()?;
                stdout.pass(&bytes).await?;
            }
            (Event::Wrote(Output::Stderr, bytes), _) => stderr.pass(&bytes).await?,
            (Event::Said(_), _) => {}
            (Event::Ended(outcome), _) => {
                let rest = name.map_or_else(Vec::new, |mut name| name.finish());
                match show {
                    Show::Keep => followed.stderr.extend(rest),
                    Show::Harmless | Show::Raw => stderr.pass(&rest).await?,
                }
                stdout.finish().await?;
                stderr.finish().await?;
                return Ok(Followed { outcome, ..followed });
            }
        }
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

/// Passes our own input on, until it ends or nobody wants it.
pub(crate) async fn pass_input(to: Stdin) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stdin.read(&mut buffer).await {
        if !matches!(to.write(&buffer[..count]).await, Ok(true)) {
            return;
        }
    }
    to.close();
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
