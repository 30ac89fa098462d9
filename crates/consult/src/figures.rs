//! Figures in what somebody wrote, and whether they stand in any source.

use std::sync::LazyLock;

use assize_types::text::{one_line, shorten};
use regex::Regex;
use serde::{Deserialize, Serialize};

/// How far two figures may be apart and still be one, rounded differently.
const NEAR: f64 = 0.006;

/// A number with what it counts: money and percent are told apart, and millions are counted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    /// As it stands in the text.
    text: String,
    value: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Percent,
    /// Written with a scale, a currency or a fraction: somebody measured it.
    Amount,
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    // The pattern is ours and does not depend on anything: a test compiles it.
    #[expect(clippy::expect_used, reason = "a constant pattern")]
    Regex::new(
        r"(?ix)
        (?P<currency> [$€£¥] \s* | \b(?:USD|EUR|GBP)\s+ )?
        (?P<number> \d{1,3}(?:,\d{3})+(?:\.\d+)? | \d+(?:\.\d+)? )
        (?P<scale> \s*(?:trillion|billion|million|thousand|bn\b|mn\b|tn\b|[kmbt]\b) )?
        (?P<percent> \s*(?:%|percent\b|per\ cent\b|percentage\ points?\b) )?
        (?P<after> \s*(?:USD|EUR|GBP|dollars|euros)\b )?
        ",
    )
    .expect("a valid pattern")
});

/// The figures in a text that somebody must have from somewhere: percentages, sums of money, and what is
/// written with a scale or a fraction. Years, counts of a few and numbers of findings are none.
pub(crate) fn numbers(text: &str) -> Vec<Number> {
    let mut found = Vec::new();
    for captures in NUMBER.captures_iter(text) {
        let whole = captures.get(0).map_or("", |whole| whole.as_str());
        let start = captures.get(0).map_or(0, |whole| whole.start());
        if is_part_of_more(text, start, start + whole.len()) {
            continue;
        }
        let Ok(plain) = captures["number"].replace(',', "").parse::<f64>() else { continue };
        let scale = captures.name("scale").map(|scale| scale.as_str().trim().to_lowercase());
        let factor = match scale.as_deref() {
            Some("trillion" | "tn" | "t") => 1e12,
            Some("billion" | "bn" | "b") => 1e9,
            Some("million" | "mn" | "m") => 1e6,
            Some("thousand" | "k") => 1e3,
            _ => 1.0,
        };
        let money = captures.name("currency").is_some() || captures.name("after").is_some();
        let fraction = captures["number"].contains('.') || captures["number"].contains(',');
        let kind = match captures.name("percent") {
            Some(_) => Kind::Percent,
            None if money || scale.is_some() || fraction => Kind::Amount,
            None => continue,
        };
        found.push(Number { text: whole.trim().to_owned(), value: plain * factor, kind });
    }
    found
}

/// Whether it is part of a word or of a longer thing, such as a date, a version or the name of a finding.
fn is_part_of_more(text: &str, start: usize, end: usize) -> bool {
    let mut before = text[..start].chars().rev();
    let (one_before, two_before) = (before.next(), before.next());
    let mut after = text[end..].chars();
    let (one_after, two_after) = (after.next(), after.next());
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let joined =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '/' | ':'));
    let dotted = one_before == Some('.') || (one_after == Some('.') && digit(two_after));
    let dashed = (one_before == Some('-') && digit(two_before))
        || (one_after == Some('-') && digit(two_after));
    joined(one_before) || joined(one_after) || dotted || dashed
}

/// What figures there are in the sources.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known<'a> {
    /// Each with the name of its source and the line that it stands in.
    figures: Vec<(Number, &'a str, &'a str)>,
}

/// A figure, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grounded {
    /// As somebody wrote it.
    pub figure: String,
    /// The name of the source.
    pub source: String,
    /// The line there.
    pub line: String,
}

impl<'a> Known<'a> {
    /// The figures in some sources, by name and text; those that weigh most first.
    pub(crate) fn in_sources(sources: impl IntoIterator<Item = (&'a str, &'a str)>) -> Known<'a> {
        let mut figures = Vec::new();
        for (name, text) in sources {
            for line in text.lines() {
                figures.extend(numbers(line).into_iter().map(|number| (number, name, line)));
            }
        }
        Known { figures }
    }

    /// Where the figures of a text stand, as they are or rounded, and those that stand nowhere; each once.
    pub(crate) fn look_up(&self, text: &str) -> (Vec<Grounded>, Vec<String>) {
        let (mut grounded, mut missing) = (Vec::<Grounded>::new(), Vec::<String>::new());
        for number in numbers(text) {
            let seen = missing.contains(&number.text)
                || grounded.iter().any(|other| other.figure == number.text);
            if seen {
                continue;
            }
            let same = |known: &&(Number, &str, &str)| {
                known.0.kind == number.kind && is_near(known.0.value, number.value)
            };
            match self.figures.iter().find(same) {
                Some((_, source, line)) => grounded.push(Grounded {
                    figure: number.text,
                    source: (*source).to_owned(),
                    line: shorten(&one_line(line), 160),
                }),
                None => missing.push(number.text),
            }
        }
        (grounded, missing)
    }
}

/// Equal, or one is the other rounded to fewer digits.
fn is_near(known: f64, stated: f64) -> bool {
    if known == stated {
        return true;
    }
    let size = known.abs().max(stated.abs());
    if (known - stated).abs() / size <= NEAR {
        return true;
    }
    // To as many digits as were stated, two at the least.
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
    fn figures_are_what_somebody_measured() {
        assert_eq!(
            texts("Revenue grew 25 % to $1.3 billion, or 1,300 million; EPS was 0.65 USD."),
            ["25 %", "$1.3 billion", "1,300 million", "0.65 USD"]
        );
        assert_eq!(
            texts("margins of 12.5 percent and 3 percentage points"),
            ["12.5 percent", "3 percentage points"]
        );
        // Years, counts, dates, names of findings and versions are none.
        assert_eq!(
            texts(
                "In 2024, F1.2 and F2.10 name 3 rivals on 2022-09-30; see m12, Q3, v1.2.3 and 24/7."
            ),
            [] as [String; 0]
        );
    }

    #[test]
    fn what_stands_in_a_source_is_supported_also_when_it_is_rounded() {
        let known = Known::in_sources([
            ("sheet", "Revenue 1.30 billion USD, growth 24.8 %\ncash 19,532 million, debt 7.0 %"),
            ("F1", "Growth of 24.8 %"),
        ]);
        let missing = |text: &str| known.look_up(text).1;
        let [growth] = &known.look_up("It grew 25 %, yes, 25 %.").0[..] else {
            panic!("one figure")
        };
        assert_eq!((growth.figure.as_str(), growth.source.as_str()), ("25 %", "sheet"));
        assert_eq!(growth.line, "Revenue 1.30 billion USD, growth 24.8 %");
        assert_eq!(missing("Sales of $1,300 million grew by 25 %"), [] as [String; 0]);
        assert_eq!(missing("Cash of $19.5 billion, or 20 billion dollars"), [] as [String; 0]);
        assert_eq!(missing("A share of 40 % and $2 billion, again 40 %"), ["40 %", "$2 billion"]);
        // A percentage is no sum of money.
        assert_eq!(missing("$24.8"), ["$24.8"]);
    }
}
