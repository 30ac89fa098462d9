//! Something that one thread waits for and another lets happen.

use std::sync::{Condvar, Mutex};

#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub(crate) fn wait_until_open(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
    }
}

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

    pub(crate) fn pass(&self) {
        let mut admitted = self.admitted.lock().unwrap();
        while *admitted == 0 {
            admitted = self.changed.wait(admitted).unwrap();
        }
        *admitted -= 1;
    }
}
