//! Cases as drafts of new files.

use std::path::Path;

use assize_draft::DraftError;
use assize_gate::{Change, Policy, check};
use assize_workspace::Inside;

use super::plan::Planned;
use super::{GateError, Tried};

/// Has the gate look at a draft for each case.
pub(super) fn try_all(
    cases: &[Planned],
    counts: fn(&str) -> bool,
    policy: &Policy,
    report: &mut impl FnMut(&str),
) -> Result<Tried, GateError> {
    let places = policy.places().map_err(DraftError::from)?;
    let mut tried = Vec::with_capacity(cases.len());
    for case in cases {
        report(&case.name);
        let stopped = match Inside::read(case.path, Path::new("/")) {
            Err(outside) => Some(outside.to_string()),
            Ok(path) => {
                let change = Change::new_file(path, case.text.as_bytes());
                let reasons = check(&change, policy, &places).map_err(DraftError::from)?;
                let reason = reasons.into_iter().find(|reason| counts(&reason.rule));
                reason.map(|reason| format!("{}: {}", reason.rule, reason.message))
            }
        };
        tried.push(case.tried(stopped));
    }
    Ok(Tried::Cases(tried))
}
