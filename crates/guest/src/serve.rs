//! Event loop of the guest agent: executes the host's requests until the host disconnects.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use assize_protocol::{
    ExecRequest, Frame, FrameError, FrameKind, GuestFailure, GuestFailureCause, GuestReply,
    GuestRequest, Hello, PrepareRequest, StreamId, VERSION, Welcome, port,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::channel::HostChannel;
use crate::confine::{self, Confinement};
use crate::files::{self, FileReader, FileWriter};
use crate::jail::StepError;
use crate::microvm::{self, MicroVm};
use crate::prepared::PreparedProgram;
use crate::program::{Launcher, RunningProgram};
use crate::sys::{self, Pid};
use crate::watch;

/// Maximum number of times that the process list is scanned for processes to kill.
const MAX_KILL_ROUNDS: usize = 1000;

/// Error that ends the guest agent.
enum ServeError {
    /// The settings in the host's `Hello` cannot be applied, for example because a mount failed.
    Setup(String),
    /// A frame from the host is invalid, or a frame to the host is too large.
    Frame(FrameError),
}

impl From<StepError> for ServeError {
    fn from(step: StepError) -> ServeError {
        ServeError::Setup(step.into())
    }
}

impl From<FrameError> for ServeError {
    fn from(error: FrameError) -> ServeError {
        ServeError::Frame(error)
    }
}

impl From<ServeError> for String {
    fn from(error: ServeError) -> String {
        match error {
            ServeError::Setup(reason) => format!("setting up the sandbox failed: {reason}"),
            ServeError::Frame(error) => format!("request from the host failed: {error}"),
        }
    }
}

/// State of an open stream, by kind of request.
enum Stream {
    Program(RunningProgram),
    Writing(FileWriter),
    Reading(FileReader),
}

