//! Tickers: names that go into prompts, file names and addresses, so nothing but a ticker is one.

use assize_types::{Failure, FailureKind};
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;

/// The name under which a company's shares are traded, such as `NVDA` or `BRK.B`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String")]
pub struct Ticker(String);

assize_types::serde_as_text!(Ticker);

/// Text that is no ticker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no ticker: one to ten letters and digits, with at most one dot or hyphen between them, \
     such as NVDA or BRK.B"
)]
pub struct NoTicker(String);

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
    type Err = NoTicker;

    fn from_str(text: &str) -> Result<Ticker, NoTicker> {
        let upper = text.trim().to_ascii_uppercase();
        let parts: Vec<&str> = upper.split(['.', '-']).collect();
        let plain = |part: &&str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        };
        let sound = (1..=10).contains(&upper.len()) && parts.len() <= 2 && parts.iter().all(plain);
        match sound {
            true => Ok(Ticker(upper)),
            false => Err(NoTicker(assize_types::text::shorten(text, 40))),
        }
    }
}

impl From<NoTicker> for Failure {
    fn from(error: NoTicker) -> Failure {
        let hint = "a company without a ticker goes by its name: `--name \"Larkspur Kettles\"` \
                    (`name` in the API)";
        Failure::from_error(FailureKind::Usage, &error).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tickers_are_tickers() {
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
            // What is around it does not count.
            if wrong.trim() != "NVDA" {
                assert!(wrong.parse::<Ticker>().is_err(), "{wrong:?}");
            }
        }
    }
}
