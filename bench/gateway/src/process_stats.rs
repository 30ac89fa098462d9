//! CPU time and memory of this process, as the kernel counts them.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// CPU time of all threads of this process so far.
pub(crate) fn cpu_time() -> anyhow::Result<Duration> {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task")? {
        // The file is missing if the thread has ended in the meantime.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        total += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(total))
}

/// Resident memory of this process, in KB.
pub(crate) fn resident_kb() -> anyhow::Result<u64> {
    status("VmRSS:")
}

/// Peak of the resident memory of this process, in KB.
pub(crate) fn peak_kb() -> anyhow::Result<u64> {
    status("VmHWM:")
}

/// Resets the peak of the resident memory to its current value.
pub(crate) fn reset_peak() -> anyhow::Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the memory peak")
}

fn status(field: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .context("a field is missing in /proc/self/status")?;
    line.trim()
        .trim_end_matches(" kB")
        .parse()
        .context("a field of /proc/self/status is not a number")
}
