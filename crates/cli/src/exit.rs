//! Exit codes of the `assize` command. Help texts and the documentation show the same table.

use std::fmt::Write as _;

use assize_types::FailureKind;

/// Ways in which the command can end, with their exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitStatus {
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

impl ExitStatus {
    const ALL: [ExitStatus; 13] = [
        ExitStatus::Done,
        ExitStatus::Failed,
        ExitStatus::Usage,
        ExitStatus::Settings,
        ExitStatus::Environment,
        ExitStatus::Budget,
        ExitStatus::Undecided,
        ExitStatus::Internal,
        ExitStatus::TimedOut,
        ExitStatus::Sandbox,
        ExitStatus::Interrupted,
        ExitStatus::OutOfMemory,
        ExitStatus::OutputClosed,
    ];

    /// Exit codes of `assize exec` that do not come from the executed program.
    const OF_EXEC: [ExitStatus; 5] = [
        ExitStatus::TimedOut,
        ExitStatus::Sandbox,
        ExitStatus::Interrupted,
        ExitStatus::OutOfMemory,
        ExitStatus::OutputClosed,
    ];

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// Description of the exit code for users.
    fn meaning(self) -> &'static str {
        match self {
            ExitStatus::Done => "the command succeeded",
            ExitStatus::Failed => {
                "negative result: the model declined, its answer is unusable, or a check failed"
            }
            ExitStatus::Usage => "invalid command line or input: an option, its value, a file",
            ExitStatus::Settings => "invalid setting (file or environment), API key or model name",
            ExitStatus::Environment => "a provider, the network or the disk failed",
            ExitStatus::Budget => "the budget is used up",
            ExitStatus::Undecided => {
                "a reviewer must decide: `assize gate ls` lists the submissions"
            }
            ExitStatus::Internal => "internal error of assize (a bug)",
            ExitStatus::TimedOut => "`exec`: the program reached its time limit",
            ExitStatus::Sandbox => "a sandbox could not be created, or it failed while in use",
            ExitStatus::Interrupted => "interrupted (Ctrl-C, SIGTERM, SIGHUP)",
            ExitStatus::OutOfMemory => "`exec`: the program ran out of memory",
            ExitStatus::OutputClosed => {
                "`exec`: the reader of the program's output closed the pipe"
            }
        }
    }
}

impl From<FailureKind> for ExitStatus {
    fn from(kind: FailureKind) -> ExitStatus {
        match kind {
            FailureKind::Verdict => ExitStatus::Failed,
            FailureKind::Usage => ExitStatus::Usage,
            FailureKind::Settings => ExitStatus::Settings,
            FailureKind::Environment => ExitStatus::Environment,
            FailureKind::Budget => ExitStatus::Budget,
            FailureKind::Internal => ExitStatus::Internal,
            FailureKind::Sandbox => ExitStatus::Sandbox,
            FailureKind::Interrupted => ExitStatus::Interrupted,
            FailureKind::Unread => ExitStatus::OutputClosed,
        }
    }
}

/// Exit code of a command that ends with a failure of this kind.
pub(crate) fn exit_code(kind: FailureKind) -> u8 {
    ExitStatus::from(kind).code()
}

/// Text at the end of `assize --help`: the table of exit codes.
pub(crate) fn help() -> String {
    table(&ExitStatus::ALL)
}

/// Text at the end of `assize exec --help`: the exit codes of that command, and the folders that the program can use.
pub(crate) fn help_of_exec() -> String {
    format!(
        "{}\n  otherwise the exit code of the program, or 128 plus the number of the signal that killed it\n\
         The program starts in /workspace, which contains the files that you pass. It can write there and to /tmp.",
        table(&ExitStatus::OF_EXEC)
    )
}

fn table(rows: &[ExitStatus]) -> String {
    rows.iter().fold("Exit codes:".to_owned(), |mut text, exit| {
        let _ = write!(text, "\n  {:>3}  {}", exit.code(), exit.meaning());
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_table_in_the_documentation_matches_the_code() {
        let page = include_str!("../../../docs/reference/exit-codes.md");
        let rows =
            ExitStatus::ALL.map(|exit| format!("| {} | {} |\n", exit.code(), exit.meaning()));
        let table = format!("| code | meaning |\n|---|---|\n{}", rows.concat());
        assert!(page.contains(&table), "exit-codes.md must contain this table:\n{table}");
    }
}
