//! What companies have filed with the SEC: facts, filings, and who a ticker is.
//!
//! Everything that is fetched is kept in a folder under plain names, so that files which somebody put there
//! serve as well, without a network.

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
use filings::Submissions;
use tickers::Tickers;

use super::files::read_plain;
use super::{Document, Gathered, table};
use crate::ticker::Ticker;
use assize_types::text::{is_invisible, one_line, shorten};

/// How long what was fetched is good for.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// They ask for no more than ten requests a second.
const BETWEEN: Duration = Duration::from_millis(110);

const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer: the facts of the largest companies have some ten megabytes.
const LARGEST: usize = 64 << 20;

/// How old the latest figures may be, in days, before that is worth a word.
const STALE: i32 = 200;

/// Where to ask, and where answers are kept.
#[derive(Debug, Clone)]
pub struct Edgar {
    /// In place of the SEC's own two.
    pub base_url: Option<String>,
    /// Who asks: the SEC wants to know. Without it only what is kept already is used.
    pub contact: Option<String>,
    pub folder: PathBuf,
    /// By which figures are old or not.
    pub today: Date,
}

/// Why the SEC's answer cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EdgarError {
    #[error(
        "`{file}` is not in `{folder}`, and the SEC wants to know who asks, but no contact is set"
    )]
    NoContact { file: String, folder: PathBuf },
    #[error("the SEC cannot be reached: {0}")]
    Unreachable(String),
    #[error("the SEC answered {0}")]
    Status(u16),
    #[error(
        "`{0}` is a page instead of data, which the SEC answers with when it is asked too often"
    )]
    Page(String),
    #[error("the SEC's answer on `{0}` is empty")]
    Empty(String),
    #[error(
        "the SEC's answer on `{what}` cannot be read, as if a part of it were missing: {reason}"
    )]
    Broken { what: String, reason: String },
    #[error("the folder `{folder}` for the SEC's answers cannot be used: {reason}")]
    Folder { folder: PathBuf, reason: String },
    #[error("no company has the ticker {ticker}{}", or_near(.near))]
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

/// A company that is known by its ticker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Company {
    pub cik: u64,
    pub name: String,
}

/// An answer, and how old it is if it is not new.
struct Kept {
    text: String,
    /// Why an old one had to do.
    old: Option<String>,
}

impl Edgar {
    /// Which company a ticker is.
    ///
    /// # Errors
    /// [`EdgarError::Unknown`] when there is a list and the ticker is not on it; else there is no list.
    pub async fn resolve(&self, ticker: &Ticker) -> Result<Company, EdgarError> {
        let list = self.fetch("company_tickers.json", "www", "files/company_tickers.json").await?;
        let tickers = Tickers::read(&list.text)
            .map_err(|error| EdgarError::broken("company_tickers.json", error))?;
        if tickers.is_empty() {
            return Err(EdgarError::Empty("company_tickers.json".to_owned()));
        }
        match tickers.find(ticker) {
            Some(found) => Ok(Company { cik: found.cik, name: found.title.clone() }),
            None => Err(EdgarError::Unknown { ticker: ticker.clone(), near: tickers.near(ticker) }),
        }
    }

    /// Facts and filings of a company.
    ///
    /// # Errors
    /// When its facts cannot be had. Without its filings there is still something to say.
    pub async fn gather(&self, company: &Company) -> Result<Gathered, EdgarError> {
        let cik = format!("CIK{:010}", company.cik);
        let mut notes = Vec::new();
        let name = format!("companyfacts-{cik}.json");
        let kept = self.fetch(&name, "data", &format!("api/xbrl/companyfacts/{cik}.json")).await?;
        notes.extend(kept.old);
        let facts: CompanyFacts =
            serde_json::from_str(&kept.text).map_err(|error| EdgarError::broken(&name, error))?;
        if facts.cik != company.cik {
            let reason = format!("it is about another company, {}", facts.cik);
            return Err(EdgarError::broken(&name, reason));
        }
        if facts.is_empty() {
            return Err(EdgarError::Empty(name));
        }
        let name = format!("submissions-{cik}.json");
        let submissions = match self.fetch(&name, "data", &format!("submissions/{cik}.json")).await
        {
            Ok(kept) => {
                notes.extend(kept.old);
                serde_json::from_str::<Submissions>(&kept.text)
                    .inspect_err(|error| {
                        notes.push(format!("the list of filings cannot be read: {error}"))
                    })
                    .ok()
            }
            Err(error) => {
                notes.push(format!("there is no list of filings: {error}"));
                None
            }
        };
        Ok(self.tell(company, &facts, submissions.as_ref(), notes))
    }

