//! A watch over memory for sandboxes that nothing outside keeps an account of.
//!
//! It looks every so often, so a program can overshoot in between: the host calls it best effort.

use std::time::Duration;

/// How often it looks.
pub(crate) const EVERY: Duration = Duration::from_millis(25);

/// Whether all processes but this one use more than that many bytes.
///
/// What several share is counted for each at first, which is cheap; only if that is too much is it
/// counted by shares.
pub(crate) fn is_over(limit: u64) -> bool {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes: Vec<(u32, u64)> =
        names.filter(|pid| *pid != own).filter_map(|pid| Some((pid, whole(pid)?))).collect();
    processes.iter().map(|(_, bytes)| bytes).sum::<u64>() > limit
        && processes.iter().map(|(pid, bytes)| share(*pid).unwrap_or(*bytes)).sum::<u64>() > limit
}

/// What a process uses, with all that it shares and with the tables of its pages.
fn whole(pid: u32) -> Option<u64> {
    const COUNTED: [&str; 3] = ["RssAnon:", "RssShmem:", "VmPTE:"];
    let status = |path: String| {
        let text = std::fs::read_to_string(path).ok()?;
        text.contains(COUNTED[0]).then(|| sum(&text, &COUNTED))
    };
    status(format!("/proc/{pid}/status")).or_else(|| {
        // Its first thread has ended; the others have the memory.
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let mut paths = threads.map(|thread| thread.path().join("status").display().to_string());
        paths.find_map(status)
    })
}

/// What it uses, with a share of what it shares. Programs can keep us from knowing.
fn share(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let tables = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(sum(&text, &["Pss_Anon:", "Pss_Shmem:"]) + sum(&tables, &["VmPTE:"]))
}

/// The figures on these lines, in bytes.
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
    fn what_is_counted_is_what_the_kernel_says() {
        let text = "Name:\tx\nVmPTE:\t      76 kB\nRssAnon:\t    1000 kB\nRssFile:\t 5 kB\n";
        assert_eq!(sum(text, &["RssAnon:", "VmPTE:"]), 1076 * 1024);
        let own = std::process::id();
        let (whole, share) = (whole(own).unwrap(), share(own).unwrap());
        assert!(whole > 0 && share > 0 && share <= whole + (1 << 20), "{whole} {share}");
    }
}
