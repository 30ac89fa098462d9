//! Computes growth, margins, leverage and cash flow from filed facts, so that no model has to do arithmetic.

use std::collections::BTreeMap;

use jiff::civil::Date;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;

use super::facts::{CompanyFacts, Fact, Series, Span};
use crate::sources::figure::{Figure, FigurePeriod, FigureSource, FigureUnit};

/// Maximum number of years in the tables of figures.
const YEARS: usize = 4;

/// Maximum number of quarters in the tables of figures.
const QUARTERS: usize = 5;

/// Measures with the concepts under which companies file them, and the order of the measures in the document.
const DATA: &str = include_str!("../../../data/figures.txt");

/// Lines of [`DATA`] of one kind: `flow` (per period), `stock` (on one day) or `show` (order in the document).
fn lines(kind: &str) -> impl Iterator<Item = &'static str> {
    let own = move |line: &'static str| line.split_once(" | ").filter(|(of, _)| *of == kind);
    DATA.lines().filter_map(own).map(|(_, rest)| rest)
}

/// Names of the measures of one kind, each with the concepts under which companies file it.
fn concepts(kind: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let named = lines(kind).filter_map(|line| line.split_once(" | "));
    named.map(|(name, concepts)| (name, concepts.split(' ').collect())).collect()
}

/// Name of the measure for long-term debt. The filings do not say whether the values of this measure include the part
/// due within a year.
pub(super) const DEBT: &str = "long-term debt (with or without the part due within a year)";

const EARNINGS_PER_SHARE: &str = "earnings per share";

/// Figures of a company, and the names of the measures that were not found in its filings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measures {
    pub(crate) figures: Vec<Figure>,
    pub(crate) missing: Vec<String>,
}

/// Extracts the filed figures of a company and computes the derived figures.
pub(crate) fn measure(facts: &CompanyFacts) -> Measures {
    let mut table = FigureTable::default();
    let (flows, stocks) = (concepts("flow"), concepts("stock"));
    for (name, concepts) in &flows {
        if let Some(series) = facts.series(concepts) {
            table.read_flow(name, &series);
            if *name == EARNINGS_PER_SHARE {
                table.undo_splits(&splits(&series));
            }
        }
    }
    for (name, concepts) in &stocks {
        if let Some(series) = facts.series(concepts) {
            table.read_stock(name, &series);
        }
    }
    table.derive();
    let expected = flows.iter().chain(&stocks).map(|(name, _)| *name);
    let has = |name: &str| table.figures.keys().any(|(other, _)| other == name);
    let is_debt = |name: &str| name.contains("debt") && has("debt");
    let missing = expected.filter(|name| !has(name) && !is_debt(name));
    let missing = missing.map(str::to_owned).collect();
    table.keep_latest();
    let mut figures: Vec<Figure> = table.figures.into_values().collect();
    // Sort figures in the order of financial statements. The growth of a measure follows the measure.
    let place = |figure: &Figure| {
        let base = figure.name.strip_suffix(" growth").unwrap_or(&figure.name);
        lines("show").position(|name| name == base).unwrap_or(usize::MAX)
    };
    figures.sort_by_cached_key(|figure| (place(figure), figure.name.clone(), figure.period));
    Measures { figures, missing }
}

/// Figures by name and period.
#[derive(Default)]
struct FigureTable {
    figures: BTreeMap<(String, FigurePeriod), Figure>,
}

impl FigureTable {
    fn read_flow(&mut self, name: &str, series: &Series) {
        for (end, fact) in series.of(Span::Year) {
            self.put_fact(name, FigurePeriod::Year(end), series, fact);
        }
        for (end, fact) in series.of(Span::Quarter) {
            self.put_fact(name, FigurePeriod::Quarter(end), series, fact);
        }
        // Values per share cannot be subtracted: the quarters of a year do not add up to the value of the year.
        if !series.unit.ends_with("/shares") {
            self.complete_quarters(name, series);
        }
    }

