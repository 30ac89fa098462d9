//! Sources of company data.

pub mod edgar;
mod figure;
pub mod files;

use std::fmt::Write as _;

pub use figure::{Figure, FigurePeriod, FigureSource, FigureUnit};
use serde::{Deserialize, Serialize};

/// A source document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDocument {
    pub title: String,
    pub text: String,
}

/// Data gathered from sources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GatheredData {
    /// Documents with financial data.
    pub financial: Vec<SourceDocument>,
    /// All other documents, such as news.
    pub news: Vec<SourceDocument>,
    /// Figures with a traceable origin.
    pub figures: Vec<Figure>,
    /// Caveats for the report, for example that data is old, incomplete or left out.
    pub notes: Vec<String>,
    /// Whether any of the data is synthetic.
    pub synthetic: bool,
}

impl GatheredData {
    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.financial.is_empty() && self.news.is_empty()
    }

    /// Returns all documents, the financial documents first.
    pub fn documents(&self) -> impl Iterator<Item = &SourceDocument> {
        self.financial.iter().chain(&self.news)
    }

    /// Estimated number of tokens of all documents.
    pub fn likely_tokens(&self) -> u64 {
        self.documents().map(|document| document.text.len() as u64 / 4).sum()
    }

    /// Appends the data of another source.
    #[must_use]
    pub fn and(mut self, other: GatheredData) -> GatheredData {
        self.financial.extend(other.financial);
        self.news.extend(other.news);
        self.figures.extend(other.figures);
        self.notes.extend(other.notes);
        self.synthetic |= other.synthetic;
        self
    }
}

/// Renders a Markdown table; cell contents are escaped.
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
