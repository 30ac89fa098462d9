//! Operations on the loaded settings: overrides by API requests, API keys of providers, prices of models, and errors
//! about settings of untrusted folders.

use assize_types::{Failure, FailureKind};

use crate::environment::Environment;
use crate::file::FileEntry;
use crate::kind::PRICE_FIELDS;
use crate::load::{SettingText, SettingsOrigin};
use crate::price::Price;
use crate::provider::{ApiKey, Provider};
use crate::table::{SettingKey, Settings, all};
use crate::trust::Trust;
use crate::value::SettingSource;

impl Settings {
    /// Loads all settings. Each of the `flags` has the key of a setting, the name of the command-line flag, and the
    /// value.
    pub fn load(
        environment: &Environment,
        flags: &[(SettingKey, &'static str, String)],
    ) -> Result<Settings, Failure> {
        Settings::parse(SettingsOrigin::load(environment, flags)?)
    }

    /// Applies the overrides of an API request. If the operator of the server has set a limit, the request may lower
    /// the limit but not raise it. If the operator has set an isolation, the request may not choose a weaker one. If
    /// the operator has not set a limit, the `serve.max_…` settings limit the request.
    pub fn with_request(&self, requested: &[(SettingKey, String)]) -> Result<Settings, Failure> {
        let mut origin = self.origin.clone();
        for (key, value) in requested {
            let refused = |why: String| Failure::new(FailureKind::Usage, format!("`{key}` {why}"));
            let setting = key.setting();
            if let Some(complaint) = setting.kind.validation_error(value) {
                return Err(refused(complaint));
            }
            let set = self.text_of(*key).filter(|written| written.is_set());
            let ceiling = setting.request_limit().filter(|_| set.is_none());
            if let Some(why) = set.and_then(|set| setting.reason_to_reject(set, value)) {
                return Err(refused(why).hint(
                    "omit the setting to use the value that the operator of the server has set",
                ));
            }
            if let Some((ceiling, max)) = ceiling.and_then(|key| Some((key, self.text_of(key)?)))
                && let Some(why) = setting.reason_to_reject(max, value)
            {
                let hint =
                    format!("the operator of the server can raise the limit with `{ceiling}`");
                return Err(refused(why).hint(hint));
            }
            origin.set(key.to_string(), value.clone(), SettingSource::Request);
        }
        // A default that exceeds the limit for API requests is lowered to that limit.
        for setting in all() {
            let value = origin.values.get(setting.key.name()).filter(|value| !value.is_set());
            let max = setting.request_limit().and_then(|key| self.text_of(key));
            if let Some((value, max)) = value.zip(max)
                && setting.reason_to_reject(max, value).is_some()
            {
                origin.set(setting.key.to_string(), max.to_string(), SettingSource::Default);
            }
        }
        Settings::parse(origin)
    }

    /// Returns the effective value of a setting as text; `None` if the setting is not set and has no default.
    pub fn text_of(&self, key: SettingKey) -> Option<&SettingText> {
        self.origin.values.get(key.name())
    }

    /// Returns the API key of a provider and its source: an environment variable, the `.env` file of a trusted folder,
    /// the user's file of API keys, or the `.env` file of an untrusted folder. Without a key, the source is the
    /// environment variable that should contain the key.
    pub fn key(&self, provider: Provider) -> (Option<ApiKey>, SettingSource) {
        let variable = self.provider_settings(provider).key_env.to_string();
        let origin = &self.origin;
        let in_file = |entries: &[FileEntry]| {
            let entry = entries.iter().rfind(|entry| entry.key == variable)?;
            Some(entry.value.clone()).filter(|value| !value.trim().is_empty())
        };
        let from_env_file = |is_trusted: bool| {
            let matches_trust = (origin.trust == Trust::Trusted) == is_trusted;
            let key = in_file(&origin.env_file).filter(|_| matches_trust)?;
            let variable = variable.clone();
            Some((key, SettingSource::EnvFile { path: origin.env_path.clone(), variable }))
        };
        let from_environment = || {
            let key = origin.environment.get(&variable).filter(|key| !key.is_empty())?;
            Some((key.clone(), SettingSource::Environment(variable.clone())))
        };
        let from_user = || {
            let (path, variable) = (origin.user_keys_path.clone(), variable.clone());
            Some((in_file(&origin.user_keys)?, SettingSource::UserKeys { path, variable }))
        };
        // A repository must not replace the user's key: its owner could read the prompts in their account.
        let found = from_environment()
            .or_else(|| from_env_file(true))
            .or_else(from_user)
            .or_else(|| from_env_file(false));
        let Some((key, source)) = found else {
            return (None, SettingSource::Environment(variable));
        };
        (Some(ApiKey::new(key.trim())), source)
    }

    /// Whether the source of a value is a file of an untrusted folder.
    pub fn is_untrusted(&self, source: &SettingSource) -> bool {
        self.origin.trust != Trust::Trusted && source.is_project_file()
    }

    /// Returns a warning if the API key of a provider comes from an untrusted folder.
    pub fn warn_of_untrusted_key(&self, provider: Provider) -> Option<String> {
        let (_, key) = self.key(provider);
        self.is_untrusted(&key).then(|| {
            format!(
                "calling {provider} with the key from {key}, although the folder of this file is not trusted (trust \
                 the folder with `assize config trust`)"
            )
        })
    }

    /// Returns a warning if an untrusted folder selects a provider or model and the selection is ignored. There is no
    /// warning if the user has selected the provider or model with a flag or an environment variable.
    pub fn warn_of_ignored_choice(&self) -> Option<String> {
        let chosen = |key: &str| {
            self.origin.source(key).is_some_and(|source| {
                source.is_requested() || matches!(source, SettingSource::Environment(_))
            })
        };
        let in_force = |key: &str| chosen(key) || (key.ends_with(".model") && chosen("model"));
        let ignored =
            self.origin.untrusted_values.iter().filter(|it| it.ignored && !in_force(&it.key));
        let ignored: Vec<String> =
            ignored.map(|it| format!("`{}` ({})", it.key, it.source)).collect();
        let is = match ignored.len() {
            0 => return None,
            1 => "is",
            _ => "are",
        };
        Some(format!(
            "{} {is} ignored: {}; choose the provider and the model with `--provider` and `--model`, \
             or read the file and allow its settings with `assize config trust`",
            ignored.join(", "),
            self.origin.trust.explanation()
        ))
    }

    /// Returns the price of a model from the `prices` settings; `None` if the settings define no price for the model.
    pub fn price(&self, model: &str) -> Result<Option<Price>, Failure> {
        let field =
            |name: &str| self.origin.text(&format!("prices.{model}.{name}"))?.parse::<f64>().ok();
        let [input, cached, write, output] = PRICE_FIELDS.map(field);
        match (input, output) {
            (None, None) => Ok(None),
            (Some(input), Some(output)) => {
                Ok(Price::flat(input, cached.unwrap_or(input), write.unwrap_or(input), output))
            }
            _ => Err(Failure::new(
                FailureKind::Settings,
                format!("incomplete price of `{model}`: set both `input` and `output`"),
            )),
        }
    }

    /// Returns key and value of each field of each model's price. Only these keys are not in the table of settings.
    pub fn model_prices(&self) -> impl Iterator<Item = (&String, &SettingText)> {
        self.origin.values.iter().filter(|(key, _)| key.starts_with("prices."))
    }

    /// Fails if the files of an untrusted folder set a value that requires trust. The value is not ignored silently,
    /// because the command could then do something that neither the project's author nor the user intended.
    pub fn reject_untrusted_values(&self) -> Result<(), Failure> {
        let mut stopping = self.origin.untrusted_values.iter().filter(|withheld| !withheld.ignored);
        let Some(first) = stopping.next() else {
            return Ok(());
        };
        let more = match stopping.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let why = self.origin.trust.explanation();
        let message =
            format!("{}: `{}`{more} requires a trusted folder, but {why}", first.source, first.key);
        Err(Failure::new(FailureKind::Settings, message).hint(
            "settings that require a trusted folder decide where your keys and prompts are sent, how much may be \
             spent, or how your files may be changed: read the file, then \
             allow its settings with `assize config trust`",
        ))
    }
}
