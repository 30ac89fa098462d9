//! Recent filings of a company, from EDGAR's `submissions`.

use jiff::civil::Date;
use serde::Deserialize;

/// Maximum number of filings that are listed.
const MAX_FILINGS: usize = 40;

/// EDGAR's `submissions`: company details and the list of filings.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EdgarSubmissions {
    #[serde(rename = "sicDescription", default)]
    pub(crate) industry: String,
    #[serde(rename = "fiscalYearEnd", default)]
    pub(crate) fiscal_year_end: Option<String>,
    #[serde(default)]
    pub(crate) exchanges: Vec<Option<String>>,
    #[serde(default)]
    filings: Filings,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Filings {
    #[serde(default)]
    recent: Columns,
}

/// The list of filings in the SEC's format: one list for each column, in which item `i` belongs to filing `i`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Columns {
    accession_number: Vec<String>,
    filing_date: Vec<String>,
    report_date: Vec<String>,
    form: Vec<String>,
    items: Vec<String>,
}

/// One filing of a company with the SEC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filing {
    pub(crate) filed: Date,
    pub(crate) form: String,
    pub(crate) accession: String,
    /// Description of the filing: the kind of form, the period of the report and the subjects of the filing.
    pub(crate) about: String,
}

impl EdgarSubmissions {
    /// Returns the recent filings, the latest first. Filings in which insiders report their own shares or trades are
    /// left out; the second value is the number of filings that were left out.
    pub(crate) fn recent(&self) -> (Vec<Filing>, usize) {
        let Columns { accession_number, filing_date, report_date, form, items } =
            &self.filings.recent;
        let empty = String::new();
        let mut filings = Vec::new();
        let mut own_shares = 0;
        for (index, accession) in accession_number.iter().enumerate() {
            let of = |column: &'_ Vec<String>| column.get(index).unwrap_or(&empty).clone();
            let Ok(filed) = of(filing_date).parse::<Date>() else { continue };
            let form = of(form);
            if matches!(form.as_str(), "3" | "3/A" | "4" | "4/A" | "5" | "5/A" | "144" | "144/A") {
                own_shares += 1;
                continue;
            }
            let period = of(report_date);
            let about = describe(&form, &of(items), &period);
            filings.push(Filing { filed, form, accession: accession.clone(), about });
        }
        filings.sort_by(|a, b| (b.filed, &b.accession).cmp(&(a.filed, &a.accession)));
        filings.truncate(MAX_FILINGS);
        (filings, own_shares)
    }
}

fn describe(form: &str, items: &str, period: &str) -> String {
    let plain = form.trim_end_matches("/A");
    let what = named(plain).unwrap_or("other filing");
    let amended = if form.ends_with("/A") { ", amended" } else { "" };
    let period = match plain {
        "10-K" | "10-Q" | "20-F" | "40-F" if !period.is_empty() => {
            format!(", for the period to {period}")
        }
        _ => String::new(),
    };
    let items: Vec<&str> = items.split(',').filter_map(|item| named(item.trim())).collect();
    let items = if items.is_empty() { String::new() } else { format!(": {}", items.join("; ")) };
    format!("{what}{amended}{period}{items}")
}

/// Description of a form such as `10-K`, or of an item of a current report such as `2.02`.
fn named(name: &str) -> Option<&'static str> {
    let mut lines = include_str!("../../../data/filings.txt").lines();
    lines.find_map(|line| {
        let (names, words) = line.split_once(" | ")?;
        names.split(", ").any(|one| one == name).then_some(words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_filings_have_descriptions_and_are_sorted_latest_first() {
        let submissions: EdgarSubmissions = serde_json::from_value(serde_json::json!({
            "name": "Crust Inc.",
            "filings": {"recent": {
                "accessionNumber": ["a-1", "a-2", "a-3", "a-4"],
                "filingDate": ["2022-10-19", "2022-11-08", "2022-10-24", "soon"],
                "reportDate": ["2022-10-19", "2022-11-07", "2022-09-30", ""],
                "form": ["8-K", "4", "10-Q/A", "10-K"],
                "items": ["2.02,9.01,5.02", "", "", ""],
            }},
        }))
        .unwrap();
        let (filings, own_shares) = submissions.recent();
        let described: Vec<String> =
            filings.iter().map(|one| format!("{} {} {}", one.filed, one.form, one.about)).collect();
        assert_eq!(
            described,
            [
                "2022-10-24 10-Q/A quarterly report, amended, for the period to 2022-09-30",
                "2022-10-19 8-K current report: results of operations; directors or officers came or left",
            ]
        );
        assert_eq!(own_shares, 1);
    }
}
