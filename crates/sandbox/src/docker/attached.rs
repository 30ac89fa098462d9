//! Standard streams of a container's first process (the guest agent) as one connection.

use std::future::ready;
use std::io;

use bollard::container::{AttachContainerResults, LogOutput};
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::StreamReader;

use crate::diagnostics::DiagnosticOutput;

/// Connection to the guest agent's standard input and output; its stderr is collected in `words`.
pub(crate) fn connection(
    attached: AttachContainerResults,
    words: DiagnosticOutput,
) -> impl AsyncRead + AsyncWrite {
    let written = attached.output.filter_map(move |output| {
        ready(match output {
            Ok(LogOutput::StdOut { message }) => Some(Ok(message)),
            Ok(LogOutput::StdErr { message }) => {
                words.add(&message);
                None
            }
            // The engine sends `StdIn` and `Console` output only for containers with a terminal.
            Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. }) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        })
    });
    tokio::io::join(StreamReader::new(written), attached.input)
}
