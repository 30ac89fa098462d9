//! The guest: one small static program that is inside every sandbox, and the home of all `unsafe`.
//!
//! It has several parts. `keep` builds a jail around itself and watches over it from outside
//! ([`jail`]); `init` is the first process of a machine ([`machine`]); in other sandboxes something
//! else built the walls. `serve`, inside, does what the host asks on the channel that is its standard
//! input and output ([`serve`]): it runs programs, each confined once more ([`confine`]), and reads and
//! writes files. `ticks` tells how fast this processor counts.
//!
//! It is single-threaded throughout: whatever follows a fork may do as it likes.

mod confine;
mod files;
mod flow;
mod jail;
mod link;
mod machine;
mod prepared;
mod program;
mod seccomp;
mod serve;
mod sys;
mod watch;

use std::process::ExitCode;

/// Serves as the first process of a container: as root of it, if it is started so, with programs as another user.
fn serve_in_container() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return serve::serve(None, None, Vec::new());
    }
    jail::drop_rights_of_container()?;
    serve::serve(Some(jail::PROGRAM), None, Vec::new())
}

fn main() -> ExitCode {
    // The file that we were started from has no name of its own.
    let _ = rustix::thread::set_name(c"assize-guest");
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("keep") => jail::keep(),
        Some("serve") => serve_in_container(),
        Some("init") => machine::init(),
        Some("ticks") => machine::tell_ticks(),
        _ => Err("this program is started by assize inside its sandboxes".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The host reads it, and puts it into its own words.
            let _ = rustix::io::write(rustix::stdio::stderr(), message.as_bytes());
            ExitCode::FAILURE
        }
    }
}
