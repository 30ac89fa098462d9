//! Renders filed and computed figures as a Markdown document: tables and their sources.

use jiff::civil::Date;

use super::measures;
use crate::sources::figure::{Figure, FigurePeriod, FigureSource};
use crate::sources::table;

/// Renders tables of figures by year, by quarter and by balance sheet date, followed by the sources of the figures.
pub(super) fn render_figures(figures: &[Figure]) -> String {
    let mut text = String::new();
    let filings = filings_of(figures);
    let title_of = |period: FigurePeriod| match period {
        FigurePeriod::Year(_) => "By year",
        FigurePeriod::Quarter(_) => "By quarter",
        FigurePeriod::Day(_) => "Balance sheet",
    };
    for title in ["By year", "By quarter", "Balance sheet"] {
        let matching = figures.iter().filter(|figure| title_of(figure.period) == title);
        let matching: Vec<&Figure> = matching.collect();
        if matching.is_empty() {
            continue;
        }
        let mut ends: Vec<Date> = matching.iter().map(|figure| figure.period.end()).collect();
        ends.sort();
        ends.dedup();
        ends.reverse();
        let mut names: Vec<&str> = Vec::new();
        for figure in &matching {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        let heads: Vec<String> = ends.iter().map(|end| format!("to {end}")).collect();
        let heads: Vec<&str> =
            std::iter::once("measure").chain(heads.iter().map(String::as_str)).collect();
        let rows = names.iter().map(|name| {
            let computed_row = matching
                .iter()
                .filter(|one| one.name == **name)
                .all(|one| matches!(one.source, FigureSource::Computed { .. }));
            let cell = |end: &Date| {
                let found =
                    matching.iter().find(|one| one.name == **name && one.period.end() == *end);
                let Some(one) = found else {
                    return if computed_row { "–" } else { "not filed" }.to_owned();
                };
                let restated = if one.restated_from.is_some() { " (restated)" } else { "" };
                match &one.source {
                    FigureSource::Computed { .. } if computed_row => one.to_string(),
                    FigureSource::Computed { .. } => format!("{one} (computed)"),
                    FigureSource::Filed { accession, .. } => {
                        let number = filings.iter().position(|(other, _)| other == accession);
                        let number = number.map(|at| format!(" [{}]", at + 1)).unwrap_or_default();
                        format!("{one}{restated}{number}")
                    }
                }
            };
            let name = if computed_row { format!("{name} (computed)") } else { (*name).to_owned() };
            std::iter::once(name).chain(ends.iter().map(cell)).collect::<Vec<_>>()
        });
        text.push_str(&format!("## {title}\n\n{}\n", table(&heads, &rows.collect::<Vec<_>>())));
    }
    text.push_str(&sources_as_text(figures, &filings));
    text
}

/// Returns the filings that contain the figures, the latest first: pairs of accession number and description.
fn filings_of(figures: &[Figure]) -> Vec<(String, String)> {
    let mut filings: Vec<(Date, String, String)> = figures
        .iter()
        .filter_map(|figure| match &figure.source {
            FigureSource::Filed { form, accession, filed, .. } => {
                Some((*filed, accession.clone(), format!("{form}, filed on {filed}")))
            }
            FigureSource::Computed { .. } => None,
        })
        .collect();
    filings.sort();
    filings.dedup();
    filings.into_iter().rev().map(|(_, accession, what)| (accession, what)).collect()
}

/// Renders the section on sources: the filings, notes on some measures, and restated figures.
fn sources_as_text(figures: &[Figure], filings: &[(String, String)]) -> String {
    let restated: Vec<String> = figures
        .iter()
        .filter_map(|figure| {
            let before = Figure { value: figure.restated_from?, ..figure.clone() };
            Some(format!("- {}, {}: {figure}, previously {before}", figure.name, figure.period))
        })
        .collect();
    let filings: Vec<String> = (filings.iter().zip(1..))
        .map(|((accession, what), number)| {
            format!("[{number}] {what}, accession number {accession}")
        })
        .collect();
    let has = |name: &str| figures.iter().any(|figure| figure.name == name);
    let mut text = format!("## Sources\n\n{}\n", filings.join("\n"));
    if has("debt") {
        text.push_str("\nDebt excludes leases.");
        let most = " The values are upper bounds: the filings do not say whether long-term debt includes the debt \
                    due within a year, so both are added.";
        let parts = has("long-term debt") || !has("debt due within a year");
        text.push_str(if parts || !has(measures::DEBT) { "\n" } else { most });
        text.push('\n');
    }
    if has("cash") {
        text.push_str("\nCash means cash and cash equivalents, without marketable securities.\n");
    }
    for figure in figures.iter().filter(|figure| figure.name == "earnings per share") {
        if let FigureSource::Computed { from } = &figure.source {
            text.push_str(&format!("\nEarnings per share, {}: {from}.\n", figure.period));
        }
    }
    if !restated.is_empty() {
        text.push_str(&format!("\n## Restated\n\n{}\n", restated.join("\n")));
    }
    text
}
