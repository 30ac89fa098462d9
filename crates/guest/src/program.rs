//! One program that runs: how it is started, what goes in and out of it, how it ended.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use assize_protocol::{Cause, Ended, Exec, Failure, Prepare, StreamId, port};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::confine::Confinement;
use crate::files;
use crate::flow::{Input, Output};
use crate::link::Link;
use crate::machine::Group;
use crate::prepared::Prepared;
use crate::sys::{self, Pid, Reaped};

/// The modes of pipes.
const WRITTEN: u32 = 0o222;
const READ: u32 = 0o444;

/// Starts programs: under which user, and confined how.
pub(crate) struct Starter {
    pub(crate) confinement: Rc<Confinement>,
    /// The user that programs become, where that is another than the guest's.
    pub(crate) user: Option<u32>,
    /// What they become members of, where that is for the guest to do.
    pub(crate) group: Option<Rc<Group>>,
}

/// A process just started, with the ends of its pipes that are ours.
struct Started {
    pid: Pid,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// What it talks to the host on, to be written to and to be read from.
    talk: Option<(OwnedFd, OwnedFd)>,
}

impl Starter {
    pub(crate) fn run(&self, stream: StreamId, exec: &Exec) -> Result<Program, Failure> {
        let talk = exec.talk.then(door).transpose()?;
        let (ours, theirs) = talk.unzip();
        let mut started = self.start(&exec.argv, &exec.env, &exec.cwd, exec.stdin, theirs)?;
        if let Some(ours) = ours {
            rustix::io::ioctl_fionbio(&ours, true)
                .map_err(|error| cannot("use a door", &error.into()))?;
            let second = ours.try_clone().map_err(|error| cannot("make a door", &error))?;
            started.talk = Some((ours, second));
        }
        Ok(Program::new(stream, started, exec, false))
    }

    /// Starts a program that waits at its gate.
    pub(crate) fn prepare(&self, prepare: &Prepare) -> Result<Prepared, Failure> {
        let (ours, theirs) = door()?;
        let started = self.start(&prepare.argv, &prepare.env, &prepare.cwd, true, Some(theirs))?;
        let Started { pid, stdin: Some(stdin), stdout, stderr, .. } = started else {
            return Err(cannot("make a pipe", &Errno::BADF.into()));
        };
        Ok(Prepared {
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
        door: Option<OwnedFd>,
    ) -> Result<Started, Failure> {
        let Some((name, arguments)) = argv.split_first() else {
            return Err(Failure::new(Cause::Invalid, "no program is named"));
        };
        let mut command = Command::new(name);
        command.args(arguments).env_clear().envs(env).current_dir(cwd);
        let (stdout, their_stdout) = pipe_with_mode(WRITTEN)?;
        let (stderr, their_stderr) = pipe_with_mode(WRITTEN)?;
        let (their_stdin, stdin) = stdin.then(|| pipe_with_mode(READ)).transpose()?.unzip();
        command.stdin(match (their_stdin, &door) {
            (Some(pipe), _) => Stdio::from(pipe),
            // Not every language opens a descriptor by its number.
            (None, Some(door)) => {
                Stdio::from(door.try_clone().map_err(|error| cannot("make a door", &error))?)
            }
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
            if let Some(door) = &door {
                sys::give_as(door, DOOR)?;
            }
            child.apply()
        });
        let child = command.spawn().map_err(|error| not_started(name, cwd, &error))?;
        let pid = child.id().cast_signed();
        self.offer_to_the_kernel(pid);
        let started = Started { pid, stdin, stdout, stderr, talk: None };
        for pipe in started.stdin.iter().chain([&started.stdout, &started.stderr]) {
            rustix::io::ioctl_fionbio(pipe, true)
                .map_err(|error| cannot("use a pipe", &error.into()))?;
        }
        Ok(started)
    }

    /// Has it be the first to go when memory runs out. Without a `/proc` it is the largest that goes,
    /// which will do.
    fn offer_to_the_kernel(&self, pid: Pid) {
        let write = || std::fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
        let _ = sys::as_user(self.user, write);
    }
}

/// A pipe. The program may open its own end again by its name: what it writes to as [`WRITTEN`], and not to take back
/// what it wrote; what it reads as [`READ`].
fn pipe_with_mode(mode: u32) -> Result<(OwnedFd, OwnedFd), Failure> {
    let made = pipe_with(PipeFlags::CLOEXEC).and_then(|(reading, writing)| {
        rustix::fs::fchmod(&reading, rustix::fs::Mode::from_raw_mode(mode))?;
        Ok((reading, writing))
    });
    made.map_err(|error| cannot("make a pipe", &error.into()))
}

/// What a closure that runs in the child needs: the guest has one thread, and the child is a copy.
struct ForChild {
    confinement: Rc<Confinement>,
    group: Option<Rc<Group>>,
}

#[expect(
    unsafe_code,
    reason = "the closure is asked to be Send and Sync, which a fork has no use for"
)]
mod for_child {
    // SAFETY: the guest has one thread; nothing is ever sent or shared between threads.
    unsafe impl Send for super::ForChild {}
    // SAFETY: as above.
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

/// The descriptor on which a program that waits is let go, and on which one that may talk to the host
/// does so.
const DOOR: i32 = 3;

/// Both ends of it: ours and the program's.
fn door() -> Result<(OwnedFd, OwnedFd), Failure> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| cannot("make a door", &error.into()))
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure { cause: Cause::Other, message: format!("cannot {what}: {error}") }
}

