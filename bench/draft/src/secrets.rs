//! Runs the secret scanner on a folder, such as a checked-out repository, as if every file were new.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use assize_gate::FileKind;
use assize_gate::secrets::SecretScanner;

/// Maximum size of a scanned file in bytes. Larger files cannot be drafts.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Scans all text files of a folder. Prints each finding with a masked secret, and a summary.
pub(crate) fn scan(folder: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    let scanner = SecretScanner::get()?;
    let compiled = started.elapsed();
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut files, mut with_findings, mut bytes, mut time) = (0, 0, 0, Duration::ZERO);
    for path in files_in(folder)? {
        let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
        let content = std::fs::read(&path).with_context(|| name.clone())?;
        let Ok(text) = String::from_utf8(content) else { continue };
        if text.len() > MAX_FILE_BYTES || text.contains('\0') {
            continue;
        }
        let started = Instant::now();
        let found = scanner.in_text(&text, FileKind::of(&name), |_| true);
        time += started.elapsed();
        files += 1;
        bytes += text.len();
        with_findings += usize::from(!found.is_empty());
        for (line, secret) in found {
            println!("{name}:{line}: {} {}", secret.rule, secret.masked);
            *rules.entry(secret.rule).or_default() += 1;
        }
    }
    ensure!(files > 0, "no text file in {}; choose a folder with text files", folder.display());
    println!("\n{with_findings} of {files} files have findings");
    for (rule, count) in rules {
        println!("  {rule:<28} {count:>5}");
    }
    let (megabytes, seconds) = (bytes as f64 / 1e6, time.as_secs_f64());
    println!(
        "{megabytes:.1} MB in {seconds:.2} s ({:.1} MB/s), after {:.0} ms to compile the patterns",
        megabytes / seconds,
        compiled.as_secs_f64() * 1e3
    );
    Ok(())
}

/// All files below a folder, sorted by path, except those in `.git`.
fn files_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && entry.file_name() != ".git" {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
