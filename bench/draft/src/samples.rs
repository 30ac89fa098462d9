//! Scores the secret scanner on labelled samples, such as those that `scripts/secret-samples` takes from public
//! scanners.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use assize_gate::FileKind;
use assize_gate::secrets::SecretScanner;
use serde::Deserialize;

/// Labelled text, read from one line of JSON.
#[derive(Deserialize)]
struct Sample {
    /// Name of the set in which the sample is counted.
    set: String,
    /// Name of the public scanner's rule or plugin whose tests contain this sample.
    rule: String,
    /// Whether the text contains a secret.
    secret: bool,
    /// Path of the file that contains the text. The scanner derives the kind of file from this path.
    path: String,
    text: String,
}

/// Counts of the samples in a set or for a rule.
#[derive(Default)]
struct Counts {
    /// Samples with a secret.
    secrets: usize,
    /// Samples with a secret that the scanner reported.
    found: usize,
    /// Samples without a secret.
    others: usize,
    /// Samples without a secret in which the scanner reported a secret (false alarms).
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

/// Scans each sample as a new file. Prints the samples with a wrong result, and the counts.
pub(crate) fn score(file: &Path) -> anyhow::Result<()> {
    let scanner = SecretScanner::get()?;
    let content = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut sets: BTreeMap<String, Counts> = BTreeMap::new();
    let mut missed: BTreeMap<String, Counts> = BTreeMap::new();
    for (index, line) in content.lines().enumerate() {
        let sample: Sample = serde_json::from_str(line)
            .with_context(|| format!("invalid sample in line {}", index + 1))?;
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
    println!(
        "{name:<50} found {found} of {secrets} secrets (recall {recall:.3}), \
         false alarms on {stopped} of {others} samples without a secret"
    );
}
