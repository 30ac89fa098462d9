//! Jail: a child process in new namespaces, and its supervisor process outside the jail.
//!
//! The supervisor runs on the host, single-threaded and in its own session. It runs until its standard input is closed.
//! Only the assize process has the other end of that input. When assize exits for any reason, the supervisor kills the
//! jail's init process, the kernel kills all other processes in the PID namespace, and the supervisor removes the
//! cgroups. The kernel frees mounts, networks and tmpfs by itself.

mod emulator;
mod root;
mod users;

use std::fs;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use assize_protocol::jail::{JailReply, JailSetup};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::serve;
use crate::sys::{self, Pid};
pub(crate) use users::PROGRAM;

/// Namespaces in which the jail's init process is created. The cgroup namespace is created later, when the process is
/// in its final cgroups, because these cgroups become the root of the cgroup namespace.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// Error of one step in setting up a jail or a microVM.
#[derive(Debug)]
pub(crate) struct StepError {
    /// Description of the failed step, such as `cannot mount the layers`.
    name: String,
    error: io::Error,
}

impl StepError {
    fn as_reply(&self) -> JailReply {
        JailReply::Failed {
            step: self.name.clone(),
            errno: self.error.raw_os_error().unwrap_or(0),
            message: self.error.to_string(),
        }
    }
}

impl From<StepError> for String {
    fn from(step: StepError) -> String {
        format!("{}: {}", step.name, step.error)
    }
}

/// Adds a description of the failed action to an error, so that users see which action their host refuses.
pub(crate) trait AtStep<T> {
    fn step(self, action: impl Into<String>) -> Result<T, StepError>;
}

impl<T, E: Into<io::Error>> AtStep<T> for Result<T, E> {
    fn step(self, action: impl Into<String>) -> Result<T, StepError> {
        self.map_err(|error| StepError {
            name: format!("cannot {}", action.into()),
            error: error.into(),
        })
    }
}

/// Runs the supervisor process of a jail: reads the jail's setup from standard input, builds the jail and
/// supervises it. The channel between host and guest agent is standard output.
pub(crate) fn keep() -> Result<(), String> {
    // Signals to the terminal or process group of assize must not reach the supervisor.
    let _ = rustix::process::setsid();
    // The supervisor must not keep the folder of assize busy.
    let _ = rustix::process::chdir("/");
    let (line, handed) =
        read_setup().map_err(|error| format!("cannot read the jail setup: {error}"))?;
    let setup: JailSetup =
        serde_json::from_slice(&line).map_err(|error| format!("invalid jail setup: {error}"))?;
    match start_init(&setup, handed) {
        Ok(pid) => {
            // The supervisor's copy of the channel is closed. Otherwise the channel would stay open after the jail has
            // ended.
            let _ = rustix::stdio::dup2_stdout(rustix::stdio::stderr());
            watch(pid);
        }
        // If the host does not get the reply, it has ended, and no jail is needed.
        Err(step) => drop(send_reply(&step.as_reply())),
    }
    remove_groups(&setup);
    Ok(())
}

/// Reads the jail's setup (one line) from the host, and the descriptors that the host sends with this line.
fn read_setup() -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut line, mut handed) = (Vec::new(), Vec::new());
    while !line.ends_with(b"\n") {
        let mut piece = [0; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(emulator::MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut piece)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let count = recvmsg(rustix::stdio::stdin(), &mut pieces, &mut control, flags)?.bytes;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.extend_from_slice(&piece[..count]);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                handed.extend(descriptors);
            }
        }
    }
    Ok((line, handed))
}

/// Sends the host the outcome of the setup. The supervisor and the jail's init process share the connection.
fn send_reply(reply: &JailReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    rustix::io::write(rustix::stdio::stdin(), &line)?;
    Ok(())
}

/// Starts the jail's init process, which builds the jail and sends the host the outcome. Returns its process id.
fn start_init(setup: &JailSetup, handed: Vec<OwnedFd>) -> Result<Pid, StepError> {
    let (from_parent, mut to_child) = pipe()?;
    let groups = open_groups(setup)?;
    let Some(pid) =
        sys::clone_into_namespaces(NAMESPACES, groups.v2.as_ref()).step("create namespaces")?
    else {
        drop(to_child);
        run_inside(setup, &handed, &groups.v1, from_parent);
    };
    let group = setup.emulator.as_ref().and_then(|emulator| emulator.group);
    let mapped = users::map(pid, setup.users, group).and_then(|()| {
        // The init process does not know its process id on the host.
        to_child.write_all(pid.to_string().as_bytes()).step("start the jail's init process")
    });
    if let Err(step) = mapped {
        sys::kill(pid, libc::SIGKILL);
        return Err(step);
    }
    Ok(pid)
}

