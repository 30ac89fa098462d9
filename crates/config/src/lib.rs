//! Typed settings, each with its source: flags, environment, the project's files, the user's, defaults.
//!
//! All settings are defined in one table (`table.rs`), from which [`Settings`], [`SettingKey`] and the list of [`all`] settings
//! are generated. Only this crate turns text into keys; everything else reads fields (`settings.sandbox.memory`) or names
//! a [`SettingKey`]. A folder that is not trusted cannot set everything ([`trust`]).

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
mod values;

pub use environment::Environment;
pub use isolation::{Isolation, UnknownIsolation, Wanted};
pub use kind::{ALLOWED_PACKAGES, Kind, PRICE_FIELDS, looks_like_a_key, nearest, show_size};
pub use limits::{LEAST_MEMORY, Limits};
pub use load::{Origin, Withheld, Written};
pub use price::{Price, Rates};
pub use provider::{Provider, ProviderName, REHEARSAL, REHEARSAL_LABEL, Secret, UnknownProvider};
pub use servers::{Address, BadAddress};
pub use setting::{Guard, Setting};
pub use table::*;
pub use value::{Source, Value};
pub use values::{Durability, LogFormat, LogLevel, Review};
