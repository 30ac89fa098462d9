//! Client for EDGAR, the SEC's database of filings: tickers, facts and filings of companies.
//!
//! Responses are cached in a folder under fixed file names. A user without a network can put the files into this
//! folder.

mod facts;
mod filings;
mod measures;
mod tables;
mod tickers;

use assize_types::{Failure, FailureKind};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::civil::Date;
use tokio::sync::Mutex;
use tokio::time::Instant;

use facts::CompanyFacts;
use filings::EdgarSubmissions;
use tickers::Tickers;

use super::files::read_plain;
use super::{GatheredData, SourceDocument, table};
use crate::ticker::Ticker;
use assize_types::text::{is_invisible, one_line, shorten};

/// Maximum age of a cached response. An older response is downloaded again.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Minimum time between two requests. The SEC allows at most ten requests per second.
const REQUEST_INTERVAL: Duration = Duration::from_millis(110);

/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a response, in bytes. The facts of the largest companies take about ten megabytes.
const MAX_RESPONSE: usize = 64 << 20;

/// Maximum age of the latest figures, in days. The report gets a note if the figures are older.
const STALE_DAYS: i32 = 200;

/// EDGAR client with a cache folder.
#[derive(Debug, Clone)]
pub struct Edgar {
    /// Base URL that replaces both servers of the SEC, for example for a mirror or a test server.
    pub base_url: Option<String>,
    /// Name and email address of the user, which the SEC requires in every request. If unset, only the cache is used.
    pub contact: Option<String>,
    /// Cache folder for the SEC's responses.
    pub folder: PathBuf,
    /// Current date, to compute the age of figures.
    pub today: Date,
}

/// Error of the EDGAR client.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EdgarError {
    #[error(
        "`{file}` is not in `{folder}` and cannot be downloaded: the SEC requires a contact, and none is set"
    )]
    NoContact { file: String, folder: PathBuf },
    #[error("cannot reach the SEC: {0}")]
    Unreachable(String),
    #[error("the SEC returned HTTP {0}")]
    Status(u16),
    #[error(
        "the SEC's response for `{0}` is an HTML page instead of data; the SEC sends such pages when its rate limit is \
         exceeded"
    )]
    Page(String),
    #[error("the SEC's response for `{0}` is empty")]
    Empty(String),
    #[error("the SEC's response for `{what}` is invalid or truncated: {reason}")]
    Broken { what: String, reason: String },
    #[error("cannot use the cache folder `{folder}` for the SEC's responses: {reason}")]
    Folder { folder: PathBuf, reason: String },
    #[error("unknown ticker {ticker}{}", or_near(.near))]
    Unknown { ticker: Ticker, near: Vec<String> },
}

impl EdgarError {
    fn broken(what: &str, reason: impl std::fmt::Display) -> EdgarError {
        EdgarError::Broken { what: what.to_owned(), reason: reason.to_string() }
    }
}

fn or_near(near: &[String]) -> String {
    match near.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", near.join(", ")),
    }
}

/// A listed company, with the number (CIK) that the SEC assigned to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgarCompany {
    pub cik: u64,
    pub name: String,
}

/// Parsed response of the SEC, from the cache or newly downloaded.
struct Cached<T> {
    content: T,
    /// Note for the report if the response is outdated and could not be downloaded again.
    old: Option<String>,
}

impl Edgar {
    /// Looks up a company by its ticker.
    ///
    /// # Errors
    /// [`EdgarError::Unknown`] when the ticker is not in the SEC's list; any other error when the list is unavailable.
    pub async fn resolve(&self, ticker: &Ticker) -> Result<EdgarCompany, EdgarError> {
        const LIST: &str = "company_tickers.json";
        let parse = |text: &str| {
            let tickers = Tickers::read(text).map_err(|error| EdgarError::broken(LIST, error))?;
            if tickers.is_empty() { Err(EdgarError::Empty(LIST.to_owned())) } else { Ok(tickers) }
        };
        let list = self.fetch(LIST, "www", "files/company_tickers.json", parse).await?;
        let tickers = list.content;
        match tickers.find(ticker) {
            Some(found) => Ok(EdgarCompany { cik: found.cik, name: found.title.clone() }),
            None => Err(EdgarError::Unknown {
                ticker: ticker.clone(),
                near: tickers.suggestions(ticker),
            }),
        }
    }

