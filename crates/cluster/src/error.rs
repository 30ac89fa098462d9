//! What went wrong with the servers, as far as it matters what to do next.

use std::error::Error;
use std::path::PathBuf;

use assize_run::StoreError;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::stream::{LastRawMessageError, LastRawMessageErrorKind};

/// What kept the servers from doing something.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// They do not answer, or not yet: later they may. What was asked for may have been done.
    Silent(String),
    /// They have no room.
    Full,
    /// There is something already where nothing should be.
    Taken,
    /// They refused.
    Refused(String),
}

impl Trouble {
    /// For whoever used the store at this address.
    pub(crate) fn told(self, address: &str) -> StoreError {
        let path = PathBuf::from(address);
        match self {
            Trouble::Full => StoreError::Full { path },
            Trouble::Silent(reason) | Trouble::Refused(reason) => {
                StoreError::Failed { path, reason }
            }
            Trouble::Taken => {
                StoreError::Failed { path, reason: "something is there already".to_owned() }
            }
        }
    }
}

/// All that an error says, with what caused it.
pub(crate) fn words(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}

/// What the servers themselves said, if they did.
fn said<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a async_nats::jetstream::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(said) = error.downcast_ref() {
            return Some(said);
        }
        next = error.source();
    }
    None
}

/// Every error of the client.
impl<E: Error + 'static> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        let error: &(dyn Error + 'static) = &error;
        match error.downcast_ref().map(PublishError::kind) {
            Some(PublishErrorKind::WrongLastSequence) => return Trouble::Taken,
            Some(PublishErrorKind::MaxPayloadExceeded) => return Trouble::Refused(words(error)),
            _ => {}
        }
        let Some(said) = said(error) else {
            return Trouble::Silent(words(error));
        };
        match said.error_code() {
            ErrorCode::INSUFFICIENT_RESOURCES
            | ErrorCode::STORAGE_RESOURCES_EXCEEDED
            | ErrorCode::MEMORY_RESOURCES_EXCEEDED
            | ErrorCode::STREAM_STORE_FAILED => Trouble::Full,
            ErrorCode::STREAM_WRONG_LAST_SEQUENCE => Trouble::Taken,
            // No leader yet, or none of those that are up: it is a matter of time.
            _ if said.code() == 503 => Trouble::Silent(words(said)),
            _ => Trouble::Refused(words(said)),
        }
    }
}

/// Whether the servers have no such message.
pub(crate) fn is_missing(error: &LastRawMessageError) -> bool {
    match error.kind() {
        LastRawMessageErrorKind::NoMessageFound => true,
        LastRawMessageErrorKind::JetStream(said) => said.code() == 404,
        _ => false,
    }
}
