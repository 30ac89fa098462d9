//! Tests that the gate's checks agree with the labels in the corpora of file paths and of lines with hidden characters.

use std::path::Path;

use assize_gate::corpus::{self, CorpusCase};
use assize_gate::{FileKind, Policy, ProposedChange, check, hidden_text};
use assize_workspace::WorkspacePath;

/// Returns the rule names of the gate's reasons against a new file.
fn rules(path: &str, text: &str) -> Vec<String> {
    let policy = Policy::default();
    let places = policy.path_rules().unwrap();
    let inside = WorkspacePath::parse(path, Path::new("/")).unwrap();
    let change = ProposedChange::new_file(inside, text);
    let found = check(&change, &policy, &places).unwrap();
    found.into_iter().map(|reason| reason.rule).collect()
}

#[test]
fn gate_classifies_every_path_of_the_corpus_as_labelled() {
    let mut wrong = Vec::new();
    for CorpusCase { number, label, path, text, .. } in corpus::files().unwrap() {
        let found = rules(path, &text);
        let has = |rule: &str| found.iter().any(|found| found == rule);
        let is = match () {
            () if has("path/not-allowed") => "secret",
            () if has("protected") => "protected",
            () if has("runs-on-build") => "runs",
            () => "ordinary",
        };
        if is != label {
            wrong.push(format!("files.txt:{number}: `{path}` is {is}, not {label}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn gate_finds_hidden_characters_of_the_corpus_with_rule_and_column() {
    let mut wrong = Vec::new();
    for CorpusCase { number, label, path, text, .. } in corpus::hidden().unwrap() {
        let (rule, column) = label.split_once(' ').unwrap();
        let found = hidden_text::in_line(&text, false, FileKind::of(path));
        let first = found.first().map(|found| (found.rule, found.column.to_string()));
        let expected = (rule != "-").then(|| (rule, column.to_owned()));
        if first != expected {
            wrong.push(format!("hidden.txt:{number}: found {first:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
