//! Sandboxes themselves on trial.
//!
//! Some two hundred probes try to get out of a sandbox, to use it up, or to lie about what happened
//! in it. Each is a few lines of Python in `probes/`, and runs twice: once inside, where getting
//! through is an escape, and once outside as its own control. A probe that does not get through even
//! there has nothing to say about the sandbox: it is *not applicable here*, and does not count.
//!
//! What a probe looks for are `fixtures` that a helper process holds on the host: files, sockets,
//! shared memory and the like, with numbers in them that are nowhere else. Most probes prove that
//! they got through by such a number; what they cannot tell themselves is judged from outside.
//! Controls are bounded, and leave the host as it was.

mod attack;
mod catalog;
mod fixtures;
mod gate;
mod host;
mod inside;
mod judge;
mod marked;
mod place;
mod score;

pub use attack::{Attack, AttackError, Options};
pub use catalog::Group;
pub use gate::{
    CaseKind, CaseOutcome, GateAttack, GateCase, GateClass, GateCount, GateError, GateOptions,
    GateScorecard,
};
pub use score::{Control, Count, Finding, Outcome, Scorecard};
