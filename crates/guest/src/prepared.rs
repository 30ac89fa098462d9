//! A program that was started ahead of time and waits until it is needed.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use assize_protocol::Exec;

use crate::sys::Pid;

pub(crate) struct Prepared {
    /// What it was started with; what it is told to do begins with the same.
    pub(crate) argv: Vec<String>,
    pub(crate) pid: Pid,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Our end of what it waits on.
    pub(crate) gate: OwnedFd,
    pub(crate) ready: bool,
}

impl Prepared {
    /// Takes the word that it is ready. `false` when it is gone instead.
    pub(crate) fn hear(&mut self) -> bool {
        let mut byte = [0; 1];
        self.ready = matches!(rustix::io::read(&self.gate, &mut byte), Ok(1));
        self.ready
    }

    /// Whether this is the program that is asked for.
    pub(crate) fn is_meant(&self, exec: &Exec) -> bool {
        exec.prepared && self.ready && exec.argv.starts_with(&self.argv)
    }

    /// Lets it go on. The line is far shorter than what the gate holds, so this does not wait; one
    /// that were not would go to a program that is not prepared, see [`Prepared::fits`].
    pub(crate) fn let_go(&self, line: &str) -> bool {
        rustix::io::write(&self.gate, line.as_bytes()) == Ok(line.len())
    }

    pub(crate) fn line(args: &[String], env: &BTreeMap<String, String>, cwd: &str) -> String {
        let mut line = serde_json::json!({"args": args, "env": env, "cwd": cwd}).to_string();
        line.push('\n');
        line
    }

    /// Whether a line can be said in one breath.
    pub(crate) fn fits(line: &str) -> bool {
        line.len() <= 64 * 1024
    }
}
