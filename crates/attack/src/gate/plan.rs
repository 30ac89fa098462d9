//! Plan of an attack on the gate: which cases of the corpora are tested, and how.

use assize_gate::corpus::{self, CorpusCase, InvalidCorpusLine, NO_SECRET};

use super::CaseKind;

/// How the gate is attacked with the cases of a class.
#[derive(Debug)]
pub(super) enum TrialMethod {
    /// Each case is a draft of a new file. `counts` returns whether a gate rule belongs to the class of the cases.
    /// Findings of other rules are ignored.
    Draft { counts: fn(&str) -> bool },
    /// Each case is a file that an agent requests from the draft service.
    Request,
    /// Each case is a change to a project whose tests run in a sandbox.
    Tests { runner: &'static str },
}

/// A case of the corpora that the attack on the gate will test.
#[derive(Debug)]
pub(super) struct PlannedCase {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) kind: CaseKind,
    pub(super) known: bool,
    pub(super) path: &'static str,
    pub(super) text: String,
}

/// A class of cases that the attack on the gate will test.
#[derive(Debug)]
pub(super) struct PlannedClass {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) method: TrialMethod,
    pub(super) cases: Vec<PlannedCase>,
}

/// Plans the cases of all classes of an attack on the gate.
pub(super) fn classes() -> Result<Vec<PlannedClass>, InvalidCorpusLine> {
    let (files, hidden, paths, secrets) =
        (corpus::files()?, corpus::hidden()?, corpus::paths()?, corpus::secrets()?);
    let of_files = |case: &CorpusCase| case.label == "ordinary";
    let of_secrets = |case: &CorpusCase| case.label == NO_SECRET;
    let mut requested = planned("workers", &secrets, of_secrets);
    let readable = files.iter().filter(|case| ["secret", "ordinary"].contains(&case.label));
    requested.extend(planned("workers", readable, of_files));
    let class = |name: &str, title: &str, way, cases| PlannedClass {
        name: name.to_owned(),
        title: title.to_owned(),
        method: way,
        cases,
    };
    let mut classes = forged()?;
    classes.extend([
        class(
            "files",
            "files that run automatically",
            TrialMethod::Draft {
                counts: |rule| ["protected", "runs-on-build", NOT_ALLOWED].contains(&rule),
            },
            planned("files", &files, of_files),
        ),
        class("workers", "secrets in requested files", TrialMethod::Request, requested),
        class(
            "secrets",
            "secrets in drafts",
            TrialMethod::Draft { counts: |rule| rule.starts_with("secret/") },
            planned("secrets", &secrets, of_secrets),
        ),
        class(
            "hidden",
            "hidden characters",
            TrialMethod::Draft {
                counts: |rule| ["invisible-text", "turned-text", "look-alike"].contains(&rule),
            },
            planned("hidden", &hidden, |case| case.label.starts_with('-')),
        ),
        class(
            "paths",
            "machine-specific paths",
            TrialMethod::Draft { counts: |rule| rule.starts_with("path/") && rule != NOT_ALLOWED },
            planned("paths", &paths, |case| case.label == "accept"),
        ),
    ]);
    Ok(classes)
}

/// Name of the gate rule that rejects changes to files that agents are not allowed to change.
const NOT_ALLOWED: &str = "path/not-allowed";

/// Converts the cases of a corpus to planned cases. `is_control` returns whether a case is harmless and must pass the
/// gate.
fn planned<'a>(
    class: &str,
    cases: impl IntoIterator<Item = &'a CorpusCase>,
    is_control: fn(&CorpusCase) -> bool,
) -> Vec<PlannedCase> {
    let planned = |case: &CorpusCase| PlannedCase {
        name: format!("{class}/{}:{}", case.list, case.number),
        description: format!("{} in `{}`", describe(case.label), case.path),
        kind: if is_control(case) { CaseKind::Control } else { CaseKind::Hostile },
        known: case.known_error,
        path: case.path,
        text: case.text.clone(),
    };
    cases.into_iter().map(planned).collect()
}

/// Converts the label of a corpus case to words, because some labels are symbols, such as `-`.
fn describe(label: &str) -> &str {
    match label {
        "-" => "a secret",
        NO_SECRET => "no secret",
        label if label.starts_with("- ") => "no hidden character",
        label => label,
    }
}

/// Plans the cases that forge test results, with one class for each test runner, in the order of the corpus.
fn forged() -> Result<Vec<PlannedClass>, InvalidCorpusLine> {
    let mut classes: Vec<PlannedClass> = Vec::new();
    for forgery in corpus::forgeries()? {
        for runner in &forgery.runners {
            let name = format!("forged/{runner}");
            let case = PlannedCase {
                name: format!("{name}:{}", forgery.number),
                description: forgery.title.to_owned(),
                kind: match forgery.verdict {
                    "accepted" => CaseKind::Control,
                    _ => CaseKind::Hostile,
                },
                known: forgery.verdict == "missed",
                path: forgery.path,
                text: forgery.text.to_owned(),
            };
            match classes.iter_mut().find(|class| class.name == name) {
                Some(class) => class.cases.push(case),
                None => classes.push(PlannedClass {
                    name,
                    title: format!("forged test results: {runner}"),
                    method: TrialMethod::Tests { runner },
                    cases: vec![case],
                }),
            }
        }
    }
    Ok(classes)
}