    /// Computes quarters that were only filed as part of a longer period: the fourth quarter, which is part of the
    /// year, and quarters of cash flows, which are filed as totals since the start of the year.
    fn complete_quarters(&mut self, name: &str, series: &Series) {
        let spans = [Span::Quarter, Span::YearToDate, Span::Year];
        let long = |fact: &Fact| fact.span().is_some_and(|span| spans.contains(&span));
        let mut by_start: BTreeMap<Date, BTreeMap<Date, &Fact>> = BTreeMap::new();
        for (fact, _) in series.facts.values().filter(|(fact, _)| long(fact)) {
            if let Some(start) = fact.start {
                by_start.entry(start).or_default().insert(fact.end, fact);
            }
        }
        for facts in by_start.values() {
            let ends: Vec<(&Date, &&Fact)> = facts.iter().collect();
            for pair in ends.windows(2) {
                let [(before, shorter), (end, longer)] = pair else { continue };
                let days = before.until(**end).map_or(0, |span| span.get_days());
                let period = FigurePeriod::Quarter(**end);
                let known = self.figures.contains_key(&(name.to_owned(), period));
                if !(80..=100).contains(&days) || known {
                    continue;
                }
                let from = format!(
                    "{name} from {} to {end} minus {name} to {before} ({} {}, {} {})",
                    longer.start.map(|start| start.to_string()).unwrap_or_default(),
                    longer.form,
                    longer.accession,
                    shorter.form,
                    shorter.accession
                );
                let Some(value) = longer.value.checked_sub(shorter.value) else { continue };
                self.put_computed(name, period, value, unit_of(&series.unit), from);
            }
        }
    }

    fn read_stock(&mut self, name: &str, series: &Series) {
        for (end, fact) in series.of(Span::Day) {
            self.put_fact(name, FigurePeriod::Day(end), series, fact);
        }
    }

    fn put_fact(
        &mut self,
        name: &str,
        period: FigurePeriod,
        series: &Series,
        fact: &(Fact, Option<Decimal>),
    ) {
        let (fact, before) = fact;
        self.put(Figure {
            name: name.to_owned(),
            period,
            value: fact.value,
            unit: unit_of(&series.unit),
            source: FigureSource::Filed {
                form: fact.form.clone(),
                accession: fact.accession.clone(),
                filed: fact.filed,
                concept: series.concept.clone(),
            },
            as_of: fact.end,
            restated_from: *before,
        });
    }

    fn put(&mut self, figure: Figure) {
        self.figures.insert((figure.name.clone(), figure.period), figure);
    }

    fn get(&self, name: &str, period: FigurePeriod) -> Option<Decimal> {
        self.figures.get(&(name.to_owned(), period)).map(|figure| figure.value)
    }

    /// Returns the values of two figures of the same period, and their unit; `None` if a figure is missing or the units
    /// differ.
    fn pair(
        &self,
        period: FigurePeriod,
        one: &str,
        other: &str,
    ) -> Option<(Decimal, Decimal, FigureUnit)> {
        let find = |name: &str| self.figures.get(&(name.to_owned(), period));
        let (one, other) = (find(one)?, find(other)?);
        (one.unit == other.unit).then(|| (one.value, other.value, one.unit.clone()))
    }

    fn periods(&self, wanted: fn(FigurePeriod) -> bool) -> Vec<FigurePeriod> {
        let all = self.figures.keys().map(|(_, period)| *period).filter(|period| wanted(*period));
        let all: std::collections::BTreeSet<FigurePeriod> = all.collect();
        all.into_iter().collect()
    }

