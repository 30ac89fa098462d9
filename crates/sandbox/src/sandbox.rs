//! A running sandbox: runs programs and transfers files in and out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use assize_config::Isolation;
use assize_protocol::{
    ExecLimits, ExecRequest, FolderEntry, GuestFailure, GuestFailureCause, GuestLimits, GuestReply,
    GuestRequest, Hello, PrepareRequest, ProgramExit, VERSION, port,
};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::backend::{Backend, ResourceUsage, StartedSandbox};
use crate::channel::{Channel, REPLY_TIMEOUT, RequestStream, StreamItem, StreamSender};
use crate::command::{CommandKind, ProgramCommand, ProgramOutcome, ProgramStream};
use crate::error::SandboxError;
use crate::interpreter::Language;
use crate::registry::SandboxRecord;
use crate::remote;
use crate::spec::SandboxSpec;

/// Working folder of programs, into which user files are copied and from which results are collected.
pub const WORKSPACE: &str = "/workspace";

/// Folder in the sandbox with the startup files of the Python interpreter.
pub(crate) const PYTHON_FOLDER: &str = "/run/assize/python";

/// Name and content of each file in [`PYTHON_FOLDER`].
pub(crate) const PYTHON_FILES: [(&str, &str); 2] = [
    ("sitecustomize.py", include_str!("python/sitecustomize.py")),
    ("assize_gate.py", include_str!("python/assize_gate.py")),
];

/// Time that the host waits, after a program's time limit, for the guest agent's report that the program ended. If no
/// report arrives, the host ends the sandbox.
const GRACE: Duration = Duration::from_secs(5);

/// Running sandbox. Clones share one sandbox, which ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

