//! Processes that carry the mark of a run, found on the host by what they were started with.

use rustix::process::{Pid, Signal, kill_process};

/// Those that live now.
pub(crate) fn find(mark: &str) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = rustix::process::getpid();
    entries
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter(|pid| *pid != own && carries(*pid, mark))
        .collect()
}

fn carries(pid: Pid, mark: &str) -> bool {
    // Those that have ended and were not waited for were started with nothing.
    std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .is_ok_and(|line| line.windows(mark.len()).any(|piece| piece == mark.as_bytes()))
}

/// Ends them all, also those that start others while we look.
pub(crate) fn end(mark: &str) {
    for _ in 0..200 {
        let found = find(mark);
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
