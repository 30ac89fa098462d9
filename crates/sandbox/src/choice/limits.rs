//! Sandbox limits from the settings.

use std::sync::LazyLock;

use assize_config::{SandboxLimits, SettingSource};
use assize_types::{Failure, FailureKind};

use super::SandboxFactory;
use crate::{Enforcement, SandboxSpec};

impl SandboxFactory {
    /// Returns the configured limits. If more CPUs are configured than `max_cpus` allows, the CPU limit is `max_cpus`.
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

    /// Maximum number of CPUs of a sandbox: the number of CPUs of this machine, or infinity if a cluster is configured,
    /// because sandboxes then run on the machines of the workers.
    fn max_cpus(&self) -> f64 {
        if self.settings.cluster.servers.is_some() {
            return f64::INFINITY;
        }
        // Counting the CPUs reads several files.
        static COUNT: LazyLock<u16> = LazyLock::new(|| {
            std::thread::available_parallelism()
                .map_or(u16::MAX, |count| u16::try_from(count.get()).unwrap_or(u16::MAX))
        });
        f64::from(*COUNT)
    }

    /// Returns a warning if more CPUs are configured than this machine has.
    pub fn clamped_cpus(&self) -> Option<String> {
        let cpus = &self.settings.sandbox.cpus;
        let (requested, max) = (**cpus, self.max_cpus());
        let setting = match cpus.source() {
            SettingSource::Flag(flag) => format!("`{flag} {requested}`"),
            source => format!("`sandbox.cpus = {requested}` ({source})"),
        };
        (requested > max)
            .then(|| format!("{setting} exceeds the number of CPUs of this machine: using {max}"))
    }

    /// Returns the limits of the sandboxes of debates: the configured limits, but `consult.memory` as the memory limit,
    /// unless a flag or request sets the memory limit of sandboxes.
    pub fn limits_of_debates(&self) -> SandboxLimits {
        let mut limits = self.limits();
        if self.settings.sandbox.memory.requested().is_none() {
            limits.memory = *self.settings.consult.memory;
        }
        limits
    }

    /// Returns the spec of a sandbox with the configured limits.
    pub fn spec(&self, image: Option<String>) -> Result<SandboxSpec, Failure> {
        let limits = self.limits();
        if let Some(complaint) = limits.validation_error() {
            return Err(Failure::new(FailureKind::Usage, complaint));
        }
        Ok(SandboxSpec { image, limits, ..SandboxSpec::default() })
    }

    /// Returns warnings about the memory limit and the CPU limit: one warning for each of these limits that was set by
    /// a flag but is enforced only as best effort.
    pub fn best_effort_warnings(&self, enforcement: &Enforcement) -> Vec<String> {
        let mut loose = Vec::new();
        let (memory, cpus) =
            (self.settings.sandbox.memory.source(), self.settings.sandbox.cpus.source());
        for (source, by) in [(memory, &enforcement.memory), (cpus, &enforcement.cpu)] {
            if let SettingSource::Flag(flag) = source
                && by.starts_with("best effort")
            {
                loose.push(format!("the limit `{flag}` is {by}"));
            }
        }
        loose
    }
}
