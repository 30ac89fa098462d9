//! Value of a setting with its source.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use assize_types::Money;

use crate::Wanted;
use crate::kind::{Kind, parse_size};
use crate::provider::ProviderName;
use crate::servers::Address;
use crate::values::{Durability, LogFormat, LogLevel, Review};

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Flag(&'static str),
    /// The request for this one run.
    Request,
    Environment(String),
    EnvFile {
        path: PathBuf,
        variable: String,
    },
    Project {
        path: PathBuf,
        line: usize,
    },
    User {
        path: PathBuf,
        line: usize,
    },
    Default,
}

impl Source {
    /// Whether a file in the project's folder sets the value.
    pub(crate) fn is_the_folders(&self) -> bool {
        matches!(self, Source::Project { .. } | Source::EnvFile { .. })
    }

    /// Whether a flag or a request sets the value.
    pub(crate) fn is_requested(&self) -> bool {
        matches!(self, Source::Flag(_) | Source::Request)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag(flag) => write!(f, "{flag}"),
            Source::Request => f.write_str("the request"),
            Source::Environment(variable) => write!(f, "environment, {variable}"),
            Source::EnvFile { path, variable } => write!(f, "{}, {variable}", path.display()),
            Source::Project { path, line } | Source::User { path, line } => {
                write!(f, "{}:{line}", path.display())
            }
            Source::Default => f.write_str("default"),
        }
    }
}

/// Value of a setting, with its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Value<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

impl<T> Value<T> {
    /// Where it was set.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether it is set anywhere, and not the default.
    pub fn is_set(&self) -> bool {
        self.source != Source::Default
    }

    /// The value, if a flag or a request set it.
    pub fn requested(&self) -> Option<&T> {
        self.source.is_requested().then_some(&self.value)
    }
}

impl<T> Deref for Value<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Type of a setting's value.
pub(crate) trait FromText: Sized {
    /// Reads a text that is of the setting's kind.
    fn from_text(kind: &Kind, text: &str) -> Option<Self>;

    /// The value of a setting that is not set and has no default.
    fn unset() -> Option<Self> {
        None
    }
}

impl<T: FromText> FromText for Option<T> {
    fn from_text(kind: &Kind, text: &str) -> Option<Self> {
        T::from_text(kind, text).map(Some)
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

/// Parts between commas; a comma in braces belongs to a pattern.
impl FromText for Vec<String> {
    fn from_text(_: &Kind, text: &str) -> Option<Self> {
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
    fn from_text(_: &Kind, seconds: &str) -> Option<Self> {
        Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
    }
}

impl FromText for Money {
    fn from_text(_: &Kind, dollars: &str) -> Option<Self> {
        Money::from_dollars(dollars.parse().ok()?)
    }
}

macro_rules! from_number {
    ($($number:ty),*) => {$(
        impl FromText for $number {
            fn from_text(kind: &Kind, text: &str) -> Option<Self> {
                match kind {
                    Kind::Size(..) => parse_size(text)?.try_into().ok(),
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
            fn from_text(_: &Kind, text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}

from_str!(f64, String, Wanted, ProviderName, Address, Review, Durability, LogLevel, LogFormat);
