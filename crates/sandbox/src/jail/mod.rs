//! The jail: Linux namespaces, Landlock, a list of allowed system calls, control groups. It needs no
//! daemon and no rights, and is there on nearly every Linux machine.
//!
//! This is the host's side: what the jail is made of. It is built by the guest program, started anew
//! as its keeper (see `crates/guest/src/jail`), because a process with many threads must not fork.

pub(crate) mod keeper;

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use assize_config::{Isolation, Limits};
use assize_protocol::jail::{File, Piece, Setup};
use assize_protocol::{GuestLimits, Hello, VERSION};
use async_trait::async_trait;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::{Account, Backend, Cell, Enforcement, Identity, Started};
use crate::cgroup::{self, Group, Groups};
use crate::channel::Channel;
use crate::error::SandboxError;
use crate::interpreter::{Interpreter, Language, SYSTEM, is_system};
use crate::sandbox::{PYTHON_FILES, PYTHON_FOLDER, WORKSPACE, environment};
use crate::spec::Spec;
use keeper::{Built, Keeper, Others};

/// Devices that every program expects, and none that leads anywhere.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

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
        add_system(&mut setup);
        for piece in self.interpreters.iter().flat_map(|interpreter| &interpreter.pieces) {
            let piece = piece.display().to_string();
            if !setup.pieces.iter().any(|each| each.to == piece) {
                setup.piece(&piece, &piece, false);
            }
        }
        for (at, to) in self.interpreters.iter().flat_map(|interpreter| &interpreter.links) {
            // Inside a piece the link is there, and a folder that has a piece in it cannot be one.
            let placed =
                |piece: &Piece| at.starts_with(&piece.to) || Path::new(&piece.to).starts_with(at);
            let at_text = at.display().to_string();
            let known = is_system(at)
                || setup.pieces.iter().any(placed)
                || setup.links.iter().any(|link| link.at == at_text);
            if !known {
                setup.link(&at_text, &to.display().to_string());
            }
        }
        for layer in &spec.layers {
            setup.piece(&layer.from.display().to_string(), &layer.at, false);
        }
        let watched = !Accounts::of(self.groups()).memory;
        for device in DEVICES {
            // A mapping of `/dev/zero` is memory that the watch does not see. `/dev/full` reads the same and has none.
            let from = if watched && device == "zero" { "full" } else { device };
            setup.device(&format!("/dev/{from}"), &format!("/dev/{device}"));
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
}

/// Adds the system's own programs to a jail, and what they look up.
pub(crate) fn add_system(setup: &mut Setup) {
    for folder in SYSTEM {
        // `/bin` and its like are links into `/usr` on most systems, and folders on others.
        match std::fs::read_link(folder) {
            Ok(to) => setup.link(folder, &to.display().to_string()),
            Err(_) => setup.piece(folder, folder, true),
        }
    }
    // What the loader, `awk` and their like look up.
    for path in ["/etc/ld.so.cache", "/etc/alternatives"] {
        setup.piece(path, path, true);
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

#[async_trait]
impl Backend for Jail {
    fn isolation(&self) -> Isolation {
        Isolation::Jail
    }

    fn check(&self, spec: &Spec) -> Result<(), SandboxError> {
        let Some(image) = &spec.image else { return Ok(()) };
        let reason = format!("it is made of this machine's own files, and has no image `{image}`");
        let hint = Some("a container has images: `--isolation docker`");
        Err(SandboxError::Unsupported { isolation: Isolation::Jail, reason, hint })
    }

    async fn start(&self, identity: &Identity, spec: &Spec) -> Result<Started, SandboxError> {
        self.check(spec)?;
        let id = identity.to_string();
        let group = self
            .groups()
            .make(&id, &spec.limits)
            .map_err(|error| SandboxError::failed("making a control group", error))?;
        let setup = self.setup(&id, spec, &group);
        let (channel, keepers_channel) = keeper::pair()?;
        let keeper = Keeper::start(group, keepers_channel)?;
        let folders = self.interpreters.iter().filter_map(|one| one.program.parent());
        let folders: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        let hello = Hello {
            version: VERSION,
            limits: self.guest_limits(&spec.limits),
            env: environment(&folders),
            machine: None,
        };
        let channel = Channel::over(keeper::from_std(channel)?, &hello);
        let Built { pid, proc, landlock } = keeper.build(Isolation::Jail, &setup, &[]).await?;
        self.landlock.store(landlock, Ordering::Relaxed);
        self.without_proc.store(!proc, Ordering::Relaxed);
        let watch = keeper.group().watch(pid, &spec.limits);
        Ok(Started { channel, cell: Box::new(JailCell { keeper, _watch: watch }) })
    }

    fn interpreter(&self, language: Language) -> Result<String, SandboxError> {
        self.interpreters
            .iter()
            .find(|interpreter| interpreter.language == language)
            .map(|interpreter| interpreter.program.display().to_string())
            .ok_or(SandboxError::NoInterpreter(language, Isolation::Jail))
    }

    fn fixes_wall(&self) -> bool {
        // Then processor time is limited instead, by a limit that programs inherit from the guest.
        !Accounts::of(self.groups()).cpu
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

/// The walls of one jail.
#[derive(Debug)]
struct JailCell {
    keeper: Keeper,
    /// Watch over programs that thrash.
    _watch: Option<AbortOnDropHandle<()>>,
}

#[async_trait]
impl Cell for JailCell {
    async fn account(&self) -> Account {
        self.keeper.group().account()
    }

    async fn end(&self) {
        self.keeper.end().await;
    }

    async fn last_words(&self) -> Option<String> {
        self.keeper.last_words().await
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

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
        let jail = Jail { groups, ..Jail::new(Vec::new()) };
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
