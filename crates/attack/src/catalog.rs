//! The probes there are, by their own word, and the text they run as.

use std::path::Path;
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::attack::AttackError;

const HEAD: &str = include_str!("../probes/head.py");
const FOOT: &str = include_str!("../probes/foot.py");

/// What a probe is after.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    VariantArray,
)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    #[default]
    Files,
    Secrets,
    Network,
    Privileges,
    Exhaustion,
    Left,
    Kernel,
    Clock,
    Terminal,
    Channel,
    Machine,
}

impl Group {
    pub const ALL: &'static [Group] = Group::VARIANTS;

    /// In words for people.
    pub fn title(self) -> &'static str {
        self.source().0
    }

    /// The program that has the probes of this group in it.
    pub(crate) fn code(self) -> String {
        [HEAD, self.source().1, FOOT].concat()
    }

    /// Its title and its probes.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Group::Files => ("files outside", include_str!("../probes/files.py")),
            Group::Secrets => ("secrets of the host", include_str!("../probes/secrets.py")),
            Group::Network => ("network and sockets", include_str!("../probes/network.py")),
            Group::Privileges => ("privileges", include_str!("../probes/privileges.py")),
            Group::Exhaustion => ("exhaustion", include_str!("../probes/exhaustion.py")),
            Group::Left => ("what is left for the next run", include_str!("../probes/left.py")),
            Group::Kernel => ("the kernel's surface", include_str!("../probes/kernel.py")),
            Group::Clock => ("the clock", include_str!("../probes/clock.py")),
            Group::Terminal => ("the terminal", include_str!("../probes/terminal.py")),
            Group::Channel => ("the guest's channel", include_str!("../probes/channel.py")),
            Group::Machine => ("the machine itself", include_str!("../probes/machine.py")),
        }
    }
}

/// Who decides whether a probe got through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Judge {
    /// The probe itself, by what it found.
    #[default]
    Itself,
    /// Its mark arrived on the host.
    Heard,
    /// A process of it is still there after the end.
    Survives,
    /// More was written than is allowed.
    Output,
    /// Its end was told long after its time.
    Late,
    /// Another end was told than the true one.
    Forged,
    /// The probe itself; and when the guest is gone, that is its doing.
    Guest,
    /// What it has to bring is in the files that the host collects.
    Collected,
}

/// What the host does with the working folder of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HostAction {
    /// Collects its files, again and again while the probe runs, and once more afterwards.
    Collect,
    /// Afterwards writes an input for the next program into it: the mark, as `given-` with the tag.
    Give,
}

/// The limits of the sandbox that a probe runs in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Room {
    #[default]
    Usual,
    /// So little that a control can use more of it and harm nobody.
    Tight,
    /// As tight, and with a quarter of a processor.
    Share,
}

/// A limit that some backends promise to hold and others only try to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Promise {
    Memory,
    Processes,
    Cpu,
}

/// One probe, as it describes itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Probe {
    pub(crate) name: String,
    /// What it tries, in one sentence.
    pub(crate) what: String,
    #[serde(default)]
    pub(crate) judge: Judge,
    #[serde(default, rename = "limits")]
    pub(crate) room: Room,
    pub(crate) promise: Option<Promise>,
    /// The number that it has to bring, by its name; `mark` for that of the step before.
    pub(crate) proof: Option<String>,
    #[serde(default = "one")]
    pub(crate) steps: u8,
    /// It is about a machine that the program has to itself, and runs nowhere else.
    #[serde(default)]
    pub(crate) machine: bool,
    /// It is a system call that should be refused, and nothing more.
    #[serde(default)]
    pub(crate) syscall: bool,
    /// What the host does besides.
    pub(crate) host: Option<HostAction>,
    /// What it ends with.
    #[serde(default)]
    pub(crate) exit: i32,
    #[serde(skip)]
    pub(crate) group: Group,
}

fn one() -> u8 {
    1
}

/// Asks the probes what they are.
pub(crate) async fn list(interpreter: &Path) -> Result<Vec<Probe>, AttackError> {
    let mut probes = Vec::new();
    for &group in Group::ALL {
        let output = tokio::process::Command::new(interpreter)
            .args(["-s", "-B", "-c", &group.code(), "list"])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| AttackError::Interpreter(error.to_string()))?;
        let listed: Vec<Probe> = serde_json::from_slice(&output.stdout).map_err(|error| {
            let words = String::from_utf8_lossy(&output.stderr);
            let last = words.trim_end().lines().last().unwrap_or_default();
            AttackError::Interpreter(format!("the probes on {}: {error} {last}", group.title()))
        })?;
        probes.extend(listed.into_iter().map(|probe| Probe { group, ..probe }));
    }
    Ok(probes)
}
