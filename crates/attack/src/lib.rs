//! Security tests of the sandboxes (`assize attack`) and of the gate (`assize attack --gate`).
//!
//! Probes try to break out of a sandbox, to exhaust its limits, or to forge its results. Each probe is a few lines of
//! Python in `probes/`. A probe first runs on the host without isolation, as a control. If the control fails, the probe
//! shows nothing about the sandbox: the probe is reported as *not applicable* and does not count. Otherwise the probe
//! also runs inside a sandbox, where success is an escape.
//!
//! Probes look for `fixtures` that a helper process provides on the host, such as files, sockets and shared memory.
//! Each fixture contains a random nonce. Most probes prove their success by reporting that nonce. The success of the
//! other probes is observed from outside. Controls have a deadline and leave the host unchanged.

mod attack;
mod catalog;
mod fixtures;
mod gate;
mod host_target;
mod judge;
mod marked_processes;
mod sandbox_target;
mod score;
mod target;

pub use attack::{Attack, AttackError, AttackOptions};
pub use catalog::ProbeGroup;
pub use gate::{
    CaseKind, CaseOutcome, GateAttack, GateAttackError, GateAttackOptions, GateCase, GateClass,
    GateCount, GateScorecard,
};
pub use score::{AttackScorecard, ControlOutcome, ProbeCount, ProbeFinding, ProbeOutcome};
