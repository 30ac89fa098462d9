//! Tests of the EDGAR client against a fake SEC server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use assize_consult::Ticker;
use assize_consult::sources::edgar::{Edgar, EdgarCompany, EdgarError};
use assize_consult::sources::{Figure, FigurePeriod, FigureSource};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// HTTP server that answers each path with a status and a body, and records the requests.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn serve(answers: BTreeMap<&'static str, (u16, String)>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if socket.read(&mut byte).await.unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, body) =
                answers.get(path.as_str()).cloned().unwrap_or((404, "not found".to_owned()));
            seen.lock().unwrap().push(head);
            let answer = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    Server { url, asked }
}

const FACTS: &str = "/api/xbrl/companyfacts/CIK0000000042.json";
const FILINGS: &str = "/submissions/CIK0000000042.json";
const TICKERS: &str = "/files/company_tickers.json";

fn edgar(server: Option<&Server>, folder: &Path) -> Edgar {
    Edgar {
        base_url: server.map(|server| server.url.clone()),
        contact: server.map(|_| "jane@example.org".to_owned()),
        folder: folder.to_owned(),
        today: "2023-03-01".parse().unwrap(),
    }
}

fn crust() -> EdgarCompany {
    EdgarCompany { cik: 42, name: "Crust Inc.".to_owned() }
}

fn flow(start: &str, end: &str, value: f64, filed: &str) -> Value {
    let accession = format!("0000-{}", filed.replace('-', ""));
    json!({"start": start, "end": end, "val": value, "accn": accession, "form": "10-Q", "filed": filed,
        "fy": 2022, "fp": "Q1"})
}

fn day(end: &str, value: f64, filed: &str) -> Value {
    json!({"end": end, "val": value, "accn": format!("0000-{}", filed.replace('-', "")), "form": "10-K",
        "filed": filed})
}

/// Facts of a bakery: two years, the first three quarters of the second year, and cash flows as totals since the
/// start of the year.
fn facts() -> Value {
    let usd = |facts: Vec<Value>| json!({"units": {"USD": facts}});
    json!({
        "cik": 42,
        "entityName": "Crust Inc.",
        "facts": {"dei": {}, "us-gaap": {
            // Concept under which the company filed its revenue in earlier years.
            "SalesRevenueNet": usd(vec![flow("2019-01-01", "2019-12-31", 1.0, "2020-02-01")]),
            "Revenues": usd(vec![
                flow("2021-01-01", "2021-12-31", 1000.0e6, "2022-02-01"),
                flow("2022-01-01", "2022-12-31", 1300.0e6, "2023-02-01"),
                // The revenue of 2021 is restated in the filing of the following year.
                flow("2021-01-01", "2021-12-31", 1040.0e6, "2023-02-01"),
                flow("2022-01-01", "2022-03-31", 300.0e6, "2022-05-01"),
                flow("2022-04-01", "2022-06-30", 310.0e6, "2022-08-01"),
                flow("2022-07-01", "2022-09-30", 320.0e6, "2022-11-01"),
                flow("2022-01-01", "2022-09-30", 930.0e6, "2022-11-01"),
                // A stub period of a few weeks is neither a quarter nor a year.
                flow("2020-12-01", "2020-12-31", 7.0e6, "2021-02-01"),
            ]),
            "CostOfRevenue": usd(vec![flow("2022-01-01", "2022-12-31", 780.0e6, "2023-02-01")]),
            "NetIncomeLoss": usd(vec![
                flow("2021-01-01", "2021-12-31", -10.0e6, "2022-02-01"),
                flow("2022-01-01", "2022-12-31", 65.0e6, "2023-02-01"),
            ]),
            "NetCashProvidedByUsedInOperatingActivities": usd(vec![
                flow("2022-01-01", "2022-03-31", 20.0e6, "2022-05-01"),
                flow("2022-01-01", "2022-06-30", 50.0e6, "2022-08-01"),
                flow("2022-01-01", "2022-09-30", 90.0e6, "2022-11-01"),
                flow("2022-01-01", "2022-12-31", 130.0e6, "2023-02-01"),
            ]),
            "PaymentsToAcquirePropertyPlantAndEquipment": usd(vec![
                flow("2022-01-01", "2022-12-31", 30.0e6, "2023-02-01"),
            ]),
            "Assets": usd(vec![day("2022-12-31", 900.0e6, "2023-02-01")]),
            "Liabilities": usd(vec![day("2022-12-31", 300.0e6, "2023-02-01")]),
            "StockholdersEquity": usd(vec![day("2022-12-31", 600.0e6, "2023-02-01")]),
            // Shares were split three for one between these filings.
            "EarningsPerShareDiluted": {"units": {"USD/shares": [
                flow("2022-01-01", "2022-12-31", 0.65, "2023-02-01"),
                flow("2022-01-01", "2022-03-31", 0.42, "2022-05-01"),
                flow("2022-01-01", "2022-09-30", 0.48, "2022-11-01"),
                flow("2021-07-01", "2021-09-30", 0.62, "2021-11-01"),
                flow("2021-07-01", "2021-09-30", 0.21, "2022-11-01"),
            ]}},
            // This concept includes the part due within a year.
            "LongTermDebt": usd(vec![day("2022-12-31", 100.0e6, "2023-02-01")]),
            "LongTermDebtNoncurrent": usd(vec![day("2022-12-31", 80.0e6, "2023-02-01")]),
            "LongTermDebtCurrent": usd(vec![day("2022-12-31", 20.0e6, "2023-02-01")]),
        }},
    })
}