/// Returns the default environment of every program in a sandbox. In `PATH`, `folders` precede the usual folders.
pub(crate) fn environment(folders: &[String]) -> BTreeMap<String, String> {
    const USUAL: [&str; 6] =
        ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let before = folders.iter().map(String::as_str).filter(|folder| !USUAL.contains(folder));
    let mut path: Vec<&str> = before.collect();
    path.dedup();
    path.extend(USUAL);
    let path = path.join(":");
    [("PATH", path.as_str()), ("HOME", WORKSPACE), ("LANG", "C.UTF-8"), ("TMPDIR", "/tmp")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

#[derive(Debug)]
struct Inner {
    id: String,
    started: StartedSandbox,
    isolation: Isolation,
    backend: Arc<dyn Backend>,
    spec: SandboxSpec,
    made: Instant,
    /// Whether an interpreter is pre-started in the sandbox.
    prepared: AtomicBool,
}

impl Sandbox {
    /// Checks the limits of a spec and starts a sandbox with a backend.
    pub async fn start(
        backend: Arc<dyn Backend>,
        identity: &crate::backend::SandboxIdentity,
        spec: SandboxSpec,
    ) -> Result<Sandbox, SandboxError> {
        if let Some(complaint) = spec.limits.validation_error() {
            return Err(SandboxError::Limits(complaint));
        }
        let started = backend.start(identity, &spec).await?;
        let id = started.handle.external_id().map_or_else(|| identity.to_string(), str::to_owned);
        Ok(Sandbox::of(id, started, backend.isolation(), backend, spec))
    }

    fn of(
        id: String,
        started: StartedSandbox,
        isolation: Isolation,
        backend: Arc<dyn Backend>,
        spec: SandboxSpec,
    ) -> Sandbox {
        let (made, prepared) = (Instant::now(), AtomicBool::new(false));
        let inner = Inner { id, started, isolation, backend, spec, made, prepared };
        Sandbox { inner: Arc::new(inner) }
    }

    /// Connects to a sandbox of another process, through the socket of that process.
    pub(crate) async fn connect(
        socket: &std::path::Path,
        record: &SandboxRecord,
        backend: Arc<dyn Backend>,
    ) -> Result<Sandbox, SandboxError> {
        // Limits and environment are empty here, because they were set when the sandbox was created.
        let hello = Hello {
            version: VERSION,
            limits: GuestLimits::default(),
            env: BTreeMap::new(),
            machine: None,
        };
        let started = remote::connect(socket, &record.id, &hello).await?;
        let (id, spec) = (record.id.clone(), record.spec.clone());
        Ok(Sandbox::of(id, started, record.isolation, backend, spec))
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.inner.started.channel
    }

    pub(crate) async fn usage(&self) -> ResourceUsage {
        self.inner.started.handle.usage().await
    }

    /// Whether the sandbox has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.inner.started.channel.is_closed()
    }

    pub fn isolation(&self) -> Isolation {
        self.inner.isolation
    }

    /// Id of the sandbox: the container id for Docker, otherwise an id that is unique on this machine.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    pub fn spec(&self) -> &SandboxSpec {
        &self.inner.spec
    }

    pub fn age(&self) -> Duration {
        self.inner.made.elapsed()
    }

    /// Pre-starts a Python interpreter, so that the next Python code does not wait for the start of an interpreter.
    pub async fn prepare(&self) -> Result<(), SandboxError> {
        let mut command = ProgramCommand::code(Language::Python).env("ASSIZE_GATE", "3");
        if self.inner.isolation == Isolation::Microvm {
            command = command.env("ASSIZE_REHEARSE", "1");
        }
        let exec = self.exec_request(&command)?;
        let prepare = PrepareRequest { argv: exec.argv, env: exec.env, cwd: exec.cwd };
        self.request(&GuestRequest::Prepare(prepare)).await?;
        self.inner.prepared.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether an interpreter is pre-started in the sandbox and not used yet.
    pub(crate) fn is_prepared(&self) -> bool {
        self.inner.prepared.load(Ordering::Acquire)
    }

    /// Starts a program.
    ///
    /// # Errors
    /// When the interpreter is missing or the sandbox has ended. [`ProgramHandle::next`] reports a missing program.
    pub async fn exec(&self, command: ProgramCommand) -> Result<ProgramHandle, SandboxError> {
        let exec = self.exec_request(&command)?;
        let before = self.usage().await;
        let wall = Duration::from_millis(exec.limits.wall_millis);
        let stream = self.open(&GuestRequest::Exec(exec)).await?;
        let deadline = tokio::time::Instant::now() + wall + GRACE;
        let written = [0; port::COUNT];
        let begun = Instant::now();
        let ended = None;
        Ok(ProgramHandle { sandbox: self.clone(), stream, deadline, before, begun, written, ended })
    }

    /// Writes code to [`Language::code_path`] and runs it; both requests are sent without waiting for a reply. When the
    /// code ends, all processes that it started are killed, so that no files change afterwards.
    ///
    /// # Errors
    /// As [`Sandbox::exec`], and when the disk has no space for the code.
    pub async fn run(
        &self,
        language: Language,
        code: &[u8],
        command: ProgramCommand,
    ) -> Result<ProgramHandle, SandboxError> {
        let writing = self.begin_write(language.code_path(), code, 0o644).await?;
        let running =
            self.exec(ProgramCommand { run: CommandKind::Code(language), ..command }).await?;
        self.reply(writing).await?;
        Ok(running)
    }

    fn exec_request(&self, command: &ProgramCommand) -> Result<ExecRequest, SandboxError> {
        let limits = &self.inner.spec.limits;
        let mut env = BTreeMap::new();
        let mut prepared = false;
        let argv = match &command.run {
            CommandKind::Program(program) => vec![program.clone()],
            CommandKind::Code(language) => {
                if *language == Language::Python {
                    // Python reads its own variables only at startup: a pre-started interpreter would ignore them.
                    let ready = self.inner.prepared.swap(false, Ordering::AcqRel);
                    prepared = ready && !command.env.keys().any(|name| name.starts_with("PYTHON"));
                }
                self.interpret(*language, language.code_path(), &mut env)?
            }
            CommandKind::Script(language, path) => self.interpret(*language, path, &mut env)?,
        };
        for (name, value) in &command.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let reason = format!("invalid environment variable `{name}`");
                return Err(
                    GuestFailure { cause: GuestFailureCause::Invalid, message: reason }.into()
                );
            }
            let value = match env.get(name) {
                Some(ours) if name == "PYTHONPATH" => format!("{ours}:{value}"),
                _ => value.clone(),
            };
            env.insert(name.clone(), value);
        }
        let wall = command.time_limit.map_or(limits.wall, |wall| wall.min(limits.wall));
        Ok(ExecRequest {
            argv: argv.into_iter().chain(command.args.iter().cloned()).collect(),
            env,
            cwd: command.cwd.clone().unwrap_or_else(|| WORKSPACE.to_owned()),
            stdin: command.stdin,
            limits: ExecLimits {
                wall_millis: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
                output_bytes: limits.output,
            },
            talk: command.may_call_host,
            prepared,
            ends_all: !matches!(command.run, CommandKind::Program(_)),
        })
    }

    /// Returns the command line that runs a script, and adds the variables that the interpreter needs to `env`.
    fn interpret(
        &self,
        language: Language,
        path: &str,
        env: &mut BTreeMap<String, String>,
    ) -> Result<Vec<String>, SandboxError> {
        if language == Language::Python {
            env.insert("PYTHONPATH".to_owned(), format!("{PYTHON_FOLDER}:{WORKSPACE}"));
            // Instead of the user's site-packages. Only jails have site-packages there; see `startup_hook`.
            env.insert("PYTHONUSERBASE".to_owned(), PYTHON_FOLDER.to_owned());
        }
        if self.inner.isolation != self.inner.backend.isolation() {
            // The sandbox was created by another process with another backend, whose interpreters are unknown here.
            return Err(SandboxError::NoInterpreter(language, self.inner.isolation));
        }
        let program = self.inner.backend.interpreter(language)?;
        let flags = language.flags().iter().map(|flag| (*flag).to_owned());
        Ok([program].into_iter().chain(flags).chain([path.to_owned()]).collect())
    }

    /// Writes a file and creates its parent folders.
    pub async fn write(&self, path: &str, bytes: &[u8]) -> Result<(), SandboxError> {
        self.write_with_mode(path, bytes, 0o644).await
    }

    /// Writes a file with the given permission bits.
    pub async fn write_with_mode(
        &self,
        path: &str,
        bytes: &[u8],
        mode: u32,
    ) -> Result<(), SandboxError> {
        let writing = self.begin_write(path, bytes, mode).await?;
        self.reply(writing).await.map(drop)
    }

    async fn begin_write(
        &self,
        path: &str,
        bytes: &[u8],
        mode: u32,
    ) -> Result<RequestStream, SandboxError> {
        let stream = self.open(&GuestRequest::Write { path: path.to_owned(), mode }).await?;
        let sender = stream.sender();
        match tokio::time::timeout(REPLY_TIMEOUT, sender.send(bytes)).await {
            // If the guest agent rejected the request before all bytes were sent, its reply contains the reason.
            Ok(Ok(_)) => sender.close(),
            Ok(Err(gone)) => return Err(self.closed_error(gone.0).await),
            Err(_) => return Err(SandboxError::SandboxFailed(NO_RESPONSE.to_owned())),
        }
        Ok(stream)
    }

    async fn reply(&self, mut stream: RequestStream) -> Result<GuestReply, SandboxError> {
        match stream.reply().await {
            Ok(reply) => read_reply(reply),
            Err(gone) => Err(self.closed_error(gone.0).await),
        }
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    /// When the file is missing, larger than `limit`, or not a regular file.
    pub async fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SandboxError> {
        let mut stream = self.open(&GuestRequest::Read { path: path.to_owned(), limit }).await?;
        let mut bytes = Vec::new();
        loop {
            let next = match tokio::time::timeout(REPLY_TIMEOUT, stream.next()).await {
                Ok(next) => next,
                Err(_) => return Err(SandboxError::SandboxFailed(NO_RESPONSE.to_owned())),
            };
            match next {
                Ok(StreamItem::Chunk(piece)) => {
                    bytes.extend_from_slice(&piece.bytes);
                    if bytes.len() as u64 > limit {
                        let reason = "the guest agent sent more bytes of a file than requested";
                        return Err(SandboxError::SandboxFailed(reason.to_owned()));
                    }
                }
                Ok(StreamItem::Reply(reply)) => return read_reply(reply).map(|_| bytes),
                Err(gone) => return Err(self.closed_error(gone.0).await),
            }
        }
    }

    /// Lists the entries of a folder, sorted by name.
    pub async fn list(&self, path: &str) -> Result<Vec<FolderEntry>, SandboxError> {
        match self.request(&GuestRequest::List { path: path.to_owned() }).await? {
            GuestReply::Entries(entries) => Ok(entries),
            _ => Err(SandboxError::SandboxFailed(UNEXPECTED_REPLY.to_owned())),
        }
    }

    /// Removes a file, or a folder recursively.
    pub async fn remove(&self, path: &str) -> Result<(), SandboxError> {
        self.request(&GuestRequest::Remove { path: path.to_owned() }).await.map(drop)
    }

    /// Kills all processes in the sandbox and waits until the sandbox is removed.
    pub async fn end(&self) {
        self.inner.started.handle.end().await;
    }

    /// Waits until the sandbox has ended. The future does not keep the sandbox alive.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let closed = self.inner.started.channel.closed();
        async move { drop(closed.await) }
    }

    /// Gives the sandbox the time and output limits of a request. The request must have the shape of the sandbox
    /// (image, layers and all other limits). Returns `None` if the sandbox has other clones.
    pub(crate) fn adapted(mut self, spec: &SandboxSpec) -> Option<Sandbox> {
        debug_assert_eq!(self.inner.spec.shape(), spec.shape());
        Arc::get_mut(&mut self.inner)?.spec = spec.clone();
        Some(self)
    }

    async fn open(&self, request: &GuestRequest) -> Result<RequestStream, SandboxError> {
        match self.inner.started.channel.open(request) {
            Ok(stream) => Ok(stream),
            Err(gone) => Err(self.closed_error(gone.0).await),
        }
    }

    async fn request(&self, request: &GuestRequest) -> Result<GuestReply, SandboxError> {
        self.reply(self.open(request).await?).await
    }

    /// Returns the error for a closed channel, with the guest agent's diagnostic output if there is any.
    async fn closed_error(&self, reason: String) -> SandboxError {
        match self.inner.started.handle.diagnostic_output().await {
            Some(output) => SandboxError::SandboxFailed(format!("{reason}: {output}")),
            None => SandboxError::SandboxFailed(reason),
        }
    }
}

