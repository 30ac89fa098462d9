//! A watch over memory for sandboxes that nothing outside keeps an account of.
//!
//! It looks every so often, so a program can overshoot in between: the host calls it best effort.

use std::time::Duration;

/// How often it looks.
pub(crate) const EVERY: Duration = Duration::from_millis(25);

/// The memory of all processes but this one, in bytes; `None` without a `/proc` to look in. What
/// several share is counted for each, as a file system's memory is not told from theirs: better too
/// much than nothing.
pub(crate) fn memory_in_use() -> Option<u64> {
    let own = std::process::id();
    let processes = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        if pid == own {
            return None;
        }
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let kilobytes = text.lines().filter_map(|line| {
            let counted =
                line.strip_prefix("RssAnon:").or_else(|| line.strip_prefix("RssShmem:"))?;
            counted.trim().trim_end_matches(" kB").parse::<u64>().ok()
        });
        Some(kilobytes.sum::<u64>() * 1024)
    });
    Some(processes.sum())
}
