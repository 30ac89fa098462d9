//! `assize attack`: the sandboxes themselves on trial, and the gate.

mod gate;

use std::sync::Arc;

use assize_attack::{Attack, AttackError, Count, Finding, Group, Options, Outcome, Scorecard};
use assize_code::Language;
use assize_config::{Environment, Isolation, Settings, Wanted};
use assize_sandbox::{Manager, SandboxError, Sandboxes, Spec};
use assize_service::scorecards::{self, Counted, Escaped};
use assize_types::{Failure, FailureKind};
use serde_json::{Value, json};

use crate::args::AttackArgs;
use crate::terminal::{
    self, BAD, BOLD, DIM, GOOD, WARN, harmless, out_json, out_line, paint, warn,
};
use crate::until_cancelled;

/// How many probes run at once.
const AT_ONCE: usize = 4;

pub(crate) async fn run(
    args: AttackArgs,
    config: &Settings,
    around: &Environment,
    cancel: assize_types::Cancel,
) -> Result<(), Failure> {
    config.refuse_withheld()?;
    if args.gate {
        return gate::run(&args, config, around, cancel).await;
    }
    let mut managers = Vec::new();
    let mut skipped = Vec::new();
    let wanted = wanted(args.isolation.as_deref())?;
    let one = wanted.len() == 1;
    let sandboxes = Sandboxes::new(config, around);
    for isolation in wanted {
        match available(isolation, &sandboxes).await {
            Ok(manager) => managers.push(manager),
            // What was asked for by name is not left out.
            Err(error) if one => return Err(error.into()),
            Err(error) => skipped.push((isolation, error.to_string())),
        }
    }
    let python = sandboxes.interpreter(Language::Python).map_err(|why| {
        let message = format!("the probes are written in Python: {why}");
        Failure::new(FailureKind::Sandbox, message)
    })?;
    let options =
        Options { interpreter: python.program, only: args.only.clone(), at_once: AT_ONCE };
    let attack = Attack::new(options).await.map_err(explain)?;
    let mut cards = Vec::new();
    for manager in managers {
        let name = manager.isolation();
        let mut progress =
            Progress { name, done: 0, all: attack.probes(name), draws: terminal::can_draw() };
        progress.draw("");
        let attacked = attack.run(&manager, |finding| progress.tell(finding));
        let card = until_cancelled(&cancel, async { Ok(attacked.await) }).await;
        terminal::draw(&[]);
        let card = card?;
        if !args.json {
            out_line(&as_text(&card, args.verbose))?;
        }
        // Only what tried everything says something about all of it.
        if args.only.is_none()
            && let Err(failure) = scorecards::keep(around, scored(&card))
        {
            warn(failure.message());
        }
        cards.push(card);
    }
    if args.json {
        out_json(&as_json(&cards, &skipped))?;
    } else {
        for (isolation, reason) in &skipped {
            out_line(&format!("{isolation} skipped: {}", harmless(reason)))?;
        }
    }
    verdict(&cards)
}

fn wanted(asked: Option<&str>) -> Result<Vec<Isolation>, Failure> {
    let wanted: Wanted = asked
        .unwrap_or("auto")
        .parse()
        .map_err(|error| Failure::from_error(FailureKind::Usage, &error))?;
    Ok(match wanted {
        Wanted::Auto => Isolation::ALL.into(),
        Wanted::Exactly(isolation) => vec![isolation],
        Wanted::AtLeast(floor) => {
            Isolation::ALL.into_iter().filter(|each| *each >= floor).collect()
        }
    })
}

/// One that can make sandboxes, shown by making one.
async fn available(isolation: Isolation, sandboxes: &Sandboxes) -> Result<Manager, SandboxError> {
    let backend = sandboxes.backend(isolation)?;
    sandboxes.attempt(Arc::clone(&backend), Spec::default()).await?;
    sandboxes.open(backend).await
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

/// What is kept of an attack, for whoever asks later.
fn scored(card: &Scorecard) -> scorecards::Scorecard {
    let counted = |title: &str, count: &Count| Counted {
        title: title.to_owned(),
        blocked: count.blocked,
        escaped: count.escaped,
        not_applicable: count.not_applicable,
        broke: count.broke,
    };
    let groups = card.by_group();
    let escaped = card.with(Outcome::Escaped).map(|one| Escaped {
        name: one.name.clone(),
        what: one.what.clone(),
        detail: one.detail.clone(),
    });
    scorecards::Scorecard {
        isolation: card.backend.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at: crate::drafts::show::now(),
        seconds: card.took.as_secs_f64(),
        groups: groups.iter().map(|(group, count)| counted(group.title(), count)).collect(),
        escaped: escaped.collect(),
    }
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

fn explain(error: AttackError) -> Failure {
    let kind = match &error {
        AttackError::NoneCalled(_) => FailureKind::Usage,
        AttackError::Interpreter(_) | AttackError::Fixtures(_) => FailureKind::Environment,
    };
    Failure::from_error(kind, &error)
}
