//! EDGAR's list of tickers with their companies.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::name;
use crate::ticker::Ticker;

/// Minimum similarity of a suggested ticker to the unknown ticker, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// Maximum number of tickers suggested for an unknown ticker.
const MAX_SUGGESTIONS: usize = 5;

/// Companies by ticker.
#[derive(Debug, Clone)]
pub(crate) struct Tickers(BTreeMap<String, TickerEntry>);

/// A company in the list of tickers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TickerEntry {
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
    /// Parses EDGAR's list of tickers, a JSON object with numbers as keys.
    pub(crate) fn read(text: &str) -> Result<Tickers, serde_json::Error> {
        let rows: BTreeMap<String, Value> = serde_json::from_str(text)?;
        // Skip invalid rows of the list.
        let rows = rows.into_values().filter_map(|row| serde_json::from_value::<Row>(row).ok());
        let named =
            rows.map(|row| (row.ticker, TickerEntry { cik: row.cik_str, title: name(&row.title) }));
        Ok(Tickers(named.collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the company of a ticker. EDGAR writes share classes with a hyphen (`BRK-B`), other sources with a dot.
    pub(crate) fn find(&self, ticker: &Ticker) -> Option<&TickerEntry> {
        self.0.get(ticker.as_str()).or_else(|| self.0.get(&ticker.as_str().replace('.', "-")))
    }

    /// Returns similar tickers with the names of their companies, the most similar first.
    pub(crate) fn suggestions(&self, ticker: &Ticker) -> Vec<String> {
        let wanted = ticker.as_str();
        let mut near: Vec<(f64, &String, &TickerEntry)> = self
            .0
            .iter()
            .map(|(other, listed)| {
                let by_name =
                    listed.title.to_uppercase().split([' ', ',']).any(|word| word == wanted);
                let similarity = strsim::normalized_damerau_levenshtein(wanted, other);
                (if by_name { similarity.max(0.9) } else { similarity }, other, listed)
            })
            .filter(|(similarity, ..)| *similarity >= MIN_SIMILARITY)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        near.into_iter()
            .take(MAX_SUGGESTIONS)
            .map(|(_, other, listed)| format!("{other} ({})", listed.title))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ticker_is_found_and_unknown_ticker_gets_suggestions() {
        let list = r#"{"0": {"cik_str": 1318605, "ticker": "TSLA", "title": "Tesla, Inc."},
            "1": {"cik_str": 1045810, "ticker": "NVDA", "title": "NVIDIA CORP"},
            "2": {"cik_str": 1067983, "ticker": "BRK-B", "title": "BERKSHIRE HATHAWAY INC"}}"#;
        let tickers = Tickers::read(list).unwrap();
        let ticker = |text: &str| text.parse::<Ticker>().unwrap();
        assert_eq!(tickers.find(&ticker("tsla")).unwrap().cik, 1_318_605);
        assert_eq!(tickers.find(&ticker("BRK.B")).unwrap().title, "BERKSHIRE HATHAWAY INC");
        assert_eq!(tickers.find(&ticker("TLSA")), None);
        assert_eq!(tickers.suggestions(&ticker("TLSA")), ["TSLA (Tesla, Inc.)"]);
        assert_eq!(tickers.suggestions(&ticker("NVIDIA"))[0], "NVDA (NVIDIA CORP)");
        assert_eq!(tickers.suggestions(&ticker("QQQQQQ")), [] as [String; 0]);
    }
}
