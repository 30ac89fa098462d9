//! Recognizes figures in model text and looks them up in the source documents.

use std::collections::HashSet;
use std::sync::LazyLock;

use assize_types::text::{one_line, shorten};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sources::GatheredData;

/// Relative difference up to which two figures count as equal. Figures that differ more count as equal only if they are
/// equal after rounding.
const MAX_DIFFERENCE: f64 = 0.006;

/// A number with its unit. Values are scaled: 1 million is 1e6.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FigureNumber {
    /// The number as written in the text.
    text: String,
    value: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Percent,
    /// An amount: a number with a scale such as `million`, with a currency or with decimals, or a count of at least
    /// 100.
    Amount,
    /// A multiple, such as `52x`.
    Times,
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    // The pattern is constant; a test compiles it.
    #[expect(clippy::expect_used, reason = "constant pattern")]
    Regex::new(
        r"(?ix)
        (?P<currency> \b[A-Z]{1,3}\$\s* | [$€£¥] \s* | \b(?:USD|EUR|GBP)\s+ )?
        (?P<number> \d{1,3}(?:\.\d{3}){2,} | \d{1,3}(?:,\d{3})+(?:\.\d+)? | \d+(?:\.\d+)?(?:e[+-]?\d+)? )
        (?P<scale> \s*(?:trillion|billion|million|thousand|bn\b|mn\b|tn\b|[kmbt]\b) )?
        (?P<percent> \s*(?:%|percent\b|per\ cent\b|percentage\ points?\b|pct\b|pp\b) )?
        (?P<basis> \s*(?:basis\ points?\b|bps?\b) )?
        (?P<times> \s?(?:x\b|×|times\b) )?
        (?P<after> \s*(?:USD|EUR|GBP|dollars|euros)\b )?
        ",
    )
    .expect("constant pattern is valid")
});

/// Finds the figures in a text that need a source: percentages, sums of money, counts of at least 100, and numbers with
/// decimals or with a scale such as `million`. Years, small counts and ids of findings such as `F1.2` are ignored.
pub(crate) fn numbers(text: &str) -> Vec<FigureNumber> {
    // Full-width Unicode digits count as digits.
    let text: String = text
        .chars()
        .map(|c| match c {
            '\u{ff10}'..='\u{ff19}' => char::from(b'0' + (c as u32 - 0xff10) as u8),
            '\u{ff05}' => '%',
            c => c,
        })
        .collect();
    let mut found = Vec::new();
    for captures in NUMBER.captures_iter(&text) {
        let Some(whole) = captures.get(0) else { continue };
        let has = |name: &str| captures.name(name).is_some();
        let money = has("currency") || has("after");
        let measured = money || ["scale", "percent", "basis", "times"].iter().any(|name| has(name));
        if is_part_of_token(&text, whole.start(), whole.end(), measured) {
            continue;
        }
        let digits = &captures["number"];
        let is_grouped = digits.matches('.').count() > 1;
        let digits = if is_grouped { digits.replace('.', "") } else { digits.replace(',', "") };
        // A figure that cannot be parsed becomes NaN, which matches no source.
        let plain = digits.parse::<f64>().unwrap_or(f64::NAN);
        let scale = captures.name("scale").map(|scale| scale.as_str().trim().to_lowercase());
        let factor = match scale.as_deref() {
            Some("trillion" | "tn" | "t") => 1e12,
            Some("billion" | "bn" | "b") => 1e9,
            Some("million" | "mn" | "m") => 1e6,
            Some("thousand" | "k") => 1e3,
            _ if has("basis") => 0.01,
            _ => 1.0,
        };
        let fraction = captures["number"].contains(['.', ',', 'e', 'E']);
        let kind = match () {
            () if has("percent") || has("basis") => Kind::Percent,
            () if has("times") => Kind::Times,
            () if money || scale.is_some() || fraction || is_count(plain) => Kind::Amount,
            () => continue,
        };
        let text = whole.as_str().trim().to_owned();
        found.push(FigureNumber { text, value: plain * factor, kind });
    }
    found
}

/// Whether a plain number is at least 100 and not a year.
fn is_count(number: f64) -> bool {
    number >= 100.0 && !(1900.0..=2100.0).contains(&number)
}

