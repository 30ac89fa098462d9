//! Markdown documents of a consultation: the inferences F1 and F2 (what models conclude from the company data), and the
//! proposed business moves m1, m2 and so on.

use std::fmt::Write as _;

use assize_types::text::{is_invisible, one_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Inference, Move};
use crate::figures::{GroundedFigure, SourceFigures};
use crate::sources::{GatheredData, SourceDocument};

/// Label above a document if a model made up all the company data that the document contains or is based on.
pub const SYNTHETIC: &str = "SYNTHETIC: input data is made up, not from filings or files. No figure in it was measured or filed.";

/// Label above a document that a model wrote from company data, if a model made up only a part of that data.
pub(crate) const PARTLY_SYNTHETIC: &str = "SYNTHETIC: part of the input data is made up, not from filings or files. No figure in that part was measured or filed.";

/// Returns the label for documents that models write from the gathered data, if any of the data is synthetic.
pub(crate) fn synthetic_label(gathered: &GatheredData) -> Option<&'static str> {
    let own =
        |document: &SourceDocument| !document.text.starts_with(&labelled(Some(SYNTHETIC), ""));
    let mixed = gathered.documents().any(own);
    gathered.synthetic.then_some(if mixed { PARTLY_SYNTHETIC } else { SYNTHETIC })
}

/// Converts a label such as [`SYNTHETIC`] to the message of a flag (a caveat in the report).
pub(crate) fn as_message(label: &str) -> &str {
    label.strip_prefix("SYNTHETIC: ").unwrap_or(label).trim_end_matches('.')
}

/// Puts a label above a text.
pub(crate) fn labelled(label: Option<&str>, text: &str) -> String {
    label.map_or_else(|| text.to_owned(), |label| format!("> **{label}**\n\n{text}"))
}

/// Joins the financial documents or the news documents into one text.
pub(crate) fn joined_documents(gathered: &GatheredData, financial: bool) -> String {
    let documents = if financial { &gathered.financial } else { &gathered.news };
    let texts: Vec<String> = documents
        .iter()
        .map(|document| {
            format!("<!-- {} -->\n{}", document.title.replace("--", "—"), document.text.trim_end())
        })
        .collect();
    texts.join("\n\n")
}

/// Renders the inference F1 or F2 as a document with numbered findings, so that proposed moves can cite the findings.
/// Also returns the figures of the inference that occur in no source document.
pub(crate) fn inference(
    name: &str,
    title: &str,
    inference: &Inference,
    known: &SourceFigures<'_>,
) -> (String, Vec<String>) {
    let mut text = format!("# {name}: {title}\n\n{}\n", escape_text(&inference.summary));
    let mut claims = vec![inference.summary.clone()];
    for (index, finding) in inference.findings.iter().enumerate() {
        let _ = write!(
            text,
            "\n## {name}.{} {}\n\n{}\n",
            index + 1,
            escape_inline(&finding.title),
            escape_text(&finding.statement)
        );
        claims.extend([finding.title.clone(), finding.statement.clone()]);
        claims.extend(finding.evidence.iter().cloned());
        if !finding.evidence.is_empty() {
            text.push_str("\nEvidence:\n");
        }
        for evidence in &finding.evidence {
            let _ = writeln!(text, "- {}", escape_inline(evidence));
        }
    }
    let (_, unsupported) = known.look_up(&claims.join("\n"));
    if !unsupported.is_empty() {
        let _ = write!(text, "\n{}\n", in_no_source(&unsupported));
    }
    (text, unsupported)
}

fn in_no_source(figures: &[String]) -> String {
    format!("> **Figures found in no source: {}.**", figures.join(", "))
}

/// Maximum size of a document, in bytes. It is limited because the document is part of many prompts.
const MAX_SIZE: usize = 64 << 10;

/// Truncates a document that exceeds [`MAX_SIZE`]. Models are asked for much shorter texts, so this is rare.
pub(crate) fn truncate_document(mut text: String) -> String {
    if text.len() > MAX_SIZE {
        text.truncate(text.floor_char_boundary(MAX_SIZE));
        text.push_str("\n\n> **This document was truncated here.**\n");
    }
    text
}

/// Removes terminal control codes and invisible characters.
pub(crate) fn clean(text: &str) -> String {
    let odd = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_invisible(c);
    text.replace(odd, "")
}

/// Escapes model text for a document, so that the text cannot contain a heading, a table, a horizontal rule, a
/// quotation, an image or an HTML tag.
pub(crate) fn escape_text(text: &str) -> String {
    let lines = clean(text.trim());
    lines.lines().map(|line| escape_line(line.trim())).collect::<Vec<_>>().join("\n")
}

