//! Financial figures with their source and period.
//!
//! Values and arithmetic are decimal. Every displayed value is rounded by one rule: to the nearest digit, halves away
//! from zero (2.405 to 2.41, -2.405 to -2.41).

use std::fmt;

use jiff::civil::Date;
use rust_decimal::{Decimal, RoundingStrategy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One financial figure with a traceable origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The measure, such as `revenue` or `gross margin`.
    pub name: String,
    pub period: FigurePeriod,
    #[serde(with = "json_number")]
    #[schemars(with = "f64")]
    pub value: Decimal,
    pub unit: FigureUnit,
    /// Filing that contains the figure, or how the figure was computed.
    pub source: FigureSource,
    /// Last day of the period of the figure.
    #[schemars(with = "String")]
    pub as_of: Date,
    /// Value in an earlier filing, if a later filing restated the figure.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_json_number")]
    #[schemars(with = "Option<f64>")]
    pub restated_from: Option<Decimal>,
}

/// Period of a figure.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FigurePeriod {
    /// The year ending on this day.
    Year(#[schemars(with = "String")] Date),
    /// The quarter ending on this day.
    Quarter(#[schemars(with = "String")] Date),
    /// A single day.
    Day(#[schemars(with = "String")] Date),
}

impl FigurePeriod {
    pub fn end(self) -> Date {
        match self {
            FigurePeriod::Year(end) | FigurePeriod::Quarter(end) | FigurePeriod::Day(end) => end,
        }
    }
}

impl fmt::Display for FigurePeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FigurePeriod::Year(end) => write!(f, "year to {end}"),
            FigurePeriod::Quarter(end) => write!(f, "quarter to {end}"),
            FigurePeriod::Day(day) => write!(f, "on {day}"),
        }
    }
}

/// Unit of a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureUnit {
    /// Amount of money, with its currency code.
    Money(String),
    /// Amount of money per share, with its currency code.
    MoneyPerShare(String),
    /// Ratio, stored as a fraction such as 0.25 and displayed in percent.
    Percent,
    /// Multiple, displayed with a multiplication sign.
    Times,
    Count,
}

/// Origin of a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureSource {
    Filed {
        form: String,
        accession: String,
        #[schemars(with = "String")]
        filed: Date,
        concept: String,
    },
    /// Computed from other figures.
    Computed { from: String },
}

impl fmt::Display for Figure {
    /// Formats the rounded value with its unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unit {
            FigureUnit::Money(currency) => write!(f, "{} {currency}", scaled(self.value)),
            FigureUnit::MoneyPerShare(currency) => {
                write!(f, "{} {currency} a share", rounded(self.value, 2))
            }
            FigureUnit::Percent => {
                let percent = self.value.saturating_mul(Decimal::ONE_HUNDRED);
                write!(f, "{} %", rounded(percent, 1))
            }
            FigureUnit::Times => write!(f, "{} ×", rounded(self.value, 2)),
            FigureUnit::Count => write!(f, "{}", scaled(self.value)),
        }
    }
}

/// Rounds to `digits` decimals, halves away from zero, and drops the sign of zero.
fn rounded(value: Decimal, digits: u32) -> Decimal {
    let mut value = value.round_dp_with_strategy(digits, RoundingStrategy::MidpointAwayFromZero);
    value.rescale(digits);
    if value.is_zero() { value.abs() } else { value }
}

/// Formats a large number in thousands, millions or billions. The scale depends on the rounded value: 999,999,999 is
/// formatted as 1.00 billion.
fn scaled(value: Decimal) -> String {
    let thousand = Decimal::ONE_THOUSAND;
    let mut scaled = value;
    for (name, digits) in [("", 0), (" thousand", 1), (" million", 1)] {
        let shown = rounded(scaled, digits);
        if shown.abs() < thousand {
            return format!("{shown}{name}");
        }
        scaled /= thousand;
    }
    format!("{} billion", rounded(scaled, 2))
}

/// Serializes decimals as JSON numbers. Like most JSON parsers, the serializer uses binary floats, which keep 15
/// digits.
pub(crate) mod json_number {
    use rust_decimal::Decimal;
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::{Error as _, Serializer};

