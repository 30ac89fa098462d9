//! Precision and recall of the scanner for machine-specific paths, on a labelled corpus.

#![expect(clippy::print_stdout, reason = "the test prints the measured figures")]

use assize_gate::FileKind;
use assize_gate::corpus::{self, CorpusCase};
use assize_gate::machine_paths::PathScanner;

/// Decision of the gate on the paths in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Accept,
    Escalate,
    Reject,
}

fn label(line: &str, kind: FileKind) -> Label {
    let found = PathScanner::get().unwrap().in_line(line, kind);
    match (found.is_empty(), found.iter().all(|path| path.needs_review)) {
        (true, _) => Label::Accept,
        (false, true) => Label::Escalate,
        (false, false) => Label::Reject,
    }
}

#[test]
fn path_scanner_decides_on_every_line_of_the_corpus_as_labelled() {
    let (mut right, mut wrong, mut false_alarms, mut found, mut missed) = (0, Vec::new(), 0, 0, 0);
    for CorpusCase { number, label: expected, path, text, .. } in corpus::paths().unwrap() {
        let expected = match expected {
            "accept" => Label::Accept,
            "escalate" => Label::Escalate,
            "reject" => Label::Reject,
            other => panic!("paths.txt:{}: unknown label `{other}`", number),
        };
        let actual = label(&text, FileKind::of(path));
        match (expected, actual) {
            (Label::Accept, Label::Accept) => {}
            (Label::Accept, _) => false_alarms += 1,
            (_, Label::Accept) => missed += 1,
            _ => found += 1,
        }
        if expected == actual {
            right += 1;
        } else {
            wrong.push(format!("paths.txt:{number}: {actual:?}, not {expected:?}: {text}"));
        }
    }
    println!(
        "machine paths: precision {:.3}, recall {:.3}; {right} of {} lines as labelled",
        f64::from(found) / f64::from(found + false_alarms),
        f64::from(found) / f64::from(found + missed),
        right + wrong.len(),
    );
    assert!(right >= 120 && wrong.is_empty(), "{}", wrong.join("\n"));
}
