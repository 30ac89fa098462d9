//! Kinds of values that settings accept, and the validation of values.

use std::fmt;

use assize_types::Failure;
use url::Url;

use crate::{ClusterServers, RequestedIsolation};

/// Kind of value that a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingKind {
    /// Any text that is not empty.
    Text,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// A whole number between a minimum and a maximum.
    Whole(u64, u64),
    /// A number between a minimum and a maximum.
    Decimal(f64, f64),
    /// A number of bytes with a unit, such as `256M`, between a minimum and a maximum in bytes.
    Size(u64, u64),
    /// An HTTP or HTTPS URL.
    Url,
    /// The name of an environment variable.
    Variable,
    /// An isolation backend (`jail`), a minimum backend (`at-least=docker`), or `auto`.
    Isolation,
    /// The NATS servers of a cluster.
    Servers,
}

/// Parses a size such as `512K`, `256M` or `1G`, with an optional `B` at the end, and returns the number of bytes.
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

/// Formats a number of bytes in the largest unit that divides the number without remainder, such as `256M`.
pub fn format_size(bytes: u64) -> String {
    let unit = [(30, "G"), (20, "M"), (10, "K")]
        .into_iter()
        .find(|(shift, _)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

impl fmt::Display for SettingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingKind::Text => f.write_str("text"),
            SettingKind::Choice(choices) => write!(f, "one of `{}`", choices.join("`, `")),
            SettingKind::Whole(least, u64::MAX) => {
                write!(f, "a whole number of at least {least}")
            }
            SettingKind::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            SettingKind::Decimal(least, most) => write!(f, "a number from {least} to {most}"),
            SettingKind::Size(least, most) => {
                write!(f, "a size from {} to {}", format_size(*least), format_size(*most))
            }
            SettingKind::Url => {
                f.write_str("a URL such as `https://host/path`, without a password or a query")
            }
            SettingKind::Variable => f.write_str("the name of an environment variable"),
            SettingKind::Isolation => f.write_str("jail, docker, microvm, at-least=NAME or auto"),
            SettingKind::Servers => f.write_str("servers such as `nats://one,two:4223,three`"),
        }
    }
}

impl SettingKind {
    /// Describes why a value is invalid; `None` if the value is valid. The description continues a sentence that starts
    /// with the key of the setting: "`gateway.retries` must be …". It never contains a secret.
    pub fn validation_error(&self, value: &str) -> Option<String> {
        if looks_like_api_key(value) {
            return Some("must not contain an API key".to_owned());
        }
        if value.chars().any(char::is_control) {
            return Some("contains control characters".to_owned());
        }
        if self.accepts(value) {
            return None;
        }
        // The message does not repeat an invalid address, because the address may contain a password.
        Some(match self {
            SettingKind::Url | SettingKind::Variable | SettingKind::Servers => {
                format!("must be {self}")
            }
            _ => format!("must be {self}, not `{value}`"),
        })
    }

    /// Adds a hint to the failure: the valid name that is most similar to `value`. Adds no hint if no valid name is
    /// similar.
    pub fn did_you_mean(&self, value: &str, failure: Failure) -> Failure {
        let SettingKind::Choice(choices) = self else { return failure };
        match most_similar(value, choices.iter().copied()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure,
        }
    }

    /// Converts a value to a number, so that two values can be compared; `None` if the values of this kind are not
    /// numbers.
    pub fn as_number(&self, value: &str) -> Option<f64> {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "the number is only used to compare two sizes"
            )]
            SettingKind::Size(..) => parse_size(value).map(|bytes| bytes as f64),
            SettingKind::Whole(..) | SettingKind::Decimal(..) => value.parse().ok(),
            _ => None,
        }
    }

    /// Whether `value` is a valid value of this kind.
    fn accepts(&self, value: &str) -> bool {
        match self {
            SettingKind::Text => !value.is_empty(),
            SettingKind::Choice(choices) => choices.contains(&value),
            SettingKind::Whole(least, most) => {
                value.parse::<u64>().is_ok_and(|number| (*least..=*most).contains(&number))
            }
            SettingKind::Decimal(least, most) => {
                value.parse::<f64>().is_ok_and(|number| (*least..=*most).contains(&number))
            }
            SettingKind::Size(least, most) => {
                parse_size(value).is_some_and(|bytes| (*least..=*most).contains(&bytes))
            }
            SettingKind::Url => {
                let rest = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
                let bare = |rest: &str| {
                    !rest.contains(['?', '#', '@']) && !rest.contains(char::is_whitespace)
                };
                let hosted = |rest: &str| !rest.is_empty() && !rest.starts_with('/') && bare(rest);
                rest.is_some_and(hosted)
                    && Url::parse(value).is_ok_and(|url| url.host_str().is_some())
            }
            SettingKind::Variable => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
                value.chars().all(plain)
                    && value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            }
            SettingKind::Isolation => value.parse::<RequestedIsolation>().is_ok(),
            SettingKind::Servers => value.parse::<ClusterServers>().is_ok(),
        }
    }
}

/// Whether a text starts like an API key of a known provider.
pub fn looks_like_api_key(value: &str) -> bool {
    const STARTS: [&str; 5] = ["sk-", "gsk_", "AIza", "ghp_", "xai-"];
    value.len() >= 16 && STARTS.iter().any(|start| value.starts_with(start))
}

/// Python packages that generated programs may use by default. They are for computation, plotting and file formats, and
/// none of them needs a network.
pub const ALLOWED_PACKAGES: &str = "numpy pandas matplotlib scipy sympy scikit-learn statsmodels seaborn networkx \
    pillow mpmath polars pyarrow openpyxl tabulate python-dateutil pytz pyyaml lxml beautifulsoup4 regex \
    six attrs more-itertools sortedcontainers markupsafe jinja2 pydantic shapely tqdm rich";

/// Names of the fields of a price in the table `[prices."my-model"]`. Their values are in dollars per million tokens.
pub const PRICE_FIELDS: [&str; 4] = ["input", "cached_input", "cache_write", "output"];

/// Returns the known name that is most similar to a mistyped name; `None` if no known name is similar enough.
pub fn most_similar<'k>(wrong: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // A text of more than 80 bytes is not a typing mistake, and the comparison would be slow.
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
    fn sizes_are_parsed_and_formatted_with_a_unit() {
        let sizes = ["256M", "1GB", "64k", "0K"].map(parse_size);
        assert_eq!(sizes, [Some(256 << 20), Some(1 << 30), Some(64 << 10), Some(0)]);
        for wrong in ["", "M", "12", "1.5G", "-1M", "1T", "99999999999999G", "ä", "1é"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert_eq!(
            [256 << 20, 1 << 30, 1500, 65 << 10].map(format_size),
            ["256M", "1G", "1500 bytes", "65K"]
        );
    }

    #[test]
    fn most_similar_returns_the_known_key_closest_to_a_mistyped_key() {
        let keys = ["anthropic.model", "anthropic.base_url", "model"];
        assert_eq!(most_similar("antropic.modle", keys), Some("anthropic.model"));
        assert_eq!(most_similar("modle", keys), Some("model"));
        assert_eq!(most_similar("colour", keys), None);
    }
}
