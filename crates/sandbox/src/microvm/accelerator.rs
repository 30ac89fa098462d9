//! Selects the accelerator of microVMs: the CPU executes their instructions with KVM, or QEMU emulates them.
//!
//! On some hosts, `/dev/kvm` can be opened, but no ordinary kernel boots with KVM. KVM is therefore used only after a
//! test, in which a microVM must boot with KVM within a time limit. The result of this test is cached until the host
//! kernel, the CPU, QEMU or the image changes.

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

    /// Id of the host group whose members are allowed to open the KVM device; `None` if every user is allowed to open
    /// the device, or if KVM is not used.
    pub(super) fn group(self) -> Option<u32> {
        let found = std::fs::metadata(DEVICE).ok().filter(|_| self == Accelerator::Kvm)?;
        (found.mode() & 0o006 != 0o006).then_some(found.gid())
    }
}

/// The selected accelerator, and the reason if KVM is not used.
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

/// Conditions under which microVMs use KVM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KvmMode {
    /// KVM is used if the CPU reports virtualization support and a microVM has booted with KVM.
    #[default]
    Proven,
    /// KVM is used if a microVM has booted with KVM, even if the CPU reports no virtualization support.
    Tried,
    /// KVM is never used.
    Never,
}

/// Returns why KVM cannot be tested, or `None` if it can be tested.
pub(super) fn obstacle(kvm: KvmMode) -> Option<String> {
    if kvm == KvmMode::Never {
        return Some("KVM is disabled".to_owned());
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
    /// Host kernel, CPU, QEMU and image for which the result is valid.
    circumstances: String,
    /// Reason why KVM cannot be used; `None` if KVM works.
    pub(super) trouble: Option<String>,
}

impl KvmTestResult {
    pub(super) fn new(stamp: &str, trouble: Option<String>) -> KvmTestResult {
        KvmTestResult { circumstances: circumstances(stamp), trouble }
    }

    /// Reads the cached result. Returns `None` if no result is cached, or if the host kernel, the CPU or `stamp` (QEMU
    /// and image) has changed.
    pub(super) fn read(folder: &Path, stamp: &str) -> Option<KvmTestResult> {
        let text = std::fs::read_to_string(file(folder)).ok()?;
        let verdict: KvmTestResult = serde_json::from_str(&text).ok()?;
        (verdict.circumstances == circumstances(stamp)).then_some(verdict)
    }

    pub(super) fn write(&self, folder: &Path) {
        // A failed write is ignored: the next process then tests KVM again.
        if let Ok(text) = serde_json::to_vec(self) {
            let _ = std::fs::write(file(folder), text);
        }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("kvm.json")
}

/// Returns the key of the cached KVM test result: host kernel, CPU, and `stamp` (QEMU and image).
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
    fn cached_kvm_test_result_is_invalid_for_a_different_qemu_or_image() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(KvmTestResult::read(folder.path(), "one"), None);
        let verdict = KvmTestResult::new("one", Some("no microVM has booted".to_owned()));
        verdict.write(folder.path());
        assert_eq!(KvmTestResult::read(folder.path(), "one"), Some(verdict));
        assert_eq!(KvmTestResult::read(folder.path(), "two"), None);
    }
}
