//! Jail backend: Linux namespaces, Landlock, a seccomp allowlist, cgroups. It needs no daemon and no privileges, and
//! works on nearly every Linux machine.
//!
//! This is the host side, which describes the jail. The guest agent binary, started as the supervisor process (see
//! `crates/guest/src/jail`), builds the jail, because the multi-threaded host process must not fork.

pub(crate) mod supervisor;

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use assize_config::{Isolation, SandboxLimits};
use assize_protocol::jail::{HostMount, JailFile, JailSetup};
use assize_protocol::{GuestLimits, Hello, VERSION};
use async_trait::async_trait;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::{
    Backend, Enforcement, ResourceUsage, SandboxHandle, SandboxIdentity, StartedSandbox,
};
use crate::cgroup::{self, CgroupParents, JailCgroup};
use crate::channel::Channel;
use crate::error::SandboxError;
use crate::interpreter::{Interpreter, Language, SYSTEM, is_system};
use crate::sandbox::{PYTHON_FILES, PYTHON_FOLDER, WORKSPACE, environment};
use crate::spec::SandboxSpec;
pub use supervisor::SupervisorAhead;
use supervisor::{BuiltJail, DedicatedUsers, JailSupervisor};

/// Devices that every program expects; none of them gives access to the host.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Text of the enforcement report: how the jail restricts access to files.
const MOUNTS: &str = "read-only mounts in a mount namespace";

/// Value of the field `landlock` before the first jail is built.
const UNKNOWN: u32 = u32::MAX;

/// The jail backend.
#[derive(Debug)]
pub struct Jail {
    interpreters: Vec<Interpreter>,
    /// Parent cgroups of the cgroups of jails, found on first use.
    groups: OnceLock<CgroupParents>,
    users: DedicatedUsers,
    /// Whether the kernel refused to mount `/proc` in the most recently built jail. Without `/proc`, the guest agent
    /// cannot measure the total memory use of the processes in a jail.
    without_proc: AtomicBool,
    /// Landlock ABI version in the most recently built jail; 0 if the kernel has no Landlock, [`UNKNOWN`] before the
    /// first jail.
    landlock: AtomicU32,
}

impl Jail {
    /// Creates a jail backend whose jails contain these interpreters.
    pub fn new(interpreters: Vec<Interpreter>) -> Jail {
        Jail {
            interpreters,
            groups: OnceLock::new(),
            users: DedicatedUsers::find(),
            without_proc: AtomicBool::new(false),
            landlock: AtomicU32::new(UNKNOWN),
        }
    }

    fn groups(&self) -> &CgroupParents {
        self.groups.get_or_init(CgroupParents::of_this_process)
    }

    fn setup(&self, id: &str, spec: &SandboxSpec, group: &JailCgroup) -> JailSetup {
        let mut setup = JailSetup {
            writable: ["/tmp", WORKSPACE, "/dev/shm"].map(str::to_owned).into(),
            disk_bytes: spec.limits.disk,
            disk_files: spec.limits.max_files(),
            users: self.users.of(id),
            host_name: "sandbox".to_owned(),
            ..JailSetup::default()
        };
        group.add_to_setup(&mut setup);
        add_system(&mut setup);
        for piece in self.interpreters.iter().flat_map(|interpreter| &interpreter.mounts) {
            let piece = piece.display().to_string();
            if !setup.pieces.iter().any(|each| each.to == piece) {
                setup.add_mount(&piece, &piece, false);
            }
        }
        for (at, to) in self.interpreters.iter().flat_map(|interpreter| &interpreter.links) {
            // The link is omitted if it is inside a mount, which contains it already, or if a mount is below it: a
            // folder that contains a mount cannot be a link.
            let mounted = |piece: &HostMount| {
                at.starts_with(&piece.to) || Path::new(&piece.to).starts_with(at)
            };
            let at_text = at.display().to_string();
            let known = is_system(at)
                || setup.pieces.iter().any(mounted)
                || setup.links.iter().any(|link| link.at == at_text);
            if !known {
                setup.link(&at_text, &to.display().to_string());
            }
        }
        for layer in &spec.layers {
            setup.add_mount(&layer.from.display().to_string(), &layer.at, false);
        }
        let watched = !Controllers::of(self.groups()).memory;
        for device in DEVICES {
            // The guest agent's memory watch does not see mappings of `/dev/zero`. It is replaced by `/dev/full`, which
            // also reads as zeros, but cannot be mapped.
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
            setup.files.push(JailFile { at: at.to_owned(), text });
        }
        for (name, text) in PYTHON_FILES {
            setup
                .files
                .push(JailFile { at: format!("{PYTHON_FOLDER}/{name}"), text: text.to_owned() });
        }
        setup.files.extend(self.interpreters.iter().find_map(startup_hook));
        setup
    }

