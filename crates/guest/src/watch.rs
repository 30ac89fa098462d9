//! Memory watch: enforces the memory limit in sandboxes without a memory cgroup.
//!
//! The memory watch polls, so a program can exceed the memory limit for a short time. Therefore the host reports the
//! limit as best effort.

use std::time::Duration;

/// Interval at which the memory use of programs is checked.
pub(crate) const EVERY: Duration = Duration::from_millis(25);

/// Whether all processes except this one together use more than `limit` bytes.
///
/// At first, shared memory is counted in full for each process, which is cheap. If the sum exceeds the limit, it is
/// computed again with the proportional share of each process.
pub(crate) fn is_over(limit: u64) -> bool {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes: Vec<(u32, u64)> =
        names.filter(|pid| *pid != own).filter_map(|pid| Some((pid, resident(pid)?))).collect();
    processes.iter().map(|(_, bytes)| bytes).sum::<u64>() > limit
        && processes.iter().map(|(pid, bytes)| proportional(*pid).unwrap_or(*bytes)).sum::<u64>()
            > limit
}

/// Resident memory of a process, including shared memory and page tables.
fn resident(pid: u32) -> Option<u64> {
    const COUNTED: [&str; 3] = ["RssAnon:", "RssShmem:", "VmPTE:"];
    let status = |path: String| {
        let text = std::fs::read_to_string(path).ok()?;
        text.contains(COUNTED[0]).then(|| sum(&text, &COUNTED))
    };
    status(format!("/proc/{pid}/status")).or_else(|| {
        // If the main thread has ended, only the status of the other threads lists the memory.
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let mut paths = threads.map(|thread| thread.path().join("status").display().to_string());
        paths.find_map(status)
    })
}

/// Memory of a process with its proportional share of shared memory; `None` if the process prevents the guest agent
/// from reading its memory statistics.
fn proportional(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let tables = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(sum(&text, &["Pss_Anon:", "Pss_Shmem:"]) + sum(&tables, &["VmPTE:"]))
}

/// Returns the sum of the values in the lines that begin with one of the names, such as `VmPTE:`, converted from kB to
/// bytes.
fn sum(text: &str, names: &[&str]) -> u64 {
    let figure = |line: &str| {
        let figure = names.iter().find_map(|name| line.strip_prefix(name))?;
        figure.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    text.lines().filter_map(figure).sum::<u64>() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_figures_of_proc_files_are_added_up_and_converted_to_bytes() {
        let text = "Name:\tx\nVmPTE:\t      76 kB\nRssAnon:\t    1000 kB\nRssFile:\t 5 kB\n";
        assert_eq!(sum(text, &["RssAnon:", "VmPTE:"]), 1076 * 1024);
        let own = std::process::id();
        let (resident, share) = (resident(own).unwrap(), proportional(own).unwrap());
        assert!(resident > 0 && share > 0 && share <= resident + (1 << 20), "{resident} {share}");
    }
}
