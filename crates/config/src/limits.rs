//! Resource limits of a sandbox.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resource limits that all processes in a sandbox share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SandboxLimits {
    /// Maximum memory in bytes. The sandbox gets no swap in addition to this memory.
    pub memory: u64,
    /// CPU limit in thousandths of a processor: 500 allows half a second of CPU time per second.
    pub cpu_millis: u32,
    /// Maximum wall-clock time of one execution.
    pub wall: Duration,
    /// Maximum number of processes and threads.
    pub processes: u32,
    /// Maximum number of bytes that are stored of each output stream (standard output, standard error) of one
    /// execution.
    pub output: u64,
    /// Maximum total size of the files that programs write, in bytes.
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

/// Smallest valid memory limit of a sandbox, in bytes. With less memory, no interpreter starts.
pub const MIN_MEMORY: u64 = 16 << 20;

impl SandboxLimits {
    /// Describes the first invalid limit; `None` if all limits are valid.
    pub fn validation_error(&self) -> Option<String> {
        if self.memory < MIN_MEMORY {
            return Some(format!("the memory limit must be at least {} MB", MIN_MEMORY >> 20));
        }
        if self.disk > self.memory {
            return Some(
                "the disk limit must not exceed the memory limit, because files are stored in memory"
                    .to_owned(),
            );
        }
        let none = [
            (self.cpu_millis == 0, "CPU limit must be greater than 0"),
            (self.wall.is_zero(), "time limit must be greater than 0"),
            (self.processes < 2, "limit on processes must be at least 2"),
            (self.output == 0, "output limit must be greater than 0"),
            (self.disk == 0, "disk limit must be greater than 0"),
        ];
        none.iter().find(|(none, _)| *none).map(|(_, rule)| format!("the {rule}"))
    }

    /// Maximum number of files and folders in the sandbox: one per 4 KiB of the disk limit, but at least 1024. The disk
    /// limit itself does not limit the number of empty files, because they use no disk space.
    pub fn max_files(&self) -> u64 {
        (self.disk / 4096).max(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_sandbox_limits_are_reported() {
        assert_eq!(SandboxLimits::default().validation_error(), None);
        let small = SandboxLimits { memory: 1, ..SandboxLimits::default() };
        assert_eq!(small.validation_error().unwrap(), "the memory limit must be at least 16 MB");
        let disk = SandboxLimits { disk: 512 << 20, ..SandboxLimits::default() };
        assert!(disk.validation_error().unwrap().starts_with("the disk limit must not exceed"));
        let wall = SandboxLimits { wall: Duration::ZERO, ..SandboxLimits::default() };
        assert_eq!(wall.validation_error().unwrap(), "the time limit must be greater than 0");
    }
}
