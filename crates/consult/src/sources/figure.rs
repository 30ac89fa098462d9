//! Figures, each with where it comes from and for when it holds.
//!
//! Values are decimal numbers, and arithmetic on them is decimal. Every value that is shown is rounded by one rule:
//! to the nearest digit, halves away from zero (2.405 to 2.41, -2.405 to -2.41).

use std::fmt;

use jiff::civil::Date;
use rust_decimal::{Decimal, RoundingStrategy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One number that somebody can be asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// What it measures, such as `revenue` or `gross margin`.
    pub name: String,
    pub period: Period,
    #[serde(with = "json_number")]
    #[schemars(with = "f64")]
    pub value: Decimal,
    pub unit: Unit,
    /// Where it was read, or how it was computed.
    pub source: Source,
    /// The day for which it holds.
    #[schemars(with = "String")]
    pub as_of: Date,
    /// It was given otherwise before, and this is the latest.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_json_number")]
    #[schemars(with = "Option<f64>")]
    pub restated_from: Option<Decimal>,
}

/// The time that a figure is about.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "FigurePeriod")]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// A year, up to this day.
    Year(#[schemars(with = "String")] Date),
    /// Three months, up to this day.
    Quarter(#[schemars(with = "String")] Date),
    /// That day itself.
    Day(#[schemars(with = "String")] Date),
}

impl Period {
    pub fn end(self) -> Date {
        match self {
            Period::Year(end) | Period::Quarter(end) | Period::Day(end) => end,
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Period::Year(end) => write!(f, "year to {end}"),
            Period::Quarter(end) => write!(f, "quarter to {end}"),
            Period::Day(day) => write!(f, "on {day}"),
        }
    }
}

/// What a number counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FigureUnit")]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A currency, by its code.
    Money(String),
    /// A currency, for each share.
    MoneyPerShare(String),
    /// A share of one, shown in percent.
    Percent,
    /// How many times.
    Times,
    Count,
}

/// Where a figure comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FigureSource")]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Filed {
        form: String,
        accession: String,
        #[schemars(with = "String")]
        filed: Date,
        concept: String,
    },
    /// From other figures, in code.
    Computed { from: String },
}

impl fmt::Display for Figure {
    /// The value as people write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unit {
            Unit::Money(currency) => write!(f, "{} {currency}", scaled(self.value)),
            Unit::MoneyPerShare(currency) => {
                write!(f, "{} {currency} a share", rounded(self.value, 2))
            }
            Unit::Percent => {
                let percent = self.value.saturating_mul(Decimal::ONE_HUNDRED);
                write!(f, "{} %", rounded(percent, 1))
            }
            Unit::Times => write!(f, "{} ×", rounded(self.value, 2)),
            Unit::Count => write!(f, "{}", scaled(self.value)),
        }
    }
}

/// A value with so many digits after the point, halves rounded away from zero, and without a sign before zero.
fn rounded(value: Decimal, digits: u32) -> Decimal {
    let mut value = value.round_dp_with_strategy(digits, RoundingStrategy::MidpointAwayFromZero);
    value.rescale(digits);
    if value.is_zero() { value.abs() } else { value }
}

/// A large number in thousands, millions or billions, with as many digits as matter. The scale is chosen by the rounded
/// value: 999,999,999 is 1.00 billion.
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

/// Decimal numbers as numbers of JSON. Most readers of JSON take those for binary numbers: 15 digits survive that.
pub(crate) mod json_number {
    use rust_decimal::Decimal;
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::{Error as _, Serializer};

    /// Writes a value as a number.
    pub(crate) fn serialize<S: Serializer>(value: &Decimal, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.to_string().parse().map_err(S::Error::custom)?)
    }

    /// Reads a number by its digits.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Decimal, D::Error> {
        let text = serde_json::Number::deserialize(from)?.to_string();
        let read = match text.contains(['e', 'E']) {
            true => Decimal::from_scientific(&text),
            false => text.parse(),
        };
        read.map_err(|error| D::Error::custom(format!("the number {text} cannot be used: {error}")))
    }
}

/// The same for a value that may be missing.
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

    /// A figure in a unit.
    fn figure(value: &str, unit: Unit) -> Figure {
        let end: Date = "2022-09-30".parse().unwrap();
        Figure {
            name: "some".to_owned(),
            period: Period::Day(end),
            value: value.parse().unwrap(),
            unit,
            source: Source::Computed { from: String::new() },
            as_of: end,
            restated_from: None,
        }
    }

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(scaled(21_454_000_000_u64.into()), "21.45 billion");
        assert_eq!(scaled((-733_000_000).into()), "-733.0 million");
        assert_eq!(scaled(950.into()), "950");
        let end: Date = "2022-09-30".parse().unwrap();
        assert_eq!(Period::Quarter(end).to_string(), "quarter to 2022-09-30");
    }

    #[test]
    fn shown_halves_round_away_from_zero_in_every_unit() {
        let usd = || "USD".to_owned();
        for (value, unit, shown) in [
            ("2.405", Unit::MoneyPerShare(usd()), "2.41 USD a share"),
            ("30.855", Unit::MoneyPerShare(usd()), "30.86 USD a share"),
            ("-2.405", Unit::MoneyPerShare(usd()), "-2.41 USD a share"),
            ("2.4049999", Unit::MoneyPerShare(usd()), "2.40 USD a share"),
            ("-0.004", Unit::MoneyPerShare(usd()), "0.00 USD a share"),
            ("2405000000", Unit::Money(usd()), "2.41 billion USD"),
            ("30855000000", Unit::Money(usd()), "30.86 billion USD"),
            ("-1250000", Unit::Money(usd()), "-1.3 million USD"),
            ("999999999", Unit::Money(usd()), "1.00 billion USD"),
            ("1350", Unit::Count, "1.4 thousand"),
            ("0.5", Unit::Count, "1"),
            ("0.1235", Unit::Percent, "12.4 %"),
            ("0.1225", Unit::Percent, "12.3 %"),
            ("-0.0004", Unit::Percent, "0.0 %"),
            ("1.005", Unit::Times, "1.01 ×"),
        ] {
            assert_eq!(figure(value, unit).to_string(), shown, "{value}");
        }
    }

    #[test]
    fn stored_figures_keep_their_decimal_value() {
        for value in ["2.405", "30.855", "-733000000", "0.0001", "123456789012345"] {
            let mut before = figure(value, Unit::Count);
            before.restated_from = Some(before.value);
            let text = serde_json::to_string(&before).unwrap();
            assert!(
                text.contains(&format!("\"value\":{}", value.parse::<f64>().unwrap())),
                "{text}"
            );
            assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), before);
        }
        // Figures that were stored without an earlier value.
        let text = serde_json::to_string(&figure("1", Unit::Count)).unwrap();
        assert_eq!(serde_json::from_str::<Figure>(&text).unwrap().restated_from, None);
    }
}
