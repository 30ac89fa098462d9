//! Guest agent: the small static program inside every sandbox. All `unsafe` code of the workspace is in this crate.
//!
//! Subcommands: `keep` builds a jail and supervises it from outside ([`jail`]). `init` is PID 1 of a microVM
//! ([`microvm`]). `serve` is PID 1 of a Docker container. All three call [`serve`], which executes the host's requests
//! from the channel on standard input and output: it runs programs, each with additional confinement ([`confine`]), and
//! reads and writes files. `ticks` prints the frequency of the CPU's time-stamp counter.
//!
//! The process has one thread, so code after a fork is allowed to allocate memory and take locks.

mod channel;
mod confine;
mod files;
mod flow;
mod jail;
mod microvm;
mod prepared;
mod program;
mod seccomp;
mod serve;
mod sys;
mod watch;

use std::process::ExitCode;

/// Runs the guest agent as PID 1 of a container. If the guest agent is started as root, it drops capabilities and runs
/// programs as another user.
fn serve_in_container() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return serve::serve(None, None, Vec::new());
    }
    jail::drop_container_capabilities()?;
    serve::serve(Some(jail::PROGRAM), None, Vec::new())
}

fn main() -> ExitCode {
    // The executable is a memfd started as `/proc/self/fd/N`, so the default name would be a number.
    let _ = rustix::thread::set_name(c"assize-guest");
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("keep") => jail::keep(),
        Some("serve") => serve_in_container(),
        Some("init") => microvm::init(),
        Some("ticks") => microvm::print_tsc_khz(),
        _ => Err("usage: assize starts this program inside its sandboxes; do not run it yourself"
            .to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The host reads stderr and includes the text in its own error.
            let _ = rustix::io::write(rustix::stdio::stderr(), message.as_bytes());
            ExitCode::FAILURE
        }
    }
}