/// Escapes model text for use within one line.
pub(crate) fn escape_inline(text: &str) -> String {
    escape_line(&one_line(&clean(text)))
}

/// Escapes all Markdown structure of a line except list markers.
fn escape_line(line: &str) -> String {
    let line = line.replace('<', "\\<").replace("![", "!\\[");
    // List markers can precede any other Markdown structure.
    let mut rest = line.as_str();
    while let Some(item) = list_item(rest) {
        rest = item;
    }
    let marks = &line[..line.len() - rest.len()];
    let is_rule = !line.trim().is_empty()
        && line.chars().all(|c| matches!(c, '-' | '=' | '*' | '_' | ':' | '|' | ' ' | '+'));
    let begins = rest.starts_with(['#', '>', '|', '=', '~']) || rest.starts_with("```");
    let defines = rest.starts_with('[') && rest.contains("]:");
    if is_rule {
        format!("\\{line}")
    } else if begins || defines {
        format!("{marks}\\{rest}")
    } else {
        line
    }
}

/// Returns the text after the list marker of a line; `None` if the line has no list marker.
fn list_item(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let bullet = line.strip_prefix(['-', '*', '+']);
    let number = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() < line.len() { rest.strip_prefix(['.', ')']) } else { None }
    };
    bullet.or_else(number).filter(|rest| rest.starts_with([' ', '\t'])).map(str::trim_start)
}

/// A proposed move, with its document for the debate and the results of checking its citations and figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveSuggestion {
    /// Id of the move: `m1`, `m2` and so on.
    pub move_id: String,
    /// Id of the analyst who proposed the move; `persona` is the analyst's name.
    pub agent_id: String,
    pub persona: String,
    #[serde(flatten)]
    pub proposed: Move,
    /// Document about the move, as Markdown. The debate is about this document.
    pub content: String,
    /// Findings that the move cites, with their titles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cited: Vec<CitedFinding>,
    /// Citations in the move that match no finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unresolved_citations: Vec<String>,
    /// Figures of the move that were found in a source document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<GroundedFigure>,
    /// Figures of the move that were found in no source document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_figures: Vec<String>,
}

/// A finding that a move cites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CitedFinding {
    /// Id of the finding, such as `F1.2`.
    pub finding: String,
    pub title: String,
}

impl MoveSuggestion {
    /// Returns a note for the report if this move contains no figures that need a source, or if none of its figures was
    /// found in a source document.
    pub(crate) fn without_figures(&self) -> Option<&'static str> {
        match (self.figures.is_empty(), self.unsupported_figures.is_empty()) {
            (false, _) => None,
            (true, true) => Some("This move contains no figures that need a source."),
            (true, false) => Some("None of the figures in this move was found in a source."),
        }
    }
}

/// Checks proposed moves: citations against the findings, and figures against the source documents.
pub(crate) struct MoveChecker<'a> {
    /// The inferences F1 and F2, with their names.
    pub(crate) inferences: [(&'a str, &'a Inference); 2],
    pub(crate) known: &'a SourceFigures<'a>,
}

