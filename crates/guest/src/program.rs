//! One program that runs: how it is started, what goes in and out of it, how it ended.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use assize_protocol::{
    Cause, Ended, Exec, ExecLimits, Failure, Frame, Prepare, StreamId, WINDOW, port,
};
use rustix::io::Errno;

use crate::confine::Confinement;
use crate::files;
use crate::link::Link;
use crate::prepared::{GATE, Prepared, gate};
use crate::sys::{self, Pid, Reaped};

/// Starts programs: under which user, and confined how.
pub(crate) struct Starter {
    pub(crate) confinement: Rc<Confinement>,
    /// The user that programs become, where that is another than the guest's.
    pub(crate) user: Option<u32>,
}

/// A process just started, with the ends of its pipes that are ours.
struct Started {
    pid: Pid,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Starter {
    pub(crate) fn run(&self, stream: StreamId, exec: &Exec) -> Result<Program, Failure> {
        let started = self.start(&exec.argv, &exec.env, &exec.cwd, exec.stdin, None)?;
        Ok(Program::new(stream, started, &exec.limits, false))
    }

    /// Starts a program that waits at its gate.
    pub(crate) fn prepare(&self, prepare: &Prepare) -> Result<Prepared, Failure> {
        let (ours, theirs) = gate().map_err(|error| cannot("make a gate", &error.into()))?;
        let started = self.start(&prepare.argv, &prepare.env, &prepare.cwd, true, Some(theirs))?;
        let Started { pid, stdin: Some(stdin), stdout, stderr } = started else {
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
        gate: Option<OwnedFd>,
    ) -> Result<Started, Failure> {
        let Some((name, arguments)) = argv.split_first() else {
            return Err(Failure {
                cause: Cause::Invalid,
                message: "no program is named".to_owned(),
            });
        };
        let mut command = Command::new(name);
        command.args(arguments).env_clear().envs(env).current_dir(cwd);
        command.stdin(if stdin { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let confinement = ForChild(Rc::clone(&self.confinement));
        sys::before_exec(&mut command, move || {
            sys::unblock_signals();
            rustix::process::setsid()?;
            if let Some(gate) = &gate {
                sys::give_as(gate, GATE)?;
            }
            confinement.get().apply()
        });
        let mut child = command.spawn().map_err(|error| not_started(name, cwd, &error))?;
        let pipes = (child.stdout.take(), child.stderr.take());
        let (Some(stdout), Some(stderr)) = pipes else {
            return Err(cannot("make a pipe", &Errno::BADF.into()));
        };
        let started = Started {
            pid: child.id().cast_signed(),
            stdin: child.stdin.take().map(OwnedFd::from),
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        for pipe in started.stdin.iter().chain([&started.stdout, &started.stderr]) {
            rustix::io::ioctl_fionbio(pipe, true)
                .map_err(|error| cannot("use a pipe", &error.into()))?;
        }
        Ok(started)
    }
}

/// What a closure that runs in the child needs: the guest has one thread, and the child is a copy.
struct ForChild(Rc<Confinement>);

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
    fn get(&self) -> &Confinement {
        &self.0
    }
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

/// Bytes that come out of a program.
struct Output {
    pipe: Option<OwnedFd>,
    port: u8,
    /// How much the host still has room for.
    credit: u32,
    /// How much may still be sent before the rest is thrown away.
    allowed: u64,
    cut: bool,
}

pub(crate) struct Program {
    stream: StreamId,
    pub(crate) pid: Pid,
    stdin: Option<OwnedFd>,
    /// What is still to be written to it.
    input: VecDeque<u8>,
    input_ends: bool,
    outputs: [Output; 2],
    began: Instant,
    deadline: Instant,
    ended: Option<Ended>,
    prepared: bool,
    pub(crate) timed_out: bool,
    pub(crate) out_of_memory: bool,
}

impl Program {
    fn new(stream: StreamId, started: Started, limits: &ExecLimits, prepared: bool) -> Program {
        let began = Instant::now();
        let output = |pipe, port| Output {
            pipe: Some(pipe),
            port,
            credit: WINDOW,
            allowed: limits.output_bytes,
            cut: false,
        };
        Program {
            stream,
            pid: started.pid,
            stdin: started.stdin,
            input: VecDeque::new(),
            input_ends: false,
            outputs: [output(started.stdout, port::OUT), output(started.stderr, port::ERR)],
            began,
            deadline: began + Duration::from_millis(limits.wall_millis),
            ended: None,
            prepared,
            timed_out: false,
            out_of_memory: false,
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
        Some(Program::new(stream, Started { pid, stdin, stdout, stderr }, &exec.limits, true))
    }

    /// What to wait for: its output where the host has room, and room in its input.
    pub(crate) fn reads(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.outputs
            .iter()
            .filter(|output| output.credit > 0 || output.allowed == 0)
            .filter_map(|output| output.pipe.as_ref().map(AsFd::as_fd))
    }

    pub(crate) fn writes(&self) -> Option<BorrowedFd<'_>> {
        let pending = !self.input.is_empty() || self.input_ends;
        self.stdin.as_ref().filter(|_| pending).map(AsFd::as_fd)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.ended.is_none() && !self.timed_out).then_some(self.deadline)
    }

    pub(crate) fn runs(&self) -> bool {
        self.ended.is_none()
    }

    pub(crate) fn give_input(&mut self, bytes: &[u8], link: &mut Link) {
        if self.stdin.is_some() {
            self.input.extend(bytes);
            self.push_input(link);
        } else {
            self.grant(bytes.len(), link);
        }
    }

    pub(crate) fn end_input(&mut self, link: &mut Link) {
        self.input_ends = true;
        self.push_input(link);
    }

    /// Writes as much as the program takes now.
    pub(crate) fn push_input(&mut self, link: &mut Link) {
        let Some(pipe) = &self.stdin else { return };
        let mut written = 0;
        let mut broken = false;
        while !self.input.is_empty() {
            match rustix::io::write(pipe, self.input.as_slices().0) {
                Ok(count) => {
                    self.input.drain(..count);
                    written += count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // It closed its input; what more comes is nobody's.
                Err(_) => {
                    written += self.input.len();
                    self.input.clear();
                    broken = true;
                }
            }
        }
        if broken || (self.input_ends && self.input.is_empty()) {
            self.stdin = None;
        }
        self.grant(written, link);
    }

    fn grant(&self, bytes: usize, link: &mut Link) {
        if bytes > 0 {
            Frame::put_credit(
                link.out(),
                self.stream,
                port::IN,
                u32::try_from(bytes).unwrap_or(u32::MAX),
            );
        }
    }

    pub(crate) fn add_credit(&mut self, port: u8, bytes: u32) {
        if let Some(output) = self.outputs.iter_mut().find(|output| output.port == port) {
            output.credit = output.credit.saturating_add(bytes);
        }
    }

    /// Sends on what the program has written, a piece at a time so that others have their turn.
    pub(crate) fn pull_output(&mut self, buffer: &mut [u8], link: &mut Link) {
        for output in &mut self.outputs {
            output.pull(self.stream, buffer, link);
        }
    }

    /// Takes note that its process ended.
    pub(crate) fn note_end(&mut self, reaped: &Reaped) {
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

    /// How it ended, once all it wrote is sent. What its own children that live on may write later
    /// is not waited for.
    pub(crate) fn outcome(&mut self, buffer: &mut [u8], link: &mut Link) -> Option<Ended> {
        self.ended.as_ref()?;
        for output in &mut self.outputs {
            while output.pipe.is_some() && link.has_room() {
                if !output.pull(self.stream, buffer, link) {
                    break;
                }
            }
            if output.has_more() {
                return None;
            }
        }
        let cut = self.outputs.iter().any(|output| output.cut);
        self.ended.take().map(|ended| Ended { output_cut: cut, ..ended })
    }
}

impl Output {
    /// Sends one piece on. `false` when there is none for now, or never again.
    fn pull(&mut self, stream: StreamId, buffer: &mut [u8], link: &mut Link) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let discarding = self.allowed == 0;
        let most = if discarding { buffer.len() } else { buffer.len().min(self.credit as usize) };
        if most == 0 || !link.has_room() {
            return false;
        }
        match rustix::io::read(pipe, &mut buffer[..most]) {
            Ok(0) => {
                self.pipe = None;
                false
            }
            Ok(count) => {
                let keep = usize::try_from(self.allowed).unwrap_or(usize::MAX).min(count);
                self.cut |= keep < count;
                self.allowed -= keep as u64;
                self.credit -= u32::try_from(keep).unwrap_or(0);
                Frame::put_data(link.out(), stream, self.port, &buffer[..keep]);
                true
            }
            Err(Errno::INTR) => true,
            Err(Errno::AGAIN) => false,
            Err(_) => {
                self.pipe = None;
                false
            }
        }
    }

    /// Whether bytes wait in the pipe that could not be sent yet.
    fn has_more(&self) -> bool {
        self.pipe.as_ref().is_some_and(|pipe| rustix::io::ioctl_fionread(pipe).unwrap_or(0) > 0)
    }
}