    fn derive(&mut self) {
        let flows = self.periods(|period| !matches!(period, FigurePeriod::Day(_)));
        for period in flows {
            if self.get("gross profit", period).is_none() {
                self.combine(
                    "gross profit",
                    period,
                    ("revenue", "cost of revenue"),
                    Decimal::checked_sub,
                );
            }
            let parts = ("operating cash flow", "capital expenditure");
            self.combine("free cash flow", period, parts, Decimal::checked_sub);
            for (name, part) in [
                ("gross margin", "gross profit"),
                ("operating margin", "operating income"),
                ("net margin", "net income"),
                ("free cash flow margin", "free cash flow"),
                ("research and development as a share of revenue", "research and development"),
            ] {
                self.ratio(name, period, (part, "revenue"), FigureUnit::Percent);
            }
            let parts = ("operating income", "interest expense");
            self.ratio("interest coverage", period, parts, FigureUnit::Times);
            for name in
                ["revenue", "gross profit", "operating income", "net income", "free cash flow"]
            {
                self.growth(name, period);
            }
        }
        for period in self.periods(|period| matches!(period, FigurePeriod::Day(_))) {
            self.combine(
                "debt",
                period,
                ("long-term debt", "debt due within a year"),
                Decimal::checked_add,
            );
            if self.get("debt", period).is_none() {
                self.estimate_debt(period);
            }
            self.combine("net cash", period, ("cash", "debt"), Decimal::checked_sub);
            for (name, part, whole) in [
                ("liabilities to equity", "liabilities", "equity"),
                ("debt to equity", "debt", "equity"),
                ("current ratio", "current assets", "current liabilities"),
            ] {
                self.ratio(name, period, (part, whole), FigureUnit::Times);
            }
        }
    }

    /// Estimates debt if it cannot be computed exactly. If long-term debt may include the debt due within a year, the
    /// sum of both is an upper bound. If debt due within a year was not filed, long-term debt alone is the estimate.
    fn estimate_debt(&mut self, period: FigurePeriod) {
        self.combine("debt", period, (DEBT, "debt due within a year"), Decimal::checked_add);
        let alone = ["long-term debt", DEBT].into_iter().find_map(|name| {
            self.figures.get(&(name.to_owned(), period)).map(|figure| (name, figure.clone()))
        });
        if let (None, Some((name, figure))) = (self.get("debt", period), alone) {
            let from = format!("{name} alone");
            self.put_computed("debt", period, figure.value, figure.unit, from);
        }
    }

    /// Adjusts earnings per share that were filed before a share split, so that they are comparable with later values.
    fn undo_splits(&mut self, splits: &[(u32, Date)]) {
        let own = self.figures.values_mut().filter(|figure| figure.name == EARNINGS_PER_SHARE);
        for figure in own {
            let FigureSource::Filed { filed, form, accession, .. } = &figure.source else {
                continue;
            };
            let later = splits.iter().filter(|(_, day)| filed < day);
            let by: u32 = later.map(|(by, _)| by).product();
            let is_split = |before: Decimal| split_of(before, figure.value).is_some();
            if figure.restated_from.is_some_and(is_split) {
                // A share split is not a restatement of earnings.
                figure.restated_from = None;
            }
            if by > 1 {
                let from = format!(
                    "{} in the {form} {accession}, divided by {by} because of a later share split",
                    figure
                );
                figure.value /= Decimal::from(by);
                figure.source = FigureSource::Computed { from };
            }
        }
    }

    /// Computes a figure from two other figures of the same period.
    fn combine(
        &mut self,
        name: &str,
        period: FigurePeriod,
        (one, other): (&str, &str),
        how: fn(Decimal, Decimal) -> Option<Decimal>,
    ) {
        let Some((a, b, unit)) = self.pair(period, one, other) else { return };
        let Some(value) = how(a, b) else { return };
        let from = format!("{one} and {other}");
        self.put_computed(name, period, value, unit, from);
    }

    fn ratio(
        &mut self,
        name: &str,
        period: FigurePeriod,
        (part, whole): (&str, &str),
        unit: FigureUnit,
    ) {
        let pair = self.pair(period, part, whole);
        // A ratio to zero or to a negative value has no meaning.
        let Some((a, b, _)) = pair.filter(|(_, b, _)| *b > Decimal::ZERO) else { return };
        let Some(value) = a.checked_div(b) else { return };
        self.put_computed(name, period, value, unit, format!("{part} by {whole}"));
    }

