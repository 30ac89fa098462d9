//! Parses the command line, and adds suggestions to clap's errors.

use std::ffi::OsString;

use assize_config::most_similar;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, CommandFactory, Error, FromArgMatches, Parser};

use crate::args::{Cli, CliCommand, CommandLine, ExecCommand};

/// Flags that users may know from other programs. Each entry has a command of assize (empty for all commands), flags
/// that the command does not have, and a hint that tells the user what to use instead.
const FOREIGN_FLAGS: &[(&str, &[&str], &str)] = &[
    (
        "run",
        &["--retries", "--max-retries", "--tries"],
        "`--max-attempts NUMBER` sets the maximum number of attempts",
    ),
    ("run", &["--input", "--data", "--upload"], "`--file PATH` passes a file to the program"),
    (
        "run",
        &["--task", "--prompt"],
        "the task is an argument: `assize run \"Calculate fibonacci(10)\"`",
    ),
    (
        "run",
        &["--network", "--net"],
        "sandboxes have no network; `--file PATH` passes data to the program",
    ),
    (
        "exec",
        &["--network", "--net"],
        "sandboxes have no network; `--file PATH` passes data to the program",
    ),
    (
        "serve",
        &["--port", "-p"],
        "`--listen 127.0.0.1:8080` sets address and port, `--listen 8080` sets only the port",
    ),
    ("serve", &["--address", "--bind", "--addr"], "`--listen ADDRESS:PORT` sets address and port"),
    (
        "",
        &["--verbose", "-v", "--debug"],
        "`--log-level info` or `--log-level debug` logs more details",
    ),
];

/// Parses the command line; exits with code 2 if it is invalid, and with 0 after printing help.
pub(crate) fn command_line() -> Cli {
    parse(std::env::args_os().collect()).unwrap_or_else(|error| error.exit())
}

fn parse(words: Vec<OsString>) -> Result<Cli, Error> {
    // Building all subcommands takes milliseconds, and only help and errors need it. So first parse with only the
    // selected subcommand built, and `exec`, whose start takes longer than many programs, without all others.
    if words.get(1).is_some_and(|word| word == "exec")
        && let Ok(CommandLine { log, cluster, command: ExecCommand::Exec(args) }) =
            CommandLine::try_parse_from(&words)
    {
        return Ok(Cli { log, cluster, command: CliCommand::Exec(args) });
    }
    let parsed = Cli::command().try_get_matches_from(&words);
    if let Ok(cli) = parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        return Ok(cli);
    }
    let mut command = with_negative_numbers(Cli::command());
    command.build();
    let explained = |error: Error, command: &Command| add_suggestion(error, command, &words);
    let matches =
        command.try_get_matches_from_mut(&words).map_err(|error| explained(error, &command))?;
    Cli::from_arg_matches(&matches).map_err(|error| explained(error.format(&mut command), &command))
}

/// Allows negative numbers as values of options, so that the error about `--timeout -1` lists the valid values instead
/// of reporting an unknown option.
fn with_negative_numbers(command: Command) -> Command {
    let takes_value = |action: &ArgAction| matches!(action, ArgAction::Set | ArgAction::Append);
    command
        .mut_args(|arg| {
            let option = arg.get_long().is_some() && takes_value(arg.get_action());
            if option { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(with_negative_numbers)
}

/// Returns the subcommand that the user selected with the words before `wrong`, the invalid word of the command line.
fn selected_subcommand<'c>(command: &'c Command, words: &[OsString], wrong: &str) -> &'c Command {
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    words
        .take_while(|word| *word != wrong)
        .fold(command, |found, word| found.find_subcommand(word).unwrap_or(found))
}

/// Adds a suggestion to an error about an unknown subcommand or option: the most similar name, or a hint.
fn add_suggestion(mut error: Error, command: &Command, words: &[OsString]) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(wrong) = text(ContextKind::InvalidSubcommand) else { return error };
            let known = selected_subcommand(command, words, &wrong).get_subcommands();
            let names = known
                .filter(|one| !one.is_hide_set())
                .flat_map(|one| std::iter::once(one.get_name()).chain(one.get_visible_aliases()));
            let near = most_similar(&wrong, names).map(str::to_owned);
            replace(&mut error, ContextKind::SuggestedSubcommand, near);
        }
        ErrorKind::UnknownArgument => {
            let Some(wrong) = text(ContextKind::InvalidArg) else { return error };
            let command = selected_subcommand(command, words, &wrong);
            if let Some(instead) = foreign_flag_hint(command.get_name(), &wrong) {
                replace(&mut error, ContextKind::SuggestedArg, None);
                let tip = vec![instead.to_owned().into()];
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
            } else if wrong.starts_with('-') && error.get(ContextKind::SuggestedArg).is_none() {
                // This replaces clap's default tip, which is to pass the unknown option as a value.
                let longs: Vec<String> = command
                    .get_arguments()
                    .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
                    .collect();
                let near =
                    most_similar(&wrong, longs.iter().map(String::as_str)).map(str::to_owned);
                error.remove(ContextKind::Suggested);
                replace(&mut error, ContextKind::SuggestedArg, near);
            }
        }
        _ => {}
    }
    error
}

/// Returns the hint for a flag that other programs have and `command` does not have.
fn foreign_flag_hint(command: &str, flag: &str) -> Option<&'static str> {
    let of_command = |(name, flags, _): &&(&str, &[&str], &str)| {
        (name.is_empty() || *name == command) && flags.contains(&flag)
    };
    FOREIGN_FLAGS.iter().find(of_command).map(|(.., instead)| *instead)
}

fn replace(error: &mut Error, kind: ContextKind, with: Option<String>) {
    match with {
        Some(text) => drop(error.insert(kind, ContextValue::String(text))),
        None => drop(error.remove(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_flag_hints_contain_only_existing_commands_and_flags() {
        let mut command = Cli::command();
        command.build();
        for (name, flags, instead) in FOREIGN_FLAGS {
            let of = command.find_subcommand(name).unwrap_or(&command);
            assert!(name.is_empty() || of.get_name() == *name, "assize has no command `{name}`");
            for flag in *flags {
                let taken = of
                    .get_arguments()
                    .any(|arg| arg.get_long().is_some_and(|long| format!("--{long}") == *flag));
                assert!(!taken, "assize has the option `{name} {flag}`, so a hint is wrong");
            }
            let named = instead.split('`').skip(1).step_by(2).filter(|code| code.starts_with("--"));
            for code in named {
                let long = code.trim_start_matches("--").split(' ').next().unwrap_or_default();
                let there = of.get_arguments().any(|arg| arg.get_long() == Some(long));
                assert!(there, "the hint names `--{long}`, which `{name}` does not have");
            }
        }
    }
}
