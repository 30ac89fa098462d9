//! `assize attack`: the sandboxes themselves on trial, and the gate.

mod gate;

use assize_config::{Isolation, Wanted};
use assize_service::Services;
use assize_service::attack::{Finding, Group, Outcome, Scorecard, scorecards};
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
    let wanted: Wanted = args
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
        let attacked = attack.run(target, |finding| progress.tell(finding));
        let card = until_cancelled(&cancel, async { Ok(attacked.await) }).await;
        terminal::draw(&[]);
        let card = card?;
        if !args.json {
            out_line(&as_text(&card, args.verbose))?;
        }
        // Only what tried everything says something about all of it.
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
    fn tell(&mut self, finding: &Finding) {
        self.done += 1;
        if finding.outcome == Outcome::Escaped {
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

fn as_text(card: &Scorecard, verbose: bool) -> String {
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
    for group in Group::ALL {
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
            Outcome::Escaped => BAD.bold(),
            Outcome::Broke => WARN,
            Outcome::Blocked | Outcome::NotApplicable if !verbose => continue,
            Outcome::Blocked | Outcome::NotApplicable => DIM,
        };
        let outcome = match finding.outcome {
            Outcome::Blocked => "blocked",
            Outcome::Escaped => "ESCAPED",
            Outcome::NotApplicable => "not applicable",
            Outcome::Broke => "broke",
        };
        let text =
            format!("  {outcome:<14} {}: {} ({})", finding.name, finding.what, finding.detail);
        lines.push(paint(style, harmless(&text)));
    }
    let verdict = match count.escaped {
        0 => paint(GOOD.bold(), format!("nothing got out: {} blocked", count.blocked)),
        escaped => paint(BAD.bold(), format!("{escaped} got out")),
    };
    lines.push(format!("  {verdict}, {} not applicable here", count.not_applicable));
    lines.join("\n")
}

fn as_json(cards: &[Scorecard], skipped: &[(Isolation, String)]) -> Value {
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

/// Whatever got out, or could not be tried, is told by the exit code.
fn verdict(cards: &[Scorecard]) -> Result<(), Failure> {
    let sum = |count: fn(&Scorecard) -> usize| cards.iter().map(count).sum::<usize>();
    if cards.is_empty() {
        let message = "no sandbox can be made here, so none was attacked";
        return Err(Failure::new(FailureKind::Sandbox, message).hint("`assize doctor` says why"));
    }
    let (escaped, broke) = (sum(|card| card.count().escaped), sum(|card| card.count().broke));
    if escaped > 0 {
        return Err(Failure::new(
            FailureKind::Verdict,
            format!("{escaped} probes got out of a sandbox"),
        )
        .hint("do not run what you do not trust in it; please report this"));
    }
    if broke > 0 {
        let message = format!("{broke} probes could not be tried, as the sandbox broke");
        return Err(Failure::new(FailureKind::Sandbox, message));
    }
    Ok(())
}
