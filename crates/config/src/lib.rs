//! Typed settings from flags, environment variables, project files, the user's file and defaults. Each value is stored
//! with its source.
//!
//! One table (`table.rs`) defines all settings. Macros generate [`Settings`], [`SettingKey`] and the list [`all`] from
//! the table. Only this crate parses setting keys from text. Other crates read fields (`settings.sandbox.memory`) or
//! use a [`SettingKey`]. The files of an untrusted folder may change only some settings ([`trust`]).

mod choices;
mod define;
mod environment;
pub mod file;
mod isolation;
mod kind;
mod limits;
mod load;
mod price;
mod provider;
mod servers;
mod setting;
mod settings;
mod table;
pub mod trust;
mod value;

pub use choices::{LogFormat, LogLevel, Review, StoreDurability};
pub use environment::Environment;
pub use isolation::{Isolation, RequestedIsolation, UnknownIsolation};
pub use kind::{
    ALLOWED_PACKAGES, PRICE_FIELDS, SettingKind, format_size, looks_like_api_key, most_similar,
};
pub use limits::{MIN_MEMORY, SandboxLimits};
pub use load::{SettingText, SettingsOrigin, UntrustedValue};
pub use price::{Price, Rates};
pub use provider::{ApiKey, Provider, ProviderName, REHEARSAL, REHEARSAL_LABEL, UnknownProvider};
pub use servers::{ClusterServers, InvalidNatsServers};
pub use setting::{Setting, SettingGuard};
pub use table::*;
pub use value::{SettingSource, SettingValue};
