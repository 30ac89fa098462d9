//! The supervisor process of a jail: the guest agent binary with the subcommand `keep`. It builds the jail, and ends
//! everything in the jail when the host process closes the control connection or dies.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex as StdMutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use assize_config::Isolation;
use assize_protocol::jail::{self, JailSetup, JailUsers};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::cgroup::{CgroupParents, JailCgroup};
use crate::error::SandboxError;
use crate::guest::GuestFile;

/// First user id for jails. Every jail has its own two users, one for the guest agent and one for programs, so that
/// limits per user apply to one jail only. These users own no files.
const FIRST_USER: u32 = 2_000_000_000;

/// Number of pairs of user ids from which jails get their two users. The first pair begins at [`FIRST_USER`].
const PAIRS: u32 = 50_000_000;

/// The two users shared by all jails if assize runs in a container, which usually has only 65,536 user ids.
const FEW_USERS: JailUsers = JailUsers { guest: 65_532, program: 65_533 };

/// Time limit for reading the stderr of a jail's supervisor process that has ended.
const STDERR_TIMEOUT: Duration = Duration::from_millis(500);

/// Time limit for building a jail, long enough for slow machines.
const BUILD_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of file descriptors that are sent with one message over a Unix socket.
const MAX_DESCRIPTORS: usize = 16;

/// The supervisor process of a jail, and the cgroups of the jail. The supervisor removes the cgroups when the
/// jail ends.
#[derive(Debug)]
pub(crate) struct JailSupervisor {
    group: JailCgroup,
    process: Mutex<Process>,
}

#[derive(Debug)]
struct Process {
    /// Control connection to the supervisor process of the jail. The supervisor ends the jail when this
    /// connection is closed.
    control: Option<UnixStream>,
    child: Child,
}

/// Properties of a jail that was built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltJail {
    /// Process id, on the host, of the first process in the jail.
    pub(crate) pid: u32,
    /// Whether `/proc` is mounted in the jail.
    pub(crate) proc: bool,
    /// Landlock ABI version of the kernel; 0 if it has no Landlock.
    pub(crate) landlock: u32,
}

/// A supervisor process that has not received its setup, and the host's ends of its two connections.
struct IdleSupervisor {
    control: StdUnixStream,
    channel: StdUnixStream,
    child: Child,
}

impl IdleSupervisor {
    fn start() -> Result<IdleSupervisor, SandboxError> {
        let guest = GuestFile::get()?;
        let (control, supervisor_control) = pair()?;
        let (channel, supervisor_channel) = pair()?;
        // Without a working folder, the process starts with `posix_spawn`, which copies no page tables.
        let child = tokio::process::Command::new(guest.path())
            .arg("keep")
            .env_clear()
            .stdin(Stdio::from(supervisor_control))
            .stdout(Stdio::from(supervisor_channel))
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start_error)?;
        Ok(IdleSupervisor { control, channel, child })
    }
}

/// Thread that starts a supervisor process for the next jail of this process.
static STARTED_AHEAD: StdMutex<Option<JoinHandle<Option<IdleSupervisor>>>> = StdMutex::new(None);

/// Start of a supervisor process for the next jail of this process, on another thread, so that this jail starts sooner.
#[derive(Debug)]
pub struct SupervisorAhead(mpsc::Sender<Handle>);

impl SupervisorAhead {
    /// Starts the thread, which does what needs no runtime.
    pub fn prepare() -> SupervisorAhead {
        let (runtime, start) = mpsc::channel::<Handle>();
        let thread = move || {
            // The supervisor must be the first child process.
            CgroupParents::of_this_process();
            GuestFile::get().ok()?;
            let runtime = start.recv().ok()?;
            let _entered = runtime.enter();
            IdleSupervisor::start().ok()
        };
        // If the thread cannot be started, or fails, the jail starts its own supervisor and reports the error.
        let thread = thread::Builder::new().spawn(thread).ok();
        *STARTED_AHEAD.lock().unwrap_or_else(PoisonError::into_inner) = thread;
        SupervisorAhead(runtime)
    }

    /// Starts the supervisor process. It exits if this process exits without creating a jail.
    pub fn start(self, runtime: &Handle) {
        let _ = self.0.send(runtime.clone());
    }
}

/// Returns the supervisor process that was started ahead, or `None` if there is none or its start failed.
fn take_started_ahead() -> Option<IdleSupervisor> {
    let thread = STARTED_AHEAD.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    thread.join().ok()?
}

