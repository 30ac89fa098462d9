//! Limits of sandboxes, by the settings.

use assize_config::{Limits, Source};
use assize_types::{Failure, FailureKind};

use super::Sandboxes;
use crate::{Enforcement, Spec};

impl Sandboxes {
    /// The limits that the settings ask for.
    pub fn limits(&self) -> Limits {
        let sandbox = &self.settings.sandbox;
        let cpus = sandbox.cpus.min(self.most_cpus());
        Limits {
            memory: *sandbox.memory,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at most 1024, checked"
            )]
            cpu_millis: (cpus * 1000.0).round() as u32,
            wall: *sandbox.timeout_seconds,
            processes: *sandbox.processes,
            output: *sandbox.output,
            disk: *sandbox.disk,
        }
    }

    /// The processors that a sandbox can have: those of this machine. In a cluster the worker decides.
    fn most_cpus(&self) -> f64 {
        if self.settings.cluster.servers.is_some() {
            return f64::INFINITY;
        }
        let processors = std::thread::available_parallelism()
            .map_or(u16::MAX, |count| u16::try_from(count.get()).unwrap_or(u16::MAX));
        f64::from(processors)
    }

    /// A warning if more processors are asked for than this machine has.
    pub fn clamped_cpus(&self) -> Option<String> {
        let cpus = &self.settings.sandbox.cpus;
        let (asked, most) = (**cpus, self.most_cpus());
        let setting = match cpus.source() {
            Source::Flag(flag) => format!("`{flag} {asked}`"),
            source => format!("`sandbox.cpus = {asked}` ({source})"),
        };
        (asked > most).then(|| {
            format!("{setting} is more than the {most} processors of this machine: using {most}")
        })
    }

    /// The same for debates: a debate computes nothing, so what it may use is its own setting, unless a flag says
    /// otherwise.
    pub fn limits_of_debates(&self) -> Limits {
        let mut limits = self.limits();
        if self.settings.sandbox.memory.requested().is_none() {
            limits.memory = *self.settings.consult.memory;
        }
        limits
    }

    /// The sandbox that is asked for.
    pub fn spec(&self, image: Option<String>) -> Result<Spec, Failure> {
        let limits = self.limits();
        if let Some(complaint) = limits.complaint() {
            return Err(Failure::new(FailureKind::Usage, complaint));
        }
        Ok(Spec { image, limits, ..Spec::default() })
    }

    /// Which limits were asked for by a flag and are held by best effort alone, in words.
    pub fn loose(&self, enforcement: &Enforcement) -> Vec<String> {
        let mut loose = Vec::new();
        let (memory, cpus) =
            (self.settings.sandbox.memory.source(), self.settings.sandbox.cpus.source());
        for (source, by) in [(memory, &enforcement.memory), (cpus, &enforcement.cpu)] {
            if let Source::Flag(flag) = source
                && by.starts_with("best effort")
            {
                loose.push(format!("`{flag}` is {by}"));
            }
        }
        loose
    }
}
