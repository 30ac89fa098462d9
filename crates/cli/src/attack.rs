//! `assize attack`: attacks the sandboxes or the gate, and prints a scorecard.

mod gate;

use assize_config::{Isolation, RequestedIsolation};
use assize_service::Services;
use assize_service::attack::{AttackScorecard, ProbeFinding, ProbeGroup, ProbeOutcome, scorecards};
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::{Value, json};

use crate::args::AttackArgs;
use crate::terminal::{
    self, BAD, BOLD, DIM, GOOD, WARN, harmless, out_json, out_line, paint, warn,
};
use crate::until_cancelled;

pub(crate) async fn run(
    args: AttackArgs,
    services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    services.settings.refuse_withheld()?;
    if args.gate {
        return gate::run(&args, &services, cancel).await;
    }
    let wanted: RequestedIsolation = args
        .isolation
        .as_deref()
        .unwrap_or("auto")
        .parse()
        .map_err(|error| Failure::from_error(FailureKind::Usage, &error))?;
    let attack = services.sandbox_attack(wanted, args.only.clone()).await?;
    let mut cards = Vec::new();
    for (target, name, all) in attack.targets() {
        let mut progress = Progress { name, done: 0, all, draws: terminal::can_draw() };
        progress.draw("");
        let attacked = attack.run(target, |finding| progress.add(finding));
        let card = until_cancelled(&cancel, async { Ok(attacked.await) }).await;
        terminal::draw(&[]);
        let card = card?;
        if !args.json {
            out_line(&as_text(&card, args.verbose))?;
        }
        // Only complete scorecards are stored, not those of `--only`.
        if args.only.is_none()
            && let Err(failure) = scorecards::keep(&services.environment, (&card).into())
        {
            warn(failure.message());
        }
        cards.push(card);
    }
    if args.json {
        out_json(&as_json(&cards, &attack.skipped))?;
    } else {
        for (isolation, reason) in &attack.skipped {
            out_line(&format!("{isolation} skipped: {}", harmless(reason)))?;
        }
    }
    verdict(&cards)
}

struct Progress {
    name: Isolation,
    done: usize,
    all: usize,
    draws: bool,
}

impl Progress {
    fn add(&mut self, finding: &ProbeFinding) {
        self.done += 1;
        if finding.outcome == ProbeOutcome::Escaped {
            warn(&format!("{} escaped: {}", finding.name, finding.detail));
        }
        self.draw(&finding.name);
    }

    fn draw(&self, last: &str) {
        if self.draws {
            let line = format!("{} · {} of {} · {last}", self.name, self.done, self.all);
            terminal::draw(&[paint(DIM, line)]);
        }
    }
}

fn as_text(card: &AttackScorecard, verbose: bool) -> String {
    let count = card.count();
    let mut lines = vec![format!(
        "{}  {} probes in {:.0} s",
        paint(BOLD, &card.backend),
        card.findings.len(),
        card.took.as_secs_f64()
    )];
    let counts = card.by_group();
    lines.push(paint(
        DIM,
        format!("  {:<30} {:>8} {:>8} {:>15}", "", "blocked", "escaped", "not applicable"),
    ));
    for group in ProbeGroup::ALL {
        let Some(count) = counts.get(group) else { continue };
        let mark = match (count.escaped, count.broke) {
            (0, 0) => paint(GOOD, "✓"),
            (0, _) => paint(WARN, "?"),
            _ => paint(BAD, "✗"),
        };
        let broke =
            if count.broke > 0 { format!("  {} broke", count.broke) } else { String::new() };
        lines.push(format!(
            "{mark} {:<30} {:>8} {:>8} {:>15}{broke}",
            group.title(),
            count.blocked,
            count.escaped,
            count.not_applicable
        ));
    }
    for finding in &card.findings {
        let style = match finding.outcome {
            ProbeOutcome::Escaped => BAD.bold(),
            ProbeOutcome::Broke => WARN,
            ProbeOutcome::Blocked | ProbeOutcome::NotApplicable if !verbose => continue,
            ProbeOutcome::Blocked | ProbeOutcome::NotApplicable => DIM,
        };
        let outcome = match finding.outcome {
            ProbeOutcome::Blocked => "blocked",
            ProbeOutcome::Escaped => "ESCAPED",
            ProbeOutcome::NotApplicable => "not applicable",
            ProbeOutcome::Broke => "broke",
        };
        let text =
            format!("  {outcome:<14} {}: {} ({})", finding.name, finding.what, finding.detail);
        lines.push(paint(style, harmless(&text)));
    }
    let verdict = match count.escaped {
        0 => paint(GOOD.bold(), format!("nothing escaped: {} blocked", count.blocked)),
        escaped => paint(BAD.bold(), format!("{escaped} escaped")),
    };
    lines.push(format!("  {verdict}, {} not applicable here", count.not_applicable));
    lines.join("\n")
}

fn as_json(cards: &[AttackScorecard], skipped: &[(Isolation, String)]) -> Value {
    let backends: Vec<Value> = cards
        .iter()
        .map(|card| {
            json!({
                "backend": card.backend, "seconds": card.took.as_secs_f64(), "count": card.count(),
                "probes": card.findings,
            })
        })
        .collect();
    let skipped: Vec<Value> = skipped
        .iter()
        .map(|(isolation, reason)| json!({"backend": isolation, "reason": reason}))
        .collect();
    json!({"backends": backends, "skipped": skipped})
}

/// Fails, which sets the exit code, if a probe escaped or could not be run.
fn verdict(cards: &[AttackScorecard]) -> Result<(), Failure> {
    let sum = |count: fn(&AttackScorecard) -> usize| cards.iter().map(count).sum::<usize>();
    if cards.is_empty() {
        let message = "no sandbox is available here, so none was attacked";
        return Err(Failure::new(FailureKind::Sandbox, message).hint("`assize doctor` shows why"));
    }
    let (escaped, broke) = (sum(|card| card.count().escaped), sum(|card| card.count().broke));
    if escaped > 0 {
        return Err(Failure::new(
            FailureKind::Verdict,
            format!("{escaped} probes escaped from a sandbox"),
        )
        .hint("do not run untrusted code in it; please report this"));
    }
    if broke > 0 {
        let message = format!("{broke} probes could not be run because the sandbox broke");
        return Err(Failure::new(FailureKind::Sandbox, message));
    }
    Ok(())
}
