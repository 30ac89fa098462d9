//! What we say to a model, and how we read what it says back.
//!
//! A [`Request`] is a [`Prompt`] laid out for provider caches, with tools and a schema if wanted;
//! a [`Model`] answers it with a [`Response`]. [`ModelExt::generate_json`] turns the answer into a
//! value of a Rust type by a ladder of ever less certain steps and says which step it stood on.
//!
//! ```
//! use assize_llm::answer::AnswerReader;
//! use assize_llm::{Fix, Schema};
//!
//! #[derive(schemars::JsonSchema)]
//! # #[expect(dead_code)]
//! struct Verdict {
//!     #[schemars(range(min = 1, max = 10))]
//!     impact: u8,
//! }
//!
//! let reader = AnswerReader::new(&Schema::of::<Verdict>()).unwrap();
//! let (value, fixes) = reader.read("Sure! {'impact': 8,}").unwrap();
//! assert_eq!(value["impact"], 8);
//! assert_eq!(fixes, [Fix::Quotes, Fix::TrailingComma, Fix::SurroundingText]);
//! assert!(reader.read("{'impact': 11}").is_err());
//! ```
//!
//! Nothing here knows a provider, a price or a network: that is the gateway's business. A debate
//! inside a sandbox uses this crate alone.

pub mod answer;
mod budget;
mod error;
mod model;
mod prompt;
mod request;
mod response;

pub use answer::{Answer, AnswerError, Fix, JsonAsk, ModelExt, Provenance};
pub use budget::{BudgetError, Caps, Ledger, MemoryLedger, Reservation, Settlement, Totals, Worst};
pub use error::{ErrorKind, ModelError};
pub use model::{Call, Delta, Model};
pub use prompt::{Block, Message, Prompt, ToolCall, ToolResult, Turn, fenced, mark_of};
pub use request::{Delivery, PrefixHasher, Request, Schema, SchemaError, Tool};
pub use response::{Response, Spent, Stop};
