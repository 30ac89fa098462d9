//! The checks of a proposed change, in order. Each finding is a [`Reason`] with the file, the line, the rule and what
//! to do.
//!
//! Nothing here touches a file. Checks look at added lines alone: preexisting findings are ignored.

use std::collections::{BTreeMap, HashSet};

use assize_types::Fingerprint;
use assize_workspace::{FileError, Inside};

use crate::diff::Diff;
use crate::file_kind::FileKind;
use crate::hardcoded::{HardCoded, PathScanner};
use crate::pattern::BadPattern;
use crate::places::Places;
use crate::policy::Policy;
use crate::reason::{Effect, Reason};
use crate::secrets::{Secret, SecretScanner};
use crate::{hidden_text, runs_on_build};

/// A draft beside what it is to replace.
#[derive(Debug)]
pub struct Change {
    pub path: Inside,
    /// The file as it was when the draft was requested; `None` if there was none.
    pub base: Option<Vec<u8>>,
    /// The proposed content.
    pub draft: Vec<u8>,
    /// The permissions of the draft itself.
    pub draft_mode: u32,
    /// What is there now.
    pub now: Result<Option<Fingerprint>, FileError>,
    /// A file beside a new one whose name differs in case alone.
    pub twin: Option<String>,
    /// The permissions of the file that is there now.
    pub mode: Option<u32>,
    /// The file whose patterns make git ignore this one.
    pub ignored_by: Option<String>,
}

impl Change {
    /// A new file where there is none.
    pub fn new_file(path: Inside, draft: impl Into<Vec<u8>>) -> Change {
        Change {
            path,
            base: None,
            draft: draft.into(),
            draft_mode: DRAFT_MODE,
            now: Ok(None),
            twin: None,
            mode: None,
            ignored_by: None,
        }
    }
}

/// The permissions that a draft is made with.
pub const DRAFT_MODE: u32 = 0o600;

/// Of each kind of finding in a file, so many are told.
const MOST_OF_A_KIND: usize = 20;

/// A reason for which a reviewer decides.
fn escalate(path: &Inside, rule: &str, message: impl Into<String>) -> Reason {
    Reason::of_file(&path.to_string(), Effect::Escalate, rule, message)
}

/// All that speaks against a change, in the order of the checks.
pub fn check(change: &Change, policy: &Policy, places: &Places) -> Result<Vec<Reason>, BadPattern> {
    let path = &change.path;
    let mut reasons = Vec::new();
    if places.is_hidden(path) || !places.is_allowed(path) {
        let (rule, message) = ("path/not-allowed", "this file may not be drafted");
        let reason = Reason::of_file(&path.to_string(), Effect::Reject, rule, message);
        reasons.push(reason.advise("leave it alone"));
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
            "{} of {} lines are removed or replaced ({:.1} %, at most {:.1} %)",
            diff.lost,
            diff.original,
            diff.deletion_ratio() * 100.0,
            policy.max_deletion * 100.0
        );
        reasons.push(escalate(path, "deletion", message));
    }
    if diff.lines() > policy.max_lines {
        let (lines, most) = (diff.lines(), policy.max_lines);
        let message = format!("{lines} lines are added or removed, and {most} may be");
        reasons.push(escalate(path, "scope/lines", message));
    }
    reasons.extend(runs_by_itself(change, places));
    if change.draft_mode & 0o7777 != DRAFT_MODE {
        let message = format!("the draft's permissions were changed to {:o}", change.draft_mode);
        reasons.push(escalate(path, "mode", message));
    }
    if binary {
        reasons.push(escalate(path, "binary", "it is not text"));
    }
    if change.base.is_none() && path.parts().iter().any(|part| is_odd(part)) {
        let message = "the new name has letters or signs that can be taken for something else";
        reasons.push(escalate(path, "look-alike", message));
    }
    if !binary {
        reasons.extend(hidden_text(path, &diff));
    }
    if let Some(twin) = &change.twin {
        let message = format!("on some disks it is the same file as `{twin}`");
        reasons.push(escalate(path, "look-alike", message));
    }
    reasons.extend(conflict(change));
    Ok(reasons)
}

/// Whether a name can be taken for another, or for something that a shell obeys.
fn is_odd(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+@ ()[],=~#%".contains(c);
    !name.chars().all(plain) || name.starts_with(['-', ' ', '~']) || name.ends_with([' ', '.'])
}

/// That the file is run, built or obeyed without being asked, or that no `git diff` shows the change.
fn runs_by_itself(change: &Change, places: &Places) -> Vec<Reason> {
    let path = &change.path;
    let mut reasons = Vec::new();
    if let Some(tool) = places.protected_by(path) {
        reasons.push(escalate(path, "protected", format!("this file is protected ({tool})")));
    } else if let Some(runs) = places.runs_on_build(path) {
        let base = String::from_utf8_lossy(change.base.as_deref().unwrap_or_default());
        let draft = String::from_utf8_lossy(&change.draft);
        if let Some(changed) = runs_on_build::change(runs, &base, &draft) {
            let reason = escalate(path, "runs-on-build", changed.message);
            reasons.push(Reason { line: changed.line, ..reason });
        }
    }
    if let Some(list) = &change.ignored_by {
        let message = format!("git ignores this file (`{list}`), so no diff shows the change");
        reasons.push(escalate(path, "git-ignored", message));
    }
    if change.mode.is_some_and(|mode| mode & 0o111 != 0) && !places.is_source(path) {
        let message = "this file is executable and in no folder of source code";
        reasons.push(escalate(path, "executable", message));
    }
    reasons
}

