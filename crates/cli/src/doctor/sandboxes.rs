//! Which sandboxes can be made here, as people read it.

use assize_service::doctor::SandboxFindings;

use crate::terminal::{BAD, BOLD, DIM, GOOD, harmless, paint};

pub(super) fn as_text(found: &SandboxFindings) -> Vec<String> {
    let mut lines = vec![paint(BOLD, "Sandboxes")];
    for finding in &found.backends {
        let name = finding.isolation.name();
        match &finding.tried {
            Ok(took) => {
                let used = found.used.as_ref().is_ok_and(|(used, _)| *used == finding.isolation);
                let used = if used {
                    format!("  {}", paint(GOOD.bold(), "← used"))
                } else {
                    String::new()
                };
                let millis = took.as_secs_f64() * 1e3;
                lines.push(format!(
                    "  {} {name:<8} made one in {millis:.0} ms{used}",
                    paint(GOOD, "✓")
                ));
                lines.extend(finding.how.as_ref().map(|how| format!("      {}", harmless(how))));
                lines.extend(
                    finding
                        .limits()
                        .map(|(limit, by)| paint(DIM, format!("      {limit:<12} {by}"))),
                );
            }
            Err(error) => {
                lines.push(format!(
                    "  {} {name:<8} {}",
                    paint(BAD, "✗"),
                    harmless(&error.to_string())
                ));
                let hints = error.hint().into_iter().flat_map(str::lines);
                lines.extend(hints.map(|hint| format!("      {}", harmless(hint))));
            }
        }
    }
    for (language, found) in &found.interpreters {
        let (mark, words) = match found {
            Ok(program) => (paint(GOOD, "✓"), program),
            Err(why) => (paint(DIM, "–"), why),
        };
        lines.push(format!("  {mark} {:<10} {}", language.name(), harmless(words)));
    }
    for (what, used) in
        [("In use for code:", &found.used), ("In use for debates:", &found.used_for_debates)]
    {
        lines.push(match used {
            Ok((isolation, why)) => {
                format!("{} {isolation} ({})", paint(BOLD, what), harmless(why))
            }
            Err(why) => format!("{} no sandbox: {}", paint(BAD, what), harmless(why)),
        });
    }
    lines
}