    fn tell(
        &self,
        company: &Company,
        facts: &CompanyFacts,
        submissions: Option<&Submissions>,
        mut notes: Vec<String>,
    ) -> Gathered {
        let measures = measures::measure(facts);
        let last = measures.figures.iter().map(|figure| figure.as_of).max();
        if let Some(last) = last {
            let days = last.until(self.today).map_or(0, |span| span.get_days());
            if days > STALE {
                notes.push(format!("the latest filed figures are of {last}, {days} days ago"));
            }
        }
        if !measures.missing.is_empty() {
            notes.push(format!("not found among what was filed: {}", measures.missing.join(", ")));
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
                " Industry: {}. Listed on: {}. Its fiscal year ends on {}.",
                or_unknown(&submissions.industry),
                or_unknown(&exchanges.join(", ")),
                month_and_day(submissions.fiscal_year_end.as_deref().unwrap_or_default()),
            ));
        }
        let text = format!("{head}\n\n{}", tables::of(&measures.figures));
        let financial = vec![Document { title: format!("{name}: filed figures"), text }];
        let news = submissions.map(|submissions| {
            let (filings, own_shares) = submissions.recent();
            let rows = filings.into_iter();
            let rows = rows.map(|one| vec![one.filed.to_string(), one.form, one.about, one.accession]);
            let rows: Vec<Vec<String>> = rows.collect();
            let text = format!(
                "# {name}: recent filings\n\nSource: SEC EDGAR, list of submissions. Besides these there are \
                 {own_shares} reports of insiders on their own shares.\n\n{}",
                table(&["filed", "form", "about", "accession number"], &rows)
            );
            Document { title: format!("{name}: recent filings"), text }
        });
        Gathered {
            financial,
            news: news.into_iter().collect(),
            figures: measures.figures,
            notes,
            synthetic: false,
        }
    }

    /// An answer, kept or new.
    async fn fetch(&self, name: &str, host: &str, path: &str) -> Result<Kept, EdgarError> {
        let place = self.folder.join(name);
        let kept = match read_plain(&place, LARGEST as u64) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.unusable(error)),
        };
        let changed = std::fs::metadata(&place).and_then(|metadata| metadata.modified()).ok();
        let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        // What somebody put there, or a proxy, may be anything.
        let sound = kept.as_deref().map(|text| check(name, text));
        let is_fresh = age.is_none_or(|age| age < FRESH);
        let kept = match (kept, sound) {
            (Some(text), Some(Ok(()))) if is_fresh => return Ok(Kept { text, old: None }),
            (kept, Some(Ok(())) | None) => kept,
            (_, Some(Err(error))) => match self.ask(name, host, path).await {
                Ok(text) => return self.keep(&place, text),
                Err(_) => return Err(error),
            },
        };
        match (self.ask(name, host, path).await, kept) {
            (Ok(text), _) => self.keep(&place, text),
            (Err(error), Some(text)) => {
                let days = age.unwrap_or_default().as_secs() / (24 * 60 * 60);
                let old =
                    format!("`{name}` is {days} days old, and no newer could be had: {error}");
                Ok(Kept { text, old: Some(old) })
            }
            (Err(error), None) => Err(error),
        }
    }

    fn unusable(&self, error: io::Error) -> EdgarError {
        EdgarError::Folder { folder: self.folder.clone(), reason: error.to_string() }
    }

    /// Keeps an answer for the next time.
    fn keep(&self, place: &Path, text: String) -> Result<Kept, EdgarError> {
        let folder = |error| self.unusable(error);
        std::fs::create_dir_all(&self.folder).map_err(folder)?;
        let file = tempfile::NamedTempFile::new_in(&self.folder).map_err(folder)?;
        std::fs::write(file.path(), &text).map_err(folder)?;
        file.persist(place).map_err(|error| folder(error.error))?;
        Ok(Kept { text, old: None })
    }

    async fn ask(&self, name: &str, host: &str, path: &str) -> Result<String, EdgarError> {
        static LAST: Mutex<Option<Instant>> = Mutex::const_new(None);
        let contact = self.contact.as_ref().ok_or_else(|| EdgarError::NoContact {
            file: name.to_owned(),
            folder: self.folder.clone(),
        })?;
        {
            let mut last = LAST.lock().await;
            if let Some(last) = *last {
                tokio::time::sleep_until(last + BETWEEN).await;
            }
            *last = Some(Instant::now());
        }
        let base = match &self.base_url {
            Some(base) => base.trim_end_matches('/').to_owned(),
            None => format!("https://{host}.sec.gov"),
        };
        let unreachable =
            |error: reqwest::Error| EdgarError::Unreachable(Failure::innermost(&error));
        // Someone else in the process may have chosen a provider of cryptography before us.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(PATIENCE)
            .redirect(redirects(&base))
            .user_agent(format!("assize/{} {contact}", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(unreachable)?;
        let mut response =
            client.get(format!("{base}/{path}")).send().await.map_err(unreachable)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > LARGEST {
                let reason = format!("it has more than {LARGEST} bytes");
                return Err(EdgarError::broken(name, reason));
            }
            bytes.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(EdgarError::Status(status.as_u16()));
        }
        let text = String::from_utf8(bytes).map_err(|error| EdgarError::broken(name, error))?;
        // What cannot be read is not kept.
        check(name, &text)?;
        Ok(text)
    }
}

