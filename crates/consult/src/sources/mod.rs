//! Where what is known of a company comes from.

pub mod edgar;
mod figure;
pub mod files;

use std::fmt::Write as _;

pub use figure::{Figure, Period, Source, Unit};
use serde::{Deserialize, Serialize};

/// Something to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub title: String,
    pub text: String,
}

/// What a source has to say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    /// About money.
    pub financial: Vec<Document>,
    /// About everything else.
    pub news: Vec<Document>,
    /// The figures in it that can be traced one by one.
    pub figures: Vec<Figure>,
    /// What must be known about it: old, partial, left out.
    pub notes: Vec<String>,
    /// Nobody ever measured any of it.
    pub synthetic: bool,
}

impl Gathered {
    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.financial.is_empty() && self.news.is_empty()
    }

    /// All that there is to read, the figures first.
    pub fn documents(&self) -> impl Iterator<Item = &Document> {
        self.financial.iter().chain(&self.news)
    }

    /// About how many tokens it takes to read all of it.
    pub fn likely_tokens(&self) -> u64 {
        self.documents().map(|document| document.text.len() as u64 / 4).sum()
    }

    /// With what another source says after it.
    #[must_use]
    pub fn and(mut self, other: Gathered) -> Gathered {
        self.financial.extend(other.financial);
        self.news.extend(other.news);
        self.figures.extend(other.figures);
        self.notes.extend(other.notes);
        self.synthetic |= other.synthetic;
        self
    }
}

/// A table in Markdown. What is in a cell cannot break it.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
    let mut text = String::new();
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let _ = writeln!(text, "{}", line(heads.iter().map(|head| cell(head)).collect()));
    let _ = writeln!(text, "{}", line(vec!["---".to_owned(); heads.len()]));
    for row in rows {
        let _ = writeln!(text, "{}", line(row.iter().map(|one| cell(one)).collect()));
    }
    text
}
