//! Sandbox limits from the settings.

use assize_config::{SandboxLimits, SettingSource};
use assize_types::{Failure, FailureKind};

use super::SandboxFactory;
use crate::{Enforcement, SandboxSpec};

impl SandboxFactory {
    /// The configured limits, with the CPUs capped to those of this machine.
    pub fn limits(&self) -> SandboxLimits {
        let sandbox = &self.settings.sandbox;
        let cpus = sandbox.cpus.min(self.max_cpus());
        SandboxLimits {
            memory: *sandbox.memory,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the setting is checked to be at most 1024"
            )]
            cpu_millis: (cpus * 1000.0).round() as u32,
            wall: *sandbox.timeout_seconds,
            processes: *sandbox.processes,
            output: *sandbox.output,
            disk: *sandbox.disk,
        }
    }

    /// Maximum CPUs of a sandbox: those of this machine. No maximum in a cluster, where the worker decides.
    fn max_cpus(&self) -> f64 {
        if self.settings.cluster.servers.is_some() {
            return f64::INFINITY;
        }
        let processors = std::thread::available_parallelism()
            .map_or(u16::MAX, |count| u16::try_from(count.get()).unwrap_or(u16::MAX));
        f64::from(processors)
    }

    /// A warning if more CPUs are configured than this machine has.
    pub fn clamped_cpus(&self) -> Option<String> {
        let cpus = &self.settings.sandbox.cpus;
        let (requested, max) = (**cpus, self.max_cpus());
        let setting = match cpus.source() {
            SettingSource::Flag(flag) => format!("`{flag} {requested}`"),
            source => format!("`sandbox.cpus = {requested}` ({source})"),
        };
        (requested > max)
            .then(|| format!("{setting} is more than the {max} CPUs of this machine: using {max}"))
    }

    /// Limits of debates, which compute little: memory is `consult.memory` unless a flag or request sets it.
    pub fn limits_of_debates(&self) -> SandboxLimits {
        let mut limits = self.limits();
        if self.settings.sandbox.memory.requested().is_none() {
            limits.memory = *self.settings.consult.memory;
        }
        limits
    }

    /// Spec of a sandbox with the configured limits.
    pub fn spec(&self, image: Option<String>) -> Result<SandboxSpec, Failure> {
        let limits = self.limits();
        if let Some(complaint) = limits.complaint() {
            return Err(Failure::new(FailureKind::Usage, complaint));
        }
        Ok(SandboxSpec { image, limits, ..SandboxSpec::default() })
    }

    /// One message for each limit that was set by a flag but is enforced only by best effort.
    pub fn loose(&self, enforcement: &Enforcement) -> Vec<String> {
        let mut loose = Vec::new();
        let (memory, cpus) =
            (self.settings.sandbox.memory.source(), self.settings.sandbox.cpus.source());
        for (source, by) in [(memory, &enforcement.memory), (cpus, &enforcement.cpu)] {
            if let SettingSource::Flag(flag) = source
                && by.starts_with("best effort")
            {
                loose.push(format!("`{flag}` is {by}"));
            }
        }
        loose
    }
}
