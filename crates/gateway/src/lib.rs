//! Gateway to language models: one interface to six providers.
//!
//! A [`Gateway`] implements [`assize_llm::Model`]. For every call, it applies the [`RateLimits`] of the provider, the
//! budget of the user ([`BudgetLimits`](assize_llm::BudgetLimits)) and the [`RetryPolicy`]. It computes costs from the
//! prices of models ([`ModelFacts`]) and records them in the [`BudgetLedger`](assize_llm::BudgetLedger). A [`Cassette`]
//! records and replays calls. The module `adapter` has an adapter for each of the four wire formats.
//!
//! If no provider is configured, the [`Rehearsal`] model answers offline. Its responses are marked as rehearsal.
//!
//! ```
//! use assize_gateway::{Gateway, GatewayOptions, Rehearsal};
//! use assize_llm::{CallOptions, Model, ModelRequest};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let gateway = Gateway::to_rehearsal(Rehearsal::default(), GatewayOptions::default());
//! let response = gateway.generate(&ModelRequest::question("Why?"), CallOptions::default()).await?;
//! assert!(response.rehearsal);
//! assert_eq!(gateway.ledger().totals().calls, 1);
//! # Ok::<(), assize_llm::ModelError>(())
//! # }).unwrap();
//! ```
//!
//! This crate reads no environment variables, and no files except those that its caller names.

mod adapter;
mod cache_warmup;
mod cassette;
mod catalog;
pub mod choice;
mod error_response;
mod estimate;
mod frames;
mod gateway;
mod http;
mod local_server;
mod provider;
mod rate_limit_headers;
mod rate_limiter;
mod rehearsal;
mod retry;
mod transport;

pub use cassette::{Cassette, CassetteError, CassetteFilter, CassetteMode};
pub use catalog::{ModelFacts, PRICES_AS_OF, Retirement};
pub use choice::{CassetteChoice, Providers, RateLimiters};
pub use estimate::Estimate;
pub use gateway::{CallEvent, CallObserver, Gateway, GatewayOptions};
pub use http::{HttpClient, probe};
pub use local_server::{ServerFacts, discover, is_local_address};
pub use provider::Endpoint;
pub use rate_limiter::{CallPermit, RateLimit, RateLimiter, RateLimits, RemainingLimits};
pub use rehearsal::{PreparedAnswer, PreparedAnswers, Rehearsal};
pub use retry::RetryPolicy;
