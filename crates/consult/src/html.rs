//! The report as one page that needs nothing else: no script, no picture, no address.

use std::fmt::Write as _;

use assize_debate::{BEST, METRICS, Verdict};
use assize_types::text::{is_invisible, shorten};

use crate::answer::Move;
use crate::drift::Round;
use crate::figures::Grounded;
use crate::report::{Placed, Report, UNLIKE, short, unanswered};
use crate::state::FlagKind;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c1f24; --soft: #5a626d; --line: #d9dde3; --page: #fbfbfa;
  --card: #ffffff; --warn: #8a4b00; --warn-page: #fff4e2; --j0: #2f6db5; --j1: #c4611c; --j2: #2f8a5b;
  --j3: #8a56b8; --j4: #a83a55; --j5: #5f6b2d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e9eb; --soft: #a2a9b3; --line: #363c45; --page: #15181c;
  --card: #1d2127; --warn: #ffc980; --warn-page: #33270f; --j0: #6fa8e8; --j1: #f0955a; --j2: #63c08f;
  --j3: #bd92e6; --j4: #ea8298; --j5: #b4c172; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 54rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .2rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .8rem; }
.soft { color: var(--soft); } .small { font-size: .88rem; }
.flag { background: var(--warn-page); color: var(--warn); border-radius: .5rem; padding: .55rem .8rem; margin: .5rem 0;
  font-size: .92rem; overflow-wrap: anywhere; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.2rem; margin: 1rem 0; }
