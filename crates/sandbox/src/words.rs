//! What a guest says beside the channel: the beginning of it, for when it fails.

use std::sync::{Arc, Mutex, PoisonError};

/// The most that is kept.
const MOST: usize = 4096;

#[derive(Debug, Clone, Default)]
pub(crate) struct Words(Arc<Mutex<Vec<u8>>>);

impl Words {
    /// `false` when no more is wanted.
    pub(crate) fn add(&self, bytes: &[u8]) -> bool {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST.saturating_sub(words.len());
        words.extend_from_slice(&bytes[..bytes.len().min(room)]);
        words.len() < MOST
    }

    pub(crate) fn get(&self) -> Option<String> {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        (!words.is_empty()).then_some(words)
    }
}
