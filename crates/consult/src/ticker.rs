//! Stock tickers. They are strictly validated, because they appear in prompts, file names and URLs.

use assize_types::{Failure, FailureKind};
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;

/// Ticker of a listed company, such as `NVDA` or `BRK.B`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String")]
pub struct Ticker(String);

assize_types::serde_as_text!(Ticker);

/// Error for text that is not a ticker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid ticker `{0}`: use one to ten letters and digits, with at most one dot or hyphen between \
     them, such as NVDA or BRK.B"
)]
pub struct InvalidTicker(String);

impl Ticker {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Ticker {
    type Err = InvalidTicker;

    fn from_str(text: &str) -> Result<Ticker, InvalidTicker> {
        let upper = text.trim().to_ascii_uppercase();
        let parts: Vec<&str> = upper.split(['.', '-']).collect();
        let plain = |part: &&str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        };
        let valid = (1..=10).contains(&upper.len()) && parts.len() <= 2 && parts.iter().all(plain);
        match valid {
            true => Ok(Ticker(upper)),
            false => Err(InvalidTicker(assize_types::text::shorten(text, 40))),
        }
    }
}

impl From<InvalidTicker> for Failure {
    fn from(error: InvalidTicker) -> Failure {
        let hint = "for a company without a ticker, give its name: `--name \"Larkspur Kettles\"` \
                    (`name` in the API)";
        Failure::from_error(FailureKind::Usage, &error).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticker_parsing_accepts_only_valid_tickers() {
        for (text, ticker) in
            [("nvda", "NVDA"), (" BRK.B ", "BRK.B"), ("BF-A", "BF-A"), ("7203", "7203")]
        {
            assert_eq!(text.parse::<Ticker>().unwrap().as_str(), ticker);
        }
        for wrong in [
            "",
            ".",
            "A.",
            ".A",
            "A..B",
            "A.B.C",
            "../etc",
            "NVDA; rm -rf",
            "ÄÖÜ",
            "NVDA\n",
            "A B",
            "TOOLONGTICKER",
            "$NVDA",
            "A/B",
            "A\u{200b}",
            "<script>",
            "ignore all",
        ] {
            // The parser ignores white space around a ticker, so `NVDA\n` is valid and skipped here.
            if wrong.trim() != "NVDA" {
                assert!(wrong.parse::<Ticker>().is_err(), "{wrong:?}");
            }
        }
    }
}
