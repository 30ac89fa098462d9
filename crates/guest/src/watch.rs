//! A watch over memory for sandboxes that nothing outside keeps an account of.
//!
//! It looks every so often, so a program can overshoot in between: the host calls it best effort.

use std::time::Duration;

/// How often it looks.
pub(crate) const EVERY: Duration = Duration::from_millis(25);

/// The private memory of all processes but this one, in bytes; `None` without a `/proc` to look in.
pub(crate) fn memory_in_use() -> Option<u64> {
    let page = rustix::param::page_size() as u64;
    let own = std::process::id();
    let processes = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        if pid == own {
            return None;
        }
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let mut pages =
            text.split_whitespace().skip(1).map_while(|field| field.parse::<u64>().ok());
        let (resident, shared) = (pages.next()?, pages.next()?);
        Some(resident.saturating_sub(shared) * page)
    });
    Some(processes.sum())
}
