//! The jail: Linux namespaces, Landlock, a list of allowed system calls, control groups. It needs no
//! daemon and no rights, and is there on nearly every Linux machine.
//!
//! This is the host's side: what the jail is made of. It is built by the guest program, started anew
//! as its keeper (see `crates/guest/src/jail`), because a process with many threads must not fork.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use assize_protocol::jail::{Built, File, Link, Piece, Setup, Users};
use assize_protocol::{GuestLimits, Hello, VERSION};
use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::Mutex;

use crate::backend::{Account, Backend, Cell, Enforcement, Identity, Isolation, Started};
use crate::cgroup::{self, Group, Groups};
use crate::channel::Channel;
use crate::error::SandboxError;
use crate::guest::GuestFile;
use crate::interpreter::{Interpreter, Language, SYSTEM};
use crate::sandbox::{PYTHON_FILES, PYTHON_FOLDER, WORKSPACE, environment};
use crate::spec::{Limits, Spec};

/// Devices that every program expects, and none that leads anywhere.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// The first of the users of the host that jails are run as. They own nothing on it, and every jail
/// has two of its own, so that what the kernel counts by user is counted for one jail alone.
const FIRST_USER: u32 = 2_000_000_000;
const PAIRS: u32 = 50_000_000;

/// In containers with the usual sixty-five thousand users, all jails have the same two.
const FEW_USERS: Users = Users { guest: 65_532, program: 65_533 };

/// What a jail's files are.
const PIECES: &str = "mount namespace of read-only pieces";

/// No jail was made yet that could have told.
const UNKNOWN: u32 = u32::MAX;

/// Makes jails.
#[derive(Debug)]
pub struct Jail {
    interpreters: Vec<Interpreter>,
    /// Found when they are first needed.
    groups: OnceLock<Groups>,
    users: Others,
    /// The last one made could have no `/proc`, and so no watch over its memory.
    without_proc: AtomicBool,
    /// The version of Landlock that the last one made has; 0 for none.
    landlock: AtomicU32,
}

impl Jail {
    /// With these interpreters inside.
    pub fn new(interpreters: Vec<Interpreter>) -> Jail {
        Jail {
            interpreters,
            groups: OnceLock::new(),
            users: Others::find(),
            without_proc: AtomicBool::new(false),
            landlock: AtomicU32::new(UNKNOWN),
        }
    }

    fn groups(&self) -> &Groups {
        self.groups.get_or_init(Groups::find)
    }

    fn setup(&self, id: &str, spec: &Spec, group: &Group) -> Setup {
        let mut setup = Setup {
            writable: ["/tmp", WORKSPACE, "/dev/shm"].map(str::to_owned).into(),
            disk_bytes: spec.limits.disk,
            disk_files: spec.limits.files(),
            users: self.users.of(id),
            host_name: "sandbox".to_owned(),
            ..Setup::default()
        };
        group.furnish(&mut setup);
        for folder in SYSTEM {
            // `/bin` and its like are links into `/usr` on most systems, and folders on others.
            match std::fs::read_link(folder) {
                Ok(to) => setup.link(folder, &to.display().to_string()),
                Err(_) => setup.piece(folder, folder, true),
            }
        }
        for piece in self.interpreters.iter().flat_map(|interpreter| &interpreter.pieces) {
            let piece = piece.display().to_string();
            if !setup.pieces.iter().any(|each| each.to == piece) {
                setup.piece(&piece, &piece, false);
            }
        }
        for layer in &spec.layers {
            setup.piece(&layer.from.display().to_string(), &layer.at, false);
        }
        // What the loader, `awk` and their like look up.
        for path in ["/etc/ld.so.cache", "/etc/alternatives"] {
            setup.piece(path, path, true);
        }
        for device in DEVICES {
            let path = format!("/dev/{device}");
            setup.pieces.push(Piece {
                from: path.clone(),
                to: path,
                device: true,
                optional: false,
            });
        }
        for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
            setup.link(&format!("/dev/{name}"), &format!("/proc/self/fd{to}"));
        }
        for (at, text) in [
            (
                "/etc/passwd",
                format!("root:x:0:0::/:/bin/false\nsandbox:x:1000:1000::{WORKSPACE}:/bin/sh\n"),
            ),
            ("/etc/group", "root:x:0:\nsandbox:x:1000:\n".to_owned()),
            ("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned()),
            ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
        ] {
            setup.files.push(File { at: at.to_owned(), text });
        }
        for (name, text) in PYTHON_FILES {
            setup.files.push(File { at: format!("{PYTHON_FOLDER}/{name}"), text: text.to_owned() });
        }
        setup
    }

    fn guest_limits(&self, limits: &Limits) -> GuestLimits {
        let accounts = Accounts::of(self.groups());
        let wall = limits.wall.as_secs().max(1);
        GuestLimits {
            file_bytes: limits.disk,
            watch_memory: (!accounts.memory).then_some(limits.memory),
            // The guest is one of them where it is of the same user.
            processes: Some(u64::from(limits.processes) + u64::from(self.users == Others::None)),
            // Its share cannot be held, but one process has no more time than all of them.
            cpu_seconds: (!accounts.cpu).then_some(wall + 1),
        }
    }

