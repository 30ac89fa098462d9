//! Checks of a proposed change. Each finding is a [`Reason`] with file, line, rule and advice.
//!
//! The checks do no I/O. They look only at added lines, so findings that were in the file before are ignored.

use std::collections::{BTreeMap, HashSet};

use assize_types::Fingerprint;
use assize_types::text::counted;
use assize_workspace::{FileError, UnreadableIgnoreList, WorkspacePath};

use crate::diff::Diff;
use crate::file_kind::FileKind;
use crate::machine_paths::{MachinePath, PathScanner};
use crate::path_rules::PathRules;
use crate::pattern::InvalidPattern;
use crate::policy::Policy;
use crate::reason::{Reason, ReasonEffect};
use crate::secrets::{FoundSecret, SecretScanner};
use crate::{hidden_text, runs_on_build};

/// A proposed change: the draft and the file that it replaces.
#[derive(Debug)]
pub struct ProposedChange {
    pub path: WorkspacePath,
    /// Content of the file when the draft was requested; `None` if the file did not exist.
    pub base: Option<Vec<u8>>,
    /// Proposed content of the file.
    pub draft: Vec<u8>,
    /// Permission bits of the draft.
    pub draft_mode: u32,
    /// Hash of the current content of the file; `None` if the file does not exist.
    pub current_hash: Result<Option<Fingerprint>, FileError>,
    /// For a new file whose path matches an existing path except for upper and lower case: the existing name that
    /// differs.
    pub case_conflict: Option<String>,
    /// Current permission bits of the file; `None` if the file does not exist or cannot be read.
    pub mode: Option<u32>,
    /// Name of the ignore list that makes git ignore this file; `None` if git does not ignore the file.
    pub ignored_by: Result<Option<String>, UnreadableIgnoreList>,
}

impl ProposedChange {
    /// Creates a change that adds a new file.
    pub fn new_file(path: WorkspacePath, draft: impl Into<Vec<u8>>) -> ProposedChange {
        ProposedChange {
            path,
            base: None,
            draft: draft.into(),
            draft_mode: DRAFT_MODE,
            current_hash: Ok(None),
            case_conflict: None,
            mode: None,
            ignored_by: Ok(None),
        }
    }
}

/// Permission bits that drafts are created with.
pub const DRAFT_MODE: u32 = 0o600;

/// Maximum number of secrets, and of machine-specific paths, that are reported per file.
const MAX_PER_KIND: usize = 20;

/// Creates a reason that escalates the draft to a reviewer.
fn escalate(path: &WorkspacePath, rule: &str, message: impl Into<String>) -> Reason {
    Reason::of_file(&path.to_string(), ReasonEffect::Escalate, rule, message)
}