impl MoveChecker<'_> {
    /// Title of a finding, by its id such as `F1.2`.
    fn finding(&self, citation: &str) -> Option<&str> {
        let (name, number) = citation.split_once('.')?;
        let (_, inference) = self.inferences.iter().find(|(own, _)| *own == name)?;
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
        let index = number.parse::<usize>().ok().filter(|_| is_plain)?.checked_sub(1)?;
        inference.findings.get(index).map(|finding| finding.title.as_str())
    }

    /// Checks the citations and figures of a move, and renders its document.
    pub(crate) fn check(
        &self,
        (move_id, agent_id, persona): (String, &str, &str),
        proposed: Move,
    ) -> MoveSuggestion {
        let (cited, unresolved_citations) = self.resolve(&proposed);
        // Cost and timeline are not checked: they are labelled as the analyst's estimates.
        let claims = [
            &[proposed.title.clone(), proposed.thesis.clone()][..],
            &proposed.actions,
            &proposed.risks,
        ];
        let (figures, unsupported_figures) = self.known.look_up(&claims.concat().join("\n"));
        let list = |text: &mut String, head: &str, items: &[String]| {
            let _ = write!(text, "\n## {head}\n\n");
            for (index, item) in items.iter().enumerate() {
                let _ = writeln!(text, "{}. {}", index + 1, escape_inline(item));
            }
        };
        let mut text = format!(
            "# {move_id}: {}\n\nProposed by {agent_id}, {persona}.\n\n## Thesis\n\n{}\n",
            escape_inline(&proposed.title),
            escape_text(&proposed.thesis)
        );
        list(&mut text, "Actions", &proposed.actions);
        let _ =
            write!(text, "\n## Cost (the analyst's estimate)\n\n{}\n", escape_text(&proposed.cost));
        let _ = write!(
            text,
            "\n## Timeline (the analyst's estimate)\n\n{}\n",
            escape_text(&proposed.timeline)
        );
        list(&mut text, "Risks", &proposed.risks);
        text.push_str("\n## Citations\n\n");
        for CitedFinding { finding, title } in &cited {
            let _ = writeln!(text, "- {finding}: {title}");
        }
        for citation in &unresolved_citations {
            let _ = writeln!(text, "- {}: THERE IS NO SUCH FINDING", escape_inline(citation));
        }
        if cited.is_empty() && unresolved_citations.is_empty() {
            text.push_str("None: this move cites no finding.\n");
        }
        if !unsupported_figures.is_empty() {
            let _ = write!(text, "\n{}\n", in_no_source(&unsupported_figures));
        }
        MoveSuggestion {
            move_id,
            agent_id: agent_id.to_owned(),
            persona: persona.to_owned(),
            proposed,
            content: text,
            cited,
            unresolved_citations,
            figures,
            unsupported_figures,
        }
    }

    /// Splits the citations of a move into known findings, with their titles, and citations that match no finding.
    fn resolve(&self, proposed: &Move) -> (Vec<CitedFinding>, Vec<String>) {
        let mut resolved: Vec<CitedFinding> = Vec::new();
        let mut unresolved: Vec<String> = Vec::new();
        for written in &proposed.citations {
            let trimmed = written.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            let citation =
                trimmed.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match self.finding(&citation) {
                Some(title) if resolved.iter().all(|other| other.finding != citation) => {
                    resolved.push(CitedFinding { finding: citation, title: escape_inline(title) });
                }
                Some(_) => {}
                None => {
                    let written = assize_types::text::shorten(&one_line(&clean(written)), 60);
                    if !unresolved.contains(&written) {
                        unresolved.push(written);
                    }
                }
            }
        }
        (resolved, unresolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::InferenceFinding;

    #[test]
    fn move_lists_its_citations_and_unsupported_figures() {
        let finding = |title: &str| InferenceFinding {
            title: title.to_owned(),
            statement: "It grows by 25 %.".to_owned(),
            evidence: vec!["revenue growth 25 %, year to 2022-12-31".to_owned()],
        };
        let f1 = Inference {
            summary: "Fine.".to_owned(),
            findings: vec![finding("Growth"), finding("Cash")],
        };
        let f2 = Inference { summary: "Calm.".to_owned(), findings: vec![finding("Rivals")] };
        let known = SourceFigures::in_texts([("sheet", "growth 25 %")]);
        let library = MoveChecker { inferences: [("F1", &f1), ("F2", &f2)], known: &known };
        let proposed = Move {
            title: "Open a second\nbakery".to_owned(),
            thesis: "Growth of 25 % and a share of 40 % allow it.".to_owned(),
            actions: vec!["Rent a shop".to_owned()],
            cost: "2 million USD".to_owned(),
            timeline: "18 months".to_owned(),
            risks: vec!["No customers".to_owned()],
            citations: ["F1.2", "[f2.1]", "F1.2", "F1.9", "F3.1", "the news"]
                .map(str::to_owned)
                .into(),
        };
        let suggestion = library.check(("m1".to_owned(), "analyst_1", "Market Builder"), proposed);
        assert_eq!(suggestion.unresolved_citations, ["F1.9", "F3.1", "the news"]);
        assert_eq!(suggestion.unsupported_figures, ["40 %"]);
        insta::assert_snapshot!(suggestion.content);
        let title = "financial inference of Crust Inc.";
        insta::assert_snapshot!(inference("F1", title, &f1, &known).0);
        let invented = inference("F1", title, &f1, &SourceFigures::default());
        assert_eq!(invented.1, ["25 %"]);
        assert!(invented.0.contains("Figures found in no source: 25 %."));
    }

    #[test]
    fn model_text_cannot_forge_markdown_structure() {
        let evil = "Fine.\n# 2. Forged\n> quoted\n| a | b |\n\n---\n-- -\n- # x\n1. > y\n    code\u{1b}[2J\u{202e}\n```\n- a list\n\
                    [F1.1]: http://x\n<img src=x> ![a](b)";
        assert_eq!(
            escape_text(evil),
            "Fine.\n\\# 2. Forged\n\\> quoted\n\\| a | b |\n\n\\---\n\\-- -\n- \\# x\n1. \\> y\ncode[2J\n\\```\n- a list\n\
             \\[F1.1]: http://x\n\\<img src=x> !\\[a](b)"
        );
        assert_eq!(escape_inline("a\n# b \u{7}"), "a # b");
        assert_eq!(escape_inline("# b"), "\\# b");
    }
}