const NO_RESPONSE: &str = "the guest agent does not respond";
const UNEXPECTED_REPLY: &str = "the guest agent sent an unexpected reply";

fn read_reply(reply: GuestReply) -> Result<GuestReply, SandboxError> {
    match reply {
        GuestReply::Failed(failure) => Err(failure.into()),
        reply => Ok(reply),
    }
}

/// Handle of a running program. Dropping the handle kills the program.
#[derive(Debug)]
pub struct ProgramHandle {
    sandbox: Sandbox,
    stream: RequestStream,
    deadline: tokio::time::Instant,
    before: ResourceUsage,
    begun: Instant,
    /// Number of bytes that the program has written so far on each port, such as standard output and standard error.
    written: [u64; port::COUNT],
    /// The guest agent's report of the program's end. It is stored because a caller may drop the future of
    /// [`ProgramHandle::next`] while the outcome is computed, and call the method again.
    ended: Option<ProgramExit>,
}

/// Event of a running program.
#[derive(Debug)]
pub enum ProgramEvent {
    Output(ProgramStream, Vec<u8>),
    /// Bytes of calls and events to the host. Only a program that was started by
    /// [`Sandbox::run_with_host_calls`] can send them.
    HostMessage(Vec<u8>),
    Ended(ProgramOutcome),
}

