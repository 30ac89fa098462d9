//! Models: what can be typed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assize_config::SettingKey;
use assize_service::Tape;
use clap::Args;

use super::{FlagSetting, given};

/// The flags of every command that asks a model.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// anthropic, openai, google, groq, openrouter, ollama, or rehearsal (offline, no model)
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,

    /// The provider's model; in a consultation also ROLE=MODEL for one role, such as critic=… or D1=…
    #[arg(long = "model", value_name = "MODEL")]
    pub(super) models: Vec<String>,

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
    /// The tape that was named.
    pub(crate) fn tape(&self) -> Tape {
        match (&self.record, &self.replay) {
            (_, Some(path)) => Tape::Replay(path.clone()),
            (Some(path), None) => Tape::Record(path.clone()),
            (None, None) => Tape::None,
        }
    }

    /// The model that was named for everybody.
    pub(crate) fn model(&self) -> Option<String> {
        self.models.iter().rfind(|name| role_and_model(name).is_none()).cloned()
    }

    /// Something that looks like a role with its model, and names no role, no model, or a role once more.
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

    /// The models that were named for one role each.
    pub(crate) fn by_role(&self) -> BTreeMap<String, String> {
        let named = self.models.iter().filter_map(|name| role_and_model(name));
        named.map(|(role, model)| (role.to_owned(), model.to_owned())).collect()
    }

    /// The flags as settings: key, flag, value.
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

/// A model for one role: `critic=claude-opus-4-8`.
fn role_and_model(text: &str) -> Option<(&str, &str)> {
    let (role, model) = text.split_once('=')?;
    let numbered = |prefix: &str| {
        role.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok_and(|n| n > 0))
    };
    let fixed = ["synthesizer", "financial", "trend", "critic"].contains(&role);
    (fixed || numbered("D") || numbered("analyst_")).then_some((role, model))
}