    fn refused(&self, step: &str, errno: i32, message: &str) -> SandboxError {
        let reason = format!("{step}: {message}");
        SandboxError::Unavailable { isolation: Isolation::Jail, reason, hint: hint(errno) }
    }
}

/// Adds to what a jail is made of.
trait Furnish {
    fn piece(&mut self, from: &str, to: &str, optional: bool);
    fn link(&mut self, at: &str, to: &str);
}

impl Furnish for Setup {
    fn piece(&mut self, from: &str, to: &str, optional: bool) {
        self.pieces.push(Piece {
            from: from.to_owned(),
            to: to.to_owned(),
            device: false,
            optional,
        });
    }

    fn link(&mut self, at: &str, to: &str) {
        self.links.push(Link { at: at.to_owned(), to: to.to_owned() });
    }
}

/// What the control groups keep an account of.
struct Accounts {
    memory: bool,
    processes: bool,
    cpu: bool,
    by: &'static str,
}

impl Accounts {
    fn of(groups: &Groups) -> Accounts {
        match groups {
            Groups::V1 { memory, pids, cpu } => Accounts {
                memory: memory.is_some(),
                processes: pids.is_some(),
                cpu: cpu.is_some(),
                by: "control group (v1)",
            },
            Groups::V2 { kinds, .. } => {
                let has = |kind: &str| kinds.iter().any(|each| each == kind);
                let (memory, processes, cpu) = (has("memory"), has("pids"), has("cpu"));
                Accounts { memory, processes, cpu, by: "control group (v2)" }
            }
            Groups::None(_) => Accounts { memory: false, processes: false, cpu: false, by: "" },
        }
    }
}

/// Which other users we may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Two for each jail.
    Many,
    /// Two for all.
    Few,
    None,
}

