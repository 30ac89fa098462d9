//! Operations on the settings as a whole: requests, provider keys, prices, and what is withheld.

use assize_types::{Failure, FailureKind};

use crate::environment::Environment;
use crate::kind::PRICE_FIELDS;
use crate::load::{Origin, Written};
use crate::price::Price;
use crate::provider::{Provider, Secret};
use crate::table::{SettingKey, Settings, all};
use crate::trust::Trust;
use crate::value::Source;

impl Settings {
    /// Reads all settings; `flags` are those of the command line, each with the flag's name and its value.
    pub fn load(
        around: &Environment,
        flags: &[(SettingKey, &'static str, String)],
    ) -> Result<Settings, Failure> {
        Settings::parse(Origin::load(around, flags)?)
    }

    /// These settings with the values that a request asks for. What the operator has set is a ceiling for amounts, and
    /// isolation can only be made stronger; defaults can be changed up to the ceilings of requests.
    pub fn with_request(&self, requested: &[(SettingKey, String)]) -> Result<Settings, Failure> {
        let mut origin = self.origin.clone();
        for (key, value) in requested {
            let refused = |why: String| Failure::new(FailureKind::Usage, format!("`{key}` {why}"));
            let setting = key.setting();
            if let Some(complaint) = setting.kind.complaint(value) {
                return Err(refused(complaint));
            }
            let set = self.written(*key).filter(|written| written.is_set());
            let ceiling = setting.ceiling().filter(|_| set.is_none());
            if let Some(why) = set.and_then(|set| setting.refuses(set, value)) {
                return Err(refused(why).hint("whoever runs the server has set it"));
            }
            if let Some((ceiling, most)) = ceiling.and_then(|key| Some((key, self.written(key)?)))
                && let Some(why) = setting.refuses(most, value)
            {
                let hint = format!("the setting `{ceiling}` is the ceiling of requests");
                return Err(refused(why).hint(hint));
            }
            origin.set(key.to_string(), value.clone(), Source::Request);
        }
        // A default above the ceiling does not get around it.
        for setting in all() {
            let value = origin.values.get(setting.key.name()).filter(|value| !value.is_set());
            let most = setting.ceiling().and_then(|key| self.written(key));
            if let Some((value, most)) = value.zip(most)
                && setting.refuses(most, value).is_some()
            {
                origin.set(setting.key.to_string(), most.to_string(), Source::Default);
            }
        }
        Settings::parse(origin)
    }

    /// The text of a value in force, as it was written.
    pub fn written(&self, key: SettingKey) -> Option<&Written> {
        self.origin.values.get(key.name())
    }

    /// The key of a provider, and where it is or should be.
    pub fn key(&self, provider: Provider) -> (Option<Secret>, Source) {
        let variable = self.provider_settings(provider).key_env.to_string();
        let origin = &self.origin;
        let from_file = origin.env_file.iter().rfind(|entry| entry.key == variable);
        match (origin.environment.get(&variable).filter(|key| !key.is_empty()), from_file) {
            (Some(key), _) => (Some(Secret::new(key.trim())), Source::Environment(variable)),
            (None, Some(entry)) if !entry.value.is_empty() => {
                let source = Source::EnvFile { path: origin.env_path.clone(), variable };
                (Some(Secret::new(entry.value.trim())), source)
            }
            _ => (None, Source::Environment(variable)),
        }
    }

    /// Whether a value was set by a folder that is not trusted.
    pub fn is_foreign(&self, source: &Source) -> bool {
        self.origin.trust != Trust::Given && source.is_the_folders()
    }

    /// Warning that the key of a provider comes from a folder that is not trusted.
    pub fn warn_of_foreign_key(&self, provider: Provider) -> Option<String> {
        let (_, key) = self.key(provider);
        self.is_foreign(&key).then(|| {
            format!(
                "asking {provider}: the key is from {key}, in a folder that is not trusted (`assize config trust` \
                 says that it is)"
            )
        })
    }

    /// Warning that a folder which is not trusted chooses a provider or a model, in vain; unless the user has chosen
    /// for this command.
    pub fn warn_of_ignored_choice(&self) -> Option<String> {
        let chosen = |key: &str| {
            self.origin.source(key).is_some_and(|source| {
                source.is_requested() || matches!(source, Source::Environment(_))
            })
        };
        let in_force = |key: &str| chosen(key) || (key.ends_with(".model") && chosen("model"));
        let ignored = self.origin.withheld.iter().filter(|one| one.ignored && !in_force(&one.key));
        let ignored: Vec<String> =
            ignored.map(|one| format!("`{}` ({})", one.key, one.source)).collect();
        let is = match ignored.len() {
            0 => return None,
            1 => "is",
            _ => "are",
        };
        Some(format!(
            "{} {is} ignored: {}; choose with `--provider` and `--model`, or read the file and allow it with \
             `assize config trust`",
            ignored.join(", "),
            self.origin.trust.why_not()
        ))
    }

    /// What the user says a model costs.
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
                format!("the price of `{model}` needs both `input` and `output`"),
            )),
        }
    }

    /// Values of keys that only the user's files name, such as prices.
    pub fn extra(&self) -> impl Iterator<Item = (&String, &Written)> {
        self.origin.values.iter().filter(|(key, _)| key.starts_with("prices."))
    }

    /// Stops where the project asks for something that it may not have: to go on without it could
    /// do something else than its author, or its user, had in mind.
    pub fn refuse_withheld(&self) -> Result<(), Failure> {
        let mut stopping = self.origin.withheld.iter().filter(|withheld| !withheld.ignored);
        let Some(first) = stopping.next() else {
            return Ok(());
        };
        let more = match stopping.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let why = self.origin.trust.why_not();
        let message = format!("{}: `{}`{more} is set, and {why}", first.source, first.key);
        Err(Failure::new(FailureKind::Settings, message).hint(
            "such settings say where your keys and prompts go, what may be spent, or what may be done to your \
             files: read the file, then allow them with `assize config trust`",
        ))
    }
}
