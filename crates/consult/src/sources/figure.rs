//! Figures, each with where it comes from and for when it holds.

use std::fmt;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// One number that somebody can be asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it measures, such as `revenue` or `gross margin`.
    pub name: String,
    pub period: Period,
    pub value: f64,
    pub unit: Unit,
    /// Where it was read, or how it was computed.
    pub source: Source,
    /// The day for which it holds.
    pub as_of: Date,
    /// It was given otherwise before, and this is the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restated_from: Option<f64>,
}

/// The time that a figure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// A year, up to this day.
    Year(Date),
    /// Three months, up to this day.
    Quarter(Date),
    /// That day itself.
    Day(Date),
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Filed {
        form: String,
        accession: String,
        filed: Date,
        concept: String,
    },
    /// From other figures, in code.
    Computed {
        from: String,
    },
}

impl fmt::Display for Figure {
    /// The value as people write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unit {
            Unit::Money(currency) => write!(f, "{} {currency}", scaled(self.value)),
            Unit::MoneyPerShare(currency) => write!(f, "{:.2} {currency} a share", self.value),
            // Without a sign before nothing.
            Unit::Percent => write!(f, "{:.1} %", (self.value * 1000.0).round() / 10.0 + 0.0),
            Unit::Times => write!(f, "{:.2} ×", self.value),
            Unit::Count => write!(f, "{}", scaled(self.value)),
        }
    }
}

/// A large number in millions or billions, with as many digits as matter.
fn scaled(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1e9 => format!("{:.2} billion", value / 1e9),
        _ if size >= 1e6 => format!("{:.1} million", value / 1e6),
        _ if size >= 1e3 => format!("{:.1} thousand", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(scaled(21_454_000_000.0), "21.45 billion");
        assert_eq!(scaled(-733_000_000.0), "-733.0 million");
        assert_eq!(scaled(950.0), "950");
        let end: Date = "2022-09-30".parse().unwrap();
        assert_eq!(Period::Quarter(end).to_string(), "quarter to 2022-09-30");
    }
}
