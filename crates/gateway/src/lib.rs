//! How we reach a model: six providers behind one gateway.
//!
//! A [`Gateway`] is a [`assize_llm::Model`]. Around every call it keeps the [`Limits`] of the
//! provider, the [`Caps`](assize_llm::Caps) of the user and the [`RetryPolicy`]; it knows what models cost
//! ([`ModelFacts`]), keeps the account ([`Ledger`](assize_llm::Ledger)), and records and replays calls ([`Cassette`]).
//! What it sends is worded by `dialect`, one file for each of the four languages spoken.
//!
//! Where no provider is at hand, the [`Rehearsal`] model answers, and says that it is one.
//!
//! ```
//! use assize_gateway::{Gateway, Options, Rehearsal};
//! use assize_llm::{Call, Model, Request};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let gateway = Gateway::to_rehearsal(Rehearsal::default(), Options::default());
//! let response = gateway.generate(&Request::question("Why?"), Call::default()).await?;
//! assert!(response.rehearsal);
//! assert_eq!(gateway.ledger().totals().calls, 1);
//! # Ok::<(), assize_llm::ModelError>(())
//! # }).unwrap();
//! ```
//!
//! Nothing here reads an environment variable or a file that it was not given.

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

pub use cassette::{Asked, Cassette, CassetteError, Mode as CassetteMode};
pub use catalog::{ModelFacts, PRICES_AS_OF, Retirement};
pub use choice::{Pacers, Providers, Tape};
pub use estimate::Estimate;
pub use gateway::{Event, Gateway, Observer, Options};
pub use http::{HttpClient, probe};
pub use local::{ServerFacts, discover, is_local_address};
pub use pace::{Admitted, Left, Limits, Pace, Pacer};
pub use provider::Endpoint;
pub use rehearsal::{Recital, Rehearsal, Script};
pub use retry::RetryPolicy;
