//! Resource limits of a sandbox.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resource limits that all processes in a sandbox share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SandboxLimits {
    /// Bytes of memory, without swap.
    pub memory: u64,
    /// CPU share, in thousandths of a processor.
    pub cpu_millis: u32,
    /// Time limit of one execution.
    pub wall: Duration,
    /// Maximum number of processes and threads.
    pub processes: u32,
    /// Bytes of standard output, and of standard error, that are kept from one execution.
    pub output: u64,
    /// Bytes that programs can write to files.
    pub disk: u64,
}

impl Default for SandboxLimits {
    fn default() -> SandboxLimits {
        SandboxLimits {
            memory: 256 << 20,
            cpu_millis: 500,
            wall: Duration::from_secs(30),
            processes: 128,
            output: 8 << 20,
            disk: 64 << 20,
        }
    }
}

/// Minimum memory limit: with less, no interpreter starts.
pub const LEAST_MEMORY: u64 = 16 << 20;

impl SandboxLimits {
    /// Describes the first invalid limit; `None` if all are valid.
    pub fn complaint(&self) -> Option<String> {
        if self.memory < LEAST_MEMORY {
            return Some(format!("memory must be at least {} MB", LEAST_MEMORY >> 20));
        }
        if self.disk > self.memory {
            return Some(
                "files are kept in memory, so disk cannot be larger than memory".to_owned(),
            );
        }
        let none = [
            (self.cpu_millis == 0, "CPU"),
            (self.wall.is_zero(), "wall time"),
            (self.processes < 2, "processes"),
            (self.output == 0, "output"),
            (self.disk == 0, "disk"),
        ];
        none.iter().find(|(none, _)| *none).map(|(_, what)| format!("{what} is too small"))
    }

    /// Maximum number of files and folders: enough for small files, but empty files cannot be created without end.
    pub fn files(&self) -> u64 {
        (self.disk / 4096).max(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_limits_are_reported() {
        assert_eq!(SandboxLimits::default().complaint(), None);
        let small = SandboxLimits { memory: 1, ..SandboxLimits::default() };
        assert_eq!(small.complaint().unwrap(), "memory must be at least 16 MB");
        let disk = SandboxLimits { disk: 512 << 20, ..SandboxLimits::default() };
        assert!(disk.complaint().unwrap().starts_with("files are kept in memory"));
        let wall = SandboxLimits { wall: Duration::ZERO, ..SandboxLimits::default() };
        assert_eq!(wall.complaint().unwrap(), "wall time is too small");
    }
}
