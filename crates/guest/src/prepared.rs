//! Prepared program: a program that is started ahead of time and blocks until an `Exec` request uses it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use assize_protocol::ExecRequest;

use crate::sys::Pid;

/// Prepared program: it runs already, and waits until the guest agent sends a line with the program's arguments through
/// the socket [`PreparedProgram::gate`].
pub(crate) struct PreparedProgram {
    /// Command line of the program. An `Exec` request can use the program only if the request's command line begins
    /// with this command line.
    pub(crate) argv: Vec<String>,
    pub(crate) pid: Pid,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// The guest agent's end of the socket on which the program waits.
    pub(crate) gate: OwnedFd,
    /// Whether the program has reported that it is ready.
    pub(crate) ready: bool,
}

impl PreparedProgram {
    /// Reads the byte by which the program reports that it is ready. Returns `false` if the program has exited instead.
    pub(crate) fn read_ready_byte(&mut self) -> bool {
        let mut byte = [0; 1];
        self.ready = matches!(rustix::io::read(&self.gate, &mut byte), Ok(1));
        self.ready
    }

    /// Whether the request can use this prepared program.
    pub(crate) fn can_serve(&self, exec: &ExecRequest) -> bool {
        exec.prepared && self.ready && exec.argv.starts_with(&self.argv)
    }

    /// Sends the line that the program waits for, with its arguments. Returns `false` if the line cannot be sent. Does
    /// not block if the line [fits](PreparedProgram::fits).
    pub(crate) fn send_line(&self, line: &str) -> bool {
        rustix::io::write(&self.gate, line.as_bytes()) == Ok(line.len())
    }

    pub(crate) fn line(args: &[String], env: &BTreeMap<String, String>, cwd: &str) -> String {
        let mut line = serde_json::json!({"args": args, "env": env, "cwd": cwd}).to_string();
        line.push('\n');
        line
    }

    /// Whether a line fits into the socket's buffer. If not, a new program is started instead of the prepared one.
    pub(crate) fn fits(line: &str) -> bool {
        line.len() <= 64 * 1024
    }
}
