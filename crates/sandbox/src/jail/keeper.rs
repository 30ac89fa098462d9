//! The guest program as the keeper of a jail: it builds one, and what is in it ends with it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use assize_config::Isolation;
use assize_protocol::jail::{self, Setup, Users};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::Mutex;

use crate::cgroup::Group;
use crate::error::SandboxError;
use crate::guest::GuestFile;

/// The first of the users of the host that jails are run as. They own nothing on it, and every jail
/// has two of its own, so that what the kernel counts by user is counted for one jail alone.
const FIRST_USER: u32 = 2_000_000_000;
const PAIRS: u32 = 50_000_000;

/// In containers with the usual sixty-five thousand users, all jails have the same two.
const FEW_USERS: Users = Users { guest: 65_532, program: 65_533 };

/// How long we listen to what a guest that is gone had to say.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a jail may take to be built, on the slowest of machines.
const BUILD: Duration = Duration::from_secs(60);

/// How many descriptors can be handed over at once.
const MOST: usize = 16;

/// A keeper, and the groups that it removes at the end.
#[derive(Debug)]
pub(crate) struct Keeper {
    group: Group,
    life: Mutex<Life>,
}

#[derive(Debug)]
struct Life {
    /// As long as it is open the jail may live.
    line: Option<UnixStream>,
    child: Child,
}

/// What is known of a jail that was built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Built {
    /// Its first process.
    pub(crate) pid: u32,
    pub(crate) proc: bool,
    /// The version of Landlock; 0 for none.
    pub(crate) landlock: u32,
}