    /// Writes a value as a JSON number.
    pub(crate) fn serialize<S: Serializer>(value: &Decimal, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.to_string().parse().map_err(S::Error::custom)?)
    }

    /// Reads a JSON number without loss of digits.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Decimal, D::Error> {
        let text = serde_json::Number::deserialize(from)?.to_string();
        let read = match text.contains(['e', 'E']) {
            true => Decimal::from_scientific(&text),
            false => text.parse(),
        };
        read.map_err(|error| D::Error::custom(format!("invalid number {text}: {error}")))
    }
}

/// Serializes an optional decimal as a JSON number, as `json_number` does for a decimal.
mod optional_json_number {
    use rust_decimal::Decimal;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Number(#[serde(with = "super::json_number")] Decimal);

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Decimal>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Number).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Decimal>, D::Error> {
        Ok(Option::<Number>::deserialize(from)?.map(|Number(value)| value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a figure with this value and unit.
    fn figure(value: &str, unit: FigureUnit) -> Figure {
        let end: Date = "2022-09-30".parse().unwrap();
        Figure {
            name: "some".to_owned(),
            period: FigurePeriod::Day(end),
            value: value.parse().unwrap(),
            unit,
            source: FigureSource::Computed { from: String::new() },
            as_of: end,
            restated_from: None,
        }
    }

    #[test]
    fn figures_are_formatted_with_scale_and_period() {
        assert_eq!(scaled(21_454_000_000_u64.into()), "21.45 billion");
        assert_eq!(scaled((-733_000_000).into()), "-733.0 million");
        assert_eq!(scaled(950.into()), "950");
        let end: Date = "2022-09-30".parse().unwrap();
        assert_eq!(FigurePeriod::Quarter(end).to_string(), "quarter to 2022-09-30");
    }

    #[test]
    fn displayed_figures_round_halves_away_from_zero_in_every_unit() {
        let usd = || "USD".to_owned();
        for (value, unit, shown) in [
            ("2.405", FigureUnit::MoneyPerShare(usd()), "2.41 USD a share"),
            ("30.855", FigureUnit::MoneyPerShare(usd()), "30.86 USD a share"),
            ("-2.405", FigureUnit::MoneyPerShare(usd()), "-2.41 USD a share"),
            ("2.4049999", FigureUnit::MoneyPerShare(usd()), "2.40 USD a share"),
            ("-0.004", FigureUnit::MoneyPerShare(usd()), "0.00 USD a share"),
            ("2405000000", FigureUnit::Money(usd()), "2.41 billion USD"),
            ("30855000000", FigureUnit::Money(usd()), "30.86 billion USD"),
            ("-1250000", FigureUnit::Money(usd()), "-1.3 million USD"),
            ("999999999", FigureUnit::Money(usd()), "1.00 billion USD"),
            ("1350", FigureUnit::Count, "1.4 thousand"),
            ("0.5", FigureUnit::Count, "1"),
            ("0.1235", FigureUnit::Percent, "12.4 %"),
            ("0.1225", FigureUnit::Percent, "12.3 %"),
            ("-0.0004", FigureUnit::Percent, "0.0 %"),
            ("1.005", FigureUnit::Times, "1.01 ×"),
        ] {
            assert_eq!(figure(value, unit).to_string(), shown, "{value}");
        }
    }

    #[test]
    fn serialized_figures_keep_their_decimal_value() {
        for value in ["2.405", "30.855", "-733000000", "0.0001", "123456789012345"] {
            let mut before = figure(value, FigureUnit::Count);
            before.restated_from = Some(before.value);
            let text = serde_json::to_string(&before).unwrap();
            assert!(
                text.contains(&format!("\"value\":{}", value.parse::<f64>().unwrap())),
                "{text}"
            );
            assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), before);
        }
        // A stored figure without an earlier value can be read.
        let text = serde_json::to_string(&figure("1", FigureUnit::Count)).unwrap();
        assert_eq!(serde_json::from_str::<Figure>(&text).unwrap().restated_from, None);
    }
}