    fn guest_limits(&self, limits: &SandboxLimits) -> GuestLimits {
        let controllers = Controllers::of(self.groups());
        let wall = limits.wall.as_secs().max(1);
        GuestLimits {
            file_bytes: limits.disk,
            watch_memory: (!controllers.memory).then_some(limits.memory),
            // The guest agent counts as one more process if it runs as the same user as the programs.
            processes: Some(
                u64::from(limits.processes) + u64::from(self.users == DedicatedUsers::None),
            ),
            // Without a CPU controller, only the CPU time of each process can be limited, not the CPU share.
            cpu_seconds: (!controllers.cpu).then_some(wall + 1),
        }
    }
}

/// Returns a file with which a Python interpreter does the work of `sitecustomize.py` when it reads its site-packages.
/// Then it imports no module from source, which would take two milliseconds longer. An interpreter that is started ahead
/// of its program still imports the module, because that comes later in its startup. Returns `None` if the version of
/// the interpreter is not part of its name; it then imports the module, and so does one in a virtual environment.
fn startup_hook(interpreter: &Interpreter) -> Option<JailFile> {
    let program = interpreter.program.canonicalize().ok()?;
    let version = program.file_name()?.to_str()?;
    let minor = version.strip_prefix("python3.")?;
    if interpreter.language != Language::Python || !minor.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let folder = format!("{PYTHON_FOLDER}/lib/{version}/site-packages");
    Some(JailFile {
        at: format!("{folder}/assize.pth"),
        // `PYTHONUSERBASE` and the first entry of `PYTHONPATH` are the folder of `sitecustomize.py`.
        text: format!(
            "import os, sys; sys.path.remove('{folder}'); 'ASSIZE_GATE' in os.environ or (\
             sys.path.remove(os.environ.pop('PYTHONUSERBASE')), \
             os.environ.update(PYTHONPATH=os.environ['PYTHONPATH'].partition(':')[2]), \
             [s.reconfigure(line_buffering=True) for s in (sys.stdout, sys.stderr) if s], \
             sys.modules.update(sitecustomize=type(sys)('sitecustomize')))\n"
        ),
    })
}

/// Adds the system's programs, and the files that these programs need, to the mounts of a jail.
pub(crate) fn add_system(setup: &mut JailSetup) {
    for folder in SYSTEM {
        // On most systems, `/bin` and similar folders are symbolic links into `/usr`.
        match std::fs::read_link(folder) {
            Ok(to) => setup.link(folder, &to.display().to_string()),
            Err(_) => setup.add_mount(folder, folder, true),
        }
    }
    // The dynamic loader reads `ld.so.cache`; programs with alternatives, such as `awk`, are links into `alternatives`.
    for path in ["/etc/ld.so.cache", "/etc/alternatives"] {
        setup.add_mount(path, path, true);
    }
}

/// The available cgroup controllers.
struct Controllers {
    memory: bool,
    processes: bool,
    cpu: bool,
    /// Version of the cgroups, for the enforcement report.
    version: &'static str,
}

impl Controllers {
    fn of(groups: &CgroupParents) -> Controllers {
        match groups {
            CgroupParents::V1 { memory, pids, cpu } => Controllers {
                memory: memory.is_some(),
                processes: pids.is_some(),
                cpu: cpu.is_some(),
                version: "cgroup v1",
            },
            CgroupParents::V2 { kinds, .. } => {
                let has = |kind: &str| kinds.iter().any(|each| each == kind);
                let (memory, processes, cpu) = (has("memory"), has("pids"), has("cpu"));
                Controllers { memory, processes, cpu, version: "cgroup v2" }
            }
            CgroupParents::None(_) => {
                Controllers { memory: false, processes: false, cpu: false, version: "" }
            }
        }
    }
}

#[async_trait]
impl Backend for Jail {
    fn isolation(&self) -> Isolation {
        Isolation::Jail
    }

    fn check(&self, spec: &SandboxSpec) -> Result<(), SandboxError> {
        let Some(image) = &spec.image else { return Ok(()) };
        let reason = format!("a jail uses the files of this machine, not the image `{image}`");
        let hint = Some("use `--isolation docker` to run programs in an image");
        Err(SandboxError::Unsupported { isolation: Isolation::Jail, reason, hint })
    }