struct Server {
    link: HostChannel,
    /// Id of the user that programs run as; `None` if programs run as the guest agent's user.
    user: Option<u32>,
    code: Vec<(&'static str, OwnedFd)>,
    /// Launcher of programs. It is set when the host's `Hello` arrives.
    starter: Option<Launcher>,
    env: BTreeMap<String, String>,
    /// Memory limit in bytes, if the guest agent has to enforce it by polling.
    watch_memory: Option<u64>,
    streams: BTreeMap<StreamId, Stream>,
    prepared: Option<PreparedProgram>,
    /// Stream of the `Prepare` request whose reply waits until the prepared program is ready; `None` if no reply waits.
    preparing: Option<StreamId>,
    /// Descriptor that is readable when a child process has ended.
    children: OwnedFd,
    buffer: Vec<u8>,
    /// Resources of the microVM; `None` on other backends.
    microvm: Option<MicroVm>,
}

/// Serves the host until the host disconnects. Programs run as `user`. If `user` is `None`, programs run as the guest
/// agent's user, and `code` contains the code files that are mounted read-only for programs.
pub(crate) fn serve(
    user: Option<u32>,
    home: Option<MicroVm>,
    code: Vec<(&'static str, OwnedFd)>,
) -> Result<(), String> {
    // Programs of the same user must not trace this process or open its descriptors.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| format!("cannot make the guest agent untraceable: {error}"))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| format!("cannot set no_new_privs: {error}"))?;
    sys::as_user(user, confine::make_writable_folders);
    let children =
        sys::children_signal().map_err(|error| format!("cannot receive SIGCHLD: {error}"))?;
    let mut server = Server {
        link: HostChannel::new()?,
        user,
        code,
        starter: None,
        env: BTreeMap::new(),
        watch_memory: None,
        streams: BTreeMap::new(),
        prepared: None,
        preparing: None,
        children,
        buffer: vec![0; 64 * 1024],
        microvm: home,
    };
    if server.microvm.is_some() {
        server.say_welcome().map_err(|error| error.to_string())?;
    }
    Ok(server.run()?)
}

impl Server {
    fn run(mut self) -> Result<(), ServeError> {
        loop {
            if !self.wait() {
                // The exit of PID 1 kills all other processes. If this process is not PID 1, it has to kill them.
                sys::kill(-1, libc::SIGKILL);
                return Ok(());
            }
            while let Some(frame) = self.link.next_frame()? {
                self.handle(&frame)?;
            }
            self.update_programs();
            self.finish_streams();
        }
    }

    /// Waits for the next event, and reads bytes that the host has sent. Returns `false` if the host has disconnected.
    fn wait(&mut self) -> bool {
        if !self.link.flush() {
            return false;
        }
        let host = HostChannel::input();
        let mut fds =
            vec![PollFd::new(&host, PollFlags::IN), PollFd::new(&self.children, PollFlags::IN)];
        let output = HostChannel::output();
        if self.link.waiting() {
            fds.push(PollFd::new(&output, PollFlags::OUT));
        }
        let room = self.link.has_room();
        let mut at_once = false;
        for stream in self.streams.values() {
            match stream {
                Stream::Program(program) => {
                    if room {
                        fds.extend(
                            program.reads().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
                        );
                    }
                    let inputs = program.writes();
                    fds.extend(inputs.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
                }
                Stream::Reading(reading) => at_once |= room && reading.can_send(),
                Stream::Writing(_) => {}
            }
        }
        if let Some(prepared) = self.prepared.as_ref().filter(|prepared| !prepared.ready) {
            fds.push(PollFd::from_borrowed_fd(prepared.gate.as_fd(), PollFlags::IN));
        }
        let timeout = if at_once { Some(Duration::ZERO) } else { self.next_deadline() };
        let timeout = timeout.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        // The result of `poll` is ignored, because the caller checks all streams anyway.
        let _ = poll(&mut fds, timeout.as_ref());
        let readable = !fds[0].revents().is_empty();
        drop(fds);
        if readable { self.link.fill() } else { true }
    }

    fn next_deadline(&self) -> Option<Duration> {
        let programs = self.programs();
        let first = programs.clone().filter_map(RunningProgram::deadline).min();
        let left = first.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let watched = self.watch_memory.is_some() && programs.clone().any(RunningProgram::runs);
        if watched { Some(left.unwrap_or(watch::EVERY).min(watch::EVERY)) } else { left }
    }

    fn programs(&self) -> impl Iterator<Item = &RunningProgram> + Clone {
        self.streams.values().filter_map(|stream| match stream {
            Stream::Program(program) => Some(program),
            _ => None,
        })
    }

    fn handle(&mut self, frame: &Frame) -> Result<(), ServeError> {
        let id = frame.stream;
        match frame.kind {
            FrameKind::Hello => {
                let hello: Hello = frame.message()?;
                return self.welcome(hello);
            }
            FrameKind::Open => {
                let request = frame.message()?;
                if let Err(failure) = self.open(id, request) {
                    self.link.reply(id, &GuestReply::Failed(failure));
                }
            }
            FrameKind::Data => {
                let (port, bytes) = frame.on_port()?;
                match self.streams.get_mut(&id) {
                    Some(Stream::Program(program)) => {
                        if let Some(input) = program.input(port) {
                            input.give(id, bytes, &mut self.link);
                        }
                    }
                    Some(Stream::Writing(writing)) => writing.take(id, bytes, &mut self.link),
                    // The host sent these bytes before it received the reply that ended the stream.
                    Some(Stream::Reading(_)) | None => {}
                }
            }
            FrameKind::Close => match self.streams.remove(&id) {
                Some(Stream::Writing(writing)) => {
                    let own = self.user.is_some() && files::is_code(writing.path());
                    let reply = if own { writing.end() } else { self.as_program(|| writing.end()) };
                    self.link.reply(id, &reply);
                }
                Some(Stream::Program(mut program)) => {
                    if let Some(input) = program.input(frame.on_port()?.0) {
                        input.end(id, &mut self.link);
                    }
                    self.streams.insert(id, Stream::Program(program));
                }
                Some(stream) => drop(self.streams.insert(id, stream)),
                None => {}
            },
            FrameKind::Credit => {
                let (port, bytes) = frame.credit()?;
                match self.streams.get_mut(&id) {
                    Some(Stream::Program(program)) => program.add_credit(port, bytes),
                    Some(Stream::Reading(reading)) if port == port::OUT => {
                        reading.add_credit(bytes)
                    }
                    _ => {}
                }
            }
            FrameKind::Cancel => match self.streams.get(&id) {
                Some(Stream::Program(program)) => self.kill_tree(program.pid),
                Some(_) => {
                    self.streams.remove(&id);
                    let failure = GuestFailure::new(GuestFailureCause::Cancelled, "cancelled");
                    self.link.reply(id, &GuestReply::Failed(failure));
                }
                None => {}
            },
            FrameKind::Done | FrameKind::Call | FrameKind::Answer | FrameKind::Event => {}
        }
        Ok(())
    }

    /// Opens a file for writing: a code file as the guest agent's user, any other file as the programs' user.
    fn begin_write(&self, path: &str, mode: u32) -> Result<FileWriter, GuestFailure> {
        let mounted = self.code.iter().find(|(at, _)| *at == path);
        match mounted {
            Some((_, file)) => FileWriter::begin_mounted_code(path, file),
            None if self.user.is_some() && files::is_code(path) => FileWriter::begin_code(path),
            None => self.as_program(|| FileWriter::begin(path, mode)),
        }
    }

    /// Runs file operations as the programs' user.
    fn as_program<T>(&self, act: impl FnOnce() -> T) -> T {
        sys::as_user(self.user, act)
    }

    /// Applies the settings in the host's `Hello` and replies with `Welcome`.
    fn welcome(&mut self, hello: Hello) -> Result<(), ServeError> {
        match (&self.microvm, &hello.machine) {
            (Some(home), Some(settings)) => microvm::configure_restored(home, settings)?,
            (None, None) => {}
            _ => {
                let reason = "the host's `Hello` message is for another backend";
                return Err(FrameError::Malformed(reason.to_owned()).into());
            }
        }
        self.watch_memory = hello.limits.watch_memory;
        self.env = hello.env;
        let confinement = Confinement::new(hello.limits).map_err(ServeError::Setup)?;
        self.starter = Some(Launcher {
            confinement: Rc::new(confinement),
            user: self.user,
            group: self.microvm.as_ref().map(|home| Rc::clone(&home.group)),
        });
        self.say_welcome()?;
        Ok(())
    }

    fn say_welcome(&mut self) -> Result<(), FrameError> {
        let welcome = Welcome { version: VERSION };
        Frame::put_message(self.link.out(), FrameKind::Hello, 0, &welcome)
    }

    fn open(&mut self, id: StreamId, mut request: GuestRequest) -> Result<(), GuestFailure> {
        if let GuestRequest::Exec(ExecRequest { env, .. })
        | GuestRequest::Prepare(PrepareRequest { env, .. }) = &mut request
        {
            for (name, value) in &self.env {
                env.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        let no_hello =
            || GuestFailure::new(GuestFailureCause::Invalid, "the host has not sent `Hello`");
        let starter = self.starter.as_ref().ok_or_else(no_hello)?;
        let outcome = match request {
            GuestRequest::Exec(exec) => {
                let program = match self.prepared.take_if(|prepared| prepared.can_serve(&exec)) {
                    Some(prepared) => release(id, prepared, &exec, starter),
                    None => starter.run(id, &exec),
                };
                program.map(|mut program| {
                    program.killed_before =
                        self.microvm.as_ref().map_or(0, |home| home.group.killed());
                    Some(Stream::Program(program))
                })
            }
            GuestRequest::Prepare(prepare) => starter.prepare(&prepare).map(|prepared| {
                self.prepared = Some(prepared);
                self.preparing = Some(id);
                None
            }),
            GuestRequest::Write { path, mode } => {
                self.begin_write(&path, mode).map(|writing| Some(Stream::Writing(writing)))
            }
            GuestRequest::Read { path, limit } => self
                .as_program(|| FileReader::begin(&path, limit))
                .map(|reading| Some(Stream::Reading(reading))),
            GuestRequest::List { path } => self.as_program(|| files::list(&path)).map(|reply| {
                self.link.reply(id, &reply);
                None
            }),
            GuestRequest::Remove { path } => {
                self.as_program(|| files::remove(&path)).map(|reply| {
                    self.link.reply(id, &reply);
                    None
                })
            }
            GuestRequest::Signal { exec, signal } => match self.streams.get(&exec) {
                Some(Stream::Program(program)) if (1..=64).contains(&signal) => {
                    sys::kill(-program.pid, signal);
                    self.link.reply(id, &GuestReply::Done);
                    Ok(None)
                }
                _ => Err(GuestFailure::new(
                    GuestFailureCause::NotFound,
                    format!("cannot send signal {signal}: program not running, or invalid signal"),
                )),
            },
        };
        if let Some(stream) = outcome? {
            self.streams.insert(id, stream);
        }
        Ok(())
    }

    /// Reaps ended processes, transfers input and output, and kills programs that exceed a limit.
    fn update_programs(&mut self) {
        let mut signals = [0; 256];
        while rustix::io::read(&self.children, &mut signals).is_ok() {}
        let mut to_kill = Vec::new();
        while let Some(mut reaped) = sys::reap() {
            let program = self.streams.values_mut().find_map(|stream| match stream {
                Stream::Program(program) if program.pid == reaped.pid => Some(program),
                _ => None,
            });
            match program {
                Some(program) => {
                    if let Some(MicroVm { group, .. }) = &self.microvm {
                        program.out_of_memory |= group.killed() > program.killed_before;
                        reaped.peak_bytes = group.peak().unwrap_or(reaped.peak_bytes);
                    }
                    program.note_end(&reaped);
                    to_kill.extend(program.ends_all.then_some(program.pid));
                }
                None => drop(self.prepared.take_if(|prepared| prepared.pid == reaped.pid)),
            }
        }
        if let Some(prepared) = self.prepared.as_mut().filter(|prepared| !prepared.ready) {
            let readable = PollFlags::IN | PollFlags::HUP;
            let mut fd = [PollFd::new(&prepared.gate, PollFlags::IN)];
            let _ = poll(&mut fd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            if fd[0].revents().intersects(readable) && !prepared.read_ready_byte() {
                self.prepared = None;
            }
        }
        self.answer_prepare();
        let now = Instant::now();
        let over_memory = self
            .watch_memory
            .filter(|_| self.programs().any(RunningProgram::runs))
            .is_some_and(watch::is_over);
        for stream in self.streams.values_mut() {
            let Stream::Program(program) = stream else { continue };
            program.move_bytes(&mut self.buffer, &mut self.link);
            if over_memory && program.runs() {
                program.out_of_memory = true;
                to_kill.push(program.pid);
            } else if program.deadline().is_some_and(|deadline| deadline <= now) {
                program.timed_out = true;
                to_kill.push(program.pid);
            }
        }
        for pid in to_kill {
            self.kill_tree(pid);
        }
    }

    /// Replies to the pending `Prepare` request when its program is ready or has exited.
    fn answer_prepare(&mut self) {
        let reply = match &self.prepared {
            Some(prepared) if prepared.ready => GuestReply::Done,
            Some(_) => return,
            None => {
                let message = "the prepared program ended before it was ready";
                GuestReply::Failed(GuestFailure::new(GuestFailureCause::Other, message))
            }
        };
        if let Some(stream) = self.preparing.take() {
            self.link.reply(stream, &reply);
        }
    }

    /// Kills a program and all processes that it started.
    ///
    /// If the sandbox has no other program (running or prepared), all processes in the sandbox are killed, including
    /// daemons that have left the program's process tree. If the sandbox has other programs, all processes are killed
    /// except these programs and their descendants.
    fn kill_tree(&self, pid: Pid) {
        let others: Vec<Pid> = self
            .programs()
            .filter(|program| program.runs())
            .map(|program| program.pid)
            .filter(|other| *other != pid)
            .collect();
        if others.is_empty() && self.prepared.is_none() {
            sys::kill(-1, libc::SIGKILL);
            return;
        }
        sys::kill(-pid, libc::SIGKILL);
        sys::kill(pid, libc::SIGKILL);
        let spared: Vec<Pid> =
            others.into_iter().chain(self.prepared.as_ref().map(|prepared| prepared.pid)).collect();
        // A process that is forked during one scan is found by the next scan.
        for _ in 0..MAX_KILL_ROUNDS {
            let found = processes_outside(&spared).unwrap_or_default();
            if found.is_empty() {
                break;
            }
            for pid in found {
                sys::kill(pid, libc::SIGKILL);
            }
        }
    }

    /// Sends the next chunk of each file that the host reads. Ends the stream of each program that has ended, and of
    /// each file that is completely sent, with a reply.
    fn finish_streams(&mut self) {
        let ids: Vec<StreamId> = self.streams.keys().copied().collect();
        for id in ids {
            let room = self.link.has_room();
            let reply = match self.streams.get_mut(&id) {
                Some(Stream::Program(program)) => {
                    program.outcome(&mut self.buffer, &mut self.link).map(GuestReply::Ended)
                }
                Some(Stream::Reading(reading)) if room && reading.can_send() => {
                    reading.send(id, &mut self.buffer, &mut self.link)
                }
                _ => None,
            };
            if let Some(reply) = reply {
                self.streams.remove(&id);
                self.link.reply(id, &reply);
            }
        }
    }
}

/// Runs the prepared program, or starts a new program if the arguments are too long for the prepared program's socket.
fn release(
    id: StreamId,
    prepared: PreparedProgram,
    exec: &ExecRequest,
    starter: &Launcher,
) -> Result<RunningProgram, GuestFailure> {
    let arguments = &exec.argv[prepared.argv.len()..];
    let line = PreparedProgram::line(arguments, &exec.env, &exec.cwd);
    if !PreparedProgram::fits(&line) {
        sys::kill(prepared.pid, libc::SIGKILL);
        return starter.run(id, exec);
    }
    match RunningProgram::from_prepared(id, prepared, exec, &line) {
        Some(program) => Ok(program),
        None => starter.run(id, exec),
    }
}

/// `PF_KTHREAD`: process flag of kernel threads.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Returns all processes except those in `spared`, their descendants, the guest agent and kernel threads.
fn processes_outside(spared: &[Pid]) -> Option<Vec<Pid>> {
    let own = std::process::id().cast_signed();
    let mut parents: BTreeMap<Pid, Pid> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        let (flags, threads) = (fields.nth(4), fields.nth(10));
        // In a microVM, `/proc` also lists kernel threads.
        let flags: u64 = flags.and_then(|flags| flags.parse().ok()).unwrap_or(0);
        if flags & KERNEL_THREAD != 0 {
            continue;
        }
        // A process whose main thread has ended has the state Z, even if other threads of it still run.
        let dead = state == Some("Z") && threads == Some("1");
        if let Some(parent) = parent.and_then(|field| field.parse().ok()).filter(|_| !dead) {
            parents.insert(pid, parent);
        }
    }
    let is_spared = |mut pid: Pid| {
        for _ in 0..parents.len() {
            if spared.contains(&pid) {
                return true;
            }
            match parents.get(&pid) {
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    Some(parents.keys().copied().filter(|pid| *pid != own && !is_spared(*pid)).collect())
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::jail::AtStep;

    #[test]
    fn setup_errors_are_not_reported_as_malformed_frames() {
        let step = Err::<(), _>(Errno::NODEV).step("mount the layers").unwrap_err();
        let message = String::from(ServeError::from(step));
        assert!(
            message.starts_with("setting up the sandbox failed: cannot mount the layers: "),
            "{message}"
        );
        let frame = String::from(ServeError::from(FrameError::TooShort(1)));
        assert!(frame.starts_with("request from the host failed: frame of 1 bytes"), "{frame}");
    }
}
