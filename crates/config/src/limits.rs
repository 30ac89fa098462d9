//! Limits of a sandbox.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What everything in a sandbox together may use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Bytes of memory, without swap.
    pub memory: u64,
    /// Thousandths of a processor.
    pub cpu_millis: u32,
    /// How long one execution may take.
    pub wall: Duration,
    /// Processes and threads.
    pub processes: u32,
    /// Bytes of each of standard output and standard error that are kept of one execution.
    pub output: u64,
    /// Bytes that can be written to files.
    pub disk: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 256 << 20,
            cpu_millis: 500,
            wall: Duration::from_secs(30),
            processes: 128,
            output: 8 << 20,
            disk: 64 << 20,
        }
    }
}

/// The least memory in which an interpreter starts at all.
pub const LEAST_MEMORY: u64 = 16 << 20;

impl Limits {
    /// What is wrong with them, if anything.
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

    /// How many files and folders can be made: enough for small ones, and an end to empty ones.
    pub fn files(&self) -> u64 {
        (self.disk / 4096).max(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_make_no_sense_are_named() {
        assert_eq!(Limits::default().complaint(), None);
        let small = Limits { memory: 1, ..Limits::default() };
        assert_eq!(small.complaint().unwrap(), "memory must be at least 16 MB");
        let disk = Limits { disk: 512 << 20, ..Limits::default() };
        assert!(disk.complaint().unwrap().starts_with("files are kept in memory"));
        let wall = Limits { wall: Duration::ZERO, ..Limits::default() };
        assert_eq!(wall.complaint().unwrap(), "wall time is too small");
    }
}
