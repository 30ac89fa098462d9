//! Attacks the gate with drafts: each case of the corpora becomes a draft of a new file, which the gate checks.

use std::path::Path;

use assize_draft::DraftError;
use assize_gate::{Policy, ProposedChange, check};
use assize_workspace::WorkspacePath;

use super::plan::PlannedCase;
use super::{ClassResult, GateAttackError};

/// Lets the gate check one draft for each case. `counts` returns whether a rule belongs to the class of the cases. A
/// case counts as stopped only if such a rule has a finding.
pub(super) fn try_all(
    cases: &[PlannedCase],
    counts: fn(&str) -> bool,
    policy: &Policy,
    report: &mut impl FnMut(&str),
) -> Result<ClassResult, GateAttackError> {
    let places = policy.path_rules().map_err(DraftError::from)?;
    let mut tried = Vec::with_capacity(cases.len());
    for case in cases {
        report(&case.name);
        let stopped = match WorkspacePath::parse(case.path, Path::new("/")) {
            Err(outside) => Some(outside.to_string()),
            Ok(path) => {
                let change = ProposedChange::new_file(path, case.text.as_bytes());
                let reasons = check(&change, policy, &places).map_err(DraftError::from)?;
                let reason = reasons.into_iter().find(|reason| counts(&reason.rule));
                reason.map(|reason| format!("{}: {}", reason.rule, reason.message))
            }
        };
        tried.push(case.tried(stopped));
    }
    Ok(ClassResult::Cases(tried))
}