    /// Returns the figures and the filings of a company, from the cache or downloaded.
    ///
    /// # Errors
    /// When the facts of the company are unavailable. A missing list of filings only adds a note.
    pub async fn gather(&self, company: &EdgarCompany) -> Result<GatheredData, EdgarError> {
        let cik = format!("CIK{:010}", company.cik);
        let mut notes = Vec::new();
        let name = format!("companyfacts-{cik}.json");
        let parse = |text: &str| {
            let facts: CompanyFacts =
                serde_json::from_str(text).map_err(|error| EdgarError::broken(&name, error))?;
            if facts.cik != company.cik {
                let reason = format!(
                    "the response is about a different company, whose CIK is {}",
                    facts.cik
                );
                return Err(EdgarError::broken(&name, reason));
            }
            if facts.is_empty() { Err(EdgarError::Empty(name.clone())) } else { Ok(facts) }
        };
        let path = format!("api/xbrl/companyfacts/{cik}.json");
        let cached = self.fetch(&name, "data", &path, parse).await?;
        notes.extend(cached.old);
        let facts = cached.content;
        let name = format!("submissions-{cik}.json");
        let parse = |text: &str| {
            serde_json::from_str::<EdgarSubmissions>(text)
                .map_err(|error| EdgarError::broken(&name, error))
        };
        let path = format!("submissions/{cik}.json");
        let submissions = match self.fetch(&name, "data", &path, parse).await {
            Ok(cached) => {
                notes.extend(cached.old);
                Some(cached.content)
            }
            Err(error) => {
                notes.push(format!("the list of filings is unavailable: {error}"));
                None
            }
        };
        Ok(self.summarize(company, &facts, submissions.as_ref(), notes))
    }

    fn summarize(
        &self,
        company: &EdgarCompany,
        facts: &CompanyFacts,
        submissions: Option<&EdgarSubmissions>,
        mut notes: Vec<String>,
    ) -> GatheredData {
        let measures = measures::measure(facts);
        let last = measures.figures.iter().map(|figure| figure.as_of).max();
        if let Some(last) = last {
            let days = last.until(self.today).map_or(0, |span| span.get_days());
            if days > STALE_DAYS {
                notes.push(format!(
                    "the latest filed figures are for the period to {last}, which ended {days} days ago"
                ));
            }
        }
        if !measures.missing.is_empty() {
            let missing = measures.missing.join(", ");
            notes.push(format!("measures not found in the filings: {missing}"));
        }
        let name = if facts.entity_name.is_empty() {
            company.name.clone()
        } else {
            name(&facts.entity_name)
        };
        let mut head =
            format!("# {name}: filed figures\n\nSource: SEC EDGAR, CIK {}.", company.cik);
        if let Some(submissions) = submissions {
            let exchanges: Vec<&str> =
                submissions.exchanges.iter().flatten().map(String::as_str).collect();
            head.push_str(&format!(
                " Industry: {}. Listed on: {}. The company's fiscal year ends on {}.",
                or_unknown(&submissions.industry),
                or_unknown(&exchanges.join(", ")),
                month_and_day(submissions.fiscal_year_end.as_deref().unwrap_or_default()),
            ));
        }
        let text = format!("{head}\n\n{}", tables::render_figures(&measures.figures));
        let financial = vec![SourceDocument { title: format!("{name}: filed figures"), text }];
        let news = submissions.map(|submissions| {
            let (filings, own_shares) = submissions.recent();
            let rows = filings.into_iter();
            let rows = rows.map(|one| vec![one.filed.to_string(), one.form, one.about, one.accession]);
            let rows: Vec<Vec<String>> = rows.collect();
            let text = format!(
                "# {name}: recent filings\n\nSource: SEC EDGAR, list of submissions. Reports of insiders on \
                 their own shares (forms 3, 4, 5 and 144) are not listed; the number of such reports is \
                 {own_shares}.\n\n{}",
                table(&["filed", "form", "about", "accession number"], &rows)
            );
            SourceDocument { title: format!("{name}: recent filings"), text }
        });
        GatheredData {
            financial,
            news: news.into_iter().collect(),
            figures: measures.figures,
            notes,
            synthetic: false,
        }
    }

