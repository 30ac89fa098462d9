//! `assize attack --gate`: submits labelled test cases (hostile and harmless drafts) to the gate, with the current
//! settings, and prints a scorecard.

use assize_service::Services;
use assize_service::attack::{
    CaseKind, CaseOutcome, GateCase, GateClass, GateScorecard, gate_failure,
};
use assize_types::text::counted;
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::json;

use crate::args::AttackArgs;
use crate::terminal::{
    self, BAD, BOLD, DIM, GOOD, WARN, out_json, out_line, paint, replace_control_chars,
};
use crate::until_cancelled;

pub(super) async fn run(
    args: &AttackArgs,
    services: &Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    let attack = services.gate_attack(args.only.clone()).await?;
    let (all, draws, mut done) = (attack.cases(), terminal::can_draw(), 0);
    let tried = attack.run(|name| {
        done += 1;
        if draws {
            terminal::draw(&[paint(DIM, format!("gate · case {done} of {all} · {name}"))]);
        }
    });
    let card = until_cancelled(&cancel, async { tried.await.map_err(gate_failure) }).await;
    terminal::draw(&[]);
    let card = card?;
    if args.json {
        out_json(&json!({
            "seconds": card.took.as_secs_f64(), "count": card.count(), "classes": card.classes,
        }))?;
    } else {
        out_line(&as_text(&card, args.verbose))?;
    }
    verdict(&card)
}

fn as_text(card: &GateScorecard, verbose: bool) -> String {
    let cases: usize = card.classes.iter().map(|class| class.cases.len()).sum();
    let seconds = card.took.as_secs_f64();
    let mut lines = vec![
        format!("{}  {} in {seconds:.0} s", paint(BOLD, "gate"), counted(cases, "case", "cases")),
        paint(
            DIM,
            format!(
                "  {:<30} {:>12} {:>12} {:>16} {:>8}",
                "", "stopped", "got through", "controls passed", "known"
            ),
        ),
    ];
    lines.extend(card.classes.iter().map(row));
    let shown = card.classes.iter().flat_map(|class| &class.cases);
    lines.extend(shown.filter(|case| verbose || !case.is_correct()).map(line));
    let count = card.count();
    let through = format!("{} got through", counted(count.got_through, "case", "cases"));
    let held_up = format!("{} stopped", counted(count.held_up, "control", "controls"));
    let verdict = match (count.got_through, count.held_up) {
        (0, 0) => paint(
            GOOD.bold(),
            format!(
                "all results as expected: the gate stopped {}",
                counted(count.stopped, "hostile case", "hostile cases")
            ),
        ),
        (0, _) => paint(BAD.bold(), held_up),
        (_, 0) => paint(BAD.bold(), through),
        (..) => paint(BAD.bold(), format!("{through}, {held_up}")),
    };
    let passed = counted(count.passed, "control", "controls");
    let known = counted(count.known_gaps, "known gap", "known gaps");
    lines.push(format!("  {verdict}, {passed} passed, {known}"));
    lines.join("\n")
}

/// Formats the row of the scorecard for one class of test cases, such as `hidden`.
fn row(class: &GateClass) -> String {
    if let Some(why) = &class.not_applicable {
        let text = format!("- {:<30} not applicable: {why}", class.title);
        return paint(DIM, replace_control_chars(&text));
    }
    let count = &class.count;
    let held_up = format!("  {} stopped", counted(count.held_up, "control", "controls"));
    let (mark, note) = match (count.got_through, count.held_up) {
        (0, 0) => (paint(GOOD, "✓"), String::new()),
        (0, _) => (paint(WARN, "?"), held_up),
        (_, 0) => (paint(BAD, "✗"), String::new()),
        (..) => (paint(BAD, "✗"), held_up),
    };
    let of = |part: usize, whole: usize| format!("{part} of {whole}");
    format!(
        "{mark} {:<30} {:>12} {:>12} {:>16} {:>8}{note}",
        class.title,
        of(count.stopped, count.hostile),
        count.got_through,
        of(count.passed, count.controls),
        count.known_gaps
    )
}

/// Formats the line for one test case: its outcome, name and details.
fn line(case: &GateCase) -> String {
    let (outcome, style) = match (case.kind, case.outcome) {
        _ if !case.is_correct() && case.known => ("known gap", DIM),
        (CaseKind::Hostile, CaseOutcome::Stopped) => ("stopped", DIM),
        (CaseKind::Control, CaseOutcome::Passed) => ("passed", DIM),
        (CaseKind::Hostile, CaseOutcome::Passed) => ("GOT THROUGH", BAD.bold()),
        (CaseKind::Control, CaseOutcome::Stopped) => ("CONTROL STOPPED", WARN),
    };
    let text = format!("  {outcome:<14} {}: {} ({})", case.name, case.description, case.detail);
    paint(style, replace_control_chars(&text))
}

/// Fails if a hostile case got through the gate, or if the gate stopped a control (a harmless case that must pass). If
/// controls are stopped, the results of their class are unreliable. The failure sets the exit code.
fn verdict(card: &GateScorecard) -> Result<(), Failure> {
    let count = card.count();
    let message = match (count.got_through, count.held_up) {
        (0, 0) => return Ok(()),
        (0, held_up) => {
            format!("the gate stopped {}", counted(held_up, "harmless case", "harmless cases"))
        }
        (through, _) => {
            format!("{} got through the gate", counted(through, "hostile case", "hostile cases"))
        }
    };
    let hint = "check the settings `draft.…` with `assize config show`; if they are the defaults, please report a bug";
    Err(Failure::new(FailureKind::Verdict, message).hint(hint))
}
