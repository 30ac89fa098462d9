//! The standard streams of a container's first process, as one connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bytes::{Buf, Bytes};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::words::Words;

type Outputs = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// What the guest writes is read, what is written it reads; its words are put aside.
pub(crate) fn connection(
    attached: AttachContainerResults,
    words: Words,
) -> impl AsyncRead + AsyncWrite {
    tokio::io::join(
        Reader { outputs: attached.output, current: Bytes::new(), words },
        attached.input,
    )
}

struct Reader {
    outputs: Outputs,
    /// What was received and not read yet.
    current: Bytes,
    words: Words,
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(self.outputs.as_mut().poll_next(cx)) {
                Some(Ok(LogOutput::StdOut { message })) => self.current = message,
                Some(Ok(LogOutput::StdErr { message })) => {
                    self.words.add(&message);
                }
                // Nothing else is sent without a terminal.
                Some(Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. })) => {}
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.current.len().min(buffer.remaining());
        buffer.put_slice(&self.current[..count]);
        self.current.advance(count);
        Poll::Ready(Ok(()))
    }
}
