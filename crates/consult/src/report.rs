//! Report of a consultation, with its rendering as Markdown and its list of documents.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use assize_debate::{DebateVerdict, METRICS};
use assize_llm::CallTotals;
use assize_types::text::{one_line, shorten};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::documents::{
    CitedFinding, MoveSuggestion, PARTLY_SYNTHETIC, SYNTHETIC, clean, escape_inline, escape_text,
};
use crate::drift::{RoundDrift, drift};
use crate::figures::GroundedFigure;
use crate::rank::TIE_RULE;
use crate::sources::{Figure, table};
use crate::state::{ConsultCompany, ConsultState, Flag, FlagKind};

/// Result of a consultation, with all its documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConsultReport {
    /// Ticker of the company; null for a private company.
    pub company_ticker: Option<String>,
    pub company: ConsultCompany,
    pub financial_data_raw: String,
    pub news_data_raw: String,
    pub f1_financial_inference: String,
    pub f2_trend_inference: String,
    pub move_suggestions: Vec<Arc<MoveSuggestion>>,
    /// Verdict of each debate, with the conversations of the debate.
    pub policy_scores: Vec<Arc<DebateVerdict>>,
    pub recommended_moves: Vec<RankedMove>,
    pub other_moves: Vec<RankedMove>,
    pub tie_rule: String,
    /// Figures from filings, each with its source and date.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    pub flags: Vec<Flag>,
    pub spent: CallTotals,
    /// When and how the report was created, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ReportOrigin>,
}

/// When and how a report was created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportOrigin {
    pub run: String,
    /// Date on which the report was created, such as `2026-11-15`.
    pub on: String,
    pub provider: String,
    pub model: String,
    /// Models of roles that did not use the default model, by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// Isolation of the debates.
    pub isolation: String,
}

impl ReportOrigin {
    /// Describes in one sentence when and how the report was created.
    pub(crate) fn sentence(&self, spent: &CallTotals) -> String {
        let who = match self.provider == self.model {
            true => self.provider.clone(),
            false => format!("{} {}", self.provider, self.model),
        };
        let others: Vec<String> =
            self.models.iter().map(|(role, model)| format!("{role}: {model}")).collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(" ({})", others.join(", ")),
        };
        format!(
            "Created on {} in run {} by {who}{others}; debates ran in: {}; cost: {}.",
            self.on, self.run, self.isolation, spent.cost
        )
    }
}

/// A move with its rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankedMove {
    /// Rank, counted from 1.
    pub rank: usize,
    pub move_id: String,
    pub title: String,
    pub total_score: u32,
    pub out_of: u32,
    /// Total score that the judges gave before the debate, if the run requested scores before the debate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blind_score: Option<u32>,
    /// New words as a share of the words in the debate, by round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<RoundDrift>,
}

impl From<&ConsultState> for ConsultReport {
    fn from(state: &ConsultState) -> ConsultReport {
        let ranked = state.ranked.as_deref().cloned().unwrap_or_default();
        let place = |offset: usize, ids: &[String]| -> Vec<RankedMove> {
            let placed = ids.iter().enumerate().filter_map(|(index, id)| {
                let verdict = state.policy_scores.iter().find(|one| one.move_id == *id)?;
                let suggestion = state.move_suggestions.iter().find(|one| one.move_id == *id)?;
                Some(RankedMove {
                    rank: offset + index + 1,
                    move_id: id.clone(),
                    title: shorten(&one_line(&clean(&suggestion.proposed.title)), 120),
                    total_score: verdict.total_score,
                    out_of: verdict.out_of,
                    blind_score: verdict.blind_total(),
                    drift: drift(&suggestion.content, verdict),
                })
            });
            placed.collect()
        };
        ConsultReport {
            company_ticker: state.company.ticker.as_ref().map(ToString::to_string),
            company: state.company.clone(),
            financial_data_raw: state.financial_data_raw.to_string(),
            news_data_raw: state.news_data_raw.to_string(),
            f1_financial_inference: state.f1_financial_inference.to_string(),
            f2_trend_inference: state.f2_trend_inference.to_string(),
            move_suggestions: state.move_suggestions.clone(),
            policy_scores: state.policy_scores.clone(),
            recommended_moves: place(0, &ranked.recommended_moves),
            other_moves: place(ranked.recommended_moves.len(), &ranked.other_moves),
            tie_rule: TIE_RULE.to_owned(),
            figures: state.gathered.figures.clone(),
            flags: state.flags.clone(),
            spent: state.spent,
            origin: None,
        }
    }
}