impl JailSupervisor {
    /// Starts the supervisor process of a jail. Also returns the channel through which the host communicates with
    /// the guest agent in the jail.
    pub(crate) fn start(group: JailCgroup) -> Result<(JailSupervisor, UnixStream), SandboxError> {
        let started = (|| {
            let IdleSupervisor { control, channel, child } =
                take_started_ahead().map_or_else(IdleSupervisor::start, Ok)?;
            Ok((Process { control: Some(from_std(control)?), child }, from_std(channel)?))
        })();
        match started {
            Ok((process, channel)) => {
                Ok((JailSupervisor { group, process: Mutex::new(process) }, channel))
            }
            Err(error) => {
                group.remove();
                Err(error)
            }
        }
    }

    /// Builds the jail and passes file descriptors to the first program in the jail: the guest agent, or QEMU.
    ///
    /// # Errors
    /// When the kernel refuses a step of the setup. The jail and its cgroups are then removed.
    pub(crate) async fn build(
        &self,
        isolation: Isolation,
        setup: &JailSetup,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<BuiltJail, SandboxError> {
        let sent = tokio::time::timeout(BUILD_TIMEOUT, self.send_setup(setup, descriptors)).await;
        let reply =
            sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).unwrap_or_default();
        match serde_json::from_str(&reply) {
            Ok(jail::JailReply::Ready { pid, proc, landlock }) => {
                Ok(BuiltJail { pid, proc, landlock })
            }
            Ok(jail::JailReply::Failed { step, errno, message }) => {
                self.end().await;
                let reason = format!("{step}: {message}");
                Err(SandboxError::Unavailable { isolation, reason, hint: hint(errno) })
            }
            Err(_) => {
                self.end().await;
                let output = self.last_words().await;
                let reason = output
                    .unwrap_or_else(|| "the jail supervisor ended without a reply".to_owned());
                Err(SandboxError::failed("building the jail", reason))
            }
        }
    }

