//! What the errors of drafts mean at the edge.

use assize_types::{Failure, FailureKind};

use crate::service::DraftError;

impl From<DraftError> for Failure {
    fn from(error: DraftError) -> Failure {
        let error = match error {
            DraftError::Store(error) => return error.into(),
            error => error,
        };
        let kind = match &error {
            DraftError::Store(_) | DraftError::Scanner(_) => FailureKind::Environment,
            DraftError::Refused(_) | DraftError::Wrong(_) | DraftError::Task(_) => {
                FailureKind::Usage
            }
            DraftError::Contract(_) | DraftError::Pattern(_) => FailureKind::Settings,
            DraftError::File { .. } | DraftError::Unfinished(_) => FailureKind::Environment,
            DraftError::Conflict(_) => FailureKind::Verdict,
        };
        Failure::from_error(kind, &error)
    }
}
