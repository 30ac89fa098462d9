//! Selects what executes a microVM's instructions: the CPU through KVM, or emulation.
//!
//! That `/dev/kvm` exists and opens proves little: on some hosts no ordinary kernel boots with it. So KVM is used only
//! after a microVM has booted with it in time. The result is cached until the host kernel, the CPU, QEMU or the image
//! changes.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// Device file of KVM.
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

    /// Host group that may open the device, if not every user may.
    pub(super) fn group(self) -> Option<u32> {
        let found = std::fs::metadata(DEVICE).ok().filter(|_| self == Accelerator::Kvm)?;
        (found.mode() & 0o006 != 0o006).then_some(found.gid())
    }
}

/// The selected accelerator, and why KVM is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcceleratorChoice {
    pub accelerator: Accelerator,
    pub why_not_kvm: Option<String>,
}

impl fmt::Display for AcceleratorChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why_not_kvm {
            None => write!(f, "using {}", self.accelerator),
            Some(why) => write!(f, "using {}, KVM unavailable: {why}", self.accelerator),
        }
    }
}

/// When KVM is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KvmMode {
    /// If the CPU reports virtualization support and a microVM has booted with KVM.
    #[default]
    Proven,
    /// If a microVM has booted with KVM, even if the CPU reports no support.
    Tried,
    Never,
}

/// Why KVM cannot be tried, or `None` if it can.
pub(super) fn obstacle(kvm: KvmMode) -> Option<String> {
    if kvm == KvmMode::Never {
        return Some("disabled".to_owned());
    }
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open(DEVICE) {
        return Some(format!("cannot open `{DEVICE}`: {error}"));
    }
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if kvm == KvmMode::Proven && !has_virtualization(&cpuinfo) {
        return Some(format!(
            "`{DEVICE}` exists, but the CPU reports no virtualization support (neither `vmx` nor `svm`)"
        ));
    }
    None
}

fn has_virtualization(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm")
}

/// Model name of the CPU.
pub(super) fn processor() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    named.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned()
}

/// Cached result of a KVM test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KvmTestResult {
    /// Kernel, CPU, QEMU and image for which the result is valid.
    circumstances: String,
    /// Why KVM cannot be used; `None` if it works.
    pub(super) trouble: Option<String>,
}

impl KvmTestResult {
    pub(super) fn new(stamp: &str, trouble: Option<String>) -> KvmTestResult {
        KvmTestResult { circumstances: circumstances(stamp), trouble }
    }

    /// The cached result, if it is still valid.
    pub(super) fn read(folder: &Path, stamp: &str) -> Option<KvmTestResult> {
        let text = std::fs::read_to_string(file(folder)).ok()?;
        let verdict: KvmTestResult = serde_json::from_str(&text).ok()?;
        (verdict.circumstances == circumstances(stamp)).then_some(verdict)
    }

    pub(super) fn write(&self, folder: &Path) {
        // An error is ignored: KVM is then tested again.
        if let Ok(text) = serde_json::to_vec(self) {
            let _ = std::fs::write(file(folder), text);
        }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("kvm.json")
}

/// Key of the cached result: host kernel, CPU, and `stamp` (QEMU and image).
fn circumstances(stamp: &str) -> String {
    let kernel = std::fs::read_to_string("/proc/version").unwrap_or_default();
    format!("{} / {} / {stamp}", kernel.trim(), processor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtualization_support_is_read_from_cpuinfo() {
        assert!(has_virtualization("processor\t: 0\nflags\t\t: fpu vme vmx ept\n"));
        assert!(has_virtualization("flags\t\t: svm\n"));
        assert!(!has_virtualization("flags\t\t: fpu vme svmx hypervisor\nbugs: vmx\n"));
        assert!(!has_virtualization(""));
    }

    #[test]
    fn cached_kvm_result_is_invalid_for_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(KvmTestResult::read(folder.path(), "one"), None);
        let verdict = KvmTestResult::new("one", Some("no microVM has booted".to_owned()));
        verdict.write(folder.path());
        assert_eq!(KvmTestResult::read(folder.path(), "one"), Some(verdict));
        assert_eq!(KvmTestResult::read(folder.path(), "two"), None);
    }
}