article h3 { margin: 0; font-size: 1.15rem; line-height: 1.3; } .score { font-variant-numeric: tabular-nums; font-weight: 650; }
blockquote { margin: .4rem 0 .4rem 0; padding-left: .8rem; border-left: 3px solid var(--line); overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; } th { text-align: left; font-weight: 600; }
th, td { padding: .35rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide { overflow-x: auto; } svg { display: block; width: 100%; max-width: 36rem; height: auto; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg .grid { stroke: var(--line); } details { margin: .6rem 0; } td details { margin: 0; } summary { cursor: pointer; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem; padding: .8rem; font-size: .85rem; }
.key span { display: inline-block; margin-right: 1.1rem; } .key i { display: inline-block; width: .75rem; height: .75rem;
  border-radius: .2rem; margin-right: .35rem; vertical-align: -.05rem; }
";

/// How many colours there are for judges.
const COLOURS: usize = 6;

impl Report {
    /// The report as a page that can be opened anywhere. All words in it that are not ours are text.
    pub fn to_html(&self) -> String {
        let company = text(&self.company.called());
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{company}: recommendations</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{company}</h1>\n<p class=\"soft\">{} moves debated, {} recommended · {}</p>\n",
            self.policy_scores.len(),
            self.recommended_moves.len(),
            text(&self.calls())
        );
        for flag in self.common_flags() {
            let strong = matches!(
                flag.kind,
                FlagKind::Synthetic | FlagKind::Rehearsal | FlagKind::CompanyNotVerified
            );
            let head =
                if strong { short(flag.kind).to_uppercase() } else { short(flag.kind).to_owned() };
            let _ = writeln!(
                page,
                "<p class=\"flag\"><b>{}</b>: {}</p>",
                text(&head),
                text(&flag.message)
            );
        }
        page.push_str("<h2>Recommended</h2>\n");
        page.push_str(&self.judges_key());
        for placed in &self.recommended_moves {
            page.push_str(&self.card(placed));
        }
        if !self.other_moves.is_empty() {
            let _ = writeln!(page, "<h2>The other {}</h2>", self.other_moves.len());
            page.push_str(&self.others());
        }
        page.push_str("<h2>Where the judges disagree</h2>\n");
        page.push_str(&self.judges_key());
        page.push_str(&self.spread());
        page.push_str("<h2>What it rests on</h2>\n");
        for (title, document) in [
            ("F1, the financial inference", &self.f1_financial_inference),
            ("F2, the trend inference", &self.f2_trend_inference),
            ("What is known of its figures", &self.financial_data_raw),
            ("What is known of its news", &self.news_data_raw),
        ] {
            let _ = writeln!(
                page,
                "<details><summary>{}</summary>{}</details>",
                text(title),
                pages(document)
            );
        }
        let _ = writeln!(page, "<p class=\"soft small\">Moves with {}.</p>", text(&self.tie_rule));
        if let Some(made) = &self.made {
            let words = text(&made.sentence(&self.spent));
            let _ = writeln!(page, "<p class=\"soft small\">{words}</p>");
        }
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }

    fn verdict_of(&self, placed: &Placed) -> Option<&Verdict> {
        self.policy_scores.iter().find(|one| one.move_id == placed.move_id).map(|one| &**one)
    }

    /// Whose colour is whose.
    fn judges_key(&self) -> String {
        let Some(verdict) = self.policy_scores.first() else { return String::new() };
        let mut key = String::from("<p class=\"key small soft\">");
        for (index, (id, name)) in verdict.agents.iter().enumerate() {
            let _ = write!(
                key,
                "<span><i style=\"background: var(--j{})\"></i>{} {}</span>",
                index % COLOURS,
                text(id),
                text(name)
            );
        }
        key.push_str("</p>\n");
        key
    }

    /// One recommended move.
    fn card(&self, placed: &Placed) -> String {
        let suggestion = self.move_suggestions.iter().find(|one| one.move_id == placed.move_id);
        let (Some(suggestion), Some(verdict)) = (suggestion, self.verdict_of(placed)) else {
            return String::new();
        };
        let before = placed
            .blind_score
            .map(|blind| format!(", {blind} before the debate"))
            .unwrap_or_default();
        let mut card = format!(
            "<article>\n<h3>{}. {}</h3>\n<p class=\"soft small\"><span class=\"score\">{} of {}</span>{before} · {} · \
             proposed by {}</p>\n<p>{}</p>\n",
            placed.rank,
            text(&placed.title),
            placed.total_score,
            placed.out_of,
            text(&placed.move_id),
            text(&suggestion.persona),
            text(suggestion.proposed.thesis.trim())
        );
        if let Some(lead) = self.lead(placed) {
            let _ = writeln!(card, "<p class=\"small\">{}</p>", text(&lead));
        }
        card.push_str(&bars(verdict));
        card.push_str("<p><b>What decided the scores</b></p>\n");
        for (id, score) in &verdict.scores_by_agent {
            let _ = writeln!(
                card,
                "<blockquote><b>{}</b> {}</blockquote>",
                text(id),
                text(&score.card.reasoning)
            );
        }
        card.push_str("<p><b>What the critic could not be answered on</b></p>\n");
        for (id, words) in unanswered(verdict) {
            let _ = writeln!(card, "<blockquote><b>{}</b> {}</blockquote>", text(id), text(words));
        }
        card.push_str(&lines(placed, verdict.rounds));
        card.push_str("<details><summary>The critic's last words, to each</summary>\n");
        for (log, entries) in &verdict.conversation_logs {
            if let Some(last) = entries.iter().rev().find(|entry| entry.role == "critic") {
                let _ = writeln!(
                    card,
                    "<blockquote><b>to {}</b> {}</blockquote>",
                    log.maker(),
                    text(&last.content)
                );
            }
        }
        card.push_str("</details>\n");
        card.push_str(&plan(&suggestion.proposed));
        let cited = suggestion.cited.iter().map(|one| format!("{}, {}", one.finding, one.title));
        let cited: Vec<String> = cited.collect();
        let cited = if cited.is_empty() { "no finding".to_owned() } else { cited.join("; ") };
        let _ = writeln!(card, "<p class=\"small\">It rests on {}.</p>", text(&cited));
        card.push_str(
            "<details><summary>Where its figures come from</summary>\n<ul class=\"small\">\n",
        );
        if let Some(words) = suggestion.without_figures() {
            let _ = writeln!(card, "<li>{words}</li>");
        }
        for Grounded { figure, source, place, alike } in &suggestion.figures {
            let unlike = if *alike { "" } else { UNLIKE };
            let _ = writeln!(
                card,
                "<li><b>{}</b> {unlike}{} <span class=\"soft\">({})</span></li>",
                text(figure),
                text(place),
                text(source)
            );
        }
        card.push_str("</ul></details>\n");
        for flag in self.flags_of(&placed.move_id) {
            let _ = writeln!(
                card,
                "<p class=\"flag\"><b>{}</b>: {}</p>",
                short(flag.kind),
                text(&flag.message)
            );
        }
        let _ = writeln!(
            card,
            "<details><summary>The whole move, as it was debated</summary>{}</details>\n</article>",
            pages(&suggestion.content)
        );
        card
    }

    fn others(&self) -> String {
        let mut rows = String::from(
            "<div class=\"wide\"><table>\n<tr><th class=\"n\">rank</th><th>move</th><th class=\"n\">score</th><th>flags</th></tr>\n",
        );
        for placed in &self.other_moves {
            let flags: Vec<&str> =
                self.flags_of(&placed.move_id).map(|flag| short(flag.kind)).collect();
            let judges = self.verdict_of(placed).map(|verdict| {
                let scores = verdict.scores_by_agent.iter();
                let totals: Vec<String> =
                    scores.map(|(id, score)| format!("{id} {}", score.card.total())).collect();
                totals.join(", ")
            });
            let suggestion = self.move_suggestions.iter().find(|one| one.move_id == placed.move_id);
            let whole = suggestion.map(|one| pages(&one.content)).unwrap_or_default();
            let _ = writeln!(
                rows,
                "<tr><td class=\"n\">{}</td><td><details><summary>{} <span class=\"soft\">{}</span></summary>{whole}\
                 </details></td><td class=\"n\">{} of {}<br><span class=\"soft small\">{}</span></td><td>{}</td></tr>",
                placed.rank,
                text(&placed.title),
                text(&placed.move_id),
                placed.total_score,
                placed.out_of,
                text(&judges.unwrap_or_default()),
                text(&flags.join(", "))
            );
        }
        rows.push_str("</table></div>\n");
        rows
    }

    /// Each judge's total for each move, on one line a move: how far they are apart.
    fn spread(&self) -> String {
        const ROW: usize = 24;
        const LEFT: f64 = 290.0;
        const WIDTH: f64 = 760.0;
        let all: Vec<&Placed> = self.recommended_moves.iter().chain(&self.other_moves).collect();
        let height = ROW * all.len() + 34;
        let at = |total: u32| LEFT + (WIDTH - LEFT - 20.0) * f64::from(total) / f64::from(BEST);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" style=\"max-width: none\" role=\"img\" aria-label=\"Each judge's total of {BEST} for each move\">\n"
        );
        for tick in (0..=BEST).step_by(10) {
            let x = at(tick);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"8\" y2=\"{}\"/><text class=\"soft\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
                height - 24,
                height - 8
            );
        }
        for (index, placed) in all.iter().enumerate() {
            let Some(verdict) = self.verdict_of(placed) else { continue };
            let y = index * ROW + 20;
            let totals: Vec<u32> =
                verdict.scores_by_agent.values().map(|score| score.card.total()).collect();
            let _ = writeln!(
                svg,
                "<text x=\"0\" y=\"{}\">{}. {} {}</text>",
                y + 4,
                placed.rank,
                text(&placed.move_id),
                text(&shorten(&placed.title, 30))
            );
            if let (Some(least), Some(most)) = (totals.iter().min(), totals.iter().max()) {
                let (from, to) = (at(*least), at(*most));
                let _ = writeln!(
                    svg,
                    "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y}\" y2=\"{y}\" stroke=\"var(--line)\" stroke-width=\"4\"/>"
                );
            }
            for (judge, ((id, _), total)) in verdict.scores_by_agent.iter().zip(&totals).enumerate()
            {
                // Equal totals lie beside each other, not on top of each other.
                let same = totals[..judge].iter().filter(|other| *other == total).count() as f64;
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"5\" fill=\"var(--j{})\"><title>{}: {total}</title></circle>",
                    at(*total) + same * 7.0,
                    judge % COLOURS,
                    text(id)
                );
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// The scores of one move: by metric, a bar for each judge.
fn bars(verdict: &Verdict) -> String {
    const BAR: usize = 11;
    const GAP: usize = 3;
    const LEFT: f64 = 144.0;
    const WIDTH: f64 = 480.0;
    let judges = verdict.scores_by_agent.len();
    let group = judges * (BAR + GAP) + 12;
    let height = METRICS.len() * group;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Scores by metric and judge\">\n"
    );
    for (row, metric) in METRICS.iter().enumerate() {
        let top = row * group + 6;
        let middle = top + judges * (BAR + GAP) / 2 + 3;
        let _ = writeln!(svg, "<text x=\"0\" y=\"{middle}\">{}</text>", metric.replace('_', " "));
        for (judge, (id, score)) in verdict.scores_by_agent.iter().enumerate() {
            let value = score.card.scores()[row];
            let y = top + judge * (BAR + GAP);
            let width = (WIDTH - LEFT - 30.0) * f64::from(value) / 10.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"var(--j{})\"><title>{}: {value}</title></rect>\
                 <text class=\"soft\" x=\"{:.1}\" y=\"{}\">{value}</text>",
                judge % COLOURS,
                text(id),
                LEFT + width + 6.0,
                y + BAR
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// How much of what was said was new, round by round: the critic's line and that of the decision makers.
fn lines(placed: &Placed, rounds: u32) -> String {
    const WIDTH: f64 = 480.0;
    const HEIGHT: f64 = 120.0;
    const LEFT: f64 = 52.0;
    const BOTTOM: f64 = 22.0;
    if placed.drift.len() < 2 {
        return String::new();
    }
    let x = |round: u32| {
        LEFT + (WIDTH - LEFT - 12.0) * f64::from(round - 1) / f64::from(rounds.max(2) - 1)
    };
    let y = |share: f64| 6.0 + (HEIGHT - BOTTOM - 6.0) * (1.0 - share);
    let mut svg = format!(
        "<p><b>Drift by round</b> <span class=\"soft small\">the share of words that were new to the conversation: \
         <span style=\"color: var(--j3)\">critic</span>, <span style=\"color: var(--j5)\">decision makers</span>; \
         near 0 %, nothing new was said\
         </span></p>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Share of new words by round\">\n"
    );
    for share in [0.0, 0.5, 1.0] {
        let at = y(share);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"soft\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
            LEFT - 6.0,
            at + 4.0,
            share * 100.0
        );
    }
    // Not more marks than there is room for.
    let step = (placed.drift.len() / 12 + 1) as u32;
    for round in
        placed.drift.iter().map(|round| round.round).filter(|round| (round - 1) % step == 0)
    {
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{round}</text>",
            x(round),
            HEIGHT - 5.0
        );
    }
    let mut line = |name: &str, colour: usize, share: fn(&Round) -> Option<f64>| {
        let points = placed.drift.iter().filter_map(|round| Some((round.round, share(round)?)));
        let path: Vec<String> =
            points.map(|(round, share)| format!("{:.1},{:.1}", x(round), y(share))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"var(--j{colour})\" stroke-width=\"2.5\">\
             <title>{name}</title></polyline>",
            path.join(" ")
        );
    };
    line("critic", 3, |round| round.critic);
    line("decision makers", 5, |round| round.decision_makers);
    svg.push_str("</svg>\n");
    svg
}

/// What is done, and what may go wrong.
fn plan(proposed: &Move) -> String {
    let list = |items: &[String]| -> String {
        items.iter().map(|item| format!("<li>{}</li>", text(item))).collect()
    };
    format!(
        "<p><b>What is done</b></p><ol>{}</ol>\n<p><b>Cost and time</b>, as the analyst sees them: {} {}</p>\n\
         <p><b>Risks</b></p><ul>{}</ul>\n",
        list(&proposed.actions),
        text(proposed.cost.trim()),
        text(proposed.timeline.trim()),
        list(&proposed.risks)
    )
}

/// A document: its tables as tables, and the rest as it is written.
fn pages(document: &str) -> String {
    let is_row = |line: &&str| line.starts_with('|') && line.ends_with('|') && line.len() > 1;
    let mut page = String::new();
    let lines: Vec<&str> = document.lines().collect();
    for run in lines.chunk_by(|one, other| is_row(one) == is_row(other)) {
        if !run.first().is_some_and(is_row) {
            let words = run.join("\n");
            if !words.trim().is_empty() {
                let _ = writeln!(page, "<pre>{}</pre>", text(words.trim_matches('\n')));
            }
            continue;
        }
        page.push_str("<div class=\"wide\"><table>\n");
        for (index, line) in run.iter().enumerate() {
            let cells = line[1..line.len() - 1].split('|').map(str::trim);
            if index == 1 && cells.clone().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':')))
            {
                continue;
            }
            let tag = if index == 0 { "th" } else { "td" };
            let row: String = cells.map(|cell| format!("<{tag}>{}</{tag}>", text(cell))).collect();
            let _ = writeln!(page, "<tr>{row}</tr>");
        }
        page.push_str("</table></div>\n");
    }
    page
}

/// Words as words: nothing in them is taken for markup, and nothing in them drives anything.
fn text(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            c if (c.is_control() && c != '\n' && c != '\t') || is_invisible(c) => {}
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
