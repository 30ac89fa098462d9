//! Arguments that choose a model and limit what it may cost.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assize_config::SettingKey;
use assize_service::CassetteChoice;
use clap::Args;

use super::{FlagSetting, given};

/// Flags of every command that calls a model.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// Provider: anthropic, openai, google, groq, openrouter, ollama, or rehearsal (offline, no model)
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,

    /// Model name; in a consultation also ROLE=MODEL for one role, such as critic=… or D1=…
    #[arg(long = "model", value_name = "MODEL")]
    pub(super) models: Vec<String>,

    /// Sampling temperature, from 0 to 2
    #[arg(long, value_name = "NUMBER")]
    pub(crate) temperature: Option<String>,

    /// Maximum length of an answer, in tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_output_tokens: Option<String>,

    /// Maximum cost, in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,

    /// Maximum number of tokens, input and output together
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,

    /// Record every call to the cassette FILE; recorded calls are not sent again
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,

    /// Answer from the cassette FILE only, without a network
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}

impl ModelArgs {
    /// Cassette selected by `--record` or `--replay`.
    pub(crate) fn tape(&self) -> CassetteChoice {
        match (&self.record, &self.replay) {
            (_, Some(path)) => CassetteChoice::Replay(path.clone()),
            (Some(path), None) => CassetteChoice::Record(path.clone()),
            (None, None) => CassetteChoice::None,
        }
    }

    /// Model for all roles; the last one given counts.
    pub(crate) fn model(&self) -> Option<String> {
        self.models.iter().rfind(|name| role_and_model(name).is_none()).cloned()
    }

    /// First `--model` value with a `=` that has an unknown role, no model, or a role given before.
    pub(crate) fn no_role(&self) -> Option<&str> {
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

    /// Models given for single roles, by role.
    pub(crate) fn by_role(&self) -> BTreeMap<String, String> {
        let named = self.models.iter().filter_map(|name| role_and_model(name));
        named.map(|(role, model)| (role.to_owned(), model.to_owned())).collect()
    }

    /// Settings given by these flags.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        given([
            (SettingKey::Provider, "--provider", &self.provider),
            (SettingKey::Model, "--model", &self.model()),
            (SettingKey::Temperature, "--temperature", &self.temperature),
            (SettingKey::MaxOutputTokens, "--max-output-tokens", &self.max_output_tokens),
            (SettingKey::BudgetMaxCost, "--max-cost", &self.max_cost),
            (SettingKey::BudgetMaxTokens, "--max-tokens", &self.max_tokens),
        ])
    }
}

/// Splits `critic=claude-opus-4-8` into role and model; `None` if the role is unknown.
fn role_and_model(text: &str) -> Option<(&str, &str)> {
    let (role, model) = text.split_once('=')?;
    let numbered = |prefix: &str| {
        role.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok_and(|n| n > 0))
    };
    let fixed = ["synthesizer", "financial", "trend", "critic"].contains(&role);
    (fixed || numbered("D") || numbered("analyst_")).then_some((role, model))
}
