//! The loop inside: hears the host, runs what it asks for, and ends with it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use assize_protocol::{
    Cause, Exec, Failure, Frame, FrameError, Hello, Kind, Prepare, Reply, Request, StreamId,
    VERSION, Welcome, port,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::confine::{self, Confinement};
use crate::files::{self, Reading, Writing};
use crate::link::Link;
use crate::machine::{self, Home};
use crate::prepared::Prepared;
use crate::program::{Program, Starter};
use crate::sys::{self, Pid};
use crate::watch;

/// How often we look for processes that are still to be killed.
const ROUNDS: usize = 1000;

/// What a stream is about.
enum Stream {
    Program(Program),
    Writing(Writing),
    Reading(Reading),
}

struct Server {
    link: Link,
    user: Option<u32>,
    code: Vec<(&'static str, OwnedFd)>,
    /// Known once the host has said hello.
    starter: Option<Starter>,
    env: BTreeMap<String, String>,
    watch_memory: Option<u64>,
    streams: BTreeMap<StreamId, Stream>,
    /// The program that waits, and the stream that waits for it to be ready.
    prepared: Option<Prepared>,
    preparing: Option<StreamId>,
    children: OwnedFd,
    buffer: Vec<u8>,
    /// The machine that we are the first process of, where we are.
    home: Option<Home>,
}

/// Serves the host until it is gone. Programs become the user, where one is given; where none is, `code` has the
/// files that programs see read-only, by their paths.
pub(crate) fn serve(
    user: Option<u32>,
    home: Option<Home>,
    code: Vec<(&'static str, OwnedFd)>,
) -> Result<(), String> {
    // Nobody under the same user may look at us or at what we hold.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| format!("cannot hide from programs: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("no_new_privs: {error}"))?;
    sys::as_user(user, confine::make_writable_folders);
    let children = sys::children_signal().map_err(|error| format!("signals: {error}"))?;
    let mut server = Server {
        link: Link::new()?,
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
        home,
    };
    if server.home.is_some() {
        server.say_welcome().map_err(|error| error.to_string())?;
    }
    server.run().map_err(|error| format!("the host sent {error}"))
}

impl Server {
    fn run(mut self) -> Result<(), FrameError> {
        loop {
            if !self.wait() {
                // Everything in the sandbox ends with its first process, which we are; and where we
                // are not, with this.
                sys::kill(-1, libc::SIGKILL);
                return Ok(());
            }
            while let Some(frame) = self.link.next_frame()? {
                self.hear(&frame)?;
            }
            self.look_after_programs();
            self.end_what_is_over();
        }
    }

    /// Waits until there is something to do, and reads what the host sent. `false` when it is gone.
    fn wait(&mut self) -> bool {
        if !self.link.flush() {
            return false;
        }
        let host = Link::input();
        let mut fds =
            vec![PollFd::new(&host, PollFlags::IN), PollFd::new(&self.children, PollFlags::IN)];
        let output = Link::output();
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
        // Interrupted or not, everything is looked at again.
        let _ = poll(&mut fds, timeout.as_ref());
        let heard = !fds[0].revents().is_empty();
        drop(fds);
        if heard { self.link.fill() } else { true }
    }

    fn next_deadline(&self) -> Option<Duration> {
        let programs = self.programs();
        let first = programs.clone().filter_map(Program::deadline).min();
        let left = first.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let watched = self.watch_memory.is_some() && programs.clone().any(Program::runs);
        if watched { Some(left.unwrap_or(watch::EVERY).min(watch::EVERY)) } else { left }
    }

    fn programs(&self) -> impl Iterator<Item = &Program> + Clone {
        self.streams.values().filter_map(|stream| match stream {
            Stream::Program(program) => Some(program),
            _ => None,
        })
    }

    fn hear(&mut self, frame: &Frame) -> Result<(), FrameError> {
        let id = frame.stream;
        match frame.kind {
            Kind::Hello => {
                let hello: Hello = frame.message()?;
                return self.welcome(hello);
            }
            Kind::Open => {
                let request = frame.message()?;
                if let Err(failure) = self.open(id, request) {
                    self.link.reply(id, &Reply::Failed(failure));
                }
            }
            Kind::Data => {
                let (port, bytes) = frame.on_port()?;
                match self.streams.get_mut(&id) {
                    Some(Stream::Program(program)) => {
                        if let Some(input) = program.input(port) {
                            input.give(id, bytes, &mut self.link);
                        }
                    }
                    Some(Stream::Writing(writing)) => writing.take(id, bytes, &mut self.link),
                    // Sent before our reply was heard.
                    Some(Stream::Reading(_)) | None => {}
                }
            }
            Kind::Close => match self.streams.remove(&id) {
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
            Kind::Credit => {
                let (port, bytes) = frame.credit()?;
                match self.streams.get_mut(&id) {
                    Some(Stream::Program(program)) => program.add_credit(port, bytes),
                    Some(Stream::Reading(reading)) if port == port::OUT => {
                        reading.add_credit(bytes)
                    }
                    _ => {}
                }
            }
            Kind::Cancel => match self.streams.get(&id) {
                Some(Stream::Program(program)) => self.kill_tree(program.pid),
                Some(_) => {
                    self.streams.remove(&id);
                    let failure = Failure::new(Cause::Cancelled, "cancelled");
                    self.link.reply(id, &Reply::Failed(failure));
                }
                None => {}
            },
            Kind::Done | Kind::Call | Kind::Answer | Kind::Event => {}
        }
        Ok(())
    }

    /// Begins to write a file: code as the guest's own user, everything else as the user of programs.
    fn begin_write(&self, path: &str, mode: u32) -> Result<Writing, Failure> {
        let mounted = self.code.iter().find(|(at, _)| *at == path);
        match mounted {
            Some((_, file)) => Writing::begin_mounted_code(path, file),
            None if self.user.is_some() && files::is_code(path) => Writing::begin_code(path),
            None => self.as_program(|| Writing::begin(path, mode)),
        }
    }

    /// Does something to files as the user that programs run under.
    fn as_program<T>(&self, act: impl FnOnce() -> T) -> T {
        sys::as_user(self.user, act)
    }

    fn welcome(&mut self, hello: Hello) -> Result<(), FrameError> {
        match (&self.home, &hello.machine) {
            (Some(home), Some(told)) => {
                machine::wake(home, told).map_err(|step| FrameError::Unreadable(step.into()))?;
            }
            (None, None) => {}
            _ => return Err(FrameError::Unreadable("a hello that was meant for others".into())),
        }
        self.watch_memory = hello.limits.watch_memory;
        self.env = hello.env;
        let confinement = Confinement::new(hello.limits).map_err(FrameError::Unreadable)?;
        self.starter = Some(Starter {
            confinement: Rc::new(confinement),
            user: self.user,
            group: self.home.as_ref().map(|home| Rc::clone(&home.group)),
        });
        self.say_welcome()
    }

    fn say_welcome(&mut self) -> Result<(), FrameError> {
        let welcome = Welcome { version: VERSION };
        Frame::put_message(self.link.out(), Kind::Hello, 0, &welcome)
    }

    fn open(&mut self, id: StreamId, mut request: Request) -> Result<(), Failure> {
        if let Request::Exec(Exec { env, .. }) | Request::Prepare(Prepare { env, .. }) =
            &mut request
        {
            for (name, value) in &self.env {
                env.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        let unknown = || Failure::new(Cause::Invalid, "the host has not said hello");
        let starter = self.starter.as_ref().ok_or_else(unknown)?;
        let outcome = match request {
            Request::Exec(exec) => {
                let program = match self.prepared.take_if(|waiting| waiting.is_meant(&exec)) {
                    Some(waiting) => release(id, waiting, &exec, starter),
                    None => starter.run(id, &exec),
                };
                program.map(|mut program| {
                    program.killed_before =
                        self.home.as_ref().map_or(0, |home| home.group.killed());
                    Some(Stream::Program(program))
                })
            }
            Request::Prepare(prepare) => starter.prepare(&prepare).map(|prepared| {
                self.prepared = Some(prepared);
                self.preparing = Some(id);
                None
            }),
            Request::Write { path, mode } => {
                self.begin_write(&path, mode).map(|writing| Some(Stream::Writing(writing)))
            }
            Request::Read { path, limit } => self
                .as_program(|| Reading::begin(&path, limit))
                .map(|reading| Some(Stream::Reading(reading))),
            Request::List { path } => self.as_program(|| files::list(&path)).map(|reply| {
                self.link.reply(id, &reply);
                None
            }),
            Request::Remove { path } => self.as_program(|| files::remove(&path)).map(|reply| {
                self.link.reply(id, &reply);
                None
            }),
            Request::Signal { exec, signal } => match self.streams.get(&exec) {
                Some(Stream::Program(program)) if (1..=64).contains(&signal) => {
                    sys::kill(-program.pid, signal);
                    self.link.reply(id, &Reply::Done);
                    Ok(None)
                }
                _ => Err(Failure::new(Cause::NotFound, "no such program runs, or no such signal")),
            },
        };
        if let Some(stream) = outcome? {
            self.streams.insert(id, stream);
        }
        Ok(())
    }

    /// Notes who ended, moves bytes, and ends those whose time is up.
    fn look_after_programs(&mut self) {
        let mut signals = [0; 256];
        while rustix::io::read(&self.children, &mut signals).is_ok() {}
        let mut late = Vec::new();
        while let Some(mut reaped) = sys::reap() {
            let program = self.streams.values_mut().find_map(|stream| match stream {
                Stream::Program(program) if program.pid == reaped.pid => Some(program),
                _ => None,
            });
            match program {
                Some(program) => {
                    if let Some(Home { group, .. }) = &self.home {
                        program.out_of_memory |= group.killed() > program.killed_before;
                        reaped.peak_bytes = group.peak().unwrap_or(reaped.peak_bytes);
                    }
                    program.note_end(&reaped);
                    late.extend(program.ends_all.then_some(program.pid));
                }
                None => drop(self.prepared.take_if(|waiting| waiting.pid == reaped.pid)),
            }
        }
        if let Some(waiting) = self.prepared.as_mut().filter(|waiting| !waiting.ready) {
            let readable = PollFlags::IN | PollFlags::HUP;
            let mut fd = [PollFd::new(&waiting.gate, PollFlags::IN)];
            let _ = poll(&mut fd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            if fd[0].revents().intersects(readable) && !waiting.hear() {
                self.prepared = None;
            }
        }
        self.tell_prepared();
        let now = Instant::now();
        let over_memory = self
            .watch_memory
            .filter(|_| self.programs().any(Program::runs))
            .is_some_and(watch::is_over);
        for stream in self.streams.values_mut() {
            let Stream::Program(program) = stream else { continue };
            program.move_bytes(&mut self.buffer, &mut self.link);
            if over_memory && program.runs() {
                program.out_of_memory = true;
                late.push(program.pid);
            } else if program.deadline().is_some_and(|deadline| deadline <= now) {
                program.timed_out = true;
                late.push(program.pid);
            }
        }
        for pid in late {
            self.kill_tree(pid);
        }
    }

    /// Answers whoever waits for a program to be prepared.
    fn tell_prepared(&mut self) {
        let reply = match &self.prepared {
            Some(waiting) if waiting.ready => Reply::Done,
            Some(_) => return,
            None => {
                let message = "the program ended before it was ready";
                Reply::Failed(Failure::new(Cause::Other, message))
            }
        };
        if let Some(stream) = self.preparing.take() {
            self.link.reply(stream, &reply);
        }
    }

    /// Ends a program with everything it started.
    ///
    /// While it is the only one, all that runs in the sandbox is its doing, daemons that left its
    /// tree included. Beside others, its descendants go, and those whom nobody owns any more.
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
            others.into_iter().chain(self.prepared.as_ref().map(|one| one.pid)).collect();
        // Whoever forks while we look is found the next time.
        for _ in 0..ROUNDS {
            let found = not_below(&spared).unwrap_or_default();
            if found.is_empty() {
                break;
            }
            for pid in found {
                sys::kill(pid, libc::SIGKILL);
            }
        }
    }

    fn end_what_is_over(&mut self) {
        let ids: Vec<StreamId> = self.streams.keys().copied().collect();
        for id in ids {
            let room = self.link.has_room();
            let reply = match self.streams.get_mut(&id) {
                Some(Stream::Program(program)) => {
                    program.outcome(&mut self.buffer, &mut self.link).map(Reply::Ended)
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

/// Lets the waiting program go, or starts it plainly when what it has to be told is too long.
fn release(
    id: StreamId,
    waiting: Prepared,
    exec: &Exec,
    starter: &Starter,
) -> Result<Program, Failure> {
    let arguments = &exec.argv[waiting.argv.len()..];
    let line = Prepared::line(arguments, &exec.env, &exec.cwd);
    if !Prepared::fits(&line) {
        sys::kill(waiting.pid, libc::SIGKILL);
        return starter.run(id, exec);
    }
    match Program::let_go(id, waiting, exec, &line) {
        Some(program) => Ok(program),
        None => starter.run(id, exec),
    }
}

/// What marks a process that is the kernel's.
const KERNEL: u64 = 0x0020_0000;

/// The processes that are not these or below them, nor ourselves, nor the kernel's.
fn not_below(spared: &[Pid]) -> Option<Vec<Pid>> {
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
        // In a machine of our own, the kernel has some of its own.
        if flags.and_then(|flags| flags.parse().ok()).is_some_and(|flags: u64| flags & KERNEL != 0)
        {
            continue;
        }
        // One whose first thread has ended looks dead while others go on.
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
