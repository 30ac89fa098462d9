//! Amounts of money, stored as whole nano-dollars, so that the sum of the costs of millions of small calls stays exact.

use std::fmt;
use std::ops::{Add, AddAssign};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

/// An amount of US dollars, stored as whole nano-dollars.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    pub const ZERO: Money = Money(0);

    pub const fn from_nanos(nanos: u64) -> Money {
        Money(nanos)
    }

    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Converts an amount in dollars. Returns `None` if the amount is negative, not finite, or too large to be stored
    /// as a 64-bit number of nano-dollars.
    pub fn from_dollars(dollars: f64) -> Option<Money> {
        let nanos = dollars * NANOS_PER_DOLLAR as f64;
        (nanos.is_finite() && nanos >= 0.0 && nanos < u64::MAX as f64)
            .then(|| Money(nanos.round() as u64))
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANOS_PER_DOLLAR as f64
    }

    /// Price of this number of tokens at a rate in micro-dollars per million tokens, rounded up to a whole nano-dollar.
    pub fn for_tokens(tokens: u64, micro_dollars_per_million: u64) -> Money {
        Money(tokens.saturating_mul(micro_dollars_per_million).div_ceil(1000))
    }

    pub fn saturating_sub(self, other: Money) -> Money {
        Money(self.0.saturating_sub(other.0))
    }
}

impl Add for Money {
    type Output = Money;

    fn add(self, other: Money) -> Money {
        Money(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Money) {
        *self = *self + other;
    }
}

impl fmt::Display for Money {
    /// Formats the amount with two decimals. Amounts below one dollar get more decimals, so that a cost above zero is
    /// never displayed as `$0.00`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0 {
            0 => 2,
            1..1_000 => 9,
            1_000..1_000_000 => 6,
            1_000_000..NANOS_PER_DOLLAR => 4,
            _ => 2,
        };
        write!(f, "${:.digits$}", self.dollars())
    }
}

/// Cost of a call: a known amount, free because the model runs locally, or unknown.
///
/// If the price of a model is not known, the cost is [`Cost::Unknown`], never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    #[serde(rename = "nano_usd")]
    Known(Money),
    /// Free of charge: the model runs on the user's own machine or network.
    Local,
    Unknown,
}

impl Cost {
    /// The amount, if it is known; zero for a local model.
    pub fn known(self) -> Option<Money> {
        match self {
            Cost::Known(money) => Some(money),
            Cost::Local => Some(Money::ZERO),
            Cost::Unknown => None,
        }
    }

    /// The amount in dollars, if it is known.
    pub fn dollars(self) -> Option<f64> {
        self.known().map(Money::dollars)
    }

    /// Note for JSON output that explains a cost of 0: `local` if the model runs locally, else `None`.
    pub fn note(self) -> Option<&'static str> {
        (self == Cost::Local).then_some("local")
    }
}

impl Add for Cost {
    type Output = Cost;

    /// Adds two costs. If either cost is unknown, the sum is unknown. If one cost is local and the other is local or
    /// zero, the sum is local.
    fn add(self, other: Cost) -> Cost {
        match (self, other) {
            (Cost::Unknown, _) | (_, Cost::Unknown) => Cost::Unknown,
            (Cost::Known(a), Cost::Known(b)) => Cost::Known(a + b),
            (Cost::Local, Cost::Known(Money::ZERO) | Cost::Local)
            | (Cost::Known(Money::ZERO), Cost::Local) => Cost::Local,
            (Cost::Local, known) | (known, Cost::Local) => known,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cost::Known(money) => money.fmt(f),
            Cost::Local => write!(f, "{} (local)", Money::ZERO),
            Cost::Unknown => f.write_str("cost unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_above_zero_is_never_displayed_as_zero() {
        let shown: Vec<String> =
            [0, 80, 80_000, 1_200_000, 54_000_000, 1_500_000_000, 12_345_678_900_000]
                .map(|nanos| Money::from_nanos(nanos).to_string())
                .to_vec();
        assert_eq!(
            shown,
            ["$0.00", "$0.000000080", "$0.000080", "$0.0012", "$0.0540", "$1.50", "$12345.68"]
        );
    }

    #[test]
    fn sum_of_a_known_and_an_unknown_cost_is_unknown() {
        let known = Cost::Known(Money::from_nanos(5));
        assert_eq!(known + Cost::Unknown, Cost::Unknown);
        assert_eq!(known + known, Cost::Known(Money::from_nanos(10)));
    }

    #[test]
    fn local_cost_is_zero_and_labelled_local_until_a_paid_cost_is_added() {
        let paid = Cost::Known(Money::from_nanos(5));
        let zero = Cost::Known(Money::ZERO);
        assert_eq!(zero + Cost::Local + Cost::Local, Cost::Local);
        assert_eq!((Cost::Local + paid, paid + Cost::Local), (paid, paid));
        assert_eq!(Cost::Local + Cost::Unknown, Cost::Unknown);
        assert_eq!(
            (Cost::Local.to_string().as_str(), Cost::Local.known()),
            ("$0.00 (local)", Some(Money::ZERO))
        );
        assert_eq!((Cost::Local.note(), zero.note()), (Some("local"), None));
    }

    #[test]
    fn negative_infinite_nan_and_too_large_dollar_amounts_are_rejected() {
        for bad in [-0.01, f64::NAN, f64::INFINITY, 1e30] {
            assert_eq!(Money::from_dollars(bad), None, "{bad}");
        }
        assert_eq!(Money::from_dollars(1.25), Some(Money::from_nanos(1_250_000_000)));
    }
}
