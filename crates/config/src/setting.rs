//! Definition of one setting: its key, the kind of its value, its default, and whether a project's files may set it.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use assize_types::{Failure, FailureKind};

use crate::RequestedIsolation;
use crate::kind::SettingKind;
use crate::table::{SettingKey, all};

/// Definition of one setting.
#[derive(Debug, Clone)]
pub struct Setting {
    pub key: SettingKey,
    /// Kind of value that the setting accepts.
    pub kind: SettingKind,
    /// Text of the default value, if the setting has a default.
    pub default: Option<&'static str>,
    /// Environment variable of other programs, such as `DOCKER_HOST`, that also sets this setting, in addition to the
    /// setting's own `ASSIZE_…` variable.
    pub conventional_variable: Option<&'static str>,
    pub guard: SettingGuard,
    /// Description of the setting for users, in one line.
    pub description: &'static str,
}

/// Whether the project files of an untrusted folder may set a setting. The user can always set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingGuard {
    /// The files of any folder may set the setting.
    Open,
    /// The setting is a limit. The files of any folder may lower it. Only the files of a trusted folder may raise it.
    Tighten,
    /// Only the files of a trusted folder may set the setting, because it decides where keys and prompts are sent, or
    /// how much may be spent.
    Trusted,
    /// Only the files of a trusted folder may set the setting, as for `Trusted`. But if a file of an untrusted folder
    /// sets it, commands show a warning and ignore the value, instead of failing. Used for the provider and the model.
    Choice,
}

/// Returns the environment variables of all settings. The setting's own `ASSIZE_…` variable takes precedence over its
/// variable that other programs also use, such as `DOCKER_HOST`, and comes after it.
pub(crate) fn variables() -> &'static [(&'static Setting, String)] {
    static VARIABLES: LazyLock<Vec<(&Setting, String)>> = LazyLock::new(|| {
        let of_setting = |setting: &'static Setting| {
            let own = format!("ASSIZE_{}", setting.key.name().replace('.', "_").to_uppercase());
            let conventional = setting.conventional_variable.map(str::to_owned);
            conventional.into_iter().chain([own]).map(move |variable| (setting, variable))
        };
        all().iter().flat_map(of_setting).collect()
    });
    &VARIABLES
}

impl Setting {
    /// Looks up a setting by its key, such as `sandbox.memory`.
    pub fn named(name: &str) -> Option<&'static Setting> {
        all().iter().find(|setting| setting.key.name() == name)
    }

    /// Returns the `serve.max_…` setting whose value is the maximum that an API request may use for this setting.
    /// Returns `None` if there is no such setting. The maximum applies only if the operator of the server has not set
    /// this setting.
    pub fn request_limit(&self) -> Option<SettingKey> {
        match self.key {
            SettingKey::SandboxMemory => Some(SettingKey::ServeMaxMemory),
            SettingKey::SandboxDisk => Some(SettingKey::ServeMaxDisk),
            SettingKey::SandboxTimeout => Some(SettingKey::ServeMaxTimeout),
            _ => None,
        }
    }

    /// Explains why an API request may not use the value `requested` if the operator of the server has set the value
    /// `set`. Returns `None` if the request may use `requested`.
    pub(crate) fn reason_to_reject(&self, set: &str, requested: &str) -> Option<String> {
        match self.key {
            SettingKey::SandboxIsolation => {
                let floor = |text: &str| {
                    text.parse::<RequestedIsolation>().ok().map(RequestedIsolation::weakest)
                };
                let weaker = floor(requested) < floor(set);
                weaker.then(|| format!("must be an isolation at least as strong as {set}"))
            }
            // An API request may make the review stricter, but not less strict.
            SettingKey::DraftReview if (set, requested) == ("escalated", "always") => None,
            SettingKey::DraftReview | SettingKey::DraftVerify => {
                (requested != set).then(|| format!("is fixed to `{set}`"))
            }
            _ => {
                let (max, amount) = (self.kind.as_number(set)?, self.kind.as_number(requested)?);
                let more = self.guard != SettingGuard::Open && amount > max;
                more.then(|| format!("must be at most {set}"))
            }
        }
    }
}

impl SettingKey {
    /// Returns the definition of the setting with this key.
    pub fn setting(self) -> &'static Setting {
        let find = || all().iter().find(|setting| setting.key == self);
        find().unwrap_or_else(|| unreachable!("the table of settings contains every key: `{self}`"))
    }
}

impl fmt::Display for SettingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SettingKey {
    type Err = Failure;

    fn from_str(name: &str) -> Result<SettingKey, Failure> {
        let unknown = || Failure::new(FailureKind::Usage, format!("unknown setting `{name}`"));
        Setting::named(name).map(|setting| setting.key).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_keys_and_variables_are_unique_and_defaults_are_valid() {
        let mut names: Vec<String> = all().iter().map(|s| s.key.to_string()).collect();
        names.extend(variables().iter().map(|(_, variable)| variable.clone()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for setting in all() {
            let valid = |value: &&str| setting.kind.validation_error(value).is_none();
            assert!(setting.default.iter().all(valid), "{}", setting.key);
            assert_eq!(setting.key.name().parse::<SettingKey>().unwrap(), setting.key);
        }
    }
}
