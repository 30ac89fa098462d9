//! The jail: namespaces built around a copy of this process, and a keeper outside that watches.
//!
//! The keeper stays on the host, single-threaded and in a session of its own. It lives as long as
//! its standard input, whose other end only the host process has: when that is gone, however it
//! went, the keeper kills the jail's first process, the kernel ends everything else in it, and the
//! keeper removes what is left (the groups of the kernel's accounting; mounts, networks and memory
//! disks go by themselves).

mod emulator;
mod root;
mod users;

use std::fs;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use assize_protocol::jail::{Built, Setup};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::serve;
use crate::sys::{self, Pid};
pub(crate) use users::PROGRAM;

/// Everything but the cgroup namespace, which is made once the groups are entered: what is its root
/// is decided then.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// A step of the building that failed.
#[derive(Debug)]
pub(crate) struct Step {
    name: String,
    error: io::Error,
}

impl From<Step> for String {
    fn from(step: Step) -> String {
        format!("{}: {}", step.name, step.error)
    }
}

/// Names the step, for whoever has to find out what this host refuses.
pub(crate) trait AtStep<T> {
    fn step(self, name: impl Into<String>) -> Result<T, Step>;
}

impl<T, E: Into<io::Error>> AtStep<T> for Result<T, E> {
    fn step(self, name: impl Into<String>) -> Result<T, Step> {
        self.map_err(|error| Step { name: name.into(), error: error.into() })
    }
}

/// Builds a jail as the host says on standard input, and watches over it. The channel between host
/// and guest is our standard output.
pub(crate) fn keep() -> Result<(), String> {
    // What is meant for the host's terminal or group is not meant for us.
    let _ = rustix::process::setsid();
    let (line, handed) = hear_host().map_err(|error| format!("hearing the host: {error}"))?;
    let setup: Setup =
        serde_json::from_slice(&line).map_err(|error| format!("the host sent no jail: {error}"))?;
    let built = build(&setup, &handed);
    drop(handed);
    let answer = match &built {
        Ok(jail) => Built::Ready {
            pid: jail.pid.cast_unsigned(),
            proc: jail.has_proc,
            landlock: sys::landlock_version(),
        },
        Err(step) => Built::Failed {
            step: step.name.clone(),
            errno: step.error.raw_os_error().unwrap_or(0),
            message: step.error.to_string(),
        },
    };
    let mut answer = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
    answer.push('\n');
    let told = rustix::io::write(rustix::stdio::stdin(), answer.as_bytes());
    if let Ok(jail) = built {
        // Its own end of the channel would keep it open.
        let _ = rustix::stdio::dup2_stdout(rustix::stdio::stderr());
        jail.watch(told.is_ok());
    }
    leave(&setup);
    Ok(())
}

/// One line, and the descriptors that came with it.
fn hear_host() -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut line, mut handed) = (Vec::new(), Vec::new());
    while !line.ends_with(b"\n") {
        let mut piece = [0; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(emulator::MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut piece)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let heard = recvmsg(rustix::stdio::stdin(), &mut pieces, &mut control, flags)?.bytes;
        if heard == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.extend_from_slice(&piece[..heard]);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                handed.extend(descriptors);
            }
        }
    }
    Ok((line, handed))
}

struct Jail {
    pid: Pid,
    has_proc: bool,
}

fn build(setup: &Setup, handed: &[OwnedFd]) -> Result<Jail, Step> {
    // The host closes the jail's life by closing ours; and a keeper that is killed takes it along.
    let (mut from_child, to_parent) = pipe()?;
    let (from_parent, mut to_child) = pipe()?;
    let groups = open_groups(setup)?;
    let Some(pid) =
        sys::clone_into_namespaces(NAMESPACES, groups.second.as_ref()).step("making namespaces")?
    else {
        drop(to_child);
        inside(setup, handed, &groups.first, from_parent, to_parent);
    };
    drop((to_parent, from_parent));
    let group = setup.emulator.as_ref().and_then(|emulator| emulator.group);
    if let Err(step) = users::map(pid, setup.users, group) {
        sys::kill(pid, libc::SIGKILL);
        return Err(step);
    }
    let _ = to_child.write_all(b"!");
    drop(to_child);
    // One byte when all went well, else what did not.
    let mut answer = String::new();
    from_child.read_to_string(&mut answer).step("hearing from inside")?;
    match answer.as_str() {
        "proc" => Ok(Jail { pid, has_proc: true }),
        "no proc" => Ok(Jail { pid, has_proc: false }),
        told => {
            let (errno, name) =
                told.split_once(' ').unwrap_or(("0", "building the jail, which ended"));
            let error = io::Error::from_raw_os_error(errno.parse().unwrap_or(0));
            Err(Step { name: name.to_owned(), error })
        }
    }
}