/// Banner above text that the rehearsal model generated instead of a real model.
pub const REHEARSAL_BANNER: &str = "> **REHEARSAL: no model was called.**\n\n";

/// Puts the rehearsal banner above each synthetic part of the gathered data.
pub fn label_synthetic_parts(text: &str) -> String {
    let synthetic = format!("> **{SYNTHETIC}**\n\n");
    text.replace(&synthetic, &format!("{REHEARSAL_BANNER}{synthetic}"))
}

impl ConsultReport {
    pub(crate) fn verdict(&self, move_id: &str) -> Option<&DebateVerdict> {
        self.policy_scores.iter().find(|one| one.move_id == move_id).map(|one| &**one)
    }

    pub(crate) fn suggestion(&self, move_id: &str) -> Option<&MoveSuggestion> {
        self.move_suggestions.iter().find(|one| one.move_id == move_id).map(|one| &**one)
    }

    /// Flags that apply to one move.
    pub fn flags_of<'a>(&'a self, move_id: &'a str) -> impl Iterator<Item = &'a Flag> {
        self.flags.iter().filter(move |flag| flag.move_id.as_deref() == Some(move_id))
    }

    /// Flags that apply to the whole report, the most serious first.
    pub fn common_flags(&self) -> impl Iterator<Item = &Flag> {
        let mut flags: Vec<&Flag> =
            self.flags.iter().filter(|flag| flag.move_id.is_none()).collect();
        flags.sort_by_key(|flag| match flag.kind {
            FlagKind::Rehearsal => 0,
            FlagKind::Synthetic => 1,
            FlagKind::CompanyNotVerified => 2,
            FlagKind::Assumed | FlagKind::NotDebated => 3,
            FlagKind::UnsupportedFigure
            | FlagKind::Moves
            | FlagKind::NoIsolation
            | FlagKind::WeakerIsolation => 4,
            FlagKind::Forked => 5,
            FlagKind::Tie => 7,
            _ => 6,
        });
        flags.into_iter()
    }

    /// Banners above documents: one if the run is a rehearsal, and one if the data is synthetic.
    fn banners(&self) -> String {
        let find = |kind: FlagKind| self.flags.iter().find(|flag| flag.kind == kind);
        let mut text = String::new();
        if find(FlagKind::Rehearsal).is_some() {
            text.push_str(REHEARSAL_BANNER);
        }
        if let Some(flag) = find(FlagKind::Synthetic) {
            let _ = write!(text, "> **SYNTHETIC: {}.**\n\n", flag.message);
        }
        text
    }

    /// Explains why a move ranks before the next move: the difference in points, in total and by metric.
    pub(crate) fn lead(&self, placed: &RankedMove) -> Option<String> {
        let all = self.recommended_moves.iter().chain(&self.other_moves);
        let next = all.clone().find(|other| other.rank == placed.rank + 1)?;
        let (ours, theirs) = (self.verdict(&placed.move_id)?, self.verdict(&next.move_id)?);
        let by = placed.total_score.saturating_sub(next.total_score);
        let metrics = METRICS.iter().enumerate().map(|(index, metric)| {
            let sum = |verdict: &DebateVerdict| -> i64 {
                let scores = verdict.scores_by_agent.values();
                scores.map(|score| i64::from(score.card.scores()[index])).sum()
            };
            (metric.replace('_', " "), sum(ours) - sum(theirs))
        });
        let apart: Vec<String> = metrics
            .filter(|(_, apart)| *apart != 0)
            .map(|(metric, apart)| format!("{metric} {apart:+}"))
            .collect();
        let apart = match apart.is_empty() {
            true => "equal in all metrics".to_owned(),
            false => apart.join(", "),
        };
        Some(match by {
            0 => format!("Tied with {}; ahead by the tie rule ({apart}).", next.move_id),
            1 => format!("1 point ahead of {} ({apart}).", next.move_id),
            by => format!("{by} points ahead of {} ({apart}).", next.move_id),
        })
    }

