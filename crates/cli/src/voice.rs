//! How a trial is heard at the terminal: what it says on the way, and that it broke off.

use std::sync::Arc;

use assize_clerk::choose::Paces;
use assize_clerk::{Broke, Clerk, Listener, Role};
use assize_config::{Environment, Settings};
use assize_gateway::Gateway;
use assize_types::Failure;

use crate::account::account;
use crate::terminal::{self, DIM, note, paint};

/// Warnings are always heard.
struct Voice {
    quiet: bool,
}

impl Listener for Voice {
    fn warn(&self, text: &str) {
        terminal::warn(text);
    }

    fn note(&self, text: &str) {
        if !self.quiet {
            note(&paint(DIM, text));
        }
    }
}

/// Who begins trials for a command.
pub(crate) fn clerk(config: &Settings, around: &Environment, quiet: bool) -> Clerk {
    let (config, around) = (config.clone(), around.clone());
    let listener = Arc::new(Voice { quiet });
    Clerk {
        config,
        around,
        listener,
        role: Role::Command,
        member: None,
        paces: Paces::default(),
        once: None,
        backends: None,
        estimate_only: false,
    }
}

/// Says what a trial took that broke off, and how to go on with it.
pub(crate) fn tell_broke(broke: Broke, gateway: &Gateway, quiet: bool) -> Failure {
    let totals = gateway.ledger().totals();
    if !quiet && totals.calls > 0 {
        note(&paint(DIM, format!("spent: {}", account(&totals))));
    }
    broke.go_on.iter().for_each(|how| note(how));
    broke.failure
}
