//! Diagnostic output of a guest agent (stderr or VM console), collected to explain a failure.

use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of the collected output in bytes; later output is dropped.
const MAX_BYTES: usize = 4096;

/// Buffer with the first [`MAX_BYTES`] of the output. Clones share the buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiagnosticOutput(Arc<Mutex<Vec<u8>>>);

impl DiagnosticOutput {
    /// Appends output. Returns `false` once the buffer is full.
    pub(crate) fn add(&self, bytes: &[u8]) -> bool {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_BYTES.saturating_sub(buffer.len());
        buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
        buffer.len() < MAX_BYTES
    }

    /// Returns the output without surrounding white space, or `None` if it is empty.
    pub(crate) fn get(&self) -> Option<String> {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&buffer).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}
