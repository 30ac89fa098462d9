//! Security tests of the sandboxes (`assize attack`) and of the gate (`assize attack --gate`).
//!
//! Some two hundred probes try to break out of a sandbox, to exhaust its limits, or to forge its results. Each probe
//! is a few lines of Python in `probes/`. It runs twice: inside a sandbox, where success is an escape, and on the
//! host as its own control. A probe that fails on the host shows nothing about the sandbox; it is reported as
//! *not applicable* and does not count.
//!
//! Probes look for `fixtures` that a helper process provides on the host: files, sockets, shared memory and so on, each
//! with a random nonce. Most probes prove their success by reporting that nonce; the rest are judged from outside.
//! Controls are bounded and leave the host unchanged.

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

pub use attack::{Attack, AttackError, AttackOptions};
pub use catalog::ProbeGroup;
pub use gate::{
    CaseKind, CaseOutcome, GateAttack, GateAttackError, GateAttackOptions, GateCase, GateClass,
    GateCount, GateScorecard,
};
pub use score::{AttackScorecard, ControlOutcome, ProbeCount, ProbeFinding, ProbeOutcome};