    async fn start(
        &self,
        identity: &SandboxIdentity,
        spec: &SandboxSpec,
    ) -> Result<StartedSandbox, SandboxError> {
        self.check(spec)?;
        let id = identity.to_string();
        let group = self
            .groups()
            .make(&id, &spec.limits)
            .map_err(|error| SandboxError::failed("creating a cgroup", error))?;
        let setup = self.setup(&id, spec, &group);
        let (supervisor, channel) = JailSupervisor::start(group)?;
        let folders = self.interpreters.iter().filter_map(|one| one.program.parent());
        let folders: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        let hello = Hello {
            version: VERSION,
            limits: self.guest_limits(&spec.limits),
            env: environment(&folders),
            machine: None,
        };
        let channel = Channel::over(channel, &hello);
        let BuiltJail { pid, proc, landlock } =
            supervisor.build(Isolation::Jail, &setup, &[]).await?;
        self.landlock.store(landlock, Ordering::Relaxed);
        self.without_proc.store(!proc, Ordering::Relaxed);
        let watch = supervisor.group().watch(pid, &spec.limits);
        Ok(StartedSandbox { channel, handle: Box::new(JailCell { supervisor, _watch: watch }) })
    }

    fn interpreter(&self, language: Language) -> Result<String, SandboxError> {
        self.interpreters
            .iter()
            .find(|interpreter| interpreter.language == language)
            .map(|interpreter| interpreter.program.display().to_string())
            .ok_or(SandboxError::NoInterpreter(language, Isolation::Jail))
    }

    fn has_fixed_time_limit(&self) -> bool {
        // Without a CPU controller, the CPU time of programs is limited by a fixed limit of the guest agent, which
        // programs inherit.
        !Controllers::of(self.groups()).cpu
    }

    fn enforcement(&self) -> Enforcement {
        let controllers = Controllers::of(self.groups());
        let why = match self.groups() {
            CgroupParents::None(why) => why.as_str(),
            _ => "the cgroup controller is not delegated",
        };
        let or = |available: bool, fallback: &str| match available {
            true => controllers.version.to_owned(),
            false => format!("best effort, because {why}: {fallback}"),
        };
        Enforcement {
            memory: match self.without_proc.load(Ordering::Relaxed) {
                false => or(
                    controllers.memory,
                    "a limit for each process, and every 25 ms a check of the memory of all processes together, \
                     which excludes kernel memory",
                ),
                true => or(controllers.memory, "each process can use up to twice the memory limit"),
            },
            cpu: or(
                controllers.cpu,
                "a limit on the CPU time of each process, not on the number of CPUs used at once",
            ),
            processes: if controllers.processes {
                controllers.version.to_owned()
            } else {
                "process limit of the sandbox's user".to_owned()
            },
            disk: "tmpfs size".to_owned(),
            output: "guest agent".to_owned(),
            time: "the guest agent kills the program; if it does not, the host ends the sandbox"
                .to_owned(),
            network: "empty network namespace".to_owned(),
            system_calls: "seccomp allowlist".to_owned(),
            files: match self.landlock.load(Ordering::Relaxed) {
                UNKNOWN => format!("{MOUNTS}, and Landlock if the kernel supports it"),
                0 => format!("{MOUNTS}; this kernel has no Landlock"),
                version => format!("{MOUNTS}, and Landlock (version {version})"),
            },
        }
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        cgroup::clean_up(maker);
        Ok(())
    }
}

/// Handle on one jail.
#[derive(Debug)]
struct JailCell {
    supervisor: JailSupervisor,
    /// Watchdog that kills programs that thrash.
    _watch: Option<AbortOnDropHandle<()>>,
}

#[async_trait]
impl SandboxHandle for JailCell {
    async fn usage(&self) -> ResourceUsage {
        self.supervisor.group().usage()
    }

    async fn end(&self) {
        self.supervisor.end().await;
    }

    async fn diagnostic_output(&self) -> Option<String> {
        self.supervisor.last_words().await
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Returns the mount point of cgroup v2, if this process is allowed to create cgroups below it.
    fn unified() -> Option<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        let root = PathBuf::from(line.split(' ').nth(4)?);
        let probe = root.join(format!("assize-probe-{}", std::process::id()));
        std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)).ok()?;
        Some(root)
    }

    #[tokio::test]
    async fn jail_runs_in_its_own_v2_cgroup_and_removes_the_cgroup() {
        let Some(root) = unified() else { return };
        let groups = OnceLock::from(CgroupParents::V2 { folder: root.clone(), kinds: Vec::new() });
        let jail = Jail { groups, ..Jail::new(Vec::new()) };
        let maker = format!("test{}", std::process::id());
        let identity = SandboxIdentity { creator: maker.clone(), id: "1".to_owned() };
        let started = jail.start(&identity, &SandboxSpec::default()).await.unwrap();
        let group = root.join(format!("assize-{maker}-1"));
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert_eq!(members.lines().count(), 1, "{members}");
        started.handle.end().await;
        assert!(!group.exists());
    }
}
