//! What the errors of drafts mean at the edge.

use assize_types::{Failure, FailureKind};

use crate::desk::DeskError;

impl From<DeskError> for Failure {
    fn from(error: DeskError) -> Failure {
        let error = match error {
            DeskError::Store(error) => return error.into(),
            error => error,
        };
        let kind = match &error {
            DeskError::Store(_) | DeskError::Scanner(_) => FailureKind::Environment,
            DeskError::Refused(_) | DeskError::Wrong(_) | DeskError::Task(_) => FailureKind::Usage,
            DeskError::Contract(_) | DeskError::Pattern(_) => FailureKind::Settings,
            DeskError::File { .. } | DeskError::Unfinished(_) => FailureKind::Environment,
            DeskError::Conflict(_) => FailureKind::Verdict,
        };
        Failure::from_error(kind, &error)
    }
}
