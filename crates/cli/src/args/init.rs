//! Arguments of `assize init`.

use std::path::PathBuf;

use assize_config::{Provider, REHEARSAL};
use clap::{Args, ValueEnum};

use super::McpClient;

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Use this provider: anthropic, openai, google, groq, openrouter, ollama or rehearsal
    #[arg(long, value_name = "NAME", value_parser = providers(), hide_possible_values = true)]
    pub(crate) provider: Option<String>,

    /// Use this model of the provider
    #[arg(long, value_name = "NAME", requires = "provider")]
    pub(crate) model: Option<String>,

    /// Read the API key from this file, or from standard input if it is `-`
    ///
    /// Without this flag, the command uses the key that is already set, for example in the environment, or asks for a
    /// key. A key from this flag is stored in the user's file of API keys, which only the user can read.
    #[arg(long, value_name = "FILE", requires = "provider")]
    pub(crate) key_file: Option<PathBuf>,

    /// Do not send the free request that checks the provider and its key
    #[arg(long)]
    pub(crate) no_check: bool,

    /// Install completions for this shell: bash, fish, zsh or none
    #[arg(long, value_enum, value_name = "SHELL", hide_possible_values = true)]
    pub(crate) completions: Option<CompletionShell>,

    /// Build the missing images for containers and microVMs
    #[arg(long)]
    pub(crate) images: bool,

    /// Add the draft tools for the current folder to this MCP client; can be repeated
    #[arg(long = "mcp", value_enum, value_name = "CLIENT", hide_possible_values = true)]
    pub(crate) mcp_clients: Vec<McpClient>,
}

/// Names of the providers that `--provider` accepts.
fn providers() -> Vec<&'static str> {
    Provider::ALL.map(Provider::name).into_iter().chain([REHEARSAL]).collect()
}

/// Shell whose completions are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Fish,
    Zsh,
    None,
}
