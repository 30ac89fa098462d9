//! Programs in the sandbox: starting them, moving their input and output, recording how they ended.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use assize_protocol::{
    ExecRequest, GuestFailure, GuestFailureCause, PrepareRequest, ProgramExit, StreamId, port,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::channel::HostChannel;
use crate::confine::Confinement;
use crate::files;
use crate::flow::{InputPipe, OutputPipe};
use crate::microvm::ProgramCgroup;
use crate::prepared::PreparedProgram;
use crate::sys::{self, Pid, Reaped};

/// File mode of the pipes that a program writes to.
const WRITE_ONLY: u32 = 0o222;

/// File mode of the pipes that a program reads from.
const READ_ONLY: u32 = 0o444;

/// Starts programs with their user, cgroup and confinement.
pub(crate) struct Launcher {
    pub(crate) confinement: Rc<Confinement>,
    /// Id of the user that programs run as; `None` if programs run as the guest agent's user.
    pub(crate) user: Option<u32>,
    /// The cgroup that programs enter, in a microVM.
    pub(crate) group: Option<Rc<ProgramCgroup>>,
}

/// Started process, with the guest agent's ends of its pipes.
struct Started {
    pid: Pid,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// Descriptors for messages between program and host: first the one for messages to the program, then the one for
    /// messages from the program.
    talk: Option<(OwnedFd, OwnedFd)>,
}

impl Launcher {
    pub(crate) fn run(
        &self,
        stream: StreamId,
        exec: &ExecRequest,
    ) -> Result<RunningProgram, GuestFailure> {
        let talk = exec.talk.then(new_socket_pair).transpose()?;
        let (ours, theirs) = talk.unzip();
        let mut started = self.start(&exec.argv, &exec.env, &exec.cwd, exec.stdin, theirs)?;
        if let Some(ours) = ours {
            rustix::io::ioctl_fionbio(&ours, true)
                .map_err(|error| cannot("configure a socket", &error.into()))?;
            let second = ours.try_clone().map_err(|error| cannot("duplicate a socket", &error))?;
            started.talk = Some((ours, second));
        }
        Ok(RunningProgram::new(stream, started, exec, false))
    }

    /// Starts a program ahead of time. The program waits until an `Exec` request uses it.
    pub(crate) fn prepare(
        &self,
        prepare: &PrepareRequest,
    ) -> Result<PreparedProgram, GuestFailure> {
        let (ours, theirs) = new_socket_pair()?;
        let started = self.start(&prepare.argv, &prepare.env, &prepare.cwd, true, Some(theirs))?;
        let Started { pid, stdin: Some(stdin), stdout, stderr, .. } = started else {
            return Err(cannot("create a pipe", &Errno::BADF.into()));
        };
        Ok(PreparedProgram {
            argv: prepare.argv.clone(),
            pid,
            stdin,
            stdout,
            stderr,
            gate: ours,
            ready: false,
        })
    }

    fn start(
        &self,
        argv: &[String],
        env: &BTreeMap<String, String>,
        cwd: &str,
        stdin: bool,
        socket: Option<OwnedFd>,
    ) -> Result<Started, GuestFailure> {
        let Some((name, arguments)) = argv.split_first() else {
            return Err(GuestFailure::new(GuestFailureCause::Invalid, "the command line is empty"));
        };
        let mut command = Command::new(name);
        command.args(arguments).env_clear().envs(env).current_dir(cwd);
        let (stdout, their_stdout) = pipe_with_mode(WRITE_ONLY)?;
        let (stderr, their_stderr) = pipe_with_mode(WRITE_ONLY)?;
        let (their_stdin, stdin) = stdin.then(|| pipe_with_mode(READ_ONLY)).transpose()?.unzip();
        command.stdin(match (their_stdin, &socket) {
            (Some(pipe), _) => Stdio::from(pipe),
            // The socket is also standard input, because some languages cannot open a descriptor by its number.
            (None, Some(socket)) => Stdio::from(
                socket.try_clone().map_err(|error| cannot("duplicate a socket", &error))?,
            ),
            (None, None) => Stdio::null(),
        });
        command.stdout(their_stdout).stderr(their_stderr);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let (confinement, group) = (Rc::clone(&self.confinement), self.group.clone());
        let child = ForChild { confinement, group };
        sys::before_exec(&mut command, move || {
            sys::unblock_signals();
            rustix::process::setsid()?;
            if let Some(socket) = &socket {
                sys::give_as(socket, SOCKET_FD)?;
            }
            child.apply()
        });
        let child = command.spawn().map_err(|error| not_started(name, cwd, &error))?;
        let pid = child.id().cast_signed();
        self.prefer_for_oom_kill(pid);
        let started = Started { pid, stdin, stdout, stderr, talk: None };
        for pipe in started.stdin.iter().chain([&started.stdout, &started.stderr]) {
            rustix::io::ioctl_fionbio(pipe, true)
                .map_err(|error| cannot("configure a pipe", &error.into()))?;
        }
        Ok(started)
    }

