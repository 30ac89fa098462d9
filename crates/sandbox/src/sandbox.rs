//! A sandbox that is there: run something in it, and move files in and out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use assize_config::Isolation;
use assize_protocol::{
    Cause, Ended, Entry, Exec, ExecLimits, Failure, GuestLimits, Hello, Prepare, Reply, Request,
    VERSION, port,
};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::backend::{Account, Backend, Started};
use crate::channel::{Channel, Next, PATIENCE, Sender, Stream};
use crate::command::{Command, Outcome, Output, Run};
use crate::error::SandboxError;
use crate::interpreter::Language;
use crate::registry::Record;
use crate::spec::Spec;
use crate::visit;

/// The folder that programs start in, and that users' files go to and come from.
pub const WORKSPACE: &str = "/workspace";

/// Where the interpreter's preparation is found inside.
pub(crate) const PYTHON_FOLDER: &str = "/run/assize/python";

/// What is in it.
pub(crate) const PYTHON_FILES: [(&str, &str); 2] = [
    ("sitecustomize.py", include_str!("python/sitecustomize.py")),
    ("assize_gate.py", include_str!("python/assize_gate.py")),
];

/// How much longer than its time a program may take to be reported before the sandbox is ended.
const GRACE: Duration = Duration::from_secs(5);

/// A sandbox. Clones are the same sandbox; with the last of them it ends.
#[derive(Debug, Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

/// What every program in a sandbox has in its environment. Programs are looked for in these folders
/// before the usual ones.
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
    started: Started,
    isolation: Isolation,
    backend: Arc<dyn Backend>,
    spec: Spec,
    made: Instant,
    /// An interpreter waits in it.
    prepared: AtomicBool,
}

impl Sandbox {
    /// Makes one.
    pub async fn start(
        backend: Arc<dyn Backend>,
        identity: &crate::backend::Identity,
        spec: Spec,
    ) -> Result<Sandbox, SandboxError> {
        if let Some(complaint) = spec.limits.complaint() {
            return Err(SandboxError::Limits(complaint));
        }
        let started = backend.start(identity, &spec).await?;
        let id = started.cell.external_id().map_or_else(|| identity.to_string(), str::to_owned);
        Ok(Sandbox::of(id, started, backend.isolation(), backend, spec))
    }

    fn of(
        id: String,
        started: Started,
        isolation: Isolation,
        backend: Arc<dyn Backend>,
        spec: Spec,
    ) -> Sandbox {
        let (made, prepared) = (Instant::now(), AtomicBool::new(false));
        let inner = Inner { id, started, isolation, backend, spec, made, prepared };
        Sandbox { inner: Arc::new(inner) }
    }

    /// One that another process made, reached through it.
    pub(crate) async fn visit(
        door: &std::path::Path,
        record: &Record,
        backend: Arc<dyn Backend>,
    ) -> Result<Sandbox, SandboxError> {
        // Its limits were laid on when it was made.
        let hello = Hello {
            version: VERSION,
            limits: GuestLimits::default(),
            env: BTreeMap::new(),
            machine: None,
        };
        let started = visit::visit(door, &record.id, &hello).await?;
        let (id, spec) = (record.id.clone(), record.spec.clone());
        Ok(Sandbox::of(id, started, record.isolation, backend, spec))
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.inner.started.channel
    }

    pub(crate) async fn account(&self) -> Account {
        self.inner.started.cell.account().await
    }

    /// Whether it is gone already.
    pub(crate) fn is_gone(&self) -> bool {
        self.inner.started.channel.is_closed()
    }

    pub fn isolation(&self) -> Isolation {
        self.inner.isolation
    }