    /// Returns the parsed response of the SEC from the cache, or downloads the response. A response that `parse`
    /// rejects is not cached.
    async fn fetch<T>(
        &self,
        name: &str,
        host: &str,
        path: &str,
        parse: impl Fn(&str) -> Result<T, EdgarError>,
    ) -> Result<Cached<T>, EdgarError> {
        let parse = |text: &str| {
            check_start(name, text)?;
            parse(text)
        };
        let place = self.folder.join(name);
        let cached = match read_plain(&place, MAX_RESPONSE as u64) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.folder_error(error)),
        };
        let changed = std::fs::metadata(&place).and_then(|metadata| metadata.modified()).ok();
        let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        // The cached file may come from the user or from a proxy, so it must be validated.
        let cached = cached.as_deref().map(&parse);
        let is_fresh = age.is_none_or(|age| age < MAX_AGE);
        if is_fresh && let Some(Ok(content)) = cached {
            return Ok(Cached { content, old: None });
        }
        let downloaded = match self.download(name, host, path).await {
            Ok(text) => parse(&text).map(|content| (content, text)),
            Err(error) => Err(error),
        };
        match (downloaded, cached) {
            (Ok((content, text)), _) => {
                self.cache(&place, &text)?;
                Ok(Cached { content, old: None })
            }
            (Err(_), Some(Err(error))) | (Err(error), None) => Err(error),
            (Err(error), Some(Ok(content))) => {
                let days = age.unwrap_or_default().as_secs() / (24 * 60 * 60);
                let old = format!(
                    "`{name}` is outdated (age in days: {days}) and could not be refreshed: {error}"
                );
                Ok(Cached { content, old: Some(old) })
            }
        }
    }

    fn folder_error(&self, error: io::Error) -> EdgarError {
        EdgarError::Folder { folder: self.folder.clone(), reason: error.to_string() }
    }

    /// Stores a response in the cache.
    fn cache(&self, place: &Path, text: &str) -> Result<(), EdgarError> {
        let folder = |error| self.folder_error(error);
        std::fs::create_dir_all(&self.folder).map_err(folder)?;
        let file = tempfile::NamedTempFile::new_in(&self.folder).map_err(folder)?;
        std::fs::write(file.path(), text).map_err(folder)?;
        file.persist(place).map(drop).map_err(|error| folder(error.error))
    }

    async fn download(&self, name: &str, host: &str, path: &str) -> Result<String, EdgarError> {
        static LAST: Mutex<Option<Instant>> = Mutex::const_new(None);
        let contact = self.contact.as_ref().ok_or_else(|| EdgarError::NoContact {
            file: name.to_owned(),
            folder: self.folder.clone(),
        })?;
        {
            let mut last = LAST.lock().await;
            if let Some(last) = *last {
                tokio::time::sleep_until(last + REQUEST_INTERVAL).await;
            }
            *last = Some(Instant::now());
        }
        let base = match &self.base_url {
            Some(base) => base.trim_end_matches('/').to_owned(),
            None => format!("https://{host}.sec.gov"),
        };
        let unreachable =
            |error: reqwest::Error| EdgarError::Unreachable(Failure::root_cause_message(&error));
        // This fails without consequences if another part of the process has already installed a crypto provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirects(&base))
            .user_agent(format!("assize/{} {contact}", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(unreachable)?;
        let mut response =
            client.get(format!("{base}/{path}")).send().await.map_err(unreachable)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > MAX_RESPONSE {
                let reason = format!("the response has more than {MAX_RESPONSE} bytes");
                return Err(EdgarError::broken(name, reason));
            }
            bytes.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(EdgarError::Status(status.as_u16()));
        }
        String::from_utf8(bytes).map_err(|error| EdgarError::broken(name, error))
    }
}

/// Redirect policy: follows at most three redirects, and only within the same server.
fn redirects(base: &str) -> reqwest::redirect::Policy {
    let home = reqwest::Url::parse(base).ok();
    reqwest::redirect::Policy::custom(move |attempt| {
        let stays = home.as_ref().is_some_and(|home| {
            (home.scheme(), home.host_str(), home.port())
                == (attempt.url().scheme(), attempt.url().host_str(), attempt.url().port())
        });
        match stays && attempt.previous().len() <= 3 {
            true => attempt.follow(),
            false => attempt.error(
                "the response redirects to a different server, or there were too many redirects",
            ),
        }
    })
}

/// Fails if a response is empty or an HTML page.
fn check_start(name: &str, text: &str) -> Result<(), EdgarError> {
    match text.trim_start().chars().next() {
        None => Err(EdgarError::Empty(name.to_owned())),
        Some('<') => Err(EdgarError::Page(name.to_owned())),
        Some(_) => Ok(()),
    }
}

/// Cleans a company name: one line of at most 100 characters.
fn name(text: &str) -> String {
    let plain = text.replace(|c: char| c.is_control() || is_invisible(c), " ");
    shorten(&one_line(&plain), 100)
}

/// Formats a month and day: `1231` as `12-31`.
fn month_and_day(text: &str) -> String {
    match text.split_at_checked(2) {
        Some((month, day)) if text.len() == 4 => format!("{month}-{day}"),
        _ => "an unknown day".to_owned(),
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

/// The UTC date of a Unix timestamp.
pub fn day_of(seconds: u64) -> Date {
    let days = i64::try_from(seconds / (24 * 60 * 60)).unwrap_or_default();
    let first = Date::constant(1970, 1, 1);
    first.checked_add(jiff::Span::new().days(days)).unwrap_or(first)
}

impl From<EdgarError> for Failure {
    fn from(error: EdgarError) -> Failure {
        let kind = match &error {
            EdgarError::Unknown { .. } => FailureKind::Usage,
            EdgarError::NoContact { .. } => FailureKind::Settings,
            _ => FailureKind::Environment,
        };
        let failure = Failure::from_error(kind, &error);
        match error {
            EdgarError::Unknown { .. } => failure.hint(
                "check the ticker; for a private company, give its name: `assize consult --name \"NAME\"`",
            ),
            EdgarError::NoContact { .. } => failure.hint(
                "set `edgar.contact` to your name and email, such as \"Your Name you@example.org\", or put \
                 the SEC's files into the folder (`edgar.folder`): company_tickers.json, \
                 companyfacts-CIK0000000000.json and submissions-CIK0000000000.json, with the company's CIK \
                 instead of the zeros",
            ),
            EdgarError::Page(_) | EdgarError::Status(403 | 429) => {
                failure.hint("wait a few minutes, and check that `edgar.contact` is correct")
            }
            _ => failure,
        }
    }
}
