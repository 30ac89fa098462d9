//! What runs a machine's instructions: the processor itself, by KVM, or a program that imitates one.
//!
//! That `/dev/kvm` is there and opens proves nothing: there are hosts on which no ordinary kernel ever
//! starts by it. So it has to prove itself first, by a machine that starts in time; what was found is
//! remembered for as long as this kernel and this emulator are the same.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// The kernel's door to it.
pub(super) const DEVICE: &str = "/dev/kvm";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(Display, IntoStaticStr)]
pub enum Accelerator {
    #[strum(serialize = "KVM")]
    Kvm,
    #[strum(serialize = "emulation")]
    Emulation,
}

impl Accelerator {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The group of the host that may open the device, where not everybody may.
    pub(super) fn group(self) -> Option<u32> {
        let found = std::fs::metadata(DEVICE).ok().filter(|_| self == Accelerator::Kvm)?;
        (found.mode() & 0o006 != 0o006).then_some(found.gid())
    }
}

/// What runs machines here, and why not something faster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decided {
    pub accelerator: Accelerator,
    pub why_not_kvm: Option<String>,
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why_not_kvm {
            None => write!(f, "by {}", self.accelerator),
            Some(why) => write!(f, "by {}, not by KVM: {why}", self.accelerator),
        }
    }
}

/// Whether KVM is to be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kvm {
    /// Where the processor says that it can, and a machine has started by it.
    #[default]
    Proven,
    /// Where a machine has started by it, whatever the processor says.
    Tried,
    Never,
}

/// Why KVM cannot even be tried, if so.
pub(super) fn obstacle(kvm: Kvm) -> Option<String> {
    if kvm == Kvm::Never {
        return Some("it is not wanted".to_owned());
    }
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open(DEVICE) {
        return Some(format!("`{DEVICE}` cannot be opened: {error}"));
    }
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if kvm == Kvm::Proven && !can(&about) {
        return Some(format!(
            "`{DEVICE}` is there, but the processor does not say that it can (neither `vmx` nor `svm`)"
        ));
    }
    None
}

fn can(about: &str) -> bool {
    let flags = about.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm")
}

/// The processor, by name.
pub(super) fn processor() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = about.lines().find_map(|line| line.strip_prefix("model name"));
    named.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned()
}

/// What was found when KVM was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// What it holds for.
    circumstances: String,
    /// Why it is not used, if so.
    pub(super) trouble: Option<String>,
}

impl Verdict {
    pub(super) fn new(stamp: &str, trouble: Option<String>) -> Verdict {
        Verdict { circumstances: circumstances(stamp), trouble }
    }

    /// What was found earlier, if nothing has changed since.
    pub(super) fn read(folder: &Path, stamp: &str) -> Option<Verdict> {
        let text = std::fs::read_to_string(file(folder)).ok()?;
        let verdict: Verdict = serde_json::from_str(&text).ok()?;
        (verdict.circumstances == circumstances(stamp)).then_some(verdict)
    }

    pub(super) fn write(&self, folder: &Path) {
        // Unwritten, it is found out once more.
        if let Ok(text) = serde_json::to_vec(self) {
            let _ = std::fs::write(file(folder), text);
        }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("kvm.json")
}

/// The kernel, the processor, and the emulator.
fn circumstances(stamp: &str) -> String {
    let kernel = std::fs::read_to_string("/proc/version").unwrap_or_default();
    format!("{} / {} / {stamp}", kernel.trim(), processor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_says_whether_it_can() {
        assert!(can("processor\t: 0\nflags\t\t: fpu vme vmx ept\n"));
        assert!(can("flags\t\t: svm\n"));
        assert!(!can("flags\t\t: fpu vme svmx hypervisor\nbugs: vmx\n"));
        assert!(!can(""));
    }

    #[test]
    fn a_verdict_holds_while_nothing_changes() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Verdict::read(folder.path(), "one"), None);
        let verdict = Verdict::new("one", Some("no machine has started".to_owned()));
        verdict.write(folder.path());
        assert_eq!(Verdict::read(folder.path(), "one"), Some(verdict));
        assert_eq!(Verdict::read(folder.path(), "two"), None);
    }
}
