//! The exit codes of the command, in one table: help texts and the README show it.

use std::fmt::Write as _;

use assize_types::FailureKind;

/// Every way the command ends, with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Settings = 3,
    Environment = 4,
    Budget = 5,
    Undecided = 6,
    Internal = 70,
    TimedOut = 124,
    Sandbox = 125,
    Interrupted = 130,
    OutOfMemory = 137,
    OutputClosed = 141,
}

impl Exit {
    const ALL: [Exit; 13] = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Settings,
        Exit::Environment,
        Exit::Budget,
        Exit::Undecided,
        Exit::Internal,
        Exit::TimedOut,
        Exit::Sandbox,
        Exit::Interrupted,
        Exit::OutOfMemory,
        Exit::OutputClosed,
    ];

    /// Those that `assize exec` gives besides the exit code of the program.
    const OF_EXEC: [Exit; 5] =
        [Exit::TimedOut, Exit::Sandbox, Exit::Interrupted, Exit::OutOfMemory, Exit::OutputClosed];

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Failed => "tried and failed: the model declined, or its answer cannot be used",
            Exit::Usage => "wrong command line or input: an option, its value, a file",
            Exit::Settings => "wrong setting (file or environment), key or model name",
            Exit::Environment => "a provider, the network or the disk failed",
            Exit::Budget => "the budget is reached",
            Exit::Undecided => "a reviewer must decide: `assize gate ls` lists what waits",
            Exit::Internal => "a fault in assize itself",
            Exit::TimedOut => "`exec`: the program reached its time limit",
            Exit::Sandbox => "no sandbox could be made, or it broke",
            Exit::Interrupted => "interrupted (Ctrl-C, SIGTERM, SIGHUP)",
            Exit::OutOfMemory => "`exec`: the program ran out of memory",
            Exit::OutputClosed => "`exec`: the reader of the program's output has gone",
        }
    }
}

impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Exit {
        match kind {
            FailureKind::Verdict => Exit::Failed,
            FailureKind::Usage => Exit::Usage,
            FailureKind::Settings => Exit::Settings,
            FailureKind::Environment => Exit::Environment,
            FailureKind::Budget => Exit::Budget,
            FailureKind::Internal => Exit::Internal,
            FailureKind::Sandbox => Exit::Sandbox,
            FailureKind::Interrupted => Exit::Interrupted,
            FailureKind::Unread => Exit::OutputClosed,
        }
    }
}

pub(crate) fn exit_code(kind: FailureKind) -> u8 {
    Exit::from(kind).code()
}

/// Shown at the end of `assize --help`.
pub(crate) fn help() -> String {
    table(&Exit::ALL)
}

/// Shown at the end of `assize exec --help`.
pub(crate) fn help_of_exec() -> String {
    format!(
        "{}\n  else that of the program, or 128 and the signal that ended it\n\
         The program starts in /workspace, where the files are that you give; it may write there and in /tmp.",
        table(&Exit::OF_EXEC)
    )
}

fn table(rows: &[Exit]) -> String {
    rows.iter().fold("Exit codes:".to_owned(), |mut text, exit| {
        let _ = write!(text, "\n  {:>3}  {}", exit.code(), exit.meaning());
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_shows_the_table() {
        let readme = include_str!("../../../README.md");
        let rows = Exit::ALL.map(|exit| format!("| {} | {} |\n", exit.code(), exit.meaning()));
        let table = format!("| code | meaning |\n|---|---|\n{}", rows.concat());
        assert!(readme.contains(&table), "the README should have this table:\n{table}");
    }
}