    /// The backend's own id: the container id with Docker, and else an id that no other sandbox of this
    /// machine has.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    pub fn spec(&self) -> &Spec {
        &self.inner.spec
    }

    pub fn age(&self) -> Duration {
        self.inner.made.elapsed()
    }

    /// Starts an interpreter that will be waiting when code comes.
    pub async fn prepare(&self) -> Result<(), SandboxError> {
        let mut command = Command::code(Language::Python).env("ASSIZE_GATE", "3");
        if self.inner.isolation == Isolation::Microvm {
            command = command.env("ASSIZE_REHEARSE", "1");
        }
        let exec = self.exec_request(&command)?;
        let prepare = Prepare { argv: exec.argv, env: exec.env, cwd: exec.cwd };
        self.ask(&Request::Prepare(prepare)).await?;
        self.inner.prepared.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether one waits.
    pub(crate) fn is_prepared(&self) -> bool {
        self.inner.prepared.load(Ordering::Acquire)
    }

    /// Starts a program.
    ///
    /// # Errors
    /// When there is no such interpreter, or the sandbox is gone. That there is no such program is
    /// told by [`Running`].
    pub async fn exec(&self, command: Command) -> Result<Running, SandboxError> {
        let exec = self.exec_request(&command)?;
        let before = self.account().await;
        let wall = Duration::from_millis(exec.limits.wall_millis);
        let stream = self.open(&Request::Exec(exec)).await?;
        let deadline = tokio::time::Instant::now() + wall + GRACE;
        let written = [0; port::COUNT];
        let begun = Instant::now();
        let ended = None;
        Ok(Running { sandbox: self.clone(), stream, deadline, before, begun, written, ended })
    }

    /// Puts code at its place and runs it. Both are said in one breath. What the code started ends
    /// with it, so that nothing changes any more when it is over.
    ///
    /// # Errors
    /// As [`Sandbox::exec`], and when there is no room for the code.
    pub async fn run(
        &self,
        language: Language,
        code: &[u8],
        command: Command,
    ) -> Result<Running, SandboxError> {
        let writing = self.begin_write(language.code_path(), code, 0o644).await?;
        let running = self.exec(Command { run: Run::Code(language), ..command }).await?;
        self.reply(writing).await?;
        Ok(running)
    }

    fn exec_request(&self, command: &Command) -> Result<Exec, SandboxError> {
        let limits = &self.inner.spec.limits;
        let mut env = BTreeMap::new();
        let mut prepared = false;
        let argv = match &command.run {
            Run::Program(program) => vec![program.clone()],
            Run::Code(language) => {
                if *language == Language::Python {
                    // What only the start of an interpreter heeds cannot be told to one that waits.
                    let waits = self.inner.prepared.swap(false, Ordering::AcqRel);
                    prepared = waits && !command.env.keys().any(|name| name.starts_with("PYTHON"));
                }
                self.interpret(*language, language.code_path(), &mut env)?
            }
            Run::Script(language, path) => self.interpret(*language, path, &mut env)?,
        };
        for (name, value) in &command.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let reason = format!("`{name}` cannot be a variable of the environment");
                return Err(Failure { cause: Cause::Invalid, message: reason }.into());
            }
            let value = match env.get(name) {
                Some(ours) if name == "PYTHONPATH" => format!("{ours}:{value}"),
                _ => value.clone(),
            };
            env.insert(name.clone(), value);
        }
        let wall = command.wall.map_or(limits.wall, |wall| wall.min(limits.wall));
        Ok(Exec {
            argv: argv.into_iter().chain(command.args.iter().cloned()).collect(),
            env,
            cwd: command.cwd.clone().unwrap_or_else(|| WORKSPACE.to_owned()),
            stdin: command.stdin,
            limits: ExecLimits {
                wall_millis: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
                output_bytes: limits.output,
            },
            talk: command.talk,
            prepared,
            ends_all: !matches!(command.run, Run::Program(_)),
        })
    }

    /// The words that have code interpreted, and what its interpreter needs in its environment.
    fn interpret(
        &self,
        language: Language,
        path: &str,
        env: &mut BTreeMap<String, String>,
    ) -> Result<Vec<String>, SandboxError> {
        if language == Language::Python {
            env.insert("PYTHONPATH".to_owned(), format!("{PYTHON_FOLDER}:{WORKSPACE}"));
        }
        if self.inner.isolation != self.inner.backend.isolation() {
            // Where its interpreters are, only its maker knows.
            return Err(SandboxError::NoInterpreter(language, self.inner.isolation));
        }
        let program = self.inner.backend.interpreter(language)?;
        let flags = language.flags().iter().map(|flag| (*flag).to_owned());
        Ok([program].into_iter().chain(flags).chain([path.to_owned()]).collect())
    }

    /// Writes a file, with the folders on the way to it.
    pub async fn write(&self, path: &str, bytes: &[u8]) -> Result<(), SandboxError> {
        self.write_with_mode(path, bytes, 0o644).await
    }

    /// The same, with other rights than to read and write.
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
    ) -> Result<Stream, SandboxError> {
        let stream = self.open(&Request::Write { path: path.to_owned(), mode }).await?;
        let sender = stream.sender();
        match tokio::time::timeout(PATIENCE, sender.send(bytes)).await {
            // Refused before all was sent; the reply says why.
            Ok(Ok(_)) => sender.close(),
            Ok(Err(gone)) => return Err(self.why_gone(gone.0).await),
            Err(_) => return Err(SandboxError::Broke("the guest does not answer".to_owned())),
        }
        Ok(stream)
    }

    async fn reply(&self, mut stream: Stream) -> Result<Reply, SandboxError> {
        match stream.reply().await {
            Ok(reply) => read_reply(reply),
            Err(gone) => Err(self.why_gone(gone.0).await),
        }
    }

    /// Reads a file of at most that many bytes.
    ///
    /// # Errors
    /// When there is none, it is larger, or it is no plain file.
    pub async fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SandboxError> {
        let mut stream = self.open(&Request::Read { path: path.to_owned(), limit }).await?;
        let mut bytes = Vec::new();
        loop {
            let next = match tokio::time::timeout(PATIENCE, stream.next()).await {
                Ok(next) => next,
                Err(_) => return Err(SandboxError::Broke("the guest does not answer".to_owned())),
            };
            match next {
                Ok(Next::Piece(piece)) => {
                    bytes.extend_from_slice(&piece.bytes);
                    if bytes.len() as u64 > limit {
                        return Err(SandboxError::Broke(
                            "the guest sent more than was asked for".to_owned(),
                        ));
                    }
                }
                Ok(Next::Reply(reply)) => return read_reply(reply).map(|_| bytes),
                Err(gone) => return Err(self.why_gone(gone.0).await),
            }
        }
    }

    /// What is in a folder, by name.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>, SandboxError> {
        match self.ask(&Request::List { path: path.to_owned() }).await? {
            Reply::Entries(entries) => Ok(entries),
            _ => Err(SandboxError::Broke("the guest gave no list".to_owned())),
        }
    }

    /// Removes a file, or a folder with all that is in it.
    pub async fn remove(&self, path: &str) -> Result<(), SandboxError> {
        self.ask(&Request::Remove { path: path.to_owned() }).await.map(drop)
    }

    /// Ends everything in it at once, and waits until nothing of it is left.
    pub async fn end(&self) {
        self.inner.started.cell.end().await;
    }

    /// Waits until the sandbox is gone, for whatever reason. The future does not keep it there.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let closed = self.inner.started.channel.closed();
        async move { drop(closed.await) }
    }

    /// The same sandbox for another request of its shape, with that request's limits of time and output.
    /// `None` if it is in use elsewhere.
    pub(crate) fn adapted(mut self, spec: &Spec) -> Option<Sandbox> {
        debug_assert_eq!(self.inner.spec.shape(), spec.shape());
        Arc::get_mut(&mut self.inner)?.spec = spec.clone();
        Some(self)
    }

    async fn open(&self, request: &Request) -> Result<Stream, SandboxError> {
        match self.inner.started.channel.open(request) {
            Ok(stream) => Ok(stream),
            Err(gone) => Err(self.why_gone(gone.0).await),
        }
    }

    async fn ask(&self, request: &Request) -> Result<Reply, SandboxError> {
        self.reply(self.open(request).await?).await
    }

    /// What the guest said at last tells more than that it is gone.
    async fn why_gone(&self, reason: String) -> SandboxError {
        match self.inner.started.cell.last_words().await {
            Some(words) => SandboxError::Broke(format!("{reason}: {words}")),
            None => SandboxError::Broke(reason),
        }
    }
}

