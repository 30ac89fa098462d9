//! Statistics of measured times, and memory use of idle sandboxes.

use std::time::Duration;

use anyhow::Context;

/// Measured runs of one contestant.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Milliseconds of each successful run.
    times: Vec<f64>,
    /// Error of each failed run.
    failed: Vec<String>,
}

impl Figures {
    pub(crate) fn add(&mut self, (took, done): (Duration, Result<(), String>)) {
        match done {
            Ok(()) => self.times.push(took.as_secs_f64() * 1e3),
            Err(why) => self.failed.push(why),
        }
    }

    pub(crate) fn percentile(&self, percent: f64) -> Option<f64> {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = ((times.len() as f64 * percent / 100.0).ceil() as usize).saturating_sub(1);
        times.get(index).copied()
    }

    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub(crate) fn success(&self) -> f64 {
        let all = self.times.len() + self.failed.len();
        if all == 0 { 0.0 } else { self.times.len() as f64 / all as f64 }
    }

    pub(crate) fn row(&self, name: &str) -> String {
        let cell = |percent| {
            self.percentile(percent).map_or("–".to_owned(), |time| format!("{time:.1}"))
        };
        let done = format!("{:.0} %", self.success() * 100.0);
        let line = row([name.to_owned(), cell(50.0), cell(95.0), cell(99.0), done]);
        match self.failed.first() {
            Some(why) => format!("{line}  ({why})"),
            None => line,
        }
    }
}

pub(crate) fn row(cells: [String; 5]) -> String {
    let [name, rest @ ..] = cells;
    let rest: String = rest.iter().map(|cell| format!("{cell:>9}")).collect();
    format!("{name:<24}{rest}")
}

/// Private memory of each microVM (the anonymous memory of its QEMU process) in MiB, in ascending order.
pub(crate) fn microvm_memory() -> anyhow::Result<Vec<f64>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").context("reading /proc")?.flatten() {
        let read =
            |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        if !read("comm").starts_with("qemu-system") {
            continue;
        }
        // Memory of the snapshot does not count: all microVMs share it, even if only one has read it so far.
        let own = read("smaps_rollup");
        let own = own.lines().find_map(|line| line.strip_prefix("Anonymous:"));
        let kilobytes =
            own.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        all.extend(kilobytes.map(|kilobytes| kilobytes / 1024.0));
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// Sum of the private memory of all idle sandboxes of a backend, in bytes: the memory of their supervisors, guest
/// agents and interpreters.
pub(crate) fn private_memory(backend: &str) -> anyhow::Result<Option<f64>> {
    let mut kilobytes = 0.0;
    for entry in std::fs::read_dir("/proc").context("reading /proc")?.flatten() {
        let read =
            |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let ours = match read("comm").trim() {
            "assize-guest" => true,
            name if name.starts_with("python3") => read("cmdline").contains("/tmp/code.py"),
            _ => false,
        };
        let in_container = read("cgroup").contains("docker");
        if !ours || in_container != (backend == "docker") {
            continue;
        }
        let private = read("smaps_rollup");
        let private = private.lines().filter(|line| line.starts_with("Private_"));
        kilobytes += private
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok())
            .sum::<f64>();
    }
    Ok((kilobytes > 0.0).then_some(kilobytes * 1024.0))
}
