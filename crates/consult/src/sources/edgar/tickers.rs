//! Which company a ticker is: EDGAR's list of all of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::name;
use crate::ticker::Ticker;

/// How alike a ticker must be to be offered instead, from 0 to 1, and how many are.
const ALIKE: f64 = 0.6;
const MOST_NEAR: usize = 5;

/// Tickers and whose they are.
#[derive(Debug, Clone)]
pub(crate) struct Tickers(BTreeMap<String, Listed>);

/// A company that is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) cik: u64,
    pub(crate) title: String,
}

#[derive(Deserialize)]
struct Row {
    cik_str: u64,
    ticker: String,
    #[serde(default)]
    title: String,
}

impl Tickers {
    /// Reads the list, which is an object with numbers for names.
    pub(crate) fn read(text: &str) -> Result<Tickers, serde_json::Error> {
        let rows: BTreeMap<String, Value> = serde_json::from_str(text)?;
        // A row that is none costs nobody but itself.
        let rows = rows.into_values().filter_map(|row| serde_json::from_value::<Row>(row).ok());
        let named =
            rows.map(|row| (row.ticker, Listed { cik: row.cik_str, title: name(&row.title) }));
        Ok(Tickers(named.collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A share of a class is written with a hyphen there, and with a dot by many others.
    pub(crate) fn find(&self, ticker: &Ticker) -> Option<&Listed> {
        self.0.get(ticker.as_str()).or_else(|| self.0.get(&ticker.as_str().replace('.', "-")))
    }

    /// Tickers that may have been meant, the likeliest first, with whose they are.
    pub(crate) fn near(&self, ticker: &Ticker) -> Vec<String> {
        let wanted = ticker.as_str();
        let mut near: Vec<(f64, &String, &Listed)> = self
            .0
            .iter()
            .map(|(other, listed)| {
                let by_name =
                    listed.title.to_uppercase().split([' ', ',']).any(|word| word == wanted);
                let alike = strsim::normalized_damerau_levenshtein(wanted, other);
                (if by_name { alike.max(0.9) } else { alike }, other, listed)
            })
            .filter(|(alike, ..)| *alike >= ALIKE)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        near.into_iter()
            .take(MOST_NEAR)
            .map(|(_, other, listed)| format!("{other} ({})", listed.title))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticker_is_found_or_the_nearest_are_named() {
        let list = r#"{"0": {"cik_str": 1318605, "ticker": "TSLA", "title": "Tesla, Inc."},
            "1": {"cik_str": 1045810, "ticker": "NVDA", "title": "NVIDIA CORP"},
            "2": {"cik_str": 1067983, "ticker": "BRK-B", "title": "BERKSHIRE HATHAWAY INC"}}"#;
        let tickers = Tickers::read(list).unwrap();
        let ticker = |text: &str| text.parse::<Ticker>().unwrap();
        assert_eq!(tickers.find(&ticker("tsla")).unwrap().cik, 1_318_605);
        assert_eq!(tickers.find(&ticker("BRK.B")).unwrap().title, "BERKSHIRE HATHAWAY INC");
        assert_eq!(tickers.find(&ticker("TLSA")), None);
        assert_eq!(tickers.near(&ticker("TLSA")), ["TSLA (Tesla, Inc.)"]);
        assert_eq!(tickers.near(&ticker("NVIDIA"))[0], "NVDA (NVIDIA CORP)");
        assert_eq!(tickers.near(&ticker("QQQQQQ")), [] as [String; 0]);
    }
}