    /// Sends the jail setup and file descriptors to the jail's supervisor process, and returns its
    /// reply.
    async fn send_setup(
        &self,
        setup: &JailSetup,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<String> {
        let mut text = serde_json::to_vec(setup)?;
        text.push(b'\n');
        let mut process = self.process.lock().await;
        let control = process.control.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut sent = 0;
        if !descriptors.is_empty() {
            let send = || send_with(control, &text, descriptors);
            sent = control.async_io(Interest::WRITABLE, send).await?;
        }
        control.write_all(&text[sent..]).await?;
        let mut reply = String::new();
        BufReader::new(control).read_line(&mut reply).await?;
        Ok(reply)
    }

    pub(crate) fn group(&self) -> &JailCgroup {
        &self.group
    }

    /// Ends the jail and waits until it is removed.
    pub(crate) async fn end(&self) {
        let mut process = self.process.lock().await;
        process.control = None;
        // The supervisor ends the jail, removes the cgroups and exits. If the supervisor was killed, the cgroups are
        // removed here. This needs several attempts, as the kernel does not report when a cgroup's last process has
        // ended.
        let _ = process.child.wait().await;
        for _ in 0..100 {
            if self.group.remove() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stderr of the jail's supervisor process and of the guest agent or QEMU in the jail; `None` if
    /// it is empty.
    pub(crate) async fn last_words(&self) -> Option<String> {
        let mut process = self.process.lock().await;
        let mut bytes = Vec::new();
        let mut stderr = process.child.stderr.as_mut()?.take(4096);
        let _ = tokio::time::timeout(STDERR_TIMEOUT, stderr.read_to_end(&mut bytes)).await;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

impl Drop for JailSupervisor {
    fn drop(&mut self) {
        // Removes the cgroups if the supervisor never received its setup. Otherwise this has no effect, because the
        // cgroups are busy, and the supervisor removes them later.
        self.group.remove();
    }
}

/// Sends bytes together with file descriptors. Returns the number of bytes that were sent.
pub(crate) fn send_with(
    socket: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space =
        [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Which dedicated host users are available for jails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DedicatedUsers {
    /// Each jail has its own two users: one for the guest agent and one for programs.
    Many,
    /// All jails share the same two users: one for the guest agent and one for programs.
    Few,
    /// No dedicated users are available: jails run as the user of this process.
    None,
}

impl DedicatedUsers {
    pub(crate) fn find() -> DedicatedUsers {
        if !rustix::process::geteuid().is_root() {
            return DedicatedUsers::None;
        }
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let is_mapped = |id: u32| {
            map.lines().any(|line| {
                let mut fields =
                    line.split_whitespace().map_while(|field| field.parse::<u64>().ok());
                let (first, _, count) = (fields.next(), fields.next(), fields.next());
                first
                    .zip(count)
                    .is_some_and(|(first, count)| (first..first + count).contains(&u64::from(id)))
            })
        };
        match (is_mapped(FIRST_USER + 2 * PAIRS), is_mapped(FEW_USERS.program)) {
            (true, _) => DedicatedUsers::Many,
            (false, true) => DedicatedUsers::Few,
            (false, false) => DedicatedUsers::None,
        }
    }

    /// Returns the dedicated users of the jail with this id; `None` if the jail runs as the user of this process.
    pub(crate) fn of(self, id: &str) -> Option<JailUsers> {
        match self {
            DedicatedUsers::Many => {
                let digest = Sha256::digest(id);
                let number =
                    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]) % PAIRS;
                let guest = FIRST_USER + 2 * number;
                Some(JailUsers { guest, program: guest + 1 })
            }
            DedicatedUsers::Few => Some(FEW_USERS),
            DedicatedUsers::None => None,
        }
    }
}

/// Converts the I/O error of a failed start of the supervisor process into a sandbox error.
fn start_error(error: io::Error) -> SandboxError {
    if Path::new("/proc/self").exists() {
        return SandboxError::failed("starting the jail supervisor", error);
    }
    SandboxError::Unavailable {
        isolation: Isolation::Jail,
        reason: "/proc is not mounted".to_owned(),
        hint: Some("mount `/proc` with `sudo mount -t proc proc /proc`".to_owned()),
    }
}

/// Returns a hint that tells users how to allow jails. `errno` is the error number of the system call that failed while
/// a jail was built.
fn hint(errno: i32) -> Option<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let is_set = |path, value: &str| read(path).trim() == value;
    if is_set("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        return Some(format!(
            "AppArmor prevents unprivileged programs from creating namespaces. To allow it for assize, put \
             these lines into /etc/apparmor.d/assize and run `sudo systemctl reload apparmor`\n{}",
            apparmor_profile()
        ));
    }
    if is_set("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return Some(
            "allow user namespaces with `sudo sysctl kernel.unprivileged_userns_clone=1`"
                .to_owned(),
        );
    }
    if is_set("/proc/sys/user/max_user_namespaces", "0") {
        return Some(
            "allow user namespaces with `sudo sysctl user.max_user_namespaces=10000`".to_owned(),
        );
    }
    let old = !is_at_least(&read("/proc/sys/kernel/osrelease"), (5, 12));
    match rustix::io::Errno::from_raw_os_error(errno) {
        _ if old => Some("the jail needs Linux 5.12 or newer".to_owned()),
        // A seccomp filter may return ENOSYS for system calls that it denies.
        rustix::io::Errno::PERM | rustix::io::Errno::ACCESS | rustix::io::Errno::NOSYS => Some(
            "if assize runs in a container, allow namespaces in that container (Docker: `--security-opt \
             seccomp=unconfined --security-opt apparmor=unconfined`). In a chroot, the kernel allows no namespaces. Or \
             use `--isolation docker`"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Whether a kernel release such as `6.1.0-13-amd64` is at least this version.
fn is_at_least(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= wanted
}

fn apparmor_profile() -> String {
    let program =
        std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/local/bin/assize"));
    format!(
        "abi <abi/4.0>,\ninclude <tunables/global>\nprofile assize {} flags=(unconfined) {{\n  userns,\n}}",
        program.display()
    )
}

/// Creates a connected pair of sockets; both are close-on-exec.
pub(crate) fn pair() -> Result<(StdUnixStream, OwnedFd), SandboxError> {
    let (ours, theirs) = StdUnixStream::pair()
        .map_err(|error| SandboxError::failed("creating a socket pair", error))?;
    Ok((ours, theirs.into()))
}

pub(crate) fn from_std(stream: StdUnixStream) -> Result<UnixStream, SandboxError> {
    stream
        .set_nonblocking(true)
        .and_then(|()| UnixStream::from_std(stream))
        .map_err(|error| SandboxError::failed("creating a socket pair", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_compared_numerically() {
        assert!(is_at_least("5.12.0", (5, 12)) && is_at_least("6.1.0-13-amd64", (5, 12)));
        assert!(!is_at_least("5.4.0-150-generic", (5, 12)) && !is_at_least("", (5, 12)));
    }
}
