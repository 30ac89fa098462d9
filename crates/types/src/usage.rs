//! Token counts of model calls, in the same convention for all providers.

use std::ops::{Add, AddAssign};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Token counts of one call, or the totals of several calls.
///
/// `input` counts every input token; `cached_input` and `cache_write` are parts of `input`. The APIs of
/// some providers count differently (some leave cached tokens out of their input count), so each provider
/// adapter converts the provider's counts to this convention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input: u64,
    /// The part of `input` that the provider read from its prompt cache.
    pub cached_input: u64,
    /// The part of `input` that the provider wrote to its prompt cache, and charges for separately.
    pub cache_write: u64,
    /// All output tokens, hidden reasoning included.
    pub output: u64,
}

impl Usage {
    /// Number of input and output tokens together.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Share of the input tokens that the provider read from its prompt cache, from 0 to 1.
    pub fn cached_share(&self) -> f64 {
        if self.input == 0 { 0.0 } else { self.cached_input as f64 / self.input as f64 }
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            input: self.input.saturating_add(other.input),
            cached_input: self.cached_input.saturating_add(other.cached_input),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        *self = *self + other;
    }
}
