//! Gateway to models: six providers behind one interface.
//!
//! A [`Gateway`] is a [`assize_llm::Model`]. For every call it enforces the provider's rate [`RateLimits`], the user's
//! budget ([`BudgetLimits`](assize_llm::BudgetLimits)) and the [`RetryPolicy`]; it knows the prices of models ([`ModelFacts`]), keeps
//! the account ([`BudgetLedger`](assize_llm::BudgetLedger)), and records and replays calls ([`Cassette`]). The module `dialect`
//! has an adapter for each of the four wire formats.
//!
//! Without a provider, the [`Rehearsal`] model answers offline, and its responses are marked as such.
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
//! This crate reads no environment variables, and only the files that its caller names.

mod cassette;
mod catalog;
pub mod choice;
mod dialect;
mod estimate;
mod failure;
mod frames;
mod gateway;
mod http;
mod local;
mod pace;
mod prime;
mod provider;
mod ratelimit;
mod rehearsal;
mod retry;
mod wire;

pub use cassette::{Cassette, CassetteError, CassetteFilter, CassetteMode};
pub use catalog::{ModelFacts, PRICES_AS_OF, Retirement};
pub use choice::{CassetteChoice, Providers, RateLimiters};
pub use estimate::Estimate;
pub use gateway::{CallEvent, CallObserver, Gateway, GatewayOptions};
pub use http::{HttpClient, probe};
pub use local::{ServerFacts, discover, is_local_address};
pub use pace::{CallPermit, RateLimit, RateLimiter, RateLimits, RemainingLimits};
pub use provider::Endpoint;
pub use rehearsal::{PreparedAnswer, PreparedAnswers, Rehearsal};
pub use retry::RetryPolicy;
