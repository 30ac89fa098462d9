//! The secret scanner on labelled samples, such as those that `scripts/secret-samples` takes from public scanners.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use assize_gate::FileKind;
use assize_gate::secrets::SecretScanner;
use serde::Deserialize;

/// A text with its label: a line of JSON.
#[derive(Deserialize)]
struct Sample {
    /// The set that it is counted in.
    set: String,
    /// The rule or plugin that its own project tries with it.
    rule: String,
    /// Whether it holds a secret.
    secret: bool,
    /// The path that says what kind of file it is.
    path: String,
    text: String,
}

/// Counts of a set or rule.
#[derive(Default)]
struct Counts {
    secrets: usize,
    found: usize,
    others: usize,
    stopped: usize,
}

impl Counts {
    fn add(&mut self, secret: bool, reported: bool) {
        self.secrets += usize::from(secret);
        self.found += usize::from(secret && reported);
        self.others += usize::from(!secret);
        self.stopped += usize::from(!secret && reported);
    }
}

/// Scans each sample of a file as a new file, prints those that were judged otherwise than labelled, and counts.
pub(crate) fn score(file: &Path) -> anyhow::Result<()> {
    let scanner = SecretScanner::get()?;
    let content = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut sets: BTreeMap<String, Counts> = BTreeMap::new();
    let mut missed: BTreeMap<String, Counts> = BTreeMap::new();
    for (index, line) in content.lines().enumerate() {
        let sample: Sample =
            serde_json::from_str(line).with_context(|| format!("line {}", index + 1))?;
        let found = scanner.in_text(&sample.text, FileKind::of(&sample.path), |_| true);
        let reported = !found.is_empty();
        let name = format!("{} {}", sample.set, sample.rule);
        if reported != sample.secret {
            let rules: Vec<&str> = found.iter().map(|(_, secret)| secret.rule).collect();
            let what = if reported { "stopped" } else { "missed" };
            let text: String = sample.text.chars().take(300).collect();
            println!("{what} {name} {rules:?} {text:?}");
        }
        sets.entry(sample.set).or_default().add(sample.secret, reported);
        missed.entry(name).or_default().add(sample.secret, reported);
    }
    ensure!(!sets.is_empty(), "no sample in {}; see scripts/secret-samples", file.display());
    println!();
    for (name, counts) in missed.iter().filter(|(_, c)| c.found < c.secrets || c.stopped > 0) {
        print(name, counts);
    }
    println!();
    for (name, counts) in &sets {
        print(name, counts);
    }
    Ok(())
}

fn print(name: &str, counts: &Counts) {
    let Counts { secrets, found, others, stopped } = counts;
    let recall = if *secrets == 0 { 1.0 } else { *found as f64 / *secrets as f64 };
    println!("{name:<50} found {found} of {secrets} ({recall:.3}), stopped {stopped} of {others}");
}