impl Others {
    fn find() -> Others {
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
    fn of(self, id: &str) -> Option<Users> {
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

#[async_trait]
impl Backend for Jail {
    fn isolation(&self) -> Isolation {
        Isolation::Jail
    }

    fn check(&self, spec: &Spec) -> Result<(), SandboxError> {
        let Some(image) = &spec.image else { return Ok(()) };
        let reason = format!("it is made of this machine's own files, and has no image `{image}`");
        Err(SandboxError::Unsupported { isolation: Isolation::Jail, reason })
    }

    async fn start(&self, identity: &Identity, spec: &Spec) -> Result<Started, SandboxError> {
        self.check(spec)?;
        let failed = |what: &'static str| move |error| SandboxError::failed(what, error);
        let guest = GuestFile::get()?;
        let id = format!("{}-{}", identity.maker, identity.id);
        let group =
            self.groups().make(&id, &spec.limits).map_err(failed("making a control group"))?;
        let (life, keepers_life) = pair()?;
        let (channel, keepers_channel) = pair()?;
        let spawned = tokio::process::Command::new(guest.path())
            .arg("keep")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(keepers_life))
            .stdout(Stdio::from(keepers_channel))
            .stderr(Stdio::piped())
            .spawn();
        let keeper = match spawned {
            Ok(keeper) => keeper,
            Err(error) => {
                group.remove();
                return Err(SandboxError::failed("starting the keeper of the jail", error));
            }
        };
        let mut cell = JailCell { group, keeper: Mutex::new(Keeper { life: None, child: keeper }) };
        let setup = self.setup(&id, spec, &cell.group);
        let mut line =
            serde_json::to_vec(&setup).map_err(|error| SandboxError::failed("asking", error))?;
        line.push(b'\n');
        let mut life = from_std(life)?;
        let told = async {
            life.write_all(&line).await?;
            let mut answer = String::new();
            let mut reader = BufReader::new(&mut life);
            reader.read_line(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let folders = self.interpreters.iter().filter_map(|one| one.program.parent());
        let folders: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        let hello = Hello {
            version: VERSION,
            limits: self.guest_limits(&spec.limits),
            env: environment(&folders),
        };
        let channel = Channel::over(from_std(channel)?, &hello);
        let answer = told.await.unwrap_or_default();
        cell.keeper.get_mut().life = Some(life);
        match serde_json::from_str(&answer) {
            Ok(Built::Ready { proc, landlock, .. }) => {
                self.landlock.store(landlock, Ordering::Relaxed);
                self.without_proc.store(!proc, Ordering::Relaxed);
                Ok(Started { channel, cell: Box::new(cell) })
            }
            Ok(Built::Failed { step, errno, message }) => {
                cell.end().await;
                Err(self.refused(&step, errno, &message))
            }
            Err(_) => {
                cell.end().await;
                let words =
                    cell.last_words().await.unwrap_or_else(|| "its keeper is gone".to_owned());
                Err(SandboxError::failed("building the jail", words))
            }
        }
    }

    fn interpreter(&self, language: Language) -> Result<String, SandboxError> {
        self.interpreters
            .iter()
            .find(|interpreter| interpreter.language == language)
            .map(|interpreter| interpreter.program.display().to_string())
            .ok_or(SandboxError::NoInterpreter(language, Isolation::Jail))
    }

    fn enforcement(&self) -> Enforcement {
        let accounts = Accounts::of(self.groups());
        let why = match self.groups() {
            Groups::None(why) => why.as_str(),
            _ => "not handed to us",
        };
        let or = |kept: bool, otherwise: &str| {
            if kept { accounts.by.to_owned() } else { format!("best effort: {otherwise} ({why})") }
        };
        Enforcement {
            memory: match self.without_proc.load(Ordering::Relaxed) {
                false => or(
                    accounts.memory,
                    "a limit for each process, and a watch every 25 ms over what all of them hold, \
                     not over what the kernel holds for them",
                ),
                true => or(accounts.memory, "a limit for each process, of twice as much"),
            },
            cpu: or(accounts.cpu, "no share, only an end to each process"),
            processes: if accounts.processes {
                accounts.by.to_owned()
            } else {
                "limit of the sandbox's own user".to_owned()
            },
            disk: "size of the memory disk".to_owned(),
            output: "guest".to_owned(),
            wall: "guest, and the host after it".to_owned(),
            network: "network namespace with nothing in it".to_owned(),
            system_calls: "seccomp, a list of what is allowed".to_owned(),
            files: match self.landlock.load(Ordering::Relaxed) {
                UNKNOWN => format!("{PIECES}, and Landlock where the kernel has it"),
                0 => format!("{PIECES}; this kernel has no Landlock"),
                version => format!("{PIECES}, and Landlock (version {version})"),
            },
        }
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        cgroup::clean_up(maker);
        Ok(())
    }
}

/// Two ends of a connection, both closed in programs that we start unless they are handed over.
fn pair() -> Result<(std::os::unix::net::UnixStream, std::os::fd::OwnedFd), SandboxError> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()
        .map_err(|error| SandboxError::failed("making a channel", error))?;
    Ok((ours, theirs.into()))
}

fn from_std(stream: std::os::unix::net::UnixStream) -> Result<UnixStream, SandboxError> {
    stream
        .set_nonblocking(true)
        .and_then(|()| UnixStream::from_std(stream))
        .map_err(|error| SandboxError::failed("making a channel", error))
}

/// The walls of one jail: its keeper, and its account.
#[derive(Debug)]
struct JailCell {
    group: Group,
    keeper: Mutex<Keeper>,
}

#[derive(Debug)]
struct Keeper {
    /// As long as it is open the jail may live.
    life: Option<UnixStream>,
    child: Child,
}

#[async_trait]
impl Cell for JailCell {
    async fn account(&self) -> Account {
        self.group.account()
    }

    async fn end(&self) {
        let mut keeper = self.keeper.lock().await;
        keeper.life = None;
        // It ends the jail, removes the groups and goes. One that was killed leaves that to us, and
        // nobody tells when the last process of a group is gone.
        let _ = keeper.child.wait().await;
        for _ in 0..100 {
            if self.group.remove() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    async fn last_words(&self) -> Option<String> {
        let mut keeper = self.keeper.lock().await;
        let mut words = Vec::new();
        let errors = keeper.child.stderr.as_mut()?;
        let _ = tokio::time::timeout(LAST_WORDS, errors.take(4096).read_to_end(&mut words)).await;
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        (!words.is_empty()).then_some(words)
    }
}

/// How long we listen to what a guest that is gone had to say.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert!(is_at_least("5.12.0", (5, 12)) && is_at_least("6.1.0-13-amd64", (5, 12)));
        assert!(!is_at_least("5.4.0-150-generic", (5, 12)) && !is_at_least("", (5, 12)));
    }

    /// Where groups of the second version are mounted and may be made, if they are.
    fn unified() -> Option<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        let root = PathBuf::from(line.split(' ').nth(4)?);
        let probe = root.join(format!("assize-probe-{}", std::process::id()));
        std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)).ok()?;
        Some(root)
    }

    #[tokio::test]
    async fn a_jail_is_born_into_a_group_of_the_second_version() {
        let Some(root) = unified() else { return };
        let groups = OnceLock::from(Groups::V2 { folder: root.clone(), kinds: Vec::new() });
        let jail = Jail {
            interpreters: Vec::new(),
            groups,
            users: Others::find(),
            without_proc: AtomicBool::new(false),
            landlock: AtomicU32::new(UNKNOWN),
        };
        let maker = format!("test{}", std::process::id());
        let identity = Identity { maker: maker.clone(), id: "1".to_owned() };
        let started = jail.start(&identity, &Spec::default()).await.unwrap();
        let group = root.join(format!("assize-{maker}-1"));
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert_eq!(members.lines().count(), 1, "{members}");
        started.cell.end().await;
        assert!(!group.exists());
    }
}
