//! Something that one thread waits for and another lets happen.

use std::sync::{Condvar, Mutex};

/// Lets threads through one by one, as often as another says.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    admitted: Mutex<usize>,
    changed: Condvar,
}

impl Turnstile {
    pub(crate) fn admit(&self, count: usize) {
        let mut admitted = self.admitted.lock().unwrap();
        *admitted = admitted.saturating_add(count);
        self.changed.notify_all();
    }

    /// Lets everyone through from now on.
    pub(crate) fn open(&self) {
        self.admit(usize::MAX / 2);
    }

    pub(crate) fn pass(&self) {
        let mut admitted = self.admitted.lock().unwrap();
        while *admitted == 0 {
            admitted = self.changed.wait(admitted).unwrap();
        }
        *admitted -= 1;
    }
}