    /// Makes the process the first choice of the OOM killer. Fails silently without `/proc`: the OOM killer then
    /// chooses the largest process.
    fn prefer_for_oom_kill(&self, pid: Pid) {
        let write = || std::fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
        let _ = sys::as_user(self.user, write);
    }
}

/// Creates a pipe with a file mode, which limits how a program can reopen the pipe through `/proc`: an output pipe only
/// for writing, so that the program cannot read its output back, and an input pipe only for reading.
fn pipe_with_mode(mode: u32) -> Result<(OwnedFd, OwnedFd), GuestFailure> {
    let made = pipe_with(PipeFlags::CLOEXEC).and_then(|(reading, writing)| {
        rustix::fs::fchmod(&reading, rustix::fs::Mode::from_raw_mode(mode))?;
        Ok((reading, writing))
    });
    made.map_err(|error| cannot("create a pipe", &error.into()))
}

/// Data for the closure that runs in the forked child.
struct ForChild {
    confinement: Rc<Confinement>,
    group: Option<Rc<ProgramCgroup>>,
}

#[expect(
    unsafe_code,
    reason = "`pre_exec` requires Send and Sync, although a fork shares nothing between threads"
)]
mod for_child {
    // SAFETY: the guest agent has one thread; nothing is ever sent or shared between threads.
    unsafe impl Send for super::ForChild {}
    // SAFETY: the guest agent has one thread, so nothing is ever shared between threads.
    unsafe impl Sync for super::ForChild {}
}

impl ForChild {
    fn apply(&self) -> std::io::Result<()> {
        if let Some(group) = &self.group {
            group.enter()?;
        }
        self.confinement.apply()
    }
}

/// File descriptor, in a program, of the socket that connects the program to the guest agent. A prepared program waits
/// on this socket; other programs can exchange messages with the host through it.
const SOCKET_FD: i32 = 3;

/// Creates the socket pair for [`SOCKET_FD`]: the guest agent's end and the program's end.
fn new_socket_pair() -> Result<(OwnedFd, OwnedFd), GuestFailure> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| cannot("create a socket pair", &error.into()))
}

fn cannot(action: &str, error: &std::io::Error) -> GuestFailure {
    GuestFailure { cause: GuestFailureCause::Other, message: format!("cannot {action}: {error}") }
}

/// Explains why a program did not start. The kernel's error is the same for a missing program and a missing working
/// folder, so the folder is checked.
fn not_started(name: &str, cwd: &str, error: &std::io::Error) -> GuestFailure {
    let (cause, message) = match error.kind() {
        _ if !std::path::Path::new(cwd).is_dir() => {
            (GuestFailureCause::NotFound, format!("there is no folder `{cwd}` in the sandbox"))
        }
        std::io::ErrorKind::NotFound => {
            (GuestFailureCause::NotFound, format!("there is no program `{name}` in the sandbox"))
        }
        std::io::ErrorKind::PermissionDenied => {
            (GuestFailureCause::Denied, format!("no permission to run `{name}`: {error}"))
        }
        _ => (GuestFailureCause::Other, format!("cannot start `{name}`: {error}")),
    };
    GuestFailure { cause, message }
}

/// Running program, with the stream of the request that started it.
pub(crate) struct RunningProgram {
    stream: StreamId,
    pub(crate) pid: Pid,
    inputs: Vec<InputPipe>,
    outputs: Vec<OutputPipe>,
    began: Instant,
    deadline: Instant,
    ended: Option<ProgramExit>,
    prepared: bool,
    /// Whether all processes that the program started are killed when the program ends.
    pub(crate) ends_all: bool,
    pub(crate) timed_out: bool,
    pub(crate) out_of_memory: bool,
    /// Number of OOM kills in the cgroup before the program started; 0 without a cgroup.
    pub(crate) killed_before: u64,
}