fn pipe() -> Result<(fs::File, fs::File), Step> {
    let (read, write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step("making a pipe")?;
    Ok((read.into(), write.into()))
}

/// The control groups, opened by whoever may enter them.
struct OpenGroups {
    first: Vec<fs::File>,
    second: Option<fs::File>,
}

fn open_groups(setup: &Setup) -> Result<OpenGroups, Step> {
    let step = |group: &str| format!("opening the group `{group}`");
    // A thread that moves itself need not wait for others to look away, as a process would.
    let first = setup.groups_v1.iter().map(|group| {
        fs::OpenOptions::new().write(true).open(format!("{group}/tasks")).step(step(group))
    });
    let second = setup.group_v2.as_ref().map(|group| fs::File::open(group).step(step(group)));
    Ok(OpenGroups { first: first.collect::<Result<_, _>>()?, second: second.transpose()? })
}

fn die_with_the_keeper() -> Result<(), Step> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .step("tying its life to ours")
}

/// The life of the jail's first process: it builds the rest around itself, and serves.
fn inside(
    setup: &Setup,
    handed: &[OwnedFd],
    groups: &[fs::File],
    mut from_parent: fs::File,
    mut to_parent: fs::File,
) -> ! {
    let mut go = [0; 1];
    let outcome = die_with_the_keeper()
        .and_then(|()| {
            groups
                .iter()
                .try_for_each(|mut group| group.write_all(b"0"))
                .step("entering the groups")
        })
        .and_then(|()| from_parent.read_exact(&mut go).step("waiting for its users"))
        .and_then(|()| root::enter(setup));
    let told = match &outcome {
        Ok(root::Entered { has_proc: true, .. }) => "proc".to_owned(),
        Ok(root::Entered { has_proc: false, .. }) => "no proc".to_owned(),
        Err(step) => format!("{} {}", step.error.raw_os_error().unwrap_or(0), step.name),
    };
    let heard = to_parent.write_all(told.as_bytes());
    let (Ok(root::Entered { code, .. }), Ok(())) = (outcome, heard) else {
        std::process::exit(1);
    };
    if let Some(emulator) = &setup.emulator {
        let error = emulator::become_it(emulator, setup.users.is_some(), handed);
        let words = format!("{} cannot be started: {error}", emulator.argv[0]);
        let _ = rustix::io::write(rustix::stdio::stderr(), words.as_bytes());
        std::process::exit(1);
    }
    // The channel is all that is kept: as input and as output.
    if rustix::stdio::dup2_stdin(rustix::stdio::stdout()).is_err() {
        std::process::exit(1);
    }
    let Ok(code) = keep_only(code) else { std::process::exit(1) };
    let user = setup.users.map(|_| users::PROGRAM);
    let code = match serve::serve(user, None, code) {
        Ok(()) => 0,
        Err(message) => {
            let _ = rustix::io::write(rustix::stdio::stderr(), message.as_bytes());
            1
        }
    };
    std::process::exit(code)
}

/// Closes all descriptors but the standard ones and these.
fn keep_only(code: root::CodeFiles) -> io::Result<root::CodeFiles> {
    const FIRST: u32 = 64;
    let (mut kept, mut free) = (Vec::new(), FIRST);
    for (path, file) in code {
        // Above all others, so that those below can be closed.
        let file = rustix::io::fcntl_dupfd_cloexec(&file, free.cast_signed())?;
        let number = file.as_raw_fd().cast_unsigned();
        if number > free {
            sys::close_between(free, number - 1);
        }
        free = number + 1;
        kept.push((path, file));
    }
    sys::close_between(3, FIRST - 1);
    sys::close_between(free, u32::MAX);
    Ok(kept)
}

/// Gives up the rights of a container's root but those to start programs as another user and to end them.
pub(crate) fn drop_rights_of_container() -> Result<(), String> {
    Ok(users::drop_rights(true)?)
}

impl Jail {
    /// Waits for the end of the jail, or makes it when the host is gone.
    fn watch(&self, mut host_is_there: bool) {
        let process = rustix::process::Pid::from_raw(self.pid)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let Some(process) = process else {
            sys::kill(self.pid, libc::SIGKILL);
            return;
        };
        while host_is_there && !ended(&process, Some(rustix::stdio::stdin())) {
            let mut byte = [0; 16];
            host_is_there =
                rustix::io::read(rustix::stdio::stdin(), &mut byte).is_ok_and(|count| count > 0);
        }
        if !host_is_there {
            sys::kill(self.pid, libc::SIGKILL);
            ended(&process, None::<std::os::fd::BorrowedFd<'_>>);
        }
    }
}

/// Waits until the process ended, or until there is something to be read.
fn ended(process: &OwnedFd, or_readable: Option<impl AsFd>) -> bool {
    let mut fds = vec![PollFd::new(process, PollFlags::IN)];
    fds.extend(or_readable.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
    loop {
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return !fds[0].revents().is_empty(),
        }
    }
}

/// Removes what does not go by itself. The first process is the last to go of those in its
/// namespace, so the groups are empty once it was waited for.
fn leave(setup: &Setup) {
    while sys::wait_any() {}
    for group in setup.groups_v1.iter().chain(&setup.group_v2) {
        let _ = fs::remove_dir(group);
    }
}