    /// Renders all documents of the report, by file name.
    pub fn documents(&self) -> BTreeMap<String, String> {
        let mut documents = BTreeMap::from([
            ("financial_data_raw.md".to_owned(), self.financial_data_raw.clone()),
            ("news_data_raw.md".to_owned(), self.news_data_raw.clone()),
            ("F1.md".to_owned(), self.f1_financial_inference.clone()),
            ("F2.md".to_owned(), self.f2_trend_inference.clone()),
            ("report.md".to_owned(), self.to_markdown()),
            ("report.html".to_owned(), self.to_html()),
        ]);
        for suggestion in &self.move_suggestions {
            documents
                .insert(format!("moves/{}.md", suggestion.move_id), suggestion.content.clone());
        }
        for verdict in &self.policy_scores {
            let name = format!("transcripts/{}.md", verdict.move_id);
            documents.insert(name, transcript(verdict));
        }
        // Each document gets the banners, because users may read it alone.
        let banners = self.banners();
        let labels = [SYNTHETIC, PARTLY_SYNTHETIC].map(|label| format!("> **{label}**\n\n"));
        for (name, text) in &mut documents {
            match name.as_str() {
                "report.md" | "report.html" => {}
                // Filed figures and the user's files get no banner. Synthetic parts already have their label.
                "financial_data_raw.md" | "news_data_raw.md" => {
                    if self.spent.rehearsal {
                        *text = label_synthetic_parts(text);
                    }
                }
                _ => {
                    let label = labels.iter().find(|label| text.contains(*label));
                    let plain =
                        label.map_or_else(|| text.clone(), |label| text.replacen(label, "", 1));
                    *text = format!("{banners}{plain}");
                }
            }
        }
        documents
    }

    /// Renders the report as Markdown, the recommended moves first.
    pub fn to_markdown(&self) -> String {
        let mut text =
            format!("# {}: recommendations\n", escape_inline(&self.company.display_name()));
        for flag in self.common_flags() {
            let message = match flag.kind {
                FlagKind::Synthetic => format!("SYNTHETIC: {}.", flag.message),
                FlagKind::Rehearsal => "REHEARSAL: no model was called.".to_owned(),
                FlagKind::CompanyNotVerified => format!("COMPANY NOT VERIFIED: {}.", flag.message),
                FlagKind::Tie => format!("Tie: {}.", flag.message),
                FlagKind::Moves => format!("Missing or extra moves: {}.", flag.message),
                _ => format!("Note: {}.", flag.message),
            };
            let _ = write!(text, "\n> **{}**\n", escape_inline(&message));
        }
        for placed in &self.recommended_moves {
            self.render_move(&mut text, placed);
        }
        if !self.other_moves.is_empty() {
            let _ = write!(text, "\n## Other moves ({})\n\n", self.other_moves.len());
            let rows = self.other_moves.iter().map(|placed| {
                let flags: Vec<String> = self
                    .flags_of(&placed.move_id)
                    .map(|flag| flag_label(flag.kind).to_owned())
                    .collect();
                vec![
                    placed.rank.to_string(),
                    placed.move_id.clone(),
                    escape_inline(&placed.title),
                    format!("{} of {}", placed.total_score, placed.out_of),
                    flags.join(", "),
                ]
            });
            let rows: Vec<Vec<String>> = rows.collect();
            text.push_str(&table(&["rank", "move", "title", "score", "flags"], &rows));
        }
        let _ = write!(
            text,
            "\n## Method\n\nAnalysts proposed moves from F1 and F2 (number of moves: {}). Each move was debated \
             with a critic (number of rounds: {}) and scored on {}. The consultation took {}. Moves with {}.\n",
            self.move_suggestions.len(),
            self.policy_scores.first().map_or(0, |verdict| verdict.rounds),
            METRICS.map(|metric| metric.replace('_', " ")).join(", "),
            self.calls(),
            TIE_RULE,
        );
        if let Some(origin) = &self.origin {
            let _ = write!(text, "\n{}\n", origin.sentence(&self.spent));
        }
        text
    }

