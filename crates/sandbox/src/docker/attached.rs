//! The standard streams of a container's first process, as one connection.

use std::future::ready;
use std::io;

use bollard::container::{AttachContainerResults, LogOutput};
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::StreamReader;

use crate::words::Words;

/// What the guest writes is read, what is written it reads; its words are put aside.
pub(crate) fn connection(
    attached: AttachContainerResults,
    words: Words,
) -> impl AsyncRead + AsyncWrite {
    let written = attached.output.filter_map(move |output| {
        ready(match output {
            Ok(LogOutput::StdOut { message }) => Some(Ok(message)),
            Ok(LogOutput::StdErr { message }) => {
                words.add(&message);
                None
            }
            // Nothing else is sent without a terminal.
            Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. }) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        })
    });
    tokio::io::join(StreamReader::new(written), attached.input)
}
