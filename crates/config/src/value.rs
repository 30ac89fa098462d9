//! The value of a setting together with its source, and the parsing of setting values from text.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use assize_types::Money;

use crate::RequestedIsolation;
use crate::choices::{LogFormat, LogLevel, Review, StoreDurability};
use crate::kind::{SettingKind, parse_size};
use crate::provider::ProviderName;
use crate::servers::ClusterServers;

/// Where the value of a setting was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingSource {
    /// A command-line flag, such as `--memory`.
    Flag(&'static str),
    /// The API request that starts the run.
    Request,
    /// An environment variable of the process, by its name.
    Environment(String),
    /// A variable in the project's `.env` file.
    EnvFile { path: PathBuf, variable: String },
    /// A variable in the user's file of API keys.
    UserKeys { path: PathBuf, variable: String },
    /// A line of the project's `assize.toml`.
    Project { path: PathBuf, line: usize },
    /// A line of the user's settings file.
    User { path: PathBuf, line: usize },
    /// The default of the setting.
    Default,
}

impl SettingSource {
    /// Whether a file in the project's folder (`assize.toml` or `.env`) sets the value.
    pub(crate) fn is_project_file(&self) -> bool {
        matches!(self, SettingSource::Project { .. } | SettingSource::EnvFile { .. })
    }

    /// Whether a flag or an API request sets the value.
    pub(crate) fn is_requested(&self) -> bool {
        matches!(self, SettingSource::Flag(_) | SettingSource::Request)
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::Flag(flag) => write!(f, "{flag}"),
            SettingSource::Request => f.write_str("the request"),
            SettingSource::Environment(variable) => write!(f, "environment, {variable}"),
            SettingSource::EnvFile { path, variable }
            | SettingSource::UserKeys { path, variable } => {
                write!(f, "{}, {variable}", path.display())
            }
            SettingSource::Project { path, line } | SettingSource::User { path, line } => {
                write!(f, "{}:{line}", path.display())
            }
            SettingSource::Default => f.write_str("default"),
        }
    }
}

/// The value of a setting, with the source of the value.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingValue<T> {
    pub(crate) value: T,
    pub(crate) source: SettingSource,
}

impl<T> SettingValue<T> {
    /// Returns where the value was set.
    pub fn source(&self) -> &SettingSource {
        &self.source
    }

    /// Whether the value comes from a source other than the default, even if it is equal to the default.
    pub fn is_set(&self) -> bool {
        self.source != SettingSource::Default
    }

    /// Returns the value if a flag or an API request set it, else `None`.
    pub fn requested(&self) -> Option<&T> {
        self.source.is_requested().then_some(&self.value)
    }
}

impl<T> Deref for SettingValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A type that the text of a setting's value can be parsed into.
pub(crate) trait FromText: Sized {
    /// Parses the text of a value; `kind` is the kind of value that the setting accepts. `None` if the text is invalid.
    fn from_text(kind: &SettingKind, text: &str) -> Option<Self>;

    /// Value to use if the setting is not set and has no default; `None` if a setting of this type must have a value.
    fn unset() -> Option<Self> {
        None
    }
}

impl<T: FromText> FromText for Option<T> {
    fn from_text(kind: &SettingKind, text: &str) -> Option<Self> {
        T::from_text(kind, text).map(Some)
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

/// Parses a comma-separated list. A comma inside `{…}` is part of a glob pattern and does not separate items.
impl FromText for Vec<String> {
    fn from_text(_: &SettingKind, text: &str) -> Option<Self> {
        let mut depth = 0;
        let splits = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        };
        let parts = text.split(splits).map(str::trim).filter(|part| !part.is_empty());
        Some(parts.map(str::to_owned).collect())
    }

    fn unset() -> Option<Self> {
        Some(Vec::new())
    }
}

impl FromText for Duration {
    fn from_text(_: &SettingKind, seconds: &str) -> Option<Self> {
        Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
    }
}

impl FromText for Money {
    fn from_text(_: &SettingKind, dollars: &str) -> Option<Self> {
        Money::from_dollars(dollars.parse().ok()?)
    }
}

macro_rules! from_number {
    ($($number:ty),*) => {$(
        impl FromText for $number {
            fn from_text(kind: &SettingKind, text: &str) -> Option<Self> {
                match kind {
                    SettingKind::Size(..) => parse_size(text)?.try_into().ok(),
                    _ => text.parse().ok(),
                }
            }
        }
    )*};
}

from_number!(u32, u64, usize);

macro_rules! from_str {
    ($($named:ty),*) => {$(
        impl FromText for $named {
            fn from_text(_: &SettingKind, text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}

from_str!(
    f64,
    String,
    RequestedIsolation,
    ProviderName,
    ClusterServers,
    Review,
    StoreDurability,
    LogLevel,
    LogFormat
);