/// Returns all reasons against a change, in the order of the checks.
pub fn check(
    change: &ProposedChange,
    policy: &Policy,
    places: &PathRules,
) -> Result<Vec<Reason>, InvalidPattern> {
    let path = &change.path;
    let mut reasons = Vec::new();
    if places.is_hidden(path) || !places.is_allowed(path) {
        let rule = "path/not-allowed";
        let message = "the task is not allowed to change this file: the file is hidden from agents \
            or outside the paths of the task contract";
        let reason = Reason::of_file(&path.to_string(), ReasonEffect::Reject, rule, message);
        reasons.push(reason.with_advice("do not change this file"));
    }
    let (base, draft) = (change.base.as_deref().unwrap_or_default(), &*change.draft);
    let is_binary = |bytes: &[u8]| bytes.contains(&0) || std::str::from_utf8(bytes).is_err();
    let binary = is_binary(base) || is_binary(draft);
    let text = String::from_utf8_lossy(draft);
    let diff = Diff::between(&String::from_utf8_lossy(base), &text);
    reasons.extend(secrets_in(path, &diff, &text)?);
    reasons.extend(paths_in(path, &diff)?);
    if diff.deletion_ratio() > policy.max_deletion {
        let message = format!(
            "{} of {} lines are removed or replaced ({:.1} %; the limit is {:.1} %)",
            diff.removed_or_replaced,
            diff.original,
            diff.deletion_ratio() * 100.0,
            policy.max_deletion * 100.0
        );
        reasons.push(escalate(path, "deletion", message));
    }
    if diff.lines() > policy.max_lines {
        let (lines, most) = (diff.lines(), policy.max_lines);
        let message = format!("{lines} lines are added or removed (the limit is {most})");
        reasons.push(escalate(path, "scope/lines", message));
    }
    reasons.extend(automatic_effects(change, places));
    if change.draft_mode & 0o7777 != DRAFT_MODE {
        let mode = change.draft_mode;
        let message =
            format!("the permissions of the draft were changed from {DRAFT_MODE:o} to {mode:o}");
        reasons.push(escalate(path, "mode", message));
    }
    if binary {
        let message = "the original file or the draft is not UTF-8 text";
        reasons.push(escalate(path, "binary", message));
    }
    if change.base.is_none() && path.parts().iter().any(|part| is_confusing_name(part)) {
        let message = "the path of the new file contains characters that can be mistaken for \
            others or that shells interpret";
        reasons.push(escalate(path, "look-alike", message));
    }
    if !binary {
        reasons.extend(hidden_text(path, &diff));
    }
    if let Some(twin) = &change.case_conflict {
        let message = format!(
            "the path of the new file differs from the existing name `{twin}` only in case; some \
             file systems treat both as the same file"
        );
        reasons.push(escalate(path, "look-alike", message));
    }
    reasons.extend(conflict(change));
    Ok(reasons)
}

/// Whether a file name can be mistaken for another name or contains characters that shells interpret.
fn is_confusing_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+@ ()[],=~#%".contains(c);
    !name.chars().all(plain) || name.starts_with(['-', ' ', '~']) || name.ends_with([' ', '.'])
}

/// Returns reasons to escalate the change: a tool runs or reads the file automatically, `git diff` does not show the
/// change, or the file is executable.
fn automatic_effects(change: &ProposedChange, places: &PathRules) -> Vec<Reason> {
    let path = &change.path;
    let mut reasons = Vec::new();
    if let Some(why) = places.protected_by(path) {
        let message = format!("this file is protected: {why}");
        reasons.push(escalate(path, "protected", message));
    } else if let Some(runs) = places.runs_on_build(path) {
        let base = String::from_utf8_lossy(change.base.as_deref().unwrap_or_default());
        let draft = String::from_utf8_lossy(&change.draft);
        if let Some(changed) = runs_on_build::change(runs, &base, &draft) {
            let reason = escalate(path, "runs-on-build", changed.message);
            reasons.push(Reason { line: changed.line, ..reason });
        }
    }
    let ignored = match &change.ignored_by {
        Ok(list) => list.as_ref().map(|list| {
            format!(
                "git ignores this file because of `{list}`, so `git diff` does not show the change"
            )
        }),
        Err(error) => Some(format!("cannot determine whether git ignores this file: {error}")),
    };
    reasons.extend(ignored.map(|message| escalate(path, "git-ignored", message)));
    if change.mode.is_some_and(|mode| mode & 0o111 != 0) && !places.is_source(path) {
        let message = "this file is executable and not in a source folder";
        reasons.push(escalate(path, "executable", message));
    }
    reasons
}

/// Maximum number of lines with hidden text that are reported per rule.
const MAX_HIDDEN: usize = 5;

/// Finds invisible, confusable and control characters in added lines. Reports one finding per rule and line, and at
/// most [`MAX_HIDDEN`] lines per rule.
fn hidden_text(path: &WorkspacePath, diff: &Diff) -> Vec<Reason> {
    let kind = FileKind::of(&path.to_string());
    let mut reasons: Vec<Reason> = Vec::new();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, line) in &diff.added {
        for found in hidden_text::in_line(line, *number == 1, kind) {
            let count = lines.entry(found.rule).or_default();
            *count += 1;
            if *count <= MAX_HIDDEN {
                let message = format!("column {}: {}", found.column, found.message);
                reasons.push(escalate(path, found.rule, message).at(*number));
            }
        }
    }
    for (rule, count) in lines.into_iter().filter(|(_, count)| *count > MAX_HIDDEN) {
        if let Some(last) = reasons.iter_mut().rfind(|reason| reason.rule == rule) {
            let more = counted(count - MAX_HIDDEN, "more line", "more lines");
            last.message.push_str(&format!("; {more} with the same finding"));
        }
    }
    reasons
}