/// Whether the number at `start..end` is part of a word or of a longer token, such as a date, a version or the id of
/// a finding. If the number has a unit (`measured`), only the characters before the number are checked.
fn is_part_of_token(text: &str, start: usize, end: usize, measured: bool) -> bool {
    let mut before = text[..start].chars().rev();
    let (one_before, two_before) = (before.next(), before.next());
    let mut after = text[end..].chars();
    let (one_after, two_after) = (after.next(), after.next());
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    if letter(one_before) || (one_before == Some('.') && letter(two_before)) {
        return true;
    }
    if measured {
        return false;
    }
    let joint = |c: Option<char>| c.is_some_and(|c| matches!(c, '_' | '/' | ':' | '-' | '.'));
    letter(one_after)
        || (joint(one_before) && digit(two_before))
        || (joint(one_after) && letter(two_after))
}

/// Maximum relative difference between a figure and the source figures that are compared with it. Rounding to two
/// digits, the coarsest rounding, changes a figure by at most 5 %.
const MAX_REACH: f64 = 0.06;

/// Maximum number of figures that are looked up per text.
const MAX_FIGURES: usize = 300;

/// Maximum number of equal source figures among which the best match for a figure is selected.
const MAX_CANDIDATES: usize = 100;

/// Figures of the source documents, sorted by value.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceFigures<'a> {
    figures: Vec<Entry<'a>>,
}

/// A figure in a source document, with its context.
#[derive(Debug, Clone)]
struct Entry<'a> {
    number: FigureNumber,
    source: &'a str,
    /// Context of the figure: its line, or its row and column in a table.
    place: String,
}

/// A figure of a move that was found in a source document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroundedFigure {
    /// The figure as written in the move.
    pub figure: String,
    /// Title of the source document.
    pub source: String,
    /// Context of the figure in the source document: its line, or its row and column in a table.
    pub place: String,
    /// Whether the contexts of the figure in the move and in the source have words in common. If not, the numbers may
    /// be equal by chance.
    pub alike: bool,
}

impl<'a> SourceFigures<'a> {
    /// Collects the figures of all gathered documents.
    pub(crate) fn in_sources(gathered: &'a GatheredData) -> SourceFigures<'a> {
        SourceFigures::in_texts(
            gathered.documents().map(|one| (one.title.as_str(), one.text.as_str())),
        )
    }

    /// Collects the figures of several texts, given as pairs of source name and text.
    pub(crate) fn in_texts(
        sources: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> SourceFigures<'a> {
        let mut figures = Vec::new();
        for (source, text) in sources {
            for (text, place) in contexts(source, text) {
                let place = shorten(&one_line(&place), 160);
                let entry = |number| Entry { number, source, place: place.clone() };
                figures.extend(numbers(&text).into_iter().map(entry));
            }
        }
        figures.retain(|entry: &Entry<'_>| entry.number.value.is_finite());
        figures.sort_by(|one, other| one.number.value.total_cmp(&other.number.value));
        SourceFigures { figures }
    }

    /// Returns the source figures that equal `number`, exactly or after rounding.
    fn near(&self, number: &FigureNumber) -> Vec<&Entry<'a>> {
        let (low, high) = (number.value * (1.0 - MAX_REACH), number.value * (1.0 + MAX_REACH));
        let (low, high) = (low.min(high), low.max(high));
        let from = self.figures.partition_point(|entry| entry.number.value < low);
        let near = self.figures[from..].iter().take_while(|entry| entry.number.value <= high);
        let same = |entry: &&Entry<'_>| {
            entry.number.kind == number.kind && is_near(entry.number.value, number.value)
        };
        near.filter(same).take(MAX_CANDIDATES).collect()
    }

    /// Looks up the figures of a text in the sources. Returns the figures that were found, exactly or rounded, and the
    /// figures that were not found. Each figure is returned once.
    pub(crate) fn look_up(&self, text: &str) -> (Vec<GroundedFigure>, Vec<String>) {
        let (mut grounded, mut missing) = (Vec::<GroundedFigure>::new(), Vec::<String>::new());
        let mut seen = HashSet::new();
        let mut has_more = false;
        for sentence in text.split('\n').flat_map(|line| line.split(". ")) {
            let about = words(sentence);
            for number in numbers(sentence) {
                if seen.contains(&number.text) {
                    continue;
                }
                if seen.len() == MAX_FIGURES {
                    has_more = true;
                    continue;
                }
                seen.insert(number.text.clone());
                // Choose the candidate whose context shares the most words with the sentence; of several, the first.
                let likeness = |entry: &Entry<'_>| words(&entry.place).intersection(&about).count();
                let near = self.near(&number).into_iter();
                let near = near.map(|entry| (likeness(entry), entry));
                match near.rev().max_by_key(|(likeness, _)| *likeness) {
                    Some((likeness, Entry { source, place, .. })) => {
                        grounded.push(GroundedFigure {
                            figure: number.text,
                            source: (*source).to_owned(),
                            place: place.clone(),
                            alike: likeness > 0,
                        })
                    }
                    None => missing.push(number.text),
                }
            }
        }
        if has_more {
            missing.push(format!("figures after the first {MAX_FIGURES} (not checked)"));
        }
        (grounded, missing)
    }
}

