//! One setting: its key, the values it takes, and who may set it.

use std::fmt;
use std::str::FromStr;

use assize_types::{Failure, FailureKind};

use crate::Wanted;
use crate::kind::Kind;
use crate::table::{SettingKey, all};

/// One setting.
#[derive(Debug, Clone)]
pub struct Setting {
    pub key: SettingKey,
    pub kind: Kind,
    pub default: Option<&'static str>,
    /// The environment variable beside `ASSIZE_…` that by convention sets it, too.
    pub convention: Option<&'static str>,
    pub guard: Guard,
    pub about: &'static str,
}

/// Who may set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Anyone.
    Open,
    /// Anyone, as long as it brings a limit down.
    Tighten,
    /// The user, and folders that the user trusts: it says where keys and prompts go, or how much
    /// may be spent.
    Trusted,
    /// The same, for the choice of provider and model: what another folder sets is ignored with a warning.
    Choice,
}

impl Setting {
    /// The setting that a text names: `sandbox.memory`.
    pub fn named(name: &str) -> Option<&'static Setting> {
        all().iter().find(|setting| setting.key.name() == name)
    }

    /// The environment variables that set it, in order.
    pub(crate) fn variables(&self) -> Vec<String> {
        let own = format!("ASSIZE_{}", self.key.name().replace('.', "_").to_uppercase());
        [Some(own), self.convention.map(str::to_owned)].into_iter().flatten().collect()
    }

    /// The setting that is the ceiling of requests where the operator has not set this one.
    pub fn ceiling(&self) -> Option<SettingKey> {
        match self.key {
            SettingKey::SandboxMemory => Some(SettingKey::ServeMaxMemory),
            SettingKey::SandboxDisk => Some(SettingKey::ServeMaxDisk),
            SettingKey::SandboxTimeout => Some(SettingKey::ServeMaxTimeout),
            _ => None,
        }
    }

    /// Why a request cannot have this value where the operator has set another.
    pub(crate) fn refuses(&self, set: &str, requested: &str) -> Option<String> {
        match self.key {
            SettingKey::SandboxIsolation => {
                let floor = |text: &str| text.parse::<Wanted>().ok().map(Wanted::floor);
                let weaker = floor(requested) < floor(set);
                weaker.then(|| format!("has to be as strong as {set} here"))
            }
            // A request can add a review where none is required, and nothing else.
            SettingKey::DraftReview if (set, requested) == ("escalated", "always") => None,
            SettingKey::DraftReview | SettingKey::DraftVerify => {
                (requested != set).then(|| format!("is {set} here"))
            }
            _ => {
                let (most, amount) = (self.kind.amount(set)?, self.kind.amount(requested)?);
                let more = self.guard != Guard::Open && amount > most;
                more.then(|| format!("can be {set} at most here"))
            }
        }
    }
}

impl SettingKey {
    /// The setting of this key.
    pub fn setting(self) -> &'static Setting {
        let find = || all().iter().find(|setting| setting.key == self);
        find().unwrap_or_else(|| unreachable!("`{self}` is in the table"))
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
    fn keys_and_variables_are_unique_and_defaults_valid() {
        let mut names: Vec<String> = all().iter().map(|s| s.key.to_string()).collect();
        names.extend(all().iter().flat_map(Setting::variables));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for setting in all() {
            let valid = |value: &&str| setting.kind.complaint(value).is_none();
            assert!(setting.default.iter().all(valid), "{}", setting.key);
            assert_eq!(setting.key.name().parse::<SettingKey>().unwrap(), setting.key);
        }
    }
}