fn read_reply(reply: Reply) -> Result<Reply, SandboxError> {
    match reply {
        Reply::Failed(failure) => Err(failure.into()),
        reply => Ok(reply),
    }
}

/// A program that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    sandbox: Sandbox,
    stream: Stream,
    deadline: tokio::time::Instant,
    before: Account,
    begun: Instant,
    /// How much it wrote, by port.
    written: [u64; port::COUNT],
    /// The guest agent's report of its end, kept while the outcome is put together: a caller may drop
    /// [`Running::next`] meanwhile and call it again.
    ended: Option<Ended>,
}

/// What a program does next.
#[derive(Debug)]
pub enum Event {
    Wrote(Output, Vec<u8>),
    /// Only from a program that may talk to the host; see [`Sandbox::work`].
    Said(Vec<u8>),
    Ended(Outcome),
}

impl Running {
    /// What it writes as it comes, and its end. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Event, SandboxError> {
        if let Some(ended) = self.ended.clone() {
            return Ok(Event::Ended(self.outcome(ended).await));
        }
        // Whoever takes long to read does not make the program late.
        let latest = self.deadline.max(tokio::time::Instant::now() + GRACE);
        match tokio::time::timeout_at(latest, self.stream.next()).await {
            Ok(Ok(Next::Piece(piece))) => {
                let written = &mut self.written[usize::from(piece.port)];
                *written += piece.bytes.len() as u64;
                // The guest cuts it; one that does not is not ours any more.
                if piece.port != port::TALK && *written > self.sandbox.spec().limits.output {
                    self.sandbox.end().await;
                    return Err(SandboxError::Broke("the guest sent more than it may".to_owned()));
                }
                Ok(match piece.port {
                    port::TALK => Event::Said(piece.bytes),
                    port::ERR => Event::Wrote(Output::Stderr, piece.bytes),
                    _ => Event::Wrote(Output::Stdout, piece.bytes),
                })
            }
            Ok(Ok(Next::Reply(Reply::Ended(ended)))) => {
                self.ended = Some(ended.clone());
                Ok(Event::Ended(self.outcome(ended).await))
            }
            Ok(Ok(Next::Reply(reply))) => {
                read_reply(reply)?;
                Err(SandboxError::Broke(
                    "the guest gave another answer than to what was asked".to_owned(),
                ))
            }
            Ok(Err(gone)) => {
                // When memory runs out and nothing else is left to end, the guest itself goes.
                if self.sandbox.account().await.out_of_memory > self.before.out_of_memory {
                    let ended = Ended { signal: Some(9), ..Ended::default() };
                    return Ok(Event::Ended(self.outcome(ended).await));
                }
                Err(self.sandbox.why_gone(gone.0).await)
            }
            // The guest should have ended it long ago.
            Err(_) => {
                self.sandbox.end().await;
                let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                let ended = Ended { signal: Some(9), timed_out: true, micros, ..Ended::default() };
                Ok(Event::Ended(self.outcome(ended).await))
            }
        }
    }

    async fn outcome(&self, ended: Ended) -> Outcome {
        let account = self.sandbox.account().await;
        Outcome {
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

    /// All it writes, and how it ended.
    pub async fn finish(self) -> Result<Finished, SandboxError> {
        self.finish_telling(|_, _| {}).await
    }

    /// The same, and tells what it writes as it comes.
    pub async fn finish_telling(
        mut self,
        mut tell: impl FnMut(Output, &[u8]),
    ) -> Result<Finished, SandboxError> {
        let mut finished = Finished::default();
        loop {
            match self.next().await? {
                Event::Wrote(output, bytes) => {
                    tell(output, &bytes);
                    match output {
                        Output::Stdout => finished.stdout.extend_from_slice(&bytes),
                        Output::Stderr => finished.stderr.extend_from_slice(&bytes),
                    }
                }
                Event::Said(_) => {}
                Event::Ended(outcome) => {
                    finished.outcome = outcome;
                    return Ok(finished);
                }
            }
        }
    }

    /// Passes on what it writes as it comes; tells how it ended.
    ///
    /// # Errors
    /// As [`Running::next`], and when `pass` fails: the program is killed then.
    pub async fn follow<E: From<SandboxError>>(
        mut self,
        mut pass: impl AsyncFnMut(Output, &[u8]) -> Result<(), E>,
    ) -> Result<Outcome, E> {
        loop {
            match self.next().await? {
                Event::Wrote(output, bytes) => pass(output, &bytes).await?,
                Event::Said(_) => {}
                Event::Ended(outcome) => return Ok(outcome),
            }
        }
    }

    /// What it says to the host, as frames that are still to be read, and what is said to it.
    pub(crate) fn talk(&self) -> Sender {
        self.stream.sender_on(port::TALK)
    }

    /// Its standard input, to be written to beside reading what it writes.
    pub fn stdin(&self) -> Stdin {
        Stdin(self.stream.sender())
    }

    /// Passes a reader on to its standard input, until the reader ends or the program reads no more.
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

    /// Sends it a signal.
    pub async fn signal(&self, signal: i32) -> Result<(), SandboxError> {
        self.sandbox.ask(&Request::Signal { exec: self.stream.id(), signal }).await.map(drop)
    }

    /// Kills it and everything it started; its end still comes.
    pub fn kill(&self) {
        self.stream.cancel();
    }
}

/// What a program wrote and how it ended.
#[derive(Debug, Clone, Default)]
pub struct Finished {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub outcome: Outcome,
}

/// The standard input of a program.
#[derive(Debug)]
pub struct Stdin(Sender);

impl Stdin {
    /// Writes as fast as the program reads. `false` when it does not want any more.
    pub async fn write(&self, bytes: &[u8]) -> Result<bool, SandboxError> {
        Ok(self.0.send(bytes).await?)
    }

    /// Ends the input.
    pub fn close(self) {
        self.0.close();
    }
}
