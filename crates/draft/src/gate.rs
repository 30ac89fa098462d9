//! What speaks against a draft: every check, in order, with the file, the line, the rule and what to do.
//!
//! Nothing here touches a file. Checks look at added lines alone, so that what was there before is held
//! against nobody.

use std::collections::{BTreeMap, HashSet};

use assize_config::Review;
use assize_types::Fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff::Diff;
use crate::file_kind::FileKind;
use crate::hardcoded::{HardCoded, PathScanner};
use crate::hidden_text;
use crate::inside::Inside;
use crate::pattern::BadPattern;
use crate::places::Places;
use crate::policy::Policy;
use crate::runs_on_build;
use crate::secrets::{Secret, SecretScanner};
use crate::workspace::{FileError, Original};

/// What whoever wrote it can do where a person decides.
pub(crate) const WAIT: &str = "a person decides; leave this file alone until they have";

/// What a reason does to a draft.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A person decides.
    Escalate,
    /// It is sent back.
    Reject,
}

/// Something about a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    pub effect: Effect,
    /// Such as `secret/github-token` or `scope`.
    pub rule: String,
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is the matter.
    pub message: String,
    /// What whoever wrote it can do.
    pub what_to_do: String,
}

impl Reason {
    pub(crate) fn about(path: &Inside, effect: Effect, rule: impl Into<String>) -> Reason {
        Reason {
            effect,
            rule: rule.into(),
            file: path.to_string(),
            line: None,
            message: String::new(),
            what_to_do: String::new(),
        }
    }

    pub(crate) fn at(self, line: usize) -> Reason {
        Reason { line: Some(line), ..self }
    }

    pub(crate) fn saying(self, message: impl Into<String>, what_to_do: &str) -> Reason {
        Reason { message: message.into(), what_to_do: what_to_do.to_owned(), ..self }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {} [{}]", self.message, self.rule)?;
        if self.what_to_do.is_empty() { Ok(()) } else { write!(f, "; {}", self.what_to_do) }
    }
}

/// How a submission fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Accepted,
    Rejected,
    Escalated,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::Rejected => "rejected",
            Verdict::Escalated => "escalated",
        }
    }

    /// What the reasons come to.
    pub fn of(reasons: &[Reason], review: Review) -> Verdict {
        match (reasons.iter().map(|reason| reason.effect).max(), review) {
            (Some(Effect::Reject), _) => Verdict::Rejected,
            (Some(Effect::Escalate), Review::Never) => Verdict::Rejected,
            (Some(Effect::Escalate), _) | (_, Review::Always) => Verdict::Escalated,
            _ => Verdict::Accepted,
        }
    }
}

/// A draft beside what it is to replace.
#[derive(Debug)]
pub struct Change<'a> {
    pub path: &'a Inside,
    /// The file as it was when the draft was asked for; `None` if there was none.
    pub base: Option<&'a [u8]>,
    /// What is proposed.
    pub draft: &'a [u8],
    /// The permissions of the draft itself.
    pub draft_mode: u32,
    /// What is there now.
    pub now: Result<Option<Fingerprint>, &'a FileError>,
    /// A file beside a new one whose name differs in case alone.
    pub twin: Option<&'a str>,
    /// The permissions of the file that is there now.
    pub mode: Option<u32>,
    /// The file whose patterns make git ignore this one.
    pub ignored_by: Option<&'a str>,
}

/// The permissions that a draft is made with.
pub(crate) const DRAFT_MODE: u32 = 0o600;

/// Of each kind of finding in a file, so many are told.
const MOST_OF_A_KIND: usize = 20;

/// The scanners of added lines. Without all of their patterns there is no gate.
#[derive(Debug, Clone, Copy)]
pub struct Scanners {
    secrets: &'static SecretScanner,
    paths: &'static PathScanner,
}

impl Scanners {
    /// # Errors
    /// When a pattern of theirs does not compile.
    pub fn get() -> Result<Scanners, BadPattern> {
        Ok(Scanners { secrets: SecretScanner::get()?, paths: PathScanner::get()? })
    }
}

