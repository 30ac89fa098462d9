//! Runs the gate on ordinary edits: the file changes in the last commits of this repository, each as a separate draft.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use assize_gate::{GateVerdict, Policy, ProposedChange, check};
use assize_types::Fingerprint;
use assize_workspace::WorkspacePath;

/// Runs the gate on the last `count` modifications of files, and prints how many got each verdict.
pub(crate) fn judge(count: usize) -> anyhow::Result<()> {
    let log = git(&["log", "--no-merges", "--diff-filter=M", "--name-only", "--format=%x00%H"])?;
    let log = String::from_utf8(log)?;
    let changes = log.split('\0').skip(1).flat_map(|commit| {
        let mut lines = commit.lines().filter(|line| !line.is_empty());
        let hash = lines.next().unwrap_or_default();
        lines.map(move |path| (hash, path))
    });
    let policy = Policy::default();
    let places = policy.path_rules()?;
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rules: BTreeMap<(&str, String), usize> = BTreeMap::new();
    let (mut all, mut rewritten) = (0, 0);
    for (commit, path) in changes.take(count) {
        let before = git(&["show", &format!("{commit}^:{path}")])?;
        let draft = git(&["show", &format!("{commit}:{path}")])?;
        let inside =
            WorkspacePath::parse(path, Path::new("/")).context("invalid path in the repository")?;
        let change = ProposedChange {
            current_hash: Ok(Some(Fingerprint::of(&before))),
            base: Some(before),
            mode: Some(mode(commit, path)?),
            ..ProposedChange::new_file(inside, draft)
        };
        let reasons = check(&change, &policy, &places)?;
        let verdict = GateVerdict::of(&reasons, policy.review);
        *verdicts.entry(verdict.name()).or_default() += 1;
        let mut seen: Vec<&str> = reasons.iter().map(|reason| reason.rule.as_str()).collect();
        seen.sort_unstable();
        seen.dedup();
        rewritten += usize::from(seen == ["deletion"]);
        for rule in seen {
            *rules.entry((verdict.name(), rule.to_owned())).or_default() += 1;
        }
        all += 1;
    }
    ensure!(all > 0, "this repository has no commit that changes a file");
    let share = |count: usize| count as f64 * 100.0 / all as f64;
    println!(
        "{all} file changes in this repository's commits, each checked separately by the gate:"
    );
    for (verdict, count) in &verdicts {
        println!("  {verdict:<10} {count:>5}  {:5.1} %", share(*count));
    }
    println!(
        "  changes with findings of the rule `deletion` only: {rewritten} ({:.1} %)",
        share(rewritten)
    );
    for ((verdict, rule), count) in &rules {
        println!("    {verdict:<10} {rule:<28} {count:>5}");
    }
    Ok(())
}

/// Permissions of a file in the parent of a commit.
fn mode(commit: &str, path: &str) -> anyhow::Result<u32> {
    let listed = String::from_utf8(git(&["ls-tree", &format!("{commit}^"), "--", path])?)?;
    let mode = listed.split(' ').next().unwrap_or_default();
    Ok(u32::from_str_radix(mode, 8).context("`git ls-tree` printed an invalid file mode")? & 0o777)
}

fn git(args: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new("git").args(args).output().context("cannot run git")?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", args.join(" "), why.trim());
    Ok(output.stdout)
}