/// The program or its folder may be at fault; only one of them is named by the kernel's answer.
fn not_started(name: &str, cwd: &str, error: &std::io::Error) -> Failure {
    let (cause, message) = match error.kind() {
        _ if !std::path::Path::new(cwd).is_dir() => {
            (Cause::NotFound, format!("there is no folder `{cwd}` in the sandbox"))
        }
        std::io::ErrorKind::NotFound => {
            (Cause::NotFound, format!("there is no program `{name}` in the sandbox"))
        }
        std::io::ErrorKind::PermissionDenied => {
            (Cause::Denied, format!("`{name}` cannot be run: {error}"))
        }
        _ => (Cause::Other, format!("`{name}` cannot be started: {error}")),
    };
    Failure { cause, message }
}

pub(crate) struct Program {
    stream: StreamId,
    pub(crate) pid: Pid,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    began: Instant,
    deadline: Instant,
    ended: Option<Ended>,
    prepared: bool,
    pub(crate) ends_all: bool,
    pub(crate) timed_out: bool,
    pub(crate) out_of_memory: bool,
    /// How many had been killed for want of memory before it began, where that is known.
    pub(crate) killed_before: u64,
}

impl Program {
    fn new(stream: StreamId, started: Started, exec: &Exec, prepared: bool) -> Program {
        let limits = &exec.limits;
        let began = Instant::now();
        let mut inputs = vec![Input::new(started.stdin, port::IN)];
        let mut outputs = vec![
            Output::new(started.stdout, port::OUT, limits.output_bytes),
            Output::new(started.stderr, port::ERR, limits.output_bytes),
        ];
        if let Some((to, from)) = started.talk {
            inputs.push(Input::new(Some(to), port::TALK));
            // The host counts what is said there.
            outputs.push(Output::new(from, port::TALK, u64::MAX));
        }
        Program {
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

    /// The program that waited, let go with these arguments.
    pub(crate) fn let_go(
        stream: StreamId,
        waiting: Prepared,
        exec: &Exec,
        line: &str,
    ) -> Option<Program> {
        if !waiting.let_go(line) {
            return None;
        }
        let Prepared { pid, stdin, stdout, stderr, .. } = waiting;
        let stdin = exec.stdin.then_some(stdin);
        let started = Started { pid, stdin, stdout, stderr, talk: None };
        Some(Program::new(stream, started, exec, true))
    }

    /// What to wait for: its output where the host has room.
    pub(crate) fn reads(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.outputs.iter().filter_map(Output::wants_bytes)
    }

    /// And room in its input where there is some to give.
    pub(crate) fn writes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.inputs.iter().filter_map(Input::wants_room)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.ended.is_none() && !self.timed_out).then_some(self.deadline)
    }

    pub(crate) fn runs(&self) -> bool {
        self.ended.is_none()
    }

    pub(crate) fn input(&mut self, port: u8) -> Option<&mut Input> {
        self.inputs.iter_mut().find(|input| input.port == port)
    }

    pub(crate) fn add_credit(&mut self, port: u8, bytes: u32) {
        if let Some(output) = self.outputs.iter_mut().find(|output| output.port == port) {
            output.add_credit(bytes);
        }
    }

    /// Moves what can be moved, a piece at a time so that others have their turn.
    pub(crate) fn move_bytes(&mut self, buffer: &mut [u8], link: &mut Link) {
        for input in &mut self.inputs {
            input.push(self.stream, link);
        }
        for output in &mut self.outputs {
            output.pull(self.stream, buffer, link);
        }
    }

    /// Takes note that its process ended.
    pub(crate) fn note_end(&mut self, reaped: &Reaped) {
        self.outputs.iter_mut().for_each(Output::note_end);
        self.ended = Some(Ended {
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

    /// How it ended, once all it wrote is sent.
    pub(crate) fn outcome(&mut self, buffer: &mut [u8], link: &mut Link) -> Option<Ended> {
        self.ended.as_ref()?;
        for output in &mut self.outputs {
            while !output.is_done() && output.pull(self.stream, buffer, link) {}
        }
        let done = self.outputs.iter().all(Output::is_done);
        let cut = self.outputs.iter().any(|output| output.cut);
        self.ended.take_if(|_| done).map(|ended| Ended { output_cut: cut, ..ended })
    }
}