/// Follows nobody elsewhere: an answer of the SEC comes from the SEC.
fn redirects(base: &str) -> reqwest::redirect::Policy {
    let home = reqwest::Url::parse(base).ok();
    reqwest::redirect::Policy::custom(move |attempt| {
        let stays = home.as_ref().is_some_and(|home| {
            (home.scheme(), home.host_str(), home.port())
                == (attempt.url().scheme(), attempt.url().host_str(), attempt.url().port())
        });
        match stays && attempt.previous().len() <= 3 {
            true => attempt.follow(),
            false => attempt.error("it leads elsewhere"),
        }
    })
}

/// Whether an answer is data at all.
fn check(name: &str, text: &str) -> Result<(), EdgarError> {
    match text.trim_start().chars().next() {
        None => Err(EdgarError::Empty(name.to_owned())),
        Some('<') => Err(EdgarError::Page(name.to_owned())),
        Some(_) => serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map(drop)
            .map_err(|error| EdgarError::broken(name, error)),
    }
}

/// Something that somebody is called: one line of words, and nothing else.
fn name(text: &str) -> String {
    let plain = text.replace(|c: char| c.is_control() || is_invisible(c), " ");
    shorten(&one_line(&plain), 100)
}

/// `1231` as `12-31`.
fn month_and_day(text: &str) -> String {
    match text.split_at_checked(2) {
        Some((month, day)) if text.len() == 4 => format!("{month}-{day}"),
        _ => "an unknown day".to_owned(),
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

/// The day, in UTC, that is so many seconds after 1970 began.
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
                "check the ticker; a private company goes by its name: `assize consult --name \"NAME\"`",
            ),
            EdgarError::NoContact { .. } => failure.hint(
                "set `edgar.contact` to your name and address, such as \"Your Name you@example.org\", or put \
                 the SEC's files into the folder (`edgar.folder`): company_tickers.json, \
                 companyfacts-CIK0000000000.json and submissions-CIK0000000000.json, with the company's number",
            ),
            EdgarError::Page(_) | EdgarError::Status(403 | 429) => {
                failure.hint("wait a few minutes, and see that `edgar.contact` is yours")
            }
            _ => failure,
        }
    }
}