/// Returns a reason to escalate if the file has changed since the draft was requested, or cannot be read.
fn conflict(change: &ProposedChange) -> Option<Reason> {
    let (rule, message) = match (&change.current_hash, change.base.as_ref().map(Fingerprint::of)) {
        (Ok(now), base) if *now == base => return None,
        (Err(FileError::Link), _) => ("symlink", "the file is now a symbolic link".to_owned()),
        (Err(error), _) => ("conflict", format!("the file cannot be read: {error}")),
        (Ok(None), _) => {
            ("conflict", "the file was deleted after the draft was requested".to_owned())
        }
        (Ok(Some(_)), None) => {
            ("conflict", "the file was created after the draft was requested".to_owned())
        }
        (Ok(Some(_)), Some(_)) => {
            ("conflict", "the file has changed since the draft was requested".to_owned())
        }
    };
    Some(escalate(&change.path, rule, message))
}

/// Creates the reason for a secret or path that a scanner found. If `advice` is given, the reason rejects the draft; if
/// not, it escalates the draft to a reviewer. If a comment on the line allows the finding (`allowed`), the reason
/// always escalates: the agent that wrote the line may have written the comment too, so a reviewer must confirm the
/// comment.
fn finding(
    path: &WorkspacePath,
    (number, rule): (usize, String),
    message: String,
    allowed: bool,
    advice: Option<&str>,
) -> Reason {
    let note = if allowed { "; a comment on the line allows this finding" } else { "" };
    let message = format!("the line contains {message}{note}");
    let reason = match advice.filter(|_| !allowed) {
        Some(advice) => {
            let reason = Reason::of_file(&path.to_string(), ReasonEffect::Reject, &rule, message);
            reason.with_advice(advice)
        }
        None => escalate(path, &rule, message),
    };
    reason.at(number)
}

/// Returns the reasons for secrets on added lines. Lines that were only moved or re-indented do not count as added.
fn secrets_in(
    path: &WorkspacePath,
    diff: &Diff,
    draft: &str,
) -> Result<Vec<Reason>, InvalidPattern> {
    let kind = FileKind::of(&path.to_string());
    let new: HashSet<usize> = diff.new_lines().map(|(number, _)| *number).collect();
    let found = SecretScanner::get()?.in_text(draft, kind, |number| new.contains(&number));
    let reason = |(number, secret): (usize, FoundSecret)| {
        let encoded = if secret.encoded { ", encoded" } else { "" };
        let message = format!("{}{encoded}: {}", secret.what, secret.masked);
        let advice = "remove the secret and read it from the environment or a secret store";
        let rule = format!("secret/{}", secret.rule);
        finding(path, (number, rule), message, secret.allowed, Some(advice))
    };
    Ok(found.into_iter().take(MAX_PER_KIND).map(reason).collect())
}

/// Returns the reasons for machine-specific paths on added lines. Lines that were only moved or re-indented do not
/// count as added.
fn paths_in(path: &WorkspacePath, diff: &Diff) -> Result<Vec<Reason>, InvalidPattern> {
    let (kind, scanner) = (FileKind::of(&path.to_string()), PathScanner::get()?);
    let found = diff.new_lines().flat_map(|(number, line)| {
        scanner.in_line(line, kind).into_iter().map(move |found| (*number, found))
    });
    let reason = |(number, found): (usize, MachinePath)| {
        let message = format!("{}: `{}`", found.what, found.found);
        let advice = "read the path from a setting, an argument or the environment";
        let advice = (!found.needs_review).then_some(advice);
        let rule = format!("path/{}", found.rule);
        finding(path, (number, rule), message, found.allowed, advice)
    };
    Ok(found.take(MAX_PER_KIND).map(reason).collect())
}
