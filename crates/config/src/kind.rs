//! Kinds of values that settings take, and how values are checked.

use std::fmt;

use assize_types::Failure;
use url::Url;

use crate::{Address, Wanted};

/// What values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Text,
    Choice(&'static [&'static str]),
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A number within bounds.
    Decimal(f64, f64),
    /// Bytes within bounds, with a unit: `256M`.
    Size(u64, u64),
    Url,
    /// The name of an environment variable.
    Variable,
    /// A backend of sandboxes, or a floor: `jail`, `at-least=docker`.
    Isolation,
    /// The NATS servers of a cluster.
    Servers,
}

/// The bytes that are meant by `512K`, `256M` or `1G`, with or without a `B` after it.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.strip_suffix(['B', 'b']).unwrap_or(text);
    let split = text.len().checked_sub(1).filter(|split| text.is_char_boundary(*split))?;
    let (number, unit) = text.split_at(split);
    let shift = match unit {
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Bytes as people read them, in the unit that has no rest.
pub fn show_size(bytes: u64) -> String {
    let unit = [(30, "G"), (20, "M"), (10, "K")]
        .into_iter()
        .find(|(shift, _)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text => f.write_str("a text"),
            Kind::Choice(choices) => write!(f, "one of `{}`", choices.join("`, `")),
            Kind::Whole(least, u64::MAX) => {
                write!(f, "a whole number of at least {least}")
            }
            Kind::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Kind::Decimal(least, most) => write!(f, "a number from {least} to {most}"),
            Kind::Size(least, most) => {
                write!(f, "a size from {} to {}", show_size(*least), show_size(*most))
            }
            Kind::Url => {
                f.write_str("an address such as `https://host/path`, without a password or a query")
            }
            Kind::Variable => f.write_str("the name of an environment variable"),
            Kind::Isolation => f.write_str("jail, docker, microvm, at-least=NAME or auto"),
            Kind::Servers => f.write_str("servers such as `nats://one,two:4223,three`"),
        }
    }
}

impl Kind {
    /// What is wrong with a value, without repeating what should not be shown.
    pub fn complaint(&self, value: &str) -> Option<String> {
        if looks_like_a_key(value) {
            return Some("holds a key, and is no place for one".to_owned());
        }
        if value.chars().any(char::is_control) {
            return Some("has control characters in it".to_owned());
        }
        if self.accepts(value) {
            return None;
        }
        // A wrong address may have a password in it.
        Some(match self {
            Kind::Url | Kind::Variable | Kind::Servers => format!("wants {self}"),
            _ => format!("wants {self}, not `{value}`"),
        })
    }

    /// The failure of a value, with the nearest valid one as a hint.
    pub fn did_you_mean(&self, value: &str, failure: Failure) -> Failure {
        let Kind::Choice(choices) = self else { return failure };
        match nearest(value, choices.iter().copied()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure,
        }
    }

    /// How much a value means, where it means an amount.
    pub fn amount(&self, value: &str) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "only compared")]
            Kind::Size(..) => parse_size(value).map(|bytes| bytes as f64),
            Kind::Whole(..) | Kind::Decimal(..) => value.parse().ok(),
            _ => None,
        }
    }

    /// Whether a value, written as text, is of this kind.
    fn accepts(&self, value: &str) -> bool {
        match self {
            Kind::Text => !value.is_empty(),
            Kind::Choice(choices) => choices.contains(&value),
            Kind::Whole(least, most) => {
                value.parse::<u64>().is_ok_and(|number| (*least..=*most).contains(&number))
            }
            Kind::Decimal(least, most) => {
                value.parse::<f64>().is_ok_and(|number| (*least..=*most).contains(&number))
            }
            Kind::Size(least, most) => {
                parse_size(value).is_some_and(|bytes| (*least..=*most).contains(&bytes))
            }
            Kind::Url => {
                let rest = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
                let bare = |rest: &str| {
                    !rest.contains(['?', '#', '@']) && !rest.contains(char::is_whitespace)
                };
                let there = |rest: &str| !rest.is_empty() && !rest.starts_with('/') && bare(rest);
                rest.is_some_and(there)
                    && Url::parse(value).is_ok_and(|url| url.host_str().is_some())
            }
            Kind::Variable => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
                value.chars().all(plain)
                    && value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            }
            Kind::Isolation => value.parse::<Wanted>().is_ok(),
            Kind::Servers => value.parse::<Address>().is_ok(),
        }
    }
}

/// The beginnings of the keys that our providers and others give out.
pub fn looks_like_a_key(value: &str) -> bool {
    const STARTS: [&str; 5] = ["sk-", "gsk_", "AIza", "ghp_", "xai-"];
    value.len() >= 16 && STARTS.iter().any(|start| value.starts_with(start))
}

/// What programs may ask for unless the settings say otherwise: computing, drawing and reading files,
/// and nothing that needs a network.
pub const ALLOWED_PACKAGES: &str = "numpy pandas matplotlib scipy sympy scikit-learn statsmodels seaborn networkx \
    pillow mpmath polars pyarrow openpyxl tabulate python-dateutil pytz pyyaml lxml beautifulsoup4 regex \
    six attrs more-itertools sortedcontainers markupsafe jinja2 pydantic shapely tqdm rich";

/// The fields of a price, in dollars for a million tokens: `[prices."my-model"]`.
pub const PRICE_FIELDS: [&str; 4] = ["input", "cached_input", "cache_write", "output"];

/// The known key that is nearest to a wrong one, if any is near.
pub fn nearest<'k>(wrong: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Nobody mistypes that much, and the comparison would take its time.
    if wrong.len() > 80 {
        return None;
    }
    known
        .into_iter()
        .map(|key| (strsim::damerau_levenshtein(wrong, key), key))
        .min()
        .filter(|(distance, key)| *distance <= 2.max(key.len() / 3))
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        let sizes = ["256M", "1GB", "64k", "0K"].map(parse_size);
        assert_eq!(sizes, [Some(256 << 20), Some(1 << 30), Some(64 << 10), Some(0)]);
        for wrong in ["", "M", "12", "1.5G", "-1M", "1T", "99999999999999G", "ä", "1é"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert_eq!(
            [256 << 20, 1 << 30, 1500, 65 << 10].map(show_size),
            ["256M", "1G", "1500 bytes", "65K"]
        );
    }

    #[test]
    fn a_near_miss_is_recognised() {
        let keys = ["anthropic.model", "anthropic.base_url", "model"];
        assert_eq!(nearest("antropic.modle", keys), Some("anthropic.model"));
        assert_eq!(nearest("modle", keys), Some("model"));
        assert_eq!(nearest("colour", keys), None);
    }
}