/// Lines with hidden text that are named for each rule.
const MOST_HIDDEN: usize = 5;

/// Characters in added lines that a reader does not see or takes for others: the first of each rule in a line, in the first
/// lines that have any.
fn hidden_text(path: &Inside, diff: &Diff) -> Vec<Reason> {
    let kind = FileKind::of(&path.to_string());
    let mut reasons: Vec<Reason> = Vec::new();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, line) in &diff.added {
        for found in hidden_text::in_line(line, *number == 1, kind) {
            let count = lines.entry(found.rule).or_default();
            *count += 1;
            if *count <= MOST_HIDDEN {
                let message = format!("column {}: {}", found.column, found.message);
                reasons.push(escalate(path, found.rule, message).at(*number));
            }
        }
    }
    for (rule, count) in lines.into_iter().filter(|(_, count)| *count > MOST_HIDDEN) {
        if let Some(last) = reasons.iter_mut().rfind(|reason| reason.rule == rule) {
            last.message.push_str(&format!("; {} more lines have such text", count - MOST_HIDDEN));
        }
    }
    reasons
}

/// That the original is no longer what the draft was made from.
fn conflict(change: &Change) -> Option<Reason> {
    let (rule, message) = match (&change.now, change.base.as_ref().map(Fingerprint::of)) {
        (Ok(now), base) if *now == base => return None,
        (Err(FileError::Link), _) => ("symlink", "the file is a link now".to_owned()),
        (Err(error), _) => ("conflict", format!("the file cannot be read: {error}")),
        (Ok(None), _) => ("conflict", "the file has gone meanwhile".to_owned()),
        (Ok(Some(_)), None) => ("conflict", "a file of that name has come meanwhile".to_owned()),
        (Ok(Some(_)), Some(_)) => {
            ("conflict", "the file has changed since the draft was asked for".to_owned())
        }
    };
    Some(escalate(&change.path, rule, message))
}

/// What a scanner found in a line: a reviewer decides on it, or it is sent back with what to do. A comment that lets it
/// stay was written by the worker as well as the line, so a reviewer confirms it.
fn finding(
    path: &Inside,
    (number, rule): (usize, String),
    message: String,
    allowed: bool,
    what_to_do: Option<&str>,
) -> Reason {
    let stays = if allowed { "; a comment in the line says that it may stay" } else { "" };
    let message = format!("{message}{stays}");
    let reason = match what_to_do.filter(|_| !allowed) {
        Some(what_to_do) => {
            let reason = Reason::of_file(&path.to_string(), Effect::Reject, &rule, message);
            reason.advise(what_to_do)
        }
        None => escalate(path, &rule, message),
    };
    reason.at(number)
}

/// The secrets of the draft that stand on lines with new words.
fn secrets_in(path: &Inside, diff: &Diff, draft: &str) -> Result<Vec<Reason>, BadPattern> {
    let kind = FileKind::of(&path.to_string());
    let new: HashSet<usize> = diff.new_words().map(|(number, _)| *number).collect();
    let found = SecretScanner::get()?.in_text(draft, kind, |number| new.contains(&number));
    let reason = |(number, secret): (usize, Secret)| {
        let encoded = if secret.encoded { ", encoded" } else { "" };
        let message = format!("{}{encoded}: {}", secret.what, secret.masked);
        let what_to_do = "take it out and read it from the environment or a secret store";
        let rule = format!("secret/{}", secret.rule);
        finding(path, (number, rule), message, secret.allowed, Some(what_to_do))
    };
    Ok(found.into_iter().take(MOST_OF_A_KIND).map(reason).collect())
}

fn paths_in(path: &Inside, diff: &Diff) -> Result<Vec<Reason>, BadPattern> {
    let (kind, scanner) = (FileKind::of(&path.to_string()), PathScanner::get()?);
    let found = diff.new_words().flat_map(|(number, line)| {
        scanner.in_line(line, kind).into_iter().map(move |found| (*number, found))
    });
    let reason = |(number, found): (usize, HardCoded)| {
        let message = format!("{}: `{}`", found.what, found.found);
        let what_to_do = "take the path from a setting, an argument or the environment";
        let what_to_do = (!found.doubtful).then_some(what_to_do);
        let rule = format!("path/{}", found.rule);
        finding(path, (number, rule), message, found.allowed, what_to_do)
    };
    Ok(found.take(MOST_OF_A_KIND).map(reason).collect())
}