/// All that speaks against a change, in the order of the checks.
pub fn look(
    change: &Change<'_>,
    policy: &Policy,
    places: &Places,
    scanners: Scanners,
) -> Vec<Reason> {
    let path = change.path;
    let about = |effect, rule: &str| Reason::about(path, effect, rule);
    let mut reasons = Vec::new();
    if places.is_hidden(path) || !places.is_allowed(path) {
        let reason = about(Effect::Reject, "path/not-allowed");
        reasons.push(reason.saying("this file may not be drafted", "leave it alone"));
    }
    let (base, draft) = (change.base.unwrap_or_default(), change.draft);
    let is_binary = |bytes: &[u8]| bytes.contains(&0) || std::str::from_utf8(bytes).is_err();
    let binary = is_binary(base) || is_binary(draft);
    let diff = Diff::between(&String::from_utf8_lossy(base), &String::from_utf8_lossy(draft));
    let text = String::from_utf8_lossy(draft);
    reasons.extend(secrets_in(path, &diff, &text, scanners.secrets));
    reasons.extend(paths_in(path, &diff, scanners.paths));
    if diff.deletion_ratio() > policy.max_deletion {
        let reason = about(Effect::Escalate, "deletion");
        reasons.push(reason.saying(
            format!(
                "{} of {} lines are removed or replaced ({:.1} %, at most {:.1} %)",
                diff.lost,
                diff.original,
                diff.deletion_ratio() * 100.0,
                policy.max_deletion * 100.0
            ),
            WAIT,
        ));
    }
    if diff.lines() > policy.max_lines {
        let reason = about(Effect::Escalate, "scope/lines");
        let (lines, most) = (diff.lines(), policy.max_lines);
        let message = format!("{lines} lines are added or removed, and {most} may be");
        reasons.push(reason.saying(message, WAIT));
    }
    reasons.extend(runs_by_itself(change, places));
    if change.draft_mode & 0o7777 != DRAFT_MODE {
        let reason = about(Effect::Escalate, "mode");
        let message = format!("the draft's permissions were changed to {:o}", change.draft_mode);
        reasons.push(reason.saying(message, WAIT));
    }
    if binary {
        let reason = about(Effect::Escalate, "binary");
        reasons.push(reason.saying("it is not text", WAIT));
    }
    if change.base.is_none() && path.parts().iter().any(|part| is_odd(part)) {
        let reason = about(Effect::Escalate, "look-alike");
        let message = "the new name has letters or signs that can be taken for something else";
        reasons.push(reason.saying(message, WAIT));
    }
    if !binary {
        reasons.extend(hidden_text(path, &diff));
    }
    if let Some(twin) = change.twin {
        let reason = about(Effect::Escalate, "look-alike");
        let message = format!("on some disks it is the same file as `{twin}`");
        reasons.push(reason.saying(message, WAIT));
    }
    reasons.extend(conflict(change));
    reasons
}

/// Whether a name can be taken for another, or for something that a shell obeys.
fn is_odd(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+@ ()[],=~#%".contains(c);
    !name.chars().all(plain) || name.starts_with(['-', ' ', '~']) || name.ends_with([' ', '.'])
}