fn filings() -> Value {
    json!({
        "name": "Crust Inc.", "sicDescription": "Food and Kindred Products", "fiscalYearEnd": "1231",
        "exchanges": ["NYSE"],
        "filings": {"recent": {
            "accessionNumber": ["a-2", "a-1"], "filingDate": ["2023-02-01", "2023-01-10"],
            "reportDate": ["2022-12-31", "2023-01-09"], "form": ["10-K", "8-K"], "items": ["", "5.02"],
        }},
    })
}

fn tickers() -> Value {
    json!({"0": {"cik_str": 42, "ticker": "CRST", "title": "Crust Inc."},
        "1": {"cik_str": 43, "ticker": "CRMB", "title": "Crumb Corp."}})
}

fn value(figures: &[Figure], name: &str, period: &str) -> Option<f64> {
    let found = figures.iter().find(|one| one.name == name && one.period.to_string() == period);
    found.map(|figure| figure.value.round_dp(6).to_string().parse().unwrap())
}

#[tokio::test]
async fn figures_are_computed_from_filed_facts() {
    let answers = BTreeMap::from([
        (FACTS, (200, facts().to_string())),
        (FILINGS, (200, filings().to_string())),
    ]);
    let server = serve(answers).await;
    let folder = tempfile::tempdir().unwrap();
    let gathered = edgar(Some(&server), folder.path()).gather(&crust()).await.unwrap();
    let of = |name: &str, period: &str| value(&gathered.figures, name, period);
    let (year, before) = ("year to 2022-12-31", "year to 2021-12-31");
    assert_eq!(of("revenue", year), Some(1300.0e6));
    // The value in the latest filing is used.
    assert_eq!(of("revenue", before), Some(1040.0e6));
    assert_eq!(of("revenue growth", year), Some(0.25));
    // The fourth quarter is computed from the year; filed quarters are used as they are.
    assert_eq!(of("revenue", "quarter to 2022-12-31"), Some(370.0e6));
    assert_eq!(of("revenue", "quarter to 2022-09-30"), Some(320.0e6));
    // Quarters of cash flows are computed from totals filed since the start of the year.
    assert_eq!(of("operating cash flow", "quarter to 2022-06-30"), Some(30.0e6));
    assert_eq!(of("operating cash flow", "quarter to 2022-12-31"), Some(40.0e6));
    assert_eq!(of("free cash flow", year), Some(100.0e6));
    assert_eq!(of("gross margin", year), Some(0.4));
    assert_eq!(of("net margin", year), Some(0.05));
    assert_eq!(of("net margin", before), Some(-0.009_615));
    // Growth is not computed if the earlier value is a loss.
    assert_eq!(of("net income growth", year), None);
    assert_eq!(of("liabilities to equity", "on 2022-12-31"), Some(0.5));
    assert_eq!(of("earnings per share", year), Some(0.65));
    // Values per share cannot be subtracted, so the fourth quarter is not computed.
    assert_eq!(of("earnings per share", "quarter to 2022-12-31"), None);
    // The value is adjusted to the later share split, which does not count as a restatement.
    assert_eq!(of("earnings per share", "quarter to 2022-03-31"), Some(0.14));
    assert_eq!(of("debt", "on 2022-12-31"), Some(100.0e6));
    assert_eq!(of("debt to equity", "on 2022-12-31"), Some(0.166_667));
    // The stub period is neither a quarter nor a year.
    assert_eq!(of("revenue", "quarter to 2020-12-31"), None);
    assert_eq!(of("revenue", "year to 2020-12-31"), None);
    // Every figure has a date and a source. A restated figure has its earlier value.
    let revenue = gathered.figures.iter().find(|figure| {
        figure.name == "revenue"
            && figure.period == FigurePeriod::Year("2021-12-31".parse().unwrap())
    });
    let revenue = revenue.unwrap();
    assert_eq!(revenue.restated_from, Some(1_000_000_000.into()));
    let FigureSource::Filed { accession, concept, .. } = &revenue.source else {
        panic!("{revenue:?}")
    };
    assert_eq!((accession.as_str(), concept.as_str()), ("0000-20230201", "us-gaap:Revenues"));
    let text = &gathered.financial[0].text;
    assert!(
        text.contains("| revenue | 1.30 billion USD [1] | 1.04 billion USD (restated) [1] |"),
        "{text}"
    );
    assert!(text.contains("| gross margin (computed) | 40.0 % | – |"), "{text}");
    assert!(
        text.contains("[1] 10-Q, filed on 2023-02-01, accession number 0000-20230201"),
        "{text}"
    );
    assert!(
        text.contains(
            "- revenue, year to 2021-12-31: 1.04 billion USD, previously 1.00 billion USD"
        ),
        "{text}"
    );
    assert!(
        gathered.news[0]
            .text
            .contains("| 2023-01-10 | 8-K | current report: directors or officers")
    );
    assert!(
        gathered
            .notes
            .iter()
            .any(|note| note.contains("not found in the filings: operating income"))
    );
    assert!(!gathered.synthetic);
    // Every request contains the contact.
    let asked = server.asked.lock().unwrap();
    assert!(asked.iter().all(|head| head.contains("jane@example.org")), "{asked:?}");
}

