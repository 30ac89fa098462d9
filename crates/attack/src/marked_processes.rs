//! Finds and kills processes of a probe on the host. The command line of each such process contains the mark of the
//! probe, a random text.

use rustix::process::{Pid, Signal, kill_process};

/// Returns the running processes whose command line contains `mark`, the random text of a probe.
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
    // The command line of a zombie process is empty, so zombies are not found.
    std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .is_ok_and(|line| line.windows(mark.len()).any(|piece| piece == mark.as_bytes()))
}

/// Kills all processes whose command line contains `mark`, the random text of a probe. Repeats the search, so that
/// processes that are forked in the meantime are also killed.
pub(crate) fn kill_all(mark: &str) {
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
