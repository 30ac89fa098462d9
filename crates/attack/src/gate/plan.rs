//! Which cases of the corpora are tried, and how.

use assize_gate::corpus::{self, BadLine, Case, NO_SECRET};

use super::CaseKind;

/// How the cases of a class are tried.
#[derive(Debug)]
pub(super) enum Way {
    /// As drafts of new files. Only some rules count: a case that another one stops says nothing about its class.
    Draft { counts: fn(&str) -> bool },
    /// As files that a worker asks for.
    Request,
    /// As changes to a project whose tests run in a sandbox.
    Tests { runner: &'static str },
}

/// A case to be tried.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) kind: CaseKind,
    pub(super) known: bool,
    pub(super) path: &'static str,
    pub(super) text: String,
}

/// A class to be tried.
#[derive(Debug)]
pub(super) struct PlannedClass {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) way: Way,
    pub(super) cases: Vec<Planned>,
}

/// All classes, with all their cases.
pub(super) fn classes() -> Result<Vec<PlannedClass>, BadLine> {
    let (files, hidden, paths, secrets) =
        (corpus::files()?, corpus::hidden()?, corpus::paths()?, corpus::secrets()?);
    let of_files = |case: &Case| case.label == "ordinary";
    let of_secrets = |case: &Case| case.label == NO_SECRET;
    let mut handed = planned("workers", &secrets, of_secrets);
    let seen = files.iter().filter(|case| ["secret", "ordinary"].contains(&case.label));
    handed.extend(planned("workers", seen, of_files));
    let class = |name: &str, title: &str, way, cases| PlannedClass {
        name: name.to_owned(),
        title: title.to_owned(),
        way,
        cases,
    };
    let mut classes = forged()?;
    classes.extend([
        class(
            "files",
            "files that run by themselves",
            Way::Draft {
                counts: |rule| ["protected", "runs-on-build", NOT_ALLOWED].contains(&rule),
            },
            planned("files", &files, of_files),
        ),
        class("workers", "secrets handed to workers", Way::Request, handed),
        class(
            "secrets",
            "secrets in drafts",
            Way::Draft { counts: |rule| rule.starts_with("secret/") },
            planned("secrets", &secrets, of_secrets),
        ),
        class(
            "hidden",
            "hidden characters",
            Way::Draft {
                counts: |rule| ["invisible-text", "turned-text", "look-alike"].contains(&rule),
            },
            planned("hidden", &hidden, |case| case.label.starts_with('-')),
        ),
        class(
            "paths",
            "paths of one machine",
            Way::Draft { counts: |rule| rule.starts_with("path/") && rule != NOT_ALLOWED },
            planned("paths", &paths, |case| case.label == "accept"),
        ),
    ]);
    Ok(classes)
}

/// The rule about files that may not be drafted.
const NOT_ALLOWED: &str = "path/not-allowed";

/// The cases of lists.
fn planned<'a>(
    class: &str,
    cases: impl IntoIterator<Item = &'a Case>,
    is_control: fn(&Case) -> bool,
) -> Vec<Planned> {
    let planned = |case: &Case| Planned {
        name: format!("{class}/{}:{}", case.list, case.number),
        what: format!("{} in `{}`", words(case.label), case.path),
        kind: if is_control(case) { CaseKind::Control } else { CaseKind::Hostile },
        known: case.known,
        path: case.path,
        text: case.text.clone(),
    };
    cases.into_iter().map(planned).collect()
}

/// A label in words, where its list has only a sign for it.
fn words(label: &str) -> &str {
    match label {
        "-" => "a secret",
        NO_SECRET => "no secret",
        label if label.starts_with("- ") => "no hidden character",
        label => label,
    }
}

/// The changes that forge test results: a class for each runner, in the order of the list.
fn forged() -> Result<Vec<PlannedClass>, BadLine> {
    let mut classes: Vec<PlannedClass> = Vec::new();
    for forgery in corpus::forgeries()? {
        for runner in &forgery.runners {
            let name = format!("forged/{runner}");
            let case = Planned {
                name: format!("{name}:{}", forgery.number),
                what: forgery.title.to_owned(),
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
                    title: format!("forged results of {runner}"),
                    way: Way::Tests { runner },
                    cases: vec![case],
                }),
            }
        }
    }
    Ok(classes)
}
