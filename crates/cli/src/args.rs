//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::failure::EXIT_CODES;

/// Puts what models propose on trial, in a sandbox, before it touches anything you care about.
#[derive(Debug, Parser)]
#[command(name = "assize", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// What is logged to standard error: error, warn, info, debug or trace (which shows prompts)
    #[arg(long, global = true, value_name = "LEVEL", value_parser = ["error", "warn", "info", "debug", "trace"], hide_possible_values = true)]
    pub(crate) log_level: Option<String>,

    /// How it is logged: text or json
    #[arg(long, global = true, value_name = "FORMAT", value_parser = ["text", "json"], hide_possible_values = true)]
    pub(crate) log_format: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask a model one question
    Ask(Box<AskArgs>),
    /// Show what this machine offers: which providers are configured and reachable
    Doctor(DoctorArgs),
    /// Show settings and where each comes from; trust a folder's settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print completions for a shell, to be loaded by it
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The question; `-` reads it from standard input
    pub(crate) question: String,

    /// Ask for JSON of the shape that this JSON schema describes
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// Instructions that go before the question
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Print the answer as it is written
    #[arg(long, conflicts_with_all = ["schema", "json"])]
    pub(crate) stream: bool,

    /// Print answer, usage and cost as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Print nothing but the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Say what the question would cost, and ask nothing
    #[arg(long, conflicts_with_all = ["stream", "record", "replay"])]
    pub(crate) estimate: bool,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// The flags of every command that asks a model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// anthropic, openai, google, groq, openrouter, ollama, or rehearsal (offline, no model)
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,

    /// The provider's model
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// How freely the model answers, from 0 to 2
    #[arg(long, value_name = "NUMBER")]
    pub(crate) temperature: Option<String>,

    /// The longest answer, in tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_output_tokens: Option<String>,

    /// Spend at most so many dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,

    /// Use at most so many tokens, input and output together
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,

    /// Record every call to FILE; what is on it already is not asked again
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,

    /// Answer from FILE alone, without a network
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}

impl ModelArgs {
    /// The flags as settings: key, flag, value.
    pub(crate) fn settings(&self) -> Vec<(String, &'static str, String)> {
        let flags = [
            ("provider", "--provider", &self.provider),
            ("model", "--model", &self.model),
            ("temperature", "--temperature", &self.temperature),
            ("max_output_tokens", "--max-output-tokens", &self.max_output_tokens),
            ("budget.max_cost", "--max-cost", &self.max_cost),
            ("budget.max_tokens", "--max-tokens", &self.max_tokens),
        ];
        let given = |(key, flag, value): (&str, &'static str, &Option<String>)| {
            value.clone().map(|value| (key.to_owned(), flag, value))
        };
        flags.into_iter().filter_map(given).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Do not try to reach anyone
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting in force and where it was set; keys are masked
    Show {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        /// Which settings to show
        #[arg(long, value_enum, default_value_t = Which::All)]
        only: Which,
    },
    /// Trust a folder's assize.toml and .env, as they are now, to say where keys go
    Trust {
        /// The folder; that of the project you are in by default
        folder: Option<PathBuf>,
    },
    /// Take that trust back
    Distrust {
        /// The folder; that of the project you are in by default
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Which {
    /// All of them
    All,
    /// Those that are not at their default
    Set,
}
