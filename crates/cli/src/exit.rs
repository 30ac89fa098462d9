//! The exit codes of the command.

use assize_clerk::FailureKind;

pub(crate) fn exit_code(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Verdict => 1,
        FailureKind::Usage => 2,
        FailureKind::Settings => 3,
        FailureKind::Environment => 4,
        FailureKind::Budget => 5,
        FailureKind::Internal => 70,
        FailureKind::Sandbox => 125,
        FailureKind::Interrupted => 130,
        FailureKind::Unread => 141,
    }
}

/// Shown at the end of `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  tried and failed: the model declined, or its answer cannot be used
    2  the command or its input cannot be used
    3  a setting, a key or a model's name is wrong
    4  a provider, the network or the disk failed
    5  the budget is reached
    6  a person must decide: `assize gate ls` shows on what
   70  a fault in assize itself
  125  no sandbox could be made, or it broke
  130  interrupted, or told to end";
