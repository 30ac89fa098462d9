//! Available memory of this machine, or of the container that this process runs in.

use crate::cgroup;

/// Number of bytes of memory that are available without swapping; `None` if the kernel does not report the number.
pub fn available() -> Option<u64> {
    let groups = cgroup::own_memory().into_iter().filter_map(|group| group.available());
    groups.chain(meminfo("MemAvailable")).min()
}

/// Returns an entry of `/proc/meminfo`, such as `MemTotal`, in bytes.
pub fn meminfo(name: &str) -> Option<u64> {
    let list = std::fs::read_to_string("/proc/meminfo").ok()?;
    entry(&list, name)
}

fn entry(list: &str, name: &str) -> Option<u64> {
    let line = list.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_entry_is_converted_to_bytes() {
        let list = "MemTotal:       16000 kB\nMemAvailable:    3000 kB\nHugePages_Total: 0\n";
        assert_eq!(entry(list, "MemAvailable"), Some(3_072_000));
        assert_eq!(entry(list, "Mem"), None);
        assert_eq!(entry(list, "HugePages_Total"), None);
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
