//! Loads settings from defaults, the user's file, the project's files, environment variables and flags.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use assize_types::{Failure, FailureKind};

use crate::environment::Environment;
use crate::file::{FileEntry, parse, parse_env, read_text, relative_to};
use crate::kind::most_similar;
use crate::provider::{Provider, UnknownProvider};
use crate::setting::{Setting, SettingGuard, variables};
use crate::table::{SettingKey, all};
use crate::trust::{self, Trust, TrustStore};
use crate::value::{FromText, SettingSource, SettingValue};

/// A setting's value as unparsed text, with its source.
pub type SettingText = SettingValue<String>;

/// A value in the project's files that has no effect, because the project folder is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedValue {
    pub key: String,
    pub source: SettingSource,
    /// Whether commands show a warning and ignore the value. If false, commands fail because of the value.
    pub ignored: bool,
}

/// Sources of the settings: the files that were read, the trust state of the project folder, and the text of every
/// value.
#[derive(Debug, Clone)]
pub struct SettingsOrigin {
    /// Text and source of every effective value, by the key of its setting.
    pub(crate) values: BTreeMap<String, SettingText>,
    /// Values in the project's files that have no effect, because only a trusted folder may set them and the folder is
    /// not trusted.
    pub untrusted_values: Vec<UntrustedValue>,
    /// Key and value of each setting in the project's files that only a trusted folder may set to that value. Includes
    /// settings that another source overrides.
    pub sensitive: Vec<(String, String)>,
    /// Hash of the project's files (`assize.toml` and `.env`) as they were read. The folder is trusted only if the user
    /// has trusted files with the same hash.
    pub fingerprint: String,
    /// Folder whose `assize.toml` and `.env` are used.
    pub project_folder: PathBuf,
    /// Path of the project's `assize.toml`, if the file exists.
    pub project_file: Option<PathBuf>,
    /// Path of the user's settings file, and whether the file exists.
    pub user_file: (PathBuf, bool),
    /// Trust state of the project folder.
    pub trust: Trust,
    /// Warnings to show to the user.
    pub warnings: Vec<String>,
    /// Environment variables of the process.
    pub(crate) environment: BTreeMap<String, String>,
    /// Variables of the project's `.env` file.
    pub(crate) env_file: Vec<FileEntry>,
    /// Path of the project's `.env` file, even if the file does not exist.
    pub(crate) env_path: PathBuf,
    /// API keys in the user's file of API keys.
    pub(crate) user_keys: Vec<FileEntry>,
    /// Path of the user's file of API keys, even if the file does not exist.
    pub(crate) user_keys_path: PathBuf,
}

