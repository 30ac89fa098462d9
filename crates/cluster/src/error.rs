//! Errors of requests to the NATS servers, classified by whether repeating the request can help.

use std::error::Error;
use std::path::PathBuf;

use assize_run::StoreError;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::stream::{LastRawMessageError, LastRawMessageErrorKind};

/// Error of a request to the NATS servers.
#[derive(Debug)]
pub(crate) enum NatsError {
    /// The servers do not reply, or have no leader yet. Repeating the request may help, but the servers may already
    /// have executed the first request.
    Silent(String),
    /// The servers have no disk space or memory left.
    Full,
    /// The message was not written, because its NATS subject already has a message.
    SubjectExists,
    /// The servers refused the request.
    Refused(String),
}

impl NatsError {
    /// Converts this error to a store error whose message contains the address of the servers.
    pub(crate) fn into_store_error(self, address: &str) -> StoreError {
        let path = PathBuf::from(address);
        match self {
            NatsError::Full => StoreError::Full { path },
            NatsError::Silent(reason) | NatsError::Refused(reason) => {
                StoreError::Failed { path, reason }
            }
            NatsError::SubjectExists => {
                let reason = "the NATS subject already has a message".to_owned();
                StoreError::Failed { path, reason }
            }
        }
    }
}

/// Returns the message of an error with the messages of all its causes, without repetitions.
pub(crate) fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !message.contains(&more) {
            message = format!("{message}: {more}");
        }
        cause = error.source();
    }
    message
}

/// Returns the error with which the NATS servers replied, if `error` or one of its causes is such an error.
fn server_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a async_nats::jetstream::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Converts an error of the NATS client library, and classifies it by whether repeating the request can help.
impl<E: Error + 'static> From<E> for NatsError {
    fn from(error: E) -> NatsError {
        let error: &(dyn Error + 'static) = &error;
        match error.downcast_ref().map(PublishError::kind) {
            Some(PublishErrorKind::WrongLastSequence) => return NatsError::SubjectExists,
            Some(PublishErrorKind::MaxPayloadExceeded) => {
                return NatsError::Refused(error_chain(error));
            }
            _ => {}
        }
        let Some(reply) = server_error(error) else {
            return NatsError::Silent(error_chain(error));
        };
        match reply.error_code() {
            ErrorCode::INSUFFICIENT_RESOURCES
            | ErrorCode::STORAGE_RESOURCES_EXCEEDED
            | ErrorCode::MEMORY_RESOURCES_EXCEEDED
            | ErrorCode::STREAM_STORE_FAILED => NatsError::Full,
            ErrorCode::STREAM_WRONG_LAST_SEQUENCE => NatsError::SubjectExists,
            // Temporary: the stream has no leader yet, or too few servers are running.
            _ if reply.code() == 503 => NatsError::Silent(error_chain(reply)),
            _ => NatsError::Refused(error_chain(reply)),
        }
    }
}

/// Whether an error means that the requested message does not exist.
pub(crate) fn is_missing(error: &LastRawMessageError) -> bool {
    match error.kind() {
        LastRawMessageErrorKind::NoMessageFound => true,
        LastRawMessageErrorKind::JetStream(error) => error.code() == 404,
        _ => false,
    }
}