impl ProgramHandle {
    /// Waits for the program's next output or its end. Cancel-safe: no output is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<ProgramEvent, SandboxError> {
        if let Some(ended) = self.ended.clone() {
            return Ok(ProgramEvent::Ended(self.outcome(ended).await));
        }
        // A slow caller must not make the program count as timed out.
        let latest = self.deadline.max(tokio::time::Instant::now() + GRACE);
        match tokio::time::timeout_at(latest, self.stream.next()).await {
            Ok(Ok(StreamItem::Chunk(piece))) => {
                let written = &mut self.written[usize::from(piece.port)];
                *written += piece.bytes.len() as u64;
                // The guest agent truncates output at the limit. A guest agent that sends more is compromised.
                if piece.port != port::TALK && *written > self.sandbox.spec().limits.output {
                    self.sandbox.end().await;
                    let reason = "the guest agent sent more bytes of output than the limit allows";
                    return Err(SandboxError::SandboxFailed(reason.to_owned()));
                }
                Ok(match piece.port {
                    port::TALK => ProgramEvent::HostMessage(piece.bytes),
                    port::ERR => ProgramEvent::Output(ProgramStream::Stderr, piece.bytes),
                    _ => ProgramEvent::Output(ProgramStream::Stdout, piece.bytes),
                })
            }
            Ok(Ok(StreamItem::Reply(GuestReply::Ended(ended)))) => {
                self.ended = Some(ended.clone());
                Ok(ProgramEvent::Ended(self.outcome(ended).await))
            }
            Ok(Ok(StreamItem::Reply(reply))) => {
                read_reply(reply)?;
                Err(SandboxError::SandboxFailed(UNEXPECTED_REPLY.to_owned()))
            }
            Ok(Err(gone)) => {
                // If memory runs out and no other process is left to kill, the kernel kills the guest agent.
                if self.sandbox.usage().await.out_of_memory > self.before.out_of_memory {
                    let ended = ProgramExit { signal: Some(9), ..ProgramExit::default() };
                    return Ok(ProgramEvent::Ended(self.outcome(ended).await));
                }
                Err(self.sandbox.closed_error(gone.0).await)
            }
            // The guest agent did not enforce the time limit of the program.
            Err(_) => {
                self.sandbox.end().await;
                let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                let ended = ProgramExit {
                    signal: Some(9),
                    timed_out: true,
                    micros,
                    ..ProgramExit::default()
                };
                Ok(ProgramEvent::Ended(self.outcome(ended).await))
            }
        }
    }

    async fn outcome(&self, ended: ProgramExit) -> ProgramOutcome {
        let account = self.sandbox.usage().await;
        ProgramOutcome {
            exit_code: ended.exit_code,
            signal: ended.signal,
            timed_out: ended.timed_out,
            out_of_memory: ended.out_of_memory || account.out_of_memory > self.before.out_of_memory,
            output_cut: ended.output_cut,
            disk_full: ended.disk_full,
            duration: Duration::from_micros(ended.micros),
            peak_memory: account.peak_memory.unwrap_or(ended.peak_bytes),
            warm: ended.prepared,
        }
    }

    /// Waits for the program to end; returns its output and outcome.
    pub async fn finish(self) -> Result<FinishedProgram, SandboxError> {
        self.finish_with(|_, _| {}).await
    }

    /// Like [`ProgramHandle::finish`], and also passes each chunk of output to a callback as it arrives.
    pub async fn finish_with(
        mut self,
        mut tell: impl FnMut(ProgramStream, &[u8]),
    ) -> Result<FinishedProgram, SandboxError> {
        let mut finished = FinishedProgram::default();
        loop {
            match self.next().await? {
                ProgramEvent::Output(output, bytes) => {
                    tell(output, &bytes);
                    match output {
                        ProgramStream::Stdout => finished.stdout.extend_from_slice(&bytes),
                        ProgramStream::Stderr => finished.stderr.extend_from_slice(&bytes),
                    }
                }
                ProgramEvent::HostMessage(_) => {}
                ProgramEvent::Ended(outcome) => {
                    finished.outcome = outcome;
                    return Ok(finished);
                }
            }
        }
    }

    /// Passes the output to an async callback as it arrives; returns the outcome.
    ///
    /// # Errors
    /// As [`ProgramHandle::next`], and when `pass` fails, which kills the program.
    pub async fn follow<E: From<SandboxError>>(
        mut self,
        mut pass: impl AsyncFnMut(ProgramStream, &[u8]) -> Result<(), E>,
    ) -> Result<ProgramOutcome, E> {
        loop {
            match self.next().await? {
                ProgramEvent::Output(output, bytes) => pass(output, &bytes).await?,
                ProgramEvent::HostMessage(_) => {}
                ProgramEvent::Ended(outcome) => return Ok(outcome),
            }
        }
    }

    /// Returns a sender for messages from the host to a program that [`Sandbox::run_with_host_calls`] started.
    pub(crate) fn message_sender(&self) -> StreamSender {
        self.stream.sender_on(port::TALK)
    }

    /// Returns a writer for the program's standard input, which can be used while the output is read.
    pub fn stdin(&self) -> ProgramStdin {
        ProgramStdin(self.stream.sender())
    }

    /// Copies a reader to the program's standard input in the background, until the reader or the program ends.
    pub fn feed(&self, mut from: impl AsyncRead + Unpin + Send + 'static) {
        let to = self.stdin();
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = from.read(&mut buffer).await {
                if !matches!(to.write(&buffer[..count]).await, Ok(true)) {
                    return;
                }
            }
            to.close();
        });
    }

    /// Sends a signal to the program.
    pub async fn signal(&self, signal: i32) -> Result<(), SandboxError> {
        self.sandbox
            .request(&GuestRequest::Signal { exec: self.stream.id(), signal })
            .await
            .map(drop)
    }

    /// Kills the program and all processes that it started. After that, [`ProgramHandle::next`] reports that the
    /// program ended.
    pub fn kill(&self) {
        self.stream.cancel();
    }
}

/// Output and outcome of a finished program.
#[derive(Debug, Clone, Default)]
pub struct FinishedProgram {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub outcome: ProgramOutcome,
}

/// Writer for the standard input of a program.
#[derive(Debug)]
pub struct ProgramStdin(StreamSender);

impl ProgramStdin {
    /// Writes all bytes, as fast as the program reads them. Returns `false` if the program has ended.
    pub async fn write(&self, bytes: &[u8]) -> Result<bool, SandboxError> {
        Ok(self.0.send(bytes).await?)
    }

    /// Closes the program's standard input.
    pub fn close(self) {
        self.0.close();
    }
}
