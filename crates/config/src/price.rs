//! Prices of models, from which the cost of model calls is computed.

use assize_types::{Money, Usage};

/// Prices of input tokens, cached input tokens, tokens written to the cache, and output tokens, in micro-dollars per
/// million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    pub input: u64,
    pub cached_input: u64,
    pub cache_write: u64,
    pub output: u64,
}

impl Rates {
    /// Creates rates from prices in dollars per million tokens.
    pub const fn from_usd_per_million(
        input: f64,
        cached_input: f64,
        cache_write: f64,
        output: f64,
    ) -> Rates {
        const fn micro(dollars: f64) -> u64 {
            (dollars * 1_000_000.0 + 0.5) as u64
        }
        Rates {
            input: micro(input),
            cached_input: micro(cached_input),
            cache_write: micro(cache_write),
            output: micro(output),
        }
    }
}

/// Price of a model, which may be higher for long inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub rates: Rates,
    /// Threshold in input tokens, and the rates that apply to the whole request if its input exceeds the threshold.
    /// `None` if `rates` apply to inputs of every length.
    pub long: Option<(u64, Rates)>,
}

impl Price {
    pub const FREE: Price =
        Price { rates: Rates::from_usd_per_million(0.0, 0.0, 0.0, 0.0), long: None };

    /// Creates a price with the same rates for inputs of every length. The parameters are in dollars per million
    /// tokens. Returns `None` if one of them is not a valid price.
    pub fn flat(input: f64, cached_input: f64, cache_write: f64, output: f64) -> Option<Price> {
        let fine = |price: f64| price.is_finite() && (0.0..1e9).contains(&price);
        [input, cached_input, cache_write, output].into_iter().all(fine).then(|| Price {
            rates: Rates::from_usd_per_million(input, cached_input, cache_write, output),
            long: None,
        })
    }

    fn rates_for(&self, input_tokens: u64) -> Rates {
        match self.long {
            Some((threshold, long)) if input_tokens > threshold => long,
            _ => self.rates,
        }
    }

    /// Cost of a model call with this token usage.
    pub fn cost_of(&self, usage: &Usage) -> Money {
        let rates = self.rates_for(usage.input);
        let plain =
            usage.input.saturating_sub(usage.cached_input).saturating_sub(usage.cache_write);
        Money::for_tokens(plain, rates.input)
            + Money::for_tokens(usage.cached_input, rates.cached_input)
            + Money::for_tokens(usage.cache_write, rates.cache_write)
            + Money::for_tokens(usage.output, rates.output)
    }

    /// Highest possible cost of a call with at most `input` input tokens and `output` output tokens.
    pub fn max_cost(&self, input: u64, output: u64) -> Money {
        let rates = self.rates_for(input);
        let dearest = rates.input.max(rates.cache_write).max(rates.cached_input);
        Money::for_tokens(input, dearest) + Money::for_tokens(output, rates.output)
    }
}
