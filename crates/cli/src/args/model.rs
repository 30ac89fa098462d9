//! Arguments that select a model and limit the cost of its calls.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assize_config::SettingKey;
use assize_service::CassetteChoice;
use clap::Args;

use super::{FlagSetting, settings_from_flags};

/// Flags shared by all commands that call a model.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// Select the provider, such as anthropic or ollama
    ///
    /// Providers are anthropic, openai, google, groq, openrouter, ollama, and rehearsal, which generates placeholder
    /// answers without a network.
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,

    /// Select the model; in a consultation, ROLE=MODEL selects it for one role
    ///
    /// For example `--model critic=claude-opus-4-8`. The option can be repeated for several roles.
    #[arg(long = "model", value_name = "MODEL")]
    pub(super) models: Vec<String>,

    /// Set the sampling temperature, from 0 to 2
    #[arg(long, value_name = "NUMBER")]
    pub(crate) temperature: Option<String>,

    /// Set the maximum length of an answer, in tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_output_tokens: Option<String>,

    /// Set the maximum cost of the run, in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,

    /// Set the maximum number of tokens of the run, input and output together
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,

    /// Record model calls to the cassette FILE, and reuse the answers of recorded calls
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,

    /// Replay recorded answers from the cassette FILE, without calling a provider
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}

impl ModelArgs {
    /// Returns the cassette that `--record` or `--replay` selects.
    pub(crate) fn cassette(&self) -> CassetteChoice {
        match (&self.record, &self.replay) {
            (_, Some(path)) => CassetteChoice::Replay(path.clone()),
            (Some(path), None) => CassetteChoice::Record(path.clone()),
            (None, None) => CassetteChoice::None,
        }
    }

    /// Returns the last `--model` value without a role: the model for all roles.
    pub(crate) fn model(&self) -> Option<String> {
        self.models.iter().rfind(|name| role_and_model(name).is_none()).cloned()
    }

    /// Returns the first invalid `--model ROLE=MODEL` value: its role is unknown or was given in an earlier value, or
    /// its model is missing.
    pub(crate) fn first_invalid_role(&self) -> Option<&str> {
        let is_wrong = |(index, name): &(usize, &String)| match role_and_model(name) {
            Some((_, "")) => true,
            Some((role, _)) => {
                let before = self.models[..*index].iter().filter_map(|name| role_and_model(name));
                before.into_iter().any(|(other, _)| other == role)
            }
            None => name.contains('='),
        };
        self.models.iter().enumerate().find(is_wrong).map(|(_, name)| name.as_str())
    }

    /// Returns the models of the `--model ROLE=MODEL` values, by role.
    pub(crate) fn by_role(&self) -> BTreeMap<String, String> {
        let named = self.models.iter().filter_map(|name| role_and_model(name));
        named.map(|(role, model)| (role.to_owned(), model.to_owned())).collect()
    }

    /// Returns the settings that were given as flags.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        settings_from_flags([
            (SettingKey::Provider, "--provider", &self.provider),
            (SettingKey::Model, "--model", &self.model()),
            (SettingKey::Temperature, "--temperature", &self.temperature),
            (SettingKey::MaxOutputTokens, "--max-output-tokens", &self.max_output_tokens),
            (SettingKey::BudgetMaxCost, "--max-cost", &self.max_cost),
            (SettingKey::BudgetMaxTokens, "--max-tokens", &self.max_tokens),
        ])
    }
}

/// Splits a text such as `critic=claude-opus-4-8` into role and model; `None` if the role is unknown.
fn role_and_model(text: &str) -> Option<(&str, &str)> {
    let (role, model) = text.split_once('=')?;
    let numbered = |prefix: &str| {
        role.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok_and(|n| n > 0))
    };
    let fixed = ["synthesizer", "financial", "trend", "critic"].contains(&role);
    (fixed || numbered("D") || numbered("analyst_")).then_some((role, model))
}