/// Returns the document with the figures of a company that has filed these facts.
async fn shown(facts: Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("companyfacts-CIK0000000042.json");
    std::fs::write(file, facts.to_string()).unwrap();
    let gathered = edgar(None, folder.path()).gather(&crust()).await.unwrap();
    gathered.financial[0].text.clone()
}

#[tokio::test]
async fn filed_and_computed_figures_round_halves_away_from_zero() {
    let filed = "2023-02-01";
    let year = |value: f64| flow("2022-01-01", "2022-12-31", value, filed);
    let quarter = |start: &str, end: &str, value: f64| flow(start, end, value, filed);
    let usd = |facts: Vec<Value>| json!({"units": {"USD": facts}});
    let text = shown(json!({"cik": 42, "entityName": "Crust Inc.", "facts": {"us-gaap": {
        "Revenues": usd(vec![
            year(2_405_000_000.0),
            flow("2021-01-01", "2021-12-31", 2_000_000_000.0, filed),
            flow("2020-01-01", "2020-12-31", 30_855_000_000.0, filed),
            quarter("2022-01-01", "2022-03-31", 1.0e6),
            quarter("2022-04-01", "2022-06-30", 1.0e6),
            quarter("2022-07-01", "2022-09-30", 1.0e6),
            quarter("2021-10-01", "2021-12-31", 1.0e6),
        ]),
        // The net margins of the two years are 12.35 % and 12.25 %.
        "NetIncomeLoss": usd(vec![
            year(297_017_500.0),
            flow("2021-01-01", "2021-12-31", 245_000_000.0, filed),
        ]),
        "EarningsPerShareDiluted": {"units": {"USD/shares": [
            quarter("2022-01-01", "2022-03-31", 2.405),
            quarter("2022-04-01", "2022-06-30", 30.855),
            quarter("2022-07-01", "2022-09-30", -2.405),
            // Shares were split two for one after this filing, so the adjusted value is 2.405.
            flow("2021-10-01", "2021-12-31", 4.81, "2022-02-01"),
            flow("2021-07-01", "2021-09-30", 4.0, "2021-11-01"),
            flow("2021-07-01", "2021-09-30", 2.0, "2022-11-01"),
        ]}},
        "Assets": usd(vec![day("2022-12-31", 1_005.0e6, filed)]),
        "Liabilities": usd(vec![day("2022-12-31", 1_005.0e6, filed)]),
        "StockholdersEquity": usd(vec![day("2022-12-31", 1_000.0e6, filed)]),
    }}}))
    .await;
    for expected in [
        "| revenue | 2.41 billion USD [1] | 2.00 billion USD [1] | 30.86 billion USD [1] |",
        "| net margin (computed) | 12.4 % | 12.3 % | – |",
        "30.86 USD a share [1]",
        "| -2.41 USD a share [1] |",
        "2.41 USD a share [1]",
        "2.41 USD a share (computed)",
        "| liabilities to equity (computed) | 1.01 × |",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[tokio::test]
async fn edgar_client_uses_cached_responses_without_network() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: Value| {
        std::fs::write(folder.path().join(name), value.to_string()).unwrap();
    };
    write("companyfacts-CIK0000000042.json", facts());
    write("submissions-CIK0000000042.json", filings());
    write("company_tickers.json", tickers());
    let offline = edgar(None, folder.path());
    let ticker: Ticker = "crst".parse().unwrap();
    let company = offline.resolve(&ticker).await.unwrap();
    assert_eq!(company, crust());
    let fresh = offline.gather(&company).await.unwrap();
    assert!(!fresh.notes.iter().any(|note| note.contains("is outdated")), "{:?}", fresh.notes);
    // An outdated cached file is used, and a note is added.
    let path = folder.path().join("companyfacts-CIK0000000042.json");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3 * 24 * 60 * 60)).unwrap();
    let old = offline.gather(&company).await.unwrap();
    let note = "`companyfacts-CIK0000000042.json` is outdated (age in days: 3) and could not be";
    assert!(old.notes.iter().any(|one| one.starts_with(note)), "{:?}", old.notes);
    assert_eq!(old.figures, fresh.figures);
    // A year later a note says that the figures are old.
    let later = Edgar { today: "2024-01-01".parse().unwrap(), ..offline.clone() };
    let stale = later.gather(&company).await.unwrap();
    let note =
        "the latest filed figures are for the period to 2022-12-31, which ended 366 days ago";
    assert!(stale.notes.contains(&note.to_owned()), "{:?}", stale.notes);
    let wrong: Ticker = "CRSR".parse().unwrap();
    let error = offline.resolve(&wrong).await.unwrap_err();
    assert!(matches!(&error, EdgarError::Unknown { .. }), "{error}");
    assert!(error.to_string().contains("did you mean CRST (Crust Inc.)"), "{error}");
    // The list of tickers is downloaded once, then read from the cache.
    let online = tempfile::tempdir().unwrap();
    let server = serve(BTreeMap::from([(TICKERS, (200, tickers().to_string()))])).await;
    let asks = edgar(Some(&server), online.path());
    assert_eq!(asks.resolve(&ticker).await.unwrap(), crust());
    assert_eq!(edgar(None, online.path()).resolve(&ticker).await.unwrap(), crust());
    // The lookup fails if there is neither a cached list nor a contact.
    let nothing = tempfile::tempdir().unwrap();
    let error = edgar(None, nothing.path()).resolve(&ticker).await.unwrap_err();
    assert!(matches!(&error, EdgarError::NoContact { .. }), "{error}");
    assert!(error.to_string().contains("`company_tickers.json` is not in"), "{error}");
    // Cached files are validated like responses.
    for (cached, message) in
        [("<html>no</html>", "is an HTML page"), ("", "is empty"), ("{\"0\": ", "truncated")]
    {
        std::fs::write(nothing.path().join("company_tickers.json"), cached).unwrap();
        let error = edgar(None, nothing.path()).resolve(&ticker).await.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[tokio::test]
async fn invalid_sec_responses_have_distinct_errors_and_are_not_cached() {
    let half = facts().to_string()[..400].to_owned();
    let other = json!({"cik": 7, "facts": {"us-gaap": {"Assets": {"units": {}}}}}).to_string();
    let empty = json!({"cik": 42, "facts": {"dei": {}}}).to_string();
    for (status, body, message) in [
        (
            200,
            "<html>Request Rate Threshold Exceeded</html>".to_owned(),
            "is an HTML page instead of data",
        ),
        (200, String::new(), "is empty"),
        (200, half, "is invalid or truncated"),
        (200, empty, "is empty"),
        (200, other, "a different company, whose CIK is 7"),
        (403, "no".to_owned(), "the SEC returned HTTP 403"),
        (404, "no".to_owned(), "the SEC returned HTTP 404"),
    ] {
        let server = serve(BTreeMap::from([(FACTS, (status, body))])).await;
        let folder = tempfile::tempdir().unwrap();
        let error =
            edgar(Some(&server), folder.path()).gather(&crust()).await.unwrap_err().to_string();
        assert!(error.contains(message), "{message}: {error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{message}");
    }
    // A missing list of filings only adds a note.
    let server = serve(BTreeMap::from([(FACTS, (200, facts().to_string()))])).await;
    let folder = tempfile::tempdir().unwrap();
    let gathered = edgar(Some(&server), folder.path()).gather(&crust()).await.unwrap();
    assert!(gathered.news.is_empty());
    let note = "the list of filings is unavailable: the SEC returned HTTP 404";
    assert!(gathered.notes.contains(&note.to_owned()), "{:?}", gathered.notes);
    // A cached response is not requested again.
    let before = server.asked.lock().unwrap().len();
    edgar(Some(&server), folder.path()).gather(&crust()).await.unwrap();
    let asked = server.asked.lock().unwrap().len();
    assert_eq!(asked, before + 1, "only the list of filings is requested again");
    let unreachable = Edgar {
        base_url: Some("http://127.0.0.1:9".to_owned()),
        ..edgar(Some(&server), tempfile::tempdir().unwrap().path())
    };
    let error = unreachable.gather(&crust()).await.unwrap_err();
    assert!(matches!(error, EdgarError::Unreachable(_)), "{error}");
}
