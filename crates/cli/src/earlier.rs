//! A run that is taken up again, or started from, whatever made it.

use assize_config::{Environment, Settings};
use assize_run::{Run, RunKind};
use assize_types::text::one_line;
use assize_types::{Cancel, Failure, FailureKind};
use clap::Parser;

use crate::args::{Cli, Command, FlagSetting};
use crate::{consult, debate, eval, flags, kept, run, work};

/// Flags as they would be typed.
pub(crate) fn typed<const N: usize, const M: usize>(
    flags: [(&str, bool); N],
    values: [(&str, Option<String>); M],
) -> Vec<String> {
    let flags = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned());
    let values = values.into_iter().filter_map(|(flag, value)| Some(format!("{flag}={}", value?)));
    flags.chain(values).collect()
}

/// A run that is taken up by the command that made it.
pub(crate) struct Earlier {
    pub(crate) run: String,
    /// `--resume` or `--fork`.
    pub(crate) how: &'static str,
    pub(crate) more: Vec<String>,
    /// The flags that every command takes, such as `--cluster`: setting, flag, value.
    pub(crate) global: Vec<FlagSetting>,
}

impl Earlier {
    pub(crate) async fn take_up(
        self,
        config: &Settings,
        around: &Environment,
        cancel: Cancel,
    ) -> Result<u8, Failure> {
        let Earlier { run, how, more, global } = self;
        let missing = || kept::no_such_run(&run);
        let store = kept::open_to_read(config, around).await?.ok_or_else(missing)?;
        let found = kept::find(&*store, &run).await?;
        drop(store);
        if how == "--fork" && !matches!(found.kind, RunKind::Debate | RunKind::Consult) {
            let message =
                format!("`{}` is of a kind that cannot be forked: {}", found.id, found.kind);
            return Err(
                Failure::new(FailureKind::Usage, message).hint("debates and consultations can be")
            );
        }
        let global: Vec<String> =
            global.iter().map(|(_, flag, value)| format!("{flag}={value}")).collect();
        let mut words = vec!["assize", found.kind.name(), how, found.id.as_str()];
        words.extend(global.iter().map(String::as_str));
        words.extend(more.iter().map(String::as_str));
        // Whoever answered before answers now, unless somebody else is asked for.
        let other_provider = more.iter().any(|word| word.starts_with("--provider="));
        let for_all =
            |word: &String| word.starts_with("--model=") && word.matches('=').count() == 1;
        let other_model = other_provider || more.iter().any(for_all);
        let before =
            [("--provider", "provider", other_provider), ("--model", "model", other_model)];
        for (flag, name, other) in before {
            let value = found.input[name].as_str();
            let value = value.filter(|_| !other && provider_can_be_named(&found));
            words.extend(value.into_iter().flat_map(|value| [flag, value]));
        }
        let isolation = found.input["isolation"].as_str();
        words.extend(isolation.into_iter().flat_map(|walls| ["--isolation", walls]));
        let refused = |why: &str| {
            let message = format!("`{}` cannot be taken up like that{why}", found.id);
            Failure::new(FailureKind::Usage, message)
        };
        let cli = Cli::try_parse_from(words).map_err(|error| {
            let words = error.to_string();
            let first = words.split("\n\n").next().unwrap_or_default();
            refused(&format!(": {}", one_line(first.trim_start_matches("error: "))))
        })?;
        let config = Settings::load(around, &flags(&cli)?)?;
        match cli.command {
            Command::Run(args) => run::run(*args, &config, around, cancel).await,
            Command::Eval(args) => eval::run(*args, &config, around, cancel).await,
            Command::Work(args) => work::run(*args, &config, around, cancel).await,
            Command::Debate(args) => debate::run(*args, &config, around, cancel).await.map(|()| 0),
            Command::Consult(args) => {
                consult::run(*args, &config, around, cancel).await.map(|()| 0)
            }
            _ => Err(refused("")),
        }
    }
}

/// Whether who answered is somebody who can be asked for by name.
fn provider_can_be_named(run: &Run) -> bool {
    let provider = run.input["provider"].as_str();
    provider.is_some_and(|name| name.parse::<assize_config::Provider>().is_ok())
}
