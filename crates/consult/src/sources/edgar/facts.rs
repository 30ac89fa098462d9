//! Facts of a company from EDGAR's `companyfacts`: every number of every filing. The same number can occur several
//! times, and a company can file a measure under different concepts (EDGAR's names of measures) over the years.

use std::collections::BTreeMap;

use jiff::civil::Date;
use rust_decimal::Decimal;
use serde::Deserialize;

use crate::sources::figure::json_number;

/// All facts that a company has filed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CompanyFacts {
    pub(crate) cik: u64,
    #[serde(rename = "entityName", default)]
    pub(crate) entity_name: String,
    /// Facts by taxonomy, then by concept.
    #[serde(default)]
    facts: BTreeMap<String, BTreeMap<String, Concept>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Concept {
    #[serde(default)]
    units: BTreeMap<String, Vec<Fact>>,
}

/// One number in one filing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Fact {
    /// First day of the period; `None` for a value on one day, such as in a balance sheet.
    #[serde(default)]
    pub(crate) start: Option<Date>,
    pub(crate) end: Date,
    #[serde(rename = "val", with = "json_number")]
    pub(crate) value: Decimal,
    #[serde(rename = "accn")]
    pub(crate) accession: String,
    #[serde(default)]
    pub(crate) form: String,
    pub(crate) filed: Date,
}

/// Length of the period of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Span {
    Day,
    Quarter,
    /// Six or nine months from the start of a fiscal year, as filed for cash flows.
    YearToDate,
    Year,
}

impl Fact {
    /// Length of the fact's period; `None` for an unusual length, such as a stub period after a change of the fiscal
    /// year.
    pub(crate) fn span(&self) -> Option<Span> {
        let Some(start) = self.start else { return Some(Span::Day) };
        let days = start.until(self.end).ok()?.get_days() + 1;
        match days {
            80..=100 => Some(Span::Quarter),
            // A fiscal year may have 52 or 53 weeks.
            355..=378 => Some(Span::Year),
            170..=285 => Some(Span::YearToDate),
            _ => None,
        }
    }
}

/// Values of one concept, one per period.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Concept with its taxonomy, such as `us-gaap:Revenues`.
    pub(crate) concept: String,
    /// Unit, such as `USD` or `USD/shares`.
    pub(crate) unit: String,
    /// Facts by the start and end of their period: the fact in the latest filing, and the value in an earlier filing if
    /// that value differs.
    pub(crate) facts: BTreeMap<(Option<Date>, Date), (Fact, Option<Decimal>)>,
}

impl Series {
    pub(crate) fn last_end(&self) -> Option<Date> {
        self.facts.keys().map(|(_, end)| *end).max()
    }

    /// Returns the facts whose periods have this length, by the last day of the period.
    pub(crate) fn of(&self, span: Span) -> BTreeMap<Date, &(Fact, Option<Decimal>)> {
        let facts = self.facts.values().filter(|(fact, _)| fact.span() == Some(span));
        facts.map(|fact| (fact.0.end, fact)).collect()
    }
}

impl CompanyFacts {
    /// Whether there are no financial facts.
    pub(crate) fn is_empty(&self) -> bool {
        self.facts.iter().all(|(taxonomy, concepts)| taxonomy == "dei" || concepts.is_empty())
    }

    /// Returns the series of the concept in `names` that has the most recent value. If several concepts have a value
    /// for the same last day, returns the series of the concept that is first in `names`. Several concepts are
    /// searched, because companies change the concept under which they file a measure.
    pub(crate) fn series(&self, names: &[&str]) -> Option<Series> {
        let mut best: Option<Series> = None;
        for name in names {
            let Some((taxonomy, concept)) = name.split_once(':') else { continue };
            let Some(found) = self.facts.get(taxonomy).and_then(|all| all.get(concept)) else {
                continue;
            };
            // Use the unit with the most facts, because some companies also file a few numbers in another currency.
            let most = found.units.iter().max_by_key(|(_, facts)| facts.len());
            let Some((unit, facts)) = most else { continue };
            let series = read(name, unit, facts);
            let is_newer = match &best {
                None => true,
                Some(best) => series.last_end() > best.last_end(),
            };
            if is_newer {
                best = Some(series);
            }
        }
        best
    }
}

/// Builds the series of a concept. For each period, the series has the fact in the latest filing, and the value in an
/// earlier filing if that value differs.
fn read(concept: &str, unit: &str, facts: &[Fact]) -> Series {
    let mut by_period: BTreeMap<(Option<Date>, Date), Vec<&Fact>> = BTreeMap::new();
    for fact in facts {
        by_period.entry((fact.start, fact.end)).or_default().push(fact);
    }
    let latest = |(period, mut all): ((Option<Date>, Date), Vec<&Fact>)| {
        all.sort_by(|a, b| (a.filed, &a.accession).cmp(&(b.filed, &b.accession)));
        let last = all.pop()?;
        let before = all.iter().rev().find(|fact| differs(fact.value, last.value));
        Some((period, (last.clone(), before.map(|fact| fact.value))))
    };
    Series {
        concept: concept.to_owned(),
        unit: unit.to_owned(),
        facts: by_period.into_iter().filter_map(latest).collect(),
    }
}

/// Whether two values differ by more than a rounding error, that is, by more than 0.1 %.
fn differs(one: Decimal, other: Decimal) -> bool {
    let apart = one.checked_sub(other);
    apart.is_none_or(|apart| apart.abs() > one.abs().max(other.abs()) / Decimal::ONE_THOUSAND)
}