    /// Describes the number of model calls, and how many of them were not planned.
    pub(crate) fn calls(&self) -> String {
        let CallTotals { calls, extra, rehearsal, .. } = self.spent;
        let made = if rehearsal { "simulated calls" } else { "calls to models" };
        match extra {
            0 => format!("{calls} {made}"),
            extra => format!("{calls} {made}, {extra} of them repeated or for summaries"),
        }
    }

    /// Renders the section of one recommended move: its thesis, scores, objections, actions, risks and sources.
    fn render_move(&self, text: &mut String, placed: &RankedMove) {
        let RankedMove { rank, move_id, title, total_score, out_of, blind_score, drift } = placed;
        let (Some(suggestion), Some(verdict)) = (self.suggestion(move_id), self.verdict(move_id))
        else {
            return;
        };
        let _ = write!(
            text,
            "\n## {rank}. {}\n\n**{total_score} of {out_of}** · {move_id} · proposed by {}, {}\n\n{}\n",
            escape_inline(title),
            suggestion.agent_id,
            suggestion.persona,
            escape_text(&suggestion.proposed.thesis)
        );
        if let Some(lead) = self.lead(placed) {
            let _ = write!(text, "\n{lead}\n");
        }
        if let Some(blind) = blind_score {
            let _ = write!(text, "\nScore before the debate: {blind} of {out_of}.\n");
        }
        let heads: Vec<String> = METRICS.iter().map(|metric| metric.replace('_', " ")).collect();
        let heads: Vec<&str> = std::iter::once("judge")
            .chain(heads.iter().map(String::as_str))
            .chain(["total"])
            .collect();
        let rows = verdict.scores_by_agent.iter().map(|(id, score)| {
            let name = verdict.agents.get(id).map_or("", String::as_str);
            let scores = score.card.scores().map(|score| score.to_string());
            std::iter::once(format!("{id} {name}"))
                .chain(scores)
                .chain([score.card.total().to_string()])
                .collect::<Vec<_>>()
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let _ = write!(text, "\n{}\n", table(&heads, &rows));
        text.push_str("Reasons for the scores:\n");
        for (id, score) in &verdict.scores_by_agent {
            let _ = writeln!(text, "- {id}: {}", escape_inline(&score.card.reasoning));
        }
        text.push_str("\nUnanswered objections:\n");
        for (id, objection) in unanswered(verdict) {
            let _ = writeln!(text, "- {id}: {}", escape_inline(objection));
        }
        if let [first, .., last] = &drift[..] {
            let share = |share: Option<f64>| {
                share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0))
            };
            let _ = write!(
                text,
                "\nShare of words that were new to the conversation: in round {}, {} of the critic's words and {} of \
                 the decision makers' words; in round {}, {} of the critic's words and {} of the decision makers' \
                 words.\n",
                first.round,
                share(first.critic),
                share(first.decision_makers),
                last.round,
                share(last.critic),
                share(last.decision_makers),
            );
        }
        text.push_str("\nThe critic's last entry to each decision maker:\n");
        for (maker, last) in last_of_critic(verdict) {
            let _ = writeln!(text, "- {maker}: {}", shorten(&escape_inline(last), 400));
        }
        for (head, items) in
            [("Actions", &suggestion.proposed.actions), ("Risks", &suggestion.proposed.risks)]
        {
            let _ = write!(text, "\n{head}:\n");
            for item in items {
                let _ = writeln!(text, "- {}", escape_inline(item));
            }
        }
        let _ = write!(
            text,
            "\nCost (the analyst's estimate): {}\n\nTimeline (the analyst's estimate): {}\n",
            escape_inline(&suggestion.proposed.cost),
            escape_inline(&suggestion.proposed.timeline)
        );
        text.push_str("\nSources of the figures in this move:\n");
        if let Some(note) = suggestion.without_figures() {
            let _ = writeln!(text, "- {note}");
        }
        for GroundedFigure { figure, source, place, alike } in &suggestion.figures {
            let unlike = if *alike { "" } else { UNLIKE };
            let _ = writeln!(text, "- {figure}: {unlike}{place} ({})", escape_inline(source));
        }
        text.push_str("\nBased on these findings:\n");
        if suggestion.cited.is_empty() {
            text.push_str("- no finding\n");
        }
        for CitedFinding { finding, title } in &suggestion.cited {
            let _ = writeln!(text, "- {finding}, {title}");
        }
        for flag in self.flags_of(move_id) {
            let _ = write!(
                text,
                "\n> **{}: {}.**\n",
                flag_label(flag.kind),
                escape_inline(&flag.message)
            );
        }
    }
}