impl SettingsOrigin {
    /// Loads all settings: defaults, the user's file, the project's files, environment variables, flags. A later source
    /// overrides an earlier one.
    pub(crate) fn load(
        environment: &Environment,
        flags: &[(SettingKey, &'static str, String)],
    ) -> Result<SettingsOrigin, Failure> {
        for (key, flag, text) in flags {
            // `invalid` reports an unknown provider later, with the most similar name as a hint.
            let checked = (*key != SettingKey::Provider).then(|| key.setting().kind);
            if let Some(complaint) = checked.and_then(|kind| kind.validation_error(text)) {
                return Err(Failure::new(FailureKind::Usage, format!("`{flag}` {complaint}")));
            }
        }
        let project_folder = environment.project_folder().to_owned();
        let project_path = project_folder.join("assize.toml");
        let env_path = project_folder.join(".env");
        let project_text = read_text(&project_path)?;
        // A folder with the name `.env` is not read: it is usually a Python virtual environment.
        let env_text = if env_path.is_file() { read_text(&env_path)? } else { None };
        let user_text = read_text(&environment.user_file)?;
        let user_keys_path = environment.keys_file();
        let user_keys_text = read_text(&user_keys_path);
        let fingerprint = trust::fingerprint([project_text.as_deref(), env_text.as_deref()]);
        let trust =
            TrustStore::open(&environment.state_folder)?.state_of(&project_folder, &fingerprint);
        let show = |path: &Path| relative_to(path, &environment.working_folder);

        // The sources are applied from the lowest to the highest precedence: later values override earlier ones.
        let default = |setting: &Setting| {
            let written =
                SettingValue { value: setting.default?.to_owned(), source: SettingSource::Default };
            Some((setting.key.to_string(), written))
        };
        let mut origin = SettingsOrigin {
            values: all().iter().filter_map(default).collect(),
            untrusted_values: Vec::new(),
            sensitive: Vec::new(),
            fingerprint,
            project_file: project_text.is_some().then(|| show(&project_path)),
            user_file: (environment.user_file.clone(), user_text.is_some()),
            trust,
            warnings: Vec::new(),
            environment: environment.variables.clone(),
            env_file: Vec::new(),
            env_path: show(&env_path),
            user_keys: Vec::new(),
            user_keys_path: user_keys_path.clone(),
            project_folder,
        };
        match user_keys_text {
            Ok(Some(text)) => {
                origin.user_keys = parse_env(&user_keys_path, &text, &|_| true)?;
                origin.warnings.extend(warn_of_readable_keys(&user_keys_path));
            }
            Ok(None) => {}
            // Commands that need no key still work.
            Err(failure) => origin.warnings.push(failure.message().to_owned()),
        }
        if let Some(text) = env_text {
            origin.env_file = origin.read_env_file(&text)?;
        }
        origin.warn_of_unknown_variables();
        if let Some(text) = user_text {
            let path = environment.user_file.clone();
            for FileEntry { key, value, line } in parse(&path, &text)? {
                origin.set(key, value, SettingSource::User { path: path.clone(), line });
            }
        }
        if let Some(text) = project_text {
            let path = show(&project_path);
            for FileEntry { key, value, line } in parse(&path, &text)? {
                origin.set_if_permitted(
                    key,
                    value,
                    SettingSource::Project { path: path.clone(), line },
                );
            }
        }
        origin.apply_variables()?;
        for (key, flag, value) in flags {
            origin.set(key.to_string(), value.clone(), SettingSource::Flag(flag));
        }
        Ok(origin)
    }

    /// Parses the effective value of a setting into its type.
    pub(crate) fn value<T: FromText>(&self, key: SettingKey) -> Result<SettingValue<T>, Failure> {
        let (kind, written) = (key.setting().kind, self.values.get(key.name()));
        let (value, source) = match written {
            Some(SettingValue { value, source }) => (T::from_text(&kind, value), source.clone()),
            None => (T::unset(), SettingSource::Default),
        };
        let value = value.ok_or_else(|| invalid(key, self.text(key.name()).unwrap_or_default()))?;
        Ok(SettingValue { value, source })
    }

    /// Returns the source of a setting's effective value. `key` is the key as it is written in settings files.
    pub fn source(&self, key: &str) -> Option<&SettingSource> {
        self.values.get(key).map(|written| &written.source)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|written| written.value.as_str())
    }

    pub(crate) fn set(&mut self, key: String, mut value: String, source: SettingSource) {
        if key.ends_with(".base_url") {
            value.truncate(value.trim_end_matches('/').len());
        }
        self.values.insert(key, SettingValue { value, source });
    }

    /// Sets a value from the project's files if the folder is trusted or the [`SettingGuard`] of the setting permits
    /// the value. Otherwise adds the value to [`SettingsOrigin::untrusted_values`].
    fn set_if_permitted(&mut self, key: String, text: String, source: SettingSource) {
        let setting = Setting::named(&key);
        // Prices are not in the table of settings. They require trust, because a price that is too low would loosen the
        // budget.
        let guard = setting.map_or(SettingGuard::Trusted, |setting| setting.guard);
        let may = match guard {
            SettingGuard::Open => true,
            SettingGuard::Tighten => {
                setting.is_some_and(|setting| self.lowers_limit(setting, &text))
            }
            SettingGuard::Trusted | SettingGuard::Choice => false,
        };
        if !may {
            self.sensitive.push((key.clone(), text.clone()));
        }
        // A value that is already in effect needs no trust, and its source does not change.
        if self.text(&key) == Some(text.as_str()) {
            return;
        }
        if may || self.trust == Trust::Trusted {
            self.set(key, text, source);
        } else {
            self.untrusted_values.push(UntrustedValue {
                key,
                source,
                ignored: guard == SettingGuard::Choice,
            });
        }
    }

    /// Whether the new value `text` of a limit is at most the current value of the limit. If the limit has no value
    /// yet, every number is allowed.
    fn lowers_limit(&self, setting: &Setting, text: &str) -> bool {
        let amount = |text: &str| setting.kind.as_number(text);
        match (self.text(setting.key.name()).and_then(amount), amount(text)) {
            (Some(now), Some(new)) => new <= now,
            (None, Some(_)) => true,
            _ => false,
        }
    }

    /// Applies the variables of the `.env` file, and then the environment variables, which take precedence.
    fn apply_variables(&mut self) -> Result<(), Failure> {
        for (setting, variable) in variables() {
            let entry = self.env_file.iter().rfind(|entry| entry.key == *variable);
            if let Some(value) = entry.map(|entry| entry.value.clone()) {
                let (path, variable) = (self.env_path.clone(), variable.clone());
                let source = SettingSource::EnvFile { path, variable };
                if let Some(value) = validate_variable(setting, value, &source)? {
                    self.set_if_permitted(setting.key.to_string(), value, source);
                }
            }
        }
        for (setting, variable) in variables() {
            if let Some(value) = self.environment.get(variable).cloned() {
                let source = SettingSource::Environment(variable.clone());
                if let Some(value) = validate_variable(setting, value, &source)? {
                    self.set(setting.key.to_string(), value, source);
                }
            }
        }
        Ok(())
    }

    /// Parses the `.env` file. Malformed lines are skipped, with one exception: an unclosed quote is an error if assize
    /// can read a setting or an API key from a variable with this name.
    fn read_env_file(&self, text: &str) -> Result<Vec<FileEntry>, Failure> {
        let is_ours = |name: &str| {
            name.starts_with("ASSIZE_")
                || name.ends_with("KEY")
                || variables().iter().any(|(_, variable)| variable == name)
        };
        parse_env(&self.env_path, text, &is_ours)
    }

    /// Adds a warning for each `ASSIZE_…` variable that belongs to no setting.
    fn warn_of_unknown_variables(&mut self) {
        let names = || variables().iter().map(|(_, variable)| variable.as_str());
        let given = self.environment.keys().chain(self.env_file.iter().map(|entry| &entry.key));
        let unknown = given
            .filter(|variable| variable.starts_with("ASSIZE_") && !names().any(|n| n == *variable));
        /// Maximum number of warnings about unknown variables. A hostile `.env` file could contain thousands of them.
        const MAX_WARNINGS: usize = 5;
        let warnings = unknown
            .take(MAX_WARNINGS)
            .map(|variable| {
                let provider = Provider::ALL.into_iter().find(|provider| {
                    variable.starts_with(&format!("ASSIZE_{}", provider.name().to_uppercase()))
                });
                match (provider, most_similar(variable, names())) {
                    (Some(provider), _) if variable.ends_with("KEY") => {
                        let right = provider.key_variable();
                        format!("unknown variable `{variable}`; put the API key into `{right}`")
                    }
                    (_, Some(near)) => {
                        format!("unknown variable `{variable}`; did you mean `{near}`?")
                    }
                    (_, None) => format!("unknown variable `{variable}`: no setting has this name"),
                }
            })
            .collect::<Vec<_>>();
        self.warnings.extend(warnings);
    }
}

/// Returns a warning if other users may read the file of API keys.
fn warn_of_readable_keys(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    let shown = path.display();
    (mode & 0o077 != 0).then(|| {
        format!(
            "other users may read the API keys in `{shown}`; protect them with `chmod 600 {shown}`"
        )
    })
}

/// Error for a text that is not a valid value of the setting `key`.
fn invalid(key: SettingKey, text: &str) -> Failure {
    let kind = key.setting().kind;
    if key != SettingKey::Provider {
        let complaint = kind.validation_error(text).unwrap_or_default();
        return Failure::new(FailureKind::Usage, format!("`{key}` {complaint}"));
    }
    let failure = Failure::from_error(FailureKind::Usage, &UnknownProvider(text.to_owned()));
    kind.did_you_mean(text, failure)
}

/// Validates the value of an environment variable that sets `setting`. Returns `None` if the value is empty, which
/// counts as not set.
fn validate_variable(
    setting: &Setting,
    value: String,
    source: &SettingSource,
) -> Result<Option<String>, Failure> {
    if value.is_empty() {
        return Ok(None);
    }
    let value = if setting.key == SettingKey::ProviderBaseUrl(Provider::Ollama) {
        ollama_address(&value)
    } else {
        value
    };
    match setting.kind.validation_error(&value) {
        Some(complaint) => {
            Err(Failure::new(FailureKind::Settings, format!("{source}: {complaint}")))
        }
        None => Ok(Some(value)),
    }
}

/// Converts the value of `OLLAMA_HOST` to a URL. Adds a missing scheme, host or port. Replaces the address `0.0.0.0`,
/// on which a server can listen but to which no client can connect, by `127.0.0.1`.
fn ollama_address(value: &str) -> String {
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let rest = rest.trim_end_matches('/');
    let rest = if rest.starts_with(':') { format!("127.0.0.1{rest}") } else { rest.to_owned() };
    let has_port = rest.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && port.parse::<u16>().is_ok()
            && (!host.contains(':') || host.ends_with(']'))
    });
    let rest = if has_port || scheme != "http" || rest.contains('/') {
        rest
    } else {
        format!("{rest}:11434")
    };
    let rest = rest.replacen("0.0.0.0", "127.0.0.1", 1);
    format!("{scheme}://{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_host_is_normalized_to_a_url() {
        for (written, address) in [
            ("127.0.0.1", "http://127.0.0.1:11434"),
            ("0.0.0.0:8000", "http://127.0.0.1:8000"),
            (":9000", "http://127.0.0.1:9000"),
            ("http://box:11434/", "http://box:11434"),
            ("https://ollama.example", "https://ollama.example"),
            ("[::1]:1234", "http://[::1]:1234"),
            ("http://box/ollama", "http://box/ollama"),
        ] {
            assert_eq!(ollama_address(written), address, "{written}");
        }
    }
}
