//! Catalog of probes: their groups, metadata and source code.

use std::path::Path;
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::attack::AttackError;

const HEAD: &str = include_str!("../probes/head.py");
const FOOT: &str = include_str!("../probes/foot.py");

/// Group of probes with the same target, such as host files or the network.
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
pub enum ProbeGroup {
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

impl ProbeGroup {
    pub const ALL: &'static [ProbeGroup] = ProbeGroup::VARIANTS;

    /// Title of the group in reports.
    pub fn title(self) -> &'static str {
        self.source().0
    }

    /// Python source of the program that contains the probes of this group.
    pub(crate) fn code(self) -> String {
        [HEAD, self.source().1, FOOT].concat()
    }

    /// Title of the group, and Python source of its probes.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            ProbeGroup::Files => ("host files", include_str!("../probes/files.py")),
            ProbeGroup::Secrets => ("host secrets", include_str!("../probes/secrets.py")),
            ProbeGroup::Network => ("network and sockets", include_str!("../probes/network.py")),
            ProbeGroup::Privileges => ("privileges", include_str!("../probes/privileges.py")),
            ProbeGroup::Exhaustion => ("exhaustion", include_str!("../probes/exhaustion.py")),
            ProbeGroup::Left => ("data left for the next run", include_str!("../probes/left.py")),
            ProbeGroup::Kernel => ("kernel interfaces", include_str!("../probes/kernel.py")),
            ProbeGroup::Clock => ("clock", include_str!("../probes/clock.py")),
            ProbeGroup::Terminal => ("terminal", include_str!("../probes/terminal.py")),
            ProbeGroup::Channel => {
                ("guest agent and its channel", include_str!("../probes/channel.py"))
            }
            ProbeGroup::Machine => ("microVM", include_str!("../probes/machine.py")),
        }
    }
}

/// Criterion by which the success of a probe is decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SuccessCriterion {
    /// The probe succeeds if it reports success and, if a proof is required, also reports the proof (the secret of a
    /// fixture).
    #[default]
    Itself,
    /// The probe succeeds if its mark, a random text that the probe sends, arrives on the host.
    Heard,
    /// The probe succeeds if one of its processes outlives the run.
    Survives,
    /// The probe succeeds if its output exceeds the output limit of the sandbox.
    Output,
    /// The probe succeeds if its run ends more than [`LATE`](crate::judge::LATE) (3.5 s) after the timeout of the run.
    Late,
    /// The probe succeeds if the sandbox reports no exit code or one that differs from the real exit code, or if the
    /// guest agent no longer runs.
    Forged,
    /// The probe succeeds if it reports success, or if it stops the guest agent.
    Guest,
    /// The probe succeeds if the files that the host collects from the sandbox contain the proof (the secret of a
    /// fixture).
    Collected,
}

/// Action that the host performs on the working folder of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HostAction {
    /// The host collects the files of the working folder repeatedly while the probe runs, and once more afterwards.
    Collect,
    /// After the run, the host writes the mark of the probe, a random text, to the file `given-<tag>` in the working
    /// folder. The probe tries to redirect this write to another file.
    Give,
}

/// Limits of the sandbox in which a probe runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProbeLimits {
    #[default]
    Usual,
    /// Very low limits: a probe that exceeds them does no harm, not even on the host without isolation.
    Tight,
    /// The same limits as `Tight`, but with a quarter of a CPU and a longer timeout.
    Share,
}

/// Resource limit that some backends guarantee and other backends enforce only on a best-effort basis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GuaranteedLimit {
    Memory,
    Processes,
    Cpu,
}

/// Metadata of a probe, as declared in its Python source.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Probe {
    pub(crate) name: String,
    /// Description of what the probe tries to do.
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) judge: SuccessCriterion,
    #[serde(default, rename = "limits")]
    pub(crate) limits: ProbeLimits,
    /// Limit that the probe tries to exceed. If the backend does not guarantee this limit, a successful probe is not an
    /// escape.
    pub(crate) promise: Option<GuaranteedLimit>,
    /// Name of the nonce (secret random value) that the probe must report as proof of its success. If the
    /// name is `mark`, the nonce is a random text that only the first step of the probe receives.
    pub(crate) proof: Option<String>,
    /// Number of steps of the probe. The steps are programs that run one after the other, each in a new sandbox.
    #[serde(default = "one")]
    pub(crate) steps: u8,
    /// Whether the probe runs only in microVMs.
    #[serde(default)]
    pub(crate) machine: bool,
    /// Whether the probe makes a single system call, which the sandbox should reject.
    #[serde(default)]
    pub(crate) syscall: bool,
    /// Action that the host performs on the working folder during or after the run; `None` if there is none.
    pub(crate) host: Option<HostAction>,
    /// Real exit code of the probe. A probe that forges exit codes succeeds if the sandbox reports a different code.
    #[serde(default)]
    pub(crate) exit: i32,
    #[serde(skip)]
    pub(crate) group: ProbeGroup,
}

fn one() -> u8 {
    1
}

/// Lists all probes by running the program of each group with the argument `list`.
pub(crate) async fn list(interpreter: &Path) -> Result<Vec<Probe>, AttackError> {
    let mut probes = Vec::new();
    for &group in ProbeGroup::ALL {
        let output = tokio::process::Command::new(interpreter)
            .args(["-s", "-B", "-c", &group.code(), "list"])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| AttackError::Interpreter(error.to_string()))?;
        let listed: Vec<Probe> = serde_json::from_slice(&output.stdout).map_err(|error| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr.trim_end().lines().last().unwrap_or_default();
            let title = group.title();
            AttackError::Interpreter(format!(
                "cannot list the probes of the group `{title}`: {error}; last line of stderr: `{last}`"
            ))
        })?;
        probes.extend(listed.into_iter().map(|probe| Probe { group, ..probe }));
    }
    Ok(probes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use assize_sandbox::{Interpreter, Language};

    use super::*;

    #[tokio::test]
    async fn documented_probe_counts_match_the_catalog() {
        let path = std::env::var_os("PATH");
        let python = Interpreter::find(Language::Python, None, path.as_deref()).unwrap();
        let probes = list(&python.program).await.unwrap();
        let microvm = probes.len();
        let other = probes.iter().filter(|probe| !probe.machine).count();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |page: &str| std::fs::read_to_string(root.join(page)).unwrap();
        let threat_model = "docs/explanation/threat-model.md";
        for (page, text) in [
            ("README.md", format!("runs {other} escape attempts ({microvm} for microVMs)")),
            ("CHANGELOG.md", format!("runs {other} probes ({microvm} for microVMs)")),
            (
                threat_model,
                format!("{other} probes for jail and container, {microvm} for a microVM"),
            ),
            ("ui/src/pages/System.tsx", format!("makes about {other} attempts")),
        ] {
            assert!(read(page).contains(&text), "{page} does not contain `{text}`");
        }
        let mut groups = BTreeMap::<&str, usize>::new();
        for probe in &probes {
            *groups.entry(probe.name.split('/').next().unwrap()).or_default() += 1;
        }
        let table = read(threat_model);
        for (group, count) in groups {
            let start = format!("| `{group}/`");
            let row = table.lines().find(|line| line.starts_with(&start)).unwrap();
            assert!(row.ends_with(&format!("| {count} |")), "{count} probes: {row}");
        }
    }
}