/// That the file is run, built or obeyed without being asked, or that no `git diff` shows the change.
fn runs_by_itself(change: &Change<'_>, places: &Places) -> Vec<Reason> {
    let path = change.path;
    let about = |rule: &str, message: String| {
        Reason::about(path, Effect::Escalate, rule).saying(message, WAIT)
    };
    let mut reasons = Vec::new();
    if let Some(tool) = places.protected_by(path) {
        reasons.push(about("protected", format!("this file is protected ({tool})")));
    } else if let Some(runs) = places.runs_on_build(path) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let base = text(change.base.unwrap_or_default());
        if let Some(changed) = runs_on_build::change(runs, &base, &text(change.draft)) {
            let reason = about("runs-on-build", changed.message);
            reasons.push(Reason { line: changed.line, ..reason });
        }
    }
    if let Some(list) = change.ignored_by {
        let message = format!("git ignores this file (`{list}`), so no diff shows the change");
        reasons.push(about("git-ignored", message));
    }
    if change.mode.is_some_and(|mode| mode & 0o111 != 0) && !places.is_source(path) {
        let message = "this file is executable and in no folder of source code".to_owned();
        reasons.push(about("executable", message));
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
                let reason = Reason::about(path, Effect::Escalate, found.rule);
                reasons.push(reason.at(*number).saying(message, WAIT));
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
fn conflict(change: &Change<'_>) -> Option<Reason> {
    let about = |rule: &str, message: &str| {
        Reason::about(change.path, Effect::Escalate, rule).saying(message, WAIT)
    };
    match (&change.now, change.base.map(Fingerprint::of)) {
        (Err(FileError::Link), _) => Some(about("symlink", "the file is a link now")),
        (Err(error), _) => Some(about("conflict", &format!("the file cannot be read: {error}"))),
        (Ok(now), base) if *now == base => None,
        (Ok(Some(_)), None) => Some(about("conflict", "a file of that name has come meanwhile")),
        (Ok(None), _) => Some(about("conflict", "the file has gone meanwhile")),
        (Ok(Some(_)), Some(_)) => {
            Some(about("conflict", "the file has changed since the draft was asked for"))
        }
    }
}

/// The fingerprint of what is there, where nothing is no failure.
pub(crate) fn fingerprint(
    read: Result<Original, FileError>,
) -> Result<Option<Fingerprint>, FileError> {
    match read {
        Ok(original) => Ok(Some(original.sha256)),
        Err(FileError::Missing) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Of a line with a comment that allows what is in it.
const MAY_STAY: &str = "a comment in the line says that it may stay";

/// The secrets of the draft that stand on lines with new words.
fn secrets_in(path: &Inside, diff: &Diff, draft: &str, scanner: &SecretScanner) -> Vec<Reason> {
    let kind = FileKind::of(&path.to_string());
    let new: HashSet<usize> = diff.new_words().map(|(number, _)| *number).collect();
    let found = scanner.in_text(draft, kind, |number| new.contains(&number)).into_iter();
    let reason = |(number, secret): (usize, Secret)| {
        // The worker wrote the comment as well as the line: a reviewer confirms it.
        let effect = if secret.allowed { Effect::Escalate } else { Effect::Reject };
        let reason = Reason::about(path, effect, format!("secret/{}", secret.rule)).at(number);
        let encoded = if secret.encoded { ", encoded" } else { "" };
        let message = format!("{}{encoded}: {}", secret.what, secret.masked);
        match secret.allowed {
            true => reason.saying(format!("{message}; {MAY_STAY}"), WAIT),
            false => reason
                .saying(message, "take it out and read it from the environment or a secret store"),
        }
    };
    found.take(MOST_OF_A_KIND).map(reason).collect()
}

fn paths_in(path: &Inside, diff: &Diff, scanner: &PathScanner) -> Vec<Reason> {
    let kind = FileKind::of(&path.to_string());
    let found = diff.new_words().flat_map(|(number, line)| {
        scanner.in_line(line, kind).into_iter().map(move |found| (*number, found))
    });
    let reason = |(number, found): (usize, HardCoded)| {
        let effect = match found.allowed || found.doubtful {
            true => Effect::Escalate,
            false => Effect::Reject,
        };
        let reason = Reason::about(path, effect, format!("path/{}", found.rule)).at(number);
        let message = format!("{}: `{}`", found.what, found.found);
        match (found.allowed, found.doubtful) {
            (true, _) => reason.saying(format!("{message}; {MAY_STAY}"), WAIT),
            (false, true) => reason.saying(message, WAIT),
            (false, false) => reason
                .saying(message, "take the path from a setting, an argument or the environment"),
        }
    };
    found.take(MOST_OF_A_KIND).map(reason).collect()
}