    /// Computes the growth of a measure against the same period a year earlier.
    fn growth(&mut self, name: &str, period: FigurePeriod) {
        let earlier = self.figures.keys().filter(|(other, _)| other == name).map(|(_, one)| *one);
        let is_a_year_before = |one: &FigurePeriod| {
            let same = std::mem::discriminant(one) == std::mem::discriminant(&period);
            let days = one.end().until(period.end()).map_or(0, |span| span.get_days());
            same && (355..=378).contains(&days)
        };
        let Some(before) = earlier.into_iter().find(is_a_year_before) else { return };
        let (Some(then), Some(now)) = (self.get(name, before), self.get(name, period)) else {
            return;
        };
        // Growth from a loss has no meaning in percent.
        if then <= Decimal::ZERO {
            return;
        }
        // Subtract first, so that only the division rounds.
        let change = now.checked_sub(then).and_then(|change| change.checked_div(then));
        let Some(change) = change else { return };
        let from = format!("{name}, {period} against {before}");
        self.put_computed(&format!("{name} growth"), period, change, FigureUnit::Percent, from);
    }

    fn put_computed(
        &mut self,
        name: &str,
        period: FigurePeriod,
        value: Decimal,
        unit: FigureUnit,
        from: String,
    ) {
        self.put(Figure {
            name: name.to_owned(),
            period,
            value,
            unit,
            source: FigureSource::Computed { from },
            as_of: period.end(),
            restated_from: None,
        });
    }

    /// Removes old figures. Keeps the figures of the latest years and quarters, and the balance sheet figures of the
    /// last days of these years and quarters.
    fn keep_latest(&mut self) {
        let latest = |mut periods: Vec<FigurePeriod>, count: usize| {
            periods.sort_by_key(|period| std::cmp::Reverse(period.end()));
            periods.truncate(count);
            periods
        };
        let revenue_or_any = |wanted: fn(FigurePeriod) -> bool| {
            let of = |name: &str| -> Vec<FigurePeriod> {
                let own = self.figures.keys().filter(|(other, _)| other == name);
                own.map(|(_, period)| *period).filter(|period| wanted(*period)).collect()
            };
            let revenue = of("revenue");
            if revenue.is_empty() { of("net income") } else { revenue }
        };
        let years = latest(revenue_or_any(|period| matches!(period, FigurePeriod::Year(_))), YEARS);
        let quarters =
            latest(revenue_or_any(|period| matches!(period, FigurePeriod::Quarter(_))), QUARTERS);
        let ends = years.iter().chain(&quarters).map(|period| period.end());
        let mut ends: std::collections::BTreeSet<Date> = ends.collect();
        if ends.is_empty() {
            let days = self.figures.keys().map(|(_, period)| period.end()).max();
            ends.extend(days);
        }
        self.figures.retain(|(_, period), _| match period {
            FigurePeriod::Year(_) => years.contains(period),
            FigurePeriod::Quarter(_) => quarters.contains(period),
            FigurePeriod::Day(day) => ends.contains(day),
        });
    }
}

/// Share splits implied by restated earnings per share: pairs of the split factor and the date of the first filing
/// that applies it.
fn splits(series: &Series) -> Vec<(u32, Date)> {
    let mut splits: BTreeMap<u32, Date> = BTreeMap::new();
    for (fact, before) in series.facts.values() {
        if let Some(by) = before.and_then(|before| split_of(before, fact.value)) {
            let first = splits.entry(by).or_insert(fact.filed);
            *first = (*first).min(fact.filed);
        }
    }
    splits.into_iter().collect()
}

/// Factor of the share split that explains the difference between two values filed for the same period; `None` if no
/// share split explains it.
fn split_of(before: Decimal, after: Decimal) -> Option<u32> {
    let size = after.abs();
    // Both values are rounded to cents, so small values are not precise enough.
    if size < Decimal::new(2, 1) {
        return None;
    }
    let ratio = before.checked_div(after)?;
    let whole = ratio.round();
    let near = (ratio - whole).abs() <= Decimal::new(6, 3) / size * whole;
    (near && (Decimal::TWO..=Decimal::from(50)).contains(&whole)).then(|| whole.to_u32()).flatten()
}

fn unit_of(unit: &str) -> FigureUnit {
    match unit.strip_suffix("/shares") {
        Some(currency) => FigureUnit::MoneyPerShare(currency.to_owned()),
        None if unit == "shares" || unit == "pure" => FigureUnit::Count,
        None => FigureUnit::Money(unit.to_owned()),
    }
}