fn pipe() -> Result<(fs::File, fs::File), StepError> {
    let (read, write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step("create a pipe")?;
    Ok((read.into(), write.into()))
}

/// Cgroups of the jail. The supervisor process opens them before it starts the jail, because the jail has no permission
/// to open them.
struct OpenGroups {
    v1: Vec<fs::File>,
    v2: Option<fs::File>,
}

fn open_groups(setup: &JailSetup) -> Result<OpenGroups, StepError> {
    let step = |group: &str| format!("open the cgroup `{group}`");
    // The file `tasks` is used instead of `cgroup.procs`: moving a single thread does not wait for all CPUs, but moving
    // a process does.
    let v1 = setup.groups_v1.iter().map(|group| {
        fs::OpenOptions::new().write(true).open(format!("{group}/tasks")).step(step(group))
    });
    let v2 = setup.group_v2.as_ref().map(|group| fs::File::open(group).step(step(group)));
    Ok(OpenGroups { v1: v1.collect::<Result<_, _>>()?, v2: v2.transpose()? })
}

fn die_with_the_supervisor() -> Result<(), StepError> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .step("set the parent death signal")
}

fn read_pid(from_parent: &mut fs::File) -> io::Result<u32> {
    let mut pid = String::new();
    from_parent.read_to_string(&mut pid)?;
    pid.parse().map_err(|_| io::ErrorKind::UnexpectedEof.into())
}

/// Runs as the jail's init process: builds the file system, then serves the host or starts the emulator. `from_parent`
/// contains the process id on the host after the users are mapped.
fn run_inside(
    setup: &JailSetup,
    handed: &[OwnedFd],
    groups: &[fs::File],
    mut from_parent: fs::File,
) -> ! {
    let outcome = die_with_the_supervisor()
        .and_then(|()| {
            groups.iter().try_for_each(|mut group| group.write_all(b"0")).step("enter the cgroups")
        })
        .and_then(|()| read_pid(&mut from_parent).step("wait for the user mapping"))
        .and_then(|pid| Ok((pid, root::enter(setup)?)));
    let reply = match &outcome {
        Ok((pid, root)) => {
            JailReply::Ready { pid: *pid, proc: root.has_proc, landlock: sys::landlock_version() }
        }
        Err(step) => step.as_reply(),
    };
    let sent = send_reply(&reply);
    let (Ok((_, root::JailRoot { code, .. })), Ok(())) = (outcome, sent) else {
        std::process::exit(1);
    };
    if let Some(emulator) = &setup.emulator {
        let error = emulator::exec_emulator(emulator, setup.users.is_some(), handed);
        let message = format!("cannot start `{}`: {error}", emulator.argv[0]);
        let _ = rustix::io::write(rustix::stdio::stderr(), message.as_bytes());
        std::process::exit(1);
    }
    // The channel becomes both standard input and standard output.
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

/// Closes all descriptors except the three standard descriptors and those of the code files.
fn keep_only(code: root::CodeFiles) -> io::Result<root::CodeFiles> {
    const FIRST: u32 = 64;
    let (mut kept, mut free) = (Vec::new(), FIRST);
    for (path, file) in code {
        // Each file is moved to a number above all others, so that `close_range` can close all lower numbers.
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

/// Drops the capabilities of the guest agent in a container, except those that it needs to run programs as another user
/// and to kill them.
pub(crate) fn drop_container_capabilities() -> Result<(), String> {
    Ok(users::drop_capabilities(true)?)
}

/// Waits until the jail with this init process ends. Kills the jail if the host closes the standard input of this
/// supervisor process.
fn watch(pid: Pid) {
    let process = rustix::process::Pid::from_raw(pid)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(process) = process else {
        sys::kill(pid, libc::SIGKILL);
        return;
    };
    while !wait_for_end(&process, Some(rustix::stdio::stdin())) {
        let mut byte = [0; 16];
        if !rustix::io::read(rustix::stdio::stdin(), &mut byte).is_ok_and(|count| count > 0) {
            sys::kill(pid, libc::SIGKILL);
            wait_for_end(&process, None::<std::os::fd::BorrowedFd<'_>>);
            return;
        }
    }
}

/// Waits until a process has ended or a descriptor is readable. Returns whether the process has ended.
fn wait_for_end(process: &OwnedFd, or_readable: Option<impl AsFd>) -> bool {
    let mut fds = vec![PollFd::new(process, PollFlags::IN)];
    fds.extend(or_readable.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
    loop {
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return !fds[0].revents().is_empty(),
        }
    }
}

/// Removes the jail's cgroups. They are empty after the init process, the last process of the PID namespace, is reaped.
fn remove_groups(setup: &JailSetup) {
    while sys::wait_any() {}
    for group in setup.groups_v1.iter().chain(&setup.group_v2) {
        let _ = fs::remove_dir(group);
    }
}