impl Keeper {
    /// Starts one, whose jail will have this channel.
    pub(crate) fn start(group: Group, channel: OwnedFd) -> Result<Keeper, SandboxError> {
        let started = (|| {
            let guest = GuestFile::get()?;
            let (line, keepers_line) = pair()?;
            let child = tokio::process::Command::new(guest.path())
                .arg("keep")
                .env_clear()
                .current_dir("/")
                .stdin(Stdio::from(keepers_line))
                .stdout(Stdio::from(channel))
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| SandboxError::failed("starting the keeper of the jail", error))?;
            Ok(Life { line: Some(from_std(line)?), child })
        })();
        match started {
            Ok(life) => Ok(Keeper { group, life: Mutex::new(life) }),
            Err(error) => {
                group.remove();
                Err(error)
            }
        }
    }

    /// Has the jail built, and hands descriptors over to what is to run in it.
    ///
    /// # Errors
    /// When this host refuses; then nothing of it is left.
    pub(crate) async fn build(
        &self,
        isolation: Isolation,
        setup: &Setup,
        handed: &[BorrowedFd<'_>],
    ) -> Result<Built, SandboxError> {
        let asked = tokio::time::timeout(BUILD, self.ask(setup, handed)).await;
        let answer =
            asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).unwrap_or_default();
        match serde_json::from_str(&answer) {
            Ok(jail::Built::Ready { pid, proc, landlock }) => Ok(Built { pid, proc, landlock }),
            Ok(jail::Built::Failed { step, errno, message }) => {
                self.end().await;
                let reason = format!("{step}: {message}");
                Err(SandboxError::Unavailable { isolation, reason, hint: hint(errno) })
            }
            Err(_) => {
                self.end().await;
                let words =
                    self.last_words().await.unwrap_or_else(|| "its keeper is gone".to_owned());
                Err(SandboxError::failed("building the jail", words))
            }
        }
    }

    async fn ask(&self, setup: &Setup, handed: &[BorrowedFd<'_>]) -> io::Result<String> {
        let mut text = serde_json::to_vec(setup)?;
        text.push(b'\n');
        let mut life = self.life.lock().await;
        let line = life.line.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut sent = 0;
        if !handed.is_empty() {
            let send = || send_with(line, &text, handed);
            sent = line.async_io(Interest::WRITABLE, send).await?;
        }
        line.write_all(&text[sent..]).await?;
        let mut answer = String::new();
        BufReader::new(line).read_line(&mut answer).await?;
        Ok(answer)
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// Ends the jail, and waits until nothing of it is left.
    pub(crate) async fn end(&self) {
        let mut life = self.life.lock().await;
        life.line = None;
        // It ends the jail, removes the groups and goes. One that was killed leaves that to us, and
        // nobody tells when the last process of a group is gone.
        let _ = life.child.wait().await;
        for _ in 0..100 {
            if self.group.remove() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What was said in it beside the channel.
    pub(crate) async fn last_words(&self) -> Option<String> {
        let mut life = self.life.lock().await;
        let mut words = Vec::new();
        let errors = life.child.stderr.as_mut()?;
        let _ = tokio::time::timeout(LAST_WORDS, errors.take(4096).read_to_end(&mut words)).await;
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        (!words.is_empty()).then_some(words)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // One that never heard what to build knows of no groups; from any other, they cannot be taken yet.
        self.group.remove();
    }
}

/// Sends bytes, as many as there is room for, and descriptors with the first of them.
pub(crate) fn send_with(
    line: &UnixStream,
    bytes: &[u8],
    handed: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(handed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(line, &[io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Which other users we may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// Two for each jail.
    Many,
    /// Two for all.
    Few,
    None,
}

impl Others {
    pub(crate) fn find() -> Others {
        if !rustix::process::geteuid().is_root() {
            return Others::None;
        }
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let is_there = |id: u32| {
            map.lines().any(|line| {
                let mut fields =
                    line.split_whitespace().map_while(|field| field.parse::<u64>().ok());
                let (first, _, count) = (fields.next(), fields.next(), fields.next());
                first
                    .zip(count)
                    .is_some_and(|(first, count)| (first..first + count).contains(&u64::from(id)))
            })
        };
        match (is_there(FIRST_USER + 2 * PAIRS), is_there(FEW_USERS.program)) {
            (true, _) => Others::Many,
            (false, true) => Others::Few,
            (false, false) => Others::None,
        }
    }

    /// The users of one jail.
    pub(crate) fn of(self, id: &str) -> Option<Users> {
        match self {
            Others::Many => {
                let digest = Sha256::digest(id);
                let number =
                    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]) % PAIRS;
                let guest = FIRST_USER + 2 * number;
                Some(Users { guest, program: guest + 1 })
            }
            Others::Few => Some(FEW_USERS),
            Others::None => None,
        }
    }
}

/// What to do about a kernel that refuses.
fn hint(errno: i32) -> Option<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let says = |path, value: &str| read(path).trim() == value;
    if says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        return Some(format!(
            "AppArmor keeps unprivileged programs from making namespaces here. Allow it for assize: put \
             these lines into /etc/apparmor.d/assize and run `sudo systemctl reload apparmor`\n{}",
            apparmor_profile()
        ));
    }
    if says("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return Some("allow it with `sudo sysctl kernel.unprivileged_userns_clone=1`".to_owned());
    }
    if says("/proc/sys/user/max_user_namespaces", "0") {
        return Some("allow it with `sudo sysctl user.max_user_namespaces=10000`".to_owned());
    }
    let old = !is_at_least(&read("/proc/sys/kernel/osrelease"), (5, 12));
    match rustix::io::Errno::from_raw_os_error(errno) {
        _ if old => Some("the jail needs Linux 5.12 or newer".to_owned()),
        // A filter of system calls may answer that the kernel does not know them.
        rustix::io::Errno::PERM | rustix::io::Errno::ACCESS | rustix::io::Errno::NOSYS => Some(
            "inside a container, namespaces have to be allowed from outside (Docker: `--security-opt \
             seccomp=unconfined --security-opt apparmor=unconfined`); or use `--isolation docker`"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Whether a release such as `6.1.0-13-amd64` is this one or newer.
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

/// Two ends of a connection, both closed in programs that we start unless they are handed over.
pub(crate) fn pair() -> Result<(std::os::unix::net::UnixStream, std::os::fd::OwnedFd), SandboxError>
{
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()
        .map_err(|error| SandboxError::failed("making a channel", error))?;
    Ok((ours, theirs.into()))
}

pub(crate) fn from_std(stream: std::os::unix::net::UnixStream) -> Result<UnixStream, SandboxError> {
    stream
        .set_nonblocking(true)
        .and_then(|()| UnixStream::from_std(stream))
        .map_err(|error| SandboxError::failed("making a channel", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert!(is_at_least("5.12.0", (5, 12)) && is_at_least("6.1.0-13-amd64", (5, 12)));
        assert!(!is_at_least("5.4.0-150-generic", (5, 12)) && !is_at_least("", (5, 12)));
    }
}