impl RunningProgram {
    fn new(
        stream: StreamId,
        started: Started,
        exec: &ExecRequest,
        prepared: bool,
    ) -> RunningProgram {
        let limits = &exec.limits;
        let began = Instant::now();
        let mut inputs = vec![InputPipe::new(started.stdin, port::IN)];
        let mut outputs = vec![
            OutputPipe::new(started.stdout, port::OUT, limits.output_bytes),
            OutputPipe::new(started.stderr, port::ERR, limits.output_bytes),
        ];
        if let Some((to, from)) = started.talk {
            inputs.push(InputPipe::new(Some(to), port::TALK));
            // Messages have no output limit here, because the host limits them.
            outputs.push(OutputPipe::new(from, port::TALK, u64::MAX));
        }
        RunningProgram {
            stream,
            pid: started.pid,
            inputs,
            outputs,
            began,
            deadline: began + Duration::from_millis(limits.wall_millis),
            ended: None,
            prepared,
            ends_all: exec.ends_all,
            timed_out: false,
            out_of_memory: false,
            killed_before: 0,
        }
    }

    /// Runs a prepared program by sending it the line with its arguments. Returns `None` if the line cannot be sent.
    pub(crate) fn from_prepared(
        stream: StreamId,
        waiting: PreparedProgram,
        exec: &ExecRequest,
        line: &str,
    ) -> Option<RunningProgram> {
        if !waiting.send_line(line) {
            return None;
        }
        let PreparedProgram { pid, stdin, stdout, stderr, .. } = waiting;
        let stdin = exec.stdin.then_some(stdin);
        let started = Started { pid, stdin, stdout, stderr, talk: None };
        Some(RunningProgram::new(stream, started, exec, true))
    }

    /// Descriptors to poll for output of the program.
    pub(crate) fn reads(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.outputs.iter().filter_map(OutputPipe::wants_bytes)
    }

    /// Descriptors to poll for writability, because input for the program is pending.
    pub(crate) fn writes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.inputs.iter().filter_map(InputPipe::wants_room)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.ended.is_none() && !self.timed_out).then_some(self.deadline)
    }

    pub(crate) fn runs(&self) -> bool {
        self.ended.is_none()
    }

    pub(crate) fn input(&mut self, port: u8) -> Option<&mut InputPipe> {
        self.inputs.iter_mut().find(|input| input.port == port)
    }

    pub(crate) fn add_credit(&mut self, port: u8, bytes: u32) {
        if let Some(output) = self.outputs.iter_mut().find(|output| output.port == port) {
            output.add_credit(bytes);
        }
    }

    /// Transfers available input and output, only one chunk per pipe, so that other programs are served too.
    pub(crate) fn move_bytes(&mut self, buffer: &mut [u8], link: &mut HostChannel) {
        for input in &mut self.inputs {
            input.push(self.stream, link);
        }
        for output in &mut self.outputs {
            output.pull(self.stream, buffer, link);
        }
    }

    /// Records how the process ended.
    pub(crate) fn note_end(&mut self, reaped: &Reaped) {
        self.outputs.iter_mut().for_each(OutputPipe::note_end);
        self.ended = Some(ProgramExit {
            exit_code: reaped.exit_code,
            signal: reaped.signal,
            timed_out: self.timed_out,
            out_of_memory: self.out_of_memory,
            output_cut: false,
            disk_full: files::is_full("/tmp"),
            micros: u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX),
            peak_bytes: reaped.peak_bytes,
            prepared: self.prepared,
        });
    }

    /// Returns how the program ended, once all its output has been sent.
    pub(crate) fn outcome(
        &mut self,
        buffer: &mut [u8],
        link: &mut HostChannel,
    ) -> Option<ProgramExit> {
        self.ended.as_ref()?;
        for output in &mut self.outputs {
            while !output.is_done() && output.pull(self.stream, buffer, link) {}
        }
        let done = self.outputs.iter().all(OutputPipe::is_done);
        let cut = self.outputs.iter().any(|output| output.cut);
        self.ended.take_if(|_| done).map(|ended| ProgramExit { output_cut: cut, ..ended })
    }
}
