//! Renders the report as one self-contained HTML page, without scripts, images or links.
//!
//! The templates are in `templates/`. The escaper in this module is applied to every value that a template prints.

use std::fmt;

use askama::Template;
use assize_debate::{BEST, DebateVerdict, METRICS};
use assize_types::text::is_invisible;

use crate::drift::RoundDrift;
use crate::report::{ConsultReport, RankedMove, UNLIKE, flag_label};
use crate::state::FlagKind;

/// Number of different colors for judges. Colors repeat if there are more judges.
const COLOURS: usize = 6;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    report: &'a ConsultReport,
    /// Inferences and gathered data of the report, as pairs of title and text.
    documents: [(&'static str, &'a str); 4],
}

impl ConsultReport {
    /// Renders the report as a self-contained HTML page. Model text is escaped, so it is never interpreted as markup.
    pub fn to_html(&self) -> String {
        let documents = [
            ("F1, the financial inference", self.f1_financial_inference.as_str()),
            ("F2, the trend inference", &self.f2_trend_inference),
            ("Financial data", &self.financial_data_raw),
            ("News data", &self.news_data_raw),
        ];
        let rendered = Page { report: self, documents }.render();
        rendered.unwrap_or_else(|error| unreachable!("writing to a string cannot fail: {error}"))
    }
}

/// Escapes markup in every template value and removes invisible characters.
#[derive(Debug, Clone, Copy)]
struct Escaped;

impl askama::filters::Escaper for Escaped {
    fn write_escaped_str<W: fmt::Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            c if (c.is_control() && c != '\n' && c != '\t') || is_invisible(c) => Ok(()),
            '&' => dest.write_str("&amp;"),
            '<' => dest.write_str("&lt;"),
            '>' => dest.write_str("&gt;"),
            '"' => dest.write_str("&quot;"),
            '\'' => dest.write_str("&#39;"),
            c => dest.write_char(c),
        })
    }
}

/// Heading of a flag (a caveat) that applies to the whole report. The headings of the most serious kinds are in
/// capitals.
fn heading(kind: FlagKind) -> String {
    match kind {
        FlagKind::Synthetic | FlagKind::Rehearsal | FlagKind::CompanyNotVerified => {
            flag_label(kind).to_uppercase()
        }
        kind => flag_label(kind).to_owned(),
    }
}

/// A part of a Markdown document.
enum Block<'a> {
    Text(String),
    /// Table as rows of cells, the header row first.
    Table(Vec<Vec<&'a str>>),
}

/// Splits a Markdown document into its tables and the text between them.
fn blocks(document: &str) -> Vec<Block<'_>> {
    let is_row = |line: &&str| line.starts_with('|') && line.ends_with('|') && line.len() > 1;
    let lines: Vec<&str> = document.lines().collect();
    let runs = lines.chunk_by(|one, other| is_row(one) == is_row(other));
    let blocks = runs.filter_map(|run| {
        if !run.first().is_some_and(is_row) {
            let words = run.join("\n");
            let words = words.trim_matches('\n');
            return (!words.trim().is_empty()).then(|| Block::Text(words.to_owned()));
        }
        let cells = run.iter().map(|line| line[1..line.len() - 1].split('|').map(str::trim));
        let mut rows: Vec<Vec<&str>> = cells.map(Iterator::collect).collect();
        let is_rule = |cell: &&str| cell.chars().all(|c| matches!(c, '-' | ':'));
        if rows.get(1).is_some_and(|row| row.iter().all(is_rule)) {
            rows.remove(1);
        }
        Some(Block::Table(rows))
    });
    blocks.collect()
}

/// Width, in SVG units, of the bar that shows a metric's score (1 to 10).
fn bar_width(score: &u8) -> f64 {
    306.0 * f64::from(*score) / 10.0
}

/// X position of a judge's total score on the chart of all moves. `equals_before` is the number of judges with the same
/// total that are drawn to the left.
fn total_at(total: u32, equals_before: usize) -> String {
    let x = 290.0 + 450.0 * f64::from(total) / f64::from(BEST) + equals_before as f64 * 7.0;
    format!("{x:.1}")
}

/// Totals of one move by judge: judge id, total, and x position on the chart.
fn totals(verdict: &DebateVerdict) -> Vec<(&str, u32, String)> {
    let scores = verdict.scores_by_agent.iter();
    let totals: Vec<(&str, u32)> =
        scores.map(|(id, score)| (id.as_str(), score.card.total())).collect();
    let placed = totals.iter().enumerate().map(|(judge, (id, total))| {
        let equals = totals[..judge].iter().filter(|(_, other)| other == total).count();
        (*id, *total, total_at(*total, equals))
    });
    placed.collect()
}

/// X positions of the lowest and the highest total on the chart; `None` if there are no totals.
fn range(totals: &[(&str, u32, String)]) -> Option<(String, String)> {
    let totals = totals.iter().map(|(_, total, _)| *total);
    Some((total_at(totals.clone().min()?, 0), total_at(totals.max()?, 0)))
}

/// Chart of the share of new words by round: axis labels and line points.
struct Drift {
    marks: Vec<(u32, String)>,
    critic: String,
    decision_makers: String,
}

impl Drift {
    fn new(placed: &RankedMove, rounds: u32) -> Drift {
        let x = |round: u32| {
            let share = f64::from(round - 1) / f64::from(rounds.max(2) - 1);
            format!("{:.1}", 52.0 + 416.0 * share)
        };
        let points = |share: fn(&RoundDrift) -> Option<f64>| {
            let shares = placed.drift.iter().filter_map(|round| Some((round.round, share(round)?)));
            let points = shares
                .map(|(round, share)| format!("{},{:.1}", x(round), 6.0 + 92.0 * (1.0 - share)));
            points.collect::<Vec<_>>().join(" ")
        };
        // Limit the number of axis labels, so that they fit into the width of the chart.
        let step = (placed.drift.len() / 12 + 1) as u32;
        let rounds = placed.drift.iter().map(|round| round.round);
        let marks = rounds.filter(|round| (round - 1) % step == 0);
        Drift {
            marks: marks.map(|round| (round, x(round))).collect(),
            critic: points(|round| round.critic),
            decision_makers: points(|round| round.decision_makers),
        }
    }
}
