//! `assize attack`: attacks the sandboxes or the gate, and prints a scorecard.

mod gate;

use assize_config::{Isolation, RequestedIsolation};
use assize_service::Services;
use assize_service::attack::{AttackScorecard, ProbeFinding, ProbeGroup, ProbeOutcome, scorecards};
use assize_types::text::counted;
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::{Value, json};

use crate::args::AttackArgs;
use crate::terminal::{
    self, BAD, BOLD, DIM, GOOD, WARN, out_json, out_line, paint, replace_control_chars, warn,
};
use crate::until_cancelled;

pub(crate) async fn run(
    args: AttackArgs,
    services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    services.settings.reject_untrusted_values()?;
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
        // Only scorecards of complete attacks are stored, not those of attacks with `--only`.
        if args.only.is_none()
            && let Err(failure) = scorecards::save(&services.environment, (&card).into())
        {
            warn(failure.message());
        }
        cards.push(card);
    }
    if args.json {
        out_json(&as_json(&cards, &attack.skipped))?;
    } else {
        for (isolation, reason) in &attack.skipped {
            out_line(&format!("{isolation} skipped: {}", replace_control_chars(reason)))?;
        }
    }
    verdict(&cards)
}

/// Progress of the attack on one backend.
struct Progress {
    name: Isolation,
    done: usize,
    all: usize,
    draws: bool,
}

impl Progress {
    /// Counts a finished probe, and prints a warning if the probe escaped.
    fn add(&mut self, finding: &ProbeFinding) {
        self.done += 1;
        if finding.outcome == ProbeOutcome::Escaped {
            warn(&format!("the probe {} escaped: {}", finding.name, finding.detail));
        }
        self.draw(&finding.name);
    }

    fn draw(&self, last: &str) {
        if self.draws {
            let line = format!("{} · probe {} of {} · {last}", self.name, self.done, self.all);
            terminal::draw(&[paint(DIM, line)]);
        }
    }
}

fn as_text(card: &AttackScorecard, verbose: bool) -> String {
    let count = card.count();
    let mut lines = vec![format!(
        "{}  {} in {:.0} s",
        paint(BOLD, &card.backend),
        counted(card.findings.len(), "probe", "probes"),
        card.took.as_secs_f64()
    )];
    let counts = card.by_group();
    lines.push(paint(
        DIM,
        format!("  {:<30} {:>8} {:>8} {:>15}", "", "blocked", "escaped", "not applicable"),
    ));
    for group in ProbeGroup::ALL {
        let Some(count) = counts.get(group) else { continue };
        let mark = match (count.escaped, count.failed) {
            (0, 0) => paint(GOOD, "✓"),
            (0, _) => paint(WARN, "?"),
            _ => paint(BAD, "✗"),
        };
        let failed =
            if count.failed > 0 { format!("  {} failed", count.failed) } else { String::new() };
        lines.push(format!(
            "{mark} {:<30} {:>8} {:>8} {:>15}{failed}",
            group.title(),
            count.blocked,
            count.escaped,
            count.not_applicable
        ));
    }
    for finding in &card.findings {
        let style = match finding.outcome {
            ProbeOutcome::Escaped => BAD.bold(),
            ProbeOutcome::Failed => WARN,
            ProbeOutcome::Blocked | ProbeOutcome::NotApplicable if !verbose => continue,
            ProbeOutcome::Blocked | ProbeOutcome::NotApplicable => DIM,
        };
        let outcome = match finding.outcome {
            ProbeOutcome::Blocked => "blocked",
            ProbeOutcome::Escaped => "ESCAPED",
            ProbeOutcome::NotApplicable => "not applicable",
            ProbeOutcome::Failed => "failed",
        };
        let text = format!(
            "  {outcome:<14} {}: {} ({})",
            finding.name, finding.description, finding.detail
        );
        lines.push(paint(style, replace_control_chars(&text)));
    }
    let verdict = match count.escaped {
        0 => paint(GOOD.bold(), format!("no probe escaped: {} blocked", count.blocked)),
        escaped => paint(BAD.bold(), format!("{} escaped", counted(escaped, "probe", "probes"))),
    };
    lines.push(format!("  {verdict}, {} not applicable", count.not_applicable));
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

/// Fails if a probe escaped or could not be run, or if no backend was attacked. The failure sets the exit code.
fn verdict(cards: &[AttackScorecard]) -> Result<(), Failure> {
    let sum = |count: fn(&AttackScorecard) -> usize| cards.iter().map(count).sum::<usize>();
    if cards.is_empty() {
        let message = "no sandbox is available on this machine, so none was attacked";
        return Err(Failure::new(FailureKind::Sandbox, message)
            .hint("`assize doctor` shows why no sandbox works"));
    }
    let (escaped, failed) = (sum(|card| card.count().escaped), sum(|card| card.count().failed));
    if escaped > 0 {
        return Err(Failure::new(
            FailureKind::Verdict,
            format!("{} escaped from a sandbox", counted(escaped, "probe", "probes")),
        )
        .hint("do not run untrusted code in this kind of sandbox; please report the escape"));
    }
    if failed > 0 {
        let probes = counted(failed, "probe", "probes");
        let message = format!("{probes} could not be run because the probe or the sandbox failed");
        return Err(Failure::new(FailureKind::Sandbox, message));
    }
    Ok(())
}