/// Splits a source document into pairs of a text and its context: each table cell with its row and column, each JSON
/// value with its path, and each other line with the line itself.
fn contexts(source: &str, text: &str) -> Vec<(String, String)> {
    let ending = source.rsplit('.').next().unwrap_or_default().to_lowercase();
    if ending == "json"
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        let mut leaves = Vec::new();
        flatten("", &value, &mut leaves);
        return leaves;
    }
    let separator = match ending.as_str() {
        "csv" => Some(','),
        "tsv" => Some('\t'),
        _ => None,
    };
    let mut headers: Vec<&str> = Vec::new();
    let mut contexts = Vec::new();
    for line in text.lines() {
        let cells = match separator {
            Some(separator) => {
                line.split(separator).map(|cell| cell.trim().trim_matches('"')).collect()
            }
            None => cells(line),
        };
        if cells.is_empty() {
            headers.clear();
        } else if headers.is_empty() {
            headers = cells.clone();
        }
        match cells.split_first() {
            None => contexts.push((line.to_owned(), line.to_owned())),
            Some((row, values)) => {
                for (index, value) in values.iter().enumerate() {
                    let head = headers.get(index + 1).copied().unwrap_or_default();
                    let place = format!("{row}, {head}: {value}");
                    contexts.push((with_unit(value, &[head, row]), place));
                }
            }
        }
    }
    contexts
}

/// Appends the unit in the header of the column or row to a value that has no unit.
fn with_unit(value: &str, headers: &[&str]) -> String {
    let is_bare = value.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | ' '));
    let units = ["%", "percent", "million", "billion", "thousand", "USD", "EUR", "GBP", "$", "€"];
    let head = headers.iter().find_map(|head| {
        let lower = head.to_lowercase();
        units.into_iter().find(|unit| lower.contains(&unit.to_lowercase()))
    });
    match head {
        Some(unit) if is_bare && !value.trim().is_empty() => format!("{value} {unit}"),
        _ => value.to_owned(),
    }
}

/// Collects the values of a JSON document with their paths.
fn flatten(path: &str, value: &Value, into: &mut Vec<(String, String)>) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
    match value {
        Value::Object(all) => all.iter().for_each(|(name, one)| flatten(&below(name), one, into)),
        Value::Array(all) => all.iter().for_each(|one| flatten(path, one, into)),
        Value::Null => {}
        leaf => {
            let text = leaf.as_str().map_or_else(|| leaf.to_string(), str::to_owned);
            into.push((with_unit(&text, &[path]), format!("{path}: {text}")));
        }
    }
}

/// Cells of a Markdown table row; empty for any other line.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map(|inner| inner.split('|').map(str::trim).collect()).unwrap_or_default()
}

/// Returns the words of a text that describe its numbers. Short words, units and common words are left out.
fn words(text: &str) -> HashSet<String> {
    // Units and common words do not describe what a number is about.
    const UNITS: &str = "billion million thousand trillion percent percentage points dollars \
        computed that this with from into over than then have been were will would their year \
        years quarter company about more less";
    let words = text.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
    words
        .filter(|word| word.chars().count() >= 4 && !UNITS.split(' ').any(|unit| unit == word))
        .collect()
}

/// Whether the figure `stated` in a text equals the figure `known` from a source, exactly or after rounding.
fn is_near(known: f64, stated: f64) -> bool {
    if known == stated {
        return true;
    }
    let size = known.abs().max(stated.abs());
    if (known - stated).abs() / size <= MAX_DIFFERENCE {
        return true;
    }
    // Compare after rounding to two, three or four digits, if the stated figure has no more digits than that.
    (2..=4).any(|digits| {
        rounded(known, digits) == rounded(stated, digits) && rounded(stated, digits) == stated
    })
}

fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let power = digits - 1 - value.abs().log10().floor() as i32;
    let factor = 10f64.powi(power);
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        numbers(text).into_iter().map(|number| number.text).collect()
    }

    #[test]
    fn figures_with_units_are_recognized() {
        assert_eq!(
            texts("Revenue grew 25 % to $1.3 billion, or 1,300 million; EPS was 0.65 USD."),
            ["25 %", "$1.3 billion", "1,300 million", "0.65 USD"]
        );
        assert_eq!(
            texts("margins of 12.5 percent and 3 percentage points"),
            ["12.5 percent", "3 percentage points"]
        );
        // Other notations of numbers and units.
        assert_eq!(
            texts(
                "４０ ％, 41-45 %, 42 %: yes, $43/share, _45 %_, $53M/$54M, 480 basis points, 47 pct, 52x, 5.5e9 USD"
            ),
            [
                "40 %",
                "45 %",
                "42 %",
                "$43",
                "45 %",
                "$53M",
                "$54M",
                "480 basis points",
                "47 pct",
                "52x",
                "5.5e9 USD"
            ]
        );
        assert_eq!(texts("1.000.000 EUR and 5000 people"), ["1.000.000 EUR", "5000"]);
        // Years, small counts, dates, numbers of findings and versions are ignored.
        assert_eq!(
            texts(
                "In 2024, F1.2 and F2.10 name 3 rivals on 2022-09-30; see m12, Q3, v1.2.3 and 24/7."
            ),
            [] as [String; 0]
        );
    }

    #[test]
    fn figures_are_found_in_sources_exactly_or_rounded() {
        let known = SourceFigures::in_texts([
            ("sheet", "Revenue 1.30 billion USD, growth 24.8 %\ncash 19,532 million, debt 7.0 %"),
            (
                "table",
                "| measure | 2021 | 2018 |\n| --- | --- | --- |\n| operating cash flow | 11.5 % | 2.10 billion |",
            ),
        ]);
        let found = |text: &str| {
            let [found] = &known.look_up(text).0[..] else { panic!("expected exactly one figure") };
            format!("{} {}: {} ({})", found.figure, found.source, found.place, found.alike)
        };
        assert_eq!(
            found("Growth was 25 %, yes, 25 %."),
            "25 % sheet: Revenue 1.30 billion USD, growth 24.8 % (true)"
        );
        // The same number occurs in a source, but in another context.
        assert_eq!(
            found("Cut inventory by 2.1 billion."),
            "2.1 billion table: operating cash flow, 2018: 2.10 billion (false)"
        );
        // The context of CSV cells is their column, that of JSON values their path.
        let known = SourceFigures::in_texts([
            ("figs.csv", "year,gross margin in %,revenue in USD million\n2021,25.3,53823"),
            ("more.json", r#"{"shops": {"rent in EUR": 1200, "share": "7.5 %"}}"#),
        ]);
        let result = |text: &str| {
            let (found, missing) = known.look_up(text);
            (found.iter().map(|one| one.alike).collect::<Vec<_>>(), missing.len())
        };
        assert_eq!(
            result("A gross margin of 25.3 % and revenue of $53.8 billion"),
            (vec![true, true], 0)
        );
        assert_eq!(
            result("US$9 million; a rent of 1,200 EUR for shops, a share of 7.5 %"),
            (vec![true, true], 1)
        );
        let known = SourceFigures::in_texts([("table", "Hire 5000 people")]);
        let missing = |text: &str| known.look_up(text).1;
        assert_eq!(missing("Hire 4000 people in 2026, in 12 stores"), ["4000"]);
        let known = SourceFigures::in_texts([(
            "sheet",
            "Revenue 1.30 billion USD, growth 24.8 %\ncash 19,532 million, debt 7.0 %",
        )]);
        let missing = |text: &str| known.look_up(text).1;
        assert_eq!(missing("Sales of $1,300 million grew by 25 %"), [] as [String; 0]);
        assert_eq!(missing("Cash of $19.5 billion, or 20 billion dollars"), [] as [String; 0]);
        assert_eq!(missing("A share of 40 % and $2 billion, again 40 %"), ["40 %", "$2 billion"]);
        // A percentage does not match a sum of money.
        assert_eq!(missing("$24.8"), ["$24.8"]);
    }
}