/// The strongest unanswered objection that each judge named.
pub(crate) fn unanswered(verdict: &DebateVerdict) -> impl Iterator<Item = (&str, &str)> {
    verdict.scores_by_agent.iter().map(|(id, score)| match score.card.unanswered.trim() {
        "" => (id.as_str(), "no objection named"),
        objection => (id.as_str(), objection),
    })
}

/// Returns the critic's last entry in the conversation with each decision maker.
pub(crate) fn last_of_critic(verdict: &DebateVerdict) -> impl Iterator<Item = (String, &str)> {
    verdict.conversation_logs.iter().filter_map(|(log, entries)| {
        let last = entries.iter().rev().find(|entry| entry.role == "critic")?;
        Some((log.decision_maker_id(), &*last.content))
    })
}

/// Prefix that the report prints before the source of a figure if the number in the source may be the same only by
/// chance.
pub(crate) const UNLIKE: &str = "source unclear; the same number occurs at ";

/// Short name of a kind of flag, shown in reports.
pub fn flag_label(kind: FlagKind) -> &'static str {
    match kind {
        FlagKind::CompanyNotVerified => "company not verified",
        FlagKind::Synthetic => "synthetic",
        FlagKind::Rehearsal => "rehearsal",
        FlagKind::Source => "source",
        FlagKind::Moves => "moves",
        FlagKind::Partial => "partial",
        FlagKind::Repaired => "repaired scores",
        FlagKind::Tie => "tie",
        FlagKind::UnsupportedFigure => "unsupported figure",
        FlagKind::UnresolvedCitation => "unresolved citation",
        FlagKind::NoIsolation => "no isolation",
        FlagKind::WeakerIsolation => "weaker isolation",
        FlagKind::Forked => "debated again",
        FlagKind::NotDebated => "not debated",
        FlagKind::Assumed => "assumed scores",
    }
}

/// Renders the conversations about one move as Markdown.
fn transcript(verdict: &DebateVerdict) -> String {
    let mut text = format!("# {}: transcript\n", verdict.move_id);
    for (log, entries) in &verdict.conversation_logs {
        let id = log.decision_maker_id();
        let name = verdict.agents.get(&id).map(|name| format!(" ({name})")).unwrap_or_default();
        let _ = write!(text, "\n## {log}: conversation between the critic and {id}{name}\n");
        for entry in entries {
            let cut = if entry.cut_off { " (truncated)" } else { "" };
            let _ = write!(
                text,
                "\n### Round {}, {}{cut}\n\n{}\n",
                entry.round,
                entry.role,
                escape_text(&entry.content)
            );
        }
    }
    text
}
