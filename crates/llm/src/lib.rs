//! Requests to models and parsing of their answers.
//!
//! A [`ModelRequest`] contains optional tools, an optional schema and a [`Prompt`], which is laid out for provider
//! caches. A [`Model`] answers the request with a [`ModelResponse`]. [`ModelExt::generate_json`] converts the answer to
//! a value of a Rust type. It tries several ways to parse the answer, the most reliable first, and reports as
//! [`Provenance`] which of them succeeded.
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
//! The gateway crate implements providers, prices and network access. A debate inside a sandbox needs only this crate.

pub mod answer;
mod budget;
mod error;
mod model;
mod prompt;
mod request;
mod response;

pub use answer::{AnswerError, Fix, JsonRequest, ModelExt, Provenance, TypedAnswer};
pub use budget::{
    BudgetError, BudgetLedger, BudgetLimits, BudgetTotals, CallMaximum, MemoryBudgetLedger,
    Reservation, Settlement,
};
pub use error::{ErrorKind, ModelError};
pub use model::{CallOptions, Delta, Model};
pub use prompt::{
    Block, Prompt, PromptMessage, ToolCall, ToolResult, TranscriptTurn, content_mark,
    enclose_untrusted,
};
pub use request::{
    ModelRequest, PrefixHasher, Schema, SchemaDelivery, SchemaError, ToolDefinition,
};
pub use response::{CallTotals, ModelResponse, StopReason};
